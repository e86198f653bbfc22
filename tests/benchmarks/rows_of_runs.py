"""Made-up runs for benchmarks of whole stages: rows, their generations and answers, many tasks at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from evalframe.frames import example
from evalframe.schemas import GENERATIONS, ROWS
from tests.references import replies

N_TEXTS = 20_000


def rows_of(n_tasks: int, n_samples: int, configs: Sequence[dict[str, Any]], metrics: Sequence[str]) -> pl.DataFrame:
    """Make the samples of some tasks; each task has one of the extractions and one of the metrics, in turn."""
    task = np.repeat(np.arange(n_tasks), n_samples)
    extractions = pl.Series([json.dumps(configs[i % len(configs)]) for i in range(n_tasks)])
    kinds = [[{"id": name, "aggregation": "mean", "higher_is_better": True}] for name in metrics]
    like = example(ROWS, 1)
    repeated = like[np.zeros(task.size, dtype=np.int64)]
    return repeated.with_columns(
        task_id=pl.Series([f"task_{i:06}" for i in range(n_tasks)]).gather(task),
        sample_index=pl.Series(np.tile(np.arange(n_samples), n_tasks)),
        extraction=extractions.gather(task),
        metrics=pl.Series(kinds, dtype=ROWS.dtypes["metrics"]).gather(task % len(metrics)),
        targets=pl.Series([["B"], ["5", "12"]], dtype=pl.List(pl.String)).gather(task % 2),
    )


def generations_of(rows: pl.DataFrame, n_models: int, *, seed: int = 5) -> pl.DataFrame:
    """Make one completed call of each model for each row; one in fifty fails."""
    draws = np.random.default_rng(seed)
    n = rows.height * n_models
    texts = pl.Series(replies.short(N_TEXTS, seed))
    failed = draws.random(n) < 0.02
    keys = rows.select("task_id", "sample_index")
    like = example(GENERATIONS, 1)
    models = pl.Series([f"model_{i:03}" for i in range(n_models)])
    return like[np.zeros(n, dtype=np.int64)].with_columns(
        pl.concat([keys] * n_models),
        model_id=models.gather(np.repeat(np.arange(n_models), rows.height)),
        repeat=pl.lit(0, dtype=pl.Int64),
        output_text=texts.gather(draws.integers(0, N_TEXTS, n)).set(pl.Series(failed), None),
        status=pl.Series(["completed", "failed"]).gather(failed.astype(np.int64)),
        error_type=pl.Series([None, "timeout"], dtype=pl.String).gather(failed.astype(np.int64)),
        error_message=pl.Series([None, "no answer in time"], dtype=pl.String).gather(failed.astype(np.int64)),
    )
