"""Units: one value for each (task, sample) and model, of the metric that each task is ranked by (``matrices``).

Leaderboards and comparisons stand on the same units and draw them from the same strata: a task with two or more
samples is a stratum; all tasks with a single sample (each record of a task file) are one pooled stratum. Where units
belong together in clusters, it is clusters that are drawn (``stats.clusters``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.headlines import registered
from evalframe.metrics import Array
from evalframe.registry import METRICS
from evalframe.stats.bootstrap import Stratum, divide, estimate, ratio
from evalframe.stats.clusters import draw_clusters

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Weighting = Literal["task", "sample"]
Placed = tuple[Stratum, IntArray]  # a stratum, and the positions of its units

POOL = "\0single-sample tasks"  # labels the pooled stratum; no task has this id


@dataclass(frozen=True, slots=True)
class Units:
    """The units of all tasks that share one mean, as matrices: rows are units, columns are models.

    Attributes:
        models: Sorted.
        tasks: One row a task, sorted by ``task_id``: ``metric``, ``higher_is_better``, ``category``.
        starts: Where each task's units begin, and the number of units at the end.
        scores: Shape (units, models), averaged over repeats; NaN where there is none.
        failed: Shape (units, models): no score, and a call without a reply.
        parts: For each task (by position) whose metric adds up parts: shape (its units, models, k); NaN where none.
        zeros_and_ones: Units whose scores, before repeats are averaged, are all 0 or 1, shape (units,).
        weighting: What weighs: ``task`` or ``sample``.
        weights: Of each unit, shape (units,), equal within a task where tasks weigh; None: all weigh the same.
        clusters: The cluster of each unit, shape (units,), numbered in the order of units; None: each is its own.
    """

    models: tuple[str, ...]
    tasks: pl.DataFrame
    starts: IntArray
    scores: Array
    failed: BoolArray
    parts: Mapping[int, Array]
    zeros_and_ones: BoolArray
    weighting: Weighting = "task"
    weights: Array | None = None
    clusters: IntArray | None = None

    @property
    def higher_is_better(self) -> bool:
        """The direction, which all tasks of one mean share."""
        return bool(self.tasks["higher_is_better"].all())

    @property
    def binary(self) -> bool:
        """All scores, before repeats are averaged, are 0 or 1."""
        return bool(self.zeros_and_ones.all())

    @property
    def sizes(self) -> IntArray:
        """Number of units of each task."""
        return np.diff(self.starts)

    @property
    def n_clusters(self) -> int:
        """Number of clusters; of units where each is its own."""
        return len(self.scores) if self.clusters is None else len(np.unique(self.clusters))

    @property
    def clustered(self) -> bool:
        """Whether any cluster has two units: clusters of one unit each are no clusters."""
        return self.n_clusters < len(self.scores)

    @property
    def weighted(self) -> bool:
        """Whether units differ in weight."""
        return self.weights is not None and len(self.weights) > 0 and bool(np.ptp(self.weights) > 0)

    def of(self, task: int) -> slice:
        """The units of a task, by its position."""
        return slice(int(self.starts[task]), int(self.starts[task + 1]))

    def worst(self, task: int) -> float:
        """The score of a failed sample of a task: the worst of its metric, 0 to 1 for a grader's own id."""
        low, high = metric.range if (metric := registered(self.tasks["metric"][task])) else (0.0, 1.0)
        return float(low if self.higher_is_better else high)

    def best(self, task: int) -> float:
        """The other end of the range of a task's metric."""
        low, high = metric.range if (metric := registered(self.tasks["metric"][task])) else (0.0, 1.0)
        return float(high if self.higher_is_better else low)

    def within_range(self, means: Array) -> Array:
        """Keep what was widened within the ranges of the metrics."""
        ends = [(self.worst(task), self.best(task)) for task in range(self.tasks.height)]
        low, high = min(map(min, ends), default=0.0), max(map(max, ends), default=1.0)
        seen = self.scores[~np.isnan(self.scores)]
        if seen.size and (seen.min() < low or seen.max() > high):
            return means
        return np.clip(means, low, high)

    def only(self, keep: BoolArray) -> Units:
        """The same with only some units, shape (units,); a task may be left with none."""
        ends = np.concatenate([[0], np.cumsum(keep)])
        parts = {task: table[keep[self.of(task)]] for task, table in self.parts.items()}
        return replace(
            self,
            starts=ends[self.starts],
            scores=self.scores[keep],
            failed=self.failed[keep],
            zeros_and_ones=self.zeros_and_ones[keep],
            parts=parts,
            weights=None if self.weights is None else self.weights[keep],
            clusters=None if self.clusters is None else self.clusters[keep],
        )

    def of_tasks(self, tasks: slice, models: IntArray) -> Units:
        """The same with only some tasks, next to each other, and some models, by their positions."""
        of_units = slice(int(self.starts[tasks.start]), int(self.starts[tasks.stop]))
        return replace(
            self,
            models=tuple(self.models[model] for model in models),
            tasks=self.tasks[tasks],
            starts=self.starts[tasks.start : tasks.stop + 1] - of_units.start,
            scores=self.scores[of_units, models],
            failed=self.failed[of_units, models],
            zeros_and_ones=self.zeros_and_ones[of_units],
            parts={
                task - tasks.start: table[:, models]
                for task, table in self.parts.items()
                if tasks.start <= task < tasks.stop
            },
            weights=None if self.weights is None else self.weights[of_units],
            clusters=None if self.clusters is None else self.clusters[of_units],
        )

    def with_failures_as_worst(self) -> Units:
        """The same with the metric's worst score for each failed sample."""
        worst = np.repeat([self.worst(task) for task in range(self.tasks.height)], self.sizes)
        return replace(self, scores=np.where(self.failed, worst[:, None], self.scores))

    def with_failures_as_best(self) -> Units:
        """The same with the metric's best score for each failed sample; a corpus figure keeps its parts."""
        best = np.repeat([self.best(task) for task in range(self.tasks.height)], self.sizes)
        return replace(self, scores=np.where(self.failed, best[:, None], self.scores))

    def strata(self) -> list[Stratum]:
        """The strata that models' means are drawn from: a series a model."""
        return self.drawn(self._placed())

    def means(self, *, of_tasks: BoolArray | None = None) -> Array:
        """Each model's mean over tasks, or over some of them, shape (tasks,); NaN where it has none."""
        placed = self._placed(of_tasks)
        return estimate([stratum for stratum, _ in placed]) if placed else np.full(len(self.models), np.nan)

    def drawn(self, placed: Sequence[Placed]) -> list[Stratum]:
        """The strata with clusters for units, where there are clusters."""
        strata = [stratum for stratum, _ in placed]
        if self.clusters is None or not placed or not self.clustered:
            return strata
        return draw_clusters(strata, [self.clusters[at] for _, at in placed], pool=POOL)

    def stratum(
        self, label: str, at: IntArray, columns: Array, value: Callable[[Array], Array], *, sizes: int = 1
    ) -> Stratum:
        """The stratum of some units of a task, or of the pool, each with its weight.

        Args:
            label: The task's id, or ``POOL``.
            at: Positions of the units.
            columns: Shape (units, series, c), the last ``sizes`` of which say whether a series has the unit.
            value: Of the stratum.
            sizes: Of the stratum.
        """
        weights = None if self.weights is None else self.weights[at]
        if weights is not None and (self.weighting == "sample" or label == POOL):
            columns = columns * weights[:, None, None]
        counts: Array = columns[..., -sizes:].sum(axis=(0, 2))
        if self.weighting == "task" and label != POOL:
            of_task = 1.0 if weights is None or not len(weights) else float(weights[0])
            counts = np.where(counts > 0, of_task, 0.0)
        return Stratum(label, columns, value, counts, sizes)

    def _placed(self, of_tasks: BoolArray | None = None) -> list[Placed]:
        return placed_strata(self, self.scores, self._corpus_columns, of_tasks=of_tasks)

    def _corpus_columns(self, task: int) -> tuple[Array, Callable[[Array], Array], int]:
        """Parts, whether there are any, and whether it is a failed sample that counts as the worst."""
        parts = self.parts[task]
        has_parts: BoolArray = np.all(~np.isnan(parts), axis=2)
        counted: BoolArray = ~np.isnan(self.scores[self.of(task)]) & self.failed[self.of(task)]
        columns = np.concatenate([np.nan_to_num(parts), has_parts[..., None], counted[..., None]], axis=2)
        aggregate, worst = METRICS.get(self.tasks["metric"][task]).aggregate, self.worst(task)

        def value(sums: Array) -> Array:
            n, failed = sums[..., -2], sums[..., -1]
            total = corpus_value(aggregate, sums[..., :-2], n)
            return divide(np.where(n > 0, total * n, 0.0) + worst * failed, n + failed)

        return columns, value, 2


def placed_strata(
    units: Units,
    values: Array,
    corpus: Callable[[int], tuple[Array, Callable[[Array], Array], int]],
    *,
    of_tasks: BoolArray | None = None,
) -> list[Placed]:
    """Give a stratum for each task with two or more units, and the pooled one of all others.

    Args:
        units: Say which units a task has, and what they weigh.
        values: Of each unit, shape (units, series); NaN where a series lacks it.
        corpus: Columns, value and number of sizes of a task whose metric adds up parts.
        of_tasks: Only these tasks, shape (tasks,).
    """
    chosen = np.ones(units.tasks.height, np.bool_) if of_tasks is None else of_tasks
    names, placed = units.tasks["task_id"], []
    for task in np.flatnonzero((units.sizes > 1) & chosen).tolist():  # a loop over tasks: their matrices differ
        at = np.arange(units.starts[task], units.starts[task + 1])
        columns, value, sizes = corpus(task) if task in units.parts else (mean_columns(values[at]), ratio, 1)
        placed.append((units.stratum(names[task], at, columns, value, sizes=sizes), at))
    pooled = np.flatnonzero((units.sizes == 1) & chosen)
    if len(pooled):
        at = units.starts[pooled]
        pool = values[at]
        for place, task in enumerate(pooled.tolist()):
            if task in units.parts:
                columns, value, _ = corpus(task)
                pool[place] = value(columns.sum(axis=0))
        placed.append((units.stratum(POOL, at, mean_columns(pool), ratio), at))
    return placed


def mean_columns(values: Array) -> Array:
    """Give the columns of a plain mean: values of shape (units, series), NaN where a series lacks the unit."""
    return np.stack([np.nan_to_num(values), (~np.isnan(values)).astype(np.float64)], axis=2)


def corpus_value(aggregate: Callable[[Array], Array], parts: Array, n: Array) -> Array:
    """Aggregate summed parts; NaN where no sample has any."""
    with np.errstate(all="ignore"):  # parts of nothing may divide 0 by 0
        value: Array = np.where(n > 0, aggregate(parts), np.nan)
    return value
