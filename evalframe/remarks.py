"""What a reader of a leaderboard must know so as not to be misled: one sentence each, put on the frame as notes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from evalframe.frames import listed
from evalframe.metrics import Array
from evalframe.units import Units

TIE = 1e-12


def leaderboard_notes(units: Units, *, left_out: pl.DataFrame, failures_count: bool) -> Iterator[str]:
    """Say what the figures do not show.

    Args:
        units: What is ranked, before failed samples are counted.
        left_out: ``task_id`` and ``metric`` of the tasks that are in no combined mean.
        failures_count: Failed samples count as the worst score already.
    """
    if left_out.height:
        tasks = listed([f"{task} ({metric})" for task, metric in left_out.select("task_id", "metric").iter_rows()])
        yield (
            f"not in the combined mean, because lower is better or scores leave [0, 1]: {tasks}; "
            "rank a metric alone with metric="
        )
    scored: Array = np.sum(~np.isnan(units.scores), axis=0)
    if _covered_unevenly(units) and not failures_count:
        counts = listed([f"{model} {n}" for model, n in zip(units.models, scored, strict=True)])
        yield (
            f"models have scores of different numbers of samples ({counts}, of {len(units.scores)}); "
            "common=True compares them on the same ones"
        )
    if not failures_count and (turned := _turned_by_failures(units)):
        yield (
            f"the order would change if failed samples had been right: {listed(turned)}; "
            'failures="zero" counts them as the worst score, rerun them to know'
        )
    if not failures_count and (turned := _held_up_by_failures(units)):
        yield (
            f"the order would change if failed samples counted as the worst score: {listed(turned)}; "
            'failures="zero" ranks so, rerun them to know'
        )


def reply_notes(units: Units, counted: pl.DataFrame, *, failures_count: bool) -> Iterator[str]:
    """Say which models lack replies, where no other note does.

    Args:
        units: What is ranked, before failed samples are counted.
        counted: Of these models: ``model_id``, ``n_samples``, ``n_failed``, ``n_skipped``.
        failures_count: Failed samples count as the worst score already.
    """
    if _covered_unevenly(units) and not failures_count:
        return
    lacks = []
    for name, n, failed, skipped in counted.select("model_id", "n_samples", "n_failed", "n_skipped").iter_rows():
        told = [f"{failed} failed"] if failed and not failures_count else []
        told += [f"{skipped} not called"] if skipped else []
        if told:
            lacks.append(f"{name} ({' and '.join(told)}, of {n})")
    if lacks:
        yield f"samples without a reply are in no mean: {listed(lacks)}; failures() says why"


def _covered_unevenly(units: Units) -> bool:
    """Whether models that have any score have scores of different numbers of units."""
    scored: Array = np.sum(~np.isnan(units.scores), axis=0)
    return len(set(scored[scored > 0].tolist())) > 1


def _turned_by_failures(units: Units) -> list[str]:
    """Name the pairs whose order turns when the failed samples of the lower one are right."""
    if not units.failed.any():
        return []
    means, at_best = units.means(), units.with_failures_as_best().means()
    sign = 1 if units.higher_is_better else -1
    return [
        f"{low} above {high}"
        for i, high in enumerate(units.models)
        for j, low in enumerate(units.models)
        if sign * (means[i] - means[j]) > TIE and sign * (at_best[j] - means[i]) > TIE
    ]


def _held_up_by_failures(units: Units) -> list[str]:
    """Name the pairs whose order turns when the failed samples of the upper one are wrong."""
    if not units.failed.any():
        return []
    means, at_worst = units.means(), units.with_failures_as_worst().means()
    sign = 1 if units.higher_is_better else -1
    return [
        f"{high} below {low}"
        for i, high in enumerate(units.models)
        for j, low in enumerate(units.models)
        if sign * (means[i] - means[j]) > TIE and sign * (means[j] - at_worst[i]) > TIE
    ]


def cluster_notes(units: Units, cluster: str | None, few: int) -> Iterator[str]:
    """Say what is drawn where units belong together in clusters, and when there are too few to draw from.

    Args:
        units: What is compared.
        cluster: What clusters are called; None: there are none.
        few: Under so many clusters intervals are rough.
    """
    if cluster is None or units.clusters is None:
        return
    n, n_units = units.n_clusters, len(units.clusters)
    if not units.clustered:
        yield f"no two samples share {cluster}: each is drawn by itself, as without cluster="
        return
    if n == 1:
        yield f"all samples are of one cluster ({cluster}), which tells nothing of others: there is no interval"
        return
    yield f"intervals and tests draw {n} clusters ({cluster}), not {n_units} samples"
    if n < few:
        yield (
            f"{n} clusters are few (under {few}): intervals have the quantiles of Student's t, and are still rough; "
            "collect more clusters, not more samples of each"
        )


def pair_notes(units: Units, compared: pl.DataFrame, few: int) -> Iterator[str]:
    """Say what differences of models do not show.

    Args:
        units: What is compared.
        compared: PAIRWISE.
        few: Under so many common units an interval says little.
    """
    there = dict(zip(units.models, (~np.isnan(units.scores)).T, strict=True))
    lacking = [
        f"{a} and {b} ({int((there[a] ^ there[b]).sum())})"
        for a, b in compared.select("model_a", "model_b").iter_rows()
        if (there[a] ^ there[b]).any()
    ]
    if lacking:
        yield (
            "samples that only one of two models has a score of are in no difference, and failures are seldom by "
            f"chance: {listed(lacking)}"
        )
    short = compared.filter((pl.col("n_pairs") > 0) & (pl.col("n_pairs") < few))
    if short.height:
        named = short.select("model_a", "model_b", "n_pairs").iter_rows()
        pairs = listed([f"{a} and {b} ({n})" for a, b, n in named])
        yield f"few common samples (under {few}): {pairs}; intervals are rough"
