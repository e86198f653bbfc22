"""Whether a call is tried again, and after how long: time-outs, broken connections and servers in trouble are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evalframe.adapters import CallFailed, Generation

FIRST_SECONDS = 0.5
MOST_SECONDS = 30.0
MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a call is tried again.

    Attributes:
        max_retries: Further attempts after a failure that may pass; 0: also none after a rate limit.
        max_empty_retries: Further attempts after a reply without text and tool calls.
        max_rate_limit_wait_seconds: What one call waits for rate limits in all.
        random: Numbers in [0, 1), for the jitter.
    """

    max_retries: int = 0
    max_empty_retries: int = 0
    max_rate_limit_wait_seconds: float = 300.0
    random: Callable[[], float] = lambda: 0.5

    def back_off(self, n: int, *, at_least: float | None = None) -> float:
        """Give the seconds before the n-th further attempt, from 0: doubling from 0.5 to 30, jittered by a half.

        >>> [RetryPolicy().back_off(n) for n in range(3)]
        [0.375, 0.75, 1.5]
        """
        seconds = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(n, MOST_DOUBLINGS))
        return max(seconds * (0.5 + self.random() / 2), at_least or 0.0)


def failure_of(error: BaseException) -> BaseException:
    """Name the usual errors of time-outs and connections, which adapters of one's own let through, in our words."""
    if isinstance(error, TimeoutError):
        return CallFailed("timeout", f"{type(error).__name__}: {error}")
    if isinstance(error, ConnectionError):
        return CallFailed("connection", f"{type(error).__name__}: {error}")
    return error


def is_empty(reply: Generation) -> bool:
    """Whether a reply says nothing and calls no tool."""
    return isinstance(reply.text, str) and not reply.text.strip() and not reply.tool_calls
