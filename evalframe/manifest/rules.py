"""The rules that tie the fields of a suite together, checked on the raw values so that one fault hides no other.

Values of wrong types are left to ``shape``: each rule looks only at what it can read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from evalframe.errors import Fault
from evalframe.limits import Limits
from evalframe.manifest.extraction import extraction_faults
from evalframe.manifest.fields import is_number, is_text, is_whole
from evalframe.manifest.python import GRADE, TRANSFORM, defined_functions, source_faults
from evalframe.manifest.ranges import id_faults, metadata_faults, range_faults
from evalframe.manifest.shape import child, shown
from evalframe.manifest.sources import dataset_faults
from evalframe.registry import METRICS, suggestion

# keys of a task's metadata that the code_exec metric reads
CODE_METADATA = ("timeout_s", "setup_code", "completes_prompt", "entry_point")


def suite_faults(raw: Mapping[str, Any], limits: Limits, metric_names: Collection[str] | None) -> Iterator[Fault]:
    """Check a whole raw manifest."""
    yield from metadata_faults(raw, "", limits)
    tasks = raw.get("tasks")
    if not isinstance(tasks, list):
        return
    if not tasks:
        yield Fault("tasks", "empty", "the list is empty", "add a task")
    if len(tasks) > limits.suite_tasks:
        detail = f"has {len(tasks)} tasks; at most {limits.suite_tasks} are allowed"
        yield Fault("tasks", "too_many", detail, "split the suite in two")
    yield from _duplicates(tasks, "tasks", "task")
    for index, task in enumerate(tasks):
        if isinstance(task, Mapping):
            given = {key: value for key, value in task.items() if value is not None}
            yield from _task_faults(given, f"tasks[{index}]", limits, metric_names)


def _task_faults(
    task: Mapping[str, Any], where: str, limits: Limits, metric_names: Collection[str] | None
) -> Iterator[Fault]:
    yield from id_faults(task, "id", where)
    yield from metadata_faults(task, where, limits)
    if isinstance(dataset := task.get("dataset"), Mapping):
        yield from dataset_faults(dataset, child(where, "dataset"), limits)
    if isinstance(extraction := task.get("output_extraction"), Mapping):
        yield from extraction_faults(extraction, child(where, "output_extraction"), limits)
    if isinstance(preprocess := task.get("preprocess"), Mapping):
        yield from _preprocess_faults(preprocess, child(where, "preprocess"), limits)
    if isinstance(grader := task.get("grader"), Mapping):
        yield from _grader_faults(grader, child(where, "grader"), limits)
    if task.get("choices") == []:
        remedy = "leave it out where the row has its own choices, or name them"
        yield Fault(child(where, "choices"), "empty", "the list is empty", remedy)
    yield from _fewshot_faults(task, where, limits)
    yield from _metric_faults(task, where, limits, metric_names)


def _metric_faults(
    task: Mapping[str, Any], where: str, limits: Limits, metric_names: Collection[str] | None
) -> Iterator[Fault]:
    metrics, has_grader = task.get("metrics", []), "grader" in task
    if metrics == [] and not has_grader:
        yield Fault(
            where, "no_scoring", "has neither metrics nor a grader",
            'add metrics, as in "metrics": [{"id": "exact_match"}], or a grader',
        )  # fmt: skip
    if not isinstance(metrics, list):
        return
    at = child(where, "metrics")
    yield from _duplicates(metrics, at, "metric")
    for index, metric in enumerate(metrics):
        name = metric.get("id") if isinstance(metric, Mapping) else None
        if not isinstance(metric, Mapping) or not is_text(name):
            continue
        here = child(at, index)
        bad = list(id_faults(metric, "id", here))
        yield from bad
        if has_grader or bad:
            continue  # with a grader the ids are keys that it returns
        if not (name in METRICS if metric_names is None else name in metric_names):
            known = METRICS.names() if metric_names is None else sorted(metric_names)
            detail = f"there is no metric {shown(name)}, and the task has no grader that returns it"
            yield Fault(child(here, "id"), "unknown_metric", detail, f"{suggestion(name, known)} (or add a grader)")
        elif "target_template" not in task and _needs_target(name):
            yield Fault(
                child(where, "target_template"), "missing", f"is missing; the metric {name} compares with a target",
                'add one, as in "target_template": "{{answer}}"',
            )  # fmt: skip
        if name == "code_exec":
            yield from _code_metadata_faults(task.get("metadata"), child(where, "metadata"), limits)


def _needs_target(name: str) -> bool:
    return name in METRICS and bool(METRICS.get(name).needs_target)


def _code_metadata_faults(metadata: Any, where: str, limits: Limits) -> Iterator[Fault]:
    if not isinstance(metadata, Mapping):
        return
    timeout = metadata.get("timeout_s")
    if timeout is not None and not is_number(timeout):
        yield Fault(child(where, "timeout_s"), "bad_type", f"{shown(timeout)} is no number", "give seconds, as in 3")
    yield from range_faults(metadata, "timeout_s", where, 0, limits.code_timeout_seconds_max, above=True)
    kinds = (
        ("setup_code", str, "a string"),
        ("entry_point", str, "a name"),
        ("completes_prompt", bool, "true or false"),
    )
    for key, kind, needed in kinds:
        if metadata.get(key) is not None and not isinstance(metadata[key], kind):
            detail = f"{shown(metadata[key])} is not {needed}, which code_exec needs"
            yield Fault(child(where, key), "bad_type", detail, f"give {needed}")


def _grader_faults(grader: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    given = {key: value for key, value in grader.items() if value is not None}
    contract, execution = given.get("contract", "sample"), given.get("execution")
    if (contract, execution) in (("sample", "aggregate"), ("batch", "per_sample")):
        other = "per_sample" if execution == "aggregate" else "aggregate"
        detail = f"{shown(execution)} does not go with contract {shown(contract)}"
        yield Fault(child(where, "execution"), "illegal_pair", detail, f'write "{other}", or leave execution out')
    yield from id_faults(given, "metric_id", where)
    yield from range_faults(given, "timeout_seconds", where, 1, limits.python_timeout_seconds)
    yield from range_faults(given, "max_model_calls", where, 0, limits.model_calls, whole=True)
    functions = GRADE.get(contract) if is_text(contract) else None
    if contract == "model_backed":
        # without a stated execution either function will do, and the one that is there decides
        names = defined_functions(given.get("source"))
        batch = execution == "aggregate" or (execution is None and "grade" not in names and "grade_batch" in names)
        functions = GRADE["batch"] if batch else GRADE["sample"]
    yield from _python_faults(given, where, functions, GRADE)


def _preprocess_faults(preprocess: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    given = {key: value for key, value in preprocess.items() if value is not None}
    contract = given.get("contract", "row")
    yield from range_faults(given, "timeout_seconds", where, 1, limits.python_timeout_seconds)
    yield from _python_faults(given, where, TRANSFORM.get(contract) if is_text(contract) else None, TRANSFORM)


def _python_faults(
    given: Mapping[str, Any], where: str, functions: Any, contracts: Mapping[str, Any]
) -> Iterator[Fault]:
    both = [key for key in ("source", "file_id") if key in given]
    if len(both) != 1:
        detail = "has both source and file_id" if both else "has neither source nor file_id"
        remedy = "keep one of them" if both else "add source with the Python text, or file_id with its file"
        yield Fault(where, "one_source", detail, remedy)
    if is_text(file_id := given.get("file_id")) and not file_id.strip():
        yield Fault(child(where, "file_id"), "empty", f"{shown(file_id)} is blank", "write the file's id")
    if is_text(given.get("source")) and functions:
        yield from source_faults(given["source"], child(where, "source"), functions, others=contracts)


def _fewshot_faults(task: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    raw = task.get("fewshot")
    fewshot = {key: value for key, value in raw.items() if value is not None} if isinstance(raw, Mapping) else {}
    at = child(where, "fewshot")
    alias, count = task.get("num_fewshot"), fewshot.get("count")
    if alias is not None and not is_whole(alias):
        yield Fault(
            child(where, "num_fewshot"), "bad_type", f"{shown(alias)} is no integer", "give an integer, as in 2"
        )
    elif alias is not None and is_whole(count) and alias != count:
        detail = f"is {alias}, but fewshot.count is {count}; the first is an alias of the second"
        yield Fault(child(where, "num_fewshot"), "conflict", detail, "keep one of the two")
    yield from range_faults(task, "num_fewshot", where, 0, limits.fewshot_examples, whole=True)
    yield from range_faults(fewshot, "count", at, 0, limits.fewshot_examples, whole=True)
    yield from range_faults(fewshot, "seed", at, 0, whole=True)
    if isinstance(dataset := fewshot.get("dataset"), Mapping):
        yield from dataset_faults(dataset, child(at, "dataset"), limits, default_split="train")
    wanted = count if count is not None else alias
    template = fewshot.get("example_template", "{{prompt}}\n{{target}}")
    has_target = "target_template" in task or "target_template" in fewshot
    shows_target = is_text(template) and re.search(r"\{\{\s*target\s*\}\}", template)
    if is_whole(wanted) and wanted > 0 and not has_target and shows_target:
        detail = "is missing; the examples have a {{target}} and no template for it"
        remedy = "add it to the task or to fewshot, or take {{target}} out of example_template"
        yield Fault(child(where, "target_template"), "missing_for_fewshot", detail, remedy)


def _duplicates(objects: list[Any], where: str, kind: str) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for index, one in enumerate(objects):
        name = one.get("id") if isinstance(one, Mapping) else None
        if not is_text(name):
            continue
        if name in first:
            detail = f"the {kind} {shown(name)} stands at {child(where, first[name])} already"
            yield Fault(child(child(where, index), "id"), "duplicate", detail, "ids are unique; rename or drop one")
        first.setdefault(name, index)
