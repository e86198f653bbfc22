"""Generation settings: every field, aliases, ranges, and what is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evalframe.errors import OptionError
from evalframe.limits import Limits
from evalframe.manifest.generation import GenerationSettings, parse_generation

EXAMPLE = Path(__file__).parent / "examples" / "generation.json"

LEGAL: dict[str, list[Any]] = {
    "instructions": ["Answer concisely.", ""],
    "temperature": [0, 0.7, 2, 5],
    "top_p": [0.01, 1],
    "max_output_tokens": [1, 100_000, 16.0],
    "max_gen_toks": [1],
    "stop": ["END", ["END", "\n\n"], []],
    "until": ["END", ["END"]],
    "tools": [[], [{"type": "function", "name": "f"}]],
    "tool_choice": ["auto", {"type": "function", "name": "f"}],
    "parallel_tool_calls": [True, False],
    "max_tool_calls": [1],
    "reasoning": [{"effort": "low"}],
    "text": [{"format": {"type": "json_object"}}],
    "truncation": ["auto", "disabled"],
    "service_tier": ["auto", "default", "flex", "priority"],
    "presence_penalty": [-2, 0, 2],
    "frequency_penalty": [-2, 0, 2],
    "top_k": [-1, 0, 50],
    "min_p": [0, 0.05, 1],
    "repetition_penalty": [0.5, 1.1],
    "do_sample": [True, False],
    "extra_body": [{"seed": 1, "nested": {"a": None}}],
    "chat_template_kwargs": [{"enable_thinking": False}],
    "prefill_think": [True, False, "<think>\n"],
    "use_cache": [True],
    "timeout_seconds": [1, 0.5 + 1, 3600],
    "max_retries": [0, 10],
    "max_empty_retries": [0, 10],
}


def test_the_table_has_every_setting() -> None:
    assert sorted(LEGAL) == sorted(GenerationSettings.known_keys())


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in LEGAL.items() for value in values])
def test_legal_values(key: str, value: Any) -> None:
    made = parse_generation({key: value})
    assert parse_generation(made) == made
    assert parse_generation(made.model_dump(exclude_none=True)) == made
    assert parse_generation(json.loads(json.dumps(made.model_dump(exclude_none=True)))) == made
    sent = made.sent()
    assert json.loads(json.dumps(sent)) == sent
    if key in ("timeout_seconds", "max_retries", "max_empty_retries"):
        assert sent == {}
        assert getattr(made, key) == value
    else:
        name = {"max_gen_toks": "max_output_tokens", "until": "stop"}.get(key, key)
        listed = name == "stop" and isinstance(value, str)
        assert sent == {name: [value] if listed else value}


def test_nothing_given_is_nothing_sent() -> None:
    for nothing in (None, {}, {"temperature": None, "stop": None}, {"generation": {}}, {"generation": None}):
        made = parse_generation(nothing)
        assert made.sent() == {}
        assert (made.timeout_seconds, made.max_retries, made.max_empty_retries) == (120, 2, 0)


def test_the_published_example() -> None:
    made = parse_generation(json.loads(EXAMPLE.read_text()))
    assert made.sent() == {
        "instructions": "Answer concisely.", "temperature": 0, "top_p": 1, "max_output_tokens": 128,
        "stop": ["<|endoftext|>"],
    }  # fmt: skip
    assert (made.timeout_seconds, made.max_retries, made.max_empty_retries) == (120, 2, 1)


def test_aliases_that_agree_are_no_conflict() -> None:
    assert parse_generation({"max_gen_toks": 8, "max_output_tokens": 8}).sent() == {"max_output_tokens": 8}
    assert parse_generation({"until": ["a"], "stop": "a"}).sent() == {"stop": ["a"]}
    assert parse_generation({"until": ["a"], "stop": ["a"]}).sent() == {"stop": ["a"]}
    assert parse_generation({"until": None, "stop": "a"}).sent() == {"stop": ["a"]}


# settings, path below generation, rule, what is said
WRONG = [
    ({"max_gen_toks": 8, "max_output_tokens": 9}, ".max_gen_toks", "conflict", "is 8, but max_output_tokens is 9"),
    ({"until": ["a"], "stop": "b"}, ".until", "conflict", "keep one"),
    ({"until": ["a", "b"], "stop": ["b", "a"]}, ".until", "conflict", "keep one"),
    ({"temperature": -0.1}, ".temperature", "out_of_range", "0 or more"),
    ({"temperature": "0.7"}, ".temperature", "bad_type", "write 0.7, without quotes"),
    ({"temperature": True}, ".temperature", "bad_type", "a number"),
    ({"temperature": float("nan")}, ".temperature", "not_finite", "no JSON number"),
    ({"temperature": float("inf")}, ".temperature", "not_finite", "no JSON number"),
    ({"top_p": 0}, ".top_p", "out_of_range", "above 0, up to 1"),
    ({"top_p": 1.01}, ".top_p", "out_of_range", "above 0, up to 1"),
    ({"max_output_tokens": 0}, ".max_output_tokens", "out_of_range", "1 or more"),
    ({"max_output_tokens": 1.5}, ".max_output_tokens", "bad_type", "an integer"),
    ({"max_gen_toks": 0}, ".max_gen_toks", "out_of_range", "1 or more"),
    ({"max_gen_toks": "8"}, ".max_gen_toks", "bad_type", "write 8, without quotes"),
    ({"max_tool_calls": 0}, ".max_tool_calls", "out_of_range", "1 or more"),
    ({"stop": 5}, ".stop", "bad_type", "a string or a list of strings"),
    ({"stop": [5]}, ".stop", "bad_type", "a string or a list of strings"),
    ({"until": {"a": 1}}, ".until", "bad_type", "a string or a list of strings"),
    ({"stop": ["a", ""]}, ".stop", "empty", "the empty text"),
    ({"until": ""}, ".until", "empty", "the empty text"),
    ({"instructions": ["x"]}, ".instructions", "bad_type", "a string"),
    ({"tools": {"type": "function"}}, ".tools", "bad_type", "a list"),
    ({"tools": ["f"]}, ".tools[0]", "bad_type", "an object"),
    ({"tool_choice": 5}, ".tool_choice", "bad_type", "a string or an object"),
    ({"parallel_tool_calls": "true"}, ".parallel_tool_calls", "bad_type", "write true, without quotes"),
    ({"reasoning": "low"}, ".reasoning", "bad_type", "an object"),
    ({"text": "x"}, ".text", "bad_type", "an object"),
    ({"truncation": "yes"}, ".truncation", "bad_value", "allowed: auto, disabled"),
    ({"service_tier": "fast"}, ".service_tier", "bad_value", "allowed: auto, default, flex, priority"),
    ({"presence_penalty": 2.1}, ".presence_penalty", "out_of_range", "from -2 to 2"),
    ({"frequency_penalty": -3}, ".frequency_penalty", "out_of_range", "from -2 to 2"),
    ({"top_k": -2}, ".top_k", "out_of_range", "-1 or more"),
    ({"min_p": 1.5}, ".min_p", "out_of_range", "from 0 to 1"),
    ({"repetition_penalty": 0}, ".repetition_penalty", "out_of_range", "above 0"),
    ({"do_sample": 1}, ".do_sample", "bad_type", "true or false"),
    ({"extra_body": []}, ".extra_body", "bad_type", "an object"),
    ({"extra_body": {"api_key": "hunter2"}}, ".extra_body.api_key", "forbidden", "environment"),
    ({"extra_body": {"Authorization": "hunter2"}}, ".extra_body.Authorization", "forbidden", "environment"),
    ({"chat_template_kwargs": "x"}, ".chat_template_kwargs", "bad_type", "an object"),
    ({"prefill_think": 1}, ".prefill_think", "bad_type", "true, false or a string"),
    ({"use_cache": "no"}, ".use_cache", "bad_type", "true or false"),
    ({"timeout_seconds": 0}, ".timeout_seconds", "out_of_range", "from 1 to 3,600"),
    ({"timeout_seconds": 3601}, ".timeout_seconds", "out_of_range", "from 1 to 3,600"),
    ({"max_retries": 11}, ".max_retries", "out_of_range", "from 0 to 10"),
    ({"max_retries": -1}, ".max_retries", "out_of_range", "from 0 to 10"),
    ({"max_empty_retries": 11}, ".max_empty_retries", "out_of_range", "from 0 to 10"),
    ({"temprature": 0}, ".temprature", "unknown_key", "'temperature'"),
    ({"max_tokens": 5}, ".max_tokens", "unknown_key", "'max_output_tokens'"),
    ({"system_prompt": "x"}, ".system_prompt", "unknown_key", "'instructions'"),
    ({"seed": 5}, ".seed", "unknown_key", "extra_body"),
    ({"reasoning_effort": "low"}, ".reasoning_effort", "unknown_key", "reasoning"),
    ([], "", "bad_type", "an object"),
    ("hot", "", "bad_type", "an object"),
]


@pytest.mark.parametrize(("given_settings", "path", "rule", "says"), WRONG, ids=lambda value: str(value)[:50])
def test_each_rule(given_settings: Any, path: str, rule: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_generation(given_settings)
    faults = caught.value.faults
    assert faults.select("where", "rule").rows() == [(f"generation{path}", rule)]
    assert says in faults["detail"][0] + faults["remedy"][0]
    assert faults["remedy"][0]
    assert "hunter2" not in str(caught.value)


def test_all_faults_are_named_at_once_under_the_given_path() -> None:
    with pytest.raises(OptionError, match="4 faults") as caught:
        parse_generation({"temperature": "x", "top_p": 2, "stop": [""], "tempratur": 1}, where="models[1].generation")
    assert caught.value.faults["where"].to_list() == [
        f"models[1].generation.{key}" for key in ("stop", "temperature", "tempratur", "top_p")
    ]


def test_limits_are_the_callers() -> None:
    wide = Limits(generation_timeout_seconds=9000, generation_retries=50)
    assert parse_generation({"timeout_seconds": 9000, "max_retries": 50}, limits=wide).max_retries == 50


def test_settings_are_frozen_and_checked_again() -> None:
    made = GenerationSettings(temperature=-1)
    with pytest.raises(ValidationError, match="frozen"):
        made.temperature = 0  # type: ignore[misc]
    with pytest.raises(OptionError, match="temperature"):
        parse_generation(made)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(LEGAL)) | st.text(max_size=4), VALUES, max_size=4))
def test_whatever_comes_it_is_settings_or_faults(given_settings: dict[str, Any]) -> None:
    made = settings_or_error(given_settings)
    if isinstance(made, OptionError):
        assert made.faults.height
        assert all(made.faults["remedy"])
    else:
        assert parse_generation(made.sent()).sent() == made.sent()
        assert None not in made.sent().values()


def settings_or_error(given_settings: Any) -> GenerationSettings | OptionError:
    try:
        return parse_generation(given_settings)
    except OptionError as error:
        return error
