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
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.errors import SandboxError
from evalframe.limits import DEFAULT_LIMITS
from evalframe.sandbox import protocol, regex_worker
from evalframe.sandbox.regex_worker import INTEGER, NUMBERS_PER_TEXT, OK, TIME_LIMIT

FOUND: dict[str, pl.DataType | type[pl.DataType]] = {"word": pl.UInt8, "answer": pl.String}

Numbers = NDArray[np.int32]

_RESULT_BYTES = NUMBERS_PER_TEXT * array(INTEGER).itemsize
_OVER_TIME = array(INTEGER, [TIME_LIMIT, 0, 0]).tobytes()
_BATCH_TEXTS = 4_000
_BATCH_BYTES = 2 * 1024 * 1024
_HELLO_BYTES = 1024
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


def search_all(texts: pl.Series, search: Search) -> pl.DataFrame:
    """Search every text, in order.

    Args:
        texts: String, without nulls.
        search: What is looked for.

    Returns:
        ``word``, an index of ``regex_worker.WORDS``, and ``answer``, null but where the word is ``ok``.

    Raises:
        SandboxError: The worker process can not be started.
    """
    numbers = np.empty((0, NUMBERS_PER_TEXT), dtype=INTEGER)
    if len(texts):
        with _lock:
            numbers = np.concatenate([_search_batch(batch, search) for batch in _batches(texts)])
    word, start, end = (pl.Series(np.ascontiguousarray(column)) for column in numbers.T)
    spans = pl.DataFrame({"text": texts, "word": word, "start": start, "chars": end - start})
    is_ok = pl.col("word") == OK
    return spans.select(
        pl.col("word").cast(FOUND["word"]),
        answer=pl.when(is_ok).then(pl.col("text").str.slice("start", "chars")),
    )


def _batches(texts: pl.Series) -> Iterator[pl.Series]:
    ends = texts.str.len_bytes().cast(pl.Int64).cum_sum().to_numpy()
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        fitting = int(np.searchsorted(ends, before + _BATCH_BYTES, side="right"))
        following = min(max(fitting, first + 1), first + _BATCH_TEXTS)
        yield texts[first:following]
        first = following


def _search_batch(batch: pl.Series, search: Search) -> Numbers:
    """Send a batch; where the worker ends in the middle, find the text that ended it and go on behind it."""
    got = b""
    careful = False
    while (done := len(got) // _RESULT_BYTES) < len(batch):
        answer = _worker().ask(batch[done:], search, careful=careful)
        got += answer
        complete = len(answer) == (len(batch) - done) * _RESULT_BYTES
        if not complete and careful:  # every earlier text of the batch has its result: it was this one
            got += _OVER_TIME
        careful = not complete or careful
    return np.frombuffer(got, dtype=INTEGER).reshape(-1, NUMBERS_PER_TEXT)


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
        if (hello := self._hello()) != {"ready": True}:
            self.close()
            raise SandboxError(
                f"the worker for regular expressions does not answer (it said {hello!r}, exit status "
                f"{self.process.returncode}); see that {' '.join(command)} runs"
            )

    def ask(self, texts: pl.Series, search: Search, *, careful: bool) -> bytes:
        """Search texts and give their results, whole ones; fewer where the worker ended before it was through."""
        request = {
            "pattern": search.pattern, "flags": search.flags, "group": search.group, "last": search.last,
            "seconds": search.seconds, "careful": careful, "texts": len(texts),
        }  # fmt: skip
        stream = self.process.stdin
        assert stream is not None
        got = b""
        try:
            with contextlib.suppress(OSError):  # it has ended
                protocol.write_message(stream, request)  # type: ignore[arg-type]
                _write(stream, texts.str.len_bytes().cast(pl.Int32).to_numpy().tobytes())
                _write(stream, texts.str.join("").item().encode())
            while len(got) < len(texts) * _RESULT_BYTES:
                if not (piece := self._piece(_SILENCE_SECONDS + 4 * search.seconds)):
                    break
                got += piece
        finally:
            if len(got) < len(texts) * _RESULT_BYTES:  # also after an interrupt: no later request may get these results
                self.close()
        return got[: len(got) // _RESULT_BYTES * _RESULT_BYTES]

    def _piece(self, seconds: float) -> bytes:
        """Wait for bytes; none where the worker has ended or says nothing for too long."""
        stream = self.process.stdout
        assert stream is not None
        ready, _, _ = select.select([stream], [], [], seconds)
        return os.read(stream.fileno(), 1 << 20) if ready else b""

    def _hello(self) -> Any:
        buffer = protocol.MessageBuffer(max_bytes=_HELLO_BYTES)
        while piece := self._piece(_SILENCE_SECONDS):
            try:
                if messages := buffer.feed(piece):
                    return messages[0]
            except protocol.ProtocolError:
                return piece
        return None

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


def _write(stream: IO[bytes], content: bytes) -> None:
    """Write all of it: a pipe without a buffer may take a part."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]


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
