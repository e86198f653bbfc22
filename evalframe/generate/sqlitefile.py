"""A SQLite file of ours: opened or made whole, told from others, shared by threads and processes, errors in our words.

The journal of a run and the user's result cache both stand on it. WAL mode: readers see one state and never wait for
the writer; a process that is killed at any moment loses nothing that it committed.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from evalframe.errors import EvalframeError

BUSY_SECONDS = 60.0
FETCH = 10_000
_RETRY_SECONDS = 0.005

# what SQLite, zlib and JSON raise of a file that can not be used; ValueError: a body that is no JSON
DAMAGE = (sqlite3.Error, zlib.error, ValueError)

Rows = Iterable[Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """What a file is, and what to do where it is something else.

    Attributes:
        name: What it is called in messages.
        application_id: Four letters as a number: tells the file from any other SQLite file.
        version: Of its tables.
        create: The statements that make its tables.
        error: What is raised.
        if_damaged, if_foreign, if_other_version: What is said at the end of a message, with what to do.
        busy_seconds: How long another process's lock is waited for.
    """

    name: str
    application_id: int
    version: int
    create: tuple[str, ...]
    error: type[EvalframeError]
    if_damaged: str
    if_foreign: str
    if_other_version: str
    busy_seconds: float = BUSY_SECONDS


class SqliteFile:
    """One open file. Safe to use from several threads; a subclass says what kind it is."""

    kind: ClassVar[FileKind]

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._writing = threading.Lock()  # held by the thread that commits
        self._queue = threading.Lock()  # held for an append to what waits for a commit

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file, or make an empty one where there is none.

        Raises:
            EvalframeError: That of the kind: the folder is missing, or the file is of another kind or version, is
                damaged, or can not be written.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise cls.kind.error(f"{path}: there is no folder {path.parent}; make it first")
        with in_our_words(cls.kind, path):
            connection = connect(path, cls.kind)
            try:
                _prepare(path, connection, cls.kind)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was committed stays. Closing twice is harmless."""
        with self._writing:
            self._connection.close()

    def _write(self, *statements: tuple[str, Rows]) -> None:
        """Execute statements, each for all its rows, in one transaction; the caller holds ``_writing``."""
        with self._using(), transaction(self._connection):
            for statement, rows in statements:
                self._connection.executemany(statement, rows)

    def _read(self, query: str, values: Sequence[Any] = (), *, fetch: int = FETCH) -> Iterator[list[tuple[Any, ...]]]:
        # a connection of its own, so that a reader sees one state and never waits for the writer
        with self._using():
            connection = connect(self.path, self.kind)
        try:
            with self._using():
                cursor = connection.execute(query, values)
            while True:
                with self._using():
                    rows = cursor.fetchmany(fetch)
                if not rows:
                    return
                yield rows
        finally:
            connection.close()

    @contextmanager
    def _using(self, path: Path | None = None) -> Iterator[None]:
        with in_our_words(self.kind, path or self.path):
            yield


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all that is written inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def in_our_words(kind: FileKind, path: Path) -> Iterator[None]:
    """Raise the error of a kind for what SQLite, zlib and JSON raise of a file."""
    try:
        yield
    except DAMAGE as error:
        raise kind.error(words_of(kind, path, error)) from error


def words_of(kind: FileKind, path: Path, error: BaseException) -> str:
    """Say that a file can not be used, why, and what to do."""
    return f"{path}: the {kind.name} can not be used ({error}); {kind.if_damaged}"


def refuse_foreign(path: Path, connection: sqlite3.Connection, kind: FileKind, *, schema: str = "main") -> None:
    """Refuse a database that is of another kind or version.

    Raises:
        EvalframeError: That of the kind.
    """
    (application,) = connection.execute(f"PRAGMA {schema}.application_id").fetchone()
    (version,) = connection.execute(f"PRAGMA {schema}.user_version").fetchone()
    if application != kind.application_id:
        raise kind.error(f"{path}: {kind.if_foreign}")
    if version != kind.version:
        raise kind.error(
            f"{path}: is a {kind.name} of version {version}, and this evalframe reads version {kind.version}; "
            f"{kind.if_other_version}"
        )


def read_only(path: Path) -> str:
    """Give the URI by which a file is read without a trace in its folder, which may be someone else's."""
    # what a killed process left in the log is no part of the file yet, and SQLite must be let at it
    log = Path(f"{path}-wal")
    whole = not log.is_file() or not log.stat().st_size
    return f"{path.resolve().as_uri()}?mode=ro" + ("&immutable=1" if whole else "")


def connect(path: Path, kind: FileKind) -> sqlite3.Connection:
    """Open a connection that threads may share and that begins no transaction of itself."""
    path = path.absolute()  # a relative "file:x" would be taken for a URI
    return sqlite3.connect(path, timeout=kind.busy_seconds, isolation_level=None, check_same_thread=False, uri=True)


def _prepare(path: Path, connection: sqlite3.Connection, kind: FileKind) -> None:
    """Set the file up where it is new; refuse it, as it is, where it is not ours."""
    if not _is_new(connection):
        refuse_foreign(path, connection, kind)
    _log_ahead(connection, kind)
    connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; only a power cut may
    with transaction(connection):  # a kill leaves a file that is empty or whole
        if _is_new(connection):
            for statement in kind.create:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {kind.application_id}")
            connection.execute(f"PRAGMA user_version = {kind.version}")
        else:
            refuse_foreign(path, connection, kind)


def _is_new(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return not tables and not application


def _log_ahead(connection: sqlite3.Connection, kind: FileKind) -> None:
    """Turn the log on; SQLite does not wait here for another process that is just doing the same."""
    deadline = time.monotonic() + kind.busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return
