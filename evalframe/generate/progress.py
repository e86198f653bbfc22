"""Showing how far a run is: a bar on a terminal, a widget in a notebook, sparse lines in a log, or nothing."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from evalframe.generate.finished import Finished
from evalframe.reprs import dollars

DRAW_SECONDS = 0.1  # between two pictures of a bar
QUIET_SECONDS = 2.0  # no two lines of a log come faster
LINE_SECONDS = 30.0  # between two lines of a log
LINE_SHARE = 10  # lines of a log for the whole run, if they come slower than that
RATE_SECONDS = 30.0  # that the rate looks back, or as long as so many calls took:
RATE_CALLS = 20
TURN_SECONDS = 5.0  # at another pace altogether, after which what was before counts no more:
TURN_FACTOR = 3.0
LEFT_FROM_SECONDS = 5.0  # before, and before the first calls in flight are back, nobody knows how long it takes
LEFT_FROM_CALLS = 5
LONG_STAGE = 1_000  # calls; a shorter one is over before its line is read

_BAR = "{desc}{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


class Progress:
    """Counts calls and shows them. Safe to use from several threads; a context manager.

    What is shown: calls done, the rate of late, the time that is left, calls in flight, failed, skipped, retried, taken
    from the cache, and the tokens and dollars that were paid for; ``+`` where some cost is not known.

    Args:
        total: Calls to make.
        show: False shows nothing.
        stream: Where lines and bars go; default: standard error.
        clock: Seconds that only go up, for the pace.
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
        self.done = self.failed = self.skipped = self.cached = self.in_flight = self.retries = self.tokens = 0
        self.spent_usd = 0.0
        self._n_priced = self._n_unpriced = self._most_in_flight = 0
        self._counting = threading.Lock()
        self._drawing = (
            threading.RLock()
        )  # an interrupt while the calling thread draws must not lock out its last words
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._show = show and total > 0
        self._bar = _bar(total, self._stream, unit="call", format=_BAR) if self._show else None
        self._began = self._last_time = self._last_draw = clock()
        self._last_step = 0
        self._all_told = False
        self._pace = _Pace(self._began)

    def sent(self, n: int = 1) -> None:
        """Count attempts that go out."""
        with self._counting:
            self.in_flight += n
            if self.in_flight > self._most_in_flight:
                self._most_in_flight = self.in_flight

    def returned(self, n: int = 1) -> None:
        """Count attempts that are back, with a reply or without."""
        with self._counting:
            self.in_flight -= n

    def retried(self, n: int = 1) -> None:
        """Count attempts that are to be made again."""
        with self._counting:
            self.retries += n

    def finish(self, calls: Sequence[Finished]) -> None:
        """Count calls that are finished and committed."""
        now = self._clock()
        with self._counting:
            self.done += len(calls)
            for call in calls:
                self._count(call)
            self._pace.look(now, self.done)
        self._show_at(now)

    def _count(self, call: Finished) -> None:
        if call.cached:
            self.cached += 1
            return
        if call.status == "failed":
            self.failed += 1
        elif call.status == "skipped":
            self.skipped += 1
        self.tokens += (call.input_tokens or 0) + (call.output_tokens or 0)
        if call.cost_usd is not None:
            self.spent_usd += call.cost_usd
            self._n_priced += 1
        elif call.status == "completed":
            self._n_unpriced += 1

    def tick(self) -> None:
        """Show how things are, if it is time to; cheap, and to be called while nothing happens, too."""
        self._show_at(self._clock())

    def _show_at(self, now: float) -> None:
        if not self._show:
            return
        if self._bar is not None:
            if now - self._last_draw < DRAW_SECONDS:
                return
        elif self._all_told or (self.done < self.total and now - self._last_time < QUIET_SECONDS):
            return
        if self._drawing.acquire(blocking=False):  # who counts does not wait for who draws
            try:
                self._draw(now)
            finally:
                self._drawing.release()

    def _draw(self, now: float) -> None:
        if self._bar is None:
            self._maybe_line(now)
        else:
            self._last_draw = now
            self._bar.n = self.done
            self._bar.set_postfix_str(", ".join(self._parts(now, brief=True)), refresh=False)
            self._bar.refresh(nolock=True)  # its own lock would stay locked if an interrupt came now

    def say(self, text: str) -> None:
        """Show one line between the others."""
        with self._drawing:
            if self._bar is not None:
                self._bar.clear(nolock=True)
            if self._show:
                print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Take the bar off; what it last showed stays."""
        with self._drawing:
            if self._show:
                self._draw(self._clock())
            if self._bar is not None:
                self._bar.close()
            self._show = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _maybe_line(self, now: float) -> None:
        step, ended = self.done * LINE_SHARE // self.total, self.done >= self.total
        if self._all_told or (not ended and step == self._last_step and now - self._last_time < LINE_SECONDS):
            return
        self._last_time, self._last_step, self._all_told = now, step, ended
        percent = 100 * self.done // self.total
        parts = [f"{self.done}/{self.total} calls ({percent} %)", *self._parts(now)]
        print(", ".join(parts), file=self._stream, flush=True)

    def _parts(self, now: float, *, brief: bool = False) -> list[str]:
        """Say everything there is to say beside how many calls are done."""
        parts = []
        rate = self._pace.rate(now, self.done)
        if rate is not None:
            number, unit = (rate, ("/s", " a second")) if rate >= 1 else (60 * rate, ("/min", " a minute"))
            parts.append(f"{number:.1f}{unit[0 if brief else 1]}")
            known = now - self._began >= LEFT_FROM_SECONDS and self.done >= max(LEFT_FROM_CALLS, self._most_in_flight)
            if known and self.done < self.total:
                parts.append(f"{interval((self.total - self.done) / rate)} left")
        counts = {
            "in flight": self.in_flight, "failed": self.failed, "skipped": self.skipped, "retried": self.retries,
            "cached": self.cached,
        }  # fmt: skip
        parts += [f"{n} {what}" for what, n in counts.items() if n]
        if self.tokens:
            parts.append(f"{compact(self.tokens)} tokens")
        if self._n_priced:
            parts.append(dollars(self.spent_usd) + ("+" if self._n_unpriced else ""))
        return parts


class _Pace:
    """How fast calls end: of late, so that a stall shows, but over enough of them to be steady."""

    def __init__(self, began: float) -> None:
        self._marks = deque([(began, 0)])

    def look(self, now: float, done: int) -> None:
        """Remember how many calls were done, about once a second."""
        marks = self._marks
        last, before = marks[-1]
        if now - last < 1 or done == before:
            return
        marks.append((now, done))
        while now - marks[1][0] >= RATE_SECONDS and done - marks[1][1] >= RATE_CALLS:
            marks.popleft()
        # a thousand cached replies at once, and then real calls: the first second says nothing of the rest
        since, before = next(
            (mark for mark in reversed(marks) if now - mark[0] >= TURN_SECONDS and done - mark[1] >= RATE_CALLS),
            marks[0],
        )
        of_late, of_all = (done - before) / (now - since), (done - marks[0][1]) / (now - marks[0][0])
        if not of_all / TURN_FACTOR <= of_late <= of_all * TURN_FACTOR:
            while marks[0][0] < since:
                marks.popleft()

    def rate(self, now: float, done: int) -> float | None:
        """Calls a second; None where nothing has ended, or no time has gone by."""
        since, before = self._marks[0]
        return (done - before) / (now - since) if now > since and done > before else None


class Stage:
    """Shows a stage before or after the calls, while it lasts: a bar that goes away again, or few lines in a log.

    Args:
        what: What is done, as in ``scoring``.
        total: Calls it is done to.
        unit: What it is done to, where that is no call.
        show: False shows nothing.
        stream: Where lines and bars go; default: standard error.
        clock: Seconds that only go up, for the pace of the lines.
    """

    def __init__(
        self,
        what: str,
        total: int,
        *,
        unit: str = "call",
        show: bool = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._total, self._unit, self._done = what, total, unit, 0
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._last_time = clock()
        self._show = show and total >= (1 if self._stream.isatty() else LONG_STAGE)
        self._bar = _bar(total, self._stream, unit=unit, desc=what, leave=False) if self._show else None
        if self._show and self._bar is None:
            print(f"{what} {total} {unit}s", file=self._stream, flush=True)

    def step(self, n: int) -> None:
        """Count what is through."""
        self._done += n
        now = self._clock()
        if self._bar is not None:
            self._bar.update(n)
        elif self._show and self._done < self._total and now - self._last_time >= LINE_SECONDS:
            self._last_time = now
            print(f"{self._what}: {self._done}/{self._total} {self._unit}s", file=self._stream, flush=True)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def interval(seconds: float) -> str:
    """Write a length of time for a person.

    >>> interval(75), interval(3_675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def compact(n: int) -> str:
    """Write a large count for a person.

    >>> compact(950), compact(12_345), compact(1_234_567)
    ('950', '12k', '1.2M')
    """
    if n < 10_000:
        return str(n)
    return f"{n / 1_000:.0f}k" if n < 999_500 else f"{n / 1_000_000:.1f}M"


def _bar(
    total: int, stream: TextIO, *, unit: str, format: str | None = None, desc: str = "", leave: bool = True
) -> Any:
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
    return Bar(
        total=total, unit=unit, file=stream, dynamic_ncols=not notebook, bar_format=format, desc=desc, leave=leave
    )


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")
