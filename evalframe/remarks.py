"""What a reader of a leaderboard must know so as not to be misled: one sentence each, put on the frame as notes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from evalframe.metrics import Array
from evalframe.stats.bootstrap import estimate
from evalframe.units import Units, Weighting

TIE = 1e-12
MOST_NAMES = 5


def leaderboard_notes(
    units: Units, *, left_out: pl.DataFrame, weighting: Weighting, failures_count: bool
) -> Iterator[str]:
    """Say what the figures do not show.

    Args:
        units: What is ranked, before failed samples are counted.
        left_out: ``task_id`` and ``metric`` of the tasks that are in no combined mean.
        weighting: As the leaderboard has it.
        failures_count: Failed samples count as the worst score already.
    """
    if left_out.height:
        tasks = _listed([f"{task} ({metric})" for task, metric in left_out.select("task_id", "metric").iter_rows()])
        yield (
            f"not in the combined mean, because lower is better or scores leave [0, 1]: {tasks}; "
            "rank a metric alone with metric="
        )
    scored: Array = np.sum(~np.isnan(units.scores), axis=0)
    if len(set(scored[scored > 0].tolist())) > 1 and not failures_count:
        counts = _listed([f"{model} {n}" for model, n in zip(units.models, scored, strict=True)])
        yield (
            f"models have scores of different numbers of samples ({counts}, of {len(units.scores)}); "
            "common=True compares them on the same ones"
        )
    if not failures_count and (turned := _turned_by_failures(units, weighting)):
        yield (
            f"the order would change if failed samples had been right: {_listed(turned)}; "
            'failures="zero" counts them as the worst score, rerun them to know'
        )


def _turned_by_failures(units: Units, weighting: Weighting) -> list[str]:
    """Name the pairs whose order turns when the failed samples of the lower one are right."""
    if not units.failed.any():
        return []
    means, at_best = _means(units, weighting), _means(units.with_failures_as_best(), weighting)
    sign = 1 if units.higher_is_better else -1
    return [
        f"{low} above {high}"
        for i, high in enumerate(units.models)
        for j, low in enumerate(units.models)
        if sign * (means[i] - means[j]) > TIE and sign * (at_best[j] - means[i]) > TIE
    ]


def _means(units: Units, weighting: Weighting) -> Array:
    strata = units.strata(weighting)
    return estimate(strata) if strata else np.full(len(units.models), np.nan)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
