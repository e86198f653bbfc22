"""The record of a metric, and the one door by which metrics are asked: what they give is held to what they declare."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.errors import EvalframeError, Fault, OptionError, SchemaError
from evalframe.jsontext import clean, dumps
from evalframe.sandbox.policy import DEFAULT_POLICY, Policy
from evalframe.schemas import ROWS, TEXTS

Array = NDArray[np.float64]

# what ``measure`` gives, whatever the metric left out
MEASURED: dict[str, pl.DataType | type[pl.DataType]] = {
    "score": pl.Float64,
    "parts": pl.List(pl.Float64),
    "detail": pl.String,
}

# sums of rounded numbers may pass the end of a range by this share of its width: they are cut, not refused
ROUNDING = 1e-9


Several = Callable[[pl.DataFrame, Sequence[str]], Mapping[str, pl.DataFrame]]


@dataclass(frozen=True, slots=True)
class OneOf:
    """The ``compute`` of a metric that can share its work with others: see ``sharing_work``.

    Attributes:
        several: A function of a frame and of kinds, to the result of each kind.
        kind: The one that this metric is.
    """

    several: Several
    kind: str

    def __call__(self, frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
        return self.several(frame, [self.kind])[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Metric:
    """A metric. Called with one prediction and its targets it gives one score.

    Attributes:
        name: The metric id.
        compute: A function of a frame with the columns ``prediction`` (String, no nulls), ``targets`` (List(String),
            may be empty) and those of ``needs``, and of the sandbox policy (for metrics that run code). Gives a frame
            of the same height: ``score`` (Float64, no null, no NaN), and where it has them ``parts`` (List(Float64))
            and ``detail`` (JSON text). Call ``measure``, which checks what comes.
        needs: Columns of ROWS beyond ``targets``.
        range: Lowest and highest score, both finite: an answer that is missing scores the worst end.
        higher_is_better: The direction.
        binary: Scores are 0 or 1, or only a full 1 counts as correct; else a score from 0.5 up counts as correct.
        needs_target: Whether a task without a target can not use it.
        aggregate: A function of summed parts, shape (..., k), to values, shape (...); None: the mean of the scores.
        description: One line.
        source: The paper and equation, or the implementation that it equals.
        parameters: What ``metric_alias`` can set: name to value.
        remake: A function of the parameters (keywords) to this metric with them; None where it has none.
        origin: The module and name of the user's definition; empty for a built-in metric.
    """

    name: str
    compute: Callable[[pl.DataFrame, Policy], pl.DataFrame] = field(repr=False)
    needs: tuple[str, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    binary: bool = False
    needs_target: bool = True
    aggregate: Callable[[Array], Array] | None = field(default=None, repr=False)
    description: str = ""
    source: str = field(default="", repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    remake: Callable[..., Metric] | None = field(default=None, repr=False)
    origin: str = field(default="", repr=False)

    def __repr__(self) -> str:
        low, high = self.range
        direction = "higher" if self.higher_is_better else "lower"
        combined = "a mean" if self.aggregate is None else "summed parts"
        lines = [
            f"Metric {self.name!r}: {self.description}".rstrip(": "),
            f"  scores {low:g} to {high:g}, {direction} is better, combined by {combined}",
        ]
        if self.parameters:
            shown = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
            lines.append(f"  parameters: {shown} (evalframe.metric_alias sets them)")
        if self.needs:
            lines.append(f"  needs: {', '.join(self.needs)}")
        return "\n".join([*lines, f'  try it: evalframe.score("{self.name}", "a prediction", ["a target"])'])

    @property
    def worst(self) -> float:
        """The score of a completed sample without an answer."""
        return self.range[0] if self.higher_is_better else self.range[1]

    def measure(
        self, frame: pl.DataFrame, *, policy: Policy = DEFAULT_POLICY, keys: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Score whole columns.

        Args:
            frame: ``prediction``, ``targets`` and the columns of ``needs``; others are not handed on.
            policy: What code under test may use.
            keys: Columns that name the rows in messages, of the same height; None: the row's position.

        Returns:
            ``score`` (Float64, finite, in the range), ``parts`` (null: the metric has none), ``detail`` (null: none).

        Raises:
            SchemaError: A column is missing, or the metric gave another number of rows, a null, NaN, an infinity or
                a score out of its range: the message names the metric, the row and the value.
            EvalframeError: The metric's function raised; names the metric and the error.
        """
        if missing := [name for name in ("prediction", "targets", *self.needs) if name not in frame.columns]:
            raise SchemaError(
                f"the metric {self.name!r} needs the columns {', '.join(missing)}, which the rows do not have; "
                "name these fields of the data where the rows are made"
            )
        if nulls := frame["prediction"].null_count():
            raise SchemaError(f"the metric {self.name!r} was given {nulls} null predictions; leave these rows out")
        targets = frame["targets"].cast(TEXTS)
        if targets.explode(empty_as_null=False, keep_nulls=False).null_count():  # rare, and dropping takes its time
            targets = targets.list.drop_nulls()
        columns = ["prediction", targets, *self.needs]
        try:
            result = self.compute(frame.select(columns), policy)
        except EvalframeError:
            raise
        except Exception as error:
            raise EvalframeError(f"the metric {self.name!r} raised {type(error).__name__}: {error}") from error
        return self._checked(result, frame, keys)

    def __call__(
        self, prediction: str, targets: Sequence[str], *, policy: Policy = DEFAULT_POLICY, **columns: Any
    ) -> float:
        """Score one prediction with the code that scores columns; see ``evalframe.metrics.score``."""
        frame = _one_row(self, prediction, targets, columns)
        return float(self.measure(frame, policy=policy)["score"].item())

    def _checked(self, result: Any, frame: pl.DataFrame, keys: pl.DataFrame | None) -> pl.DataFrame:
        """Hold what the metric gave to its declaration, and complete it to ``score``, ``parts``, ``detail``."""
        what = f"the metric {self.name!r}"
        if not isinstance(result, pl.DataFrame) or "score" not in result.columns:
            raise SchemaError(f"{what} gave {_kind(result)}; it has to give a frame with a column score")
        if unknown := [name for name in result.columns if name not in MEASURED]:
            raise SchemaError(f"{what} gave the columns {', '.join(unknown)}; only {', '.join(MEASURED)} are known")
        if result.height != frame.height:
            raise SchemaError(
                f"{what} gave {result.height} scores for {frame.height} rows; it has to give one score a row "
                "(an expression that aggregates gives a single one)"
            )
        dtype = result.schema["score"]
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            raise SchemaError(f"{what} gave scores of type {dtype}; they have to be numbers or booleans")
        try:
            result = result.select(
                (pl.col(name) if name in result.columns else pl.lit(None).alias(name)).cast(dtype)
                for name, dtype in MEASURED.items()
            )
        except pl.exceptions.PolarsError as error:
            raise SchemaError(f"{what} gave parts that are no lists of numbers, or a detail that is no text") from error
        if faults := [*self._score_faults(result, frame, keys), *self._part_faults(result, frame, keys)]:
            raise SchemaError.of(faults, what=what)
        checked: pl.DataFrame = result.with_columns(pl.col("score").clip(*self.range))
        return checked

    def _score_faults(self, result: pl.DataFrame, frame: pl.DataFrame, keys: pl.DataFrame | None) -> Iterable[Fault]:
        low, high = self.range
        slack = (high - low) * ROUNDING
        score = pl.col("score")
        bad = ~(score.is_finite() & score.is_between(low - slack, high + slack)).fill_null(False)
        for row in result.select(bad.arg_true().head(5)).to_series():
            value = result["score"][row]
            detail = f"{value} for the prediction {_short(frame['prediction'][row])}"
            yield Fault(_place(row, keys), "bad_score", detail, f"give a number from {low:g} to {high:g}")

    def _part_faults(self, result: pl.DataFrame, frame: pl.DataFrame, keys: pl.DataFrame | None) -> Iterable[Fault]:
        if self.aggregate is None:
            if result["parts"].null_count() < result.height:
                yield Fault("parts", "bad_parts", "nothing adds them up", "give the metric an aggregate, or no parts")
            return
        finite = pl.col("parts").list.eval(pl.element().is_finite().fill_null(False)).list.all().fill_null(False)
        # a sample without a target may have none: it takes no part in the aggregate
        excused = frame["targets"].list.len() == 0
        for row in result.select((~finite & ~(excused & pl.col("parts").is_null())).arg_true().head(5)).to_series():
            yield Fault(_place(row, keys), "bad_parts", f"parts are {result['parts'][row]}", "give finite numbers")
        if len(lengths := sorted(set(result["parts"].list.len().drop_nulls()))) > 1:
            yield Fault(
                "parts", "bad_parts", f"are lists of the lengths {lengths}", "give the same number of parts a row"
            )


def sharing_work(metrics: Sequence[Metric]) -> list[Metric]:
    """Give the same metrics, but those that can share work (``OneOf``) do it once for equal frames.

    The results are kept as long as the metrics that are given: ask them of the same calls, and let them go.
    """
    kinds: dict[Any, list[str]] = {}
    for metric in metrics:
        if isinstance(metric.compute, OneOf):
            kinds.setdefault(metric.compute.several, []).append(metric.compute.kind)
    once = {several: _once(several, asked) for several, asked in kinds.items()}
    return [
        replace(metric, compute=replace(metric.compute, several=once[metric.compute.several]))
        if isinstance(metric.compute, OneOf)
        else metric
        for metric in metrics
    ]


def _once(several: Several, kinds: Sequence[str]) -> Several:
    """Make a function that computes all these kinds for a frame when it is first asked for one of them."""
    done: list[tuple[pl.DataFrame, Mapping[str, pl.DataFrame]]] = []

    def remembered(frame: pl.DataFrame, _: Sequence[str]) -> Mapping[str, pl.DataFrame]:
        for seen, results in done:
            if seen.equals(frame):
                return results
        done.append((frame, several(frame, kinds)))
        return done[-1][1]

    return remembered


# what a column that the scalar door was not given says
_NOTHING_SAID = {"row": "{}", "metadata": "{}", "extraction": "{}", "prompt": ""}


def _one_row(metric: Metric, prediction: Any, targets: Any, columns: Mapping[str, Any]) -> pl.DataFrame:
    faults = []
    if not isinstance(prediction, str):
        faults.append(
            Fault("prediction", "bad_type", f"is {_kind(prediction)}, not text",
                  f"a missing answer is not scored: in a run it counts as the worst value, {metric.worst:g}")
        )  # fmt: skip
    if isinstance(targets, str) or not isinstance(targets, Sequence) or not all(isinstance(t, str) for t in targets):
        faults.append(Fault("targets", "bad_type", f"is {_short(targets)}, not a list of texts", 'give ["…"]'))
    if unknown := [name for name in columns if name not in metric.needs]:
        known = ", ".join(metric.needs) or "none"
        faults.append(Fault("columns", "unknown_key", f"{', '.join(unknown)} are not used", f"known: {known}"))
    values: dict[str, Any] = {}
    for name in metric.needs:
        column = row_column(name)
        value = columns.get(name, _NOTHING_SAID.get(name))
        if value is None and not (column and column.nullable):
            faults.append(Fault(name, "missing", f"the metric {metric.name!r} needs it", f"give {name}=…"))
        is_text = column is not None and column.dtype == pl.String
        values[name] = (
            clean(value if isinstance(value, str) else dumps(value)) if is_text and value is not None else value
        )
    if faults:
        raise OptionError.of(faults, what=f"score({metric.name!r})")
    needed = {name: column.dtype for name in metric.needs if (column := row_column(name))}
    return pl.DataFrame(
        {"prediction": [clean(prediction)], "targets": [[clean(t) for t in targets]]}
        | {name: [value] for name, value in values.items()},
        schema={"prediction": pl.String, "targets": TEXTS, **needed},
    )


def row_column(name: str) -> Any:
    """Give the column of ROWS, or the family, that a name belongs to; None where there is none."""
    fixed = next((column for column in ROWS.fixed if column.name == name), None)
    family = ROWS.family_of(name)
    return fixed or (family if family and name != family.name else None)


def _place(row: int, keys: pl.DataFrame | None) -> str:
    return f"row {row}" if keys is None else " ".join(f"{k}={v}" for k, v in keys.row(row, named=True).items())


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else text[:59] + "…"


def _kind(value: Any) -> str:
    if isinstance(value, pl.DataFrame):
        return f"a frame with the columns {', '.join(value.columns) or '(none)'}"
    return "None" if value is None else f"a {type(value).__name__}"
