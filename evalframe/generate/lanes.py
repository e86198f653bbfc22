"""A lane is one model's queue; its workers take calls from it, make them and record what became of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from evalframe.adapters import TaskSpec
from evalframe.generate.attempts import Caller, Done
from evalframe.generate.giving_up import Patience
from evalframe.generate.journal import Journal
from evalframe.generate.ledger import Ledger
from evalframe.generate.memory import Memory
from evalframe.generate.progress import Progress
from evalframe.words import SkipReason

STOPPING = "interrupted: no further call begins; those in flight are waited for (Ctrl-C again: they are not)"
# a signal that comes just before a wait without end is not seen until that ends; so waits are short
JOIN_SECONDS = 0.2
BEGIN_SECONDS = 0.5  # that an interrupted start is given: it may have made a thread, which can not be joined before


@dataclass(slots=True, eq=False)
class Lane:
    """The calls of one model.

    Attributes:
        caller: What makes them.
        specs: The calls still to make, in order.
        n_calls: How many there are.
        n_workers: Threads at most.
        batch_size: Calls in one request; None: the adapter takes one at a time.
        patience: When the model is given up.
        memory: Replies that are known already; None: none are.
        preflight: Its first request is made alone, so that a wrong key or address costs one call.
        n_finished: Calls that are committed.
        opened: Set once the first request is back, or where nobody waits for it.
    """

    caller: Caller
    specs: Iterator[TaskSpec]
    n_calls: int
    n_workers: int
    batch_size: int | None
    patience: Patience
    memory: Memory | None = None
    preflight: bool = False
    n_finished: int = 0
    opened: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _led: bool = False

    @property
    def model_id(self) -> str:
        """The model's name in every frame."""
        return self.caller.judge.model_id

    @property
    def threads(self) -> int:
        """How many workers have something to do."""
        return min(self.n_workers, -(-self.n_calls // (self.batch_size or 1)))

    def take(self) -> list[TaskSpec]:
        """Give the next call, or the next batch; nothing where all are taken, or the model is given up."""
        if self.patience.given_up is not None:
            return []
        with self.lock:
            return list(islice(self.specs, self.batch_size or 1))

    def leads(self) -> bool:
        """Whether the worker that asks makes the first request; true for one of them."""
        if not self.preflight:
            self.opened.set()
        with self.lock:
            first, self._led = not self._led, True
        return first

    def call(self, tasks: Sequence[TaskSpec], crew: _Crew) -> list[Done]:
        """Answer what is known, and make the other calls."""
        workers = _Workers(crew, self.patience)
        if self.memory is None:
            return self.caller.call(tasks, workers)
        known = [done for task in tasks if (done := self.memory.recall(task, self.caller)) is not None]
        found = {id(done.task) for done in known}
        unknown = [task for task in tasks if id(task) not in found]
        return known + (self.caller.call(unknown, workers) if unknown else [])

    def finish(self, done: Sequence[Done], crew: _Crew) -> None:
        """Commit the records, then count them."""
        finished = [call.finished for call in done]
        crew.journal.record(finished)
        with self.lock:
            self.n_finished += len(finished)
        crew.ledger.add(finished)
        if self.memory is not None:
            for call in done:
                self.memory.keep(call)
        alone = self.preflight and not self.opened.is_set()
        if message := self.patience.count(done, preflight=alone):
            crew.progress.say(message)
        crew.progress.finish(finished)
        if any(call.finished.attempts for call in done):
            self.opened.set()


def run_in_order(
    lanes: Sequence[Lane],
    *,
    journal: Journal,
    progress: Progress,
    ledger: Ledger,
    stop: threading.Event,
    bound: int,
) -> KeyboardInterrupt | None:
    """Make all calls one by one, lane after lane; gives the interrupt that ended it, if any.

    One worker makes them, and not the calling thread: an interrupt would break off the call in flight there.
    """
    crew = _Crew(journal, progress, ledger, stop, None)

    def work() -> None:
        for lane in lanes:
            crew.work(lane)

    return crew.run([threading.Thread(target=work, name="evalframe in order", daemon=True)])


def run_in_threads(
    lanes: Sequence[Lane],
    *,
    journal: Journal,
    progress: Progress,
    ledger: Ledger,
    stop: threading.Event,
    bound: int,
) -> KeyboardInterrupt | None:
    """Make the calls of all lanes at once, at most ``bound`` in flight; gives the interrupt that ended it, if any."""
    holds = sum(lane.threads for lane in lanes) <= bound  # by the number of workers alone
    crew = _Crew(journal, progress, ledger, stop, None if holds else threading.BoundedSemaphore(bound))
    return crew.run(
        [
            threading.Thread(target=crew.work, args=(lane,), name=f"evalframe {lane.model_id} {number}", daemon=True)
            for number in range(max((lane.threads for lane in lanes), default=0))  # a worker of each lane first
            for lane in lanes
            if number < lane.threads
        ]
    )


class _Worker:
    """A thread, and what is set when it has done its work.

    ``Thread.join`` alone will not do: Python up to 3.12 takes a thread for ended as soon as an interrupt meets that.
    """

    def __init__(self, thread: threading.Thread) -> None:
        self.thread = thread
        self.done = threading.Event()
        self._run = thread.run
        thread.run = self._work  # type: ignore[method-assign]

    def _work(self) -> None:
        try:
            self._run()
        finally:
            self.done.set()

    def wait(self, tick: Callable[[], None]) -> None:
        """Wait until it has ended; at once where it never began."""
        while self.thread.ident is not None and not self.done.wait(JOIN_SECONDS):
            tick()  # time goes by where no call ends, too
        while self.thread.is_alive():
            self.thread.join(JOIN_SECONDS)


def _join(
    workers: Sequence[_Worker], halt: threading.Event, progress: Progress, interrupt: KeyboardInterrupt | None = None
) -> KeyboardInterrupt | None:
    """Wait for the workers; an interrupt lets no further call begin, and those in flight are waited for."""
    while True:
        try:
            for worker in workers:
                worker.wait(progress.tick)
        except KeyboardInterrupt as error:
            if interrupt is not None:
                raise
            interrupt = error
            halt.set()
            progress.say(STOPPING)
        else:
            return interrupt


class _Crew:
    """What the workers of all lanes share."""

    def __init__(
        self,
        journal: Journal,
        progress: Progress,
        ledger: Ledger,
        stop: threading.Event,
        bound: threading.BoundedSemaphore | None,
    ) -> None:
        self.journal = journal
        self.progress = progress
        self.ledger = ledger
        self.stop = stop  # the caller's wish
        self.halt = threading.Event()  # an interrupt, or an error of ours
        self.begun = threading.Semaphore(0)  # released by each worker at its beginning
        self.bound = bound
        self.error: BaseException | None = None

    def run(self, threads: Sequence[threading.Thread]) -> KeyboardInterrupt | None:
        """Start the workers and wait for them; gives the interrupt that ended the run, if any.

        All threads have ended when this returns or raises, but after a second interrupt: then those in flight are
        left behind, and hold up no process that ends (they are daemons). An error of ours (the journal can not be
        written) stops the calls and is raised.
        """
        workers = [_Worker(thread) for thread in threads]
        started: list[_Worker] = []
        interrupt: KeyboardInterrupt | None = None
        try:
            for worker in workers:
                started.append(worker)  # before its start, which an interrupt may cut short
                worker.thread.start()
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
        interrupt = _join(started, self.halt, self.progress, interrupt)
        if self.error is not None:
            raise self.error
        return interrupt

    def ended(self) -> bool:
        """Whether no further attempt may begin."""
        return self.halt.is_set() or self.stop.is_set()

    def acquire(self) -> None:
        """Take one of the places in flight."""
        if self.bound is not None:
            self.bound.acquire()

    def release(self) -> None:
        """Give it back."""
        if self.bound is not None:
            self.bound.release()

    def work(self, lane: Lane) -> None:
        """Make calls until there are none, the money is spent, or the run is stopped."""
        self.begun.release()
        try:
            if not lane.leads():
                while not lane.opened.wait(JOIN_SECONDS):
                    if self.ended():
                        return
            while not self.ended() and not self.ledger.exhausted and (tasks := lane.take()):
                if done := lane.call(tasks, self):
                    lane.finish(done, self)
        except BaseException as error:
            self.error = self.error or error
            self.halt.set()
        finally:
            lane.opened.set()


@dataclass(frozen=True, slots=True)
class _Workers:
    """The crew as the calls of one model see it: for them it ends, too, when the model is given up."""

    crew: _Crew
    patience: Patience

    @property
    def progress(self) -> Progress:
        return self.crew.progress

    def ended(self) -> bool:
        """Whether no further attempt may begin."""
        return self.crew.ended() or self.patience.given_up is not None

    def wait(self, seconds: float) -> bool:
        """Wait; false as soon as no further attempt may begin."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            # several things can end it: one is waited for, the others are looked at
            if self.crew.halt.wait(min(left, JOIN_SECONDS)) or self.ended():
                return False
        return not self.ended()

    def acquire(self) -> None:
        """Take one of the places in flight."""
        self.crew.acquire()

    def release(self) -> None:
        """Give it back."""
        self.crew.release()


def why_skipped(lane: Lane, ledger: Ledger, *, interrupted: str) -> tuple[SkipReason, str]:
    """Say why the calls of a lane that were not made were not: given up, out of money, or stopped."""
    if lane.patience.given_up is not None:
        return lane.patience.given_up
    if ledger.exhausted:
        return "cost_cap", f"max_cost_usd was reached: {ledger.spent_usd:.4f} dollars are spent; raise it and resume"
    return "interrupted", interrupted
