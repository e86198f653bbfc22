"""Replies of legacy completions."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.adapters import CallFailed
from evalframe.adapters.openai.completions import COMPATIBLE_COMPLETIONS_API as COMPLETIONS


def reply(**choice: Any) -> dict[str, Any]:
    choices = [{"index": 0, "text": " 4", "finish_reason": "stop", "logprobs": None, **choice}]
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    return {"id": "cmpl-1", "object": "text_completion", "model": "m-1", "choices": choices, "usage": usage}


def test_a_whole_reply() -> None:
    logprobs = {"tokens": [" 4", "."], "token_logprobs": [-0.25, -0.5], "text_offset": [3, 5], "top_logprobs": None}
    found = COMPLETIONS.read(reply(logprobs=logprobs, finish_reason="length"))
    assert (found.text, found.finish_reason, found.token_nll, found.token_count) == (" 4", "length", 0.75, 2)
    assert (found.input_tokens, found.output_tokens) == (5, 2)
    assert (found.response_id, found.model_version) == ("cmpl-1", "m-1")


def test_llama_cpp_has_the_log_probabilities_of_chat() -> None:
    found = COMPLETIONS.read(reply(logprobs={"content": [{"token": " 4", "logprob": -0.25}]}))
    assert (found.token_nll, found.token_count) == (0.25, 1)


@pytest.mark.parametrize(
    ("document", "error_type", "seen"),
    [
        ({"choices": [{"text": None}]}, "bad_reply", "choices[0].text is null"),
        ({"choices": [{"message": {"content": "4"}}]}, "bad_reply", "choices[0].text is null"),
        ({"choices": []}, "bad_reply", "choices is an empty list"),
        ({"error": {"message": "boom"}}, "server_error", "boom"),
        (reply(finish_reason="abort"), "server_error", "abort"),
    ],
)
def test_what_is_no_reply_fails_the_call(document: Any, error_type: str, seen: str) -> None:
    with pytest.raises(CallFailed) as caught:
        COMPLETIONS.read(document)
    assert caught.value.error_type == error_type
    assert seen in str(caught.value)


def test_a_filter_is_a_reply() -> None:
    assert COMPLETIONS.read(reply(text="", finish_reason="content_filter")).finish_reason == "content_filter"
