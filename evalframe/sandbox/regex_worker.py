"""Runs inside a worker process: searches texts with a regular expression, each within a limit of processor time.

Standard library only, no import of evalframe. A request is a message ``{"pattern", "flags", "group", "last",
"seconds", "careful", "texts"}`` (``texts``: how many), then the size of each text in bytes (four bytes each), then the
texts in UTF-8, one behind the other. It is answered by three numbers a text (four bytes each), in order: an index of
``WORDS``, and where the answer begins and ends, in characters. ``careful``: no result waits for the next text.

Two timers: the first raises inside the match, between two of its steps. Some matches never come to such a point; the
second, which the system counts, then ends the process, and the parent goes on without that text. The timers are set
once for many texts; when the first one rings, the text that was being searched is searched again with all of the time.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import re
import signal
import sys
import time
import warnings
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

FLAGS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": re.U, "a": re.A}
# group_unset: the group took no part in the match
WORDS = ("ok", "no_match", "group_unset", "time_limit", "memory_limit")
INTEGER = "i"  # of an array: four bytes, in the order of this machine
NUMBERS_PER_TEXT = 3
MEMORY_BYTES = 1024 * 1024 * 1024
SECONDS_BETWEEN_ANSWERS = 0.02

OK, NO_MATCH, GROUP_UNSET, TIME_LIMIT, MEMORY_LIMIT = range(len(WORDS))


class _OverTime(Exception):
    pass


class _Clock:
    """The two timers around matches."""

    def __init__(self) -> None:
        self._runs = False
        signal.signal(signal.SIGPROF, self._ring)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)  # ends the process

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._runs:  # a signal may come in after the match is over
            raise _OverTime

    def start(self, seconds: float) -> None:
        self._runs = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 2 * seconds + 0.25)
        signal.setitimer(signal.ITIMER_PROF, seconds)

    def stop(self) -> None:
        self._runs = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def search(pattern: re.Pattern[str], group: int | str, last: bool, text: str) -> tuple[int, int, int]:
    r"""Give the three numbers for one text; no limit here.

    >>> search(re.compile(r"(\d+)"), 1, True, "1 and 22")
    (0, 6, 8)
    """
    found = None
    if last:
        for match in pattern.finditer(text):
            found = match
    else:
        found = pattern.search(text)
    if found is None:
        return NO_MATCH, 0, 0
    start, end = found.span(group)
    return (GROUP_UNSET, 0, 0) if start < 0 else (OK, start, end)


def search_until(
    moment: float, texts: Iterator[str], find: Callable[[str], tuple[int, int, int]], *, clock: _Clock, seconds: float
) -> list[tuple[int, int, int]]:
    """Search texts until a moment has passed, at least the first one; give the numbers of those that were searched."""
    found: list[tuple[int, int, int]] = []
    try:
        try:
            clock.start(seconds)
            for text in texts:
                found.append(find(text))
                if time.monotonic() > moment:
                    break
        finally:
            clock.stop()
    except _OverTime:
        clock.stop()  # it may have rung while it was stopped
        if not found:  # the first one had all of the time
            return [(TIME_LIMIT, 0, 0)]
    except (MemoryError, RecursionError):
        found.append((MEMORY_LIMIT, 0, 0))
    return found


def serve(source: BinaryIO, sink: BinaryIO, protocol: Any) -> None:
    """Answer requests until the other side closes its end."""
    clock = _Clock()
    protocol.write_message(sink, {"ready": True})
    while True:
        try:
            request = protocol.read_message(source)
        except protocol.ProtocolError:
            return
        flags = 0
        for letter in request["flags"]:
            flags |= FLAGS[letter]
        pattern = re.compile(request["pattern"], flags)
        find = functools.partial(search, pattern, request["group"], request["last"])
        texts = read_texts(source, request["texts"])
        done = 0
        while done < len(texts):
            moment = 0.0 if request["careful"] else time.monotonic() + SECONDS_BETWEEN_ANSWERS
            found = search_until(
                moment, itertools.islice(texts, done, None), find, clock=clock, seconds=request["seconds"]
            )
            done += len(found)
            sink.write(array(INTEGER, itertools.chain.from_iterable(found)).tobytes())
            sink.flush()


def read_texts(source: BinaryIO, count: int) -> list[str]:
    """Read the sizes and the texts of a request."""
    sizes: array[int] = array(INTEGER)
    sizes.frombytes(source.read(count * sizes.itemsize))
    body = memoryview(source.read(sum(sizes)))
    ends = itertools.accumulate(sizes)
    return [str(body[end - size : end], "utf-8") for size, end in zip(sizes, ends, strict=True)]


def main() -> None:
    """Serve on standard input and output."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it is over
    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limit on this system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    spec = importlib.util.spec_from_file_location("protocol", Path(__file__).with_name("protocol.py"))
    assert spec is not None
    assert spec.loader is not None
    protocol = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(protocol)
    serve(sys.stdin.buffer, sys.stdout.buffer, protocol)


if __name__ == "__main__":
    main()
