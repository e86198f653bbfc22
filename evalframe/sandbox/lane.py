"""One worker and the calls that it has: what it says is believed only where it fits the call that is waited for."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from typing import Any

from evalframe.sandbox.asking import KINDS, Asking
from evalframe.sandbox.foreign import (
    REMEDIES,
    Broken,
    Call,
    ForeignSource,
    Outcome,
    Raised,
    Returned,
    SourceError,
    TimedOut,
)
from evalframe.sandbox.function_process import FunctionProcess

_SENT_CALLS, _SENT_CHARS = 32, 256 * 1024  # on their way to a worker at once
_LARGE_CHARS = 64 * 1024  # arguments that take time to arrive
_LATE_MESSAGES = 1000


class NoAnswer(Exception):
    """A worker sent what does not fit the call that it has."""


class Lane:
    """A worker with a chunk of calls.

    Attributes:
        signature: The function's name and its positional arguments, once the source is loaded.
        is_spent: It can do no more calls, and is to be ended.
        moment: When the time of what it does now is over; infinity where no clock runs.
    """

    def __init__(
        self, process: FunctionProcess, source: ForeignSource, *, load_seconds: float, returned_bytes: int,
        start_seconds: float,
    ) -> None:  # fmt: skip
        self.process = process
        self.signature: tuple[str, int] | None = None
        self.moment = time.monotonic() + start_seconds
        self.is_up = False
        self._source, self._load_seconds = source, load_seconds
        self._sent: deque[tuple[int, Call, bool, int]] = deque()  # with whether it tells its begin, and its size
        self._unsent: deque[tuple[int, Call]] = deque()
        self._begins = self.is_spent = False
        self._n_chunks = 0
        self._runs = False  # the first of the sent ones has begun
        self._asked = self._unanswered = self._late = 0
        self._left = 0.0
        told = {"source": source.source, "name": source.name, "functions": list(source.functions),
                "returned_bytes": returned_bytes, "allow_nan": source.allow_nan}  # fmt: skip
        process.post(json.dumps(["load", told]))

    @property
    def is_busy(self) -> bool:
        return bool(self._sent or self._unsent)

    @property
    def is_idle(self) -> bool:
        return self.signature is not None and not self.is_busy

    def take(self, chunk: deque[tuple[int, Call]]) -> None:
        """Begin a chunk, with the source run anew."""
        self._unsent, self._begins = chunk, True
        self._n_chunks += 1
        self._send()
        self._wait_for_next()

    def rest(self) -> deque[tuple[int, Call]]:
        """The calls that are not done; the first is the one that it is at."""
        return deque([*((place, call) for place, call, _, _ in self._sent), *self._unsent])

    def over_time(self) -> Outcome:
        """Say what became of the call that it is at."""
        if self._runs:
            return TimedOut(self._sent[0][1].timeout_seconds)
        return Broken(f"running the source anew took over {self._load_seconds:g} s")

    def understand(self, message: Any, asking: Asking) -> tuple[int, Outcome] | None:
        """Take a message; gives the place and outcome of a call that is done. ``is_spent`` tells whether it can go on.

        Raises:
            SourceError: The source can not be loaded.
            NoAnswer: The message fits nothing.
        """
        match message:
            case ["up", dict(layers)] if not self.is_up:
                self.is_up, self.process.layers = True, layers
                self.moment = time.monotonic() + self._load_seconds
            case ["ready", str(name), int(takes)] if self.is_up and not self.signature:
                if name not in self._source.functions:
                    raise NoAnswer
                self.signature, self.moment = (name, takes), math.inf
            case ["unfit", str(rule), str(error_type), str(detail), str(frames)] if self._may_be_unfit(rule):
                raise SourceError(self._source.name, rule=rule, error_type=error_type, detail=detail, traceback=frames)
            case ["began", int(place)] if self._is_at(place) and not self._runs:
                self._run()
            case ["ask", int(place), int(request), str(kind), dict(keywords)] if kind in KINDS:
                self._ask(place, request, kind, keywords, asking)
            case ["returned", int(place), value, str(printed)] if self._is_at(place) and self._runs:
                return self._done(Returned(value, printed))
            case ["raised", int(place), str(error_type), str(detail), str(frames)] if self._is_at(place):
                return self._done(Raised(error_type, detail, frames))
            case ["broken", int(place), str(reason), bool(spent)] if self._is_at(place):
                self.is_spent = spent
                return self._done(Broken(reason))
            case ["spent"] if self._n_chunks > 1 and not self._runs:  # never before it has done some calls
                self.is_spent = True
            case ["began" | "returned" | "raised" | "broken", int(place), *_] if self._is_done(place):
                self._count_late()  # more than one answer to a call: the first counts
            case _:
                raise NoAnswer
        return None

    def _is_at(self, place: int) -> bool:
        return bool(self._sent) and self._sent[0][0] == place

    def _may_be_unfit(self, rule: str) -> bool:
        return self.is_up and not self._runs and rule in REMEDIES

    def _is_done(self, place: int) -> bool:
        return self.signature is not None and (not self._sent or place < self._sent[0][0])

    def _count_late(self) -> None:
        self._late += 1
        if self._late > _LATE_MESSAGES:
            raise NoAnswer

    def _done(self, outcome: Outcome) -> tuple[int, Outcome]:
        place = self._sent.popleft()[0]
        if not self.is_spent:
            self._send()
        self._wait_for_next()
        return place, outcome

    def _send(self) -> None:
        while self._unsent and len(self._sent) < _SENT_CALLS and sum(sent[3] for sent in self._sent) < _SENT_CHARS:
            place, call = self._unsent[0]
            try:
                arguments = json.dumps(call.arguments)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"the arguments of call {place} are no plain JSON: {error}") from None
            tells = self._begins or len(arguments) > _LARGE_CHARS
            settings = json.dumps(
                [self._begins, tells, call.seed, call.with_context, call.bridge is not None, call.max_model_calls]
            )
            self._begins = False
            self._unsent.popleft()
            self._sent.append((place, call, tells, len(arguments)))
            self.process.post(f'["call", {place}, {arguments}, {settings}]')
        self.process.flush()

    def _wait_for_next(self) -> None:
        self._runs, self._asked, self._unanswered = False, 0, 0
        if not self._sent:
            self.moment = math.inf
        elif self._sent[0][2]:
            self.moment = time.monotonic() + self._load_seconds
        else:
            self._run()

    def _run(self) -> None:
        self._runs = True
        self.moment = time.monotonic() + self._sent[0][1].timeout_seconds

    def _ask(self, place: int, request: int, kind: str, keywords: dict[str, Any], asking: Asking) -> None:
        if not (self._is_at(place) and self._runs):  # a thread that outlived its call
            self._count_late()
            self._answer(request, json.dumps({"error": "the call that ctx was given to is over"}))
            return
        call = self._sent[0][1]
        if call.bridge is None or self._asked >= call.max_model_calls:
            raise NoAnswer  # ctx itself refuses it: this came around it

        def deliver(answer: str) -> None:
            self._answer(request, answer)
            if self._is_at(place) and self._runs:
                self._unanswered -= 1
                if not self._unanswered:
                    self.moment = time.monotonic() + self._left

        if not self._unanswered:
            self._left, self.moment = self.moment - time.monotonic(), math.inf
        self._asked += 1
        self._unanswered += 1
        asking.ask(call.bridge, kind, keywords, deliver=deliver)

    def _answer(self, request: int, answer: str) -> None:
        self.process.post(f'["answer", {request}, {answer}]')
        self.process.flush()
