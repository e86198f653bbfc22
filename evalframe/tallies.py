"""What a leaderboard shows beside its means: calls by fate, costs, calibration; a row for each group and model."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from evalframe.calibrating import confidence_pairs, point_figures

COUNTED = ("n_scored", "n_unparsed", "n_failed", "n_grader_error", "n_skipped")
MODEL = ("group", "model_id")
TASK = ("group", "task_id")


def counts(
    chosen: pl.DataFrame,
    cells: pl.DataFrame,
    batch: pl.DataFrame,
    generations: pl.DataFrame | None,
    *,
    ranked: Collection[str] | None,
) -> pl.DataFrame:
    """Count calls by fate, over all tasks that have a ranked metric, in the combined mean or not.

    Args:
        chosen: The scores of ranked metrics.
        cells: Their samples, and the values of batch graders.
        batch: The values of batch graders, with their counts.
        generations: Calls, or None.
        ranked: The tasks that have a ranked metric; None: any task, which nothing tells.
    """
    fates = [name.removeprefix("n_") for name in COUNTED[:-1]]
    counted = chosen.group_by(MODEL).agg(
        (pl.col("fate") == fate).sum().cast(pl.Int64).alias(f"n_{fate}") for fate in fates
    )
    parts = [counted, batch.select(*MODEL, *COUNTED)]
    if generations is not None:
        # a task that was never called has no scores: only rows say whether it has a headline metric
        calls = generations.filter(pl.col("status") == "skipped").join(batch, on=[*TASK, "model_id"], how="anti")
        if ranked is not None:
            calls = calls.filter(pl.col("task_id").is_in(sorted(ranked)))
        parts.append(calls.group_by(MODEL).agg(n_skipped=pl.len().cast(pl.Int64)))
    completed = (
        cells.filter(pl.col("score").is_not_null())
        .group_by(MODEL)
        .agg(tasks_completed=pl.col("task_id").n_unique().cast(pl.Int64))
    )
    return pl.concat([*parts, completed], how="diagonal").group_by(MODEL).agg(pl.col(*COUNTED, "tasks_completed").sum())


def costs(generations: pl.DataFrame | None) -> pl.DataFrame:
    """Add up dollars and tokens of all calls; null where a completed call does not tell."""
    if generations is None:
        schema = {"group": pl.Int64, "model_id": pl.String, "cost_usd": pl.Float64, "total_tokens": pl.Int64}
        return pl.DataFrame(schema=schema)
    completed = pl.col("status") == "completed"
    tokens = pl.col("input_tokens") + pl.col("output_tokens")
    return generations.group_by(MODEL, maintain_order=True).agg(
        cost_usd=pl.when(~(completed & pl.col("cost_usd").is_null()).any()).then(pl.col("cost_usd").sum()),
        total_tokens=pl.when(~(completed & tokens.is_null()).any()).then(tokens.sum()),
    )


def calibration_figures(chosen: pl.DataFrame, generations: pl.DataFrame | None) -> pl.DataFrame:
    """Give ``ece`` and ``brier`` of the calls' confidences."""
    schema = {"group": pl.Int64, "model_id": pl.String, "ece": pl.Float64, "brier": pl.Float64}
    if generations is None:
        return pl.DataFrame(schema=schema)
    pairs = confidence_pairs(chosen, generations).filter("usable")
    found = [(*its.select(MODEL).row(0), *point_figures(its)) for its in pairs.partition_by(MODEL)]
    return pl.DataFrame(found, schema=schema, orient="row")
