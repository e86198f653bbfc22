"""The journal of a run: each finished call is committed here before it counts, and survives a kill at any moment.

One SQLite file in WAL mode. Workers that finish at the same time share one commit. The generations come out in key
order, a bounded segment at a time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.errors import RunFolderError
from evalframe.generate.finished import Finished, pack, pack_raw, to_generations, unpack, unpack_raw
from evalframe.generate.sqlitefile import FileKind, SqliteFile, read_only, refuse_foreign, transaction
from evalframe.jsontext import clean
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import CALL, GENERATIONS
from evalframe.words import SkipReason

__all__ = ["SCHEMA_VERSION", "Finished", "Journal"]

SCHEMA_VERSION = 1

# SQLite compares text by its UTF-8 bytes, which is code point order: the order of every frame
_CREATE = """
CREATE TABLE calls (
    model_id TEXT NOT NULL, task_id TEXT NOT NULL, sample_index INTEGER NOT NULL, repeat INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('completed', 'failed', 'skipped')),
    body NOT NULL, raw BLOB,
    UNIQUE (model_id, task_id, sample_index, repeat)
)
"""
# an entry gives way only to one that knows more: skipped to failed, both to completed
_INSERT = """
INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET status = excluded.status, body = excluded.body, raw = excluded.raw
WHERE calls.status = 'skipped' AND excluded.status != 'skipped'
   OR calls.status = 'failed' AND excluded.status = 'completed'
"""
# the reason of an earlier part of the run gives way to that of this one, where there is one
_SKIP = """
INSERT INTO calls VALUES (?, ?, ?, ?, 'skipped', ?, NULL)
ON CONFLICT DO UPDATE SET body = excluded.body WHERE calls.status = 'skipped'
"""
_SKIP_NEW = "INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?, 'skipped', ?, NULL)"
_PLACES = """
CREATE TEMP TABLE places (task_id TEXT, sample_index INTEGER, place INTEGER, PRIMARY KEY (task_id, sample_index))
"""
_VALUES = "VALUES (?, ?, ?, ?, ?, ?, ?)"
_WANTED = "theirs.status IN (SELECT value FROM json_each(?))"
_TAKE = _INSERT.replace(_VALUES, f"SELECT * FROM other.calls AS theirs WHERE {_WANTED}")
_TAKE_PLACED = _INSERT.replace(
    _VALUES,
    f"""
SELECT model_id, theirs.task_id, place, repeat, status, body, raw
FROM other.calls AS theirs JOIN places USING (task_id, sample_index) WHERE {_WANTED}""",
)
_REOPEN = """
UPDATE calls SET status = 'skipped', body = ?, raw = NULL
WHERE model_id = ? AND task_id = ? AND sample_index = ? AND repeat = ? AND status = 'failed'
"""
_KEY = "model_id, task_id, sample_index, repeat"
_SEGMENT = f"SELECT {_KEY}, status, body FROM calls ORDER BY {_KEY}"
_DONE = f"SELECT {_KEY} FROM calls WHERE status != 'skipped' ORDER BY {_KEY}"
_COUNTS = "SELECT model_id, status, count(*) FROM calls GROUP BY model_id, status ORDER BY model_id, status"
_FAILED = f"SELECT {_KEY}, body FROM calls WHERE model_id = ? AND status = 'failed' ORDER BY {_KEY}"
_RAW = "SELECT raw FROM calls WHERE model_id = ? AND task_id = ? AND sample_index = ? AND repeat = ?"

_KIND = FileKind(
    name="journal",
    application_id=0x45466A6C,  # "EFjl"
    version=SCHEMA_VERSION,
    create=(_CREATE,),
    error=RunFolderError,
    if_damaged="if the file is damaged, restore it from a copy or start a new run",
    if_foreign="is no journal of a run; name the file that evalframe wrote",
    if_other_version="open it with the evalframe that wrote it, or start a new run",
)


class _Entry:
    """What one caller of ``record`` waits for."""

    __slots__ = ("committed", "error", "rows")

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows
        self.committed = False
        self.error: RunFolderError | None = None


class Journal(SqliteFile):
    """The finished calls of one run, on disk. Safe to use from several threads; open it with ``Journal.open``.

    Its errors are ``RunFolderError``.
    """

    kind = _KIND

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self._waiting: list[_Entry] = []

    def record(self, finished: Sequence[Finished]) -> None:
        """Commit finished calls; returns when they are on disk.

        A key that is there already keeps its entry, unless the new one knows more: a skipped call gives way to a
        finished one, a failed call to a completed one.

        Raises:
            RunFolderError: The file can not be written; none of these calls counts.
        """
        entry = _Entry([_table_row(call) for call in finished])  # packed in the caller's thread
        if not entry.rows:
            return
        with self._queue:
            self._waiting.append(entry)
        with self._writing:
            if not entry.committed and entry.error is None:
                with self._queue:
                    group, self._waiting = self._waiting, []
                self._commit(group)
        if entry.error is not None:
            raise entry.error

    def skip(
        self, calls: pl.DataFrame, *, model_id: str, reason: SkipReason, message: str, replaces: bool = True
    ) -> None:
        """Record calls of one model that were never made, in one commit; finished ones stay.

        Args:
            calls: ``task_id``, ``sample_index``, ``repeat``.
            model_id: The model.
            reason: A word of ``words.SkipReason``.
            message: The reason in words.
            replaces: Whether it goes before the reason of a call that is recorded as skipped already.

        Raises:
            RunFolderError: The file can not be written.
        """
        one = Finished(
            model_id=model_id, task_id="", sample_index=0, repeat=0, status="skipped", error_type=reason,
            error_message=message,
        )  # fmt: skip
        body = pack(one)  # the same for all
        rows = ((clean(model_id), *key, body) for key in calls.select("task_id", "sample_index", "repeat").iter_rows())
        with self._writing:
            self._write((_SKIP if replaces else _SKIP_NEW, rows))

    def reopen(self, model_id: str, *, message: str) -> int:
        """Make the failed calls of a model that was given up into skipped ones, so that they are asked again.

        A failed call that something was paid for stays as it is.

        Args:
            model_id: The model.
            message: Why it was given up.

        Returns:
            How many there were.

        Raises:
            RunFolderError: The file can not be written.
        """
        rows = []
        for chunk in self._read(_FAILED, (clean(model_id),)):
            for *key, packed in chunk:
                body, _ = unpack(packed)
                if body.get("cost_usd") is None:
                    reason = "unauthorized" if body["error_type"] == "unauthorized" else "unavailable"
                    one = Finished(
                        model_id=model_id, task_id="", sample_index=0, repeat=0, status="skipped", error_type=reason,
                        error_message=message,
                    )  # fmt: skip
                    rows.append((pack(one), *key))
        with self._writing:
            self._write((_REOPEN, rows))
        return len(rows)

    def _commit(self, group: list[_Entry]) -> None:
        try:
            self._write((_INSERT, (row for entry in group for row in entry.rows)))
        except RunFolderError as error:
            for entry in group:
                entry.error = error
        except BaseException:  # an interrupt: the others of the group still wait, so the next one commits them
            with self._queue:
                self._waiting = group + self._waiting
            raise
        else:
            for entry in group:
                entry.committed = True

    def take(self, path: Path, *, statuses: Collection[str], places: pl.DataFrame | None = None) -> None:
        """Copy calls of another journal, raw replies included; as in ``record``, an entry that knows more stays.

        Args:
            path: The other journal.
            statuses: Which outcomes are copied.
            places: The samples whose calls are copied, and their new numbers: ``task_id``, ``sample_index``,
                ``place``; None: all, as they are.

        Raises:
            RunFolderError: The other file is no journal, or one of the two can not be used; nothing was copied then.
        """
        wanted = json.dumps(list(statuses))
        with self._writing, self._using(path):
            self._connection.execute("ATTACH ? AS other", (read_only(path),))
            try:
                refuse_foreign(path, self._connection, self.kind, schema="other")
                with transaction(self._connection):
                    if places is None:
                        self._connection.execute(_TAKE, (wanted,))
                    else:
                        self._connection.execute(_PLACES)
                        names = ("task_id", "sample_index", "place")
                        self._connection.executemany("INSERT INTO places VALUES (?, ?, ?)", places.select(names).rows())
                        self._connection.execute(_TAKE_PLACED, (wanted,))
                        self._connection.execute("DROP TABLE places")
            finally:
                self._connection.execute("DETACH other")

    def done(self) -> pl.DataFrame:
        """Give the keys of the finished calls, completed or failed, sorted."""
        schema = {column.name: column.dtype for column in CALL}
        chunks = [pl.DataFrame(rows, schema=schema, orient="row") for rows in self._read(_DONE)]
        return pl.concat(chunks) if chunks else pl.DataFrame(schema=schema)

    def counts(self) -> pl.DataFrame:
        """Count the calls: ``model_id``, ``status``, ``n``, sorted; a status without calls has no row."""
        rows = [row for chunk in self._read(_COUNTS) for row in chunk]
        return pl.DataFrame(rows, schema={"model_id": pl.String, "status": pl.String, "n": pl.Int64}, orient="row")

    def segments(self, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[pl.DataFrame]:
        """Give all calls, skipped ones too, as GENERATIONS frames in key order.

        A segment ends with the sample that reaches ``limits.segment_rows`` rows or ``limits.segment_bytes`` of text:
        the repeats of a sample are in one segment. What is recorded after the first segment was asked for is not seen.
        An empty journal gives no segment.
        """
        held: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        size = 0
        for chunk in self._read(_SEGMENT, fetch=256):
            for *head, packed in chunk:
                is_full = len(held) >= limits.segment_rows or size >= limits.segment_bytes
                if is_full and tuple(head[:3]) != held[-1][0][:3]:
                    segment, held, size = to_generations(held), [], 0
                    yield segment
                    del segment  # two would be held at once, while the next one is read
                with self._using():
                    body, length = unpack(packed)
                held.append((tuple(head), body))
                size += length
        if held:
            segment, held = to_generations(held), []
            yield segment

    def generations(self) -> pl.DataFrame:
        """Give all calls as one GENERATIONS frame; for runs that fit in memory."""
        segments = list(self.segments())
        return pl.concat(segments) if segments else pl.DataFrame(schema=GENERATIONS.dtypes)

    def raw(self, model_id: str, task_id: str, sample_index: int, repeat: int = 0) -> bytes | None:
        """Give the reply of one call as it came over the wire; None where there is no such call or it kept none."""
        rows = [row for chunk in self._read(_RAW, (model_id, task_id, sample_index, repeat)) for row in chunk]
        with self._using():
            return unpack_raw(rows[0][0]) if rows else None


def _table_row(call: Finished) -> tuple[Any, ...]:
    key = clean(call.model_id), call.task_id, call.sample_index, call.repeat
    return *key, call.status, pack(call), pack_raw(call.raw)
