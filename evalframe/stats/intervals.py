"""Intervals in closed form, for where a bootstrap has nothing to vary."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def quantile_of_normal(probability: float) -> float:
    """Give the standard normal quantile.

    >>> round(quantile_of_normal(0.975), 6)
    1.959964
    """
    return NormalDist().inv_cdf(probability)


def quantile_of_t(probability: float, df: ArrayLike) -> Array:
    """Give the quantile of Student's t distribution.

    With t = sqrt(df) tan(u) the distribution function is 1/2 + C times the integral of cos(x)^(df - 1) from 0 to u;
    C = Gamma((df + 1)/2) / (sqrt(pi) Gamma(df/2)); u is found by bisection. Equal to ``scipy.stats.t.ppf`` to 1e-6.

    Args:
        probability: 1/2 or more, under 1.
        df: Degrees of freedom, 1 or more; from 1e6 the normal quantile is given.

    >>> quantile_of_t(0.975, [1, 9, 99]).round(4).tolist()
    [12.7062, 2.2622, 1.9842]
    """
    degrees = np.atleast_1d(np.asarray(df, float))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    constant = np.array([math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2)) / math.sqrt(math.pi) for d in degrees])
    low, high = np.zeros(len(degrees)), np.full(len(degrees), math.pi / 2)
    high = np.minimum(high, 40 / np.sqrt(degrees))  # beyond there is nothing, and the nodes would be too far apart
    for _ in range(60):
        middle = (low + high) / 2
        at = middle[:, None] * (nodes + 1) / 2
        mass = constant * (np.cos(at) ** (degrees[:, None] - 1) @ weights) * middle / 2
        low, high = np.where(mass < probability - 0.5, middle, low), np.where(mass < probability - 0.5, high, middle)
    found = np.sqrt(degrees) * np.tan((low + high) / 2)
    return np.where(degrees >= 1e6, quantile_of_normal(probability), found).reshape(np.shape(df))


def wilson(
    successes: ArrayLike, n: ArrayLike, *, level: float = 0.95, df: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Give the Wilson score interval of a proportion, without continuity correction.

    ``(p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)``; E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209. Equal to
    ``scipy.stats.binomtest(...).proportion_ci(method="wilson")`` to 1e-12.

    Args:
        successes: 0 to n; a fraction is legal (a mean over repeats times n).
        n: Number of trials.
        level: Of confidence, in (0, 1).
        df: Take z from Student's t with these degrees of freedom; None: from the normal distribution.

    Nulls: NaN where n is 0.

    >>> lo, hi = wilson(12, 12)
    >>> round(float(lo), 4), float(hi)
    (0.7575, 1.0)
    """
    tail = (1 + level) / 2
    z2 = (quantile_of_normal(tail) if df is None else quantile_of_t(tail, df)) ** 2
    k, trials = np.broadcast_arrays(np.asarray(successes, float), np.asarray(n, float))
    p = np.divide(k, trials, out=np.full(k.shape, np.nan), where=trials > 0)
    middle = k + z2 / 2
    half = np.sqrt(z2 * (p * (1 - p) * trials + z2 / 4))
    lo, hi = (middle - half) / (trials + z2), (middle + half) / (trials + z2)
    # at the ends the formula gives 0 and 1 but for rounding
    return np.where(p == 0, 0.0, np.maximum(lo, 0.0)), np.where(p == 1, 1.0, np.minimum(hi, 1.0))


def equal_differences(difference: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Bound the mean of differences in [-1, 1] of which n were seen, all equal.

    The share of unseen units that differ from those seen is at most q = z²/(n + z²) (Wilson's upper end for 0 of n);
    each of them may be anything in [-1, 1]: ``[d - q(1 + d), d + q(1 - d)]``. A bootstrap would give [d, d], however
    few units there are.

    >>> lo, hi = equal_differences(1.0, 3)
    >>> lo < 0 < hi == 1.0
    True
    >>> lo, hi = equal_differences(1.0, 12)
    >>> round(lo, 3)
    0.515
    """
    z2 = quantile_of_normal((1 + level) / 2) ** 2
    q = z2 / (n + z2)
    return difference - q * (1 + difference), difference + q * (1 - difference)
