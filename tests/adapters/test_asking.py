"""What settings become, whatever the API: sent, renamed, dropped, applied here, or left out; nothing else is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import Generation
from evalframe.adapters.asking import FORBIDDEN, PASSED_THROUGH, Asked, stopped, work_out
from tests.adapters.toy import Stopping, ToyApi


def ask(settings: dict[str, Any], *, api: Any = None, **options: Any) -> Asked:
    return work_out(settings, api=api or ToyApi(), **{"passes_through": False, **options})


def test_settings_are_sent_by_the_names_of_the_api() -> None:
    asked = ask({"temperature": 0, "max_output_tokens": 5, "instructions": "Be short."})
    assert asked.fixed == {"temperature": 0, "most": 5}
    assert (asked.instructions, asked.stop, asked.left_out) == ("Be short.", (), ())


def test_nothing_asked_for_is_nothing_sent() -> None:
    assert ask({}, passes_through=True) == Asked({}, None, {}, (), ())


def test_what_the_api_lacks_is_left_out_and_named() -> None:
    asked = ask({"top_p": 0.5, "top_k": 3, "extra_body": {"a": 1}, "temperature": 1})
    assert asked.fixed == {"temperature": 1}
    assert asked.left_out == ("top_p", "top_k", "extra_body")


def test_two_settings_in_one_object_are_joined() -> None:
    asked = ask({"text": "short", "reasoning": "low"}, logprobs=True)
    assert asked.fixed == {"options": {"text": "short", "reasoning": "low", "logprobs": True}}


def test_servers_of_any_make_get_what_only_some_have() -> None:
    settings = dict.fromkeys(PASSED_THROUGH, 1)
    assert ask(settings, passes_through=True).fixed == settings
    assert ask(settings).left_out == PASSED_THROUGH


# extra_body


def test_extra_body_is_sent_as_it_stands_and_goes_last() -> None:
    asked = ask({"temperature": 1, "extra_body": {"guided_choice": ["a"], "temperature": 2}}, passes_through=True)
    assert asked.fixed == {"guided_choice": ["a"], "temperature": 2}
    assert asked.left_out == ()


@pytest.mark.parametrize("name", [*sorted(FORBIDDEN), "API-Key", "Authorization", "base-URL", "Extra-Headers"])
def test_extra_body_can_not_change_target_shape_or_secrets(name) -> None:
    asked = ask({"extra_body": {name: "x", "fine": 1}}, passes_through=True)
    assert asked.fixed == {"fine": 1}
    assert asked.left_out == (f"extra_body.{name}",)


# drop and rename


@pytest.mark.parametrize("name", ["max_output_tokens", "most"])
def test_drop_takes_our_name_or_the_api_s(name) -> None:
    asked = ask({"max_output_tokens": 5, "temperature": 1}, drop=(name,))
    assert asked.fixed == {"temperature": 1}
    assert asked.left_out == ("max_output_tokens",)


@pytest.mark.parametrize("name", ["instructions", "extra_body", "top_k"])
def test_drop_takes_the_others_too(name) -> None:
    settings = {"instructions": "Be short.", "extra_body": {"a": 1}, "top_k": 3}
    asked = ask(settings, drop=(name,), passes_through=True)
    assert asked.left_out == (name,)
    assert (asked.instructions is None) == (name == "instructions")
    assert ("a" in asked.fixed) == (name != "extra_body")
    assert ("top_k" in asked.fixed) == (name != "top_k")


def test_a_key_of_extra_body_can_be_dropped() -> None:
    asked = ask({"extra_body": {"a": 1, "b": 2}}, drop=("a",), passes_through=True)
    assert (asked.fixed, asked.left_out) == ({"b": 2}, ("a",))


def test_what_is_dropped_but_was_not_asked_for_is_not_left_out() -> None:
    assert ask({"temperature": 1}, drop=("stop", "most")).left_out == ()


@pytest.mark.parametrize("old", ["max_output_tokens", "most"])
def test_rename_takes_our_name_or_the_api_s(old) -> None:
    asked = ask({"max_output_tokens": 5}, rename={old: "max_new_tokens", "seed": "random_seed"})
    assert (asked.fixed, asked.left_out) == ({"max_new_tokens": 5}, ())


def test_a_name_that_is_dropped_can_not_be_renamed() -> None:
    assert ask({"max_output_tokens": 5}, drop=("most",), rename={"most": "n"}).fixed == {}


# stop


def test_a_stop_that_the_api_lacks_is_applied_here() -> None:
    asked = ask({"stop": ["\n", "END"]})
    assert (asked.fixed, asked.stop, asked.left_out) == ({}, ("\n", "END"), ())


def test_so_is_one_that_the_server_would_refuse() -> None:
    asked = ask({"stop": ["\n", "END"]}, api=Stopping())
    assert (asked.fixed, asked.stop, asked.left_out) == ({"stop": ["END"]}, ("\n",), ())


def test_so_is_one_that_is_dropped_for_a_server_without_it() -> None:
    asked = ask({"stop": ["END"]}, api=Stopping(), drop=("stop",))
    assert (asked.fixed, asked.stop, asked.left_out) == ({}, ("END",), ())


@given(st.text("ab\n", max_size=8), st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=3))
def test_a_reply_is_cut_where_the_first_text_begins(text, stop) -> None:
    reply = Generation(text, finish_reason="length", token_nll=1.0, token_count=2, output_tokens=2)
    cut = stopped(reply, tuple(stop))
    found = [text.index(one) for one in stop if one in text]
    if not found:
        assert cut is reply
        return
    assert cut.text == text[: min(found)]
    assert cut.finish_reason == "stop"
    assert (cut.token_nll, cut.token_count) == (None, None)  # of the whole reply, not of this text
    assert cut.output_tokens == 2  # which was paid for
