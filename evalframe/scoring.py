"""ANSWERS -> SCORES: each metric asked once, over whole columns; no fate mixed with another."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import polars as pl

from evalframe.errors import EvalframeError, Fault, SandboxError, SchemaError
from evalframe.fields import read_field
from evalframe.frames import check, empty
from evalframe.jsontext import JsonTextError, clean, dumps, loads
from evalframe.metrics import Metric
from evalframe.metrics.record import sharing_work
from evalframe.metrics.thresholds import is_correct
from evalframe.registry import METRICS
from evalframe.sandbox.policy import DEFAULT_POLICY, Policy
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS, ROWS, SCORES
from evalframe.summarising import declared_metrics


class MetricWarning(UserWarning):
    """A metric failed on a call, whose score is therefore null with fate ``grader_error``."""


def score_answers(
    answers: pl.DataFrame, *, generations: pl.DataFrame, rows: pl.DataFrame, policy: Policy = DEFAULT_POLICY
) -> pl.DataFrame:
    """Compute each registered metric of each task for all calls that were made.

    A completed call with an answer is ``scored``. Without one it is ``unparsed`` and gets the metric's worst value;
    its ``parts``, where the metric has them, are those of the empty text, so that it weighs in a corpus figure too.
    A failed call is ``failed`` and null; a skipped one has no row. Where a metric raises or gives what is no score, the
    calls at fault are ``grader_error`` and null, with the error in ``detail`` and one warning; the others keep theirs.
    Metric ids that are not registered are a grader's and have no rows here.

    Direction: lower is better where the registered metric or the task's declaration says so (``true`` is the
    declaration's default, so it can not overrule a metric that knows itself). The worst value follows it: an answer
    that is missing never helps.

    Frame in:
        ANSWERS, GENERATIONS, ROWS.

    Frame out:
        SCORES, in the order of the generations, metrics sorted by name. ``detail`` holds ``extraction_status`` and
        ``extraction_rule`` of an unparsed call, ``error_type`` of a failed one, else what the metric says; where it
        says something, ``extraction_rule`` is added.

    Args:
        answers: Of the same calls as ``generations``.
        generations: All calls, or a segment of them.
        rows: The samples of these calls; more is no harm. A ``row.<path>`` or ``metadata.<key>`` that a metric needs
            and that is no column is read from ``row`` or ``metadata``.
        policy: What code under test may use.

    Nulls: no calls, or no registered metric, is an empty frame.

    Raises:
        SchemaError: A frame is not what it is called, or a completed call has no extraction or no row.
        SandboxError: A metric needs to run code that may not run here.
    """
    check(answers, ANSWERS)
    check(generations, GENERATIONS)
    check(rows, ROWS)
    calls = _calls(answers, generations, rows)
    asked = declared_metrics(rows).filter("registered")
    scored = []
    tasks_of = asked.sort("metric", maintain_order=True).group_by("metric", maintain_order=True).agg("task_id")
    for names in tasks_of.group_by("task_id", maintain_order=True).agg("metric")["metric"]:  # asked of the same calls
        for metric in sharing_work([METRICS.get(name) for name in names]):
            tasks = asked.filter(metric=metric.name).select("task_id", "higher_is_better")
            its_calls = calls.join(tasks, on="task_id", how="inner", maintain_order="left")
            scored.append(_score_metric(metric, its_calls, rows, policy))
    if not scored:
        return empty(SCORES)
    return check(pl.concat(scored).sort("call", "metric").select(SCORES.names), SCORES)


def _measure(metric: Metric, inputs: pl.DataFrame, policy: Policy, keys: pl.DataFrame) -> pl.DataFrame:
    """Ask a metric; where it fails, find the calls at fault by halving, so that no call loses its score to another."""
    try:
        return metric.measure(inputs, policy=policy, keys=keys)
    except SandboxError:
        raise
    except EvalframeError as error:
        if inputs.height > 1:
            half = inputs.height // 2
            halves = [(inputs[:half], keys[:half]), (inputs[half:], keys[half:])]
            return pl.concat(_measure(metric, part, policy, its_keys) for part, its_keys in halves)
        if inputs.is_empty():
            raise
        detail = dumps({"error_type": type(error.__cause__ or error).__name__, "error_message": clean(str(error))})
        nothing = {"score": None, "parts": None, "detail": detail}
        return pl.DataFrame([nothing], schema={"score": pl.Float64, "parts": pl.List(pl.Float64), "detail": pl.String})


def _calls(answers: pl.DataFrame, generations: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Put the calls that were made beside their answers, with the place of their sample in ``rows``."""
    made = generations.select(*CALL_KEY, "status", "error_type").filter(pl.col("status") != "skipped")
    places = rows.select("task_id", "sample_index").with_row_index("row_place")
    calls = (
        made.with_row_index("call")
        .join(answers, on=CALL_KEY, how="left", maintain_order="left")
        .join(places, on=("task_id", "sample_index"), how="left", maintain_order="left")
    )
    no_extraction = (pl.col("status") == "completed") & pl.col("extraction_status").is_null()
    faults = [
        *_call_faults(calls.filter(pl.col("row_place").is_null()), "has no row in rows", "give all rows of the run"),
        *_call_faults(calls.filter(no_extraction), "is completed but was not extracted", "extract these generations"),
        *_call_faults(
            answers.join(generations, on=CALL_KEY, how="anti", maintain_order="left"),
            "has an answer but no generation", "give the generations that were extracted",
        ),
    ]  # fmt: skip
    if faults:
        raise SchemaError.of(faults, what="answers, generations and rows do not belong together")
    return calls


def _call_faults(calls: pl.DataFrame, detail: str, remedy: str) -> Iterable[Fault]:
    if calls.height:
        where = " ".join(f"{k}={v}" for k, v in calls.select(CALL_KEY).row(0, named=True).items())
        more = f" ({calls.height} calls in all)" if calls.height > 1 else ""
        yield Fault(where, "unmatched", f"{detail}{more}", remedy)


def _score_metric(metric: Metric, calls: pl.DataFrame, rows: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the rows of SCORES of one metric, with the place ``call``."""
    completed, failed = calls.filter(status="completed"), calls.filter(status="failed")
    answered = completed.filter(pl.col("extracted_output").is_not_null())
    unparsed = completed.filter(pl.col("extracted_output").is_null())
    measured = _measure(metric, _inputs(metric, answered, rows), policy, answered.select(CALL_KEY))
    if n_lost := measured["score"].null_count():
        first = measured.filter(pl.col("score").is_null())["detail"][0]
        warnings.warn(f"the metric {metric.name!r} gave no score for {n_lost} calls; the first: {first}", MetricWarning,
                      stacklevel=4)  # fmt: skip
    low, high = map(float, metric.range)
    parts = pl.Series("parts", [None] * unparsed.height, dtype=SCORES.dtypes["parts"])
    if metric.aggregate is not None:
        nothing = _inputs(metric, unparsed.with_columns(extracted_output=pl.lit("")), rows)
        parts = metric.measure(nothing, policy=policy, keys=unparsed.select(CALL_KEY))["parts"]
    fates = [
        answered.with_columns(
            measured["score"], measured["parts"], _with_rule(measured["detail"], answered["extraction_rule"]),
            fate=pl.when(measured["score"].is_null()).then(pl.lit("grader_error")).otherwise(pl.lit("scored")),
        ),
        unparsed.with_columns(
            parts,
            score=pl.when("higher_is_better").then(low).otherwise(high),
            detail=pl.struct("extraction_status", "extraction_rule").struct.json_encode(),
            fate=pl.lit("unparsed"),
        ),
        failed.with_columns(
            pl.lit(None, dtype=pl.Float64).alias("score"),
            pl.lit(None, dtype=SCORES.dtypes["parts"]).alias("parts"),
            detail=pl.struct("error_type").struct.json_encode(),
            fate=pl.lit("failed"),
        ),
    ]  # fmt: skip
    correct = is_correct(metric.name).alias("correct")
    return pl.concat(
        frame.with_columns(metric=pl.lit(metric.name)).with_columns(correct).select("call", *SCORES.names)
        for frame in fates
    )


def _inputs(metric: Metric, calls: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Give the columns that a metric asks for: one row a call."""
    samples = rows.select("targets", *(name for name in metric.needs if name in rows.columns))[calls["row_place"]]
    read = [_field(name, rows, calls["row_place"]) for name in metric.needs if name not in rows.columns]
    return samples.with_columns(calls["extracted_output"].alias("prediction"), *read)


def _field(name: str, rows: pl.DataFrame, places: pl.Series) -> pl.Series:
    """Read a field that no column was made of: ``row.<path>`` or ``metadata.<key>``, null where it is missing."""
    source, _, path = name.partition(".")
    used = places.unique().sort()
    return read_field(rows[source][used], path)["text"][used.search_sorted(places)].alias(name)


def _with_rule(details: pl.Series, rules: pl.Series) -> pl.Series:
    """Add which rule took the answer, where the metric has something to say (which fence the tested code stood in).

    In Python, call by call: a metric that explains itself is one that ran a program for it.
    """
    if details.null_count() == len(details):
        return details
    merged = [None if detail is None else _merged(detail, rule) for detail, rule in zip(details, rules, strict=True)]
    return pl.Series("detail", merged, dtype=pl.String)


def _merged(detail: str, rule: str | None) -> str:
    try:
        said = loads(detail)
    except JsonTextError as error:
        raise SchemaError(f"a metric gave the detail {detail[:60]!r}, which is not JSON: {error}") from None
    return dumps({"extraction_rule": rule, **said}) if isinstance(said, dict) else detail
