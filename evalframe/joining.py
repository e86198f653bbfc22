"""The frames of a run joined into SAMPLES: what a person reads."""

from __future__ import annotations

import polars as pl

from evalframe.frames import check
from evalframe.headlines import choose_metrics
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS, GRADES, ROWS, SAMPLES, SCORES


def join_samples(
    generations: pl.DataFrame,
    *,
    answers: pl.DataFrame,
    grades: pl.DataFrame,
    scores: pl.DataFrame,
    rows: pl.DataFrame,
    run_id: str,
) -> pl.DataFrame:
    """Join calls with their rows, answers, grades and scores.

    Frame in: GENERATIONS; ANSWERS, GRADES, SCORES and ROWS of the same calls.
    Frame out: SAMPLES, in the order of the generations; one ``score.<metric>`` column a metric, sorted by name.

    Nulls: a skipped call has no score; a task without a headline metric has only its ``score.<metric>`` columns.
    """
    frames = (generations, answers, grades, scores, rows)
    for frame, schema in zip(frames, (GENERATIONS, ANSWERS, GRADES, SCORES, ROWS), strict=True):
        check(frame, schema)
    lazy = scan_samples(
        generations.lazy(), answers=answers.lazy(), grades=grades.lazy(), scores=scores, rows=rows.lazy(), run_id=run_id
    )
    return check(lazy.collect(engine="in-memory"), SAMPLES)


def scan_samples(
    generations: pl.LazyFrame,
    *,
    answers: pl.LazyFrame,
    grades: pl.LazyFrame,
    scores: pl.DataFrame,
    rows: pl.LazyFrame,
    run_id: str,
) -> pl.LazyFrame:
    """Join as ``join_samples`` does, and read of calls, answers and rows only what is collected in the end.

    Frame in: GENERATIONS, ANSWERS, GRADES and ROWS lazily; SCORES, which has no texts of prompts or replies.
    Frame out: SAMPLES, lazily.
    """
    tasks = rows.select("task_id", "category", "metrics").unique("task_id", keep="first", maintain_order=True)
    headline = choose_metrics(scores, rows=tasks.collect(engine="in-memory"), metric=None).select("task_id", "metric")
    main = scores.join(headline, on=["task_id", "metric"], how="semi", maintain_order="left")
    samples = (
        generations.join(rows, on=["task_id", "sample_index"], how="left", maintain_order="left")
        .join(answers, on=CALL_KEY, how="left", maintain_order="left")
        .join(grades, on=CALL_KEY, how="left", maintain_order="left")
        .join(main.lazy().select(*CALL_KEY, "score", "fate", "correct", "detail"), on=CALL_KEY, how="left",
              maintain_order="left")
        .join(_wide(scores).lazy(), on=CALL_KEY, how="left", maintain_order="left")
        .with_columns(run_id=pl.lit(run_id, pl.String))
    )  # fmt: skip
    extra = [name for name in samples.collect_schema().names() if name not in SAMPLES.dtypes]
    return samples.select(*SAMPLES.names, *extra)


def _wide(scores: pl.DataFrame) -> pl.DataFrame:
    names = scores["metric"].unique().sort().to_list()
    if not names:
        return scores.select(CALL_KEY)
    wide = scores.pivot(on="metric", on_columns=names, index=CALL_KEY, values="score", maintain_order=True)
    return wide.rename({name: f"score.{name}" for name in names})
