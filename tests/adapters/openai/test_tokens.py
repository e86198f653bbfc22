"""Log-probabilities as one sum."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters.openai.tokens import summed

LOGPROBS = st.lists(st.floats(-60, 0), min_size=1, max_size=30)


@given(LOGPROBS)
def test_the_three_shapes_give_the_same_sum(values: list[float]) -> None:
    tokens = [{"token": "x", "logprob": value} for value in values]
    nll, count = summed(tokens)
    assert summed({"content": tokens, "refusal": None}) == (nll, count)
    assert summed({"tokens": ["x"] * len(values), "token_logprobs": values}) == (nll, count)
    assert count == len(values)
    assert nll == pytest.approx(-sum(values))
    assert math.copysign(1, nll or 0.0) == 1  # no negative zero


@given(LOGPROBS, st.sampled_from([None, float("nan"), float("-inf"), float("inf"), 0.5, "-1", True]), st.data())
def test_one_that_is_no_log_probability_makes_both_null(values: list[float], odd: Any, data: st.DataObject) -> None:
    values.insert(data.draw(st.integers(0, len(values))), odd)
    assert summed({"token_logprobs": values}) == (None, None)


@pytest.mark.parametrize("nothing", [None, [], {}, {"content": None}, {"content": []}, "text", {"token_logprobs": []}])
def test_none_are_none(nothing: Any) -> None:
    assert summed(nothing) == (None, None)


def test_a_refusal_has_its_own() -> None:
    assert summed({"content": None, "refusal": [{"token": "No", "logprob": -0.5}]}) == (0.5, 1)
    assert summed([{"token": "x"}]) == (None, None)
    assert summed(["x"]) == (None, None)
