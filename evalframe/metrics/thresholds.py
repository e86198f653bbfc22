"""Which score counts as correct: a full 1 of a 0/1 metric, a half of any other."""

from __future__ import annotations

import polars as pl

from evalframe.metrics.record import Metric
from evalframe.registry import METRICS

FULL_MARKS = 1 - 1e-6  # rounding apart, a 1
HALF_MARKS = 0.5


def is_correct(metric_id: str) -> pl.Expr:
    """Say from the columns ``score`` and ``higher_is_better`` whether a sample counts as correct.

    A 0/1 metric asks for a full 1, all others (a grader's ids too) for a half. Null where there is no score, where
    the metric leaves [0, 1], and where lower is better.
    """
    known: Metric | None = METRICS.get(metric_id) if metric_id in METRICS else None
    if known is not None and not 0 <= known.range[0] < known.range[1] <= 1:
        return pl.lit(None, dtype=pl.Boolean)
    threshold = FULL_MARKS if known is not None and known.binary else HALF_MARKS
    has_threshold = pl.col("higher_is_better") & pl.col("score").is_between(0, 1)
    return pl.when(has_threshold).then(pl.col("score") >= threshold)
