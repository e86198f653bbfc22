"""The ledger: what was spent, and when the cap is reached."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from evalframe.adapters.callables import from_callable
from evalframe.generate.finished import Finished
from evalframe.generate.ledger import Ledger, paid, unpriced_faults
from evalframe.generate.prices import Price


def call(index: int = 0, **told: Any) -> Finished:
    known = {"model_id": "m", "task_id": "t", "sample_index": index, "repeat": 0, "status": "completed"}
    return Finished(**{**known, **told})


def test_a_cost_is_told_and_added_when_the_call_is_committed() -> None:
    ledger = Ledger({"m": Price(1.0, 2.0, 0.1)})
    told = {"input_tokens": 100_000, "output_tokens": 50_000, "cached_tokens": 10_000, "reasoning_tokens": 40_000}
    cost = ledger.cost("m", **told)
    assert cost == pytest.approx(0.09 + 0.1 + 0.001)  # reasoning is a part of the output
    assert ledger.spent_usd == 0.0
    ledger.add([call(cost_usd=cost), call(1, cost_usd=cost)])
    assert ledger.spent_usd == pytest.approx(2 * cost)
    assert ledger.cost("other", **told) is None
    assert ledger.cost("m", input_tokens=None, output_tokens=3) is None


def test_the_cap_is_reached_at_the_dollar_and_counts_what_was_paid_before() -> None:
    ledger = Ledger({}, cap_usd=1.0, spent_usd=0.5)
    assert not ledger.exhausted
    ledger.add([call(cost_usd=0.25)])
    assert not ledger.exhausted
    ledger.add([call(status="failed", error_type="timeout", error_message="x", cost_usd=0.25)])  # a retry was paid
    assert ledger.exhausted
    assert not Ledger({}, spent_usd=1e9).exhausted  # no cap


def test_replies_without_usage_are_said_where_a_price_would_have_counted_them() -> None:
    ledger = Ledger({"m": Price(1.0, 2.0)}, cap_usd=1.0)
    ledger.add([call(), call(1), call(2, cost_usd=0.0, cached=True), call(3, model_id="mock")])
    ledger.add([call(4, status="failed", error_type="timeout", error_message="x")])
    assert ledger.notes() == [
        "m: 2 replies told no usage, so what they cost is not known, and max_cost_usd does not count them"
    ]


def test_sums_are_safe_from_several_threads() -> None:
    ledger = Ledger({"m": Price(1.0, 2.0)})
    threads = [
        threading.Thread(target=lambda: [ledger.add([call(cost_usd=0.25), call(1)]) for _ in range(1_000)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent_usd == 2_000.0
    assert ledger.notes()[0].startswith("m: 8000 replies")


def test_what_a_journal_has_paid_is_where_a_resumed_run_begins(journal) -> None:
    assert paid(journal) == 0.0
    journal.record([call(0, cost_usd=0.5), call(1, cost_usd=0.25, cached=False), call(2)])
    assert paid(journal) == 0.75


def test_a_cap_needs_the_price_of_each_real_model(Model) -> None:
    real = [Model(model_id="openai/x"), Model(model_id="local")]
    for model in real:
        model.endpoint = "http://127.0.0.1:9/v1"
    models = [*real, from_callable("mine", str.upper)]
    (fault,) = unpriced_faults(models, prices={"openai/x": Price(0.25, 2.0)})
    assert "'local'" in fault.detail
    assert "prices={" in fault.remedy
    assert "(0, 0)" in fault.remedy
    assert unpriced_faults(models, prices={m.model_id: Price(0, 0) for m in real}) == []
