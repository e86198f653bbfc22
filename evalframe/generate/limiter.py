"""Keeping to the rates of servers: a wait that a 429 asks for holds for all calls to that endpoint.

``Limiter`` is what the workers of one endpoint share: after a 429 nobody sends until the wait is over, then a few do,
and more as calls succeed. ``Pace`` keeps one model to requests and tokens a minute. Neither waits by itself: they say
how long.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

FULL_SECONDS = 0.02  # until a worker looks again whether one more may send
FIRST_SECONDS = 1.0  # that a 429 without a hint makes wait; doubled while none succeeds
MOST_SECONDS = 60.0
JITTER_SECONDS = 0.1  # beyond a server's hint, so that a clock which is ahead of ours does no harm


class Limiter:
    """The state of one endpoint, shared by the workers of all its models.

    Args:
        monotonic: A clock that only goes up, in seconds.
        random: Numbers in [0, 1), for the jitter.
    """

    def __init__(self, *, monotonic: Callable[[], float], random: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._random = random
        self._lock = threading.Lock()
        self._open_at = -math.inf
        self._window = math.inf  # calls that may be in flight
        self._threshold = math.inf  # up to here the window doubles, beyond it grows by one a round
        self._in_flight = 0
        self._round = 0  # throttlings so far: a burst of 429s to calls sent before one counts as one
        self._fruitless = 0  # throttlings without a success in between

    def closed_seconds(self) -> float:
        """Give the seconds until the endpoint may be asked again; 0: now."""
        # read without the lock: a number is replaced as a whole
        return max(0.0, self._open_at - self._monotonic())

    def enter(self) -> int | None:
        """Begin an attempt: gives its ticket for ``leave``; None: the endpoint is closed, or enough are in flight."""
        with self._lock:
            if self._in_flight >= self._window or self._open_at > self._monotonic():
                return None
            self._in_flight += 1
            return self._round

    def leave(self, ticket: int, *, succeeded: bool) -> None:
        """End an attempt that was not throttled."""
        with self._lock:
            self._in_flight -= 1
            if not succeeded or ticket != self._round:  # sent before the last 429: it says nothing of now
                return
            self._fruitless = 0
            if self._window < math.inf:
                self._window += 1.0 if self._window < self._threshold else 1.0 / self._window
                if self._window > 4 * self._threshold + 16:  # far beyond where it was too much
                    self._window = math.inf

    def throttled(self, ticket: int, hint_seconds: float | None) -> float:
        """End an attempt that the server answered with 429; gives the seconds that it made all wait.

        Args:
            ticket: Of ``enter``.
            hint_seconds: What the server asks for; None: it does not say.
        """
        with self._lock:
            if ticket == self._round:
                self._threshold = max(1.0, self._in_flight / 2)
                self._window = 1.0
                self._round += 1
                self._fruitless += 1
            self._in_flight -= 1
            doubled = FIRST_SECONDS * 2.0 ** min(max(self._fruitless - 1, 0), 10)
            own = min(MOST_SECONDS, doubled) * (0.5 + self._random() / 2)
            if hint_seconds is None:
                wait = own
            else:
                wait = hint_seconds + JITTER_SECONDS * self._random()
                if self._fruitless > 1:  # what the server asked for was too little: "0" would make us ask without end
                    wait = max(wait, own)
            self._open_at = max(self._open_at, self._monotonic() + wait)
            return wait


class Pace:
    """The places in time of one model's requests, evenly spaced.

    Args:
        requests_per_minute, tokens_per_minute: None: no limit.
        monotonic: A clock that only goes up, in seconds.
    """

    def __init__(
        self, *, requests_per_minute: float | None, tokens_per_minute: float | None, monotonic: Callable[[], float]
    ) -> None:
        self._gap = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._token_gap = 60.0 / tokens_per_minute if tokens_per_minute else 0.0
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next = self._next_token = -math.inf
        self._mean_output = 0.0
        self._n_settled = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is no limit at all."""
        return not (self._gap or self._token_gap)

    def reserve(self, *, input_tokens: float, max_output_tokens: int | None) -> tuple[float, float]:
        """Take the next place: the seconds until then, and the tokens that were counted for it.

        Args:
            input_tokens: An estimate.
            max_output_tokens: Of the request; counted until the model's replies have shown what they take.
        """
        with self._lock:
            now = self._monotonic()
            at = max(now, self._next, self._next_token)
            output = self._mean_output if self._n_settled else float(max_output_tokens or 0)
            tokens = input_tokens + output
            self._next = at + self._gap
            self._next_token = at + tokens * self._token_gap
            return at - now, tokens

    def settle(self, counted: float, *, input_tokens: int | None, output_tokens: int | None) -> None:
        """Correct what was counted for a request by what it took, where the server tells it."""
        if output_tokens is None or not self._token_gap:
            return
        with self._lock:
            self._n_settled += 1
            self._mean_output += (output_tokens - self._mean_output) / self._n_settled
            if input_tokens is not None:
                self._next_token += (input_tokens + output_tokens - counted) * self._token_gap
