"""From what an adapter gave, whatever it is, to a finished call: a paid reply is never lost to a bad detail."""

from __future__ import annotations

import math
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from numbers import Integral, Real
from typing import Any, get_args

from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.generate.finished import Finished
from evalframe.generate.reasoning import Tags, split_reasoning
from evalframe.jsontext import clean, dumps
from evalframe.words import CallError, ConfidenceSource, FinishReason

MESSAGE_CHARS = 2_000
_FINISH_REASONS = frozenset(get_args(FinishReason))
_CALL_ERRORS = frozenset(get_args(CallError))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that were paid for; a part that a server did not tell is null, and so is every sum with it."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_tokens: int | None = 0
    reasoning_tokens: int | None = 0

    def plus(self, other: Any) -> Usage:
        """Add what another reply took."""
        if self is NO_USAGE:
            return Usage(*(_counted(getattr(other, name)) for name in USAGE))
        return Usage(*(_sum(getattr(self, name), _counted(getattr(other, name))) for name in USAGE))


USAGE = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
NO_USAGE = Usage()


def _counted(value: Any) -> int | None:
    if value is None or type(value) is int:  # the usual ones, without a look at abstract classes
        return value if value is None or value >= 0 else None
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0 else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class Attempt:
    """When a call was made, how long it took and what it cost beside its reply.

    Attributes:
        started_at: When its first attempt began; None: there was none.
        latency_seconds: Of the last attempt.
        attempts: Requests sent.
        paid: For earlier replies to it that were empty.
        original: The reply comes from the result cache: what it cost at its time, null where that is not known.
    """

    started_at: datetime | None
    latency_seconds: float | None
    attempts: int = 1
    paid: Usage = NO_USAGE
    original: Original | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """What a cached reply cost when it was made."""

    cost_usd: float | None


class Notes:
    """Values of replies that had to become null: each kind is said once, with a count and the first sample."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, model_id: str, what: str, task: TaskSpec, value: Any) -> None:
        """Remember one value."""
        with self._lock:
            count, first = self._seen.get((model_id, what), (0, ""))
            first = first or f"task {task.task_id!r}, sample {task.sample_index}: {_short(value)}"
            self._seen[model_id, what] = count + 1, first

    def lines(self) -> tuple[str, ...]:
        """One line a kind, sorted."""
        return tuple(
            f"{model_id}: {what} in {count} repl{'y' if count == 1 else 'ies'}, first in {first}"
            for (model_id, what), (count, first) in sorted(self._seen.items())
        )

    def warn(self) -> None:
        """Say them, from the thread of the caller."""
        for line in self.lines():
            warnings.warn(line, stacklevel=3)


@dataclass(frozen=True, slots=True)
class Judge:
    """What turns the outcomes of one model's calls into finished calls.

    Attributes:
        model_id: The model.
        model_version: What the adapter says of itself before any call.
        tags: Of reasoning in the text.
        notes: Where values that became null are noted.
        confidence_source: Where the confidence of its replies comes from.
        cost: Dollars for input, output, cached and reasoning tokens; null where it is not known. None: nobody knows.
    """

    model_id: str
    model_version: str | None
    tags: Tags
    notes: Notes
    confidence_source: ConfidenceSource = "adapter"
    cost: Callable[[int | None, int | None, int | None, int | None], float | None] | None = None

    def finish(self, task: TaskSpec, outcome: object, attempt: Attempt) -> Finished:
        """Turn a reply, or the exception that came in its place, into a finished call."""
        if isinstance(outcome, Generation):
            if isinstance(outcome.text, str):
                try:
                    return self._completed(task, outcome, attempt)
                except Exception as error:  # values of a foreign class that raise when they are looked at
                    outcome = CallFailed("bad_reply", f"the reply can not be read: {type(error).__name__}")
            else:
                outcome = CallFailed("bad_reply", f"the reply's text is {_named(outcome.text)}, not a str")
        elif not isinstance(outcome, BaseException):
            outcome = CallFailed("bad_reply", f"the adapter returned {_named(outcome)}, not a Generation")
        return self._failed(task, outcome, attempt)

    def _failed(self, task: TaskSpec, error: BaseException, attempt: Attempt) -> Finished:
        error_type, message = "adapter_error", f"{type(error).__name__}: {_words_of(error)}"
        if isinstance(error, CallFailed) and error.error_type in _CALL_ERRORS:
            error_type, message = error.error_type, _words_of(error)
        return Finished(
            model_id=self.model_id, task_id=task.task_id, sample_index=task.sample_index, repeat=task.repeat,
            status="failed", error_type=error_type, error_message=_cut(message), model_version=self.model_version,
            attempts=attempt.attempts, started_at=attempt.started_at, latency_seconds=attempt.latency_seconds,
            **self._charged(attempt.paid, attempt),
        )  # fmt: skip

    def is_only_reasoning(self, reply: Generation) -> bool:
        """Whether a reply has text that is all reasoning, and calls no tool."""
        if reply.reasoning is not None or reply.tool_calls or not self.tags or not isinstance(reply.text, str):
            return False
        return bool(reply.text.strip()) and not split_reasoning(str(reply.text), self.tags)[0].strip()

    def _charged(self, usage: Usage, attempt: Attempt) -> dict[str, Any]:
        """Give the columns of tokens and dollars."""
        tokens = {name: getattr(usage, name) for name in USAGE} if usage is not NO_USAGE else {}
        if attempt.original is not None:
            return {**tokens, "cached": True, "cost_usd": 0.0, "cost_usd_original": attempt.original.cost_usd}
        if self.cost is None or not tokens:
            return tokens
        cost = self.cost(*tokens.values())
        return {**tokens, "cost_usd": cost, "cost_usd_original": cost}

    def _completed(self, task: TaskSpec, reply: Generation, attempt: Attempt) -> Finished:
        text, reasoning, cut_off = str(reply.text), self._text(task, reply, "reasoning"), None
        if reply.reasoning is None:
            text, reasoning, cut_off = split_reasoning(text, self.tags)
        tool_calls = self._json(task, reply.tool_calls)
        finish_reason = cut_off or self._finish_reason(task, reply.finish_reason)
        if finish_reason == "length" and not text.strip() and tool_calls is None:
            finish_reason = "truncated_no_answer"
        confidence = self._number(task, reply, "confidence", _is_share, "is not in [0, 1] (a percentage?)")
        used = Usage(*(self._count(task, reply, name) for name in USAGE))
        nll_fault = "is negative or not finite (a missing minus?)"
        return Finished(
            model_id=self.model_id,
            task_id=task.task_id,
            sample_index=task.sample_index,
            repeat=task.repeat,
            status="completed",
            output_text=clean(text),
            reasoning=reasoning or None,
            tool_calls=tool_calls,
            finish_reason=finish_reason,
            confidence=confidence,
            confidence_source=None if confidence is None else self.confidence_source,
            token_nll=self._number(task, reply, "token_nll", _is_amount, nll_fault),
            token_count=self._count(task, reply, "token_count"),
            choice_logprobs=_logprobs(reply.choice_logprobs),
            latency_seconds=attempt.latency_seconds,
            attempts=attempt.attempts,
            model_version=self._text(task, reply, "model_version") or self.model_version,
            response_id=self._text(task, reply, "response_id"),
            started_at=attempt.started_at,
            raw=reply.raw if isinstance(reply.raw, bytes) else b"",
            **self._charged(used if attempt.paid is NO_USAGE else attempt.paid.plus(used), attempt),
        )

    def _number(
        self, task: TaskSpec, reply: Generation, name: str, test: Callable[[Any], bool], fault: str
    ) -> float | None:
        value: Any = getattr(reply, name)
        if value is None:
            return None
        if type(value) is float and test(value):
            return value
        if isinstance(value, Real) and not isinstance(value, bool) and test(value):
            return float(value)
        self.notes.add(self.model_id, f"{name} {fault} and became null", task, value)
        return None

    def _count(self, task: TaskSpec, reply: Generation, name: str) -> int | None:
        value: Any = getattr(reply, name)
        if value is None or (type(value) is int and 0 <= value < 1 << 63):
            return value
        if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < 1 << 63:
            return int(value)
        self.notes.add(self.model_id, f"{name} is no whole number from 0 up and became null", task, value)
        return None

    def _text(self, task: TaskSpec, reply: Generation, name: str) -> str | None:
        value: Any = getattr(reply, name)
        if value is None or isinstance(value, str):
            return None if value is None else str(value)
        self.notes.add(self.model_id, f"{name} is no text and became null", task, value)
        return None

    def _finish_reason(self, task: TaskSpec, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and value in _FINISH_REASONS):
            return value
        self.notes.add(self.model_id, "finish_reason is no known word and became null", task, value)
        return None

    def _json(self, task: TaskSpec, value: Any) -> str | None:
        if value is None or (isinstance(value, list | tuple) and not value):
            return None
        try:
            return dumps(value)
        except (TypeError, ValueError, RecursionError):
            self.notes.add(self.model_id, "tool_calls are no JSON and became null", task, value)
            return None


def _is_share(value: Any) -> bool:
    return bool(0 <= value <= 1)  # false for NaN


def _is_amount(value: Any) -> bool:
    return bool(0 <= value <= sys.float_info.max)


def _logprobs(values: Any) -> tuple[float | None, ...] | None:
    """Keep what are finite numbers; the others become null in their place."""
    if not isinstance(values, tuple | list):
        return None
    return tuple(float(v) if isinstance(v, Real) and math.isfinite(v) else None for v in values)


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:  # an exception of foreign code may not even have words
        return f"no message: its str() raised {type(second).__name__}"


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_CHARS else message[:MESSAGE_CHARS] + " …"


def _short(value: Any) -> str:
    try:
        words = repr(value)
    except BaseException as error:
        words = f"{_named(value)} whose repr() raised {type(error).__name__}"
    return words if len(words) <= 80 else words[:80] + "…"


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
