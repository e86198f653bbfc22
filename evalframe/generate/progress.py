"""Showing how far the calls are: a bar on a terminal, a widget in a notebook, sparse lines in a log, or nothing."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, TextIO

QUIET_SECONDS = 2.0  # no two lines of a log come faster
LINE_SECONDS = 30.0  # between two lines of a log
LINE_SHARE = 10  # lines of a log for the whole run, if they come slower than that


class Progress:
    """Counts finished calls and shows them. Safe to use from several threads; a context manager.

    Args:
        total: Calls to make.
        show: False shows nothing.
        stream: Where lines and bars go; default: standard error.
        clock: Seconds that only go up, for the pace of the lines.
    """

    def __init__(
        self,
        total: int,
        *,
        show: bool = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self._lock = threading.Lock()
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._show = show and total > 0
        self._bar = _bar(total, self._stream) if self._show else None
        self._began = self._last_time = clock()
        self._last_step = 0

    def add(self, n: int, *, failed: int = 0) -> None:
        """Count calls that are finished and committed."""
        with self._lock:
            self.done += n
            self.failed += failed
            if self._bar is not None:
                if failed:
                    self._bar.set_postfix_str(f"{self.failed} failed", refresh=False)
                self._bar.update(n)
            elif self._show:
                self._maybe_line()

    def say(self, text: str) -> None:
        """Show one line between the others."""
        with self._lock:
            if self._bar is not None:
                self._bar.clear()
            if self._show:
                print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Take the bar off; what it last showed stays."""
        with self._lock:
            if self._bar is not None:
                self._bar.close()
            self._show = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _maybe_line(self) -> None:
        now, step = self._clock(), self.done * LINE_SHARE // self.total
        waited = now - self._last_time
        if self.done < self.total and (waited < QUIET_SECONDS or (step == self._last_step and waited < LINE_SECONDS)):
            return
        self._last_time, self._last_step = now, step
        spent = now - self._began
        rate = f", {self.done / spent:.1f} a second" if spent > 0 else ""
        failed = f", {self.failed} failed" if self.failed else ""
        percent = 100 * self.done // self.total
        print(f"{self.done}/{self.total} calls ({percent} %){rate}{failed}", file=self._stream, flush=True)


def _bar(total: int, stream: TextIO) -> Any:
    """Make the bar of a terminal or the widget of a notebook; None for any other stream."""
    notebook = _in_notebook()
    if not notebook and not stream.isatty():
        return None
    if notebook:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm says so where there are no widgets, and shows text
            from tqdm.auto import tqdm
    else:
        from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread of its own that outlives the run

    Bar.set_lock(threading.RLock())  # on this class alone; the usual one opens a semaphore of the system
    return Bar(total=total, unit="call", file=stream, dynamic_ncols=not notebook, smoothing=0.1)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")
