"""What each unit, or cluster of units, adds to a mean over strata: its standard error, and how far to trust it.

A percentile bootstrap of few clusters, or of clusters of very different sizes, is too narrow twice: its variance is
that of residuals that the mean was fitted to, and it has the tails of a normal distribution where those of Student's t
are due. Both are known from the influences, and ``Spread.widening`` makes up for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalframe.stats.bootstrap import Array, Stratum, divide, ratio
from evalframe.stats.intervals import quantile_of_normal, quantile_of_t

ROUNDING = 1e-12  # a standard error within it is none


@dataclass(frozen=True, slots=True)
class Spread:
    """How uncertain each series' mean is; arrays of shape (series,).

    Attributes:
        standard_error: Robust: each unit's squared residual is divided by 1 - h, its share of its stratum (R. Bell and
            D. McCaffrey, Survey Methodology 28 (2002) 169; CR2 for a mean). For single units of equal weight this is
            s / sqrt(n). 0 where nothing varies.
        drawn_error: What draws of n - 1 of n units have.
        df: Degrees of freedom: 1 / sum(h²) - 1 in each stratum (the effective number of clusters: A. Carter,
            K. Schnepel and D. Steigerwald, Rev. Econ. Stat. 99 (2017) 698), over strata by Satterthwaite's formula.
    """

    standard_error: Array
    drawn_error: Array
    df: Array

    def widening(self, *, level: float = 0.95) -> Array:
        """Give the factor by which resamples are moved away from the mean: 1 or more but for rounding.

        The expanded percentile interval (T. Hesterberg, Am. Stat. 69 (2015) 371, section 3.4).
        """
        tail = (1 + level) / 2
        robust = divide(self.standard_error, self.drawn_error)
        factor: Array = np.where(np.isnan(robust), 1.0, robust * quantile_of_t(tail, self.df))
        return factor / quantile_of_normal(tail)


def influence(stratum: Stratum) -> tuple[Array, Array]:
    """Give what each unit adds to the value of its stratum and its share of it, both of shape (units, series).

    Of a mean it is the unit's part of the sum; of any other value its jackknife pseudo-value. 0 where a series lacks
    the unit.
    """
    size = stratum.columns[..., -stratum.sizes :].sum(axis=2)
    total = added_up(size)
    share: Array = np.nan_to_num(divide(size, total))
    if stratum.value is ratio:
        return np.nan_to_num(divide(stratum.columns[..., 0], total)), share
    sums = stratum.columns.sum(axis=0)
    without = np.nan_to_num(stratum.value(sums - stratum.columns))
    return np.where(size > 0, stratum.value(sums) - (1 - share) * without, 0.0), share


def added_up(table: Array) -> Array:
    """Sum over units in their order: numpy's own sum takes another for one series than for several."""
    total: Array = np.cumsum(table, axis=0)[-1]
    return total


def effects(strata: Sequence[Stratum]) -> list[Array]:
    """Split each series' mean over strata into what each unit adds: for each stratum, shape (units, series)."""
    weight = np.sum([stratum.weights for stratum in strata], axis=0)
    return [influence(stratum)[0] * np.nan_to_num(divide(stratum.weights, weight)) for stratum in strata]


def spread(strata: Sequence[Stratum]) -> Spread:
    """Give the uncertainty of each series' mean over strata; a stratum of one unit has none."""
    weight = np.sum([stratum.weights for stratum in strata], axis=0)
    robust, drawn, by_df, most_df = np.zeros((4, len(weight)))
    for stratum in strata:
        own, share = influence(stratum)
        residuals = (own - share * added_up(own)) * np.nan_to_num(divide(stratum.weights, weight))
        squares = residuals**2
        variance = added_up(np.nan_to_num(divide(squares, 1 - share)))
        n = (share > 0).sum(axis=0)
        df = np.where(n > 1, np.maximum(1.0, np.nan_to_num(divide(np.ones(len(n)), added_up(share**2))) - 1), 0.0)
        robust += variance
        drawn += np.nan_to_num(divide(n, n - 1)) * added_up(squares)
        by_df += np.nan_to_num(divide(variance**2, df))
        most_df += df
    df = divide(robust**2, by_df)
    return Spread(np.sqrt(robust), np.sqrt(drawn), np.where(np.isnan(df), np.maximum(most_df, 1.0), df))


def as_many_single_units(means: Array, n: Array, uneven: Spread) -> Array:
    """Give the number of single 0/1 units whose mean would be as uncertain: p(1 - p) / SE², at most n.

    The effective sample size (E. Korn and B. Graubard, Survey Methodology 24 (1998) 193). Where nothing varies it is
    the effective number of clusters, each of which then tells no more than one unit.
    """
    binomial = means * (1 - means)
    varies = (uneven.standard_error > ROUNDING) & (binomial > 0)
    alike = np.where(varies, divide(binomial, uneven.standard_error**2), uneven.df + 1)
    fewest: Array = np.minimum(alike, n)
    return fewest
