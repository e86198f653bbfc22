"""Rows through a task's preprocessor, in the sandbox, before a prompt is made: RECORDS to RECORDS."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import polars as pl

from evalframe.data.columns import RecordColumns
from evalframe.errors import Fault, PreprocessError
from evalframe.frames import check
from evalframe.jsontext import dumps
from evalframe.limits import Limits
from evalframe.manifest.python import TRANSFORM, source_faults
from evalframe.manifest.records import Preprocess
from evalframe.reprs import short
from evalframe.sandbox.functions import (
    RETURNED_BYTES,
    Broken,
    Call,
    ForeignSource,
    FunctionPool,
    Outcome,
    Raised,
    Returned,
    SourceError,
    TimedOut,
)
from evalframe.sandbox.launch import cores
from evalframe.sandbox.policy import Policy
from evalframe.schemas import RECORDS

ROWS: Final = "rows"
FEWSHOT_ROWS: Final = "fewshot rows"
MOST_FAILED = 5  # rows that raised, before the rest is left
MESSAGE_CHARS = 300  # of an exception on the first line of a fault
RETURNS = "return a dict (one row), a list of dicts (none, one or many rows), or None (no row)"


class Preprocessor:
    """A task's preprocessor, compiled once in a warm worker; a context manager.

    Args:
        preprocess: Contract and time-out.
        text: Its Python text.
        name: What tracebacks call the text: ``tasks[0].preprocess.source``, or a file's name.
        files: ``file_id`` to path of the files that it may read, as ``EVALFRAME_FILES`` names them.
        policy: How foreign code is run.

    Raises:
        PreprocessError: The text does not compile, fails when it is loaded, or lacks the function.
        SandboxError: No worker can be started here as the policy asks.
    """

    def __init__(
        self, preprocess: Preprocess, *, text: str, name: str, files: Mapping[str, Path], policy: Policy
    ) -> None:
        functions = TRANSFORM[preprocess.contract]
        if faults := list(source_faults(text, name, functions, others=TRANSFORM)):
            raise PreprocessError.of(faults, what="the preprocessor")
        self._preprocess, self._name, self._limits = preprocess, name, policy.limits
        source = ForeignSource(source=text, name=name, functions=tuple(functions), files=files)
        # one call of a batch gives a whole data set
        self._most = self._limits.preprocess_chars if preprocess.contract == "batch" else RETURNED_BYTES
        self._pool = FunctionPool(source, policy=policy, n_workers=cores(), returned_bytes=self._most)

    def __enter__(self) -> Self:
        self._pool.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, traceback)

    def records(
        self,
        records: pl.DataFrame,
        *,
        fields: Sequence[str] = (),
        items: Sequence[str] = (),
        what: str = ROWS,
        step: Callable[[int], None] = lambda _: None,
    ) -> pl.DataFrame:
        """Transform the rows of a data set.

        The contract ``row`` calls the function for each row; ``batch`` calls it once with the list of all. The function
        sees plain JSON values; what it prints is not shown. ``random`` is seeded by the row's position, and the module
        is run anew for each chunk of rows (``sandbox.foreign.CHUNK_CALLS``), so that equal data gives equal rows on
        every machine; what must know all rows is for ``batch``. Numbers of the rows are written as Python's
        ``json.dumps`` writes them, also those that it did not touch.

        Frame in: RECORDS; only ``line_number`` and ``row`` are used.

        Frame out: RECORDS of the rows that it returned, in order; ``line_number`` is their 1-based position.

        Args:
            records: The data set.
            fields: Paths to take out as ``field.<path>``.
            items: Paths to take out as ``items.<path>``.
            what: Names the rows in faults: ``rows``, or ``fewshot rows``.
            step: Is told how many more rows are through.

        Raises:
            PreprocessError: A call raised, timed out, or returned what is no row; or all rows are dropped, or there
                are more than ``limits.preprocess_rows`` or ``limits.preprocess_chars``. Names up to five rows that
                raised, each by its position from 0 and its line, with the traceback of the user's code.
            SandboxError: The worker can not be used.
        """
        check(records, RECORDS)
        taken = _Taken(RecordColumns(fields, items), self._limits, what, self._most)
        if records.is_empty():
            return taken.columns.frame()
        take = self._take_batch if self._preprocess.contract == "batch" else self._take_rows
        try:
            take(_Rows(records, what), taken, step)
        except SourceError as error:
            detail = _with_traceback(_on_one_line(error.error_type, error.detail), error.traceback)
            remedies = [fault.remedy for fault in error.fault_records if isinstance(fault, Fault)]
            taken.faults.append(Fault(self._name, error.rule, detail, *remedies))
        if not taken.faults and not taken.n_rows:
            detail = f"every row is dropped: of {records.height} none is left"
            taken.faults.append(Fault(what, "no_rows", detail, f"{RETURNS}; is a return missing?"))
        if taken.faults:
            raise PreprocessError.of(taken.faults, what="the preprocessor")
        return taken.columns.frame()

    def _take_rows(self, rows: _Rows, taken: _Taken, step: Callable[[int], None]) -> None:
        calls = (self._call(row, seed=index) for index, row in enumerate(rows.parsed()))
        for index, outcome in enumerate(self._pool.map(calls)):
            if not taken.outcome(rows.place(index), outcome):
                return
            step(1)
        taken.faults += rows.faults

    def _take_batch(self, rows: _Rows, taken: _Taken, step: Callable[[int], None]) -> None:
        parsed = list(rows.parsed())
        if rows.faults:
            taken.faults += rows.faults
            return
        for outcome in self._pool.map([self._call(parsed)]):
            taken.outcome(rows.what, outcome)
        step(len(parsed))

    def _call(self, argument: Any, *, seed: int = 0) -> Call:
        return Call(arguments=(argument,), timeout_seconds=float(self._preprocess.timeout_seconds), seed=seed)


@dataclass(slots=True)
class _Rows:
    """The rows of a data set as Python values, and where each stands."""

    records: pl.DataFrame
    what: str
    faults: list[Fault] = field(default_factory=list)

    def parsed(self) -> Iterator[Any]:
        """Give the rows up to the first that Python's numbers can not hold; that is a fault."""
        for index, row in enumerate(self.records["row"]):
            try:
                yield _DECODER.decode(row)
            except (ValueError, RecursionError) as error:
                detail = f"a preprocessor can not be given this row: {error}"
                self.faults.append(Fault(self.place(index), "no_value", detail, "write this as text"))
                return

    def place(self, index: int) -> str:
        return f"{self.what}[{index}] (line {self.records['line_number'][index]})"


@dataclass(slots=True)
class _Taken:
    """The rows that came back, and what went wrong."""

    columns: RecordColumns
    limits: Limits
    what: str
    most_bytes: int  # of one call
    n_rows: int = 0
    n_chars: int = 0
    faults: list[Fault] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)

    def outcome(self, where: str, outcome: Outcome) -> bool:
        """Take what one call gave, and say whether to go on."""
        if isinstance(outcome, Returned):
            found = _rows_of(outcome.value)
            if not isinstance(found, str):
                return self._take(where, found)
            told = any(fault.rule == "bad_return" for fault in self.faults)
            self.faults.append(Fault(where, "bad_return", found, "" if told else RETURNS))
        else:
            self.faults.append(self._failed(where, outcome))
        return isinstance(outcome, Returned | Raised) and len(self.faults) < MOST_FAILED

    def _take(self, where: str, rows: Sequence[Mapping[str, Any]]) -> bool:
        fault = self._over(where, "rows", self.n_rows + len(rows))
        for row in rows if fault is None else ():
            try:
                text = dumps(row)
                self.n_rows, self.n_chars = self.n_rows + 1, self.n_chars + len(text)
                self.columns.add(self.n_rows, row, text)
                fault = self._over(where, "chars", self.n_chars)
            except RecursionError:
                fault = Fault(where, "too_deep", "what it returned is nested too deeply", "flatten it")
            if fault is not None:
                break
        if fault is not None:
            self.faults.append(fault)
        return fault is None

    def _over(self, where: str, unit: str, n: int) -> Fault | None:
        name = f"preprocess_{unit}"
        most = getattr(self.limits, name)
        if n <= most:
            return None
        words = {"rows": "rows", "chars": "characters of JSON"}
        detail = f"here the {self.what} that it returned are over {most:,} {words[unit]}"
        return Fault(where, "too_many", detail, f"return less, or pass limits=Limits({name}={2 * n})")

    def _failed(self, where: str, outcome: Raised | TimedOut | Broken) -> Fault:
        if isinstance(outcome, TimedOut):
            remedy = "make it faster, or give it longer in preprocess.timeout_seconds"
            return Fault(where, "timeout", f"did not return within {outcome.seconds:g} s", remedy)
        if isinstance(outcome, Broken):
            remedy = f"return plain JSON values, of one call up to {self.most_bytes:,} bytes of them"
            return Fault(where, "broken", outcome.reason, remedy)
        detail = _on_one_line(outcome.error_type, outcome.message)
        if outcome.traceback not in self.shown:  # of many rows that fail alike one traceback says it
            self.shown.add(outcome.traceback)
            detail = _with_traceback(detail, outcome.traceback)
        return Fault(where, "raised", detail)


def _rows_of(value: Any) -> list[dict[str, Any]] | str:
    """Give the rows that a returned value stands for, or say why it stands for none."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        return f"returned {_named(value)}"
    odd = next(((index, one) for index, one in enumerate(value) if not isinstance(one, dict)), None)
    return value if odd is None else f"returned a list whose item {odd[0]} is {_named(odd[1])}"


def _named(value: Any) -> str:
    kinds = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list", type(None): "None"}
    kind = kinds.get(type(value), f"a {type(value).__name__}")
    return kind if value is None else f"{kind} ({short(value)})"


def _on_one_line(error_type: str, message: str) -> str:
    """Name an exception; a traceback has the whole of a long message."""
    words = " ".join(message.split())
    return f"{error_type}: {words[:MESSAGE_CHARS]}{'…' * (len(words) > MESSAGE_CHARS)}" if words else error_type


def _with_traceback(detail: str, traceback: str) -> str:
    return "\n".join([detail, *(f"    {line}" for line in traceback.strip("\n").split("\n"))])


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"Python's numbers do not reach {text[:40]}")
    return value


# made once: json.loads with options makes one a call
_DECODER = json.JSONDecoder(parse_float=_finite)
