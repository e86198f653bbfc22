"""Calibration of probabilities: binned errors, Brier's score and its parts, perplexity. Arrays in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalframe.errors import Fault, OptionError
from evalframe.stats.bootstrap import Array, divide, generator, resampled_sums
from evalframe.stats.intervals import wilson

IntArray = NDArray[np.int64]

# beyond, the resampled sums of the bins are drawn from their normal limit: unit by unit, a million pairs take minutes
MOST_UNITS_DRAWN = 5_000
MOST_CELLS_DRAWN = 500_000
CHUNK = 1 << 15  # pairs at once


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal-width bins on [0, 1]: left edge in the bin, right edge not, but for 1.0, which is in the last.

    Attributes:
        lo, hi: Edges.
        n: Pairs in the bin.
        mean_confidence, accuracy: NaN where the bin is empty.
        accuracy_ci_lo, accuracy_ci_hi: 95 % Wilson interval; NaN where the bin is empty.
    """

    lo: Array
    hi: Array
    n: IntArray
    mean_confidence: Array
    accuracy: Array
    accuracy_ci_lo: Array
    accuracy_ci_hi: Array


@dataclass(frozen=True, slots=True)
class Brier:
    """Brier's score and its parts: ``brier == reliability - resolution + uncertainty + within_bin``."""

    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within_bin: float


def pairs(confidences: Any, correct: Any, bins: int) -> tuple[Array, Array]:
    """Check the input of a calibration, sequences or columns of any library, and give both as float arrays.

    Raises:
        OptionError: Names every fault and the first row of each: lengths that differ, a missing value, a confidence
            outside [0, 1], a ``correct`` that is neither true nor false, ``bins`` below 1.
    """
    faults = []
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        faults.append(Fault("bins", "bad_value", f"is {bins!r}, not a whole number from 1 up", "10 is usual"))
    confidence, right = _floats(confidences, "confidences", faults), _floats(correct, "correct", faults)
    if len(confidence) != len(right) and not faults:
        faults.append(
            Fault("correct", "length", f"has {len(right)} values, confidences has {len(confidence)}", "pair them")
        )
    for name, values in (("confidences", confidence), ("correct", right)):
        if (row := _first(np.isnan(values))) is not None:
            faults.append(Fault(f"{name}[{row}]", "missing", "is missing (null or NaN)", "leave the pair out"))
    if (row := _first((confidence < 0) | (confidence > 1))) is not None:
        seen = confidence[row]
        ask = "is it a percentage? divide by 100" if 1 < seen <= 100 else "give probabilities, no log-probabilities"
        faults.append(Fault(f"confidences[{row}]", "range", f"is {seen:g}, outside of [0, 1]", ask))
    if (row := _first(~np.isnan(right) & (right != 0) & (right != 1))) is not None:
        detail = f"is {right[row]:g}, neither true (1) nor false (0)"
        faults.append(Fault(f"correct[{row}]", "bad_value", detail, "compare the score with a threshold first"))
    if faults:
        raise OptionError.of(faults, what="calibration")
    return confidence, right


def bin_of(confidence: Array, bins: int) -> IntArray:
    """Give the bin of each confidence; a value equal to the double ``k / bins`` is in bin k.

    >>> bin_of(np.array([0.0, 0.29, 0.3, 1.0]), 10).tolist()
    [0, 2, 3, 9]
    """
    product = confidence * bins
    index = product.astype(np.int64)
    # the product is rounded: 0.29 * 100 is 28.999…; what is next to an edge is compared with it
    near = np.flatnonzero(np.abs(product - np.rint(product)) <= bins * 1e-15)
    if len(near):
        values, its = confidence[near], index[near]
        its += values >= (its + 1) / bins
        its -= values < its / bins
        index[near] = np.minimum(its, bins - 1)
    return index


def bin_sums(confidence: Array, correct: Array, bins: int) -> tuple[IntArray, Array, Array]:
    """Give for each bin the number of pairs, the sum of confidences and the number that are right."""
    n, forecast = np.zeros(2 * bins, np.int64), np.zeros(2 * bins)  # of what is wrong, then of what is right
    for part in _chunks(len(confidence)):
        index = bin_of(confidence[part], bins) + bins * correct[part].astype(np.int64)
        n += np.bincount(index, minlength=2 * bins)
        forecast += np.bincount(index, confidence[part], minlength=2 * bins)
    return n[:bins] + n[bins:], forecast[:bins] + forecast[bins:], n[bins:].astype(np.float64)


def bin_table(confidence: Array, correct: Array, bins: int) -> Bins:
    """Give counts, means and intervals of each bin: the reliability diagram."""
    n, forecast, right = bin_sums(confidence, correct, bins)
    lo, hi = wilson(right, n)
    edges = np.arange(bins + 1) / bins
    mean_confidence = divide(forecast, n.astype(float))
    accuracy = divide(right, n.astype(float))
    # a mean of values in [0, 1] may be out of it by rounding
    return Bins(edges[:-1], edges[1:], n, np.minimum(mean_confidence, 1.0), accuracy, lo, hi)


def ece(table: Bins) -> float:
    """Give the expected calibration error: the sum of (n_b / N) |mean confidence - accuracy|.

    M. P. Naeini et al., AAAI 2015; C. Guo et al., ICML 2017, equation 3. Nulls: NaN without pairs.
    """
    gaps = np.abs(table.mean_confidence - table.accuracy)
    total = int(table.n.sum())
    return min(1.0, float(np.nansum(gaps * table.n) / total)) if total else math.nan


def mce(table: Bins) -> float:
    """Give the largest gap of a bin. Nulls: NaN without pairs."""
    gaps = np.abs(table.mean_confidence - table.accuracy)[table.n > 0]
    return float(gaps.max(initial=0.0)) if len(gaps) else math.nan


def ece_adaptive(confidence: Array, correct: Array, bins: int) -> float:
    """Give the calibration error over bins of equal mass: sorted by confidence, cut into ``bins`` runs.

    K. Nguyen and B. O'Connor, EMNLP 2015. Pairs of equal confidence each count with their mean correctness, so that
    a cut between them does not depend on their order. Nulls: NaN without pairs.
    """
    n = len(confidence)
    if not n:
        return math.nan
    order = np.argsort(confidence, kind="stable")
    values, right = confidence[order], correct[order]
    first = np.flatnonzero(np.diff(values, prepend=-1.0))  # of each run of equal confidences
    if len(first) < n:
        counts = np.diff(first, append=n)
        right = np.repeat(np.add.reduceat(right, first) / counts, counts)
    gaps = values - right
    runs = min(bins, n)
    starts = np.arange(runs) * n // runs
    return float(min(1.0, np.abs(np.add.reduceat(gaps, starts)).sum() / n))


def brier(confidence: Array, correct: Array, bins: int) -> Brier:
    """Give the mean squared error of the confidence and its decomposition over equal-width bins.

    A. H. Murphy, J. Appl. Meteorol. 12 (1973) 595; the within-bin terms (variance less covariance) that make the sum
    exact: D. B. Stephenson et al., Weather and Forecasting 23 (2008) 752, equation 8. Nulls: NaN without pairs.
    """
    total = len(confidence)
    if not total:
        return Brier(*[math.nan] * 5)
    counts, of_confidence, right = bin_sums(confidence, correct, bins)
    n = counts.astype(float)
    forecast, observed = np.nan_to_num(divide(of_confidence, n)), np.nan_to_num(divide(right, n))
    base = float(right.sum()) / total
    squares = np.zeros(3)  # of the error, of the confidence within bins, of its product with correctness there
    for part in _chunks(total):
        its_confidence, its_correct = confidence[part], correct[part]
        index = bin_of(its_confidence, bins)
        within = its_confidence - forecast[index]
        squares += (
            float(((its_confidence - its_correct) ** 2).sum()),
            float((within**2).sum()),
            float((within * (its_correct - observed[index])).sum()),
        )
    error, variance, covariance = (squares / total).tolist()
    return Brier(
        brier=error,
        reliability=float((n * (forecast - observed) ** 2).sum() / total),
        resolution=float((n * (observed - base) ** 2).sum() / total),
        uncertainty=base * (1 - base),
        within_bin=variance - 2 * covariance,
    )


def ece_interval(
    confidence: Array,
    correct: Array,
    bins: int,
    *,
    groups: IntArray | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
    max_bytes: int = 64 * 1024 * 1024,
) -> tuple[float, float]:
    """Give a bootstrap interval of the expected calibration error, at least 95 % but for very few pairs.

    The error is the norm of the vector of the bins' gaps, and noise makes a norm larger: a percentile interval lies
    above the true value and never covers 0. Here q is the 95 % quantile of the norm of (resampled - seen) gaps; by the
    triangle inequality the true error is within q of the one seen. Simulated on 30 to 1,000 pairs it covers 97 to
    100 %, and 90 to 96 % where the calibration is perfect.

    Args:
        confidence, correct: As ``pairs`` gives them.
        bins: 1 or more.
        groups: Code of the unit of each pair, from 0 up; pairs of a unit (repeats of a sample) are drawn together.
            None: each pair is a unit. Beyond 5,000 units the gaps are drawn from their normal limit.
        n_resamples: 1 or more.
        seed: Of the draws.
        max_bytes: Of resampling indices held at once; does not change the result.

    Nulls: NaN with fewer than two units.
    """
    units = np.arange(len(confidence)) if groups is None else np.unique(groups, return_inverse=True)[1]
    n = int(units.max(initial=-1)) + 1
    if n < 2:
        return math.nan, math.nan
    index = bin_of(confidence, bins)
    populated = np.bincount(index, minlength=bins) > 0
    place, k = (np.cumsum(populated) - 1)[index], int(populated.sum())
    gap = np.bincount(place, confidence - correct, minlength=k) / len(confidence)
    if n > MOST_UNITS_DRAWN or n * k > MOST_CELLS_DRAWN:
        noise = _normal_noise(
            confidence - correct, units, place, n_resamples=n_resamples, seed=seed, max_bytes=max_bytes
        )
    else:
        columns = np.zeros((n, k + 1))
        np.add.at(columns, (units, place), confidence - correct)
        columns[:, k] = np.bincount(units, minlength=n)
        noise = np.empty(n_resamples)
        draws = resampled_sums(columns, label="ece", n_resamples=n_resamples, seed=seed, max_bytes=max_bytes)
        for rows, sums in draws:
            noise[rows] = np.abs(sums[:, :k] / sums[:, k:] - gap).sum(axis=1)
    middle, q = float(np.abs(gap).sum()), float(np.quantile(noise, 0.95))
    return max(0.0, middle - q), min(1.0, middle + q)


def perplexity(token_nll: Sequence[float] | Array, token_count: Sequence[int] | IntArray) -> tuple[float, float, int]:
    """Give perplexity, average negative log-likelihood (nats a token) and the number of tokens.

    ``exp(sum of token_nll / sum of token_count)``: tokens count the same, not texts.

    Raises:
        OptionError: A negative ``token_nll``, or lengths that differ.

    Nulls: NaN, NaN, 0 without tokens; perplexity is NaN where it is beyond a double (over 709 nats a token).

    >>> round(perplexity([0.6931471805599453, 1.3862943611198906], [1, 2])[0], 6)
    2.0
    """
    nll, count = np.asarray(token_nll, float), np.asarray(token_count, np.int64)
    if len(nll) != len(count):
        raise OptionError(f"token_nll has {len(nll)} values, token_count {len(count)}; give one of each a text")
    if (row := _first(nll < 0)) is not None:
        raise OptionError(
            f"token_nll[{row}] is {nll[row]:g}: a negative log-likelihood is not below 0; is the minus missing?"
        )
    tokens = int(count.sum())
    if not tokens:
        return math.nan, math.nan, 0
    average = float(nll.sum()) / tokens
    return (math.exp(average) if average < 709 else math.nan), average, tokens


def _normal_noise(
    residual: Array, units: IntArray, place: IntArray, *, n_resamples: int, seed: int, max_bytes: int
) -> Array:
    """Draw the norm of the resampled gaps' deviation, each bin's sum normal with the variance over units."""
    total, k = len(residual), int(place.max()) + 1
    if int(units.max()) + 1 == total:  # each pair is a unit
        variance = np.bincount(place, residual**2, minlength=k)
    else:
        cell, inverse = np.unique(units * k + place, return_inverse=True)
        variance = np.bincount(cell % k, np.bincount(inverse, residual) ** 2, minlength=k)
    variance = np.maximum(variance - np.bincount(place, residual, minlength=k) ** 2 / (int(units.max()) + 1), 0.0)
    scale = np.sqrt(variance) / total
    draws = generator(seed, "ece")
    noise = np.empty(n_resamples)
    step = max(1, max_bytes // (16 * k))
    for start in range(0, n_resamples, step):
        rows = slice(start, min(start + step, n_resamples))
        noise[rows] = (np.abs(draws.standard_normal((rows.stop - start, k))) * scale).sum(axis=1)
    return noise


def _floats(values: Any, name: str, faults: list[Fault]) -> Array:
    column = values.to_numpy() if hasattr(values, "to_numpy") else values  # of polars and pandas
    try:
        if not isinstance(column, np.ndarray) or column.dtype == object:
            column = [math.nan if value is None else value for value in column]
        array = np.asarray(column)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        faults.append(Fault(name, "bad_type", "is no sequence of numbers", "give a list, an array or a column"))
        return np.empty(0)
    if array.ndim != 1:
        faults.append(Fault(name, "bad_type", f"has {array.ndim} dimensions", "give one value a prediction"))
        return np.empty(0)
    return array.astype(np.float64)


def _chunks(n: int) -> Iterator[slice]:
    """Cut n pairs into pieces that stay in the processor's cache, whatever the machine."""
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))


def _first(bad: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(bad)) if bad.any() else None
