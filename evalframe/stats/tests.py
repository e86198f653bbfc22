"""Paired tests: sign flips, McNemar, Holm's correction, and what a comparison could have found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalframe.stats.bootstrap import BYTES_PER_CELL, Array, generator, on_exact_grid
from evalframe.stats.intervals import quantile_of_normal

EXACT_PAIRS = 20  # 2^20 sign patterns are enumerated in one array of 8 MiB


def sign_flip(differences: ArrayLike, *, n_resamples: int, seed: int, max_bytes: int) -> Array:
    """Give the two-sided p-value of the paired permutation test, for each series of differences.

    Under the null hypothesis each difference is as likely with the other sign; p is the share of sign patterns whose
    absolute sum is at least the one seen (R. A. Fisher, The Design of Experiments, 1935, chapter III). Up to 20
    differences other than 0 all patterns are counted; beyond, ``n_resamples`` random ones, and p is (1 + k)/(1 + N)
    (B. Phipson and G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010) 39, equation 2). All series see the same flips.

    Args:
        differences: Shape (units, series), or (units,) for one; 0 where a series lacks the unit.
        n_resamples: Random patterns, 1 or more.
        seed: Of the random patterns.
        max_bytes: Held at once; does not change the result.

    Nulls: 1.0 for a series without a difference.

    >>> float(sign_flip([1.0, 1.0, 1.0], n_resamples=100, seed=0, max_bytes=10**6)[0])
    0.25
    """
    table = np.asarray(differences, float)
    table = table[:, None] if table.ndim == 1 else table
    moving = np.count_nonzero(table, axis=0)
    p_values = np.ones(table.shape[1])
    for series in np.flatnonzero((moving > 0) & (moving <= EXACT_PAIRS)):  # each has its own number of patterns
        column = table[:, series]
        p_values[series] = _all_patterns(column[column != 0])
    many = np.flatnonzero(moving > EXACT_PAIRS)
    if len(many):
        p_values[many] = _random_patterns(table[:, many], n_resamples=n_resamples, seed=seed, max_bytes=max_bytes)
    return p_values


def mcnemar(wins_a: int, wins_b: int) -> float:
    """Give the exact two-sided p-value of McNemar's test: a binomial test of the discordant pairs against 1/2.

    Q. McNemar, Psychometrika 12 (1947) 153; equal to ``scipy.stats.binomtest(wins_a, wins_a + wins_b).pvalue``.

    Args:
        wins_a: Pairs that only the first has right, 0 or more.
        wins_b: Pairs that only the second has right.

    Nulls: 1.0 without discordant pairs.

    >>> mcnemar(5, 0)
    0.0625
    """
    n, fewer = wins_a + wins_b, min(wins_a, wins_b)
    # log of C(n, k) / 2^n, k = 0..fewer, by the ratio of neighbours
    k = np.arange(1, fewer + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(n - k + 1) - np.log(k))]) - n * math.log(2)
    return min(1.0, 2 * float(np.exp(logs).sum()))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values for their number, by Holm's step-down method (S. Holm, Scand. J. Stat. 6 (1979) 65).

    Nulls: a null stays null and is not counted.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    known = [index for index, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    p = np.array([p_values[index] for index in known], float)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    for place, value in zip(order, stepped, strict=True):
        adjusted[known[place]] = float(value)
    return adjusted


def min_detectable(standard_error: ArrayLike, *, power: float = 0.8, alpha: float = 0.05) -> Array:
    """Give the smallest difference that a two-sided test finds with the given power, by the normal approximation.

    ``(z(1 - alpha/2) + z(power)) * standard_error``; J. Cohen, Statistical Power Analysis, 1988, section 2.4.

    >>> round(float(min_detectable(0.1)), 4)
    0.2802
    """
    factor = quantile_of_normal(1 - alpha / 2) + quantile_of_normal(power)
    return np.asarray(standard_error, float) * factor


def _all_patterns(differences: Array) -> float:
    sums = np.zeros(1)
    for difference in np.abs(differences):  # at most 20: each doubles the table of sums
        sums = np.concatenate([sums - difference, sums + difference])
    size = float(np.abs(differences).sum())
    return float(np.mean(np.abs(sums) >= abs(float(differences.sum())) - 1e-12 * size))


def _random_patterns(table: Array, *, n_resamples: int, seed: int, max_bytes: int) -> Array:
    n = len(table)
    exact = on_exact_grid(table, 2 * n)
    seen, size = np.abs(exact.sum(axis=0)), np.abs(exact).sum(axis=0)
    draws = generator(seed, "sign flips")
    row_bytes = (n + 7) // 8
    beyond: NDArray[np.int64] = np.zeros(table.shape[1], dtype=np.int64)
    step = max(1, max_bytes // (BYTES_PER_CELL * n))
    for start in range(0, n_resamples, step):
        k = min(step, n_resamples - start)
        raw = draws.integers(0, 256, (k, (row_bytes + 3) // 4 * 4), dtype=np.uint8)
        flips = np.unpackbits(raw, axis=1, count=n).astype(np.float64)
        sums = exact.sum(axis=0) - 2 * (flips @ exact)
        beyond += (np.abs(sums) >= seen - 1e-12 * size).sum(axis=0)
    return (1 + beyond) / (1 + n_resamples)
