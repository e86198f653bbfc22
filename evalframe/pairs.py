"""SCORES -> PAIRWISE: each pair of models on the units that both have, with intervals and tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl

from evalframe.frames import check, empty
from evalframe.headlines import OF_ROWS, check_options, choose_metrics, in_key_order, in_one_mean, registered
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.metrics import Array
from evalframe.registry import METRICS
from evalframe.schemas import PAIRWISE, ROWS, SCORES
from evalframe.stats.bootstrap import Stratum, divide, estimate, interval, ratio, resample, resamples_of
from evalframe.stats.intervals import equal_differences
from evalframe.stats.tests import holm, mcnemar, min_detectable, sign_flip
from evalframe.units import (
    BoolArray,
    IntArray,
    Units,
    Weighting,
    corpus_value,
    strata_of,
    unit_cells,
    unit_matrices,
    weight_of,
)  # fmt: skip

EQUAL = 1e-12  # differences within it are equal: rounding apart


def pairwise(
    scores: pl.DataFrame,
    *,
    rows: pl.DataFrame | None = None,
    metric: str | None = None,
    weighting: Weighting = "task",
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

    Frame in:
        SCORES, ROWS, in any order.

    Frame out:
        PAIRWISE, ``model_a`` before ``model_b``.

    Args:
        scores: Of all calls.
        rows: Say what the headline metrics are; without them each task must have one metric.
        metric: Compare by this metric over the tasks that average it, whatever its direction and range.
        weighting: ``task``: each task counts the same; ``sample``: each sample does.
        n_resamples: Of the bootstrap and of random sign patterns, 1 or more; None: ``limits.n_resamples``.
        seed: Of both.
        limits: The table of numbers.

    Nulls: a pair without a common unit has null figures; one with a single unit no interval; ``min_detectable`` is
    null where the differences do not vary. Fewer than two models give an empty frame.

    Raises:
        SchemaError: A frame is not what it is called, or a task of the scores has no rows.
        OptionError: An option has no such value; no task has ``metric``; several metrics without ``rows``.
    """
    check_options("pairwise", weighting=weighting)
    resamples = resamples_of(n_resamples, limits)
    scores = in_key_order(scores, SCORES)
    rows = None if rows is None else in_key_order(rows, ROWS, OF_ROWS)
    choice = choose_metrics(scores, rows=rows, metric=metric)
    cells = unit_cells(scores, choice)
    mean_of = choice.filter(in_one_mean(choice, cells)) if metric is None else choice
    models = tuple(scores["model_id"].unique().sort())
    units = unit_matrices(scores, cells, mean_of, models)

    pairs = list(combinations(range(len(models)), 2))
    # pairs are taken in blocks: tables of units by pairs would not be bounded; all blocks see the same draws
    width = 2 * max((table.shape[2] for table in units.parts.values()), default=1) + 1
    block = max(1, limits.resample_bytes // (32 * width * max(1, len(units.scores))))
    found = [
        _compare(
            units, pairs[start : start + block], weighting=weighting, resamples=resamples, seed=seed, limits=limits
        )
        for start in range(0, len(pairs), block)
    ]
    if not found:
        return empty(PAIRWISE)
    compared = pl.concat(found)
    compared = compared.with_columns(p_adjusted=pl.Series(holm(compared["p_value"].to_list()), dtype=pl.Float64))
    return check(compared.select(PAIRWISE.names), PAIRWISE)


def _compare(
    units: Units,
    pairs: Sequence[tuple[int, int]],
    *,
    weighting: Weighting,
    resamples: int,
    seed: int,
    limits: Limits,
) -> pl.DataFrame:
    """Give PAIRWISE without ``p_adjusted`` for some pairs."""
    first, second = np.array(pairs, dtype=np.int64).T
    differences = (units.scores[:, first] - units.scores[:, second]) * (1 if units.higher_is_better else -1)
    strata = strata_of(
        units, differences, lambda task: _corpus_stratum(units, task, first, second, weighting), weighting
    )
    n_pairs = sum((stratum.columns[..., -1].sum(axis=0) for stratum in strata), np.zeros(len(pairs))).astype(np.int64)
    diff, lo, hi, p_value, standard_error = np.full((5, len(pairs)), np.nan)
    some = np.flatnonzero(n_pairs > 0)
    if len(some):
        diff = estimate(strata)
        resampled = resample(strata, n_resamples=resamples, seed=seed, max_bytes=limits.resample_bytes)[:, some]
        varies = np.ptp(resampled, axis=0) > EQUAL
        lo[some], hi[some] = np.where(varies, interval(resampled), np.nan)
        if _within_one(units):
            for pair in some[~varies & (n_pairs[some] > 1)]:  # rare: pairs whose differences are all equal
                lo[pair], hi[pair] = equal_differences(float(diff[pair]), int(n_pairs[pair]))
        effects, standard_error = _effects(strata)
        zeros_and_ones = _of_zeros_and_ones(units, first, second)
        for pair in np.intersect1d(some, zeros_and_ones):
            p_value[pair] = mcnemar(int((differences[:, pair] > 0).sum()), int((differences[:, pair] < 0).sum()))
        graded = np.setdiff1d(some, zeros_and_ones)
        p_value[graded] = sign_flip(
            effects[:, graded], n_resamples=resamples, seed=seed, max_bytes=limits.resample_bytes
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


def _corpus_stratum(units: Units, task: int, first: IntArray, second: IntArray, weighting: Weighting) -> Stratum:
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

    return Stratum(units.tasks["task_id"][task], columns, value, weight_of(both, weighting))


def _effects(strata: Sequence[Stratum]) -> tuple[Array, Array]:
    """Split each pair's mean difference into what each unit adds, shape (units, pairs), and give its standard error.

    A unit of a mean adds its difference by its weight; a unit of a corpus metric its jackknife pseudo-value.
    """
    weight = np.sum([stratum.weights for stratum in strata], axis=0)
    effects, variance = [], np.zeros(len(weight))
    for stratum in strata:
        there = stratum.columns[..., -1]
        n = there.sum(axis=0)
        if stratum.value is ratio:
            own = stratum.columns[..., 0]
        else:
            sums = stratum.columns.sum(axis=0)
            without = np.nan_to_num(stratum.value(sums - stratum.columns))
            own = np.where(there > 0, n * stratum.value(sums) - (n - 1) * without, 0.0)
        share = np.nan_to_num(divide(stratum.weights, n * weight))
        effects.append(own * share)
        spread = np.where(there > 0, own - np.nan_to_num(divide(own.sum(axis=0), n)), 0.0)
        variance += share**2 * np.nan_to_num(divide(n, n - 1)) * (spread**2).sum(axis=0)
    return np.concatenate(effects), np.sqrt(variance)


def _within_one(units: Units) -> bool:
    """Whether no mean of differences can leave [-1, 1]."""
    ranges = [metric.range for name in units.tasks["metric"].unique() if (metric := registered(name))]
    declared = all(low >= 0 and high <= 1 for low, high in ranges)
    return declared and not units.parts and not (np.nanmin(units.scores) < 0 or np.nanmax(units.scores) > 1)


def _of_zeros_and_ones(units: Units, first: IntArray, second: IntArray) -> IntArray:
    """Give the pairs whose common units all have scores of 0 and 1."""
    if units.parts:
        return np.empty(0, np.int64)
    there = ~np.isnan(units.scores)
    other = there & (units.scores != 0) & (units.scores != 1)
    both = there[:, first] & there[:, second]
    return np.flatnonzero(~(both & (other[:, first] | other[:, second])).any(axis=0))
