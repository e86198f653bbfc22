"""What one model's calls take from the result cache, and what they give to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evalframe.adapters import Generation, TaskSpec
from evalframe.errors import AdapterError
from evalframe.generate.attempts import Caller, Done
from evalframe.generate.cache import CachedReply, CacheRequest, ResultCache, cache_request, why_not_kept
from evalframe.generate.outcomes import Attempt, Original

Key = tuple[str, int, int]


@dataclass(slots=True, eq=False, kw_only=True)
class Memory:
    """Replies of one model that are known already.

    Attributes:
        cache: Where they are.
        before: Only what was kept before is taken, which is what was there when the run began: of two samples with one
            prompt both are asked, whatever the order of the calls.
        reads: Whether replies are taken from there; they are kept in any case.
        request_type, norm: Of the run.
        continuations: Of a request, from its task; None: there are none.
    """

    cache: ResultCache
    before: datetime
    reads: bool = True
    request_type: str = "generate"
    norm: str | None = None
    continuations: Callable[[TaskSpec], Sequence[str]] | None = None
    _asked: dict[Key, CacheRequest] = field(default_factory=dict)  # of the calls that are under way

    def recall(self, task: TaskSpec, caller: Caller) -> Done | None:
        """Give the finished call of a reply that is known, with the latency, tokens and cost that it had; else None.

        A call that its adapter can not identify is a failed one.
        """
        try:
            request = cache_request(
                caller.adapter, task, repeat=task.repeat, request_type=self.request_type, norm=self.norm,
                continuations=() if self.continuations is None else self.continuations(task),
            )  # fmt: skip
        except AdapterError as error:
            return Done(caller.judge.finish(task, error, Attempt(None, None, attempts=0)), task, error)
        if request is None:
            return None
        known = self.cache.get(request.key) if self.reads else None
        if known is None or known.created_at >= self.before:
            self._asked[_key(task)] = request
            return None
        attempt = Attempt(caller.now(), known.latency_seconds, attempts=0, original=Original(known.cost_usd))
        return Done(caller.judge.finish(task, known.generation, attempt), task, known.generation)

    def keep(self, done: Done) -> None:
        """Remember a reply, if it is one that a later run should be given; that of a hit is there already."""
        request = self._asked.pop(_key(done.task), None)
        call = done.finished
        if request is None or not isinstance(done.outcome, Generation):
            return
        if why_not_kept(
            call.status, output_text=call.output_text, tool_calls=call.tool_calls, finish_reason=call.finish_reason
        ):
            return
        assert call.started_at is not None  # it was called
        reply = CachedReply(done.outcome, call.latency_seconds or 0.0, call.cost_usd, call.started_at)
        self.cache.put(request, reply)


def _key(task: TaskSpec) -> Key:
    return task.task_id, task.sample_index, task.repeat
