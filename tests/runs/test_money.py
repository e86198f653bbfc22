"""What a run pays: dollars by usage and price, a cap that is kept and can be raised, cached replies for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe.errors import OptionError
from evalframe.execution import CostWarning

ROWS = [{"q": f"question {n}?", "a": "yes"} for n in range(20)]
USAGE = {"input_tokens": 100, "output_tokens": 50, "cached_tokens": 40}
A_CALL = (60 * 10 + 50 * 20 + 40 * 1) / 1_000_000  # dollars, by the prices below
PRICE = (10.0, 20.0, 1.0)


def data(**options: Any) -> dict[str, Any]:
    return {"prompt": "{{q}}", "targets": "{{a}}", "metrics": "exact_match", "progress": False, **options}


@pytest.fixture
def model(scripted) -> dict[str, Any]:
    scripted.script(rules=[{"match": ".", "steps": [{"text": "yes", "usage": USAGE}]}])
    return {"model": f"openai-compatible/m@{scripted.url}", "model_id": "m"}


def test_a_call_costs_what_its_usage_says_and_a_cached_one_nothing(model, scripted, tmp_path: Path) -> None:
    run = ef.run(ROWS, {**model, "prices": PRICE}, **data(out=tmp_path / "a"))
    assert run.generations["cost_usd"].to_list() == [pytest.approx(A_CALL)] * 20
    again = ef.run(ROWS, model, **data(prices={"m": PRICE}, out=tmp_path / "b"))
    assert scripted.stats()["requests"] == 20
    paid = again.costs(by="run").row(0, named=True)
    assert paid["cost_usd"] == 0.0
    assert paid["cost_usd_original"] == pytest.approx(20 * A_CALL)
    assert paid["n_cached"] == 20
    assert paid["total_tokens"] == 3_000


def test_an_empty_reply_that_was_asked_for_again_is_paid_too(model, scripted) -> None:
    empty = {"text": "", "usage": USAGE}
    scripted.script(rules=[{"match": ".", "steps": [empty, {"text": "yes", "usage": USAGE}]}])
    run = ef.run(ROWS[:2], model, **data(prices={"m": PRICE}, generation={"max_empty_retries": 1}, out=False))
    assert run.costs()["cost_usd"].item() == pytest.approx(4 * A_CALL)
    assert run.costs()["n_attempts"].item() == 4


def test_an_unknown_price_or_usage_is_null_and_not_0(model, scripted) -> None:
    assert ef.run(ROWS[:2], model, **data(out=False)).costs()["cost_usd"].to_list() == [None]
    scripted.script(rules=[{"match": ".", "steps": [{"text": "yes", "usage": None}]}])
    asked = data(prices={"m": PRICE}, out=False, cache=False)
    assert ef.run(ROWS[:2], model, **asked).costs()["cost_usd"].to_list() == [None]
    with pytest.warns(CostWarning, match="m: 2 replies told no usage, so what they cost is not known, and max_cost"):
        ef.run(ROWS[:2], model, **asked, max_cost_usd=1)


def test_a_cap_ends_the_calls_and_a_raised_one_goes_on(model, scripted, tmp_path: Path) -> None:
    asked = data(prices={"m": PRICE}, parallel=False, cache=False, max_cost_usd=7.5 * A_CALL, out=tmp_path / "run")
    run = ef.run(ROWS, model, **asked)
    assert run.record["status"] == "partial"
    assert run.generations["error_type"].to_list() == [None] * 8 + ["cost_cap"] * 12
    assert run.costs()["cost_usd"].item() == pytest.approx(8 * A_CALL)
    assert f"evalframe resume {run.path} --max-cost-usd MORE" in repr(run)

    assert ef.resume(run.path, progress=False).record["status"] == "partial"  # what was paid counts: no call is made
    assert scripted.stats()["requests"] == 8
    more = ef.resume(run.path, progress=False, max_cost_usd=11.5 * A_CALL)
    assert more.costs()["cost_usd"].item() == pytest.approx(12 * A_CALL)
    assert more.record["options"]["max_cost_usd"] == pytest.approx(11.5 * A_CALL)
    whole = ef.resume(run.path, progress=False, max_cost_usd=1)
    assert whole.record["status"] == "complete"
    assert whole.costs()["cost_usd"].item() == pytest.approx(20 * A_CALL)
    assert scripted.stats()["requests"] == 20
    assert "--max-cost-usd" not in repr(whole)


def test_a_cap_in_threads_is_passed_by_the_calls_in_flight_at_most(model, scripted) -> None:
    run = ef.run(ROWS, model, **data(prices={"m": PRICE}, cache=False, max_cost_usd=3.5 * A_CALL, out=False))
    made = run.costs()["n_completed"].item()
    assert 4 <= made <= 4 + 8
    assert scripted.stats()["requests"] == made


def test_the_cap_of_an_extended_run_is_on_what_it_spends_itself(model, scripted, tmp_path: Path) -> None:
    asked = data(prices={"m": PRICE}, parallel=False, cache=False, max_cost_usd=7.5 * A_CALL)
    run = ef.run(ROWS[:6], model, **asked, out=tmp_path / "run")
    assert run.record["status"] == "complete"
    more = run.extend({**model, "model_id": "n", "prices": PRICE}, out=tmp_path / "more", progress=False)
    assert more.record["status"] == "complete"
    assert more.costs()["cost_usd"].to_list() == [pytest.approx(6 * A_CALL)] * 2
    most = more.extend(repeats=2, out=tmp_path / "most", progress=False)
    assert most.record["status"] == "partial"  # twelve calls to make, and money for eight
    assert most.costs()["n_completed"].sum() == 12 + 8
    resumed = ef.resume(most.path, progress=False, max_cost_usd=13 * A_CALL)
    assert resumed.record["status"] == "complete"
    with pytest.raises(OptionError, match="so does 'prices' in the model's dict"):
        run.extend({**model, "model_id": "n"}, progress=False)


def test_money_that_can_not_be_counted_is_refused_before_a_call(model, scripted, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"the price of 'm' is not known.* prices=\{'m': \(0.25, 2.0\)\}"):
        ef.run(ROWS, model, **data(max_cost_usd=1, out=tmp_path / "run"))
    with pytest.raises(OptionError, match=r"prices\['n'\]: no model of the run has this id -> known: m"):
        ef.run(ROWS, model, **data(prices={"n": PRICE}, out=tmp_path / "run"))
    with pytest.raises(OptionError, match="prices of m: 3 is no pair of numbers"):
        ef.run(ROWS, {**model, "prices": 3}, **data(out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert scripted.stats()["requests"] == 0
