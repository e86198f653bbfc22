"""ANSWERS -> SCORES -> TASK_METRICS: each metric asked once, over whole columns; no fate mixed with another."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import get_args

import numpy as np
import polars as pl

from evalframe.errors import EvalframeError, Fault, SandboxError, SchemaError
from evalframe.fields import read_field
from evalframe.frames import FrameSchema, check, empty
from evalframe.jsontext import JsonTextError, clean, dumps, loads
from evalframe.metrics import Metric
from evalframe.metrics.record import sharing_work
from evalframe.registry import METRICS
from evalframe.sandbox.policy import DEFAULT_POLICY, Policy
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS, ROWS, SCORES, TASK_METRICS
from evalframe.words import Fate

# what the summary needs of GENERATIONS: the texts of a large run would not fit
OUTCOMES = FrameSchema("outcomes", "what became of one call", GENERATIONS.columns[:5], key=CALL_KEY)
FULL_MARKS = 1 - 1e-6  # rounding apart, a 1
HALF_MARKS = 0.5
GROUP = ("model_id", "task_id", "metric")


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
    asked = _declared(rows).filter("registered")
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
    correct = _is_correct(metric.name).alias("correct")
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


def _is_correct(metric_id: str) -> pl.Expr:
    """Say from the columns ``score`` and ``higher_is_better`` whether a sample counts as correct.

    A 0/1 metric asks for a full 1, all others (a grader's ids too) for a half. Null where there is no score, where
    the metric leaves [0, 1], and where lower is better.
    """
    known: Metric | None = METRICS.get(metric_id) if metric_id in METRICS else None
    if known is not None and not 0 <= known.range[0] < known.range[1] <= 1:
        return pl.lit(None, dtype=pl.Boolean)
    threshold = FULL_MARKS if known is not None and known.binary else HALF_MARKS
    has_threshold = pl.col("higher_is_better") & pl.col("score").is_between(0, 1)
    return pl.when(has_threshold).then(pl.col("score") >= threshold)


def _declared(rows: pl.DataFrame) -> pl.DataFrame:
    """Give each metric that a task declares: (task_id, metric) with ``category``, ``aggregation``, the direction,
    ``headline`` and whether the id is ``registered``. A task's first row speaks for it.
    """
    tasks = rows.unique("task_id", keep="first", maintain_order=True).select("task_id", "category", "metrics")
    choices = tasks.explode("metrics").unnest("metrics").rename({"id": "metric"})
    names = choices["metric"].unique()
    registered = [name for name in names if name in METRICS]
    lower = [name for name in registered if not METRICS.get(name).higher_is_better]
    is_mean = pl.col("aggregation") == "mean"
    return choices.with_columns(
        registered=pl.col("metric").is_in(registered),
        higher_is_better=pl.col("higher_is_better") & ~pl.col("metric").is_in(lower),
        headline=is_mean & (is_mean.cast(pl.Int64).cum_sum().over("task_id") == 1),
    )


def summarise_tasks(
    scores: pl.DataFrame, *, rows: pl.DataFrame, generations: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Aggregate the scores of each metric over each task, for each model.

    Repeats are averaged within their sample first, then samples are averaged, each the same. A corpus metric averages
    the parts of the repeats, sums them over the samples and takes its aggregate of the sums. ``scored`` and
    ``unparsed`` calls are in the value, ``failed`` and ``grader_error`` are not; a sample of which no repeat has a
    score is in no mean.

    Frame in:
        SCORES, ROWS, GENERATIONS (or a part of its columns).

    Frame out:
        TASK_METRICS. Counts are of calls. With ``generations``, a model that was never called on a task has its
        rows too, with a null value.

    Args:
        scores: Of all calls, not of a segment.
        rows: The samples; they declare aggregation, direction (see ``score_answers``) and the headline metric.
        generations: Of the same calls, or only their keys and ``status``; None: skipped calls are not known and
            count 0.

    Nulls: nothing scored is a null value with its counts; aggregation ``none`` is a null value; a metric that the
    task does not declare counts as aggregation ``none``.

    Raises:
        SchemaError: A frame is not what it is called, a task has no rows, or an aggregate is no finite number.
        UnknownNameError: A corpus metric is not registered in this process, so its parts can not be aggregated.
    """
    check(scores, SCORES)
    check(rows, ROWS)
    declared = _declared(rows)
    groups = [scores.select(GROUP)]
    skipped = pl.DataFrame(schema={"model_id": pl.String, "task_id": pl.String, "n_skipped": pl.Int64})
    if generations is not None:
        check(generations.select(name for name in OUTCOMES.names if name in generations.columns), OUTCOMES)
        planned = generations.select("model_id", "task_id").unique()
        groups.append(planned.join(declared.filter("registered"), on="task_id").select(GROUP))
        skipped = generations.group_by("model_id", "task_id").agg(
            n_skipped=(pl.col("status") == "skipped").sum().cast(pl.Int64)
        )
    known_tasks = rows["task_id"].unique()
    if unknown := sorted(set(scores["task_id"].unique()) - set(known_tasks)):
        raise SchemaError(f"scores of tasks that have no rows: {', '.join(unknown[:5])}; give all rows of the run")
    return check(_assemble(pl.concat(groups).unique(), scores, skipped, declared, rows), TASK_METRICS)


def _assemble(
    groups: pl.DataFrame, scores: pl.DataFrame, skipped: pl.DataFrame, declared: pl.DataFrame, rows: pl.DataFrame
) -> pl.DataFrame:
    fates = {f"n_{fate}": (pl.col("fate") == fate).sum().cast(pl.Int64) for fate in get_args(Fate)}
    counts = scores.group_by(GROUP).agg(**fates)
    categories = rows.select("task_id", "category").unique("task_id", keep="first", maintain_order=True)
    counted = ["n_skipped", *fates]
    return (
        groups.join(counts, on=GROUP, how="left")
        .join(skipped, on=("model_id", "task_id"), how="left")
        .join(pl.concat([_means(scores), _corpus_values(scores)]), on=GROUP, how="left")
        .join(declared.drop("category"), on=("task_id", "metric"), how="left")
        .join(categories, on="task_id", how="left")
        .with_columns(
            pl.col(counted).fill_null(0),
            pl.col("aggregation").fill_null("none"),
            pl.col("higher_is_better").fill_null(True),
            pl.col("headline").fill_null(False),
            source=pl.lit("aggregate"),
        )
        .with_columns(
            value=pl.when(pl.col("aggregation") == "mean").then("value"),
            n_samples=pl.sum_horizontal(counted),
        )
        .sort(GROUP)
        .select(TASK_METRICS.names)
    )


def _means(scores: pl.DataFrame) -> pl.DataFrame:
    """Average the scores of metrics without parts: within the sample, then over samples."""
    corpus = scores.filter(pl.col("parts").is_not_null())["metric"].unique().implode()
    plain = scores.filter(~pl.col("metric").is_in(corpus) & pl.col("score").is_not_null())
    samples = plain.group_by(*GROUP, "sample_index", maintain_order=True).agg(pl.col("score").mean())
    return samples.group_by(GROUP, maintain_order=True).agg(value=pl.col("score").mean())


def _corpus_values(scores: pl.DataFrame) -> pl.DataFrame:
    """Aggregate the parts of corpus metrics: averaged within the sample, summed over samples."""
    with_parts = scores.filter(pl.col("parts").is_not_null())
    values = [pl.DataFrame(schema=dict.fromkeys(GROUP, pl.String) | {"value": pl.Float64})]
    for name in sorted(with_parts["metric"].unique()):
        its_scores = with_parts.filter(metric=name)
        width = int(its_scores["parts"].list.len().max())  # type: ignore[arg-type]
        parts = its_scores.select(
            *GROUP, "sample_index", *(pl.col("parts").list.get(i).alias(f"p{i}") for i in range(width))
        )
        samples = parts.group_by(*GROUP, "sample_index", maintain_order=True).agg(pl.col("^p\\d+$").mean())
        sums = samples.group_by(GROUP, maintain_order=True).agg(pl.col("^p\\d+$").sum())
        aggregate = METRICS.get(name).aggregate
        value = np.asarray(aggregate(sums.drop(GROUP).to_numpy()), dtype=np.float64)
        if value.shape != (sums.height,) or not np.isfinite(value).all():
            raise SchemaError(
                f"the aggregate of the metric {name!r} gave {value}; it has to give a finite number a row"
            )
        values.append(sums.select(GROUP).with_columns(value=pl.Series(value)))
    return pl.concat(values)
