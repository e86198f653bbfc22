"""Runs inside a worker process: searches texts with a regular expression, each within a limit of processor time.

Standard library only, no import of evalframe. A request is ``{"pattern", "flags", "group", "last", "seconds",
"careful", "texts"}``, answered by messages ``{"results": [[word, answer], ...]}`` until every text has its result, in
order. A word is ``ok``, ``no_match``, ``group_unset`` (the group took no part in the match), ``time_limit`` or
``memory_limit``. ``careful``: no result waits for the next text.

Two timers: the first raises inside the match, between two of its steps. Some matches never come to such a point; the
second, which the system counts, then ends the process, and the parent goes on without that text.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import signal
import sys
import time
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

FLAGS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": re.U, "a": re.A}
MEMORY_BYTES = 1024 * 1024 * 1024
SECONDS_BETWEEN_MESSAGES = 0.02


class _OverTime(Exception):
    pass


class _Clock:
    """The two timers around one match."""

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


def search(pattern: re.Pattern[str], text: str, *, group: int | str, last: bool) -> list[str | None]:
    r"""Give the word and the answer for one text; no limit here.

    >>> search(re.compile(r"(\d+)"), "1 and 22", group=1, last=True)
    ['ok', '22']
    """
    found = None
    if last:
        for match in pattern.finditer(text):
            found = match
    else:
        found = pattern.search(text)
    if found is None:
        return ["no_match", None]
    answer = found[group]
    return ["group_unset", None] if answer is None else ["ok", answer]


def limited(clock: _Clock, seconds: float, pattern: re.Pattern[str], text: str, **how: Any) -> list[str | None]:
    """Search one text within the limits of time and memory."""
    try:
        clock.start(seconds)
        try:
            return search(pattern, text, **how)
        finally:
            clock.stop()
    except _OverTime:
        return ["time_limit", None]
    except (MemoryError, RecursionError):
        return ["memory_limit", None]


def serve(source: Any, sink: Any, protocol: Any) -> None:
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
        results: list[list[str | None]] = []
        sent_at = time.monotonic()
        for text in request["texts"]:
            how = {"group": request["group"], "last": request["last"]}
            results.append(limited(clock, request["seconds"], pattern, text, **how))
            if request["careful"] or time.monotonic() - sent_at > SECONDS_BETWEEN_MESSAGES:
                protocol.write_message(sink, {"results": results})
                results, sent_at = [], time.monotonic()
        if results:
            protocol.write_message(sink, {"results": results})


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
