"""What each model's calls cost."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from evalframe.frames import check
from evalframe.schemas import COSTS, GENERATIONS
from evalframe.spending import costs


def generations(*calls: dict[str, Any]) -> pl.DataFrame:
    records = [
        {"model_id": "m", "task_id": "t", "sample_index": index, "repeat": 0, "status": "completed", "attempts": 1,
         "cached": False, **call}
        for index, call in enumerate(calls)
    ]  # fmt: skip
    return check(pl.DataFrame(records, schema=GENERATIONS.dtypes).sort(GENERATIONS.key), GENERATIONS)


def test_calls_tokens_dollars_and_latency_add_up() -> None:
    told = {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 2, "reasoning_tokens": 1}
    found = costs(
        generations(
            {**told, "cost_usd": 0.25, "cost_usd_original": 0.25, "latency_seconds": 1.0},
            {**told, "cost_usd": 0.0, "cost_usd_original": 0.25, "latency_seconds": 3.0, "cached": True},
            {"status": "failed", "error_type": "timeout", "error_message": "x", "attempts": 4, "latency_seconds": 60.0},
            {"status": "skipped", "error_type": "interrupted", "error_message": "x", "attempts": 0},
        )
    )
    assert check(found, COSTS) is found
    assert found.to_dicts() == [
        {"model_id": "m", "cost_usd": 0.25, "cost_usd_original": 0.5, "total_tokens": 30, "input_tokens": 20,
         "output_tokens": 10, "cached_tokens": 4, "reasoning_tokens": 2, "n_unpriced": 0, "n_cached": 1,
         "n_attempts": 6, "latency_median_seconds": 2.0, "latency_p95_seconds": pytest.approx(2.9),
         "latency_sum_seconds": 4.0, "n_calls": 4, "n_completed": 2, "n_failed": 1, "n_skipped": 1}
    ]  # fmt: skip
    assert found.notes == ()


def test_an_unknown_price_is_not_0_and_is_said() -> None:
    found = costs(generations({"cost_usd": 1.0, "output_tokens": 3}, {"cost_usd": None, "output_tokens": None}))
    assert found.select("cost_usd", "output_tokens", "n_unpriced").row(0) == (None, None, 1)
    assert found.notes == ("m: the price of 1 of 2 completed calls is not known, so cost_usd is null",)


def test_a_model_without_a_reply_paid_nothing_and_has_no_latency() -> None:
    found = costs(generations({"status": "failed", "error_type": "timeout", "error_message": "x"}))
    assert found.select("cost_usd", "total_tokens", "latency_median_seconds").row(0) == (0.0, 0, None)


def test_models_stand_apart_and_no_call_gives_no_row() -> None:
    both = costs(generations({"model_id": "b", "cost_usd": 1.0}, {"model_id": "a", "cost_usd": 2.0}))
    assert both.select("model_id", "cost_usd").rows() == [("a", 2.0), ("b", 1.0)]
    assert check(costs(generations()), COSTS).is_empty()
