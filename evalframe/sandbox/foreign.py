"""Foreign functions as records: the source, a call, and what can come of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalframe.errors import EvalframeError, Fault, SandboxError

CHUNK_CALLS = 32
Bridge = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Takes ``responses_create`` or ``embeddings_create`` and the keywords, gives a plain dict; called in threads."""


class BridgeError(EvalframeError, RuntimeError):
    """A model call of a foreign function failed; the message is raised in that function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSource:
    """One piece of user code.

    Attributes:
        source: Python.
        name: What tracebacks call it: ``tasks[3].grader.source``, ``grader.py``.
        functions: One of these must be defined; the first that is counts.
        allow_nan: NaN and infinities in what it returns arrive as they are; else such a call is ``Broken``.
        files: ``file_id`` to path: the code may read them; in the process ``EVALFRAME_FILES`` is a JSON object of them.
    """

    source: str
    name: str
    functions: tuple[str, ...]
    allow_nan: bool = False
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a foreign function.

    Attributes:
        arguments: Plain JSON values.
        timeout_seconds: Over 0; the time that it waits for the bridge does not count.
        with_context: Whether ``ctx`` is passed, as the last argument or under that name.
        max_model_calls: How many requests ``ctx`` takes; one more raises inside.
        bridge: Serves them; without one each raises inside.
        seed: Of ``random`` (and ``numpy.random``, where it is loaded), set before the call.
    """

    arguments: tuple[Any, ...]
    timeout_seconds: float
    with_context: bool = False
    max_model_calls: int = 0
    bridge: Bridge | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Returned:
    """It gave a plain JSON value; ``stdout`` is the beginning of what it printed."""

    value: Any
    stdout: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised; the traceback has the user's own frames only."""

    error_type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It was over its time, in seconds, and was ended."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Broken:
    """It gave nothing that can be used: too large, no JSON, out of memory, its process gone."""

    reason: str


Outcome = Returned | Raised | TimedOut | Broken

REMEDIES = {
    "does_not_compile": "correct the source",
    "no_function": "define it at the top level of the source",
    "fails_at_load": "what stands at the top level is run before any call: correct it, or move it into the function",
}


class SourceError(SandboxError):
    """A foreign source can not be used: it does not compile, fails when it is run, or lacks the function.

    Attributes:
        rule: ``does_not_compile``, ``fails_at_load`` or ``no_function``.
        error_type: The type of the user code's exception.
        detail: Its message.
        traceback: The user's own frames, in several lines.
    """

    def __init__(self, name: str, *, rule: str, error_type: str, detail: str, traceback: str) -> None:
        self.rule, self.error_type, self.detail, self.traceback = rule, error_type, detail, traceback
        fault = Fault(name, rule, f"{error_type}: {detail}", REMEDIES[rule])
        super().__init__("\n".join(["foreign code can not be used", *traceback.splitlines()]), [fault])


def chunks_of(calls: Iterable[Call]) -> Iterator[deque[tuple[int, Call]]]:
    """Cut calls into chunks by position alone; a call that may ask models is a chunk of its own, as it takes long."""
    chunk: deque[tuple[int, Call]] = deque()
    for place, call in enumerate(calls):
        if chunk and (call.bridge is not None or len(chunk) == CHUNK_CALLS):
            yield chunk
            chunk = deque()
        chunk.append((place, call))
        if call.bridge is not None:
            yield chunk
            chunk = deque()
    if chunk:
        yield chunk
