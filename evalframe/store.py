"""A run is a folder: where its parts are, how they are opened, and that only one process writes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from evalframe import frames, schemas
from evalframe.disk import user_folder, write_text
from evalframe.errors import RunFolderError, SchemaError
from evalframe.jsontext import clean

FORMAT_VERSION = 1
_AGAIN = "evalframe resume writes what follows from the journal again"
# frames that are written in segments, each a file; all segments of one run have the same bounds
SEGMENTED = {"generations": schemas.GENERATIONS, "answers": schemas.ANSWERS, "scores": schemas.SCORES}
WHOLE = {
    "rows": schemas.ROWS, "grades": schemas.GRADES, "task_metrics": schemas.TASK_METRICS,
    "judge_calls": schemas.JUDGE_CALLS,
}  # fmt: skip
STORED = {**SEGMENTED, **WHOLE}
KEPT = "graded"  # outcomes of graders: segments of their own, which no assembly removes
# what a run, its export and the demonstration write: by these names alone files are removed
_OURS = re.compile(
    rf"lock|(run|manifest|envelope)\.json|(journal|judges)\.sqlite(-wal|-shm|-journal)?"
    rf"|({'|'.join([*SEGMENTED, KEPT])})/\d+\.parquet"
    rf"|({'|'.join(WHOLE)}|samples|leaderboard|pairwise|calibration|reliability|costs)\.parquet"
    rf"|(({'|'.join([*SEGMENTED, KEPT])})/)?\.[^/]+\.tmp"
)

# what every run.json says, and a reader of it takes for granted
_NEEDED: dict[str, Any] = {
    "run_id": str, "kind": str, "status": str, "version": str, "models": list, "options": dict, "bad_tasks": list,
}  # fmt: skip


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RunFolder:
    """The files of one run.

    ``run.json`` (versions, settings, timings), ``manifest.json`` (the source), ``rows.parquet``, ``journal.sqlite``
    (the truth about calls), ``generations/``, ``answers/``, ``scores/`` (Parquet segments), ``graded/`` (what
    graders gave, so that they are not called twice), ``grades.parquet``, ``task_metrics.parquet``.
    """

    path: Path
    # what removes the folder with this object; None: nothing does
    temporary: weakref.finalize[..., RunFolder] | None = field(default=None, compare=False, repr=False)

    @property
    def journal_path(self) -> Path:
        """The journal of finished calls."""
        return self.path / "journal.sqlite"

    @property
    def judges_path(self) -> Path:
        """The journal of the calls that graders made; not there where none did."""
        return self.path / "judges.sqlite"

    def record(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises:
            RunFolderError: The folder holds no run, or one of another format version.
        """
        file = self.path / "run.json"
        try:
            record: dict[str, Any] = json.loads(file.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            there = "it has no run.json" if self.path.is_dir() else "there is no such folder"
            there = "it is a file" if self.path.is_file() else there
            raise RunFolderError(f"{self.path} holds no run: {there}; give the folder that run() wrote") from None
        except ValueError as error:
            raise RunFolderError(f"{file} is damaged: {error}") from None
        if not isinstance(record, dict):
            raise RunFolderError(f"{file} is damaged: it holds no JSON object")
        if "format_version" not in record:
            raise RunFolderError(
                f"{self.path} holds no run: {file.name} is no record of one; give the folder that run() wrote"
            )
        if record["format_version"] != FORMAT_VERSION:
            raise RunFolderError(
                f"{self.path}: run format {record['format_version']!r}, and this evalframe reads {FORMAT_VERSION}; "
                "open it with the evalframe that wrote it"
            )
        if bad := [name for name, kind in _NEEDED.items() if not isinstance(record.get(name), kind)]:
            raise RunFolderError(f"{file} is damaged: {', '.join(bad)} missing or of a wrong type; bring the file back")
        return record

    def keep(self) -> None:
        """Let a temporary folder outlive this object, and the process: what it holds was paid for."""
        if self.temporary is not None:
            self.temporary.detach()

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Write ``run.json``; it holds no secrets, because nothing that is given to it does."""
        write_text(self.path / "run.json", json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def update_record(self, **changes: Any) -> None:
        """Change some fields of ``run.json``."""
        self.write_record({**self.record(), **changes})

    def manifest(self) -> dict[str, Any]:
        """Read ``manifest.json``."""
        try:
            manifest: dict[str, Any] = json.loads((self.path / "manifest.json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{self.path / 'manifest.json'} can not be read: {error}") from None
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write ``manifest.json``."""
        write_text(self.path / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")

    def files_of(self, name: str) -> list[Path]:
        """The Parquet files of a stored frame, in order; empty where it was not written yet."""
        if name in SEGMENTED:
            return sorted((self.path / name).glob("[0-9]*.parquet"))
        file = self.path / f"{name}.parquet"
        return [file] if file.is_file() else []

    def scan(self, name: str) -> pl.LazyFrame:
        """Open a stored frame lazily; in the folder of a run without one, collect it while the run is there.

        Raises:
            RunFolderError: Files are missing or damaged; says what writes them again.
        """
        files = self.files_of(name)
        wanted = self.record().get("n_segments", len(files)) if name in SEGMENTED else 1
        if len(files) != wanted:
            raise RunFolderError(f"{self.path}: {len(files)} of {wanted} files of {name} are there; {_AGAIN}")
        scanned = self._scan(files, name, STORED[name])
        return self._with_graders_metrics(scanned) if name == "rows" else scanned

    def segment(self, name: str, number: int) -> pl.LazyFrame:
        """Open one segment of a frame."""
        return self._scan([self.path / name / f"{number:05d}.parquet"], name, SEGMENTED[name])

    def kept(self, task_id: str | None = None) -> pl.DataFrame:
        """Read GRADED, what graders gave, of all tasks or of one; empty where there was none."""
        files = sorted((self.path / KEPT).glob("[0-9]*.parquet"))
        if not files:
            return frames.empty(schemas.GRADED)
        wanted = pl.lit(True) if task_id is None else pl.col("task_id") == task_id
        scanned = self._scan(files, KEPT, schemas.GRADED)
        found = scanned.filter(wanted).collect(engine="in-memory")
        return found.unique(schemas.GRADED.key, keep="last", maintain_order=True).sort(schemas.GRADED.key)

    def keep_graded(self, graded: pl.DataFrame) -> None:
        """Write some of GRADED as a segment of its own."""
        last = max((int(file.stem) for file in (self.path / KEPT).glob("[0-9]*.parquet")), default=-1)
        frames.write_parquet(graded, schemas.GRADED, self.path / KEPT / f"{last + 1:05d}.parquet")

    def _scan(self, files: list[Path], name: str, schema: frames.FrameSchema) -> pl.LazyFrame:
        try:
            return frames.scan_parquet(files, schema)
        except (SchemaError, pl.exceptions.PolarsError, OSError) as error:
            raise RunFolderError(f"{self.path}: a file of {name} can not be read; {_AGAIN} ({error})") from None

    def _with_graders_metrics(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Give a task that declares no metrics the one that its batch grader named: ``run.json`` knows it."""
        named = self.record().get("grader_metrics", {})
        column = rows.collect_schema()["metrics"] if named else None
        for task_id, entries in named.items():
            theirs = pl.lit(pl.Series([entries], dtype=column)).first()
            is_open = (pl.col("task_id") == task_id) & (pl.col("metrics").list.len() == 0)
            rows = rows.with_columns(metrics=pl.when(is_open).then(theirs).otherwise("metrics"))
        return rows

    def read(self, name: str) -> pl.DataFrame:
        """Read a stored frame."""
        return self.scan(name).collect(engine="in-memory")

    def write(self, name: str, frame: pl.DataFrame, *, segment: int | None = None) -> None:
        """Write a frame, or one segment of it."""
        place = f"{name}.parquet" if segment is None else f"{name}/{segment:05d}.parquet"
        frames.write_parquet(frame, STORED[name], self.path / place)

    def drop_results(self) -> None:
        """Remove what is computed from rows and journal, so that it can be written anew."""
        for name in SEGMENTED:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in WHOLE.keys() - {"rows"}:
            (self.path / f"{name}.parquet").unlink(missing_ok=True)

    def strangers(self) -> list[str]:
        """Name the files in the folder that no run writes, sorted: they are somebody's, and not for us to remove."""
        places = [
            (Path(place) / name).relative_to(self.path).as_posix()
            for place, folders, files in os.walk(self.path)
            for name in (*files, *(name for name in folders if (Path(place) / name).is_symlink()))
        ]
        return sorted(place for place in places if not _OURS.fullmatch(place))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against other writers, in this process and others; the lock ends with the process.

        Raises:
            RunFolderError: Another one holds it.
        """
        with (self.path / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunFolderError(f"{self.path}: another process is writing this run; wait for it to end") from None
            yield


def new_folder(out: str | os.PathLike[str] | bool | None) -> RunFolder:
    """Make the folder of a new run.

    Args:
        out: The folder to use, new or empty; None: a new one under the user's data directory; False: a temporary one
            that is removed with the object, unless it is to be kept (True is refused by the options).

    Raises:
        RunFolderError: The folder holds something already.
    """
    if isinstance(out, bool):
        folder = RunFolder(Path(tempfile.mkdtemp(prefix="evalframe-")))
        object.__setattr__(folder, "temporary", weakref.finalize(folder, shutil.rmtree, folder.path, True))
        return folder
    path = runs_folder() / new_run_id() if out is None else Path(os.fspath(out))
    check_name(path)
    if path.is_dir() and any(path.iterdir()):
        what = "holds a run: resume it, or" if (path / "run.json").is_file() else "is not empty:"
        raise RunFolderError(f"{path} {what} give another folder")
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file; give a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{path} can not be made: {error.strerror}; give another folder") from None
    return RunFolder(path.resolve())


def check_name(path: Path) -> None:
    """Refuse a path that no frame can be written to.

    Raises:
        RunFolderError: The path is not text that UTF-8 can hold.
    """
    if clean(str(path)) != str(path):
        raise RunFolderError(f"{clean(str(path))} has a name that is not UTF-8; give another folder")


def runs_folder() -> Path:
    """Where runs go that name no folder."""
    return user_folder() / "runs"


def new_run_id() -> str:
    """An id that sorts by time and clashes with none: ``20261130-213452-9f3a1c``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def run_id_of(folder: RunFolder) -> str:
    """Give the id of a new run: the name of its folder, where that is under the user's data directory."""
    return folder.path.name if folder.path.parent == runs_folder().resolve() else new_run_id()


def is_writable(path: Path) -> bool:
    """Whether a folder, or the first of its parents that is there, can be written."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK)
