"""Replies in every shape become legal records; a paid reply is not lost to a bad detail."""

from __future__ import annotations

import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest

from evalframe.adapters import Generation
from evalframe.frames import check
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.jsontext import loads
from evalframe.schemas import GENERATIONS


def finish(rows, Model, journal, reply, **attributes):
    """Let a model give one reply to every call; give the first row and the warnings."""
    model = Model(lambda prompt, task: reply)
    for name, value in attributes.items():
        setattr(model, name, value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        summary = generate(rows, adapters=[model], journal=journal, options=GenerateOptions())
    assert [str(warning.message) for warning in caught] == list(summary.notes)
    return check(journal.generations(), GENERATIONS).row(0, named=True), summary.notes


class Liar(Generation):
    """A reply whose values can not be looked at."""

    @property
    def text(self):
        return "x"

    @property
    def confidence(self):
        raise RuntimeError("no")

    def __init__(self) -> None:
        pass


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("confidence", 0, 0.0),
        ("confidence", np.float32(0.5), 0.5),
        ("confidence", Fraction(1, 4), 0.25),
        ("confidence", 1.0, 1.0),
        ("token_nll", np.float64(2.5), 2.5),
        ("token_nll", 0.0, 0.0),
        ("token_count", np.int64(3), 3),
        ("input_tokens", 0, 0),
        ("finish_reason", "content_filter", "content_filter"),
        ("response_id", "a\ud800", "a\ufffd"),
        ("tool_calls", [{"name": "f", "arguments": {"é": 1.5}}], '[{"name":"f","arguments":{"é":1.5}}]'),
        ("tool_calls", loads('{"a": 2.50}'), '{"a":2.50}'),
        ("tool_calls", [], None),
        ("choice_logprobs", (-1.5, -math.inf, math.nan), [-1.5, None, None]),
        ("choice_logprobs", "no", None),
        ("raw", "no bytes", None),
        ("reasoning", "", None),
    ],
)
def test_good_values_are_kept(rows, Model, journal, field, value, kept) -> None:
    row, notes = finish(rows, Model, journal, Generation("x", **{field: value}))
    assert row["status"] == "completed"
    assert notes == ()
    if field == "raw":
        assert journal.raw("m", "a", 0) is None
    else:
        assert row[field] == kept


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("confidence", 85, "a percentage?"),
        ("confidence", math.nan, "not in \\[0, 1\\]"),
        ("confidence", -0.1, "not in \\[0, 1\\]"),
        ("confidence", True, "not in \\[0, 1\\]"),
        ("confidence", "high", "not in \\[0, 1\\]"),
        ("confidence", Unspeakable(), "whose repr"),
        ("token_nll", -3.5, "a missing minus?"),
        ("token_nll", math.inf, "not finite"),
        ("token_nll", 10**400, "not finite"),
        ("token_count", -1, "no whole number"),
        ("token_count", 2.5, "no whole number"),
        ("output_tokens", 1 << 63, "no whole number"),
        ("cached_tokens", True, "no whole number"),
        ("reasoning_tokens", "3", "no whole number"),
        ("finish_reason", "eos", "no known word"),
        ("finish_reason", ["stop"], "no known word"),
        ("response_id", 3, "no text"),
        ("model_version", b"x", "no text"),
        ("reasoning", 3, "no text"),
        ("tool_calls", {"a": object()}, "no JSON"),
        ("tool_calls", [math.nan], "no JSON"),
    ],
)
def test_a_bad_value_becomes_null_with_one_warning(rows, Model, journal, field, value, words) -> None:
    row, notes = finish(rows, Model, journal, Generation("x", **{field: value}))
    assert row["status"] == "completed"
    assert row["output_text"] == "x"
    assert row[field] is None
    assert len(notes) == 1
    assert field in notes[0]
    assert "became null in 5 replies" in notes[0]
    assert re.search(words, notes[0])
    if field == "confidence":
        assert row["confidence_source"] is None


def test_a_cyclic_value_is_no_json(rows, Model, journal) -> None:
    cycle: list = []
    cycle.append(cycle)
    row, notes = finish(rows, Model, journal, Generation("x", tool_calls=cycle))
    assert row["tool_calls"] is None
    assert "no JSON" in notes[0]


def test_a_reply_that_can_not_be_read_is_a_failed_call(rows, Model, journal) -> None:
    row, _ = finish(rows, Model, journal, Liar())
    assert (row["status"], row["error_type"]) == ("failed", "bad_reply")


def test_where_a_confidence_comes_from_is_said(rows, Model, journal) -> None:
    row, _ = finish(rows, Model, journal, Generation("x", confidence=0.5))
    assert row["confidence_source"] == "adapter"


def test_the_version_of_a_reply_goes_before_that_of_the_adapter(rows, Model, new_journal) -> None:
    told, _ = finish(rows, Model, new_journal(), Generation("x", model_version="2"), model_version="1")
    known, _ = finish(rows, Model, new_journal(), Generation("x"), model_version="1")
    neither, _ = finish(rows, Model, new_journal(), Generation("x"), model_version=1)
    assert (told["model_version"], known["model_version"], neither["model_version"]) == ("2", "1", None)


@pytest.mark.parametrize(
    ("reply", "text", "reasoning", "finish_reason"),
    [
        (Generation("<think>a</think>B", finish_reason="stop"), "B", "a", "stop"),
        (Generation("<think>a", finish_reason="length"), "", "a", "truncated_reasoning"),
        (Generation("<think>a</think>B", reasoning="apart"), "<think>a</think>B", "apart", None),
        (Generation("<think>a</think>B", reasoning=""), "<think>a</think>B", None, None),
        (Generation("", finish_reason="length"), "", None, "truncated_no_answer"),
        (Generation("<think>a</think>\n", finish_reason="length"), "\n", "a", "truncated_no_answer"),
        (Generation("", finish_reason="length", tool_calls=[1]), "", None, "length"),
        (Generation("half an ans", finish_reason="length"), "half an ans", None, "length"),
        (Generation(""), "", None, None),
    ],
)
def test_reasoning_and_how_a_reply_ended(rows, Model, journal, reply, text, reasoning, finish_reason) -> None:
    row, _ = finish(rows, Model, journal, reply)
    assert (row["output_text"], row["reasoning"], row["finish_reason"]) == (text, reasoning, finish_reason)
