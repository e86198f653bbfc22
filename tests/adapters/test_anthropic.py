"""Anthropic's Messages API: the body of a request, and what its replies and errors say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.anthropic import ANTHROPIC, from_name
from evalframe.adapters.anthropic.messages import Messages
from evalframe.adapters.asking import work_out
from evalframe.errors import AdapterError
from evalframe.manifest.generation import GenerationSettings, parse_generation

API = Messages()
ADD = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def body(settings: dict, prompt: str = "1 + 1 =") -> dict:
    """Give what is sent for settings as a user writes them."""
    asked = work_out(parse_generation(settings).sent(), api=API, passes_through=False)
    return API.body("claude-x", prompt, instructions=asked.instructions, fixed=asked.fixed)


def left_out(settings: dict) -> tuple[str, ...]:
    return API.left_out(parse_generation(settings).sent())


def message(**fields) -> dict:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-20261001",
        "content": [{"type": "text", "text": "2"}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 3}, **fields,
    }  # fmt: skip


def test_a_bare_prompt_is_sent_bare() -> None:
    assert body({}) == {"model": "claude-x", "messages": [{"role": "user", "content": "1 + 1 ="}]}


def test_settings_have_the_names_of_the_api() -> None:
    given = {
        "instructions": "Be short.", "temperature": 0, "top_p": 0.9, "top_k": 5, "max_output_tokens": 64,
        "stop": "END", "service_tier": "default",
    }  # fmt: skip
    sent = body(given)
    assert sent["system"] == "Be short."
    assert {key: sent[key] for key in sent if key not in ("model", "messages", "system")} == {
        "temperature": 0, "top_p": 0.9, "top_k": 5, "max_tokens": 64, "stop_sequences": ["END"],
        "service_tier": "standard_only",
    }  # fmt: skip


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "add", "description": "Adds.", "parameters": ADD},
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADD}},
        {"name": "add", "description": "Adds.", "input_schema": ADD},
    ],
)
def test_a_tool_of_any_shape_is_sent_as_the_api_takes_it(tool) -> None:
    assert body({"tools": [tool]})["tools"] == [{"name": "add", "description": "Adds.", "input_schema": ADD}]


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    (tool,) = body({"tools": [{"type": "function", "name": "now"}]})["tools"]
    assert tool == {"name": "now", "input_schema": {"type": "object", "properties": {}}}


def test_a_server_tool_stays_as_it_is() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    assert body({"tools": [tool]})["tools"] == [tool]


@pytest.mark.parametrize(
    ("settings", "choice"),
    [
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": {"type": "function", "name": "add"}}, {"type": "tool", "name": "add"}),
        ({"tool_choice": {"type": "function", "function": {"name": "add"}}}, {"type": "tool", "name": "add"}),
        ({"tool_choice": {"type": "any"}}, {"type": "any"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "required", "parallel_tool_calls": False},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_the_choice_of_a_tool(settings, choice) -> None:
    tools = [{"type": "function", "name": "add", "parameters": ADD}]
    assert body({"tools": tools, **settings})["tool_choice"] == choice


@pytest.mark.parametrize(
    ("reasoning", "expected"),
    [
        ({"effort": "high"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ({"effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"budget_tokens": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ({"max_tokens": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ({"type": "enabled", "budget_tokens": 1024}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ({"type": "disabled"}, {"thinking": {"type": "disabled"}}),
        (
            {"effort": "low", "summary": "auto"},
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ({"effort": "minimal"}, {}),
    ],
)
def test_reasoning_is_an_effort_or_a_budget(reasoning, expected) -> None:
    sent = body({"reasoning": reasoning})
    assert {key: sent[key] for key in ("thinking", "output_config") if key in sent} == expected


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "name": "n", "schema": ADD},
        {"type": "json_schema", "json_schema": {"name": "n", "schema": ADD}},
    ],
)
def test_a_schema_and_an_effort_stand_in_one_object(form) -> None:
    sent = body({"reasoning": {"effort": "max"}, "text": {"format": form}})
    assert sent["output_config"] == {"effort": "max", "format": {"type": "json_schema", "schema": ADD}}


def test_what_the_api_lacks_is_named() -> None:
    assert left_out({"reasoning": {"effort": "minimal"}, "service_tier": "flex"}) == (
        "reasoning.effort",
        "service_tier",
    )
    assert left_out({"text": {"verbosity": "low", "format": {"type": "json_object"}}}) == (
        "text.verbosity",
        "text.format",
    )
    assert left_out({"text": {"format": {"type": "text"}}, "reasoning": {"effort": "none"}}) == ()
    asked = work_out({"presence_penalty": 1, "truncation": "auto"}, api=API, passes_through=False)
    assert asked.left_out == ("presence_penalty", "truncation")
    assert asked.fixed == {}


def test_a_stop_of_blanks_is_applied_here() -> None:
    asked = work_out({"stop": ["\n\n", "END"]}, api=API, passes_through=False)
    assert asked.fixed == {"stop_sequences": ["END"]}
    assert asked.stop == ("\n\n",)
    assert work_out({"stop": ["\n"]}, api=API, passes_through=False).fixed == {}


def test_every_setting_that_it_has_is_sent() -> None:
    values = {
        "temperature": 1, "top_p": 1, "top_k": 1, "max_output_tokens": 1, "stop": ["x"], "tools": [{"name": "t"}],
        "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"effort": "low"}, "service_tier": "auto",
        "text": {"format": {"type": "json_schema", "schema": {}, "json_schema": {"schema": ADD}}},
    }  # fmt: skip
    assert API.has <= set(GenerationSettings.model_fields)
    assert set(values) == API.has - {"instructions"}
    for name, value in values.items():
        assert API.fixed({name: value}), name


def test_a_reply() -> None:
    assert API.read(message()) == Generation(
        text="2", finish_reason="stop", input_tokens=12, output_tokens=3, response_id="msg_1",
        model_version="claude-x-20261001",
    )  # fmt: skip


def test_text_thoughts_and_tools_are_told_apart() -> None:
    content = [
        {"type": "thinking", "thinking": "One and one.", "signature": "s"},
        {"type": "redacted_thinking", "data": "…"},
        {"type": "text", "text": "I "},
        {"type": "text", "text": "add."},
        {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"x": 1, "a": "é"}},
    ]
    reply = API.read(message(content=content, stop_reason="tool_use"))
    assert reply.text == "I add."
    assert reply.reasoning == "One and one."
    assert reply.tool_calls == [{"id": "toolu_1", "name": "add", "arguments": '{"x":1,"a":"é"}'}]
    assert reply.finish_reason == "tool_calls"


def test_thoughts_that_are_not_shown_are_none() -> None:
    hidden = {"type": "thinking", "thinking": "", "signature": "s"}
    assert API.read(message(content=[hidden, hidden])).reasoning is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        ("something_new", "something_new"),  # the engine says so
    ],
)
def test_why_a_reply_ended(reason, finish) -> None:
    assert API.read(message(stop_reason=reason)).finish_reason == finish


def test_input_tokens_are_the_whole_input() -> None:
    usage = {
        "input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 6},
    }  # fmt: skip
    reply = API.read(message(usage=usage))
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens, reply.reasoning_tokens) == (125, 100, 9, 6)
    bare = API.read(message(usage={}))
    assert (bare.input_tokens, bare.cached_tokens, bare.output_tokens) == (None, None, None)


def error(kind: str, words: str) -> dict:
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("kind", "error_type"),
    [
        ("authentication_error", "unauthorized"),
        ("permission_error", "unauthorized"),
        ("rate_limit_error", "rate_limited"),
        ("overloaded_error", "server_error"),
        ("api_error", "server_error"),
        ("invalid_request_error", None),
    ],
)
def test_errors_have_a_type_and_words(kind, error_type) -> None:
    document = error(kind, "so it is")
    assert API.error_type(400, document) == error_type
    assert API.error_words(document) == "so it is"
    with pytest.raises(CallFailed, match="so it is") as raised:  # also where it comes with status 200
        API.read(document)
    assert raised.value.error_type == (error_type or "bad_reply")


def test_a_setting_that_a_model_refuses_is_named_with_the_remedy() -> None:
    words = API.error_words(error("invalid_request_error", "`temperature` is deprecated for this model."))
    assert words.endswith('{"model": …, "drop": ["temperature"]}')


def test_a_filter_that_answers_400_is_a_reply() -> None:
    blocked = error("invalid_request_error", "Output blocked by content filtering policy")
    assert API.filtered(400, blocked) == Generation(text="", finish_reason="content_filter")
    assert API.filtered(400, error("invalid_request_error", "max_tokens: too large")) is None
    assert API.filtered(500, blocked) is None


@pytest.mark.parametrize("document", [{}, {"content": None}, {"content": "2"}, {"type": "message", "content": {}}])
def test_what_is_no_reply_says_so(document) -> None:
    with pytest.raises(CallFailed, match="no list of content") as raised:
        API.read(document)
    assert raised.value.error_type == "bad_reply"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["text", "thinking", "error", "tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "content", "text", "usage", "stop_reason", "error", "input_tokens"]), inner
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_a_reply_or_a_failed_call(document) -> None:
    try:
        found = API.read(document if isinstance(document, dict) else {"content": document})
    except CallFailed:
        found = None
    assert found is None or isinstance(found.text, str)
    API.filtered(400, document), API.error_words(document), API.error_type(400, document)


def test_the_key_stands_in_its_header_alone() -> None:
    assert ANTHROPIC.headers("sk-1") == {"anthropic-version": "2023-06-01", "x-api-key": "sk-1"}
    assert ANTHROPIC.headers(None) == {"anthropic-version": "2023-06-01"}


def test_a_run_does_not_begin_without_a_key_or_a_limit(monkeypatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (model,) = from_name("claude-x", {})
    assert model.model_id == "anthropic/claude-x"
    with pytest.raises(AdapterError, match="set ANTHROPIC_API_KEY in the environment"):
        model.check({"max_output_tokens": 5})
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    with pytest.raises(AdapterError, match="without max_output_tokens; give it in generation"):
        model.check({})
    model.check({"max_output_tokens": 5})


def test_there_are_no_log_probabilities() -> None:
    with pytest.raises(AdapterError, match="gives no log-probabilities"):
        from_name("claude-x", {"logprobs": True})
