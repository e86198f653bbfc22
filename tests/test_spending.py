"""What each model's calls cost."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from evalframe.errors import OptionError
from evalframe.frames import check
from evalframe.schemas import COSTS, GENERATIONS, RUN_COSTS, TASK_COSTS
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
    (note,) = found.notes
    assert note.startswith("m: 1 failed call (timeout or bad_reply) may have been charged by the server")


def test_an_unknown_price_is_not_0_and_is_said() -> None:
    found = costs(generations({"cost_usd": 1.0, "output_tokens": 3}, {"cost_usd": None, "output_tokens": None}))
    assert found.select("cost_usd", "output_tokens", "n_unpriced").row(0) == (None, None, 1)
    assert found.notes == ("m: the price of 1 of 2 completed calls is not known, so cost_usd is null",)


def test_a_model_without_a_reply_paid_nothing_and_has_no_latency() -> None:
    found = costs(generations({"status": "failed", "error_type": "timeout", "error_message": "x"}))
    assert found.select("cost_usd", "total_tokens", "latency_median_seconds").row(0) == (0.0, 0, None)


def test_what_surely_was_not_charged_is_no_note() -> None:
    failed = {"status": "failed", "error_message": "x"}
    refused = {**failed, "error_type": "bad_request"}
    paid = {**failed, "error_type": "bad_reply", "cost_usd": 0.5, "cost_usd_original": 0.5}  # for an empty reply before
    assert costs(generations(refused, paid, {**failed, "error_type": "timeout", "attempts": 0})).notes == ()


def test_models_stand_apart_and_no_call_gives_no_row() -> None:
    paid = {"cost_usd_original": 0.0, "input_tokens": 0, "output_tokens": 0}
    both = costs(generations({"model_id": "b", **paid, "cost_usd": 1.0}, {"model_id": "a", **paid, "cost_usd": 2.0}))
    assert both.select("model_id", "cost_usd").rows() == [("a", 2.0), ("b", 1.0)]
    assert check(costs(generations()), COSTS).is_empty()
    assert both.notes == ("in all: $3.00 paid ($0.00 when the calls were made), 0 tokens, 2 calls",)


CALLS = [
    {"model_id": model, "task_id": task, "cost_usd": cost, "cost_usd_original": cost, "input_tokens": 10,
     "output_tokens": 1, "latency_seconds": 1.0}
    for model in ("a", "b") for task, cost in (("t", 0.5), ("t", 0.25), ("u", 0.125))
]  # fmt: skip


def test_tasks_and_the_run_add_up_to_the_models() -> None:
    calls = generations(*CALLS)
    models, tasks, run = costs(calls), costs(calls, by="task"), costs(calls, by="run")
    assert check(tasks, TASK_COSTS) is tasks
    assert check(run, RUN_COSTS) is run
    assert tasks.select("model_id", "task_id", "cost_usd", "total_tokens", "n_calls").rows() == [
        ("a", "t", 0.75, 22, 2), ("a", "u", 0.125, 11, 1), ("b", "t", 0.75, 22, 2), ("b", "u", 0.125, 11, 1),
    ]  # fmt: skip
    for name in ("cost_usd", "cost_usd_original", "total_tokens", "n_calls", "n_attempts", "latency_sum_seconds"):
        assert models[name].sum() == tasks[name].sum() == run[name].item()
    assert models.notes == tasks.notes == ("in all: $1.75 paid, 66 tokens, 6 calls",)
    assert run.notes == ()
    assert run["latency_median_seconds"].item() == 1.0


def test_what_is_unknown_of_one_model_is_unknown_of_the_run_and_not_of_the_others() -> None:
    calls = generations(*CALLS, {"model_id": "b", "task_id": "u", "cost_usd": None, "input_tokens": None})
    said = "b: the price of 1 of 4 completed calls is not known, so cost_usd is null"
    assert costs(calls)["cost_usd"].to_list() == [0.875, None]
    assert costs(calls, by="task")["cost_usd"].to_list() == [0.75, 0.125, 0.75, None]
    assert costs(calls, by="run").select("cost_usd", "total_tokens", "n_unpriced").row(0) == (None, None, 1)
    for by in ("model", "task", "run"):
        assert costs(calls, by=by).notes == (said,)


def test_nothing_called_cost_nothing_and_a_wrong_word_is_told() -> None:
    empty = costs(generations(), by="run")
    assert empty.select("cost_usd", "n_calls", "latency_median_seconds").row(0) == (0.0, 0, None)
    with pytest.raises(OptionError, match="'models' is none of model, task, run -> did you mean 'model'"):
        costs(generations(), by="models")  # type: ignore[arg-type]
