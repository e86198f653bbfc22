"""How long is waited before a further attempt, and which errors of foreign adapters are those of time and network."""

from __future__ import annotations

import socket
import urllib.error

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import CallFailed, Generation
from evalframe.generate.retry import FIRST_SECONDS, MOST_SECONDS, RetryPolicy, failure_of, is_empty


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_waits_double_up_to_a_bound_and_jitter_takes_at_most_half(n, drawn) -> None:
    whole = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(n, 20))
    wait = RetryPolicy(random=lambda: drawn).back_off(n)
    assert whole / 2 <= wait <= whole


@given(st.integers(0, 50), st.floats(0, 1e6))
def test_what_the_server_asks_for_is_a_minimum(n, asked) -> None:
    policy = RetryPolicy(random=lambda: 0.0)
    assert policy.back_off(n, at_least=asked) == max(policy.back_off(n), asked)
    assert policy.back_off(n, at_least=None) == policy.back_off(n)


def test_two_workers_do_not_wait_alike() -> None:
    drawn = iter([0.1, 0.9])
    policy = RetryPolicy(random=lambda: next(drawn))
    assert policy.back_off(3) != policy.back_off(3)


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (TimeoutError("read"), "timeout"),
        (socket.timeout("read"), "timeout"),  # noqa: UP041  as libraries still spell it
        (ConnectionResetError(104, "reset"), "connection"),
        (ConnectionRefusedError(111, "refused"), "connection"),
        (BrokenPipeError(32, "pipe"), "connection"),
    ],
)
def test_errors_of_time_and_network_get_our_words(error, error_type) -> None:
    found = failure_of(error)
    assert isinstance(found, CallFailed)
    assert found.error_type == error_type
    assert found.transient
    assert type(error).__name__ in str(found)


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), urllib.error.URLError("x"), SystemExit(1)])
def test_other_errors_stay_what_they_are(error) -> None:
    assert failure_of(error) is error


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Generation(""), True),
        (Generation(" \n\t\u3000"), True),
        (Generation("", tool_calls=[]), True),
        (Generation("", tool_calls=[{"name": "f"}]), False),
        (Generation("x"), False),
        (Generation("", reasoning="thought"), True),
        (Generation(None), False),  # no reply at all is another fault
    ],
)
def test_a_reply_is_empty_without_text_and_tool_calls(reply, expected) -> None:
    assert is_empty(reply) is expected
