"""A run scored anew on the replies that it has: no model is called, no key is needed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from evalframe import prompts
from evalframe.assembling import assemble, check_sandbox, sandbox_policy
from evalframe.choosing import EXTRACT_FORMS, METRIC_FORMS, extraction_of, graders_by_task, metrics_of
from evalframe.data.columns import records_of
from evalframe.data.files import NO_FILES, FileStore
from evalframe.deriving import begin
from evalframe.errors import DatasetError, Fault, ManifestError, OptionError
from evalframe.feasibility import agreement_faults
from evalframe.frames import check, listed
from evalframe.generate.calls import repeats_by_task
from evalframe.graders import check_graders, graded_tasks, rows_without, task_graders
from evalframe.inlining import with_sources
from evalframe.jsontext import clean, dumps, loads
from evalframe.judging import check_judges, ids_of, judges_of
from evalframe.manifest.generation import parse_generation
from evalframe.manifest.suite import Suite, parse_suite
from evalframe.manifest.version import WHOLE_TASK, differing_parts, file_ids, suite_version
from evalframe.metrics.code import code_faults
from evalframe.options import RunOptions, option_faults
from evalframe.planning import check_built, rows_version
from evalframe.recording import model_ids, now, recorded_suite
from evalframe.registry import suggestion
from evalframe.result import Run
from evalframe.schemas import METRIC_CHOICES, ROWS
from evalframe.sources import SuiteSource, read_source
from evalframe.versions import Part, differing_rows, of_samples, part_notes, refuse, run_parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ByTask = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Definition:
    """What the new run is scored by."""

    rows: pl.DataFrame
    manifest: Mapping[str, Any]
    changes: Mapping[str, Any]
    differing: Sequence[Part] = ()
    notes: Sequence[str] = field(default_factory=list)


def rescore(
    run: Run,
    *,
    manifest: Any = None,
    extract: Any = None,
    metrics: Any = None,
    graders: Any = None,
    confidence: Any = None,
    judge_model: Any = None,
    embedding_model: Any = None,
    files: Mapping[str, str | os.PathLike[str]] = NO_FILES,
    allow_unsandboxed: bool = False,
    out: str | os.PathLike[str] | bool | None = None,
) -> Run:
    """Score the replies of a run by other definitions, as a new run.

    Args:
        run: The run; it stays as it is.
        manifest: A suite (path of a .json file, dict, ``Suite``). Targets, choices, extraction, metrics and metadata
            are taken from it; data set, preprocessor, prompt and few-shot examples must be the run's. Tasks that it
            lacks are left out.
        extract: An extraction for all tasks (a type, a config), or a mapping of task id to one.
        metrics: A list of metrics for all tasks, or a mapping of task id to one.
        graders: A grader for all tasks (a .py file, Python text, an entry of a manifest), or a mapping of task id to
            one, or to None for none. A task that had no grader is scored by the new one's ``metric_id``, where
            ``metrics`` names nothing else.
        confidence: Where confidences come from, as in a run; ``"adapter"``: from the adapter again. None: as before.
        judge_model, embedding_model: What ``ctx`` of graders reaches, in any form of a model; one that was given as an
            object is handed in again. None: as before. Their calls are paid for.
        files: ``file_id`` to path, for the manifest. A file that is not found counts as the one that the run read
            under the same id.
        allow_unsandboxed: Run generated code without walls but resource limits, where the run itself may not yet.
        out: The new folder; None: temporary where the run is, else a new one under the user's data directory.

    Returns:
        The new run; its calls are those of the old one, and it can be compared with it.

    Raises:
        VersionMismatch: The manifest has another data set, preprocessor, prompt or other few-shot examples, or a task
            that the run has not; or other choices, where the replies are choices. Each is named.
        OptionError, ManifestError: What was given is wrong; every fault is named.
        SandboxError: A grader does not load, or may not run here.
        RunFolderError: The run is being written now, or the new folder holds something already.
    """
    judges = {"judge_model": judge_model, "embedding_model": embedding_model}
    judges = {role: model for role, model in judges.items() if model is not None}
    if not judges and all(given is None for given in (manifest, extract, metrics, graders, confidence)):
        raise OptionError("rescore changes nothing: give manifest=, extract=, metrics=, graders= or confidence=")
    recalled = RunOptions.recall(run.record["options"])
    options = dataclasses.replace(
        recalled,
        files=files,
        out=out,
        allow_unsandboxed=allow_unsandboxed or recalled.allow_unsandboxed,
        confidence=recalled.confidence if confidence is None else confidence,
        **judges,
    )
    faults = option_faults(options)
    faults += agreement_faults(run.rows, options)
    task_ids = run.rows["task_id"].unique().sort().to_list()
    extractions, of_extract = _by_task(extract, task_ids, "extract", options)
    choices, of_metrics = _by_task(metrics, task_ids, "metrics", options)
    given, files_of_graders, of_graders = graders_by_task(graders, task_ids)
    options = dataclasses.replace(options, files={**files, **files_of_graders})
    if faults := [*faults, *of_extract, *of_metrics, *of_graders]:
        raise OptionError.of(faults, what="rescore")
    if run.record["kind"] == "suite":
        definition = _of_suite(run, manifest, extractions, choices, given, options)
    elif manifest is not None or given:
        what = "manifest" if manifest is not None else "graders"
        raise OptionError(f"this run is one of a task file, which has no {what}; give extract= or metrics=")
    else:
        definition = _of_tasks(run, extractions, choices)
    graded = graded_tasks(definition.manifest)
    if faults := code_faults(rows_without(definition.rows, graded), limits=options.limits):
        raise DatasetError.of(faults, what="the code tasks")
    check_sandbox(definition.rows, options=options, graded=graded)
    asked = _check_graders(run, definition, options, judges=judges)
    return _scored(run, definition, options, asked=asked)


def _check_graders(
    run: Run, definition: _Definition, options: RunOptions, *, judges: Mapping[str, Any]
) -> dict[str, str | None]:
    """Refuse graders that do not load and judges that can not be called; gives the ids of the judges that are given."""
    found = task_graders(definition.manifest, definition.rows, record=definition.changes)
    new = {task for task, part in definition.differing if part == "grader"}  # the others were loaded before
    check_graders([one for one in found if one.task_id in new], policy=sandbox_policy(options))
    touched = {one.task_id for one in found} if judges else {task for task, _ in definition.differing}
    there = judges_of(options)
    settings = parse_generation(run.record["generation"], limits=options.limits)
    check_judges(
        there, [one for one in found if one.task_id in touched], options=options, settings=settings, models=()
    )  # fmt: skip
    return {role: name for role, name in ids_of(there).items() if role in judges}


def _scored(run: Run, definition: _Definition, options: RunOptions, *, asked: Mapping[str, str | None]) -> Run:
    # a task may have another category now, or be left out: the repeats that it was called with stay
    options = dataclasses.replace(options, repeats=repeats_by_task(run.rows, options.repeats, of=definition.rows))
    told = [f"scored anew from run {run.record['run_id']}: {note}" for note in part_notes(definition.differing)]
    kept = definition.rows.select("task_id", "sample_index", place="sample_index")
    folder = begin(
        [run],
        how="rescore",
        rows=definition.rows,
        manifest=definition.manifest,
        changes={**definition.changes, **asked, "options": options.recorded()},
        notes=[*told, *definition.notes],
        places=[None if kept.height == run.rows.height else kept],
        out=options.out,
    )
    with folder.locked():
        assemble(folder, options=options, model_ids=model_ids(run.record))
        folder.update_record(ended_at=now())
    return Run(folder)


def _by_task(given: Any, task_ids: list[str], where: str, options: RunOptions) -> tuple[ByTask, list[Fault]]:
    """Read ``extract`` or ``metrics``: what each task is given; a task that is not named keeps what it has."""
    mark = "type" if where == "extract" else "id"
    if given is None:
        return {}, []
    # a task may be called "type", or "id": what stands under it then is no text
    if isinstance(given, Mapping) and given and (mark not in given or isinstance(given[mark], Mapping | list | tuple)):
        found: ByTask = {}
        faults: list[Fault] = []
        for task_id, one in given.items():
            at = f"{where}[{task_id!r}]"
            if task_id not in task_ids:
                forms = EXTRACT_FORMS if where == "extract" else METRIC_FORMS
                known = f"{suggestion(str(task_id), task_ids)}; for all tasks alike give {forms}"
                faults.append(Fault(at, "unknown_task", f"the run has no task {task_id!r}", known))
                continue
            found[task_id], more = _one(one, at, where, options)
            faults += more
        return found, faults
    one, faults = _one(given, where, where, options)
    return dict.fromkeys(task_ids, one), faults


def _one(given: Any, at: str, where: str, options: RunOptions) -> tuple[Any, list[Fault]]:
    if where == "extract":
        return extraction_of(given, where=at, limits=options.limits)
    entries, faults = metrics_of(given, where=at)
    return (entries, faults) if faults else _whole_entries(entries, at, options)


def _whole_entries(entries: list[dict[str, Any]], at: str, options: RunOptions) -> tuple[Any, list[Fault]]:
    """Hold entries to the rules of a manifest, and fill in what they leave out."""
    task = {"id": "t", "type": "qa", "dataset": {"file_id": "f"}, "target_template": "{{t}}", "metrics": entries}
    place = "tasks[0].metrics"
    try:
        suite = parse_suite({"tasks": [task]}, limits=options.limits)
    except ManifestError as error:
        return [], [
            Fault(fault.where.replace(place, at), fault.rule, fault.detail.replace(place, at), fault.remedy)
            for fault in error.fault_records
            if isinstance(fault, Fault)
        ]
    return [choice.model_dump(exclude_none=True) for choice in suite.tasks[0].metrics], []


def _of_suite(
    run: Run, manifest: Any, extractions: ByTask, choices: ByTask, graders: ByTask, options: RunOptions
) -> _Definition:
    suite = recorded_suite(run.folder, limits=options.limits)
    folder: Path | None = None
    hashes = dict(run.record["content_hashes"])  # without a manifest no data is looked at
    if manifest is not None:
        source = read_source(manifest, limits=options.limits)
        if not isinstance(source, SuiteSource):
            raise OptionError("manifest= is a task file; give a suite manifest")
        suite, folder = source.suite, source.folder
    suite = _with_choices(suite, extractions, choices, graders, options)
    check_built(suite)
    files = FileStore(files=options.files, folder=folder)
    suite, told = with_sources(suite, files, limits=options.limits, known=_own_texts(run))
    if manifest is not None:
        hashes = _hashes(suite, hashes, files)
    else:  # a grader that stays is called as it was
        told |= {
            task: one for task, one in run.record.get("graders", {}).items() if task in told.keys() - graders.keys()
        }
    version = suite_version(suite, content_hashes=hashes)
    there = run_parts(run)
    # tasks of its suite that the run was not asked for (task_ids) are not scored, whatever the manifest says of them
    idle = run.record["parts"].keys() - there.keys()
    given = {task: parts for task, parts in version.parts.items() if task not in idle}
    _refuse_other_samples(there, given, chosen=options.request_type == "loglikelihood")
    lacking = sorted(set(there) - set(version.parts))
    differing = [part for part in differing_parts(there, version) if part[1] != WHOLE_TASK]
    scored = [task for task in suite.tasks if task.id in there]
    if not scored:
        raise OptionError(f"manifest= has no task of this run, which has {listed(lacking)}")
    by_task = run.rows.partition_by("task_id", as_dict=True)
    parts = [_task_rows(by_task[task.id,], task, options, again=manifest is not None) for task in scored]
    rows = pl.concat(parts, how="diagonal").sort("task_id", "sample_index")
    notes = [f"the manifest has no task {listed(lacking)}: left out"] if lacking else []
    changes = {"version": version.version, "parts": version.parts, "content_hashes": hashes, "graders": told}
    return _Definition(check(rows, ROWS), suite.to_manifest(), changes, differing, notes)


def _refuse_other_samples(
    there: Mapping[str, Mapping[str, str]], given: Mapping[str, Mapping[str, str]], *, chosen: bool
) -> None:
    """Refuse tasks whose replies are not those of the run; where they are choices, those must be the same too."""
    parts = differing_parts(there, given)
    choices = [(task, part) for task, part in parts if chosen and part == "choices"]
    new = [(task, part) for task, part in parts if part == WHOLE_TASK and task not in there]
    refuse(
        [*of_samples(parts), *choices, *new],
        what="the replies of this run are not to these tasks",
        remedy="start a new run, or take it out of the manifest" if new else "start a new run, or write it as it was",
    )


def _own_texts(run: Run) -> dict[str, str]:
    """Give the texts of the graders that the run has from files, by file id."""
    told = run.record.get("graders", {})
    texts = {task["id"]: task["grader"]["source"] for task in run.folder.manifest()["tasks"] if task.get("grader")}
    return {one["file_id"]: texts[task] for task, one in told.items() if "file_id" in one and task in texts}


def _with_choices(suite: Suite, extractions: ByTask, choices: ByTask, graders: ByTask, options: RunOptions) -> Suite:
    manifest = suite.to_manifest()
    for task in manifest["tasks"]:
        if task["id"] in extractions:
            task["output_extraction"] = extractions[task["id"]]
        if task["id"] in choices:
            task["metrics"] = choices[task["id"]]
        if task["id"] in graders:
            if "grader" not in task and task["id"] not in choices:
                task["metrics"] = []  # those were of built-in metrics, which the grader need not return
            task["grader"] = graders[task["id"]]
    names = {choice["id"] for task in manifest["tasks"] for choice in task["metrics"]}  # each was looked up before
    return parse_suite(manifest, where="the suite with what was given", limits=options.limits, metric_names=names)


def _hashes(suite: Suite, known: Mapping[str, str], store: FileStore) -> dict[str, str]:
    hashes = {}
    for name in file_ids(suite):
        try:
            hashes[name] = store.hash(name)
        except DatasetError:
            if name not in known:
                raise
            hashes[name] = known[name]  # the run's own data, which need not be there any more
    return hashes


def _task_rows(rows: pl.DataFrame, task: Any, options: RunOptions, *, again: bool) -> pl.DataFrame:
    if again:
        needed = prompts.needed_paths(task)
        # one record at a time: each has its own types, which no column has
        parsed = ((number, loads(row)) for number, row in enumerate(rows["row"], 1))
        records, faults = records_of(parsed, fields=needed.fields, items=needed.items)
        assert not faults, faults  # they were records when the run began
        # a field that no sample of a part has may stand in the others
        on_missing = options.on_missing if options.max_samples_per_task is None else "warn"
        return prompts.with_definitions(
            rows, task=task, records=records, on_missing=on_missing,
            max_metadata_columns=options.limits.metadata_columns,
        )  # fmt: skip
    entries = [choice.model_dump(include={"id", "aggregation", "higher_is_better"}) for choice in task.metric_choices]
    return rows.with_columns(
        pl.Series("extraction", [clean(dumps(task.extraction_config))]).new_from_index(0, rows.height),
        pl.Series("metrics", [entries], dtype=METRIC_CHOICES).new_from_index(0, rows.height),
    )


def _of_tasks(run: Run, extractions: ByTask, choices: ByTask) -> _Definition:
    names = dict.fromkeys(("task_id", "text"), pl.String)
    texts = [(task, clean(dumps(config))) for task, config in extractions.items()]
    metrics = pl.DataFrame(
        {"task_id": list(choices), "new": list(choices.values())}, schema={"task_id": pl.String, "new": METRIC_CHOICES}
    )
    rows = (
        run.rows.join(metrics, on="task_id", how="left", maintain_order="left")
        .join(pl.DataFrame(texts, schema=names, orient="row"), on="task_id", how="left", maintain_order="left")
        .with_columns(metrics=pl.coalesce("new", "metrics"), extraction=pl.coalesce("text", "extraction"))
        .drop("new", "text")
    )
    differing = list(differing_rows(run.rows, rows))
    return _Definition(check(rows, ROWS), run.folder.manifest(), {"version": rows_version(rows)}, differing)
