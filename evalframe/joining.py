"""The frames of a run joined into SAMPLES: what a person reads."""

from __future__ import annotations

import polars as pl

from evalframe.frames import check
from evalframe.headlines import choose_metrics
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS, ROWS, SAMPLES, SCORES


def join_samples(
    generations: pl.DataFrame, *, answers: pl.DataFrame, scores: pl.DataFrame, rows: pl.DataFrame, run_id: str
) -> pl.DataFrame:
    """Join calls with their rows, answers and scores.

    Frame in: GENERATIONS; ANSWERS, SCORES and ROWS of the same calls.
    Frame out: SAMPLES, in the order of the generations; one ``score.<metric>`` column a metric, sorted by name.

    Nulls: a skipped call has no score; a task without a headline metric has only its ``score.<metric>`` columns.
    """
    for frame, schema in ((generations, GENERATIONS), (answers, ANSWERS), (scores, SCORES), (rows, ROWS)):
        check(frame, schema)
    headline = choose_metrics(scores, rows=rows, metric=None).select("task_id", "metric")
    main = scores.join(headline, on=["task_id", "metric"], how="semi", maintain_order="left")
    samples = (
        generations.join(rows, on=["task_id", "sample_index"], how="left", maintain_order="left")
        .join(answers, on=CALL_KEY, how="left", maintain_order="left")
        .join(main.select(*CALL_KEY, "score", "fate", "correct", "detail"), on=CALL_KEY, how="left",
              maintain_order="left")
        .join(_wide(scores), on=CALL_KEY, how="left", maintain_order="left")
        .with_columns(run_id=pl.lit(run_id, pl.String))
    )  # fmt: skip
    extra = [name for name in samples.columns if name not in SAMPLES.dtypes]
    return check(samples.select(*SAMPLES.names, *extra), SAMPLES)


def _wide(scores: pl.DataFrame) -> pl.DataFrame:
    names = scores["metric"].unique().sort().to_list()
    if not names:
        return scores.select(CALL_KEY)
    wide = scores.pivot(on="metric", on_columns=names, index=CALL_KEY, values="score", maintain_order=True)
    return wide.rename({name: f"score.{name}" for name in names})
