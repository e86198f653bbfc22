"""SCORES -> TASK_METRICS: repeats averaged within their sample, samples within their task; what a batch grader gave."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

import numpy as np
import polars as pl

from evalframe.errors import SchemaError
from evalframe.frames import FrameSchema, check
from evalframe.registry import METRICS
from evalframe.schemas import CALL_KEY, GENERATIONS, ROWS, SCORES, TASK_METRICS
from evalframe.words import Fate

# what the summary needs of GENERATIONS: the texts of a large run would not fit
OUTCOMES = FrameSchema("outcomes", "what became of one call", GENERATIONS.columns[:5], key=CALL_KEY)
GROUP = ("model_id", "task_id", "metric")
OF_TASK = ("model_id", "task_id")


@dataclass(frozen=True, slots=True)
class Batches:
    """What graders said beside scores.

    Attributes:
        tasks: Those that have a grader.
        values: What batch graders gave for all samples of a model and repeat: ``model_id``, ``task_id``, ``repeat``,
            ``metric``, ``value``.
        grades: GRADES.
    """

    tasks: Collection[str]
    values: pl.DataFrame
    grades: pl.DataFrame


def declared_metrics(rows: pl.DataFrame) -> pl.DataFrame:
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
    scores: pl.DataFrame,
    *,
    rows: pl.DataFrame,
    generations: pl.DataFrame | None = None,
    graded: Batches | None = None,
) -> pl.DataFrame:
    """Aggregate the scores of each metric over each task, for each model.

    Repeats are averaged within their sample first, then samples are averaged, each the same. A corpus metric averages
    the parts of the repeats, sums them over the samples and takes its aggregate of the sums. ``scored`` and
    ``unparsed`` calls are in the value, ``failed`` and ``grader_error`` are not; a sample of which no repeat has a
    score is in no mean.

    Where a batch grader gave the metric of all samples, that is the value (``source`` is ``grader``), averaged over
    repeats, and is kept also where the task does not declare it. Without scores of samples the calls that were in its
    batches are ``n_scored``.

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
        graded: What the graders of the run said; None: no task has one.

    Nulls: nothing scored is a null value with its counts; aggregation ``none`` is a null value; a metric that the
    task does not declare counts as aggregation ``none``.

    Raises:
        SchemaError: A frame is not what it is called, a task has no rows, or an aggregate is no finite number.
        UnknownNameError: A corpus metric is not registered in this process, so its parts can not be aggregated.
    """
    check(scores, SCORES)
    check(rows, ROWS)
    declared = declared_metrics(rows)
    groups = [scores.select(GROUP)]
    skipped = pl.DataFrame(schema={"model_id": pl.String, "task_id": pl.String, "n_skipped": pl.Int64})
    if generations is not None:
        check(generations.select(name for name in OUTCOMES.names if name in generations.columns), OUTCOMES)
        planned = generations.select(OF_TASK).unique()
        has_grader = pl.col("task_id").is_in(sorted(graded.tasks)) if graded is not None else pl.lit(False)
        groups.append(planned.join(declared.filter(pl.col("registered") | has_grader), on="task_id").select(GROUP))
        skipped = generations.group_by("model_id", "task_id").agg(
            n_skipped=(pl.col("status") == "skipped").sum().cast(pl.Int64)
        )
    if graded is not None:
        groups.append(graded.values.select(GROUP))
    known_tasks = rows["task_id"].unique()
    if unknown := sorted(set(scores["task_id"].unique()) - set(known_tasks)):
        raise SchemaError(f"scores of tasks that have no rows: {', '.join(unknown[:5])}; give all rows of the run")
    found = _assemble(pl.concat(groups).unique(), scores, skipped, declared, rows)
    return check(found if graded is None else _with_batches(found, graded, generations), TASK_METRICS)


def _with_batches(found: pl.DataFrame, graded: Batches, generations: pl.DataFrame | None) -> pl.DataFrame:
    """Put the values of batch graders in, and count the calls that they are of."""
    in_batch = graded.grades.group_by(*OF_TASK, "repeat").agg(n=pl.len().cast(pl.Int64))
    values = (
        graded.values.join(in_batch, on=[*OF_TASK, "repeat"], how="left")
        .group_by(GROUP)
        .agg(pl.col("value").mean().alias("given"), pl.col("n").sum())
    )
    failed = pl.DataFrame(schema={"model_id": pl.String, "task_id": pl.String, "n_lost": pl.Int64})
    if generations is not None:
        failed = generations.group_by(OF_TASK).agg(n_lost=(pl.col("status") == "failed").sum().cast(pl.Int64))
    counted = [name for name in found.columns if name.startswith("n_") and name != "n_samples"]
    is_given, alone = pl.col("given").is_not_null(), pl.col("given").is_not_null() & (pl.col("n_scored") == 0)
    return (
        found.join(values, on=GROUP, how="left", maintain_order="left")
        .join(failed, on=OF_TASK, how="left", maintain_order="left")
        .with_columns(
            value=pl.coalesce("given", "value"),
            source=pl.when(is_given).then(pl.lit("grader")).otherwise("source"),
            n_scored=pl.when(alone).then("n").otherwise("n_scored"),
            n_failed=pl.when(alone).then(pl.col("n_lost").fill_null(0)).otherwise("n_failed"),
        )
        .with_columns(n_samples=pl.sum_horizontal(counted))
        .select(TASK_METRICS.names)
    )


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
    of_task = ["task_id", "metric"]  # a grader's metric may have the name of one that adds up parts
    corpus = scores.filter(pl.col("parts").is_not_null()).select(of_task).unique()
    plain = scores.filter(pl.col("score").is_not_null()).join(corpus, on=of_task, how="anti", maintain_order="left")
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
