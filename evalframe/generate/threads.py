"""The engine: each model has its own queue and workers, one bound holds over all of them; each call becomes a row.

A call is planned, attempted, turned into a record, committed to the journal, and only then counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import polars as pl

from evalframe.adapters import NOTHING, ModelAdapter
from evalframe.errors import AdapterError, Fault, OptionError
from evalframe.frames import check
from evalframe.generate import calls
from evalframe.generate.journal import Journal
from evalframe.generate.lanes import Lane, run_in_order, run_in_threads
from evalframe.generate.outcomes import Judge, Notes
from evalframe.generate.progress import Progress
from evalframe.generate.reasoning import DEFAULT_TAGS, reasoning_tags
from evalframe.jsontext import clean
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import ROWS
from evalframe.words import SkipReason

INTERRUPTED = "the run was stopped before this call; resume it"
SKIP_CHUNK = 5_000  # calls recorded as skipped in one commit


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
        reasoning_tags: Names (``think``) or pairs of tags that hold reasoning in a reply's text; empty: none.
        limits: The table of numbers.
        progress: Show a progress bar.
        stop: An event that, once set, lets no further call begin; what was not called is recorded as skipped.
        monotonic: A clock that only goes up, in seconds.
        now: The time of day, with a time zone.
    """

    concurrency: int | None = None
    parallel: bool = True
    repeats: int | Mapping[str, int] = 1
    generation: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    timeout_seconds: float | None = None
    reasoning_tags: Sequence[str | Sequence[str]] = DEFAULT_TAGS
    limits: Limits = DEFAULT_LIMITS
    progress: bool = False
    stop: threading.Event | None = field(default=None, compare=False)
    monotonic: Callable[[], float] = field(default=time.monotonic, compare=False)
    now: Callable[[], datetime] = field(default=_utc_now, compare=False)


@dataclass(frozen=True, slots=True)
class GenerateSummary:
    """What became of the calls.

    Attributes:
        counts: Model id to status to calls, of the whole journal: earlier parts of a resumed run too.
        n_called: Calls that were made now.
        wall_seconds: Of this part.
        interrupted: The run was stopped; calls remain.
        notes: Values of replies that became null, one line a kind.
    """

    counts: Mapping[str, Mapping[str, int]]
    n_called: int
    wall_seconds: float
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def generate(
    rows: pl.DataFrame, *, adapters: Sequence[ModelAdapter], journal: Journal, options: GenerateOptions
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
    tags = _check_options(adapters, options)
    began = options.monotonic()
    planned = calls.plan(rows, repeats=options.repeats)
    done = journal.done()
    notes = Notes()
    lanes = [
        _lane(adapter, rows, calls.without(planned, done, model_id=adapter.model_id), tags, notes, options)
        for adapter in _prepared(rows, adapters)
    ]
    stop = options.stop or threading.Event()
    with Progress(sum(lane.n_calls for lane in lanes), show=options.progress, clock=options.monotonic) as progress:
        run = run_in_threads if options.parallel else run_in_order
        interrupt = run(lanes, journal=journal, progress=progress, stop=stop, bound=_bound(options))
    n_called = sum(lane.n_finished for lane in lanes)
    interrupted = any(lane.n_finished < lane.n_calls for lane in lanes)
    if interrupted:
        model_ids = [lane.judge.model_id for lane in lanes]
        record_missing(rows, model_ids=model_ids, journal=journal, repeats=options.repeats)
    if interrupt is not None:
        raise interrupt
    notes.warn()
    return GenerateSummary(
        counts=_counts(journal, adapters),
        n_called=n_called,
        wall_seconds=options.monotonic() - began,
        interrupted=interrupted,
        notes=notes.lines(),
    )


def record_missing(
    rows: pl.DataFrame,
    *,
    model_ids: Sequence[str],
    journal: Journal,
    repeats: int | Mapping[str, int] = 1,
    reason: SkipReason = "interrupted",
    message: str = INTERRUPTED,
) -> int:
    """Record every planned call that has not finished as skipped.

    Args:
        rows: A ROWS frame.
        model_ids: The models of the run.
        journal: Where they go; an entry that is there stays.
        repeats: As in the run's options.
        reason: A word of ``words.SkipReason``.
        message: The reason in words.

    Returns:
        How many planned calls have not finished, those that were recorded as skipped before included.
    """
    check(rows, ROWS)
    planned = calls.plan(rows, repeats=repeats)
    done = journal.done()
    n_missing = 0
    for model_id in model_ids:
        judge = Judge(model_id, None, (), Notes())
        missing = calls.without(planned, done, model_id=model_id).select("task_id", "sample_index", "repeat")
        n_missing += missing.height
        for chunk in missing.iter_slices(SKIP_CHUNK):
            journal.record(
                [judge.skip(task_id, index, repeat, reason, message) for task_id, index, repeat in chunk.iter_rows()]
            )
    return n_missing


def _check_options(adapters: Sequence[ModelAdapter], options: GenerateOptions) -> tuple[tuple[str, str], ...]:
    """Refuse what is wrong before any call; gives the normalised reasoning tags."""
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


def _lane(
    adapter: ModelAdapter,
    rows: pl.DataFrame,
    planned: pl.DataFrame,
    tags: tuple[tuple[str, str], ...],
    notes: Notes,
    options: GenerateOptions,
) -> Lane:
    version = getattr(adapter, "model_version", None)
    batch_size = getattr(adapter, "batch_size", None) if hasattr(adapter, "generate_batch") else None
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise AdapterError(f"{adapter.model_id}: batch_size is {batch_size!r}, no whole number from 1 up")
    generation = MappingProxyType(dict(options.generation))
    return Lane(
        adapter=adapter,
        judge=Judge(adapter.model_id, version if isinstance(version, str) else None, tags, notes),
        specs=calls.specs(rows, planned, generation=generation),
        n_calls=planned.height,
        n_workers=options.concurrency or options.limits.workers_per_model,
        batch_size=batch_size,
        timeout_seconds=options.timeout_seconds,
        monotonic=options.monotonic,
        now=options.now,
    )


def _bound(options: GenerateOptions) -> int:
    return options.concurrency or options.limits.concurrency


def _counts(journal: Journal, adapters: Sequence[ModelAdapter]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {adapter.model_id: {} for adapter in adapters}
    for model_id, status, n in journal.counts().iter_rows():
        counts.setdefault(model_id, {})[status] = n
    return counts
