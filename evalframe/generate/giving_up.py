"""When a model is given up: its address or key is wrong, or nothing has come from it for a while.

The other models go on; what was not called is recorded as skipped, and a resume asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from evalframe.adapters import CallFailed
from evalframe.generate.attempts import Done
from evalframe.words import SkipReason

FAILURES = 20  # in a row
SECONDS = 60.0  # that they take at least
# failures that say something of the sample, or of stored outputs, and nothing of the server
_NOT_THE_SERVER = {"missing_output", "bad_request"}
_NO_SUCH = 404
# of a first call: the address is not one that takes calls
_WRONG_ADDRESS = {301, 302, 303, 307, 308, _NO_SUCH, 405}


class Patience:
    """Counts the failures of one model in a row. Safe to use from several threads.

    Args:
        model_id: The model, for messages.
        monotonic: A clock that only goes up, in seconds.
    """

    def __init__(self, model_id: str, *, monotonic: Callable[[], float]) -> None:
        self.given_up: tuple[SkipReason, str] | None = None
        self._model_id = model_id
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._n = 0
        self._since = 0.0

    def count(self, done: Sequence[Done], *, preflight: bool = False) -> str | None:
        """Count finished calls; gives a message where the model is given up by them.

        Args:
            done: In the order in which they ended.
            preflight: They are the model's first request.
        """
        with self._lock:
            if self.given_up is not None:
                return None
            for call in done:
                if call.finished.status == "completed":
                    if not call.finished.cached:
                        self._n = 0
                    continue
                failure = call.outcome
                if preflight and _is_final(failure):
                    return self._give_up(call, "its first call failed")
                status = failure.status if isinstance(failure, CallFailed) else None
                if call.finished.error_type in _NOT_THE_SERVER and status != _NO_SUCH:
                    continue
                self._since = self._monotonic() if self._n == 0 else self._since
                self._n += 1
                spent = self._monotonic() - self._since
                if self._n >= FAILURES and (spent >= SECONDS or _is_shut(failure)):
                    return self._give_up(call, f"{self._n} calls in a row failed within {spent:.0f} s")
            return None

    def _give_up(self, call: Done, why: str) -> str:
        reason: SkipReason = "unauthorized" if call.finished.error_type == "unauthorized" else "unavailable"
        message = f"{self._model_id} is given up: {why}: {call.finished.error_message}"
        self.given_up = reason, message
        return message


def _is_final(failure: Any) -> bool:
    """Whether a first failure says that no call will do better: key, name or address are wrong."""
    if not isinstance(failure, CallFailed):
        return False
    if failure.error_type == "unauthorized" or failure.status in _WRONG_ADDRESS or failure.unreachable:
        return True
    return _is_shut(failure) and failure.status is not None  # the quota is used up


def _is_shut(failure: Any) -> bool:
    """Whether a rate limit lasts for longer than any call waits: calls fail as fast as they are taken."""
    return isinstance(failure, CallFailed) and failure.error_type == "rate_limited" and not failure.transient
