"""Foreign functions, of graders and preprocessors: one source in warm workers, called many times.

The source is compiled once in each worker and run anew in a fresh module at the start of each chunk of calls. Chunks
are cut by position, so that neither the number of workers nor their speed changes what a function's globals hold.
One loop, in the caller's thread, serves all workers; only what ``ctx`` asks for is fetched in threads.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self

from evalframe.errors import SandboxError
from evalframe.sandbox.asking import Asking
from evalframe.sandbox.foreign import (
    Bridge,
    BridgeError,
    Broken,
    Call,
    ForeignSource,
    Outcome,
    Raised,
    Returned,
    SourceError,
    TimedOut,
    chunks_of,
)  # fmt: skip
from evalframe.sandbox.function_process import FunctionProcess, installed_paths
from evalframe.sandbox.lane import Lane, NoAnswer
from evalframe.sandbox.launch import tasks_of_the_user
from evalframe.sandbox.policy import Policy, require_walls

RETURNED_BYTES = 10_000_000
MEMORY_BYTES = 4 * 1024**3
LOAD_SECONDS = 120.0
_AHEAD = 256  # calls a worker that may be done before the first that is not
_OPEN_FILES = 256
_THREADS = 256  # a worker; where no wall refuses processes, those count too
_START_SECONDS = 120.0  # a machine under load may need long to start an interpreter; it is nobody's fault

__all__ = [
    "Bridge", "BridgeError", "Broken", "Call", "ForeignSource", "FunctionPool", "Outcome", "Raised", "Returned",
    "SourceError", "TimedOut",
]  # fmt: skip


class FunctionPool:
    """Warm workers for one foreign source. A context manager: on leaving all that came of it is ended.

    Args:
        source: The code and its functions.
        policy: What it may use; see ``require_walls``.
        n_workers: Processes at once, 1 or more; they start when there are calls for them.
        memory_bytes: Address space of each.
        load_seconds: How long the source may take to run, imports included, before any call.
        returned_bytes: Of one returned value as JSON.

    Raises:
        SandboxError: The policy asks for walls that are not there, or does not allow to go on without; Windows.
    """

    def __init__(
        self, source: ForeignSource, *, policy: Policy, n_workers: int, memory_bytes: int = MEMORY_BYTES,
        load_seconds: float = LOAD_SECONDS, returned_bytes: int = RETURNED_BYTES,
    ) -> None:  # fmt: skip
        require_walls(policy, what=source.name)
        self._source, self._n_workers = source, max(1, n_workers)
        self._load_seconds, self._returned_bytes = load_seconds, returned_bytes
        self._rlimits = {
            "AS": memory_bytes, "FSIZE": policy.limits.code_file_bytes, "NOFILE": _OPEN_FILES, "CORE": 0,
            "NPROC": tasks_of_the_user() + _THREADS * self._n_workers,
        }  # fmt: skip
        self._paths = installed_paths()
        self._lanes: list[Lane] = []
        self._signature: tuple[str, int] | None = None
        self._selector = selectors.DefaultSelector()
        self._asking = Asking(at_once=self._n_workers)
        self._selector.register(self._asking, selectors.EVENT_READ, None)
        self._outcomes: dict[int, Outcome] = {}
        self._chunks: deque[deque[tuple[int, Call]]] = deque()
        self._serves = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers and wait for what they asked for."""
        while self._lanes:
            self._end(self._lanes[-1])
        self._asking.close()
        self._selector.close()

    def signature(self) -> tuple[str, int]:
        """Give the name of the function that is there, and how many positional arguments it takes.

        The first of the source's functions that is defined counts. Parameters with a default are left out, but for
        one named ``ctx``; 255: any number.

        Raises:
            SourceError: The source does not compile, fails when it is run, or has none of the functions.
        """
        with self._alone():
            if self._signature is None and not self._lanes:
                self._start()
            while self._signature is None:
                self._turn()
        return self._signature

    def map(self, calls: Iterable[Call]) -> Iterator[Outcome]:
        """Call the function for each; outcomes come in the order of the calls.

        A call that ends its worker or is over its time costs itself only. Calls are taken as they are needed; while
        the outcomes are not asked for, no clock runs out.

        Raises:
            SourceError: As ``signature``.
            SandboxError: A worker does not start.
            TypeError: The arguments of a call are no plain JSON.
        """
        with self._alone():
            try:
                yield from self._map(chunks_of(calls))
            finally:
                self._chunks.clear()
                self._outcomes.clear()
                for lane in [lane for lane in self._lanes if lane.is_busy]:
                    self._end(lane)

    def _map(self, chunks: Iterator[deque[tuple[int, Call]]]) -> Iterator[Outcome]:
        place = 0
        while True:
            if len(self._outcomes) < _AHEAD * self._n_workers:
                self._chunks += islice(chunks, max(0, self._n_workers - len(self._chunks)))
            self._hand_out()
            held = time.monotonic()
            while place in self._outcomes:
                yield self._outcomes.pop(place)
                place += 1
            self._forgive(time.monotonic() - held)
            if not self._chunks and not any(lane.is_busy for lane in self._lanes) and not self._outcomes:
                return
            if place not in self._outcomes:
                self._turn()

    def _hand_out(self) -> None:
        for lane in self._lanes:
            if self._chunks and lane.is_idle:
                lane.take(self._chunks.popleft())
        if self._signature is None and self._lanes:
            return  # the first one tells whether the source can be used at all
        starting = sum(lane.signature is None for lane in self._lanes)
        for _ in range(min(len(self._chunks) - starting, self._n_workers - len(self._lanes))):
            self._start()
            if self._signature is None:
                return

    def _start(self) -> None:
        process = FunctionProcess(
            self._source, paths=self._paths, rlimits=self._rlimits, returned_bytes=self._returned_bytes
        )
        lane = Lane(
            process,
            self._source,
            load_seconds=self._load_seconds,
            returned_bytes=self._returned_bytes,
            start_seconds=_START_SECONDS,
        )
        self._lanes.append(lane)
        self._selector.register(process.control, selectors.EVENT_READ, lane)

    def _end(self, lane: Lane, *, by_itself: bool = False) -> str:
        self._lanes.remove(lane)
        self._selector.unregister(lane.process.control)
        return lane.process.end(by_itself=by_itself)

    def _turn(self) -> None:
        """Wait until something happens, and take what came."""
        for lane in self._lanes:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if lane.process.has_more_to_send else 0)
            if self._selector.get_key(lane.process.control).events != wanted:
                self._selector.modify(lane.process.control, wanted, lane)
        moment = min((lane.moment for lane in self._lanes), default=0.0)
        wait = None if moment == math.inf else max(0.0, moment - time.monotonic())
        for key, events in self._selector.select(wait):
            if key.data is None:
                self._asking.deliver()
                continue
            if events & selectors.EVENT_WRITE:
                key.data.process.flush()
            if events & selectors.EVENT_READ:
                self._hear(key.data)
        now = time.monotonic()
        for lane in [lane for lane in self._lanes if lane.moment <= now]:
            self._hear(lane)  # it may have been in time, and this loop late
            if lane in self._lanes and lane.moment <= now:
                self._over_time(lane)

    def _hear(self, lane: Lane) -> None:
        for message in lane.process.receive():
            try:
                done = lane.understand(message, self._asking)
            except SourceError as error:
                self._lose(lane, Raised(error.error_type, error.detail, error.traceback), error)
                return
            except NoAnswer:
                self._senseless(lane)
                return
            self._signature = self._signature or lane.signature
            if done is not None:
                self._outcomes[done[0]] = done[1]
            if lane.is_spent:
                self._give_back(lane.rest())
                self._end(lane)
                return
        if lane.process.state == "faulty":
            self._senseless(lane)
        elif lane.process.state == "ended":
            self._gone(lane)

    def _senseless(self, lane: Lane) -> None:
        reason = "its process sent what is no answer to the call"
        self._lose(lane, Broken(reason), self._unfit("ProtocolError", reason))

    def _gone(self, lane: Lane) -> None:
        if not lane.is_up:
            raise self._not_started(lane)
        said = lane.process.said()
        how = self._end(lane, by_itself=True)
        last = f": {said.splitlines()[-1][:200]}" if said and how.startswith("exit") else ""
        reason = f"its process ended ({how or 'it closed its channel'}){last}"
        self._lose(lane, Broken(reason), self._unfit("ProcessEnded", reason, said))

    def _over_time(self, lane: Lane) -> None:
        if not lane.is_up:
            raise self._not_started(lane)
        reason = f"running it took over {self._load_seconds:g} s"
        self._lose(lane, lane.over_time(), self._unfit("TimedOut", reason))

    def _not_started(self, lane: Lane) -> SandboxError:
        said = lane.process.said()
        self._end(lane)
        return SandboxError(f"a sandbox worker did not start: {said or 'it said nothing'}")

    def _unfit(self, error_type: str, detail: str, said: str = "") -> SourceError:
        return SourceError(
            self._source.name, rule="fails_at_load", error_type=error_type, detail=detail, traceback=said
        )

    def _lose(self, lane: Lane, outcome: Outcome, error: SourceError) -> None:
        """Go on without a worker; the call that it was at gets the outcome.

        Raises:
            SourceError: The source has never been loaded.
        """
        rest = lane.rest()
        if lane in self._lanes:
            self._end(lane)
        if self._signature is None:
            raise error
        if not rest and not lane.signature and self._chunks:
            rest = self._chunks.popleft()  # a start that fails costs the call that it was for, so that it ends
        if rest:
            place, _ = rest.popleft()
            self._outcomes[place] = outcome
        self._give_back(rest)

    def _give_back(self, rest: deque[tuple[int, Call]]) -> None:
        if rest:
            self._chunks.appendleft(rest)

    def _forgive(self, seconds: float) -> None:
        for lane in self._lanes:
            lane.moment += seconds

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if self._serves:
            raise RuntimeError("this pool is in use: read the outcomes of one map to their end, or close it, first")
        self._serves = True
        try:
            yield
        finally:
            self._serves = False
