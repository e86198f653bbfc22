"""The engine: each model has its own queue and workers, one bound holds over all of them; each call becomes a row.

A call is planned, attempted, turned into a record, committed to the journal, and only then counted.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import polars as pl

from evalframe.adapters import NOTHING, ModelAdapter, TaskSpec
from evalframe.errors import AdapterError
from evalframe.frames import check
from evalframe.generate import calls
from evalframe.generate.attempts import Caller
from evalframe.generate.cachekeys import may_be_kept
from evalframe.generate.choices import choose_batch, continuations
from evalframe.generate.giving_up import Patience
from evalframe.generate.journal import Journal
from evalframe.generate.lanes import Lane, run_in_order, run_in_threads, why_skipped
from evalframe.generate.ledger import Ledger
from evalframe.generate.limiter import Limiter, Pace
from evalframe.generate.memory import Memory
from evalframe.generate.outcomes import USAGE, Judge, Notes
from evalframe.generate.progress import Progress
from evalframe.generate.retry import RetryPolicy
from evalframe.generate.settings import GenerateOptions, checked_tags
from evalframe.schemas import ROWS
from evalframe.words import SkipReason

INTERRUPTED = "the run was stopped before this call; resume it"
__all__ = ["GenerateOptions", "GenerateSummary", "generate", "record_missing"]


@dataclass(frozen=True, slots=True)
class GenerateSummary:
    """What became of the calls.

    Attributes:
        counts: Model id to status to calls, of the whole journal: earlier parts of a resumed run too.
        n_called: Calls that were made now.
        wall_seconds: Of this part.
        interrupted: Calls remain: the run was stopped, a model was given up, or the money is spent.
        given_up: Model id to why it was given up.
        notes: Values of replies that became null, one line a kind.
    """

    counts: Mapping[str, Mapping[str, int]]
    n_called: int
    wall_seconds: float
    interrupted: bool = False
    given_up: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    notes: tuple[str, ...] = ()


def generate(
    rows: pl.DataFrame,
    *,
    adapters: Sequence[ModelAdapter],
    journal: Journal,
    options: GenerateOptions,
    ledger: Ledger | None = None,
) -> GenerateSummary:
    """Call every model with every row, as often as asked, and record each outcome in the journal.

    Finished calls that the journal has already are not made again. A call that fails is a row, whatever the adapter
    raises or returns. Calls are made in row order, the repeats of a row together. An interrupt (Ctrl-C) or
    ``options.stop`` lets no further call begin, waits for those in flight, and records the others as skipped.

    Args:
        rows: A ROWS frame.
        adapters: 1 to ``limits.models`` models, ids unique. One with ``batch_size`` and ``generate_batch`` gets
            batches; one with ``prepare(categories)`` is replaced by what that gives.
        journal: Where outcomes go.
        options: How.
        ledger: What calls cost; once its cap is reached no further call begins. None: nobody knows.

    Returns:
        Counts. The generations are in the journal (``Journal.segments``).

    Nulls:
        Without rows no call is made.

    Raises:
        SchemaError: ``rows`` is no ROWS frame.
        OptionError: An option, or the list of adapters, is wrong; before any call.
        AdapterError: An adapter has no ``model_id`` or no ``generate``, or its ``prepare`` failed; before any call.
        RunFolderError: The journal can not be written; what it holds stays.
        KeyboardInterrupt: After an interrupt, when the journal is complete.
    """
    check(rows, ROWS)
    tags = checked_tags(adapters, options)
    began, began_at = options.monotonic(), options.now()
    planned = calls.plan(rows, repeats=options.repeats)
    done = journal.done()
    notes, ledger = Notes(), ledger or Ledger({})
    limiters: dict[str, Limiter] = {}
    lanes = []
    for adapter in _prepared(rows, adapters):
        own = replace(options, **options.own.get(adapter.model_id, {}))
        lane_plan = calls.without(planned, done, model_id=adapter.model_id)
        caller = caller_of(adapter, tags=tags, notes=notes, options=own, limiters=limiters, ledger=ledger)
        lanes.append(_lane(caller, rows, lane_plan, own, began_at=began_at))
    stop = options.stop or threading.Event()
    with Progress(sum(lane.n_calls for lane in lanes), show=options.progress, clock=options.monotonic) as progress:
        run = run_in_threads if options.parallel else run_in_order
        interrupt = run(lanes, journal=journal, progress=progress, ledger=ledger, stop=stop, bound=_bound(options))
    unmade = [lane for lane in lanes if lane.n_finished < lane.n_calls]
    for lane in unmade:
        reason, message = why_skipped(lane, ledger, interrupted=INTERRUPTED)
        record_missing(
            rows, model_ids=[lane.model_id], journal=journal, repeats=options.repeats, reason=reason, message=message,
            replaces=True,
        )  # fmt: skip
    if interrupt is not None:
        raise interrupt
    notes.warn()
    return GenerateSummary(
        counts=_counts(journal, adapters),
        n_called=sum(lane.n_finished for lane in lanes),
        wall_seconds=options.monotonic() - began,
        interrupted=bool(unmade),
        given_up={lane.model_id: lane.patience.given_up[1] for lane in lanes if lane.patience.given_up},
        notes=(*notes.lines(), *ledger.notes()),
    )


def record_missing(
    rows: pl.DataFrame,
    *,
    model_ids: Sequence[str],
    journal: Journal,
    repeats: int | Mapping[str, int] = 1,
    reason: SkipReason = "interrupted",
    message: str = INTERRUPTED,
    replaces: bool = False,
) -> int:
    """Record every planned call that has not finished as skipped.

    Args:
        rows: A ROWS frame.
        model_ids: The models of the run.
        journal: Where they go; an entry that is there stays.
        repeats: As in the run's options.
        reason: A word of ``words.SkipReason``.
        message: The reason in words.
        replaces: Whether it goes before the reason of a call that is recorded as skipped already.

    Returns:
        How many planned calls have not finished, those that were recorded as skipped before included.
    """
    check(rows, ROWS)
    planned = calls.plan(rows, repeats=repeats)
    done = journal.done()
    n_missing = 0
    for model_id in model_ids:
        missing = calls.without(planned, done, model_id=model_id)
        n_missing += missing.height
        journal.skip(missing, model_id=model_id, reason=reason, message=message, replaces=replaces)
    return n_missing


def _prepared(rows: pl.DataFrame, adapters: Sequence[ModelAdapter]) -> list[ModelAdapter]:
    """Let each adapter that wants to know the run's categories know them; it gives what is called in its place."""
    categories = rows["category"].unique(maintain_order=True).to_list()
    prepared = []
    for adapter in adapters:
        hook = getattr(adapter, "prepare", None)
        try:
            ready = adapter if hook is None else hook(categories)
        except Exception as error:
            raise AdapterError(f"{adapter.model_id}: prepare() failed: {type(error).__name__}: {error}") from error
        if getattr(ready, "model_id", None) != adapter.model_id:
            raise AdapterError(f"{adapter.model_id}: prepare() gives the adapter to call, with the same model_id")
        prepared.append(ready)
    return prepared


def caller_of(
    adapter: ModelAdapter,
    *,
    tags: tuple[tuple[str, str], ...],
    notes: Notes,
    options: GenerateOptions,
    limiters: dict[str, Limiter],
    ledger: Ledger,
) -> Caller:
    """Say how a model is called.

    Args:
        adapter: The model.
        tags: Of reasoning in its replies.
        notes: Where values that became null are noted.
        options: How, its own settings before the run's.
        limiters: Those of the endpoints; the model's is made where it is not there yet.
        ledger: What calls cost.
    """
    version, endpoint = getattr(adapter, "model_version", None), getattr(adapter, "endpoint", None)
    chooses = options.request_type == "loglikelihood"
    model_id = adapter.model_id

    def cost(*tokens: int | None) -> float | None:
        return ledger.cost(model_id, **dict(zip(USAGE, tokens, strict=True)))

    shared = endpoint if isinstance(endpoint, str) else f"model {model_id}"
    limiter = limiters.setdefault(shared, Limiter(monotonic=options.monotonic, random=options.random))
    return Caller(
        adapter=adapter,
        judge=Judge(
            model_id, version if isinstance(version, str) else None, tags, notes,
            confidence_source="choice_logprobs" if chooses else "adapter", cost=cost,
        ),
        policy=RetryPolicy(
            max_retries=options.max_retries, max_empty_retries=options.max_empty_retries,
            max_rate_limit_wait_seconds=options.max_rate_limit_wait_seconds, random=options.random,
        ),
        pace=Pace(
            requests_per_minute=options.requests_per_minute, tokens_per_minute=options.tokens_per_minute,
            monotonic=options.monotonic,
        ),
        limiter=limiter if options.max_retries else None,  # without retries a rate limit is a failure, and no wait
        timeout_seconds=options.timeout_seconds,
        batch=hasattr(adapter, "batch_size") and (chooses or hasattr(adapter, "generate_batch")),
        ask=partial(choose_batch, adapter, norm=options.loglikelihood_norm) if chooses else None,
        monotonic=options.monotonic,
        now=options.now,
    )  # fmt: skip


def _lane(
    caller: Caller, rows: pl.DataFrame, planned: pl.DataFrame, options: GenerateOptions, *, began_at: datetime
) -> Lane:
    adapter: Any = caller.adapter
    batch_size = adapter.batch_size if caller.batch else None
    if caller.batch and (not isinstance(batch_size, int) or batch_size < 1):
        raise AdapterError(f"{adapter.model_id}: batch_size is {batch_size!r}, no whole number from 1 up")
    memory = None
    if options.cache is not None and may_be_kept(adapter):
        memory = Memory(
            cache=options.cache, before=began_at, reads=not options.refresh, request_type=options.request_type,
            norm=options.loglikelihood_norm, continuations=None if caller.ask is None else _continuations,
        )  # fmt: skip
    return Lane(
        caller=caller,
        specs=calls.specs(rows, planned, generation=MappingProxyType(dict(options.generation))),
        n_calls=planned.height,
        n_workers=_workers(adapter, options),
        batch_size=batch_size,
        patience=Patience(adapter.model_id, monotonic=options.monotonic),
        memory=memory,
        preflight=options.preflight and hasattr(adapter, "endpoint"),
    )


def _workers(adapter: Any, options: GenerateOptions) -> int:
    wanted = options.concurrency or options.limits.workers_per_model
    most = getattr(adapter, "max_workers", None)
    if most is None:
        return wanted
    if not isinstance(most, int) or most < 1:
        raise AdapterError(f"{adapter.model_id}: max_workers is {most!r}, no whole number from 1 up")
    return min(wanted, most)


def _continuations(task: TaskSpec) -> list[str]:
    return continuations(task.prompt, task.choices)


def _bound(options: GenerateOptions) -> int:
    return options.concurrency or options.limits.concurrency


def _counts(journal: Journal, adapters: Sequence[ModelAdapter]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {adapter.model_id: {} for adapter in adapters}
    for model_id, status, n in journal.counts().iter_rows():
        counts.setdefault(model_id, {})[status] = n
    return counts
