"""Graders that stand in files become text of the manifest, so that a run's folder holds all that scores it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalframe.data.files import FileStore
from evalframe.errors import DatasetError, Fault, ManifestError
from evalframe.limits import Limits
from evalframe.manifest.suite import Suite, parse_suite

Told = dict[str, dict[str, Any]]


def with_sources(
    suite: Suite, files: FileStore, *, limits: Limits, known: Mapping[str, str] | None = None
) -> tuple[Suite, Told]:
    """Read the graders' files, and hold them to the rules of a text in a manifest.

    Without a stated ``execution`` a model-backed grader is called once a sample or once a batch by the function that
    its file defines; ``per_sample`` counts as not stated.

    Args:
        suite: The suite.
        files: Where its files are.
        limits: The table of numbers.
        known: Texts that stand for files that are not there any more, by file id.

    Returns:
        The suite, each grader with its ``source``; and of each task that has one what ``run.json`` keeps: ``name``
        (what tracebacks call it), ``file_id`` and ``files`` (file id to path, of all files of the task).

    Raises:
        DatasetError: A file is missing.
        ManifestError: A text does not compile, or lacks its function; the file is named.
    """
    if all(task.grader is None for task in suite.tasks):
        return suite, {}
    manifest = suite.to_manifest()
    told: Told = {}
    names: dict[str, str] = {}
    for index, task in enumerate(manifest["tasks"]):
        grader = task.get("grader")
        if grader is None:
            continue
        where = f"tasks[{index}].grader.source"
        told[task["id"]] = {"name": where, "files": _files_of(task, files)}
        if (file_id := grader.pop("file_id", None)) is not None:
            told[task["id"]]["name"], grader["source"] = _read(file_id, files, known or {})
            told[task["id"]]["file_id"] = file_id
            names[where] = f"tasks[{index}].grader.file_id ({told[task['id']]['name']})"
            if grader["contract"] == "model_backed" and grader["execution"] == "per_sample":
                del grader["execution"]
    entries = {choice["id"] for task in manifest["tasks"] for choice in task["metrics"]}  # each was looked up before
    try:
        return parse_suite(manifest, limits=limits, metric_names=entries), told
    except ManifestError as error:
        raise ManifestError.of([_placed(fault, names) for fault in error.fault_records], what="the suite") from None


def _placed(fault: Any, names: Mapping[str, str]) -> Fault:
    return Fault(names.get(fault.where, fault.where), fault.rule, fault.detail, fault.remedy)


def _read(file_id: str, files: FileStore, known: Mapping[str, str]) -> tuple[str, str]:
    try:
        path = files.resolve(file_id)
    except DatasetError:
        if file_id not in known:
            raise
        return file_id, known[file_id]
    try:
        return path.name, path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: the grader is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _files_of(task: Mapping[str, Any], files: FileStore) -> dict[str, str]:
    """Give the paths of the files that a task names; one that is not there is no harm to its grader."""
    fewshot = (task.get("fewshot") or {}).get("dataset") or {}
    users = (task["dataset"], fewshot, task.get("preprocess") or {}, task.get("grader") or {})
    found: dict[str, str] = {}
    for file_id in (user.get("file_id") for user in users):
        if file_id is not None:
            try:
                found[file_id] = str(Path(files.resolve(file_id)).resolve())
            except DatasetError:
                continue
    return found
