"""Stratified bootstrap of means over strata, with one resampling index shared by all that is compared.

A stratum is a set of units that are drawn together; what is drawn are counts of units, so that every series (a model,
a pair of models) sees the same draw. A resample takes n - 1 of n units, with replacement: the plain n of n gives
intervals that are too narrow by sqrt((n - 1)/n), which is grave where strata have two or three units.

Where units are of few kinds (0/1 scores), it is the kinds that are drawn, by one multinomial. From a thousand units up
each unit is drawn a number of times of its own, independently of the others, which numbers in blocks can hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalframe.errors import Fault, OptionError
from evalframe.limits import Limits

Array = NDArray[np.float64]
BYTES_PER_CELL = 24  # of an index, a count and the count as a float
FEW_COLUMNS = 6
MANY_UNITS = 1_000
SEGMENT = 8_192  # units whose columns stay in the processor's cache
BLOCK = 1 << 16  # counts drawn at once, likewise
UNITS_A_KIND = 20  # a binomial draw costs as much as the draws of so many units
LOOK = 1_000
EDGES = tuple(round(cases / 24 * 2**16) for cases in (9, 17, 23))  # of 16 random bits: once, twice, four times
MOST_TIMES = 4  # that a unit is drawn, on average over many


@dataclass(frozen=True, slots=True)
class Stratum:
    """Units that are drawn together.

    Attributes:
        label: Names the stratum; with the seed it fixes the draws, whatever the order of strata.
        columns: What is summed over units, shape (units, series, c); a unit that a series lacks is 0 in all columns.
        value: Sums (..., series, c) to values (..., series); NaN where a series has nothing to go by.
        weights: The weight of the stratum in each series' mean, shape (series,); 0 where the series lacks it.
        sizes: How many of the last columns hold a unit's size: 1, its weight, or a cluster's number of units.
    """

    label: str
    columns: Array
    value: Callable[[Array], Array]
    weights: Array
    sizes: int = 1


def ratio(sums: Array) -> Array:
    """Give sum over count, of columns (sum, count): the value of a mean."""
    return divide(sums[..., 0], sums[..., 1])


def divide(numerator: NDArray[Any], denominator: NDArray[Any]) -> Array:
    """Divide where the denominator is over 0; NaN elsewhere, without a warning."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    quotient: Array = np.divide(numerator, denominator, out=np.full(shape, np.nan), where=denominator > 0)
    return quotient


def estimate(strata: Sequence[Stratum]) -> Array:
    """Give each series' weighted mean over the values of the strata, shape (series,); NaN where it has none."""
    values = np.array([stratum.value(stratum.columns.sum(axis=0)) for stratum in strata])
    weights = np.array([stratum.weights for stratum in strata])
    return divide(np.where(weights > 0, weights * values, 0.0).sum(axis=0), weights.sum(axis=0))


def resample(strata: Sequence[Stratum], *, n_resamples: int, seed: int, max_bytes: int) -> Array:
    """Give the estimate on each of ``n_resamples`` resamples, shape (n_resamples, series).

    A stratum of one unit does not vary. Where a draw holds no unit that a series has, the stratum's own value stands
    in for that series.

    Args:
        strata: At least one; all with the same number of series.
        n_resamples: 1 or more.
        seed: The same seed and labels give the same draws.
        max_bytes: Of resampling indices held at once; does not change the result.
    """
    total = np.zeros((n_resamples, strata[0].columns.shape[1]))
    weight = np.sum([stratum.weights for stratum in strata], axis=0)
    for stratum in strata:  # their numbers of units and of columns differ
        n, m, c = stratum.columns.shape
        own = stratum.value(stratum.columns.sum(axis=0))
        if n < 2:
            total += np.where(stratum.weights > 0, stratum.weights * own, 0.0)
            continue
        flat = stratum.columns.reshape(n, m * c)
        for rows, sums in resampled_sums(
            flat, label=stratum.label, n_resamples=n_resamples, seed=seed, max_bytes=max_bytes
        ):
            drawn = stratum.value(sums.reshape(-1, m, c))
            drawn = np.where(np.isnan(drawn), own, drawn)
            total[rows] += np.where(stratum.weights > 0, stratum.weights * drawn, 0.0)
    return divide(total, weight)


def resampled_sums(
    columns: Array, *, label: str, n_resamples: int, seed: int, max_bytes: int
) -> Iterator[tuple[slice, Array]]:
    """Draw n - 1 of n units again and again and sum their columns.

    Args:
        columns: Shape (n, c), n of 2 or more.
        label, seed: Fix the draws.
        n_resamples: 1 or more.
        max_bytes: Bounds what is held at once; does not change the draws.

    Yields:
        The resamples as a slice, and their sums, shape (resamples, c).
    """
    n = len(columns)
    exact = on_exact_grid(columns, MOST_TIMES * n)
    draws = generator(seed, label)
    kinds, of_kind = _kinds(exact)
    # a stream of numbers for each segment: they are the same however resamples are chunked
    streams = [generator(seed, f"{label}\0{first}") for first in range(0, n, SEGMENT)]
    by_counts = of_kind is None and n >= MANY_UNITS
    step = max(1, max_bytes // (BYTES_PER_CELL * (columns.shape[1] if by_counts else len(kinds))))
    for start in range(0, n_resamples, step):
        rows = slice(start, min(start + step, n_resamples))
        k = rows.stop - rows.start
        if by_counts:
            yield rows, _sums_of_counts(exact, streams, k)
        elif of_kind is None:
            yield rows, _sums_of_units(exact, draws.integers(0, n, (k, n - 1), dtype=np.int32))
        else:
            yield rows, draws.multinomial(n - 1, of_kind / n, size=k).astype(np.float64) @ kinds


def _sums_of_units(columns: Array, units: NDArray[np.int32]) -> Array:
    """Sum the columns (n, c) over drawn units (resamples, n - 1): (resamples, c).

    A column that is the same for all units needs no draw; a few are gathered, many are summed by counts of units. On
    the exact grid both give the same.
    """
    (k, size), n = units.shape, len(columns)
    sums: Array = np.broadcast_to(columns[0] * size, (k, columns.shape[1])).copy()
    varying = np.flatnonzero(np.ptp(columns, axis=0))
    if len(varying) <= FEW_COLUMNS:
        for column in varying:
            sums[:, column] = np.ascontiguousarray(columns[:, column]).take(units).sum(axis=1)
        return sums
    places = units + (np.arange(k, dtype=np.int64) * n)[:, None]
    counts = np.bincount(places.ravel(), minlength=k * n).reshape(k, n)
    sums[:, varying] = counts.astype(np.float64) @ columns[:, varying]
    return sums


def _sums_of_counts(columns: Array, streams: Sequence[np.random.Generator], k: int) -> Array:
    """Sum the columns (n, c) over k resamples in which each unit counts 0, 1, 2 or 4 times: (k, c).

    The counts are the fixed points of a random permutation of four, 9, 8, 6 and 1 of 24 cases, whose first four moments
    are those of Poisson's distribution of mean 1 (mean, variance and skewness of the bootstrap's counts): the Poisson
    bootstrap (J. Hanley and B. MacGibbon, Comput. Methods Programs Biomed. 83 (2006) 57). The size of a resample varies
    by 1 / sqrt(n); values are ratios to it. The variance is that of n of n draws, 1/n below that of n - 1.
    """
    varying = np.flatnonzero(np.ptp(columns, axis=0))
    table = np.column_stack([columns[:, varying], np.ones(len(columns))])
    sums = np.zeros((k, table.shape[1]))
    for segment, draws in enumerate(streams):  # in blocks, so that no table of all counts is held
        its = table[segment * SEGMENT : (segment + 1) * SEGMENT]
        n, words = len(its), (len(its) + 3) // 4
        step = max(1, BLOCK // n)
        for start in range(0, k, step):
            height = min(step, k - start)
            raw = draws.bit_generator.random_raw(height * words).astype("<u8", copy=False)
            places = raw.view("<u2").reshape(height, 4 * words)[:, :n]
            once, twice, four = ((places >= edge).view(np.uint8) for edge in EDGES)
            sums[start : start + height] += (once + twice + 2 * four).astype(np.float64) @ its
    found: Array = columns[0] * sums[:, -1:]  # of the columns that are the same for all units
    found[:, varying] = sums[:, :-1]
    return found


def _kinds(columns: Array) -> tuple[Array, NDArray[np.int64] | None]:
    """Give the distinct rows and how many there are of each, where they are few; else the rows themselves and None.

    How often each kind is drawn is multinomial, which is the same distribution as counting drawn units, at a cost that
    does not grow with their number: 0/1 scores of four models have at most 16 kinds.
    """
    n = len(columns)
    # a look at some rows tells at once where nearly all differ, and spares the sort
    if n < UNITS_A_KIND or len(np.unique(columns[:LOOK], axis=0)) * UNITS_A_KIND > n:
        return columns, None
    kinds, counts = np.unique(columns, axis=0, return_counts=True)
    return (kinds, counts.astype(np.int64)) if len(kinds) * UNITS_A_KIND <= n else (columns, None)


def interval(resampled: Array, *, level: float = 0.95) -> tuple[Array, Array]:
    """Give the percentile interval of each series: resampled (n_resamples, series) to two arrays (series,)."""
    tail = (1 - level) / 2
    lo, hi = np.quantile(resampled, [tail, 1 - tail], axis=0)
    return lo, hi


def resamples_of(n_resamples: int | None, limits: Limits) -> int:
    """Check a number of resamples; None is that of the limits."""
    if n_resamples is None:
        return limits.n_resamples
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int) or n_resamples < 1:
        fault = Fault(
            "n_resamples", "bad_value", f"is {n_resamples!r}, not a whole number from 1 up", "10,000 is usual"
        )
        raise OptionError.of([fault], what="bootstrap")
    return n_resamples


def generator(seed: int, label: str) -> np.random.Generator:
    """Give the random numbers of a seed and a label: the same in every process."""
    digest = hashlib.blake2b(f"{seed}\0{label}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.SFC64(int.from_bytes(digest)))


def on_exact_grid(columns: Array, draws: int) -> Array:
    """Round each column to a binary grid on which every sum of ``draws`` of its values is exact in a double.

    Sums then do not depend on the order of addition, which differs between BLAS kernels and numbers of threads. For
    shares the grid is finer than 1e-12 up to 2,000 draws and finer than 3e-10 up to a million; integers stay as they
    are.
    """
    largest = np.abs(columns).max(axis=0, initial=0.0)
    bits = np.ceil(np.log2(np.maximum(largest, np.finfo(float).tiny) * draws))
    scale = np.ldexp(1.0, np.clip(52 - bits, -1000, 1000).astype(int))
    exact: Array = np.rint(columns * scale) / scale
    return exact
