"""The calls that graders made, on disk in the run's folder: committed before the reply is seen, never paid twice."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.errors import RunFolderError
from evalframe.frames import check
from evalframe.generate.finished import BODY, EPOCH, Finished, pack, pack_raw, unpack
from evalframe.generate.sqlitefile import FileKind, SqliteFile, read_only
from evalframe.schemas import CALL_KEY, JUDGE_CALLS

SCHEMA_VERSION = 1
_KEY = "model_id, task_id, sample_index, repeat, call_index"
_CREATE = f"""
CREATE TABLE judge_calls (
    model_id TEXT NOT NULL, task_id TEXT NOT NULL, sample_index INTEGER NOT NULL, repeat INTEGER NOT NULL,
    call_index INTEGER NOT NULL, judge_model_id TEXT NOT NULL, request BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('completed', 'failed')), body NOT NULL, raw BLOB,
    PRIMARY KEY ({_KEY})
)
"""
_KIND = FileKind(
    name="journal of judge calls",
    application_id=0x45466A67,  # "EFjg"
    version=SCHEMA_VERSION,
    create=(_CREATE,),
    error=RunFolderError,
    if_damaged="if the file is damaged, restore it from a copy, or remove it: graders then ask again",
    if_foreign="is no journal of judge calls; name the file that evalframe wrote",
    if_other_version="open it with the evalframe that wrote it, or start a new run",
)
_OF_SAMPLE = "model_id = ? AND task_id = ? AND sample_index = ? AND repeat = ?"
_FIND = f"SELECT status, body, judge_model_id FROM judge_calls WHERE {_OF_SAMPLE} AND call_index = ? AND request = ?"
_FORGET = f"DELETE FROM judge_calls WHERE {_OF_SAMPLE} AND call_index >= ?"
_INSERT = "INSERT OR REPLACE INTO judge_calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ALL = f"SELECT {_KEY}, judge_model_id, status, body FROM judge_calls ORDER BY {_KEY}"
_TAKE = "INSERT OR REPLACE INTO judge_calls SELECT * FROM other.judge_calls"

Served = tuple[str, str, int, int]  # model_id, task_id, sample_index, repeat


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One call that a grader made.

    Attributes:
        served: The candidate's call that was being graded; of a batch its first.
        call_index: 0-based number of the call within it.
        request: Hash of what was asked.
        finished: What became of it; its ``model_id`` is the judge's.
    """

    served: Served
    call_index: int
    request: bytes
    finished: Finished


class JudgeJournal(SqliteFile):
    """The judge calls of one run. Safe to use from several threads; open it with ``JudgeJournal.open``.

    Its errors are ``RunFolderError``.
    """

    kind = _KIND

    def __init__(self, path: Path, connection: Any) -> None:
        super().__init__(path, connection)
        self._reading = threading.Lock()

    def find(self, served: Served, call_index: int, request: bytes) -> Finished | None:
        """Give a completed call that was made before for the same sample, in the same place, with the same words."""
        with self._writing, self._using():
            row = self._connection.execute(_FIND, (*served, call_index, request)).fetchone()
        if row is None or row[0] != "completed":
            return None
        with self._using():
            values, _ = unpack(row[1])
        if (started := values.get("started_at")) is not None:
            values["started_at"] = EPOCH + timedelta(microseconds=started)
        _, task_id, sample_index, repeat = served
        return Finished(
            model_id=row[2], task_id=task_id, sample_index=sample_index, repeat=repeat, status="completed", **values
        )

    def record(self, call: JudgeCall) -> None:
        """Commit a call; what was known of it, and of later calls for its sample, is forgotten.

        Raises:
            RunFolderError: The file can not be written.
        """
        finished = call.finished
        raw = pack_raw(finished.raw)
        row = (*call.served, call.call_index, finished.model_id, call.request, finished.status, pack(finished), raw)
        with self._writing:
            self._write((_FORGET, [(*call.served, call.call_index)]), (_INSERT, [row]))

    def take(self, path: Path) -> None:
        """Copy the calls of another journal.

        Raises:
            RunFolderError: The other file is no such journal.
        """
        with self._writing, self._using(path):
            self._connection.execute("ATTACH ? AS other", (read_only(path),))
            try:
                self._connection.execute(_TAKE)
            finally:
                self._connection.execute("DETACH other")

    def frame(self) -> pl.DataFrame:
        """Give all calls as a JUDGE_CALLS frame, sorted."""
        rows = [row for chunk in self._read(_ALL) for row in chunk]
        with self._using():
            bodies = [unpack(row[-1])[0] for row in rows]
        heads = (*CALL_KEY, "call_index", "judge_model_id", "status")
        columns = {name: [row[place] for row in rows] for place, name in enumerate(heads)}
        columns |= {name: [body.get(name) for body in bodies] for name in BODY}
        return check(_typed(columns), JUDGE_CALLS)


def _typed(columns: dict[str, list[Any]]) -> pl.DataFrame:
    series = []
    for name in JUDGE_CALLS.names:
        dtype = JUDGE_CALLS.dtypes[name]
        if name == "started_at":
            series.append(pl.Series(name, columns[name], dtype=pl.Int64).cast(dtype))
        else:
            series.append(pl.Series(name, columns[name], dtype=dtype))
    return pl.DataFrame(series)
