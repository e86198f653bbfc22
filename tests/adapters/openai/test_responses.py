"""Replies of the Responses API."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.adapters import CallFailed
from evalframe.adapters.openai.responses import RESPONSES_API as RESPONSES


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(parts)}


def text(words: str, logprobs: Any = ()) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": list(logprobs)}


def reply(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1", "object": "response", "status": "completed", "error": None, "incomplete_details": None,
        "model": "gpt-x-2026-01-01", "output": list(output), **more,
    }  # fmt: skip


def test_a_whole_reply() -> None:
    usage = {
        "input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 8}, "total_tokens": 42,
    }  # fmt: skip
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Adding."}], "content": []}
    found = RESPONSES.read(reply(summary, message(text("The sum "), text("is 4.")), usage=usage))
    assert (found.text, found.reasoning, found.finish_reason) == ("The sum is 4.", "Adding.", "stop")
    assert (found.input_tokens, found.output_tokens, found.cached_tokens, found.reasoning_tokens) == (30, 12, 20, 8)
    assert (found.response_id, found.model_version) == ("resp_1", "gpt-x-2026-01-01")
    assert (found.token_nll, found.tool_calls) == (None, None)


def test_reasoning_itself_goes_before_its_summary() -> None:
    item = {
        "type": "reasoning",
        "content": [{"type": "reasoning_text", "text": "2+2"}],
        "summary": [{"type": "summary_text", "text": "Adding."}],
    }
    other = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Done."}]}
    assert RESPONSES.read(reply(item, other, message(text("4")))).reasoning == "2+2\n\nDone."
    hidden = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    assert RESPONSES.read(reply(hidden, message(text("4")))).reasoning is None


def test_log_probabilities_of_all_parts() -> None:
    one = text("The ", [{"token": "The ", "logprob": -0.5}])
    assert RESPONSES.read(reply(message(one, text("4", [{"token": "4", "logprob": -0.25}])))).token_nll == 0.75
    half = RESPONSES.read(reply(message(one, text("4"))))  # the second part came without: no sum
    assert (half.token_nll, half.token_count) == (None, None)


def test_calls_of_tools() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"x":1}'}
    custom = {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "print(1)"}
    found = RESPONSES.read(reply({"type": "web_search_call", "id": "ws_1", "status": "completed"}, call, custom))
    assert found.tool_calls == [
        {"id": "call_1", "name": "add", "arguments": '{"x":1}'},
        {"id": "call_2", "name": "run", "arguments": "print(1)"},
    ]
    assert (found.text, found.finish_reason) == ("", "tool_calls")


def test_a_refusal_is_a_reply() -> None:
    found = RESPONSES.read(reply(message({"type": "refusal", "refusal": "I can not help with that."})))
    assert (found.text, found.finish_reason) == ("I can not help with that.", "refusal")


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("novel", "novel"), (None, None)],
)
def test_a_reply_that_is_incomplete_says_why(reason: str | None, ours: str | None) -> None:
    found = RESPONSES.read(reply(message(text("The")), status="incomplete", incomplete_details={"reason": reason}))
    assert (found.text, found.finish_reason) == ("The", ours)
    assert RESPONSES.read(reply(status="incomplete")).finish_reason is None


def test_servers_that_take_the_short_way_are_read() -> None:
    document = {"output": [{"type": "message", "content": "4"}]}
    assert RESPONSES.read(document).text == "4"
    assert RESPONSES.read({"output": []}).text == ""
    assert RESPONSES.read({"output": [{"type": "message", "content": None}]}).text == ""


@pytest.mark.parametrize(
    ("more", "error_type", "words"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "boom"}}, "server_error", "boom"),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}, "rate_limited", "slow"),
        ({"status": "failed", "error": {"code": "invalid_prompt", "message": "bad"}}, "bad_request", "bad"),
        ({"status": "failed"}, "server_error", "its status is failed"),
        ({"status": "in_progress"}, "bad_reply", "not finished: its status is in_progress"),
        ({"output": None}, "bad_reply", "output is null"),
        ({"output": [{"type": "message", "content": 4}]}, "bad_reply", "output[].content is a number"),
    ],
)
def test_what_is_no_reply_fails_the_call(more: dict[str, Any], error_type: str, words: str) -> None:
    with pytest.raises(CallFailed) as caught:
        RESPONSES.read(reply(**more))
    assert caught.value.error_type == error_type
    assert words in str(caught.value)


def test_a_filter_in_a_reply_of_status_200() -> None:
    document = reply(status="failed", error={"code": "content_filter", "message": "filtered"})
    assert RESPONSES.read(document).finish_reason == "content_filter"
