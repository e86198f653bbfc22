"""What each setting becomes in each API."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.adapters.api import Api
from evalframe.adapters.asking import PASSED_THROUGH, work_out
from evalframe.adapters.openai import COMPATIBLE, OPENAI
from evalframe.adapters.openai.settings import flat, nested
from evalframe.manifest.generation import CONTROLS, GenerationSettings, parse_generation

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
FORMAT = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
TOOL = {"type": "function", "name": "add", "parameters": SCHEMA}
NESTED_TOOL = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}

# every setting but instructions, and what becomes of it: keys of the body; LEFT where the API lacks it
LEFT = "left out"
CASES: list[tuple[str, Any, Any, Any, Any, Any]] = [
    # setting, value, Responses, chat of OpenAI, chat of compatible servers, legacy completions
    ("temperature", 0.5, *[{"temperature": 0.5}] * 4),
    ("top_p", 0.9, *[{"top_p": 0.9}] * 4),
    ("max_output_tokens", 8, {"max_output_tokens": 8}, {"max_completion_tokens": 8}, *[{"max_tokens": 8}] * 2),
    ("stop", ["\n"], "here", *[{"stop": ["\n"]}] * 3),
    ("tools", [TOOL], {"tools": [TOOL]}, *[{"tools": [NESTED_TOOL]}] * 2, LEFT),
    ("tools", [NESTED_TOOL], {"tools": [TOOL]}, *[{"tools": [NESTED_TOOL]}] * 2, LEFT),
    ("tool_choice", "required", *[{"tool_choice": "required"}] * 3, LEFT),
    (
        "tool_choice",
        {"type": "function", "name": "add"},
        {"tool_choice": {"type": "function", "name": "add"}},
        *[{"tool_choice": {"type": "function", "function": {"name": "add"}}}] * 2,
        LEFT,
    ),
    ("parallel_tool_calls", False, *[{"parallel_tool_calls": False}] * 3, LEFT),
    ("max_tool_calls", 2, {"max_tool_calls": 2}, LEFT, LEFT, LEFT),
    ("reasoning", {"effort": "low"}, {"reasoning": {"effort": "low"}}, *[{"reasoning_effort": "low"}] * 2, LEFT),
    ("text", {"verbosity": "low"}, {"text": {"verbosity": "low"}}, *[{"verbosity": "low"}] * 2, LEFT),
    (
        "text",
        {"format": FORMAT},
        {"text": {"format": FORMAT}},
        *[
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
                }
            }
        ]
        * 2,
        LEFT,
    ),
    ("truncation", "auto", {"truncation": "auto"}, LEFT, LEFT, LEFT),
    ("service_tier", "flex", *[{"service_tier": "flex"}] * 3, LEFT),
    ("presence_penalty", 0.5, LEFT, *[{"presence_penalty": 0.5}] * 3),
    ("frequency_penalty", -0.5, LEFT, *[{"frequency_penalty": -0.5}] * 3),
    ("top_k", 40, LEFT, LEFT, {"top_k": 40}, {"top_k": 40}),
    ("min_p", 0.1, LEFT, LEFT, {"min_p": 0.1}, {"min_p": 0.1}),
    ("repetition_penalty", 1.1, LEFT, LEFT, *[{"repetition_penalty": 1.1}] * 2),
    ("do_sample", True, LEFT, LEFT, {"do_sample": True}, {"do_sample": True}),
    ("chat_template_kwargs", {"a": 1}, LEFT, LEFT, *[{"chat_template_kwargs": {"a": 1}}] * 2),
    ("prefill_think", True, LEFT, LEFT, {"prefill_think": True}, {"prefill_think": True}),
    ("use_cache", False, LEFT, LEFT, {"use_cache": False}, {"use_cache": False}),
    ("extra_body", {"seed": 1}, LEFT, LEFT, {"seed": 1}, {"seed": 1}),
]
COLUMNS: list[tuple[Api, bool]] = [
    (OPENAI.apis["responses"], False),
    (OPENAI.apis["chat"], False),
    (COMPATIBLE.apis["chat"], True),
    (COMPATIBLE.apis["completions"], True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}={case[1]}"[:40])
def test_what_a_setting_becomes(case: tuple[Any, ...]) -> None:
    name, value, *wanted = case
    settings = parse_generation({name: value}).sent()
    for (api, passes_through), body in zip(COLUMNS, wanted, strict=True):
        asked = work_out(settings, api=api, passes_through=passes_through)
        assert asked.fixed == (body if isinstance(body, dict) else {}), api
        assert asked.left_out == ((name,) if body == LEFT else ()), api
        assert asked.stop == (("\n",) if body == "here" else ()), api


def test_the_table_above_has_every_setting() -> None:
    assert {case[0] for case in CASES} == set(GenerationSettings.model_fields) - set(CONTROLS) - {"instructions"}
    assert set(PASSED_THROUGH) <= {case[0] for case in CASES}


@pytest.mark.parametrize(("api", "passes_through"), COLUMNS)
def test_nothing_asked_for_is_nothing_sent(api: Api, passes_through: bool) -> None:
    asked = work_out({}, api=api, passes_through=passes_through)
    assert asked.fixed == {}
    assert set(api.body("m", "Hi", instructions=None, fixed=asked.fixed)) <= {"model", "input", "messages", "prompt"}


def test_instructions_and_prompt_have_their_places() -> None:
    def body(api: Api) -> dict[str, Any]:
        return api.body("m", "Hi", instructions="Be short.", fixed={"temperature": 0})

    assert body(OPENAI.apis["responses"]) == {
        "model": "m", "instructions": "Be short.", "input": "Hi", "temperature": 0,
    }  # fmt: skip
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    assert body(COMPATIBLE.apis["chat"]) == {"model": "m", "messages": messages, "temperature": 0}
    assert "instructions" not in COMPATIBLE.apis["completions"].has


def test_parts_of_a_setting_that_an_api_lacks_are_named() -> None:
    settings = {"reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low", "other": 1}}
    asked = work_out(settings, api=OPENAI.apis["chat"], passes_through=False)
    assert asked.fixed == {"reasoning_effort": "low", "verbosity": "low"}
    assert asked.left_out == ("reasoning.summary", "text.other")


def test_a_compatible_server_gets_the_whole_of_reasoning_where_it_is_more_than_an_effort() -> None:
    api = COMPATIBLE.apis["chat"]
    whole = {"max_tokens": 100, "exclude": True}
    assert work_out({"reasoning": whole}, api=api, passes_through=True).fixed == {"reasoning": whole}


def test_log_probabilities_are_asked_for_in_each_api() -> None:
    asked = [work_out({}, api=api, passes_through=True, logprobs=True).fixed for api, _ in COLUMNS]
    assert asked == [{"include": ["message.output_text.logprobs"]}, *[{"logprobs": True}] * 2, {"logprobs": 1}]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "add", "description": "Adds.", "strict": True, "parameters": SCHEMA},
        {"type": "custom", "name": "run", "format": {"type": "text"}},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]},
        {"type": "web_search", "search_context_size": "low"},
    ],
)
def test_the_two_shapes_of_a_tool_turn_into_each_other(tool: dict[str, Any]) -> None:
    there = nested(tool)
    assert flat(there) == tool
    assert nested(there) == there  # a tool that has the shape already keeps it
    assert flat(tool) == tool


@pytest.mark.parametrize("name", ["chat", "completions"])
def test_openai_stops_at_four_texts_and_the_others_are_applied_here(name: str) -> None:
    settings = {"stop": ["a", "b", "c", "d", "e", "f"]}
    own = work_out(settings, api=OPENAI.apis[name], passes_through=False)
    assert (own.fixed, own.stop, own.left_out) == ({"stop": ["a", "b", "c", "d"]}, ("e", "f"), ())
    other = work_out(settings, api=COMPATIBLE.apis[name], passes_through=True)
    assert (other.fixed, other.stop) == (settings, ())
    few = work_out({"stop": ["a"]}, api=OPENAI.apis[name], passes_through=False)
    assert (few.fixed, few.stop) == ({"stop": ["a"]}, ())


def test_a_format_in_the_shape_of_the_other_api_is_taken() -> None:
    chat_shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    settings = {"text": {"format": chat_shape}}
    assert OPENAI.apis["chat"].fixed(settings) == {"response_format": chat_shape}
    flattened = {"type": "json_schema", "name": "answer", "schema": SCHEMA}
    assert OPENAI.apis["responses"].fixed(settings) == {"text": {"format": flattened}}
