"""Task files: JSONL, one self-contained task a line, validated in a stream into frozen records.

A line is a ``TaskRecord`` or one ``TaskFault``; a bad line never stops the reading. ``taskvocabulary.py`` holds the
closed vocabulary, ``taskrules.py`` the rules of one record, ``tasklines.py`` the reading of files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalframe import jsontext
from evalframe.errors import TaskFault, TaskFileError
from evalframe.jsontext import JsonTextError, Number, clean
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.tasklines import numbered_lines
from evalframe.manifest.taskrules import Broken, first_broken, is_text, kind
from evalframe.manifest.taskvocabulary import TASK_SPEC_VERSION
from evalframe.reprs import Telling

__all__ = [
    "TASK_SPEC_VERSION",
    "FewShotExample",
    "TaskRecord",
    "iter_task_file",
    "iter_task_files",
    "parse_records",
    "validate_file",
    "validate_files",
    "validate_task",
]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class FewShotExample:
    """One worked example; it is rendered as ``prompt``, a blank, ``completion``."""

    prompt: str
    completion: str


@dataclass(frozen=True, slots=True, repr=False)
class TaskRecord(Telling):
    """One legal task.

    Lone surrogates, which no frame can hold, are U+FFFD in every text here.

    Attributes:
        task_id: Unique over all files of a run.
        category, metric_name, post_process: Words of the closed vocabulary, a legal combination.
        prompt: The body, without few-shot examples.
        targets: At least one.
        few_shot_examples: At most 8.
        metadata: Plain Python values; a number that Python can not hold (``1e999``, an integer of over 4,300 digits)
            stays a ``jsontext.Number``, which is its text.
        row: The whole record as compact JSON text, key order kept, numbers as written.
    """

    task_id: str
    category: str
    prompt: str
    targets: tuple[str, ...]
    metric_name: str
    post_process: str
    few_shot_examples: tuple[FewShotExample, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    row: str = field(default="{}", repr=False)


def validate_task(
    record: Mapping[str, Any], line_number: int = 0, *, limits: Limits = DEFAULT_LIMITS
) -> list[TaskFault]:
    """Check one record on its own; uniqueness of ids is the business of the functions that see all records.

    Args:
        record: Plain Python values, or what ``jsontext.loads`` gives.
        line_number: 1-based line where it stands; 0 for a record from memory.

    Returns:
        No fault, or the first: required, unknown, types and values, pairs, few-shot.

    >>> [str(fault) for fault in validate_task({"task_id": "a", "category": "mcq"}, 3)]
    ['3 [a] prompt: missing_required: is missing; every task has it']
    """
    outcome = _judge(record, limits)
    return [_fault(outcome, record, "", line_number)] if isinstance(outcome, Broken) else []


def iter_task_file(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[TaskRecord | TaskFault]:
    """Read one task file in a stream: a record or a fault for each line that is not blank.

    Memory does not grow with the file, but for about 130 bytes a task that remember the ids.

    Raises:
        TaskFileError: At the first step, where the file can not be read as text at all (missing, a folder, UTF-16,
            binary). An empty file gives nothing.
    """
    return iter_task_files([path], limits=limits)


def iter_task_files(paths: Iterable[PathLike], *, limits: Limits = DEFAULT_LIMITS) -> Iterator[TaskRecord | TaskFault]:
    """Read several task files in one stream; ids are unique over all of them. See ``iter_task_file``."""
    ids = _Ids()
    for path in paths:
        yield from _read(path, ids, limits)


def validate_file(path: PathLike, *, limits: Limits = DEFAULT_LIMITS) -> tuple[list[TaskRecord], list[TaskFault]]:
    """Check every line of a task file; give the good ones as records and one fault for each bad one.

    Args:
        path: JSONL in UTF-8; a name that ends in ``.gz`` is unpacked.

    Nulls:
        An empty file, or one of blank lines, gives ``([], [])``: it breaks no rule. A run without a task is refused by
        the run.

    Raises:
        TaskFileError: The file can not be read as text at all.
    """
    return validate_files([path], limits=limits)


def validate_files(
    paths: PathLike | Iterable[PathLike], *, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[TaskRecord], list[TaskFault]]:
    """Check the task files of a run together: as ``validate_file``, with ids unique over all files.

    The order is that of the files and lines. A ``task_id`` belongs to the first line that has it, be that line
    otherwise good or bad; each later line is a ``duplicate_task_id``.

    Raises:
        TaskFileError: Names every file that can not be read as text at all.
    """
    ids = _Ids()
    outcomes: list[TaskRecord | TaskFault] = []
    unreadable: list[TaskFileError] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        try:
            outcomes.extend(_read(path, ids, limits))
        except TaskFileError as error:
            unreadable.append(error)
    if unreadable:
        raise TaskFileError("\n".join(error.message for error in unreadable))
    return _parted(outcomes)


def parse_records(
    records: Iterable[Mapping[str, Any]], *, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[TaskRecord], list[TaskFault]]:
    """Check records from memory, by the rules of a task file.

    A fault has no file and no line; its detail ends in the record's place (``records[3]``), counted from 0.
    """
    ids = _Ids()
    ids.enter("records[", "]")
    outcomes: list[TaskRecord | TaskFault] = []
    for index, record in enumerate(records):
        outcome = _claimed(_judge(record, limits), record, ids, index)
        if isinstance(outcome, Broken):
            outcomes.append(_fault(outcome._replace(detail=f"{outcome.detail} (records[{index}])"), record, "", 0))
        else:
            outcomes.append(outcome)
    return _parted(outcomes)


def _parted(outcomes: Sequence[TaskRecord | TaskFault]) -> tuple[list[TaskRecord], list[TaskFault]]:
    records = [outcome for outcome in outcomes if isinstance(outcome, TaskRecord)]
    faults = [outcome for outcome in outcomes if isinstance(outcome, TaskFault)]
    return records, faults


def _read(path: PathLike, ids: _Ids, limits: Limits) -> Iterator[TaskRecord | TaskFault]:
    file = os.fspath(path)
    ids.enter(f"{file}:")
    for number, line in numbered_lines(Path(path)):
        record = _parsed(line)
        outcome = record if isinstance(record, Broken) else _judge(record, limits)
        outcome = _claimed(outcome, record, ids, number)
        yield _fault(outcome, record, file, number) if isinstance(outcome, Broken) else outcome


def _parsed(line: bytes) -> Any:
    try:
        return jsontext.loads(line.decode())
    except UnicodeDecodeError as error:
        return Broken("bad_json", "", f"byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8")
    except JsonTextError as error:
        place = f" (column {error.column})" if error.column > 1 else ""
        return Broken("bad_json", "", error.detail + place)


def _judge(record: Any, limits: Limits) -> TaskRecord | Broken:
    if not isinstance(record, Mapping):
        hint = "; one task a line, no list around them" if isinstance(record, list) else ""
        return Broken("bad_json", "", f"a task is a JSON object, not {kind(record)}{hint}")
    try:
        return first_broken(record, limits=limits) or _record(record)
    except RecursionError:
        return Broken("bad_value", "metadata", "is nested too deeply; keep it under a few hundred levels")


def _record(record: Mapping[str, Any]) -> TaskRecord:
    examples = record.get("few_shot_examples", ())
    return TaskRecord(
        task_id=clean(record["task_id"]),
        category=str(record["category"]),
        prompt=clean(record["prompt"]),
        targets=tuple(map(clean, record["targets"])),
        metric_name=str(record["metric_name"]),
        post_process=str(record["post_process"]),
        few_shot_examples=tuple(FewShotExample(clean(e["prompt"]), clean(e["completion"])) for e in examples),
        metadata={clean(key): _plain(value) for key, value in record.get("metadata", {}).items()},
        row=clean(jsontext.dumps(record)),
    )


def _plain(value: Any) -> Any:
    """Turn a parsed JSON value into plain Python values."""
    if isinstance(value, Number):
        return _plain_number(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, Sequence) else value


def _plain_number(text: Number) -> int | float | Number:
    if text.lstrip("-").isdigit():
        try:
            return int(text)
        except ValueError:  # more digits than Python converts
            return text
    number = float(text)
    return text if number in (float("inf"), float("-inf")) else number


def _claimed(outcome: TaskRecord | Broken, record: Any, ids: _Ids, number: int) -> TaskRecord | Broken:
    """Give the record's id to its place, or say who has it."""
    task_id = _id_of(record)
    if not task_id:
        return outcome
    owner = ids.claim(task_id, number)
    if owner is None or isinstance(outcome, Broken):
        return outcome
    return Broken("duplicate_task_id", "task_id", f"{task_id!r} stands already at {owner}; ids are unique in a run")


def _id_of(record: Any) -> str:
    task_id = record.get("task_id") if isinstance(record, Mapping) else None
    return clean(task_id) if task_id is not None and is_text(task_id) else ""


def _fault(broken: Broken, record: Any, file: str, line_number: int) -> TaskFault:
    field_name, detail = clean(broken.field), clean(broken.detail)
    return TaskFault(clean(file), line_number, _id_of(record), broken.rule, field_name, detail)


class _Ids:
    """Who has which id: digests and packed places, about 130 bytes an id however long it is."""

    def __init__(self) -> None:
        self._owners: dict[bytes, int] = {}
        self._sources: list[tuple[str, str]] = []

    def enter(self, before: str, after: str = "") -> None:
        """Begin a source, whose places are named ``before + number + after``."""
        self._sources.append((before, after))

    def claim(self, task_id: str, number: int) -> str | None:
        """Give the id to a place in the present source; where it has an owner already, name that one."""
        place = (len(self._sources) - 1) << 40 | number
        digest = hashlib.blake2b(task_id.encode(), digest_size=16).digest()
        owner = self._owners.setdefault(digest, place)
        if owner == place:
            return None
        before, after = self._sources[owner >> 40]
        return f"{before}{owner & (1 << 40) - 1}{after}"
