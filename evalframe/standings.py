"""SCORES -> LEADERBOARD: means over tasks with intervals, ranks with intervals, win rates, costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import polars as pl

from evalframe.designs import Asked, By, asked_of
from evalframe.frames import Noted, check
from evalframe.headlines import OF_CALLS, OF_ROWS, choose_metrics, in_key_order, in_one_mean
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.matrices import GROUP, TASK, in_one_group, unit_cells, unit_matrices
from evalframe.metrics import Array
from evalframe.remarks import cluster_notes, leaderboard_notes, reply_notes
from evalframe.schemas import GENERATIONS, LEADERBOARD, ROWS, SCORES, TASK_METRICS
from evalframe.stats.bootstrap import interval, resample
from evalframe.stats.influence import as_many_single_units, spread
from evalframe.stats.intervals import wilson
from evalframe.tallies import COUNTED, MODEL, calibration_figures, costs, counts
from evalframe.units import BoolArray, Units, Weighting

TIE = 1e-12  # scores within it are equal: rounding apart
SAME = 1e-9  # a batch grader's value within it is the mean of its samples' scores


def leaderboard(
    scores: pl.DataFrame,
    *,
    rows: pl.DataFrame | None = None,
    generations: pl.DataFrame | None = None,
    task_metrics: pl.DataFrame | None = None,
    metric: str | None = None,
    weighting: Weighting | By = "task",
    cluster: By | None = None,
    failures: Literal["omit", "zero"] = "omit",
    common: bool = False,
    ties: Literal["split", "all"] = "split",
    n_resamples: int | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Rank models by the mean over tasks of each task's headline metric.

    ``mean_score``: repeats are averaged within their sample, samples within their task (a corpus metric adds up its
    parts instead), tasks with each other. Tasks whose metric is better when lower, or leaves [0, 1], are not in the
    mean, the win rate and the categories; rank them alone by ``metric``. Where no other task is there and they all
    have one metric, they are ranked as if it had been named.

    ``mean_ci_lo``, ``mean_ci_hi``: 95 %, percentile bootstrap within strata, n - 1 of n units drawn (``bootstrap``;
    from 1,000 graded units up by independent counts, see ``stats.bootstrap``); a task with two or more samples is a
    stratum, all tasks with one sample are one pooled stratum. Scores of 0 and 1 in a single stratum get Wilson's
    interval (``wilson``), which covers 92 % or more at p = 0.05 to 0.99 and n = 30 to 1,000, where the bootstrap falls
    to 26 %; averages over repeats do where there are fewer than ``limits.few_units`` units or all are equal. Else a
    bootstrap that does not vary gives no interval (``none: all scores equal``, ``none: one unit``).

    With ``cluster`` the units of an interval are clusters (``cluster bootstrap``): all questions about one passage are
    drawn together, also where they are in several tasks; tasks whose samples are all of one cluster are one pooled
    stratum. The interval is widened for few or uneven clusters (``stats.influence``): at a correlation of 0.3 within
    clusters it covers 94 to 96 % down to 10 clusters of graded scores, the plain percentiles 92 %. Scores of 0 and 1 in
    a single stratum get Wilson's interval with the number of samples that would have the same standard error, and
    Student's t (``cluster wilson``: 95 % at 50 clusters, 93 % at 20 and 86 % at 10 where 90 % are right; the frame's
    notes say where clusters are few). Samples of different ``weighting`` are treated likewise (``weighted bootstrap``,
    ``weighted wilson``).

    ``rank``: 1 + the number of models that are better by over 1e-12. ``rank_lo``, ``rank_hi``: 2.5 % and 97.5 %
    quantiles of the rank over the same resamples, which all models share; null where no mean varies over them.

    ``win_rate``: over the units that have a score of every model that has any, the best score wins.

    Frame in:
        SCORES, ROWS, GENERATIONS, TASK_METRICS, in any order.

    Frame out:
        LEADERBOARD, sorted by rank, then ``model_id``; models without a score last.

    Args:
        scores: Of all calls. Scores of metrics that are not ranked are no harm.
        rows: Say what the headline metrics and categories are. Without them each task must have one metric, the
            direction is the registered metric's (higher for others), and there are no categories.
        generations: Give ``n_skipped`` (else 0), ``cost_usd``, ``total_tokens``, ``ece`` and ``brier`` (else null).
            Cost and tokens are of all the model's calls, null where a completed call does not tell.
        task_metrics: Give the values of batch graders. Where they are not the means of samples' scores, each is one
            unit of its task, without an interval.
        metric: Rank this metric over the tasks that average it, whatever its direction and range.
        weighting: ``task``: each task counts the same; ``sample``: each sample does; ``metadata.<key>``: tasks count
            by a number; ``row.<field>``, a column of the rows or an expression: samples do, and a task counts as much
            as its samples. Numbers are 0 or more, 0 leaves out. Win rates count each unit that is left the same.
        cluster: What samples share that are not independent of each other, such as ``row.passage_id``: a field, a
            column of the rows or an expression over them. A null is a cluster of its own.
        failures: ``omit``: failed samples are in no mean; ``zero``: they count as the metric's worst score, so that
            ``mean_score`` is ``mean_all``, in interval, rank and categories too. A sample is failed where it has no
            score and a call without a reply; where only its grader failed it is in no mean.
        common: Only units that have a score of every model that has any.
        ties: ``split``: models that tie share the win, and win rates add up to 1; ``all``: each gets it.
        n_resamples: 1 or more; None: ``limits.n_resamples``.
        seed: Of the bootstrap. Draws depend on it, on the task ids and on the scores that are compared, whatever the
            order of rows and the number of threads.
        limits: The table of numbers.

    Notes: tasks that are in no combined mean; models that were scored on different numbers of samples; pairs whose
    order would turn if the failed samples had been right; what clusters are drawn, and where they are few.

    Nulls: a model without a score has null rank, mean and interval; ``win_rate`` is null without common units.

    Raises:
        SchemaError: A frame is not what it is called, or a task of the scores has no rows; with ``cluster`` or a column
            of weights, a sample has none.
        OptionError: An option has no such value; no task has ``metric``; several metrics without ``rows``; ``cluster``
            without ``rows``; a weight is null, negative or no number.
    """
    scores = in_key_order(scores, SCORES)
    all_rows, rows = rows, None if rows is None else in_key_order(rows, ROWS, OF_ROWS)
    asked = asked_of(
        all_rows, metric=metric, weighting=weighting, cluster=cluster, failures=failures, common=common, ties=ties,
        n_resamples=n_resamples, seed=seed, limits=limits,
    )  # fmt: skip
    generations = None if generations is None else in_key_order(generations, GENERATIONS, OF_CALLS)
    batch = batch_values(task_metrics, scores, metric)

    choice = choose_metrics(scores, rows=rows, metric=metric, batch=batch)
    board, told = ranked_groups(
        in_one_group(scores),
        choice=in_one_group(choice),
        batch=in_one_group(batch),
        generations=None if generations is None else in_one_group(generations),
        has_rows=rows is not None,
        asked=asked,
    )
    return Noted.of(check(board.drop(GROUP), LEADERBOARD), told)


def ranked_groups(
    scores: pl.DataFrame,
    *,
    choice: pl.DataFrame,
    batch: pl.DataFrame,
    generations: pl.DataFrame | None,
    has_rows: bool,
    asked: Asked,
) -> tuple[pl.DataFrame, dict[str, list[int]]]:
    """Rank the models of each group of scores by itself.

    Args:
        scores: SCORES with ``group``, sorted by it and its key.
        choice: The metric of each task of each group.
        batch: Values of batch graders, TASK_METRICS with ``group``.
        generations: With ``group``.
        has_rows: Whether ``choice`` comes of rows, which know all tasks.
        asked: The options.

    Returns:
        LEADERBOARD with ``group``, sorted by it, and for each note the groups that it is about.
    """
    chosen = scores.join(choice, on=[*TASK, "metric"], how="semi", maintain_order="left")
    if batch.height:
        chosen = chosen.join(batch, on=[*TASK, "metric"], how="anti", maintain_order="left")
    cells = pl.concat([unit_cells(chosen, choice), _batch_cells(batch)])
    in_mean = in_one_mean(choice, cells) if asked.metric is None else pl.repeat(True, choice.height, eager=True)
    sources = [frame.select(MODEL) for frame in (scores, batch, generations) if frame is not None]
    models = pl.concat(sources).unique().sort(MODEL)
    design = asked.design.with_whole_tasks(batch["task_id"].to_list())
    all_units = unit_matrices(
        chosen, cells, choice.filter(in_mean), tuple(models["model_id"].unique().sort()),
        weighting=design.weighting, of_samples=design.of_samples,
    )  # fmt: skip
    boards, told = [pl.DataFrame(schema={GROUP: pl.Int64, **LEADERBOARD.dtypes})], dict[str, list[int]]()
    left_out = _by_group(choice.filter(~in_mean))
    parts = list(_parts_of(all_units, models))
    for group, units in parts:  # their strata and draws differ
        board, notes = _board(units, left_out.get(group, choice.head(0)), asked)
        boards.append(board.select(pl.lit(group, pl.Int64).alias(GROUP), pl.all()))
        for note in notes:
            told.setdefault(note, []).append(group)
    ranked = choice["task_id"].unique() if has_rows else None
    found = (
        pl.concat(boards, how="diagonal")
        .drop(*COUNTED, "tasks_completed", "n_samples", "cost_usd", "total_tokens", "ece", "brier")
        .join(counts(chosen, cells, batch, generations, ranked=ranked), on=MODEL, how="left")
        .join(costs(generations), on=MODEL, how="left")
        .join(calibration_figures(chosen, generations), on=MODEL, how="left")
        .with_columns(pl.col(*COUNTED, "tasks_completed").fill_null(0), pl.col(pl.Float64).fill_nan(None))
        .with_columns(n_samples=pl.sum_horizontal(COUNTED))
        .sort(GROUP, "rank", "model_id", nulls_last=True)
    )
    counted = _by_group(found)
    for group, units in parts:
        for note in reply_notes(units, counted[group], failures_count=asked.failures_count):
            told.setdefault(note, []).append(group)
    # a category none of whose tasks are in the mean has a column, too
    categories = [f"category.{name}" for name in choice["category"].drop_nulls().unique().sort()]
    nothing = [pl.lit(None, pl.Float64).alias(name) for name in categories if name not in found.columns]
    return found.with_columns(nothing).select(GROUP, *LEADERBOARD.names, *categories), told


def _by_group(frame: pl.DataFrame) -> dict[int, pl.DataFrame]:
    pieces = frame.partition_by(GROUP, as_dict=True, maintain_order=True)
    return {int(group): piece for (group,), piece in pieces.items()}


def _parts_of(units: Units, models: pl.DataFrame) -> Iterator[tuple[int, Units]]:
    """Give the units of each group that has models, of these alone."""
    position = {model: place for place, model in enumerate(units.models)}
    n_tasks = dict(units.tasks.group_by(GROUP).len().iter_rows())
    start = 0
    for group, its in _by_group(models).items():
        stop = start + n_tasks.get(group, 0)
        yield (
            group,
            units.of_tasks(slice(start, stop), np.array([position[model] for model in its["model_id"]], np.int64)),
        )
        start = stop


def _board(units: Units, left_out: pl.DataFrame, asked: Asked) -> tuple[pl.DataFrame, list[str]]:
    """Give what a group's units tell of its models, and its notes."""
    judged: BoolArray = np.any(~np.isnan(units.scores), axis=0)
    shared: BoolArray = np.all(~np.isnan(units.scores[:, judged]), axis=1)
    win_rate = _win_rate(units, judged, shared, split=asked.split_ties)
    if asked.common:
        units = units.only(shared)
    notes = [
        *leaderboard_notes(units, left_out=left_out, failures_count=asked.failures_count),
        *cluster_notes(units, asked.design.cluster, asked.limits.few_clusters),
    ]
    with_failures = units.with_failures_as_worst()
    ranked = with_failures if asked.failures_count else units
    categories = {
        f"category.{name}": ranked.means(of_tasks=(units.tasks["category"] == name).fill_null(False).to_numpy())
        for name in units.tasks["category"].drop_nulls().unique().sort()
    }
    shown = standings_of(ranked, n_resamples=asked.n_resamples, seed=asked.seed, limits=asked.limits)
    return shown.with_columns(
        pl.Series("model_id", units.models, dtype=pl.String),
        pl.Series("win_rate", win_rate),
        pl.Series("mean_all", with_failures.means()),
        *(pl.Series(name, means) for name, means in categories.items()),
    ), notes


def batch_values(task_metrics: pl.DataFrame | None, scores: pl.DataFrame, metric: str | None) -> pl.DataFrame:
    """Give the rows of TASK_METRICS that only a batch grader knows, of the metric that is ranked.

    Where its values are the means of the samples' scores, those give them too, with their intervals. Where one is not,
    the task is ranked by what the grader gave.
    """
    if task_metrics is None:
        return pl.DataFrame(schema=TASK_METRICS.dtypes)
    wanted = pl.col("headline") if metric is None else pl.col("metric") == metric
    values = in_key_order(task_metrics, TASK_METRICS).filter(
        (pl.col("source") == "grader") & (pl.col("aggregation") == "mean") & wanted
    )
    if values.is_empty():
        return values
    key = ["model_id", "task_id", "metric"]
    scored = scores.filter(pl.col("score").is_not_null()).join(values, on=key, how="semi", maintain_order="left")
    samples = scored.group_by(*key, "sample_index", maintain_order=True).agg(pl.col("score").mean())
    means = samples.group_by(key, maintain_order=True).agg(mean=pl.col("score").mean())
    alone = (
        values.join(means, on=key, how="left")
        .filter(((pl.col("value") - pl.col("mean")).abs() <= SAME).fill_null(False).not_())
        .select("task_id", "metric")
    )
    return values.join(alone.unique(), on=["task_id", "metric"], how="semi", maintain_order="left")


def _batch_cells(batch: pl.DataFrame) -> pl.DataFrame:
    """Take each batch value as one unit of its task."""
    value = pl.col("value")
    return batch.filter(value.is_not_null()).select(
        GROUP, "model_id", "task_id", sample_index=pl.lit(0, pl.Int64), score=value, failed=pl.lit(False),
        low=value, high=value, binary=pl.lit(False),
    )  # fmt: skip


def standings_of(units: Units, *, n_resamples: int, seed: int, limits: Limits) -> pl.DataFrame:
    """Give the means with their intervals, the ranks with theirs, and the method: a row a model."""
    n_models = len(units.models)
    means, n = units.means(), (~np.isnan(units.scores)).sum(axis=0)
    lo, hi = np.full(n_models, np.nan), np.full(n_models, np.nan)
    rank_lo, rank_hi, varies = lo.copy(), hi.copy(), np.zeros(n_models, np.bool_)
    strata, scored = units.strata(), np.flatnonzero(~np.isnan(means))
    uneven = spread(strata) if strata and (units.clustered or units.weighted) else None
    if len(scored):
        resampled = resample(strata, n_resamples=n_resamples, seed=seed, max_bytes=limits.resample_bytes)[:, scored]
        varies[scored] = np.ptp(resampled, axis=0) > TIE
        if uneven is not None:
            resampled = means[scored] + uneven.widening()[scored] * (resampled - means[scored])
        lo[scored], hi[scored] = interval(resampled)
        ranks = _ranks(resampled, units.higher_is_better)
        rank_lo[scored], rank_hi[scored] = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
    if uneven is not None:
        lo, hi = units.within_range(lo), units.within_range(hi)
    # the bootstrap of single 0/1 scores covers 26 % at p = 0.99, n = 30; averages over repeats are no longer 0/1
    single = bool(np.isin(units.scores[~np.isnan(units.scores)], (0.0, 1.0)).all())
    one_cluster = units.clustered and units.n_clusters == 1
    # an aggregate of parts is no share of its samples
    of_shares = units.binary and not units.parts and len(strata) == 1 and not one_cluster
    by_wilson = of_shares & (n > 0) & (single | ~varies | (n < limits.few_units))
    if by_wilson.any():
        n_alike, df = n, None
        if uneven is not None:
            n_alike, df = as_many_single_units(means, n, uneven), uneven.df
        wilson_lo, wilson_hi = wilson(means * n_alike, n_alike, df=df)
        lo, hi = np.where(by_wilson, wilson_lo, lo), np.where(by_wilson, wilson_hi, hi)
    kind = "" if uneven is None else "cluster " if units.clustered else "weighted "
    equal = "none: one cluster" if one_cluster else f"none: all {'clusters' if units.clustered else 'scores'} equal"
    method = np.select(
        [by_wilson, varies, n == 0, n == 1],
        [f"{kind}wilson", f"{kind}bootstrap", "none: nothing scored", "none: one unit"],
        equal,
    )
    none = ~by_wilson & ~varies
    no_ranks = none | ~varies.any()  # where no mean varies the resamples say nothing of ranks
    ranks = np.where(np.isnan(means), np.nan, _ranks(means[None, :], units.higher_is_better)[0])
    return pl.DataFrame(
        {
            "rank": ranks,
            "rank_lo": np.where(no_ranks, np.nan, rank_lo),
            "rank_hi": np.where(no_ranks, np.nan, rank_hi),
            "mean_score": means,
            "mean_ci_lo": np.where(none, np.nan, lo),
            "mean_ci_hi": np.where(none, np.nan, hi),
            "ci_method": pl.Series(method, dtype=pl.String),
        }
    ).with_columns(pl.col("rank", "rank_lo", "rank_hi").fill_nan(None).cast(pl.Int64))


def _ranks(means: Array, higher_is_better: bool) -> Array:
    """Give 1 + the number of models that are better, along the last axis; NaN is better than none."""
    signed = means if higher_is_better else -means
    ranks = np.ones(signed.shape)
    for model in range(signed.shape[-1]):  # a table of all pairs on all resamples would not be bounded
        ranks += signed[..., model : model + 1] > signed + TIE
    return ranks


def _win_rate(units: Units, judged: BoolArray, shared: BoolArray, *, split: bool) -> Array:
    """Give the share of the shared units on which each model is best."""
    rates = np.full(len(units.models), np.nan)
    scores = units.scores[shared][:, judged] * (1 if units.higher_is_better else -1)
    if scores.size:
        wins = (scores >= scores.max(axis=1, keepdims=True) - TIE).astype(np.float64)
        rates[judged] = np.minimum(1.0, (wins / wins.sum(axis=1, keepdims=True) if split else wins).mean(0))
    return rates
