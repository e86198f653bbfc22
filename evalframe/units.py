"""SCORES -> units: one value for each (task, sample) and model, of the metric that each task is ranked by.

Leaderboards and comparisons stand on the same units and draw them from the same strata: a task with two or more
samples is a stratum; all tasks with a single sample (each record of a task file) are one pooled stratum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.headlines import registered
from evalframe.metrics import Array
from evalframe.registry import METRICS
from evalframe.schemas import MODEL_ID, SAMPLE_INDEX, TASK_ID
from evalframe.stats.bootstrap import Stratum, divide, ratio

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Weighting = Literal["task", "sample"]

POOL = "\0single-sample tasks"  # labels the pooled stratum; no task has this id
CELL = (MODEL_ID.name, TASK_ID.name, SAMPLE_INDEX.name)


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
        binary: All scores, before repeats are averaged, are 0 or 1.
    """

    models: tuple[str, ...]
    tasks: pl.DataFrame
    starts: IntArray
    scores: Array
    failed: BoolArray
    parts: Mapping[int, Array]
    binary: bool

    @property
    def higher_is_better(self) -> bool:
        """The direction, which all tasks of one mean share."""
        return bool(self.tasks["higher_is_better"].all())

    @property
    def sizes(self) -> IntArray:
        """Number of units of each task."""
        return np.diff(self.starts)

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

    def only(self, keep: BoolArray) -> Units:
        """The same with only some units, shape (units,); a task may be left with none."""
        ends = np.concatenate([[0], np.cumsum(keep)])
        parts = {task: table[keep[self.of(task)]] for task, table in self.parts.items()}
        return replace(self, starts=ends[self.starts], scores=self.scores[keep], failed=self.failed[keep], parts=parts)

    def with_failures_as_worst(self) -> Units:
        """The same with the metric's worst score for each failed sample."""
        worst = np.repeat([self.worst(task) for task in range(self.tasks.height)], self.sizes)
        return replace(self, scores=np.where(self.failed, worst[:, None], self.scores))

    def with_failures_as_best(self) -> Units:
        """The same with the metric's best score for each failed sample; a corpus figure keeps its parts."""
        best = np.repeat([self.best(task) for task in range(self.tasks.height)], self.sizes)
        return replace(self, scores=np.where(self.failed, best[:, None], self.scores))

    def strata(self, weighting: Weighting, *, of_tasks: BoolArray | None = None) -> list[Stratum]:
        """The strata that models' means are drawn from: a series a model.

        Args:
            weighting: ``task`` or ``sample``.
            of_tasks: Only these tasks, shape (tasks,).
        """
        return strata_of(
            self, self.scores, lambda task: self._corpus_stratum(task, weighting), weighting, of_tasks=of_tasks
        )

    def _corpus_stratum(self, task: int, weighting: Weighting) -> Stratum:
        """Parts, the number of samples that have them, and that of the failed samples that count as the worst."""
        parts = self.parts[task]
        has_parts: BoolArray = np.all(~np.isnan(parts), axis=2)
        counted: BoolArray = ~np.isnan(self.scores[self.of(task)]) & self.failed[self.of(task)]
        columns = np.concatenate([np.nan_to_num(parts), has_parts[..., None], counted[..., None]], axis=2)
        aggregate, worst = METRICS.get(self.tasks["metric"][task]).aggregate, self.worst(task)

        def value(sums: Array) -> Array:
            n, failed = sums[..., -2], sums[..., -1]
            total = corpus_value(aggregate, sums[..., :-2], n)
            return divide(np.where(n > 0, total * n, 0.0) + worst * failed, n + failed)

        return Stratum(self.tasks["task_id"][task], columns, value, weight_of(has_parts | counted, weighting))


def strata_of(
    units: Units,
    values: Array,
    corpus: Callable[[int], Stratum],
    weighting: Weighting,
    *,
    of_tasks: BoolArray | None = None,
) -> list[Stratum]:
    """Give a stratum for each task with two or more units, and the pooled one of all others.

    Args:
        units: Say which units a task has.
        values: Of each unit, shape (units, series); NaN where a series lacks it.
        corpus: The stratum of a task whose metric adds up parts.
        weighting: ``task`` or ``sample``.
        of_tasks: Only these tasks, shape (tasks,).
    """
    chosen = np.ones(units.tasks.height, np.bool_) if of_tasks is None else of_tasks
    names = units.tasks["task_id"]
    strata = [
        corpus(task) if task in units.parts else mean_stratum(names[task], values[units.of(task)], weighting)
        for task in np.flatnonzero((units.sizes > 1) & chosen).tolist()  # a loop over tasks: their matrices differ
    ]
    pooled = np.flatnonzero((units.sizes == 1) & chosen)
    if len(pooled):
        pool = values[units.starts[pooled]]
        for place, task in enumerate(pooled.tolist()):
            if task in units.parts:
                alone = corpus(task)
                pool[place] = alone.value(alone.columns.sum(axis=0))
        strata.append(mean_stratum(POOL, pool, "sample"))
    return strata


def mean_stratum(label: str, values: Array, weighting: Weighting) -> Stratum:
    """Give the stratum of a plain mean: values of shape (units, series), NaN where a series lacks the unit."""
    there = ~np.isnan(values)
    columns = np.stack([np.nan_to_num(values), there.astype(np.float64)], axis=2)
    return Stratum(label, columns, ratio, weight_of(there, weighting))


def weight_of(there: BoolArray, weighting: Weighting) -> Array:
    """Give the weight of a task for each series: that of its units, or 1 where it has any."""
    counts: Array = there.sum(axis=0).astype(np.float64)
    return counts if weighting == "sample" else np.minimum(counts, 1.0)


def corpus_value(aggregate: Callable[[Array], Array], parts: Array, n: Array) -> Array:
    """Aggregate summed parts; NaN where no sample has any."""
    with np.errstate(all="ignore"):  # parts of nothing may divide 0 by 0
        value: Array = np.where(n > 0, aggregate(parts), np.nan)
    return value


def unit_cells(scores: pl.DataFrame, choice: pl.DataFrame) -> pl.DataFrame:
    """Average repeats within their sample, of those that have a score.

    Args:
        scores: SCORES, sorted.
        choice: The metric of each task.

    Returns:
        (``model_id``, ``task_id``, ``sample_index``) with ``score`` (null: none), ``failed``, and what is needed to
        know the range: ``low``, ``high``, ``binary``.
    """
    score = pl.col("score")
    chosen = scores.join(
        choice.select("task_id", "metric"), on=["task_id", "metric"], how="semi", maintain_order="left"
    )
    return chosen.group_by(CELL, maintain_order=True).agg(
        score=score.mean(),
        failed=score.is_null().all() & (pl.col("fate") == "failed").any(),
        low=score.min(),
        high=score.max(),
        binary=((score == 0) | (score == 1)).all(),
    )


def unit_matrices(scores: pl.DataFrame, cells: pl.DataFrame, choice: pl.DataFrame, models: tuple[str, ...]) -> Units:
    """Put the cells of the tasks of ``choice`` into matrices; tasks without a cell are left out."""
    cells = cells.join(choice.select("task_id"), on="task_id", how="semi", maintain_order="left")
    units = cells.select("task_id", "sample_index").unique().sort("task_id", "sample_index").with_row_index("unit")
    tasks = choice.join(units.select("task_id"), on="task_id", how="semi", maintain_order="left").sort("task_id")
    sizes = units["task_id"].rle().struct.field("len").to_numpy() if units.height else np.empty(0, np.int64)
    columns = pl.DataFrame({"model_id": models}, schema={"model_id": pl.String}).with_row_index("column")
    placed = cells.join(units, on=["task_id", "sample_index"], maintain_order="left").join(
        columns, on="model_id", maintain_order="left"
    )
    at = (placed["unit"].to_numpy(), placed["column"].to_numpy())
    matrix = np.full((units.height, len(models)), np.nan)
    matrix[at] = placed["score"].to_numpy()  # a null comes as NaN
    failed = np.zeros(matrix.shape, dtype=np.bool_)
    failed[at] = placed["failed"].to_numpy()
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Units(
        models=models,
        tasks=tasks,
        starts=starts,
        scores=matrix,
        failed=failed,
        parts=_parts(scores, tasks, placed, starts, len(models)),
        binary=bool(placed["binary"].all()),
    )


def _parts(
    scores: pl.DataFrame, tasks: pl.DataFrame, placed: pl.DataFrame, starts: IntArray, n_models: int
) -> dict[int, Array]:
    """Average the parts of repeats and place them, for the tasks whose metric adds them up."""
    with_parts = scores.filter(pl.col("parts").is_not_null())
    positions = tasks.with_row_index("position").join(
        with_parts.select("task_id", "metric").unique(), on=["task_id", "metric"], how="semi", maintain_order="left"
    )
    found: dict[int, Array] = {}
    for position, task_id, metric in positions.select("position", "task_id", "metric").iter_rows():
        # a loop over these tasks: their metrics differ in the number of parts
        if METRICS.get(metric).aggregate is None:
            continue
        its_parts = with_parts.filter((pl.col("task_id") == task_id) & (pl.col("metric") == metric))
        width = int(its_parts["parts"].list.len().max())  # type: ignore[arg-type]
        names = [f"part{i}" for i in range(width)]
        means = (
            its_parts.select(*CELL, *(pl.col("parts").list.get(i).alias(name) for i, name in enumerate(names)))
            .group_by(CELL, maintain_order=True)
            .agg(pl.col(names).mean())
            .join(placed.select(*CELL, "unit", "column"), on=CELL, maintain_order="left")
        )
        table = np.full((starts[position + 1] - starts[position], n_models, width), np.nan)
        table[means["unit"].to_numpy() - starts[position], means["column"].to_numpy()] = means.select(names).to_numpy()
        found[position] = table
    return found
