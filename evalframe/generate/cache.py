"""The user's result cache: replies that were paid for once, found again by all that can change them.

One SQLite file for all runs and processes of a user. The journals of the runs are the truth, so that entries are
committed in groups and a little late, and trouble with the file never costs a paid reply.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from evalframe.adapters import ModelAdapter
from evalframe.disk import cache_folder
from evalframe.errors import CacheError
from evalframe.generate.cachedreply import CachedReply, from_micros, pack, to_micros, unpack
from evalframe.generate.cachekeys import CacheRequest, cache_request, may_be_kept
from evalframe.generate.sqlitefile import DAMAGE, FileKind, SqliteFile, connect, words_of

__all__ = [
    "CacheRequest", "CachedReply", "ResultCache", "cache_path", "cache_request", "open_cache", "why_not_kept",
]  # fmt: skip

SCHEMA_VERSION = 1
GROUP = 64  # entries that wait for a commit at most
GROUP_SECONDS = 0.25  # how long one waits while calls go on
KNOWN = 1_000  # configurations that are remembered
BUSY_SECONDS = 10.0
FILE = "replies.sqlite"
_GO_ON = "go on without it (cache=False), name another file (cache=PATH), or remove this one with its -wal and -shm"

_KIND = FileKind(
    name="result cache",
    application_id=0x45467263,  # "EFrc"
    version=SCHEMA_VERSION,
    create=(
        """
CREATE TABLE replies (
    key BLOB NOT NULL PRIMARY KEY, configuration BLOB NOT NULL, repeat INTEGER NOT NULL, reply BLOB NOT NULL,
    latency_seconds REAL, cost_usd REAL, created_at INTEGER NOT NULL
)""",
        "CREATE TABLE configurations (hash BLOB NOT NULL PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",
    ),
    error=CacheError,
    if_damaged=_GO_ON,
    if_foreign=f"is no result cache of evalframe; {_GO_ON}",
    if_other_version=_GO_ON,
    busy_seconds=BUSY_SECONDS,
)
_FIND = "SELECT reply, latency_seconds, cost_usd, created_at FROM replies WHERE key = ?"
_INSERT = "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_CONFIGURATION = "INSERT OR IGNORE INTO configurations VALUES (?, ?)"

# completed, and yet no answer that a later run should be given
_NOT_KEPT = {
    "content_filter": "filtered",
    "length": "truncated",
    "truncated_reasoning": "truncated",
    "truncated_no_answer": "truncated",
}


class ResultCache(SqliteFile):
    """Replies by request. Safe for many threads and several processes; open it with ``ResultCache.open``.

    Only ``open`` raises: in a run, a file that can not be written or read any more (``trouble`` says why) is left alone
    from then on, with one warning.
    """

    kind = _KIND

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self.trouble: str | None = None
        self._reader = connect(path, self.kind)
        self._reading = threading.Lock()
        self._reads = self._writes = True
        self._told = False
        self._waiting: dict[bytes, tuple[Any, ...]] = {}
        self._committing: dict[bytes, tuple[Any, ...]] = {}
        self._known: dict[str, tuple[bytes, str]] = {}  # outline to hash and text of the configuration
        self._due = 0.0
        self._monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def open(cls, path: Path, *, monotonic: Callable[[], float] = time.monotonic) -> Self:
        """Open a cache, or make an empty one, and its folder, where there is none.

        Args:
            path: The file.
            monotonic: A clock that only goes up, in seconds.

        Raises:
            CacheError: The file is no result cache, is damaged, of another version, or can not be written; says how
                to go on.
        """
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CacheError(f"{path}: its folder can not be made ({error.strerror}); {_GO_ON}") from None
        cache = super().open(path)
        cache._monotonic = monotonic
        return cache

    def close(self) -> None:
        """Commit what waits and close the file; what went wrong is said here, once."""
        self.flush()
        with self._reading:
            self._reader.close()
        super().close()
        if self.trouble is not None and not self._told:
            self._told = True
            warnings.warn(self.trouble, stacklevel=2)

    def get(self, key: bytes) -> CachedReply | None:
        """Give the reply that is kept under a key, or None."""
        if self._waiting and self._monotonic() >= self._due:
            self._flush_unless_busy()
        # an entry goes from the first to the last of these, so that it is in one of them at any time
        held = self._waiting.get(key) or self._committing.get(key)
        try:
            if held is not None:
                return _reply(*held[3:7])  # the columns of _FIND
            if not self._reads:
                return None
            with self._reading:
                row = self._reader.execute(_FIND, (key,)).fetchone()
            return None if row is None else _reply(*row)
        except DAMAGE as error:
            self._reads = False
            self._note(f"replies are not taken from the result cache any more: {words_of(self.kind, self.path, error)}")
            return None

    def put(self, request: CacheRequest, reply: CachedReply) -> bool:
        """Keep a reply; it is found at once, and on disk a little later. One that is kept already is replaced.

        Returns:
            Whether it is kept: not where the reply has values that are no JSON, or the file can not be written.
        """
        if not self._writes:
            return False
        try:
            row = self._row(request, reply)
        except (TypeError, ValueError, RecursionError):  # Judge notes such values
            return False
        with self._queue:
            if not self._waiting:
                self._due = self._monotonic() + GROUP_SECONDS
            self._waiting[request.key] = row
            is_due = len(self._waiting) >= GROUP or self._monotonic() >= self._due
        if is_due:
            self._flush_unless_busy()
        return True

    def flush(self) -> None:
        """Commit what waits."""
        with self._writing:
            self._commit()

    def _flush_unless_busy(self) -> None:
        # one thread commits; the others go on with their calls
        if self._writing.acquire(blocking=False):
            try:
                self._commit()
            finally:
                self._writing.release()

    def _commit(self) -> None:
        with self._queue:
            group = self._committing = self._waiting
            self._waiting = {}
        if not group or not self._writes:
            return
        configurations = {row[1]: row[-1] for row in group.values()}
        try:
            self._write(
                (_INSERT_CONFIGURATION, configurations.items()), (_INSERT, (row[:-1] for row in group.values()))
            )
        except CacheError as error:
            self._writes = False
            self._note(f"replies are not kept in the result cache any more, but in the run's journal: {error}")
        except BaseException:  # an interrupt: the next commit takes them too
            with self._queue:
                self._waiting = {**group, **self._waiting}
            raise
        finally:
            self._committing = {}

    def _row(self, request: CacheRequest, reply: CachedReply) -> tuple[Any, ...]:
        """Give the columns of an entry, and at the end the text of its configuration."""
        outline = request.outline()
        known = self._known.get(outline)
        if known is None:
            text = request.configuration().encode("utf-8", "replace")
            if len(self._known) >= KNOWN:
                self._known = {}
            known = self._known[outline] = blake2b(text, digest_size=16).digest(), text.decode()
        created_at, packed = to_micros(reply.created_at), pack(reply.generation)
        # the columns of _FIND stand together
        spent = reply.latency_seconds, reply.cost_usd
        return request.key, known[0], request.repeat, packed, *spent, created_at, known[1]

    def _note(self, trouble: str) -> None:
        self.trouble = self.trouble or trouble


def cache_path(option: bool | str | os.PathLike[str]) -> Path | None:
    """Give the file that an option ``cache`` means: a path, or the user's own for True and ``"refresh"``; None: off."""
    if isinstance(option, bool):
        return cache_folder() / FILE if option else None
    return cache_folder() / FILE if option == "refresh" else Path(option)


def open_cache(option: bool | str | os.PathLike[str], adapters: Iterable[ModelAdapter]) -> ResultCache | None:
    """Open the cache that a run needs; None where it is off, or no model's replies may be kept.

    Raises:
        CacheError: The file can not be used; says how to go on.
    """
    path = cache_path(option)
    return ResultCache.open(path) if path is not None and any(map(may_be_kept, adapters)) else None


def why_not_kept(
    status: str, *, output_text: str | None, tool_calls: str | None, finish_reason: str | None
) -> str | None:
    """Say why a judged reply is not kept: ``failed``, ``filtered``, ``truncated``, ``empty``; None: it is."""
    if status != "completed":
        return "failed"
    if finish_reason in _NOT_KEPT:
        return _NOT_KEPT[finish_reason]
    return None if (output_text or "").strip() or tool_calls is not None else "empty"


def _reply(packed: bytes, latency: float, cost: float | None, created_at: int) -> CachedReply:
    return CachedReply(unpack(packed), latency, cost, from_micros(created_at))
