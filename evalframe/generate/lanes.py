"""A lane is one model's queue; its workers take calls from it, make them and record what became of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from evalframe.adapters import CallFailed, ModelAdapter, TaskSpec
from evalframe.generate.finished import Finished
from evalframe.generate.journal import Journal
from evalframe.generate.outcomes import Attempt, Judge
from evalframe.generate.progress import Progress

STOPPING = "interrupted: no further call begins; those in flight are waited for (Ctrl-C again: they are not)"
# a signal that comes just before a wait without end is not seen until that ends; so waits are short
JOIN_SECONDS = 0.2
BEGIN_SECONDS = 0.5  # that an interrupted start is given: it may have made a thread, which can not be joined before


@dataclass(slots=True, eq=False)
class Lane:
    """The calls of one model.

    Attributes:
        adapter: What is called.
        judge: What turns outcomes into records.
        specs: The calls still to make, in order.
        n_calls: How many there are.
        n_workers: Threads at most.
        batch_size: Calls in one request; None: the adapter takes one at a time.
        timeout_seconds: Of one attempt; None: no limit.
        monotonic, now: Clocks.
        n_finished: Calls that are committed.
    """

    adapter: ModelAdapter
    judge: Judge
    specs: Iterator[TaskSpec]
    n_calls: int
    n_workers: int
    batch_size: int | None
    timeout_seconds: float | None
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    n_finished: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def threads(self) -> int:
        """How many workers have something to do."""
        return min(self.n_workers, -(-self.n_calls // (self.batch_size or 1)))

    def take(self) -> list[TaskSpec]:
        """Give the next call, or the next batch; nothing where all are taken."""
        with self.lock:
            return list(islice(self.specs, self.batch_size or 1))

    def attempt(self, tasks: Sequence[TaskSpec]) -> list[Finished]:
        """Make one request and give a record a call."""
        started_at, began = self.now(), self.monotonic()
        if self.timeout_seconds is not None:  # the clock starts when a call is made, not when it is queued
            tasks = [replace(task, deadline=began + self.timeout_seconds) for task in tasks]
        outcomes = self._outcomes(tasks)
        attempt = Attempt(started_at, max(0.0, self.monotonic() - began))
        return [self.judge.finish(task, outcome, attempt) for task, outcome in zip(tasks, outcomes, strict=True)]

    def _outcomes(self, tasks: Sequence[TaskSpec]) -> Sequence[object]:
        """Call the adapter; what it raises is the outcome, so that no call can end a run."""
        adapter: Any = self.adapter
        try:
            if self.batch_size is None:
                return [adapter.generate(task.prompt, task) for task in tasks]
            replies = adapter.generate_batch([task.prompt for task in tasks], list(tasks))
        except BaseException as error:  # SystemExit and panics of native code too
            return [error] * len(tasks)
        if isinstance(replies, list | tuple) and len(replies) == len(tasks):
            return replies
        number = f"{len(replies)} replies" if isinstance(replies, list | tuple) else f"a {type(replies).__name__}"
        return [CallFailed("bad_reply", f"generate_batch gave {number} for {len(tasks)} prompts")] * len(tasks)

    def finish(self, finished: Sequence[Finished], journal: Journal, progress: Progress) -> None:
        """Commit the records, then count them."""
        journal.record(finished)
        with self.lock:
            self.n_finished += len(finished)
        progress.add(len(finished), failed=sum(call.status == "failed" for call in finished))


def run_in_order(
    lanes: Sequence[Lane], *, journal: Journal, progress: Progress, stop: threading.Event, bound: int
) -> KeyboardInterrupt | None:
    """Make all calls one by one, lane after lane; gives the interrupt that ended it, if any.

    One worker makes them, and not the calling thread: an interrupt would break off the call in flight there.
    """
    crew = _Crew(journal, progress, stop, threading.BoundedSemaphore(1))

    def work() -> None:
        for lane in lanes:
            crew.work(lane)

    return crew.run([threading.Thread(target=work, name="evalframe in order")])


def run_in_threads(
    lanes: Sequence[Lane], *, journal: Journal, progress: Progress, stop: threading.Event, bound: int
) -> KeyboardInterrupt | None:
    """Make the calls of all lanes at once, at most ``bound`` in flight; gives the interrupt that ended it, if any."""
    crew = _Crew(journal, progress, stop, threading.BoundedSemaphore(bound))
    return crew.run(
        [
            threading.Thread(target=crew.work, args=(lane,), name=f"evalframe {lane.judge.model_id} {number}")
            for number in range(max((lane.threads for lane in lanes), default=0))  # a worker of each lane first
            for lane in lanes
            if number < lane.threads
        ]
    )


def _join(threads: Sequence[threading.Thread], halt: threading.Event, progress: Progress) -> KeyboardInterrupt | None:
    """Wait for the workers; an interrupt lets no further call begin, and those in flight are waited for."""
    interrupt: KeyboardInterrupt | None = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join(JOIN_SECONDS)
            except KeyboardInterrupt as error:
                if interrupt is not None:
                    raise
                interrupt = error
                halt.set()
                progress.say(STOPPING)
    return interrupt


class _Crew:
    """What the workers of all lanes share."""

    def __init__(
        self, journal: Journal, progress: Progress, stop: threading.Event, bound: threading.BoundedSemaphore
    ) -> None:
        self.journal = journal
        self.progress = progress
        self.stop = stop  # the caller's wish
        self.halt = threading.Event()  # an interrupt, or an error of ours
        self.begun = threading.Semaphore(0)  # released by each worker at its beginning
        self.bound = bound
        self.error: BaseException | None = None

    def run(self, threads: Sequence[threading.Thread]) -> KeyboardInterrupt | None:
        """Start the workers and wait for them; gives the interrupt that ended the run, if any.

        All threads have ended when this returns or raises. An error of ours (the journal can not be written) stops the
        calls and is raised.
        """
        started: list[threading.Thread] = []
        interrupt: KeyboardInterrupt | None = None
        try:
            for thread in threads:
                started.append(thread)  # before its start, which an interrupt may cut short
                thread.start()
        except KeyboardInterrupt as error:
            interrupt = error
            self.halt.set()
            self.progress.say(STOPPING)
            for _ in started:
                if not self.begun.acquire(timeout=BEGIN_SECONDS):
                    break  # the interrupt came before the thread was made
        except BaseException:
            self.halt.set()
            _join(started, self.halt, self.progress)
            raise
        interrupt = _join(started, self.halt, self.progress) or interrupt
        if self.error is not None:
            raise self.error
        return interrupt

    def _ended(self) -> bool:
        return self.halt.is_set() or self.stop.is_set()

    def work(self, lane: Lane) -> None:
        """Make calls until there are none, or the run is stopped."""
        self.begun.release()
        try:
            while not self._ended() and (tasks := lane.take()):
                with self.bound:  # held while an attempt is in flight, and never longer
                    if self._ended():
                        return
                    finished = lane.attempt(tasks)
                lane.finish(finished, self.journal, self.progress)
        except BaseException as error:
            self.error = self.error or error
            self.halt.set()
