"""How the calls of a run are made: one frozen record, checked before the first of them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from evalframe.adapters import NOTHING, ModelAdapter
from evalframe.errors import AdapterError, Fault, OptionError
from evalframe.generate.cache import ResultCache
from evalframe.generate.reasoning import DEFAULT_TAGS, reasoning_tags
from evalframe.jsontext import clean
from evalframe.limits import DEFAULT_LIMITS, Limits


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """How calls are made.

    Attributes:
        concurrency: Calls in flight over all models, 1 to ``limits.concurrency``; a model may use up to as many.
            None: ``limits.concurrency`` over all, ``limits.workers_per_model`` a model.
        parallel: False makes the calls one by one, in order.
        repeats: Calls a sample, from 1 up; or by task id or category (a task id goes first; others: 1).
        generation: The settings that adapters are to send.
        timeout_seconds: Of one attempt, over 0; adapters are told it as a deadline. None: no limit.
        max_retries: Further attempts after a failure that may pass, from 0 up.
        max_empty_retries: Further attempts after an empty reply, from 0 up.
        max_rate_limit_wait_seconds: What one call waits for rate limits in all.
        requests_per_minute, tokens_per_minute: Of each model. None: no limit.
        own: Model id to those of the settings above, but concurrency, parallel and repeats, that differ for it.
        preflight: The first request to each server of its own is made alone.
        request_type: ``generate``, or ``loglikelihood`` of the choices.
        loglikelihood_norm: How choices are compared; None: by their sums.
        cache: Where replies are taken from and kept; None: nowhere.
        refresh: Replies are only kept there.
        reasoning_tags: Names (``think``) or pairs of tags that hold reasoning in a reply's text; empty: none.
        limits: The table of numbers.
        progress: Show a progress bar.
        stop: An event that, once set, lets no further call begin; what was not called is recorded as skipped.
        random: Numbers in [0, 1), for the jitter of waits.
        monotonic: A clock that only goes up, in seconds.
        now: The time of day, with a time zone.
    """

    concurrency: int | None = None
    parallel: bool = True
    repeats: int | Mapping[str, int] = 1
    generation: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    timeout_seconds: float | None = None
    max_retries: int = 0
    max_empty_retries: int = 0
    max_rate_limit_wait_seconds: float = 300.0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: NOTHING)
    preflight: bool = False
    request_type: Literal["generate", "loglikelihood"] = "generate"
    loglikelihood_norm: Literal["bytes"] | None = None
    cache: ResultCache | None = field(default=None, compare=False)
    refresh: bool = False
    reasoning_tags: Sequence[str | Sequence[str]] = DEFAULT_TAGS
    limits: Limits = DEFAULT_LIMITS
    progress: bool = False
    stop: threading.Event | None = field(default=None, compare=False)
    random: Callable[[], float] = field(default=random.random, compare=False)
    monotonic: Callable[[], float] = field(default=time.monotonic, compare=False)
    now: Callable[[], datetime] = field(default=_utc_now, compare=False)


def checked_tags(adapters: Sequence[ModelAdapter], options: GenerateOptions) -> tuple[tuple[str, str], ...]:
    """Refuse what is wrong before any call; gives the normalised reasoning tags.

    Raises:
        OptionError, AdapterError: As ``generate``.
    """
    faults = []
    top, n, seconds = options.limits.concurrency, options.concurrency, options.timeout_seconds
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= top):
        remedy = "a local server may take more: limits=Limits(concurrency=…)"
        faults.append(Fault("concurrency", "bad_value", f"{n!r} is no whole number from 1 to {top}", remedy))
    if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
        faults.append(Fault("timeout_seconds", "bad_value", f"{seconds!r} is no number over 0"))
    for place, adapter in enumerate(adapters):
        model_id, name = getattr(adapter, "model_id", None), type(adapter).__name__
        if not isinstance(model_id, str) or not model_id or not callable(getattr(adapter, "generate", None)):
            raise AdapterError(f"models[{place}]: {name} is no adapter; it needs model_id (text) and generate()")
        if clean(model_id) != model_id:
            raise AdapterError(f"models[{place}]: the model_id {model_id!r} is no legal Unicode text; rename it")
    ids = [adapter.model_id for adapter in adapters]
    twice = sorted({model_id for model_id in ids if ids.count(model_id) > 1})
    faults += [Fault("models", "duplicate", f"{name!r} stands twice", "give each model an id") for name in twice]
    if not 1 <= len(ids) <= options.limits.models:
        faults.append(Fault("models", "bad_value", f"{len(ids)} models; 1 to {options.limits.models} in one run"))
    if faults:
        raise OptionError.of(faults, what="options of the calls")
    return reasoning_tags(options.reasoning_tags)
