"""Strata whose units belong together in clusters -> strata that draw whole clusters.

A cluster (all questions about one passage) may lie within a stratum, hold all of it, or reach over several.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evalframe.stats.bootstrap import Array, Stratum, divide, ratio
from evalframe.stats.influence import added_up, influence

IntArray = NDArray[np.int64]


def draw_clusters(strata: Sequence[Stratum], clusters: Sequence[IntArray], *, pool: str) -> list[Stratum]:
    """Give strata whose units are clusters; the estimate stays what it was.

    - Within a stratum the columns of a cluster's units are added up.
    - A stratum that is one cluster can not be drawn from: all such strata, and the pool that is there, are the units of
      one pooled stratum, as tasks with a single sample are.
    - Strata that share a cluster become one, in which each cluster counts by its influence on the mean over them (to
      first order: the denominators of the strata are not drawn), each residual divided by sqrt(1 - h), h the cluster's
      share of its stratum, so that strata of few clusters are not taken for certain.

    Args:
        strata: One or more.
        clusters: For each stratum the cluster of each unit, numbered from 0. Numbers fix the draws.
        pool: The label of the stratum whose units are strata of one unit each, whether it is there or not.
    """
    pooled: list[tuple[Stratum, IntArray]] = []
    apart: list[tuple[Stratum, IntArray]] = []
    for stratum, its_clusters in zip(strata, clusters, strict=True):
        kinds, of_unit = np.unique(its_clusters, return_inverse=True)
        if stratum.label == pool:
            pooled.append((stratum, its_clusters))
        elif len(kinds) == 1:
            pooled.append((_as_unit(stratum), kinds))
        else:
            apart.append((_added_up(stratum, of_unit, len(kinds)), kinds))
    if pooled:
        joined, its_clusters = _joined([stratum for stratum, _ in pooled], pool), np.concatenate([c for _, c in pooled])
        kinds, of_unit = np.unique(its_clusters, return_inverse=True)
        apart.append((_added_up(joined, of_unit, len(kinds)), kinds))
    return [_merged(part) for part in _sharing(apart)]


def _as_unit(stratum: Stratum) -> Stratum:
    """Take a whole stratum as one unit of a pooled one."""
    value = np.nan_to_num(stratum.value(stratum.columns.sum(axis=0)))
    columns = np.stack([stratum.weights * value, stratum.weights], axis=1)[None]
    return Stratum(stratum.label, columns, ratio, stratum.weights)


def _joined(strata: Sequence[Stratum], label: str) -> Stratum:
    columns = np.concatenate([stratum.columns for stratum in strata])
    return Stratum(label, columns, ratio, np.sum([stratum.weights for stratum in strata], axis=0))


def _added_up(stratum: Stratum, of_unit: IntArray, n: int) -> Stratum:
    if n == len(of_unit):
        order = np.argsort(of_unit)
        return Stratum(stratum.label, stratum.columns[order], stratum.value, stratum.weights, stratum.sizes)
    columns = np.zeros((n, *stratum.columns.shape[1:]))
    np.add.at(columns, of_unit, stratum.columns)
    return Stratum(stratum.label, columns, stratum.value, stratum.weights, stratum.sizes)


def _sharing(apart: Sequence[tuple[Stratum, IntArray]]) -> list[list[tuple[Stratum, IntArray]]]:
    """Group the strata that share a cluster, directly or by way of others, in their order."""
    group = list(range(len(apart)))

    def first_of(stratum: int) -> int:
        while group[stratum] != stratum:
            group[stratum] = group[group[stratum]]
            stratum = group[stratum]
        return stratum

    stratum_of = np.repeat(np.arange(len(apart)), [len(clusters) for _, clusters in apart])
    cluster = np.concatenate([clusters for _, clusters in apart])
    order = np.argsort(cluster, kind="stable")
    shared = np.flatnonzero(np.diff(cluster[order]) == 0)
    links = np.unique(np.stack([stratum_of[order][shared], stratum_of[order][shared + 1]], axis=1), axis=0)
    for one, other in links.tolist():  # no more than pairs of strata
        low, high = sorted((first_of(one), first_of(other)))
        group[high] = low
    together: dict[int, list[tuple[Stratum, IntArray]]] = {}
    for place, part in enumerate(apart):
        together.setdefault(first_of(place), []).append(part)
    return list(together.values())


def _merged(part: Sequence[tuple[Stratum, IntArray]]) -> Stratum:
    """Make one stratum of those that share clusters: columns (adjusted influence, share of the mean)."""
    if len(part) == 1:
        return part[0][0]
    kinds = np.unique(np.concatenate([clusters for _, clusters in part]))
    weight = np.sum([stratum.weights for stratum, _ in part], axis=0)
    pull, held, mean = np.zeros((len(kinds), len(weight))), np.zeros((len(kinds), len(weight))), np.zeros(len(weight))
    for stratum, clusters in part:
        own, share = influence(stratum)
        at, of_all = np.searchsorted(kinds, clusters), np.nan_to_num(divide(stratum.weights, weight))
        residuals = own - share * added_up(own)
        pull[at] += of_all * np.nan_to_num(divide(residuals, np.sqrt(np.maximum(0.0, 1 - share))))
        held[at] += of_all * share
        mean += of_all * np.nan_to_num(stratum.value(stratum.columns.sum(axis=0)))
    pull *= np.sqrt(np.maximum(0.0, 1 - held))  # which the drawing of n - 1 of n puts back
    pull -= held * added_up(pull)  # adjusted residuals need not add up to 0; the mean must stay

    def value(sums: Array) -> Array:
        return mean + divide(sums[..., 0], sums[..., 1])

    return Stratum("\0".join(stratum.label for stratum, _ in part), np.stack([pull, held], axis=2), value, weight)
