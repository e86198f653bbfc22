"""What a user hands to ``run`` becomes a suite or a list of task records, validated whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalframe.errors import Fault, OptionError, TaskFault
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.suite import Suite, parse_suite
from evalframe.manifest.taskfile import TaskRecord, parse_records, validate_file, validate_files

FORMS = (
    "a suite manifest (a .json file, a dict with 'tasks', a Suite), task records (a .jsonl file, a list of dicts with "
    "'task_id'), or a list of .jsonl files"
)


@dataclass(frozen=True, slots=True)
class SuiteSource:
    """A validated suite, and the folder against which its relative files are found: the manifest's, or for one that
    came from memory the working folder.
    """

    suite: Suite
    folder: Path


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Task records, and the lines that are none."""

    records: Sequence[TaskRecord]
    faults: Sequence[TaskFault]


Source = SuiteSource | TaskSource


def read_source(source: Any, *, limits: Limits = DEFAULT_LIMITS) -> Source:
    """Read and validate a source.

    Args:
        source: One of the forms that ``FORMS`` names.
        limits: The table of numbers.

    Raises:
        ManifestError: Every fault of a manifest.
        OptionError: The source is none of the forms, or a file is missing.
        TaskFileError: A task file can not be read at all; bad lines are in the result's ``faults``.
    """
    if isinstance(source, Suite):
        return SuiteSource(parse_suite(source, limits=limits), Path.cwd())
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source), limits)
    if isinstance(source, Mapping):
        if "tasks" in source:
            return SuiteSource(parse_suite(source, limits=limits), Path.cwd())
        if "task_id" in source:
            return TaskSource(*parse_records([source], limits=limits))
        raise _no_source(f"a dict with the keys {', '.join(map(str, source)) or '(none)'}")
    if isinstance(source, Sequence) and len(source):
        if all(isinstance(one, Mapping) and "task_id" in one for one in source):
            return TaskSource(*parse_records(source, limits=limits))
        if all(isinstance(one, TaskRecord) for one in source):
            return TaskSource(list(source), [])
        if all(isinstance(one, str | os.PathLike) and Path(one).suffix != ".json" for one in source):
            return TaskSource(*validate_files([_existing(Path(one)) for one in source], limits=limits))
    if isinstance(source, Sequence) and any(isinstance(one, str) and one.endswith(".json") for one in source):
        raise OptionError("a run takes one suite alone, or several .jsonl task files; give them in runs of their own")
    empty = " with nothing in it" if isinstance(source, Sequence) and not source else ""
    raise _no_source(f"a {type(source).__name__}{empty}")


def load_fixtures() -> list[TaskRecord]:
    """Give the ten fixture tasks that come with evalframe: two of each category."""
    records, faults = validate_file(fixture_folder() / "tasks.jsonl")
    assert not faults, faults
    return records


def fixture_folder() -> Path:
    """The folder of fixtures: in an installed package inside it, in a checkout beside it."""
    package = Path(__file__).parent
    inside = package / "fixtures"
    return inside if inside.is_dir() else package.parent / "fixtures"


def _read_path(path: Path, limits: Limits) -> Source:
    _existing(path)
    if path.suffix.lower() == ".json":
        content = path.read_bytes()
        try:
            manifest = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            kind = "UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else f"byte {error.start} is not"
            raise OptionError(f"{path}: the manifest is not UTF-8 text ({kind}); save it as UTF-8") from None
        return SuiteSource(parse_suite(manifest, where=str(path), limits=limits), path.parent)
    if path.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        tasks = TaskSource(*validate_file(path, limits=limits))
        if not tasks.records and tasks.faults and _is_manifest(path):
            raise OptionError(f"{path}: holds one suite manifest, not a task a line; name the file .json")
        return tasks
    yaml = " (write the manifest as JSON)" if path.suffix.lower() in (".yaml", ".yml") else ""
    raise _no_source(f"{path}: not a .json or .jsonl file{yaml}")


def _is_manifest(path: Path) -> bool:
    try:
        whole = json.loads(path.read_bytes())
    except ValueError:
        return False
    return isinstance(whole, dict) and "tasks" in whole


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise OptionError.of([Fault(str(path), "bad_source", "is a folder", f"give {FORMS}")], what="source")
    if not path.is_file():
        near = sorted(p.name for p in path.parent.glob("*.json*"))[:5] if path.parent.is_dir() else []
        there = f"; {path.parent} has {', '.join(near)}" if near else ""
        raise OptionError.of([Fault(str(path), "missing_file", f"there is no such file{there}")], what="source")
    return path


def _no_source(seen: str) -> OptionError:
    return OptionError(f"{seen} is no source: give {FORMS}")
