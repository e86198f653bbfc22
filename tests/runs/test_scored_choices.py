"""A run of log-likelihood requests to a real server: what it costs, what the journal keeps, what it asks again."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import OptionError
from tests.servers import ScriptedServer

ROWS = pl.DataFrame({"q": ["2 + 2", "3 + 4"], "choices": [["4", "5"], ["6", "7"]], "answer": ["4", "7"]})


def scored(server: ScriptedServer, *, api: str = "completions", **options: Any) -> ef.Run:
    return ef.run(
        ROWS,
        {"model": f"openai-compatible/m@{server.url}", "api": api, "prices": [1000.0, 1000.0]},
        prompt="{{q}} =",
        targets="answer",
        metrics=["exact_match"],
        request_type="loglikelihood",
        out=False,
        progress=False,
        **options,
    )


def test_the_likeliest_choices_are_taken_and_cost_what_the_server_counts(scripted: ScriptedServer) -> None:
    run = scored(scripted)
    calls = run.generations
    assert calls["output_text"].to_list() == ["4", "7"]
    assert calls["choice_logprobs"].list.len().to_list() == [2, 2]
    assert run.leaderboard()["mean_score"].to_list() == [1.0]
    assert calls["input_tokens"].min() > 0
    # dollars a million tokens: a thousandth each
    tokens = calls["input_tokens"] + calls["output_tokens"]
    assert calls["cost_usd"].to_list() == pytest.approx((tokens / 1000).to_list())
    assert calls["model_version"].to_list() == ["m", "m"]
    assert scripted.stats()["requests"] == 2  # one a sample, its choices together


def test_it_is_paid_once(scripted: ScriptedServer) -> None:
    first = scored(scripted).generations
    again = scored(scripted).generations
    assert scripted.stats()["requests"] == 2
    assert again["cached"].all()
    assert again["cost_usd"].sum() == 0
    assert again["cost_usd_original"].to_list() == first["cost_usd"].to_list()
    assert again["choice_logprobs"].to_list() == first["choice_logprobs"].to_list()


def test_the_cap_counts_it(scripted: ScriptedServer) -> None:
    run = scored(scripted, max_cost_usd=0.001, parallel=False)
    assert run.generations["status"].to_list() == ["completed", "skipped"]
    assert run.generations["error_type"].to_list() == [None, "cost_cap"]


def test_a_server_that_ignores_echo_is_a_failed_row_that_says_so(scripted: ScriptedServer) -> None:
    scripted.script(default={"body": {"choices": [{"index": i, "text": "!", "logprobs": None} for i in range(2)]}})
    calls = scored(scripted).generations
    assert calls["error_type"].to_list() == ["bad_reply"] * 2
    assert all("ignores echo" in message for message in calls["error_message"])


def test_chat_completions_are_refused_before_any_call_and_the_way_is_named(scripted: ScriptedServer) -> None:
    with pytest.raises(OptionError, match='"api": "completions"'):
        scored(scripted, api="chat")
    assert scripted.stats()["requests"] == 0
