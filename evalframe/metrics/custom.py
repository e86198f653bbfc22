"""Metrics of the user's own: ``@metric`` registers a function, ``metric_alias`` a metric with other parameters."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from evalframe.errors import EvalframeError, Fault, OptionError, SchemaError
from evalframe.frames import example
from evalframe.metrics.record import Array, Metric, row_column
from evalframe.registry import METRICS, suggestion
from evalframe.sandbox.policy import Policy
from evalframe.schemas import ROWS, TEXTS

_ID = re.compile(r"[A-Za-z0-9_.-]+")


def metric(
    name: str,
    *,
    range: tuple[float, float] = (0.0, 1.0),
    higher_is_better: bool = True,
    needs: Sequence[str] = (),
    binary: bool | None = None,
    needs_target: bool = True,
    aggregate: Callable[[Array], Array] | None = None,
    description: str = "",
    source: str = "",
) -> Callable[[Callable[..., Any]], Metric]:
    """Register a function as a metric.

    The function takes two expressions, prediction and targets (a list of texts), or one frame with these columns and
    those of ``needs``. It gives one score a row: an expression, a Series, or a frame with ``score`` and where it has
    them ``parts`` and ``detail`` (JSON text). Keyword-only arguments with defaults are its parameters, which
    ``metric_alias`` sets. The function's name then stands for the ``Metric``: call it with one prediction and a list
    of targets to try it.

    The function is tried at once on four rows, on these in reverse, on one row and on none, so that most mistakes
    show here and not after the paid calls. The same definition run again (same module, same function name: a
    notebook cell, a reloaded module) replaces the one before; any other use of a taken name is an error.

    Args:
        name: The metric id: letters, digits, ``_``, ``.``, ``-``.
        range: Lowest and highest score, both finite: an unparsed answer scores the worst end.
        higher_is_better: The direction.
        needs: Columns of the rows beyond ``targets``, ``row.<field>`` and ``metadata.<key>`` included; these two are
            text, and null where the field is missing.
        binary: Whether only a full 1 counts as correct; None: true where the function gives booleans.
        needs_target: Whether a row without a target scores the worst value; else the function sees such rows.
        aggregate: A function of summed ``parts``, an array (..., k), to values (...); None: the mean of the scores.
            An unparsed answer brings the parts of the empty text.
        description: One line; "": the first line of the function's docstring.
        source: The paper and equation, or the implementation that it equals.

    Raises:
        NameTakenError: The name is taken.
        OptionError: A setting is wrong, or the function fails on the small frame.

    Example::

        @evalframe.metric("short")
        def short(prediction, targets, *, most=20):
            return prediction.str.len_chars() <= most


        short("four", ["any"])  # 1.0
        evalframe.metric_alias("very_short", "short", most=3)
    """
    if not isinstance(name, str):  # the decorator without parentheses
        raise OptionError('a metric needs an id: write @evalframe.metric("name", range=(0, 1))')

    def register(function: Callable[..., Any]) -> Metric:
        takes_frame, parameters, faults = _signature(function)
        faults += _setting_faults(name, range, needs)
        if faults:
            raise OptionError.of(faults, what=f"the metric {name!r}")
        compute = _Function(function, takes_frame, needs_target, parameters)
        settings: dict[str, Any] = {
            "name": name,
            "needs": tuple(dict.fromkeys(column for column in needs if column != "targets")),
            "range": (float(range[0]), float(range[1])),
            "higher_is_better": higher_is_better,
            "needs_target": needs_target,
            "aggregate": aggregate,
            "description": description or (inspect.getdoc(function) or "").partition("\n")[0],
            "source": source,
            "origin": f"{function.__module__}:{function.__qualname__}",
        }
        gives_booleans = _try_out(compute.as_metric(**settings))
        return _register(compute.as_metric(binary=gives_booleans if binary is None else binary, **settings))

    return register


def metric_alias(name: str, of: str, **parameters: Any) -> Metric:
    """Register a metric with other parameters under an id of its own.

    The same alias run again in the same module replaces the one before, as in a notebook.

    Args:
        name: The new metric id.
        of: The registered metric.
        **parameters: Those to set; the others stay as they are in ``of``.

    Raises:
        NameTakenError: The new name is taken.
        UnknownNameError: No metric has the name ``of``.
        OptionError: The metric has no such parameter, or refuses the value; lists what it has.

    Example::

        evalframe.metric_alias("close", "numeric_match", abs_tol=0.01)("3.14", ["3.1416"])  # 1.0
    """
    base: Metric = METRICS.get(of)
    faults = _setting_faults(name, base.range, ())
    for unknown in (key for key in parameters if key not in base.parameters):
        known = suggestion(unknown, base.parameters) if base.parameters else f"{of} has no parameters"
        faults.append(Fault(unknown, "unknown_key", f"is no parameter of the metric {of!r}", known))
    if faults:
        raise OptionError.of(faults, what=f"metric_alias({name!r}, {of!r})")
    made = base.remake(**{**base.parameters, **parameters}) if parameters and base.remake else base
    caller = sys._getframe(1).f_globals.get("__name__", "")
    made = replace(made, name=name, origin=f"{caller}:alias of {of}")
    if parameters:
        _try_out(made)
    return _register(made)


@dataclass(frozen=True, slots=True)
class _Function:
    """A user's function with its parameters, as the ``compute`` of a metric."""

    call: Callable[..., Any]
    takes_frame: bool
    needs_target: bool
    parameters: Mapping[str, Any]
    worst: float = 0.0

    def as_metric(self, **settings: Any) -> Metric:
        made = Metric(compute=self, **settings)

        def remake(**parameters: Any) -> Metric:
            compute = replace(self, parameters=parameters, worst=made.worst)
            return replace(made, compute=compute, parameters=parameters, remake=remake if parameters else None)

        return remake(**self.parameters)

    def __call__(self, frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
        if not self.needs_target:
            return self._scores(frame)
        placed = frame.with_row_index("place")
        has_target = pl.col("targets").list.len() > 0
        targeted = placed.filter(has_target)
        scores = self._scores(targeted.drop("place"))
        if scores.height != targeted.height or targeted.height == frame.height:
            return scores
        spread = placed.join(scores.with_columns(targeted["place"]), on="place", how="left", maintain_order="left")
        score = pl.when(has_target).then(pl.col("score").cast(pl.Float64)).otherwise(self.worst)
        return spread.with_columns(score=score).select(scores.columns)

    def _scores(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.takes_frame:
            result = self.call(frame, **self.parameters)
        else:
            result = self.call(pl.col("prediction"), pl.col("targets"), **self.parameters)
        if isinstance(result, pl.Expr):
            return frame.select(result.alias("score"))
        if isinstance(result, pl.Series):
            return pl.DataFrame({"score": result})
        if isinstance(result, pl.DataFrame):
            return result
        raise SchemaError(f"a metric gives an expression, a Series or a frame, not {type(result).__name__}")


def _signature(function: Callable[..., Any]) -> tuple[bool, dict[str, Any], list[Fault]]:
    """Read whether a function takes a frame, its parameters with their defaults, and what is wrong with it."""
    faults = []
    found = inspect.signature(function).parameters.values()
    places = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [p for p in found if p.kind is p.KEYWORD_ONLY]
    if len(places) not in (1, 2) or any(p.kind is p.VAR_POSITIONAL for p in found):
        faults.append(
            Fault("function", "bad_value", f"takes {inspect.signature(function)}",
                  "take (prediction, targets), two expressions, or (frame); parameters stand after a *")
        )  # fmt: skip
    if open_ended := [p.name for p in found if p.kind is p.VAR_KEYWORD]:
        faults.append(Fault("function", "bad_value", f"takes **{open_ended[0]}", "name its parameters after a *"))
    faults += [
        Fault(f"function({p.name})", "bad_value", "is a parameter without a default", "give it one")
        for p in named
        if p.default is p.empty
    ]
    return len(places) == 1, {p.name: p.default for p in named}, faults


def _setting_faults(name: str, range: tuple[float, float], needs: Sequence[str]) -> list[Fault]:
    faults = []
    if not isinstance(name, str) or not _ID.fullmatch(name):
        faults.append(Fault("name", "bad_value", f"is {name!r}", "use letters, digits, '_', '.' and '-'"))
    ends = list(range) if isinstance(range, Iterable) else []
    if len(ends) != 2 or not all(_is_finite(end) for end in ends) or not ends[0] < ends[1]:
        faults.append(
            Fault("range", "bad_value", f"is {range!r}", "give two finite numbers, the lower first: an answer that is "
                  "missing scores the worst end")
        )  # fmt: skip
    if isinstance(needs, str):
        faults.append(Fault("needs", "bad_type", f"is the text {needs!r}", f"give a tuple: ({needs!r},)"))
        return faults
    known = [*ROWS.names, *(f"{family.name}<name>" for family in ROWS.families)]
    faults += [
        Fault("needs", "unknown_column", f"rows have no column {column!r}", suggestion(column, known))
        for column in needs
        if row_column(column) is None
    ]
    return faults


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _small_frame(needs: Sequence[str]) -> pl.DataFrame:
    """Give four rows on which any sane metric works: texts that are words and numbers at once, one or two targets."""
    rows = example(ROWS, 4).with_columns(row=pl.lit("{}"), metadata=pl.lit("{}"))
    texts = {"prediction": ["1", "2", "3", "4"], "targets": [["1"], ["1", "2"], ["4", "5"], ["6"]]}
    frame = pl.DataFrame(texts, schema={"prediction": pl.String, "targets": TEXTS})
    return frame.with_columns(rows[name] if name in rows.columns else pl.lit("1").alias(name) for name in needs)


def _try_out(made: Metric) -> bool:
    """Ask a metric on a small frame, whole and in pieces; say whether it gives booleans.

    Raises:
        OptionError: It fails there, or the score of a row depends on the other rows.
    """
    frame = _small_frame(made.needs)
    try:
        whole = made.measure(frame)["score"]
        pieces = [made.measure(frame.reverse())["score"].reverse(), made.measure(frame.head(1))["score"]]
        made.measure(frame.clear())
    except EvalframeError as error:
        raise OptionError(f"tried on a small frame: {error.message}", error.fault_records) from error
    width = made.range[1] - made.range[0]
    if any(((piece - whole.head(len(piece))).abs() > 1e-6 * width).any() for piece in pieces):
        raise OptionError(
            f"the metric {made.name!r} scores a row otherwise when other rows stand beside it or in another order; "
            "a metric scores each row by itself: use aggregate= for figures of a whole corpus"
        )
    return isinstance(made.compute, _Function) and made.compute(frame, Policy()).schema["score"] == pl.Boolean


def _register(made: Metric) -> Metric:
    """Put a metric under its name; over an older one only where it is the same definition run again."""
    there = METRICS._entries.get(made.name) if made.name in METRICS else None
    module, _, defined = made.origin.partition(":")
    if isinstance(there, str):  # an entry point that is being loaded: this very definition, under its own name
        again = there.partition(":")[0] == module
    else:
        again = isinstance(there, Metric) and there.origin == made.origin and not defined.endswith("<lambda>")
    entry: Metric = METRICS.register(made.name, made, replace=again)
    return entry
