"""Every frame of evalframe, declared once: column, type, unit, nulls and meaning.

The pipeline: ROWS -> GENERATIONS -> ANSWERS -> GRADES -> SCORES -> TASK_METRICS, LEADERBOARD, PAIRWISE, ...
A call's outcome, what was read from it, what a grader said of it and the numbers are separate frames, because they
fail and are repeated separately.
"""

from __future__ import annotations

from evalframe.schemas.calls import (
    ANSWERS,
    CACHE_MISSES,
    GENERATIONS,
    GRADED,
    GRADES,
    JUDGE_CALLS,
    RECORDS,
    ROWS,
    SAMPLES,
    SCORES,
    TASK_METRICS,
)
from evalframe.schemas.columns import (
    CALL,
    CALL_KEY,
    FATE_COUNTS,
    INSTANT,
    METRIC_CHOICES,
    MODEL_ID,
    SAMPLE_INDEX,
    TASK_ID,
    TEXTS,
)
from evalframe.schemas.figures import (
    CALIBRATION,
    COMPARISON,
    COSTS,
    DIFFERENCES,
    LEADERBOARD,
    PAIRWISE,
    PASS_AT_K,
    RELIABILITY,
    RUN_COSTS,
    SLICES,
    TASK_COSTS,
)

ALL = (
    RECORDS, ROWS, GENERATIONS, ANSWERS, GRADED, GRADES, SCORES, TASK_METRICS, JUDGE_CALLS, SAMPLES,
    LEADERBOARD, PAIRWISE, CALIBRATION, RELIABILITY, SLICES, PASS_AT_K, COMPARISON,
    DIFFERENCES, COSTS, TASK_COSTS, RUN_COSTS, CACHE_MISSES,
)  # fmt: skip

__all__ = [
    "ALL",
    "ANSWERS",
    "CACHE_MISSES",
    "CALIBRATION",
    "CALL",
    "CALL_KEY",
    "COMPARISON",
    "COSTS",
    "DIFFERENCES",
    "FATE_COUNTS",
    "GENERATIONS",
    "GRADED",
    "GRADES",
    "INSTANT",
    "JUDGE_CALLS",
    "LEADERBOARD",
    "METRIC_CHOICES",
    "MODEL_ID",
    "PAIRWISE",
    "PASS_AT_K",
    "RECORDS",
    "RELIABILITY",
    "ROWS",
    "RUN_COSTS",
    "SAMPLES",
    "SAMPLE_INDEX",
    "SCORES",
    "SLICES",
    "TASK_COSTS",
    "TASK_ID",
    "TASK_METRICS",
    "TEXTS",
]
