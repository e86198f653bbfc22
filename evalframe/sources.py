"""What a user hands to ``run`` becomes a suite or a list of task records, validated whole. Data: ``datasource``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalframe.data.frames_in import DATA_FORMS, is_data
from evalframe.data.tables import Table
from evalframe.errors import Fault, OptionError, TaskFault
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.suite import Suite, parse_suite
from evalframe.manifest.taskfile import TaskRecord, parse_records, validate_file, validate_files

_ENDINGS = re.compile(r"\.(jsonl?|ndjson|csv|parquet|pq)(\.gz)?$", re.IGNORECASE)
FORMS = (
    "a suite manifest (a .json file, a dict with 'tasks', a Suite), task records (a .jsonl file, a list of dicts with "
    "'task_id'), a list of .jsonl files, or with prompt= " + DATA_FORMS
)


@dataclass(frozen=True, slots=True)
class SuiteSource:
    """A validated suite.

    Attributes:
        suite: What to evaluate.
        folder: Against which its relative files are found: the manifest's, or for one that came from memory the
            working folder.
        files: Files by the ids that the suite has for them, beside those of the options.
    """

    suite: Suite
    folder: Path
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataSource:
    """Data in memory, and the suite of one task that runs it.

    Attributes:
        suite: Its dataset names what only ``table`` has.
        table: The data.
    """

    suite: Suite
    table: Table


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Task records, and the lines that are none."""

    records: Sequence[TaskRecord]
    faults: Sequence[TaskFault]


Source = SuiteSource | DataSource | TaskSource


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
            return TaskSource(*validate_files([existing(Path(one)) for one in source], limits=limits))
    if isinstance(source, Sequence) and any(isinstance(one, str) and one.endswith(".json") for one in source):
        raise OptionError("a run takes one suite alone, or several .jsonl task files; give them in runs of their own")
    if is_data(source):
        listed = isinstance(source, Sequence)
        raise _no_source("a list of dicts without 'task_id'" if listed else f"a {type(source).__name__}", data=True)
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
    existing(path)
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
    if is_data(path):
        raise _no_source(str(path), data=True)
    yaml = " (write the manifest as JSON)" if path.suffix.lower() in (".yaml", ".yml") else ""
    raise _no_source(f"{path}: not a .json or .jsonl file{yaml}")


def _is_manifest(path: Path) -> bool:
    try:
        whole = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(whole, dict) and "tasks" in whole


def existing(path: Path, forms: str = FORMS) -> Path:
    """Give a path that is a file.

    Raises:
        OptionError: It is a folder, or is not there; names what is beside it.
    """
    if path.is_dir():
        raise OptionError.of([Fault(str(path), "bad_source", "is a folder", f"give {forms}")], what="source")
    if path.exists() and not path.is_file():  # a pipe, as of <(zcat …), or a device
        remedy = "save what it gives as a file, with an ending that says what it is"
        raise OptionError.of([Fault(str(path), "bad_source", "is no regular file", remedy)], what="source")
    if not path.is_file():
        beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
        near = [one.name for one in beside if one.is_file() and _ENDINGS.search(one.name)][:5]
        there = f"; {path.parent} has {', '.join(near)}" if near else ""
        raise OptionError.of(
            [Fault(str(path), "missing_file", f"there is no such file{there}", "check the path")], what="source"
        )
    return path


def _no_source(seen: str, *, data: bool = False) -> OptionError:
    if data:
        return OptionError(
            f'{seen} is data, which a run asks about by a template: give prompt=, as in prompt="Q: {{{{question}}}}" '
            f'or prompt="question", with targets=, extract= and metrics=; without prompt= a source is {FORMS}'
        )
    return OptionError(f"{seen} is no source: give {FORMS}")
