"""What foreign functions ask models for: fetched in threads, many at once, delivered by the loop that serves them."""

from __future__ import annotations

import contextlib
import json
import socket
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from evalframe.errors import EvalframeError
from evalframe.sandbox.foreign import Bridge

_LEAST_THREADS = 64  # a batch grader may ask from many threads of its own
KINDS = ("responses_create", "embeddings_create")


class Asking:
    """Requests on their way. ``fileno`` is readable when one has been answered.

    Args:
        at_once: Workers that may ask at the same time.
    """

    def __init__(self, *, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(max(_LEAST_THREADS, at_once), thread_name_prefix="evalframe-bridge")
        self._answered: deque[tuple[Future[Mapping[str, Any]], Callable[[str], None]]] = deque()
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)

    def fileno(self) -> int:
        return self._here.fileno()

    def ask(self, bridge: Bridge, kind: str, keywords: Mapping[str, Any], *, deliver: Callable[[str], None]) -> None:
        """Begin one request; ``deliver`` gets the answer as JSON, in the thread that calls ``deliver`` here."""
        future = self._threads.submit(bridge, kind, keywords)

        def note(future: Future[Mapping[str, Any]]) -> None:
            self._answered.append((future, deliver))
            with contextlib.suppress(BlockingIOError, OSError):  # full: it is readable already; closed: nobody reads
                self._there.send(b"a")

        future.add_done_callback(note)

    def deliver(self) -> None:
        """Hand over what has been answered.

        Raises:
            Exception: What a bridge raised, but for ``BridgeError`` and other errors of ours, which are raised inside.
        """
        with contextlib.suppress(BlockingIOError):
            self._here.recv(4096)
        while self._answered:
            future, deliver = self._answered.popleft()
            if future.cancelled():
                continue
            try:
                answer: dict[str, Any] = {"reply": future.result()}
            except EvalframeError as error:
                answer = {"error": str(error)}
            deliver(json.dumps(answer))

    def close(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._here.close()
        self._there.close()
