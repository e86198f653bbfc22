"""What the calls of a run would take: tokens by bytes, dollars by price, calls that the result cache answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe import estimating
from evalframe.adapters import Generation
from evalframe.errors import OptionError
from evalframe.generate.cache import cache_path
from evalframe.previewing import make_preview

ROWS = [{"q": "short", "a": "1"}, {"q": "a question that is longer", "a": "2"}, {"q": "é" * 40, "a": "3"}]
DATA: dict[str, Any] = {"prompt": "{{q}}?", "targets": "{{a}}", "metrics": "exact_match"}
SERVER = "http://127.0.0.1:9/v1"  # nothing listens there
TOKENS = sum(math.ceil(len(f"{row['q']}?".encode()) / 4) for row in ROWS)


def local(name: str = "m", **told: Any) -> dict[str, Any]:
    return {"model": f"openai-compatible/{name}@{SERVER}", "model_id": name, **told}


def test_each_model_has_a_range_of_dollars_by_its_own_price_and_settings() -> None:
    models = [local("a", generation={"max_output_tokens": 100}), local("b"), local("c", prices=(1, 1)), local("d")]
    found = make_preview(ROWS, models, **DATA, repeats=2, generation={"max_output_tokens": 10},
                         prices={"a": (2.0, 8.0), "b": (0, 0)})  # fmt: skip
    assert found.estimates["n_calls"].to_list() == [6] * 4
    assert found.estimates["input_tokens_estimate"].to_list() == [2 * TOKENS] * 4
    assert found.estimates["output_tokens_most"].to_list() == [600, 60, 60, 60]
    least, most = found.estimates["cost_usd_least"].to_list(), found.estimates["cost_usd_most"].to_list()
    assert least == [pytest.approx(2 * TOKENS * 2e-6), 0.0, pytest.approx(2 * TOKENS * 1e-6), None]
    assert most == [pytest.approx(2 * TOKENS * 2e-6 + 600 * 8e-6), 0.0, pytest.approx((2 * TOKENS + 60) * 1e-6), None]
    assert found.totals["cost_usd_least"] is None  # the price of d is not known
    assert found.totals["output_tokens_most"] == 780
    assert any("the price of d is not known; give it, as in prices={'d':" in note for note in found.notes)


def test_without_a_bound_of_the_output_only_the_least_is_known() -> None:
    dropping = local("b", drop=["max_output_tokens"], generation={"max_output_tokens": 5})
    found = make_preview(ROWS, [local("a"), dropping], **DATA, prices={"a": (2, 8), "b": (2, 8)})
    assert found.estimates["output_tokens_most"].to_list() == [None, None]
    assert found.estimates["cost_usd_most"].to_list() == [None, None]
    assert found.totals["cost_usd_least"] == pytest.approx(2 * TOKENS * 2e-6)
    assert any(note.startswith("a, b: without max_output_tokens nobody knows") for note in found.notes)


def test_system_text_and_tools_go_with_each_prompt_where_they_are_sent() -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    generation = {"instructions": "x" * 40, "tools": tools}
    echo = ef.from_callable("echo", str.upper)  # is told them, and sends nothing
    found = make_preview(ROWS, [local(), local("n", drop=["tools"]), echo], **DATA, generation=generation)
    beside = 10 + math.ceil(len(json.dumps(tools, separators=(",", ":"))) / 4)
    assert found.estimates["input_tokens_estimate"].to_list() == [TOKENS + 3 * beside, TOKENS + 30, TOKENS]


def test_where_choices_are_scored_the_prompt_goes_with_each() -> None:
    rows = [{"q": "2 + 2 =", "a": "4", "choices": ["4", "five"]}, {"q": "1?", "a": "1", "choices": ["1", "2", "3"]}]
    model = local(api="completions", prices=(1, 1))
    found = make_preview(rows, model, **DATA, request_type="loglikelihood")
    assert found.estimates["input_tokens_estimate"].item() == (2 * 2 + 2) + (3 * 1 + 3)
    assert found.estimates["output_tokens_most"].item() == 5
    with pytest.raises(OptionError, match="can not tell how likely a continuation is"):
        make_preview(rows, ef.from_callable("m", str.upper), **DATA, request_type="loglikelihood")


def test_what_is_sent_left_out_and_applied_here_is_told_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    generation = {"temperature": 0.5, "stop": ["\n"], "top_k": 5}
    found = make_preview(ROWS, ["openai/gpt-5-mini", local()], **DATA, generation=generation)
    theirs, ours = found.sendings["openai/gpt-5-mini"], found.sendings["m"]
    assert theirs.sent == {"temperature": 0.5}
    assert theirs.left_out == ("top_k",)
    assert theirs.applied_here == ("stop",)
    assert ours.sent == {"temperature": 0.5, "stop": ["\n"], "top_k": 5}
    told = json.loads(json.dumps(found.to_json()))["estimates"]
    assert told[0]["sending"]["left_out"] == ["top_k"]


def test_a_cap_that_can_not_be_kept_is_an_error_and_one_that_will_be_reached_is_told() -> None:
    with pytest.raises(OptionError, match=r"the price of 'm' is not known, so no cap can be kept"):
        make_preview(ROWS, local(), **DATA, max_cost_usd=1)
    asked: dict[str, Any] = {**DATA, "prices": {"m": (1000, 1000)}, "generation": {"max_output_tokens": 10}}
    said = {cap: make_preview(ROWS, local(), **asked, max_cost_usd=cap).notes for cap in (0.001, 0.05, 1)}
    assert said[0.001] == (f"max_cost_usd=0.001 would end the run: the input alone costs about $0.0{TOKENS}",)
    assert said[0.05] == ("max_cost_usd=0.05 may end the run before it is complete",)
    assert said[1] == ()


class Versioned:
    """A model whose replies may be kept."""

    model_id, model_version = "kept", "1"

    def generate(self, prompt: str, task: Any) -> Generation:
        return Generation("1", input_tokens=10, output_tokens=1)


def test_calls_that_the_result_cache_answers_cost_nothing() -> None:
    asked: dict[str, Any] = {**DATA, "prices": {"kept": (1, 1)}, "generation": {"max_output_tokens": 4}}
    before = make_preview(ROWS, Versioned(), **asked)
    assert before.estimates["n_cached"].to_list() == [None]
    path = cache_path(True)
    assert path is not None
    assert not path.exists()  # a preview makes no cache
    ef.run(ROWS[:2], Versioned(), **asked, out=False, progress=False)
    found = make_preview(ROWS, [Versioned(), ef.from_callable("m", str.upper)], **asked, repeats=2)
    assert found.estimates["n_cached"].to_list() == [2, None]
    assert found.totals["calls_cached"] == 2
    assert found.totals["calls"] == 12
    tokens = 2 * TOKENS - sum(math.ceil(len(f"{row['q']}?".encode()) / 4) for row in ROWS[:2])
    assert found.estimates["input_tokens_estimate"].to_list() == [tokens, 2 * TOKENS]
    assert found.estimates["cost_usd_most"][0] == pytest.approx((tokens + 4 * 4) * 1e-6)
    whole = make_preview(ROWS[:2], Versioned(), **asked)
    assert whole.estimates.select("n_cached", "input_tokens_estimate", "cost_usd_most").row(0) == (2, 0, 0.0)
    for option in (False, "refresh", Path("elsewhere.sqlite")):
        assert make_preview(ROWS, Versioned(), **asked, cache=option).estimates["n_cached"].to_list() == [None]


def test_a_large_run_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ef.run(ROWS, Versioned(), **DATA, out=False, progress=False)
    other = Versioned()
    other.model_id = "other"
    monkeypatch.setattr(estimating, "MOST_LOOKED_UP", 5)
    assert make_preview(ROWS, [Versioned(), other], **DATA).estimates["n_cached"].to_list() == [3, None]
    assert make_preview(ROWS, Versioned(), **DATA, repeats=2).estimates["n_cached"].to_list() == [None]


def test_no_model_has_no_estimate_and_no_calls_take_nothing() -> None:
    found = make_preview(ROWS, **DATA)
    assert found.estimates.is_empty()
    assert found.totals["cost_usd_most"] is None
    assert found.totals["input_tokens_estimate"] == TOKENS
