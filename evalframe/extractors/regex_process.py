"""The warm worker process in which users' regular expressions run, seen from this side.

One worker a process, started when it is first needed and closed at exit. A match that runs over its time costs its own
text; where it can not be interrupted the worker is ended and a new one goes on with the next text. The interpreter of
the caller is never held.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalframe.errors import SandboxError
from evalframe.limits import DEFAULT_LIMITS
from evalframe.sandbox import protocol, regex_worker

Result = tuple[str, str | None]

_BATCH_TEXTS = 1_000
_BATCH_CHARS = 2 * 1024 * 1024  # at most 12 bytes a character in a message
_MESSAGE_BYTES = 64 * 1024 * 1024
# the worker's own timers count processor time; this clock on the wall is for a worker that is starved or stopped
_SILENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search, as the worker is told of it.

    Attributes:
        pattern: In the dialect of Python's ``re``; it compiles.
        flags: Letters of ``imsxua``.
        group: An index or a name that the pattern has.
        last: The last match, not the first.
        seconds: Processor time for each text.
    """

    pattern: str
    flags: str = ""
    group: int | str = 0
    last: bool = False
    seconds: float = DEFAULT_LIMITS.regex_seconds_per_text


def search_all(texts: Sequence[str], search: Search) -> list[Result]:
    """Search every text, in order: a word of ``regex_worker`` and the answer.

    Raises:
        SandboxError: The worker process can not be started.
    """
    results: list[Result] = []
    with _lock:
        for batch in _batches(texts):
            results += _search_batch(batch, search)
    return results


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) == _BATCH_TEXTS or chars + len(text) > _BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch


def _search_batch(batch: list[str], search: Search) -> list[Result]:
    """Send a batch; where the worker ends in the middle, find the text that ended it and go on behind it."""
    results: list[Result] = []
    careful = False
    while len(results) < len(batch):
        rest = batch[len(results) :]
        complete = _worker().ask(rest, search, careful=careful, results=results)
        if not complete and careful:  # every earlier text of the batch has its result: it was this one
            results.append(("time_limit", None))
        careful = not complete or careful
    return results


class _Worker:
    """One process, and messages to and from it."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", str(Path(regex_worker.__file__))]
        kept = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH")  # to find the interpreter's libraries; no secrets
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                bufsize=0,
            )
        except OSError as error:
            raise SandboxError(f"the worker for regular expressions does not start: {error}") from error
        self._buffer = protocol.MessageBuffer(max_bytes=_MESSAGE_BYTES)
        self._waiting: list[Any] = []
        if (hello := self._next_message()) != {"ready": True}:
            self.close()
            raise SandboxError(
                f"the worker for regular expressions does not answer (it said {hello!r}, exit status "
                f"{self.process.returncode}); see that {' '.join(command)} runs"
            )

    def ask(self, texts: list[str], search: Search, *, careful: bool, results: list[Result]) -> bool:
        """Search texts and append their results; False where the worker ended before it was through."""
        request = {
            "pattern": search.pattern, "flags": search.flags, "group": search.group, "last": search.last,
            "seconds": search.seconds, "careful": careful, "texts": texts,
        }  # fmt: skip
        stream = self.process.stdin
        assert stream is not None
        wanted = len(results) + len(texts)
        try:
            protocol.write_message(stream, request)  # type: ignore[arg-type]
        except OSError:
            self.close()
            return False
        while len(results) < wanted:
            message = self._next_message()
            if message is None:
                self.close()
                return False
            results += [(word, answer) for word, answer in message["results"]]
        return True

    def _next_message(self) -> Any:
        """Wait for a message; None where the worker has ended or says nothing for too long."""
        stream = self.process.stdout
        assert stream is not None
        deadline = time.monotonic() + _SILENCE_SECONDS
        while not self._waiting:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(stream.fileno(), 1 << 20) if ready else b""
            if not piece:
                return None
            self._waiting += self._buffer.feed(piece)
        return self._waiting.pop(0)

    def close(self) -> None:
        """End the process and give its pipes back."""
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Give the pipes back and leave the process alone: after a fork it belongs to the parent."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


_lock = threading.Lock()
_running: _Worker | None = None


def _worker() -> _Worker:
    global _running
    if _running is None or _running.process.poll() is not None:
        if _running is not None:
            _running.forget()
        _running = _Worker()
    return _running


def close() -> None:
    """End the worker, if one runs; the next search starts a new one."""
    global _running
    if _running is not None:
        _running.close()
        _running = None


def _start_anew_in_child() -> None:
    """After a fork the child has neither the worker nor the thread that may hold the lock."""
    global _lock, _running
    _lock = threading.Lock()
    if _running is not None:
        _running.forget()
        _running.process.returncode = 0  # it is no child of this process: nothing to wait for, nothing to warn of
        _running = None


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
