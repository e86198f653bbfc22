"""Models: one request, one reply. No frames, threads or retries here; those are the engine's (``generate/``).

An adapter is any object with ``model_id`` and ``generate(prompt, task) -> Generation``. It may also have

* ``generate_batch(prompts, tasks) -> list[Generation]`` with ``batch_size``; a ``CallFailed`` may be in its place;
* ``max_workers``, how many calls it can make at once; without it as many as the run allows;
* ``model_version``, known before the call: with it replies may come from the result cache;
* ``prepare(categories) -> adapter``, asked once before the first call with the run's categories in row order: gives
  what is called in its place, under the same ``model_id``;
* ``endpoint``, the server's address: its first call is made alone, its rate limit is shared by models there;
* ``identity(prompt, task)``: all that can change the answer as JSON values, the result cache's key; None: not kept;
* ``sending(settings) -> Sending``: what becomes of the generation settings;
* ``check(settings)``: raises ``AdapterError`` where it can not be called so, a key missing for one; makes no call;
* ``loglikelihood(contexts, continuations, *, deadline=None) -> list[ContinuationScore]``, one a pair;
* ``embed(texts, *, deadline=None) -> list[list[float]]`` and ``close()``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from evalframe.errors import EvalframeError
from evalframe.reprs import Telling
from evalframe.words import CallError

NOTHING: Mapping[str, Any] = MappingProxyType({})
# what the engine takes of a model's dict; the adapter is asked about the rest
ENGINE_SETTINGS = ("generation", "prices", "requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True, slots=True, repr=False)
class TaskSpec(Telling):
    """What an adapter may know of the call it makes. Only mocks and replay read ``targets``.

    Attributes:
        task_id: The task.
        category: A task file's category, a suite's task type.
        prompt: What is sent, few-shot examples included.
        targets: The references.
        metric_name: The task's headline metric; empty where it has none.
        post_process: A task file's rule; ``none`` for a suite.
        few_shot_examples: A task file's examples (``prompt``, ``completion``); empty for a suite.
        metadata: The task's metadata.
        choices: The choices; empty where there are none.
        sample_index: 0-based position in the task's data.
        sample_id: The sample's id.
        repeat: 0-based number of the repeat.
        generation: The resolved generation settings that were given; no hidden defaults.
        deadline: ``time.monotonic()`` at which the attempt is given up; None for no limit.
        row: The data's record as JSON text.
    """

    task_id: str
    category: str
    prompt: str
    targets: tuple[str, ...] = ()
    metric_name: str = ""
    post_process: str = "none"
    few_shot_examples: tuple[Mapping[str, str], ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    choices: tuple[str, ...] = ()
    sample_index: int = 0
    sample_id: str = ""
    repeat: int = 0
    generation: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    deadline: float | None = None
    row: str = "{}"


@dataclass(frozen=True, slots=True, repr=False)
class Generation(Telling):
    """One reply.

    Attributes:
        text: The reply's text; the engine takes a reasoning block out of it where ``reasoning`` is None.
        confidence: In [0, 1], or None.
        token_nll: Sum of negative log-probabilities of the reply's tokens in nats, or None.
        token_count: Number of tokens in ``token_nll``, or None.
        reasoning: Reasoning that the API gave apart from the text, or None.
        tool_calls: A JSON value, or None.
        finish_reason: A word of ``words.FinishReason``, or None.
        input_tokens, output_tokens, cached_tokens, reasoning_tokens: Usage, or None where it was not told.
        choice_logprobs: Summed log-probability of each choice, or None.
        response_id, model_version: As the server names them, or None.
        raw: The reply as it came over the wire, for the journal.
    """

    text: str
    confidence: float | None = None
    token_nll: float | None = None
    token_count: int | None = None
    reasoning: str | None = None
    tool_calls: Any = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    choice_logprobs: tuple[float, ...] | None = None
    response_id: str | None = None
    model_version: str | None = None
    raw: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ContinuationScore:
    """How likely a continuation is after its context.

    Attributes:
        logprob: Sum of the log-probabilities of its tokens, nats, at most 0.
        n_tokens: How many there are.
        told: What else the server told of the request: usage, id, version, the raw reply. Where one request scored
            several pairs it is with the first of them. None: nothing.
    """

    logprob: float
    n_tokens: int
    told: Generation | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sending:
    """What becomes of generation settings with one model.

    Attributes:
        sent: What stands in each request, by the names of the API.
        left_out: Settings that the API does not have, or that were dropped.
        applied_here: Settings that are applied to the reply instead, ``stop`` for one.
    """

    sent: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    left_out: tuple[str, ...] = ()
    applied_here: tuple[str, ...] = ()


@runtime_checkable
class ModelAdapter(Protocol):
    """All that a model must offer."""

    model_id: str

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Answer one prompt; raise ``CallFailed`` (or anything) where there is no reply."""
        ...


# failures that another attempt may mend
TRANSIENT: frozenset[CallError] = frozenset({"timeout", "connection", "server_error", "rate_limited"})


class CallFailed(EvalframeError, RuntimeError):
    """A call gave no reply: the engine tries again where that may help, else the sample's row says why.

    Args:
        error_type: A word of ``words.CallError``; ``rate_limited`` makes all calls to that endpoint wait.
        message: What happened, in words; never a secret.
        status: Of HTTP, where there was one.
        retry_after_seconds: How long the server asks to wait.
        transient: Whether another attempt may help; None: as the type says (``TRANSIENT``).
        unreachable: Nothing answers at that address at all.
    """

    def __init__(
        self,
        error_type: CallError,
        message: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        transient: bool | None = None,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.error_type: CallError = error_type
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.transient = error_type in TRANSIENT if transient is None else transient
        self.unreachable = unreachable
