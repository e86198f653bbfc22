"""SCORES -> PAIRWISE: each pair of models on the units that both have, with intervals and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import polars as pl

from evalframe.designs import By, design_of
from evalframe.frames import Noted, check, empty
from evalframe.headlines import OF_ROWS, check_options, choose_metrics, in_key_order, in_one_mean, registered
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.matrices import in_one_group, unit_cells, unit_matrices
from evalframe.metrics import Array
from evalframe.registry import METRICS
from evalframe.remarks import cluster_notes, pair_notes
from evalframe.schemas import PAIRWISE, ROWS, SCORES
from evalframe.stats.bootstrap import estimate, interval, resample, resamples_of
from evalframe.stats.influence import effects, spread
from evalframe.stats.intervals import equal_differences
from evalframe.stats.tests import holm, mcnemar, min_detectable, sign_flip
from evalframe.units import BoolArray, IntArray, Placed, Units, Weighting, corpus_value, placed_strata

EQUAL = 1e-12  # differences within it are equal: rounding apart


def pairwise(
    scores: pl.DataFrame,
    *,
    rows: pl.DataFrame | None = None,
    metric: str | None = None,
    weighting: Weighting | By = "task",
    cluster: By | None = None,
    n_resamples: int | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Compare each pair of models on the units that both have a score of.

    Units, tasks and strata are those of ``leaderboard``. A task's difference is the mean of the differences of its
    units (of a corpus metric: the difference of the aggregates over these units); ``diff_mean`` is the mean over tasks,
    positive where ``model_a`` is better: where a lower score is better the sign is turned.

    ``ci_lo``, ``ci_hi``: 95 %, percentile bootstrap within strata, n - 1 of n units drawn, one resampling index for
    all pairs (the leaderboard's). Where all differences are equal a bootstrap does not vary: scores in [0, 1] then get
    the bounds of ``stats.intervals.equal_differences``, others none.

    ``p_value``: two-sided; McNemar's exact test where all scores of the pair's units are 0 or 1; else the sign-flip
    test of ``diff_mean``, over all patterns up to 20 differences other than 0, beyond by ``n_resamples`` random ones
    (for a corpus metric on the jackknife's pseudo-values of its units, an approximation). ``p_adjusted``: Holm, over
    all pairs. ``min_detectable``: 80 % power, 5 %, from the standard error of ``diff_mean``.

    With ``cluster`` whole clusters are drawn, flipped and counted in standard errors, as ``leaderboard`` describes;
    0/1 scores get sign flips then, and where samples differ in weight.

    Frame in:
        SCORES, ROWS, in any order.

    Frame out:
        PAIRWISE, ``model_a`` before ``model_b``.

    Args:
        scores: Of all calls.
        rows: Say what the headline metrics are; without them each task must have one metric.
        metric: Compare by this metric over the tasks that average it, whatever its direction and range.
        weighting: ``task``: each task counts the same; ``sample``: each sample does; or what weighs: as for the
            leaderboard.
        cluster: What samples share that are not independent: as for the leaderboard.
        n_resamples: Of the bootstrap and of random sign patterns, 1 or more; None: ``limits.n_resamples``.
        seed: Of both.
        limits: The table of numbers.

    Notes: what clusters are drawn, and where they are few; pairs of few common units; units that only one model of a
    pair has.

    Nulls: a pair without a common unit has null figures; one with a single unit no interval; ``min_detectable`` is
    null where the differences do not vary. Fewer than two models give an empty frame.

    Raises:
        SchemaError: A frame is not what it is called, or a task of the scores has no rows; with ``cluster`` or a column
            of weights, a sample has none.
        OptionError: An option has no such value; no task has ``metric``; several metrics without ``rows``; ``cluster``
            without ``rows``; a weight is null, negative or no number.
    """
    check_options("pairwise", has_rows=rows is not None, metric=metric, weighting=weighting, seed=seed)
    resamples = resamples_of(n_resamples, limits)
    scores = in_key_order(scores, SCORES)
    all_rows, rows = rows, None if rows is None else in_key_order(rows, ROWS, OF_ROWS)
    design = design_of(weighting=weighting, cluster=cluster, rows=all_rows)
    choice = choose_metrics(scores, rows=rows, metric=metric)
    scores, choice = in_one_group(scores), in_one_group(choice)
    cells = unit_cells(scores, choice)
    mean_of = choice.filter(in_one_mean(choice, cells)) if metric is None else choice
    models = tuple(scores["model_id"].unique().sort())
    units = unit_matrices(scores, cells, mean_of, models, weighting=design.weighting, of_samples=design.of_samples)

    pairs = list(combinations(range(len(models)), 2))
    # pairs are taken in blocks: tables of units by pairs would not be bounded; all blocks see the same draws
    width = 2 * max((table.shape[2] for table in units.parts.values()), default=1) + 1
    block = max(1, limits.resample_bytes // (32 * width * max(1, len(units.scores))))
    found = [
        _compare(units, pairs[start : start + block], resamples=resamples, seed=seed, limits=limits)
        for start in range(0, len(pairs), block)
    ]
    if not found:
        return empty(PAIRWISE)
    compared = pl.concat(found)
    compared = compared.with_columns(p_adjusted=pl.Series(holm(compared["p_value"].to_list()), dtype=pl.Float64))
    shown = check(compared.select(PAIRWISE.names), PAIRWISE)
    notes = [*pair_notes(units, shown, limits.few_units), *cluster_notes(units, design.cluster, limits.few_clusters)]
    return Noted.of(shown, notes)


def _compare(
    units: Units, pairs: Sequence[tuple[int, int]], *, resamples: int, seed: int, limits: Limits
) -> pl.DataFrame:
    """Give PAIRWISE without ``p_adjusted`` for some pairs."""
    first, second = np.array(pairs, dtype=np.int64).T
    differences = (units.scores[:, first] - units.scores[:, second]) * (1 if units.higher_is_better else -1)
    placed = placed_strata(units, differences, lambda task: _corpus_columns(units, task, first, second))
    strata = units.drawn(placed)
    n_pairs = sum(((s.columns[..., -1] > 0).sum(axis=0) for s, _ in placed), np.zeros(len(pairs), np.int64))
    diff, lo, hi, p_value, standard_error = np.full((5, len(pairs)), np.nan)
    some = np.flatnonzero(n_pairs > 0)
    if len(some):
        diff = estimate([stratum for stratum, _ in placed])
        resampled = resample(strata, n_resamples=resamples, seed=seed, max_bytes=limits.resample_bytes)[:, some]
        varies, uncertain = np.ptp(resampled, axis=0) > EQUAL, spread(strata)
        if units.clustered or units.weighted:
            resampled = diff[some] + uncertain.widening()[some] * (resampled - diff[some])
        lo[some], hi[some] = np.where(varies, interval(resampled), np.nan)
        within_one = _within_one(units)
        if within_one:
            lo, hi = np.clip(lo, -1, 1), np.clip(hi, -1, 1)
        if within_one and not units.parts:
            n_drawn = sum(((s.columns[..., -1] > 0).sum(axis=0) for s in strata), np.zeros(len(pairs), np.int64))
            for pair in some[~varies & (n_drawn[some] > 1)]:  # rare: pairs whose differences are all equal
                lo[pair], hi[pair] = equal_differences(float(diff[pair]), int(n_drawn[pair]))
        standard_error = uncertain.standard_error
        zeros_and_ones = _of_zeros_and_ones(units, first, second)
        for pair in np.intersect1d(some, zeros_and_ones):
            p_value[pair] = mcnemar(int((differences[:, pair] > 0).sum()), int((differences[:, pair] < 0).sum()))
        graded = np.setdiff1d(some, zeros_and_ones)
        p_value[graded] = sign_flip(
            _effects(units, placed)[:, graded], n_resamples=resamples, seed=seed, max_bytes=limits.resample_bytes
        )
    return pl.DataFrame(
        {
            "model_a": [units.models[i] for i in first],
            "model_b": [units.models[i] for i in second],
            "diff_mean": diff,
            "ci_lo": lo,
            "ci_hi": hi,
            "significant": (lo > 0) | (hi < 0),
            "n_pairs": n_pairs,
            "p_value": p_value,
            "min_detectable": np.where(standard_error > EQUAL, min_detectable(standard_error), np.nan),
        },
    ).with_columns(pl.col(pl.Float64).fill_nan(None))


def _corpus_columns(
    units: Units, task: int, first: IntArray, second: IntArray
) -> tuple[Array, Callable[[Array], Array], int]:
    a, b = units.parts[task][:, first], units.parts[task][:, second]
    both: BoolArray = np.all(~np.isnan(a) & ~np.isnan(b), axis=2)
    columns = np.concatenate(
        [np.where(both[..., None], a, 0), np.where(both[..., None], b, 0), both[..., None]], axis=2
    )
    aggregate, k = METRICS.get(units.tasks["metric"][task]).aggregate, a.shape[2]
    sign = 1 if units.higher_is_better else -1

    def value(sums: Array) -> Array:
        n = sums[..., -1]
        return sign * (corpus_value(aggregate, sums[..., :k], n) - corpus_value(aggregate, sums[..., k:-1], n))

    return columns, value, 1


def _effects(units: Units, placed: Sequence[Placed]) -> Array:
    """Split each pair's mean difference into what each unit, or each cluster, adds: shape (units, pairs)."""
    added = np.concatenate(effects([stratum for stratum, _ in placed]))
    if units.clusters is None or not units.clustered:
        return added
    kinds, of_unit = np.unique(units.clusters[np.concatenate([at for _, at in placed])], return_inverse=True)
    together = np.zeros((len(kinds), added.shape[1]))
    np.add.at(together, of_unit, added)
    return together


def _within_one(units: Units) -> bool:
    """Whether no mean of differences can leave [-1, 1]."""
    ranges = [metric.range for name in units.tasks["metric"].unique() if (metric := registered(name))]
    declared = all(low >= 0 and high <= 1 for low, high in ranges)
    return declared and not (np.nanmin(units.scores) < 0 or np.nanmax(units.scores) > 1)


def _of_zeros_and_ones(units: Units, first: IntArray, second: IntArray) -> IntArray:
    """Give the pairs whose common units all have scores of 0 and 1, and count the same each."""
    if units.parts or units.clustered or units.weighted:
        return np.empty(0, np.int64)
    there = ~np.isnan(units.scores)
    other = there & (units.scores != 0) & (units.scores != 1)
    both = there[:, first] & there[:, second]
    return np.flatnonzero(~(both & (other[:, first] | other[:, second])).any(axis=0))
