"""What can go wrong, as exceptions that are also frames.

Every error says what is wrong, where (``tasks[3].grader.source``, ``data.jsonl:17:4``) and what to do about it.
Faults are collected and raised once: ``error.faults`` is a polars frame, ``str(error)`` one line a fault.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import polars as pl


MOST_SHOWN = 50  # faults that a message lists


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        where: A path into the input (``tasks[3].metrics[0].id``) or a place in a file (``rows.jsonl:12:5``).
        rule: A short machine-readable name of the broken rule (``unknown_key``, ``bad_value``).
        detail: What is wrong, with the value seen and what is allowed; the traceback of foreign code stands below, in
            indented lines.
        remedy: What to do about it; empty where the detail already says so.
    """

    where: str
    rule: str
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        what, newline, below = self.detail.partition("\n")
        if not below.startswith("    "):
            what, newline, below = self.detail, "", ""
        line = f"{self.where}: {what}" if self.where else what
        return (f"{line} -> {self.remedy}" if self.remedy else line) + newline + below


@dataclasses.dataclass(frozen=True, slots=True)
class TaskFault:
    """One bad line of a task file: the first rule that it breaks.

    Attributes:
        file: The file as the caller named it; empty for a record that came from memory.
        line_number: 1-based; 0 for a record that came from memory.
        task_id: The record's id where it could be read, else empty.
        rule: One of ``bad_json``, ``missing_required``, ``unknown_field``, ``bad_type``, ``bad_value``,
            ``illegal_pair``, ``duplicate_task_id``, ``embedded_few_shot``.
        field: The field at fault, with its path (``few_shot_examples[2].prompt``); empty for ``bad_json``.
        detail: What is wrong, what was seen and what is allowed.
    """

    file: str
    line_number: int
    task_id: str
    rule: str
    field: str
    detail: str

    def __str__(self) -> str:
        place = ":".join(part for part in (self.file, str(self.line_number or "")) if part)
        named = " ".join(part for part in (place, f"[{self.task_id}]" if self.task_id else "", self.field) if part)
        return f"{named}: {self.rule}: {self.detail}"


class EvalframeError(Exception):
    """The root of every error that evalframe raises on purpose.

    Args:
        message: One line: what is wrong, where and what to do.
        faults: The single faults, where there are several.
    """

    fault_type: ClassVar[type[Any]] = Fault

    def __init__(self, message: str, faults: Iterable[Fault | TaskFault] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fault_records: tuple[Fault | TaskFault, ...] = tuple(faults)

    def __str__(self) -> str:
        # also because KeyError, a base of some of ours, would print the repr of the message
        shown = [f"  {fault}" for fault in self.fault_records[:MOST_SHOWN]]
        if more := len(self.fault_records) - len(shown):
            shown.append(f"  and {more} more: the error's .faults is a frame of them all")
        return "\n".join([self.message, *shown])

    @property
    def faults(self) -> pl.DataFrame:
        """All faults as a frame (schema FAULTS, or TASK_FAULTS for a task file); empty where there is one message."""
        import polars as pl

        fields = dataclasses.fields(self.fault_type)
        schema = {field.name: pl.Int64 if field.type == "int" else pl.String for field in fields}
        return pl.DataFrame([dataclasses.asdict(fault) for fault in self.fault_records], schema=schema)

    def _repr_html_(self) -> str:
        from html import escape

        table = self.faults._repr_html_() if self.fault_records else ""
        return f"<p><b>{type(self).__name__}</b>: {escape(self.message)}</p>{table}"

    @classmethod
    def of(cls, faults: Sequence[Fault | TaskFault], *, what: str) -> EvalframeError:
        """Build the error for a list of faults: ``what`` names the thing, the count is added.

        >>> print(ManifestError.of([Fault("tasks[0].id", "missing", "is missing", "add it")], what="suite.json"))
        suite.json: 1 fault
          tasks[0].id: is missing -> add it
        """
        return cls(f"{what}: {len(faults)} fault{'s' if len(faults) != 1 else ''}", faults)


class ManifestError(EvalframeError, ValueError):
    """A suite manifest is wrong; nothing was fetched, spawned or billed."""


class TaskFileError(EvalframeError, ValueError):
    """A task file has bad lines; the run did not start."""

    fault_type = TaskFault


class OptionError(EvalframeError, ValueError):
    """An argument of a call is wrong or does not fit the others."""


class DatasetError(EvalframeError, ValueError):
    """A data file is missing, unreadable, or has lines that can not be kept exactly."""


class PreprocessError(EvalframeError, RuntimeError):
    """A preprocessor failed; no model was called."""


class SchemaError(EvalframeError, ValueError):
    """A frame does not have the columns, types, keys or ranges that its schema declares."""


class UnknownNameError(EvalframeError, LookupError):
    """A name is in no registry; the message lists the nearest known ones."""


class NameTakenError(EvalframeError, ValueError):
    """A name is registered already."""


class AdapterError(EvalframeError, RuntimeError):
    """A model adapter can not be built or used as asked."""


class SandboxError(EvalframeError, RuntimeError):
    """Foreign code can not be run here as the policy asks."""


class RunFolderError(EvalframeError, OSError):
    """A run folder is missing, damaged, in use by another process, or not empty."""


class CacheError(EvalframeError, OSError):
    """The result cache can not be used; the message says how to go on without it."""


class VersionMismatch(EvalframeError, ValueError):
    """Results of different task versions would be mixed; the message names the part that differs."""


class MissingDependencyError(EvalframeError, ImportError):
    """An optional dependency is not installed; the message has the install line."""


class NotBuiltError(EvalframeError, RuntimeError):
    """A part of the format that this version of evalframe does not run; said before anything runs."""
