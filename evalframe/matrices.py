"""SCORES -> units: repeats averaged within their sample, and put into matrices; of one or of many groups of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from evalframe.headlines import refuse_without_rows
from evalframe.metrics import Array
from evalframe.registry import METRICS
from evalframe.schemas import MODEL_ID, SAMPLE_INDEX, TASK_ID
from evalframe.units import BoolArray, IntArray, Units, Weighting

GROUP = "group"
TASK = (GROUP, TASK_ID.name)  # what is one task: each group has its own
SAMPLE = (*TASK, SAMPLE_INDEX.name)
CELL = (GROUP, MODEL_ID.name, TASK_ID.name, SAMPLE_INDEX.name)


def in_one_group(frame: pl.DataFrame) -> pl.DataFrame:
    """Put all rows of a frame into group 0."""
    return frame.with_columns(pl.lit(0, pl.Int64).alias(GROUP))


def unit_cells(scores: pl.DataFrame, choice: pl.DataFrame) -> pl.DataFrame:
    """Average repeats within their sample, of those that have a score.

    Args:
        scores: SCORES with ``group``, sorted by it and its key.
        choice: The metric of each task of each group.

    Returns:
        (``group``, ``model_id``, ``task_id``, ``sample_index``) with ``score`` (null: none), ``failed``, and what is
        needed to know the range: ``low``, ``high``, ``binary``.
    """
    score = pl.col("score")
    chosen = scores.join(choice, on=[*TASK, "metric"], how="semi", maintain_order="left")
    return chosen.group_by(CELL, maintain_order=True).agg(
        score=score.mean(),
        failed=score.is_null().all() & (pl.col("fate") == "failed").any(),
        low=score.min(),
        high=score.max(),
        binary=((score == 0) | (score == 1)).all(),
    )


def unit_matrices(
    scores: pl.DataFrame,
    cells: pl.DataFrame,
    choice: pl.DataFrame,
    models: tuple[str, ...],
    *,
    weighting: Weighting = "task",
    of_samples: pl.DataFrame | None = None,
) -> Units:
    """Put the cells of the tasks of ``choice`` into matrices; tasks without a cell are left out.

    Args:
        scores: SCORES with ``group``, sorted by it and its key.
        cells: ``unit_cells`` of them.
        choice: The metric of each task of each group.
        models: Sorted.
        weighting: What weighs.
        of_samples: (``task_id``, ``sample_index``) with ``weight``, ``cluster`` or both, of all samples; a null cluster
            is one of its own, a unit of weight 0 is left out.

    Raises:
        SchemaError: A unit is not in ``of_samples``.
    """
    cells = cells.join(choice, on=TASK, how="semi", maintain_order="left")
    units = cells.select(SAMPLE).unique().sort(SAMPLE).with_row_index("unit")
    tasks = choice.join(units, on=TASK, how="semi", maintain_order="left").sort(TASK)
    sizes = units.group_by(TASK, maintain_order=True).len()["len"].to_numpy()
    columns = pl.DataFrame({"model_id": models}, schema={"model_id": pl.String}).with_row_index("column")
    placed = cells.join(units, on=SAMPLE, maintain_order="left").join(columns, on="model_id", maintain_order="left")
    at = (placed["unit"].to_numpy(), placed["column"].to_numpy())
    matrix = np.full((units.height, len(models)), np.nan)
    matrix[at] = placed["score"].to_numpy()  # a null comes as NaN
    failed = np.zeros(matrix.shape, dtype=np.bool_)
    failed[at] = placed["failed"].to_numpy()
    both: BoolArray = np.ones(units.height, np.bool_)
    both[placed.filter(~pl.col("binary"))["unit"].to_numpy()] = False
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    units_of_all = Units(
        models=models,
        tasks=tasks,
        starts=starts,
        scores=matrix,
        failed=failed,
        parts=_parts(scores, tasks, placed, starts, len(models)),
        zeros_and_ones=both,
        weighting=weighting,
        **_of_units(units, of_samples),
    )
    # a weight of 0 leaves a unit out: of counts, clusters and notes too
    heavy = None if units_of_all.weights is None else units_of_all.weights > 0
    return units_of_all if heavy is None or heavy.all() else units_of_all.only(heavy)


def _of_units(units: pl.DataFrame, of_samples: pl.DataFrame | None) -> dict[str, Any]:
    """Give the weights and the clusters of units, clusters numbered by their first unit."""
    if of_samples is None:
        return {}
    told = units.join(
        of_samples.with_columns(has_row=True), on=["task_id", "sample_index"], how="left", maintain_order="left"
    )
    refuse_without_rows(told.filter(pl.col("has_row").is_null()))
    found: dict[str, Any] = {}
    if "weight" in told.columns:
        weights = told["weight"].to_numpy()
        # by a power of two, which changes no digit: sums of extreme weights stay within what a double can hold
        found["weights"] = np.ldexp(weights, -np.frexp(weights.max(initial=0.0))[1])
    if "cluster" in told.columns:
        unit = pl.col("unit").cast(pl.Int64)
        first = pl.when(pl.col("cluster").is_null()).then(unit).otherwise(unit.min().over(GROUP, "cluster"))
        found["clusters"] = told.select(first)["unit"].to_numpy()
    return found


def _parts(
    scores: pl.DataFrame, tasks: pl.DataFrame, placed: pl.DataFrame, starts: IntArray, n_models: int
) -> dict[int, Array]:
    """Average the parts of repeats and place them, for the tasks whose metric adds them up."""
    with_parts = scores.filter(pl.col("parts").is_not_null())
    positions = tasks.with_row_index("position").join(
        with_parts.select(*TASK, "metric").unique(), on=[*TASK, "metric"], how="semi", maintain_order="left"
    )
    found: dict[int, Array] = {}
    for position, group, task_id, metric in positions.select("position", *TASK, "metric").iter_rows():
        # a loop over these tasks: their metrics differ in the number of parts
        if METRICS.get(metric).aggregate is None:
            continue
        its_parts = with_parts.filter(
            (pl.col(GROUP) == group) & (pl.col("task_id") == task_id) & (pl.col("metric") == metric)
        )
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
