"""GENERATIONS and ANSWERS to GRADES: the Python grader of one task is called for its completed calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from evalframe.errors import SchemaError
from evalframe.frames import check
from evalframe.grading.framing import TaskGrades, framed
from evalframe.grading.samples import CallKey, digest_of, graded_samples, seed_of
from evalframe.grading.verdicts import BatchVerdict, read_batch, read_outcome
from evalframe.manifest.records import Grader, MetricChoice
from evalframe.sandbox.foreign import Bridge, Call, ForeignSource, Outcome, Raised
from evalframe.sandbox.functions import FunctionPool
from evalframe.sandbox.policy import DEFAULT_POLICY, Policy
from evalframe.schemas import ANSWERS, GENERATIONS, ROWS

NOT_CALLED = Raised("NotGraded", "the run was stopped before its graders asked their models; resume it")
Segment = tuple[pl.DataFrame, pl.DataFrame]  # generations and answers of the same calls
Bridges = Callable[[str, str, int, int], Bridge]


class Known(Protocol):
    """Outcomes of calls of graders, by their digest."""

    def get(self, digest: str, /) -> Outcome | None:
        """Give an outcome; None: not known."""

    def add(self, digest: str, outcome: Outcome, /, *, of: CallKey) -> None:
        """Keep one, with the call that it is of, of a batch its first."""


__all__ = ["Bridges", "Known", "Segment", "TaskGrader", "TaskGrades", "check_grader", "grade_task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGrader:
    """The grader of one task.

    Attributes:
        task_id: The task.
        grader: As in the manifest, with its ``source``.
        choices: The metrics that the task declares; of a batch grader there may be none.
        name: How the text is called in tracebacks.
        files: What it may read, by file id.
        models: What ``auto`` of ``ctx`` means in this run; a grader without access to models does not depend on it.
    """

    task_id: str
    grader: Grader
    choices: Sequence[MetricChoice]
    name: str
    files: Mapping[str, Path] = field(default_factory=dict)
    models: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_batch(self) -> bool:
        """Whether it is called once for all samples of a model and repeat."""
        return self.grader.execution == "aggregate"

    def pool(self, *, policy: Policy, n_workers: int) -> FunctionPool:
        """Give its workers; they start with the first call."""
        functions = ("grade_batch",) if self.is_batch else ("grade",)
        source = ForeignSource(
            source=self.grader.source or "", name=self.name, functions=functions, files=self.files, allow_nan=True
        )  # fmt: skip
        return FunctionPool(source, policy=policy, n_workers=n_workers)


@dataclass(slots=True)
class _Entry:
    """One call of the grader: the calls that it is about, and what came of it."""

    members: list[CallKey]
    digest: str
    outcome: Outcome | None


def check_grader(grader: TaskGrader, *, policy: Policy) -> None:
    """Load the text of a grader in a worker, as its first call will, and call nothing.

    Raises:
        SourceError: It does not load, or lacks the function; with the traceback of the user's code.
        SandboxError: It may not run here.
    """
    with grader.pool(policy=policy, n_workers=1) as pool:
        pool.signature()


def grade_task(
    grader: TaskGrader,
    segments: Iterable[Segment],
    *,
    rows: pl.DataFrame,
    known: Known,
    policy: Policy = DEFAULT_POLICY,
    n_workers: int = 1,
    bridges: Bridges | None = None,
    done: Callable[[int], None] = lambda n_calls: None,
    calls: bool = True,
) -> TaskGrades:
    """Call the grader of a task for each completed call, or each batch of them, and read what it gives.

    A per-sample grader is called once a call; a batch grader once a model and repeat, with all completed samples in
    order. What is known already is not asked again. Samples go to the workers in fixed chunks, in order, so that the
    number of workers does not change what comes out.

    Frame in:
        GENERATIONS and ANSWERS of the task, in key order, in any number of segments; ROWS of the task.

    Args:
        grader: The task's.
        segments: All calls of the task, failed and skipped ones too.
        rows: The samples of the task.
        known: Outcomes of earlier calls of graders by their digest; gets those of new ones.
        policy: What the grader may use.
        n_workers: Processes at once, 1 or more.
        bridges: Gives the way to models for each call that is graded, by its key, of a batch its first; None: ``ctx``
            raises. Also without it for a grader without ``model_access``.
        done: Told of calls that are graded.
        calls: False calls nothing: what is not known has no score, and is not kept.

    Nulls: no completed call is no call of the grader.

    Raises:
        SourceError: The text does not load, or lacks the function.
        SandboxError: It may not run here.
        SchemaError: A frame is not what it is called, or a call has no row.
    """
    check(rows, ROWS)
    entries: list[_Entry] = []
    outcomes: list[pl.DataFrame] = []

    def asked() -> Iterator[tuple[_Entry, tuple[Any, ...]]]:
        """Give what is not known, and note all in order."""
        for members, arguments in _arguments(grader, _checked(segments, outcomes, rows), rows):
            digest = digest_of(grader.grader, arguments, models=grader.models)
            entry = _Entry(members, digest, known.get(digest))
            entries.append(entry)
            if entry.outcome is None:
                yield entry, arguments
            else:
                done(len(members))

    missing = asked()
    if not calls:
        for entry, _ in missing:
            entry.outcome = NOT_CALLED
    elif (first := next(missing, None)) is not None:
        with grader.pool(policy=policy, n_workers=n_workers) as pool:
            _, n_arguments = pool.signature()
            waiting: list[_Entry] = []
            made = _calls(chain([first], missing), grader, n_arguments, bridges, waiting)
            for place, outcome in enumerate(pool.map(made)):
                entry = waiting[place]
                entry.outcome = outcome
                known.add(entry.digest, outcome, of=entry.members[0])
                done(len(entry.members))
    read = _read(entries, grader)
    of_calls = pl.concat(outcomes) if outcomes else pl.DataFrame(schema=GENERATIONS.dtypes)
    return framed(read, of_calls, choices=grader.choices, metric_id=grader.grader.metric_id)


def _checked(
    segments: Iterable[Segment], outcomes: list[pl.DataFrame], rows: pl.DataFrame
) -> Iterator[Segment]:  # fmt: skip
    """Hold the segments to their schemas, and keep of each call what became of it."""
    for generations, answers in segments:
        check(generations, GENERATIONS)
        check(answers, ANSWERS)
        if (strange := generations.join(rows, on=["task_id", "sample_index"], how="anti")).height:
            task_id, sample_index = strange.select("task_id", "sample_index").row(0)
            raise SchemaError(f"rows has no sample {sample_index} of task {task_id!r}, which was called; give all rows")
        outcomes.append(generations.select("model_id", "task_id", "sample_index", "repeat", "status", "error_type"))
        yield generations, answers


def _arguments(
    grader: TaskGrader, segments: Iterable[Segment], rows: pl.DataFrame
) -> Iterator[tuple[list[CallKey], tuple[Any, ...]]]:
    """Give the arguments of each call of the grader, without ``ctx``, and the calls that it is about."""
    samples = (
        found
        for generations, answers in segments
        for found in graded_samples(generations, answers=answers, rows=rows)
    )  # fmt: skip
    if not grader.is_batch:
        for key, sample, item in samples:
            yield [key], (sample, item)
        return
    model, batches = None, dict[int, list[tuple[CallKey, dict[str, Any]]]]()
    for key, sample, item in samples:
        if key[0] != model:
            yield from _batched(batches)
            model, batches = key[0], {}
        batches.setdefault(key[3], []).append((key, {**sample, "item": item}))
    yield from _batched(batches)


def _batched(
    batches: Mapping[int, list[tuple[CallKey, dict[str, Any]]]],
) -> Iterator[tuple[list[CallKey], tuple[Any, ...]]]:
    for _, batch in sorted(batches.items()):
        yield [key for key, _ in batch], ([sample for _, sample in batch],)


def _calls(
    asked: Iterable[tuple[_Entry, tuple[Any, ...]]],
    grader: TaskGrader,
    n_arguments: int,
    bridges: Bridges | None,
    waiting: list[_Entry],
) -> Iterator[Call]:
    has_models = grader.grader.model_access != "none" and bridges is not None
    for entry, arguments in asked:
        waiting.append(entry)
        yield Call(
            arguments=arguments,
            timeout_seconds=grader.grader.timeout_seconds,
            with_context=n_arguments > len(arguments),
            max_model_calls=grader.grader.max_model_calls,
            bridge=bridges(*entry.members[0]) if has_models and bridges is not None else None,
            seed=seed_of(grader.task_id, "" if grader.is_batch else arguments[0]["sample_id"]),
        )


def _read(entries: list[_Entry], grader: TaskGrader) -> Iterator[tuple[list[CallKey], BatchVerdict]]:
    metric_id = grader.grader.metric_id
    for entry in entries:
        assert entry.outcome is not None  # each was known, or came back from the pool
        if grader.is_batch:
            indices = [key[2] for key in entry.members]
            yield entry.members, read_batch(entry.outcome, metric_id=metric_id, sample_indices=indices)
        else:
            yield entry.members, BatchVerdict([read_outcome(entry.outcome, metric_id=metric_id)])
