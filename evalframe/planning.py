"""From a source to the rows of a run: everything that is done before a model is called."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from evalframe import prompts
from evalframe.advice import FROM_CALLER, warn_of
from evalframe.assembling import sandbox_policy
from evalframe.data.files import FileStore
from evalframe.data.tables import content_hash
from evalframe.errors import (
    DatasetError,
    EvalframeError,
    Fault,
    NotBuiltError,
    OptionError,
    PreprocessError,
    TaskFileError,
)
from evalframe.frames import check, empty
from evalframe.graders import graded_tasks, rows_without
from evalframe.inlining import with_sources
from evalframe.loading import task_records
from evalframe.manifest.suite import Suite, Task
from evalframe.manifest.taskfile import TASK_SPEC_VERSION
from evalframe.manifest.version import file_ids, suite_version
from evalframe.metrics.code import code_faults
from evalframe.options import RunOptions
from evalframe.registry import suggestion
from evalframe.sandbox.policy import require_walls
from evalframe.schemas import ROWS
from evalframe.sources import DataSource, Source, SuiteSource, TaskSource


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will evaluate.

    Attributes:
        rows: ROWS, prompts included.
        manifest: What ``manifest.json`` keeps.
        version: Content hash of all that affects results.
        parts: Hash of each part of each task; empty for task files.
        content_hashes: Hash of the bytes of each file that the suite names.
        bad_tasks: Faults of what is left out: lines of a task file, tasks whose preprocessor failed.
        graders: What ``run.json`` keeps of the grader of each task that has one (``inlining.with_sources``).
        notes: What a reader of the figures must know.
    """

    rows: pl.DataFrame
    manifest: Mapping[str, Any]
    version: str
    parts: Mapping[str, Mapping[str, str]]
    content_hashes: Mapping[str, str]
    bad_tasks: tuple[str, ...] = ()
    graders: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def make_plan(source: Source, *, options: RunOptions) -> Plan:
    """Load the data and render the prompts of a source.

    Raises:
        NotBuiltError: The source uses a part of the format that this version does not run; all such parts are named.
        DatasetError: A file is missing or has bad lines.
        PreprocessError: Preprocessors of tasks failed, all of which are named, and ``skip_failed_tasks`` is not set
            or no task is left.
        SandboxError: A preprocessor would have to run without walls; see ``allow_unsandboxed``.
        TaskFileError: A task file has bad lines and ``allow_bad_tasks`` is not set.
        OptionError: ``task_ids`` names tasks that are not there.
    """
    if isinstance(source, TaskSource):
        plan = _plan_tasks(source, options)
    else:
        plan = _plan_data(source, options) if isinstance(source, DataSource) else _plan_suite(source, options)
    if faults := code_faults(rows_without(plan.rows, graded_tasks(plan.manifest)), limits=options.limits):
        raise DatasetError.of(faults, what="the code tasks")
    return plan


def check_built(suite: Suite) -> None:
    """Refuse what this version does not run, all of it at once, before anything is loaded or called.

    Raises:
        NotBuiltError: Names each part with its path.
    """
    if faults := unbuilt(suite):
        raise NotBuiltError.of(faults, what="the suite is valid, but this version does not run all of it")


def unbuilt(suite: Suite) -> list[Fault]:
    """Name the parts of a valid suite that this version does not run."""
    return [fault for index, task in enumerate(suite.tasks) for fault in _unbuilt(task, f"tasks[{index}]")]


def _unbuilt(task: Task, where: str) -> Iterable[Fault]:
    hub = "save the split as a .jsonl file and name it by file_id"
    if task.dataset.source == "huggingface":
        yield Fault(f"{where}.dataset", "not_built", "data from the Hugging Face Hub is not loaded yet", hub)
    if task.fewshot.count and task.fewshot.dataset is not None and task.fewshot.dataset.source == "huggingface":
        yield Fault(f"{where}.fewshot.dataset", "not_built", "data from the Hugging Face Hub is not loaded yet", hub)


def _plan_suite(source: SuiteSource, options: RunOptions) -> Plan:
    suite = source.suite
    check_built(suite)
    given = {name: Path(path) for name, path in options.files.items()}
    files = FileStore(files={**given, **source.files}, folder=source.folder)
    suite, graders = with_sources(suite, files, limits=options.limits)
    named = {one["file_id"] for one in graders.values() if "file_id" in one}
    wanted = _wanted([task.id for task in suite.tasks], options)
    if any(task.preprocess is not None for task in suite.tasks if task.id in wanted):
        missing = require_walls(sandbox_policy(options), what="Python preprocessors")
        warn_of(missing, stacklevel=FROM_CALLER + 2)  # through make_plan and here
    built: list[pl.DataFrame] = []
    faults: list[Fault] = []
    failed: dict[str, list[Fault]] = {}
    for index, task in enumerate(suite.tasks):
        if task.id not in wanted:
            continue
        name = f"task {task.id}"
        try:
            records, fewshot_records = task_records(task, index=index, files=files, options=options)
            if task.preprocess is not None:
                name += " (lines are counted after its preprocessor)"
            built.append(_task_rows(task, records, options, fewshot_records=fewshot_records))
        except PreprocessError as error:
            failed[task.id] = _with_name(error, name)
        except DatasetError as error:
            faults += _with_name(error, name)
    if failed and not (options.skip_failed_tasks and (built or faults)):
        raise _preprocess_error([*(fault for of_task in failed.values() for fault in of_task), *faults], failed, built)
    if faults:
        raise DatasetError.of(faults, what="the data of the suite")
    rows = pl.concat(built, how="diagonal").sort("task_id", "sample_index")
    hashes = {name: files.hash(name) for name in sorted({*file_ids(suite), *named})}
    plan = suite_plan(rows, suite=suite, content_hashes=hashes, graders=graders)
    return replace(plan, bad_tasks=tuple(_on_one(of_task) for of_task in failed.values()), notes=_left_out(failed))


def _plan_data(source: DataSource, options: RunOptions) -> Plan:
    (task,) = source.suite.tasks
    _wanted([task.id], options)
    needed = prompts.needed_paths(task)
    records = source.table.records(needed.fields, needed.items)
    hashes = dict.fromkeys(file_ids(source.suite), content_hash(records))
    return suite_plan(_task_rows(task, records, options), suite=source.suite, content_hashes=hashes)


def suite_plan(
    rows: pl.DataFrame, *, suite: Suite, content_hashes: Mapping[str, str], graders: Mapping[str, Any] | None = None
) -> Plan:
    """Give the plan of a suite whose rows are made."""
    version = suite_version(suite, content_hashes=content_hashes)
    return Plan(
        check(rows, ROWS), suite.to_manifest(), version.version, version.parts, content_hashes, graders=graders or {}
    )


def _task_rows(
    task: Task, records: pl.DataFrame, options: RunOptions, *, fewshot_records: pl.DataFrame | None = None
) -> pl.DataFrame:
    rows = prompts.suite_rows(
        task,
        records,
        fewshot_records=fewshot_records,
        on_missing=options.on_missing,
        sample_ids=options.sample_ids,
        max_metadata_columns=options.limits.metadata_columns,
    )
    return rows if options.max_samples_per_task is None else rows.head(options.max_samples_per_task)


def _plan_tasks(source: TaskSource, options: RunOptions) -> Plan:
    if source.faults and not options.allow_bad_tasks:
        good = "allow_bad_tasks=True runs the good ones" if source.records else "data of your own goes with prompt="
        raise TaskFileError.of(list(source.faults), what=f"the task file has bad lines ({good})")
    if not source.records:
        raise TaskFileError("there is no task to run; a task file has one JSON object a line")
    wanted = _wanted([record.task_id for record in source.records], options)
    records = [record for record in source.records if record.task_id in wanted]
    rows = prompts.task_rows(records) if records else empty(ROWS)
    manifest = {"task_spec_version": TASK_SPEC_VERSION, "tasks_in": "rows.parquet, column row"}
    return Plan(check(rows, ROWS), manifest, rows_version(rows), {}, {}, tuple(str(fault) for fault in source.faults))


def rows_version(rows: pl.DataFrame) -> str:
    """Hash what affects the results of task records: everything but their metadata columns."""
    digest = hashlib.blake2b(digest_size=16)
    for column in ("task_id", "prompt_hash", "targets", "metrics", "extraction"):
        digest.update(rows.select(column).write_ndjson().encode())
    return digest.hexdigest()


def _wanted(there: list[str], options: RunOptions) -> set[str]:
    if options.task_ids is None:
        return set(there)
    faults = [
        Fault(f"task_ids[{index}]", "unknown_task", f"there is no task {name!r}", suggestion(name, there))
        for index, name in enumerate(options.task_ids)
        if name not in set(there)
    ]
    if not options.task_ids:
        faults.append(Fault("task_ids", "empty", "names no task", "leave it out to run all"))
    if faults:
        raise OptionError.of(faults, what="options of the run")
    return set(options.task_ids)


def _preprocess_error(
    faults: Sequence[Fault], failed: Collection[str], built: Sequence[pl.DataFrame]
) -> EvalframeError:
    """Give the error for preprocessors that failed; what is wrong with the data of other tasks is said with it."""
    tasks = f"{len(failed)} task{'s' if len(failed) != 1 else ''}"
    way_out = ", or run the other tasks: skip_failed_tasks=True" if built else ""
    what = f"the preprocessor of {tasks} failed, and no model was called; correct it{way_out}"
    return PreprocessError.of(faults, what=what)


def _left_out(failed: Mapping[str, Sequence[Fault]]) -> tuple[str, ...]:
    return tuple(
        f"task {task_id} is left out, because its preprocessor failed: {faults[0].detail.splitlines()[0]}"
        for task_id, faults in failed.items()
    )


def _on_one(faults: Sequence[Fault]) -> str:
    what, newline, below = str(faults[0]).partition("\n")
    more = f" (and {len(faults) - 1} more of its rows)" if len(faults) > 1 else ""
    return f"{what}{more}{newline}{below}"


def _with_name(error: EvalframeError, name: str) -> list[Fault]:
    """Name the task in the faults of its data."""
    if not error.fault_records:
        return [Fault(name, "dataset", error.message)]
    return [
        Fault(f"{name}: {fault.where}", fault.rule, fault.detail, fault.remedy)
        for fault in error.fault_records
        if isinstance(fault, Fault)
    ]
