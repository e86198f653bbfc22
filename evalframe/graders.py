"""The graders of a run: found in its folder, called for what was not graded yet, their outcomes kept beside the run."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.frames import empty
from evalframe.generate.progress import Stage
from evalframe.grading import Bridges, TaskGrader, TaskGrades, check_grader, grade_task
from evalframe.grading.framing import VALUES
from evalframe.grading.samples import CallKey
from evalframe.manifest.records import Grader, MetricChoice
from evalframe.options import RunOptions
from evalframe.sandbox.foreign import Broken, Outcome, Raised, Returned, TimedOut
from evalframe.sandbox.policy import Policy
from evalframe.schemas import CALL_KEY, GRADED, GRADES, SCORES
from evalframe.store import RunFolder

KEPT_AT_ONCE = 500  # outcomes that are lost at most when a process is killed; replies of models are in their journal
_KINDS: Mapping[str, type[Any]] = {"returned": Returned, "raised": Raised, "timed_out": TimedOut, "broken": Broken}


class GraderWarning(UserWarning):
    """A grader failed on calls, whose scores are therefore null with fate ``grader_error``."""


@dataclass(frozen=True, slots=True)
class Graded:
    """What the graders of a run said.

    Attributes:
        tasks: Those that have a grader.
        grades: GRADES.
        scores: SCORES of these tasks.
        values: What batch graders gave for all samples of a model and repeat.
        choices: Task to the metrics that it is scored by, where it declares none.
    """

    tasks: frozenset[str]
    grades: pl.DataFrame
    scores: pl.DataFrame
    values: pl.DataFrame
    choices: Mapping[str, list[dict[str, Any]]]


def graded_tasks(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Name the tasks of a manifest that have a grader."""
    there = manifest.get("tasks")
    tasks = there if isinstance(there, list) else []
    return frozenset(task["id"] for task in tasks if isinstance(task, Mapping) and task.get("grader"))


def task_graders(manifest: Mapping[str, Any], rows: pl.DataFrame, *, record: Mapping[str, Any]) -> list[TaskGrader]:
    """Give the graders of a run's tasks, in the order of the manifest.

    Args:
        manifest: Of the run: its graders have their ``source``.
        rows: ROWS; they say which metrics a task declares. Tasks without rows have no grader here.
        record: ``run.json``: what tracebacks call the graders, the files that they may read, the models of ``ctx``.
    """
    found = []
    choices = dict(rows.unique("task_id", keep="first").select("task_id", "metrics").iter_rows())
    for index, task in enumerate(manifest["tasks"] if graded_tasks(manifest) else ()):
        if not task.get("grader") or task["id"] not in choices:
            continue
        told = record.get("graders", {}).get(task["id"], {})
        files = {name: Path(path) for name, path in told.get("files", {}).items() if Path(path).is_file()}
        found.append(
            TaskGrader(
                task_id=task["id"],
                grader=Grader(**task["grader"]),
                choices=tuple(MetricChoice(**choice) for choice in choices[task["id"]]),
                name=told.get("name", f"tasks[{index}].grader.source"),
                files=files,
                models={name: record.get(name) for name in ("judge_model", "embedding_model")},
            )
        )
    return found


def check_graders(graders: Iterable[TaskGrader], *, policy: Policy) -> None:
    """Load each grader's text in a worker, so that what fails there fails before the first call.

    Raises:
        SandboxError: A text does not load, lacks its function, or may not run here.
    """
    loaded = set()
    for grader in graders:
        if (what := (grader.grader.source, grader.is_batch)) not in loaded:  # tasks often share one
            check_grader(grader, policy=policy)
            loaded.add(what)


def grade_run(
    folder: RunFolder,
    graders: Sequence[TaskGrader],
    *,
    rows: pl.DataFrame,
    n_segments: int,
    options: RunOptions,
    policy: Policy,
    bridges: Bridges | None = None,
    asks: bool = True,
) -> Graded:
    """Call the graders of a run for the calls in its segments, and say what came of it.

    What was graded before, in this run or in one that it comes from, is not graded again. Without ``asks`` graders that
    may call models are not called, and what they did not grade before has no score until the run is resumed.
    """
    found: dict[str, TaskGrades] = {}
    n_calls = int(_calls_of(folder, [grader.task_id for grader in graders]))
    with Stage("grading", n_calls, show=options.progress) as stage:
        for grader in graders:
            its_rows = rows.filter(pl.col("task_id") == grader.task_id)
            with kept_outcomes(folder, grader.task_id) as known:
                found[grader.task_id] = grade_task(
                    grader, _segments(folder, grader.task_id, n_segments), rows=its_rows, known=known, policy=policy,
                    n_workers=_n_workers(grader, options, bridges), bridges=bridges, done=stage.step,
                    calls=asks or grader.grader.model_access == "none",
                )  # fmt: skip
            _warn(grader, found[grader.task_id])
    said = list(found.values())
    return Graded(
        tasks=frozenset(grader.task_id for grader in graders),
        grades=pl.concat([empty(GRADES), *(one.grades for one in said)]).sort(GRADES.key),
        scores=pl.concat([empty(SCORES), *(one.scores for one in said)]).sort(SCORES.key),
        values=pl.concat([pl.DataFrame(schema=VALUES), *(one.values for one in said)]),
        choices={
            grader.task_id: [choice.model_dump(exclude_none=True) for choice in found[grader.task_id].choices]
            for grader in graders
            if not grader.choices
        },
    )


def _n_workers(grader: TaskGrader, options: RunOptions, bridges: Bridges | None) -> int:
    """As many processes as cores; a grader that waits for models gets as many as the run has calls in flight."""
    if not options.parallel:
        return 1
    if bridges is not None and grader.grader.model_access != "none":
        return options.concurrency or options.limits.concurrency
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _calls_of(folder: RunFolder, task_ids: Sequence[str]) -> int:
    wanted = pl.col("task_id").is_in(list(task_ids)) & (pl.col("status") == "completed")
    scanned = folder.scan("generations").filter(wanted).select(pl.len())
    return int(scanned.collect(engine="in-memory").item())


def _segments(folder: RunFolder, task_id: str, n_segments: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    mine = pl.col("task_id") == task_id
    for segment in range(n_segments):
        if folder.segment("answers", segment).filter(mine).select(pl.len()).collect(engine="in-memory").item():
            generations, answers = (
                folder.segment(name, segment).filter(mine).collect(engine="in-memory")
                for name in ("generations", "answers")
            )
            yield generations, answers


def _warn(grader: TaskGrader, said: TaskGrades) -> None:
    lost = said.grades.filter(pl.col("grader_status") != "graded")
    if lost.is_empty():
        return
    error_type, message = lost.select("grader_error_type", "grader_error_message").row(0)
    first = message.splitlines()[0] if message else ""
    warnings.warn(
        f"the grader of task {grader.task_id!r} failed on {lost.height} of {said.grades.height} calls; the first: "
        f"{error_type}: {first}; run.grades has all of them, run.regrade() grades them again",
        GraderWarning, stacklevel=4,
    )  # fmt: skip


class KeptOutcomes:
    """The outcomes of a task's grader that are in a run's folder, and new ones, written a few at a time."""

    def __init__(self, folder: RunFolder, task_id: str) -> None:
        self._folder = folder
        there = folder.kept(task_id).select("digest", "outcome")
        self._known: dict[str, str] = dict(there.iter_rows())
        self._new: list[tuple[Any, ...]] = []

    def get(self, digest: str, /) -> Outcome | None:
        """Give an outcome; None: not known."""
        text = self._known.get(digest)
        return None if text is None else outcome_of(text)

    def add(self, digest: str, outcome: Outcome, /, *, of: CallKey) -> None:
        """Keep an outcome."""
        self._known[digest] = text_of(outcome)
        model_id, task_id, sample_index, repeat = of
        self._new.append((task_id, digest, model_id, sample_index, repeat, self._known[digest]))
        if len(self._new) >= KEPT_AT_ONCE:
            self.write()

    def write(self) -> None:
        """Write what is new."""
        if self._new:
            self._folder.keep_graded(pl.DataFrame(self._new, schema=GRADED.dtypes, orient="row").sort(GRADED.key))
            self._new = []


@contextmanager
def kept_outcomes(folder: RunFolder, task_id: str) -> Iterator[KeptOutcomes]:
    """Open the kept outcomes of a task; what is new is written in the end, also where the grading is interrupted."""
    known = KeptOutcomes(folder, task_id)
    try:
        yield known
    finally:
        known.write()


def text_of(outcome: Outcome) -> str:
    """Give an outcome as JSON text; NaN and infinities are Python's words for them."""
    match outcome:
        case Returned(value):
            return json.dumps({"returned": [value]})
        case Raised(error_type, message, traceback):
            return json.dumps({"raised": [error_type, message, traceback]})
        case TimedOut(seconds):
            return json.dumps({"timed_out": [seconds]})
        case Broken(reason):
            return json.dumps({"broken": [reason]})


def outcome_of(text: str) -> Outcome:
    """Read an outcome.

    >>> outcome_of(text_of(Returned({"scores": {"a": 1}})))
    Returned(value={'scores': {'a': 1}}, stdout='')
    """
    ((kind, arguments),) = json.loads(text).items()
    outcome: Outcome = _KINDS[kind](*arguments)
    return outcome


def without_failed(kept: pl.DataFrame, *, grades: pl.DataFrame, batches: Collection[str]) -> pl.DataFrame:
    """Keep of GRADED what gave all its scores; a batch is kept as a whole or not at all.

    Args:
        kept: GRADED.
        grades: GRADES of the same run.
        batches: Tasks whose grader is called for a batch.
    """
    failed = grades.filter(pl.col("grader_status") != "graded")
    is_batch = pl.col("task_id").is_in(sorted(batches))
    single = kept.filter(~is_batch).join(failed, on=CALL_KEY, how="anti")
    of_batch = ["model_id", "task_id", "repeat"]
    whole = kept.filter(is_batch).join(failed.filter(is_batch), on=of_batch, how="anti")
    return pl.concat([single, whole]).sort(GRADED.key)


def rows_without(rows: pl.DataFrame, tasks: Iterable[str]) -> pl.DataFrame:
    """Give ROWS without those of some tasks."""
    names = list(tasks)
    return rows.filter(~pl.col("task_id").is_in(names)) if names else rows
