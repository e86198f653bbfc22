"""One call from its first attempt to what became of it: waits, retries, rate limits, empty replies.

A worker holds the run-wide bound only while an attempt is in flight; it waits without it. A call that an interrupt
meets while it waits is not made, unless a reply to it was paid for already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, Protocol

from evalframe.adapters import CallFailed, Generation, ModelAdapter, TaskSpec
from evalframe.generate.finished import Finished
from evalframe.generate.limiter import FULL_SECONDS, Limiter, Pace
from evalframe.generate.outcomes import NO_USAGE, Attempt, Judge, Usage
from evalframe.generate.progress import Progress
from evalframe.generate.retry import RetryPolicy, failure_of, is_empty

BYTES_PER_TOKEN = 4  # an estimate, corrected by what the server tells


class Crew(Protocol):
    """What a call needs of the run that it is part of."""

    @property
    def progress(self) -> Progress:
        """Where attempts are counted."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; false as soon as no further attempt may begin."""
        ...

    def ended(self) -> bool:
        """Whether no further attempt may begin."""
        ...

    def acquire(self) -> None:
        """Take one of the places in flight."""
        ...

    def release(self) -> None:
        """Give it back."""
        ...


@dataclass(slots=True, eq=False)
class Pending:
    """A call that is not finished yet."""

    task: TaskSpec
    attempts: int = 0
    retries: int = 0
    empties: int = 0
    waited_seconds: float = 0.0  # for rate limits
    pause_seconds: float = 0.0  # before the next attempt
    started_at: datetime | None = None
    latency_seconds: float = 0.0
    counted_tokens: float = 0.0  # that the pace took this request for
    outcome: object = None  # of the last attempt
    paid: Usage = NO_USAGE  # for replies before the last attempt: they were empty

    @property
    def is_paid(self) -> bool:
        """Whether a reply came to it, though an empty one: its tokens are to be counted."""
        return isinstance(self.outcome, Generation) or self.paid is not NO_USAGE


@dataclass(frozen=True, slots=True)
class Done:
    """A finished call, and what its last attempt gave: a reply as the adapter gave it, or an exception."""

    finished: Finished
    task: TaskSpec
    outcome: object = None


@dataclass(slots=True, eq=False, kw_only=True)
class Caller:
    """How one model is called.

    Attributes:
        adapter: The model.
        judge: What turns outcomes into records.
        policy: How often a call is tried again.
        limiter: Of the model's endpoint; None: there is none.
        pace: Its requests and tokens a minute.
        timeout_seconds: Of one attempt; None: no limit.
        batch: Requests hold several prompts.
        ask: In place of the adapter's own functions, for requests of another type; an outcome a call.
        monotonic, now: Clocks.
    """

    adapter: ModelAdapter
    judge: Judge
    policy: RetryPolicy
    pace: Pace
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    limiter: Limiter | None = None
    timeout_seconds: float | None = None
    batch: bool = False
    ask: Callable[[Sequence[TaskSpec]], Sequence[object]] | None = None
    _shut_until: float = field(init=False, default=-math.inf)  # of this model alone: a wait that no call waits for

    def call(self, tasks: Sequence[TaskSpec], crew: Crew) -> list[Done]:
        """Make calls, in one request where the adapter takes batches; gives those that are finished.

        A call that is not among them was not made, because the run was stopped.
        """
        done: list[Done] = []
        pending = [Pending(task) for task in tasks]
        while pending:
            ticket = self._enter(pending, crew)
            if ticket is None:
                return done + [self._finish(call) for call in pending if call.is_paid]
            if isinstance(ticket, CallFailed):
                for call in pending:
                    if not isinstance(call.outcome, Generation):  # an empty reply is better than none
                        call.outcome = ticket
                return done + [self._finish(call) for call in pending]
            self._attempt(pending, crew, ticket)
            again = [call for call in pending if self._tries_again(call)]
            done += [self._finish(call) for call in pending if call not in again]
            if again:
                crew.progress.retried(len(again))
            pending = again
        return done

    def _enter(self, pending: Sequence[Pending], crew: Crew) -> int | CallFailed | None:
        """Wait until an attempt may begin, then hold a place in flight.

        Gives the limiter's ticket; the failure of calls that would have to wait for too long; None: the run is
        stopped.
        """
        pause = max(call.pause_seconds for call in pending)
        if pause and not crew.wait(pause):
            return None
        has_place = self.pace.is_idle
        while not crew.ended():
            closed = self._closed_seconds()
            if closed:
                if closed > self.policy.max_rate_limit_wait_seconds - max(call.waited_seconds for call in pending):
                    return self._too_long(pending[0], closed)
                if not crew.wait(closed):
                    return None
                for call in pending:
                    call.waited_seconds += closed
                has_place = self.pace.is_idle  # its time went by: who waited must not come all at once
            elif not has_place:
                has_place = True
                pause = self._take_place(pending)
                if pause and not crew.wait(pause):
                    return None
            else:
                crew.acquire()
                ticket = self._ticket(crew)
                if ticket is not None:
                    return ticket
                crew.release()
                crew.wait(FULL_SECONDS)
        return None

    def _closed_seconds(self) -> float:
        if self.limiter is None:
            return 0.0
        return max(self.limiter.closed_seconds(), self._shut_until - self.monotonic())

    def _ticket(self, crew: Crew) -> int | None:
        if crew.ended():  # while it waited for a place in flight
            return None
        return 0 if self.limiter is None else self.limiter.enter()

    def _take_place(self, pending: Sequence[Pending]) -> float:
        n_bytes = sum(len(call.task.prompt.encode()) for call in pending)
        most = pending[0].task.generation.get("max_output_tokens")
        pause, counted = self.pace.reserve(
            input_tokens=n_bytes / BYTES_PER_TOKEN, max_output_tokens=None if most is None else most * len(pending)
        )
        pending[0].counted_tokens = counted
        return pause

    def _too_long(self, call: Pending, closed: float) -> CallFailed:
        said = call.outcome if isinstance(call.outcome, CallFailed) else "another call was told to wait"
        most = self.policy.max_rate_limit_wait_seconds
        message = f"{said}; a call waits at most max_rate_limit_wait_seconds = {most:g} s in all"
        return CallFailed("rate_limited", message, retry_after_seconds=closed, transient=False)

    def _attempt(self, pending: Sequence[Pending], crew: Crew, ticket: int) -> None:
        """Send one request, while a place in flight is held."""
        n = len(pending)
        try:
            crew.progress.sent(n)
            started_at, began = self.now(), self.monotonic()
            deadline = None if self.timeout_seconds is None else began + self.timeout_seconds
            outcomes = self._outcomes([_told(call.task, deadline) for call in pending])
            latency = max(0.0, self.monotonic() - began)
        finally:
            crew.release()
            crew.progress.returned(n)
        for call, outcome in zip(pending, outcomes, strict=True):
            if isinstance(call.outcome, Generation):
                call.paid = call.paid.plus(call.outcome)
            call.attempts += 1
            call.started_at = call.started_at or started_at
            call.latency_seconds = latency
            call.outcome = failure_of(outcome) if isinstance(outcome, BaseException) else outcome
        if not self.pace.is_idle and all(isinstance(call.outcome, Generation) for call in pending):
            used = NO_USAGE
            for call in pending:
                used = used.plus(call.outcome)
            self.pace.settle(
                pending[0].counted_tokens, input_tokens=used.input_tokens, output_tokens=used.output_tokens
            )
        if self.limiter is not None:
            limits = [c.outcome for c in pending if isinstance(c.outcome, CallFailed) and _is_limit(c.outcome)]
            hint = max((failure.retry_after_seconds or 0.0 for failure in limits), default=0.0)
            if hint > self.policy.max_rate_limit_wait_seconds:
                # a quota of the day, of one model as a rule: the others at this endpoint need not stop
                self.limiter.leave(ticket, succeeded=False)
                self._shut_until = self.monotonic() + hint
            elif limits:
                self.limiter.throttled(ticket, limits[0].retry_after_seconds)
            else:
                succeeded = any(isinstance(call.outcome, Generation) for call in pending)
                self.limiter.leave(ticket, succeeded=succeeded)

    def _outcomes(self, tasks: Sequence[TaskSpec]) -> Sequence[object]:
        """Call the adapter; what it raises is the outcome, so that no call can end a run."""
        adapter: Any = self.adapter
        try:
            if self.ask is not None:
                return self.ask(tasks)
            if not self.batch:
                return [adapter.generate(task.prompt, task) for task in tasks]
            replies = adapter.generate_batch([task.prompt for task in tasks], list(tasks))
        except BaseException as error:  # SystemExit and panics of native code too
            return [error] * len(tasks)
        if isinstance(replies, list | tuple) and len(replies) == len(tasks):
            return replies
        number = f"{len(replies)} replies" if isinstance(replies, list | tuple) else f"a {type(replies).__name__}"
        return [CallFailed("bad_reply", f"generate_batch gave {number} for {len(tasks)} prompts")] * len(tasks)

    def _tries_again(self, call: Pending) -> bool:
        """Decide whether a call is to be attempted once more, and note what it waits for."""
        outcome, policy = call.outcome, self.policy
        call.pause_seconds = 0.0
        if isinstance(outcome, Generation):
            if call.empties >= policy.max_empty_retries or not self._is_empty(outcome):
                return False
            call.empties += 1
            call.pause_seconds = policy.back_off(call.empties - 1)
            return True
        if not isinstance(outcome, CallFailed) or not outcome.transient or not policy.max_retries:
            return False
        if _is_limit(outcome) and self.limiter is not None:
            return True  # the limiter says how long
        if call.retries >= policy.max_retries:
            return False
        asked = outcome.retry_after_seconds or 0.0
        if asked > policy.max_rate_limit_wait_seconds - call.waited_seconds:
            return False
        call.waited_seconds += asked
        call.retries += 1
        call.pause_seconds = policy.back_off(call.retries - 1, at_least=asked)
        return True

    def _is_empty(self, reply: Generation) -> bool:
        try:
            return is_empty(reply) or self.judge.is_only_reasoning(reply)
        except Exception:  # values of a foreign class that raise when they are looked at; the judge says so
            return False

    def _finish(self, call: Pending) -> Done:
        attempt = Attempt(
            call.started_at, call.latency_seconds if call.attempts else None, attempts=call.attempts, paid=call.paid
        )
        outcome = _with_hint(call.outcome) if isinstance(call.outcome, CallFailed) else call.outcome
        return Done(self.judge.finish(call.task, outcome, attempt), call.task, outcome)


# dataclasses.replace takes twice as long, and this is done for each attempt
_NAMES = [one.name for one in fields(TaskSpec)]
_fields_of = attrgetter(*_NAMES)
_DEADLINE = _NAMES.index("deadline")


def _told(task: TaskSpec, deadline: float | None) -> TaskSpec:
    if deadline == task.deadline:
        return task
    values = list(_fields_of(task))
    values[_DEADLINE] = deadline
    return TaskSpec(*values)


def _is_limit(failure: CallFailed) -> bool:
    return failure.error_type == "rate_limited"


def _with_hint(failure: CallFailed) -> CallFailed:
    """Let the row of a call that a rate limit ended say how long the server asked to wait."""
    if not _is_limit(failure) or failure.retry_after_seconds is None:
        return failure
    return CallFailed(
        "rate_limited", f"{failure}; the server asks to wait {failure.retry_after_seconds:,.0f} s",
        status=failure.status, retry_after_seconds=failure.retry_after_seconds, transient=failure.transient,
    )  # fmt: skip
