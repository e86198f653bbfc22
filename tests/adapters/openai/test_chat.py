"""Replies of chat completions, as servers write them."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.adapters import CallFailed
from evalframe.adapters.openai.chat import COMPATIBLE_CHAT_API as CHAT


def reply(message: dict[str, Any] | None = None, *, reason: Any = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "4", **(message or {})}, "finish_reason": reason}
    choice |= more.pop("choice", {})
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-x-2026-01-01", "choices": [choice], **more}


def test_a_whole_reply() -> None:
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 12,
        "total_tokens": 42,
        "prompt_tokens_details": {"cached_tokens": 20, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    logprobs = {"content": [{"token": "4", "logprob": -0.25, "bytes": [52], "top_logprobs": []}], "refusal": None}
    found = CHAT.read(reply({"refusal": None}, usage=usage, system_fingerprint="fp_1", choice={"logprobs": logprobs}))
    assert (found.text, found.finish_reason, found.reasoning, found.tool_calls) == ("4", "stop", None, None)
    assert (found.input_tokens, found.output_tokens, found.cached_tokens, found.reasoning_tokens) == (30, 12, 20, 8)
    assert (found.token_nll, found.token_count) == (0.25, 1)
    assert (found.response_id, found.model_version) == ("chatcmpl-1", "gpt-x-2026-01-01")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "The sum "}, {"type": "text", "text": "is 4."}], "The sum is 4."),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "2+2"}]}, {"type": "text", "text": "4"}], "4"),
        ([], ""),
    ],
)
def test_content_in_parts_and_content_that_is_null(content: Any, text: str) -> None:
    assert CHAT.read(reply({"content": content})).text == text


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "2+2"},
        {"reasoning": "2+2"},
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "2"},
                {"type": "reasoning.summary", "summary": "+2"},
            ]
        },
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "2+2"}]},
                {"type": "text", "text": "4"},
            ]
        },
    ],
)
def test_reasoning_is_found_where_servers_put_it(message: dict[str, Any]) -> None:
    found = CHAT.read(reply(message))
    assert (found.reasoning, found.text) == ("2+2", "4")


def test_empty_reasoning_is_none_so_that_the_text_is_searched_for_it() -> None:
    assert CHAT.read(reply({"reasoning_content": "", "reasoning": None})).reasoning is None


def test_a_refusal_is_a_reply() -> None:
    found = CHAT.read(reply({"content": None, "refusal": "I can not help with that."}))
    assert (found.text, found.finish_reason) == ("I can not help with that.", "refusal")
    parts = CHAT.read(reply({"content": [{"type": "refusal", "refusal": "No."}]}))
    assert (parts.text, parts.finish_reason) == ("No.", "refusal")


def test_calls_of_tools_have_one_shape() -> None:
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "call_2", "type": "function", "function": {"name": "add", "arguments": {"x": 2}}},
        {"id": "call_3", "type": "custom", "custom": {"name": "run", "input": "print(1)"}},
    ]
    found = CHAT.read(reply({"content": None, "tool_calls": calls}, reason="tool_calls"))
    assert found.tool_calls == [
        {"id": "call_1", "name": "add", "arguments": '{"x": 1}'},
        {"id": "call_2", "name": "add", "arguments": '{"x":2}'},
        {"id": "call_3", "name": "run", "arguments": "print(1)"},
    ]
    assert (found.text, found.finish_reason) == ("", "tool_calls")
    legacy = CHAT.read(reply({"function_call": {"name": "add", "arguments": "{}"}}, reason="function_call"))
    assert legacy.tool_calls == [{"id": None, "name": "add", "arguments": "{}"}]
    assert legacy.finish_reason == "tool_calls"
    # some servers say stop all the same
    assert CHAT.read(reply({"tool_calls": calls})).finish_reason == "tool_calls"
    assert CHAT.read(reply({"tool_calls": []})).tool_calls is None


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("stop", "stop"), ("eos", "stop"), ("end_turn", "stop"), ("length", "length"), ("max_tokens", "length"),
        ("MAX_TOKENS", "length"), ("content_filter", "content_filter"), ("SAFETY", "content_filter"),
        ("tool_use", "tool_calls"), (None, None), ("novel", "novel"),
    ],
)  # fmt: skip
def test_words_for_the_end_of_a_reply(word: Any, ours: Any) -> None:
    assert CHAT.read(reply(reason=word)).finish_reason == ours


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, (5, 2, None, None)),
        ({"input_tokens": 5, "output_tokens": 2}, (5, 2, None, None)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, (5, 2, 4, None)),
        ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}, (5, 2, None, None)),
        ({"prompt_tokens": 5, "completion_tokens": 9, "reasoning_tokens": 7}, (5, 9, None, 7)),
        (None, (None, None, None, None)),
        ("much", (None, None, None, None)),
    ],
)
def test_usage_in_all_its_spellings(usage: Any, told: tuple[int | None, ...]) -> None:
    found = CHAT.read(reply(usage=usage))
    assert (found.input_tokens, found.output_tokens, found.cached_tokens, found.reasoning_tokens) == told


def test_the_fingerprint_stands_in_where_no_model_is_named() -> None:
    document = reply(system_fingerprint="fp_1")
    assert CHAT.read({**document, "model": ""}).model_version == "fp_1"


@pytest.mark.parametrize(
    "odd",
    [
        {"content": [{"token": "4", "logprob": None}]},
        {"content": [{"token": "4", "logprob": float("nan")}]},
        {"content": None},
        None,
    ],
)
def test_log_probabilities_that_are_none_are_null(odd: Any) -> None:
    found = CHAT.read(reply(choice={"logprobs": odd}))
    assert (found.token_nll, found.token_count) == (None, None)


@pytest.mark.parametrize(
    ("document", "seen"),
    [
        ({}, "choices is null"),
        ({"choices": []}, "choices is an empty list"),
        ({"choices": {"a": 1}}, "choices is an object with a"),
        ({"choices": ["x"]}, "choices[0] is a text"),
        ({"choices": [{}]}, "choices[0].message is null"),
        ({"choices": [{"message": {"content": 4}}]}, "choices[0].message.content is a number"),
        ({"choices": [{"message": {"tool_calls": ["x"]}}]}, "choices[0].message.tool_calls[] is a text"),
        ([], "the document is an empty list"),
    ],
)
def test_another_shape_is_no_reply_and_says_what_was_seen(document: Any, seen: str) -> None:
    with pytest.raises(CallFailed) as caught:
        CHAT.read(document)
    assert caught.value.error_type == "bad_reply"
    assert seen in str(caught.value)
    assert not caught.value.transient


@pytest.mark.parametrize(
    ("error", "error_type", "transient"),
    [
        ({"message": "slow down", "code": 429}, "rate_limited", True),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limited", True),
        ({"message": "no money left", "code": "insufficient_quota"}, "rate_limited", False),
        ({"message": "who are you", "code": "401"}, "unauthorized", False),
        ({"message": "boom", "type": "server_error", "code": None}, "server_error", True),
        ({"message": "provider down", "code": 502}, "server_error", True),
        ({"message": "what", "type": "invalid_request_error"}, "bad_request", False),
        ({"message": "too slow", "code": 408}, "timeout", True),
        ("boom", "server_error", True),
        ({"strange": 1}, "server_error", True),
    ],
)
def test_an_error_in_a_reply_of_status_200_fails_the_call(error: Any, error_type: str, transient: bool) -> None:
    for document in ({"error": error}, reply(choice={"error": error})):
        with pytest.raises(CallFailed) as caught:
            CHAT.read(document)
        assert (caught.value.error_type, caught.value.transient) == (error_type, transient)
        words = error if isinstance(error, str) else error.get("message", "an object with strange")
        assert words in str(caught.value)


@pytest.mark.parametrize("word", ["error", "abort", "insufficient_system_resource"])
def test_a_reply_that_was_broken_off_is_none(word: str) -> None:
    with pytest.raises(CallFailed, match=word) as caught:
        CHAT.read(reply(reason=word))
    assert caught.value.transient


AZURE = {
    "error": {
        "code": "content_filter",
        "message": "The response was filtered",
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}},
    }
}


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (400, AZURE),
        (400, {"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}, "message": "x"}}),
        (400, {"error": {"code": "data_inspection_failed", "message": "may contain inappropriate content"}}),
        (403, {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["x"], "flagged_input": "y"}}}),
        (400, {"error": {"code": "invalid_prompt", "message": "flagged as violating our usage policy"}}),
    ],
)
def test_an_error_of_a_content_filter_is_a_reply(status: int, document: Any) -> None:
    found = CHAT.filtered(status, document)
    assert found is not None
    assert (found.text, found.finish_reason) == ("", "content_filter")


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "too long"}}),
        (400, {"error": {"code": "invalid_prompt", "message": "Invalid prompt: it has no text"}}),
        (403, {"error": {"code": 403, "message": "not allowed", "metadata": {"provider_name": "x"}}}),
        (401, AZURE),
        (503, AZURE),
        (400, {"error": "content_filter"}),
        (400, None),
        (400, ["x"]),
    ],
)
def test_another_error_is_none(status: int, document: Any) -> None:
    assert CHAT.filtered(status, document) is None


def test_a_filter_in_a_reply_of_status_200() -> None:
    assert CHAT.read(reply({"content": None}, reason="content_filter")).finish_reason == "content_filter"
    assert CHAT.read({"error": AZURE["error"], "choices": []}).finish_reason == "content_filter"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"error": {"message": "no such model", "type": "x"}}, "no such model"),
        ({"error": "no such model"}, "no such model"),
        ({"object": "error", "message": "no such model", "code": 404}, "no such model"),
        ({"detail": "no such model"}, "no such model"),
        ({"detail": [{"loc": ["body", "stop", 0], "msg": "too long"}, {"msg": "x"}]}, "body.stop.0: too long; x"),
        ({"error": {"code": 500}}, ""),
        ({}, ""),
        (None, ""),
        (3, ""),
    ],
)
def test_the_words_of_an_error(document: Any, words: str) -> None:
    assert CHAT.error_words(document) == words
