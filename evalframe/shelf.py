"""The folder that holds runs: what is in it, which run a name means, and which may go."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.errors import Fault, OptionError, RunFolderError
from evalframe.registry import suggestion
from evalframe.store import RunFolder, runs_folder

FORMS = "give the folder of a run, its id, or how its id begins (evalframe runs list shows them)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfEntry:
    """A run in a folder of runs.

    Attributes:
        run_id: As ``run.json`` has it.
        path: Its folder.
        status: ``complete``, ``partial``, or ``running`` while a process holds it.
        started_at: When it began, in UTC.
        task_ids: Its tasks, sorted; None where the rows can not be read.
        models: The ids of its models, in order.
        n_calls: Finished calls; None while they were never counted.
        n_bytes: Size of the folder.
    """

    run_id: str
    path: Path
    status: str
    started_at: datetime
    task_ids: tuple[str, ...] | None
    models: tuple[str, ...]
    n_calls: int | None
    n_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Give the entry as plain JSON values."""
        return {
            "run_id": self.run_id,
            "path": str(self.path),
            "status": self.status,
            "started_at": self.started_at.isoformat(),
            "task_ids": None if self.task_ids is None else list(self.task_ids),
            "models": list(self.models),
            "n_calls": self.n_calls,
            "n_bytes": self.n_bytes,
        }


def list_runs(folder: Path | None = None) -> list[ShelfEntry]:
    """List the runs of a folder, the newest first; what is no run is left out.

    Args:
        folder: Holds runs. None: the user's own, which need not be there.

    Raises:
        OptionError: The folder is missing, or is a run itself.
    """
    return sorted(
        (_entry(RunFolder(path), record) for path, record in _records(folder)),
        key=lambda entry: (entry.started_at, entry.run_id),
        reverse=True,
    )


def find_run(name: str | Path, *, folder: Path | None = None) -> Path:
    """Find the run that a name means.

    Args:
        name: A folder that is there, else an id or the beginning of one; a folder's name counts as its id too.
        folder: Where ids are looked up. None: the user's own.

    Raises:
        RunFolderError: The folder is no run, or no run has this id; the nearest are named.
        OptionError: Several ids begin so, or the name is a file.
    """
    if name == "":  # the working folder is "."
        raise RunFolderError(f"an empty name names no run; {FORMS}")
    path = Path(name)
    if path.is_dir():
        RunFolder(path).record()  # says what is wrong with it
        return path
    if path.is_file():
        raise OptionError(_is_a_file(path))
    ids = _ids(folder)
    exact = ids.get(str(name), set())
    found = exact or {place for known, places in ids.items() if known.startswith(str(name)) for place in places}
    if len(found) > 1:
        several = ", ".join(sorted(place.name for place in found)[:5])
        raise OptionError(f"{name}: {len(found)} runs begin so: {several}; write more of the id")
    if not found:
        there = folder or runs_folder()
        near = suggestion(str(name), ids) if ids else f"{there} has no run yet"
        raise RunFolderError(f"{name} holds no run: there is no such folder, and no run in {there} has this id "
                             f"({near}); {FORMS}")  # fmt: skip
    return found.pop()


def choose_runs(
    runs: Sequence[ShelfEntry],
    *,
    keep: int | None = None,
    older_than_days: float | None = None,
    status: str | None = None,
    now: datetime | None = None,
) -> list[ShelfEntry]:
    """Choose the runs that may go: those that fulfil all conditions that are given. A run that is running never is.

    Args:
        runs: The newest first, as ``list_runs`` gives them.
        keep: The newest so many, of all, stay.
        older_than_days: Only runs that began longer ago.
        status: Only ``partial`` ones, or only ``complete`` ones.
        now: The time; None: of the clock.

    Raises:
        OptionError: No condition is given, or one is out of its range.
    """
    faults = []
    if keep is None and older_than_days is None and status is None:
        remedy = "give --keep N, --older-than DAYS or --status partial; a run goes where all that are given hold"
        faults.append(Fault("prune", "empty", "nothing says which runs may go", remedy))
    if keep is not None and keep < 0:
        faults.append(Fault("--keep", "bad_value", f"{keep} is below 0", "give how many of the newest runs stay"))
    if older_than_days is not None and not 0 <= older_than_days < 1e6:
        faults.append(Fault("--older-than", "bad_value", f"{older_than_days} is no number of days", "write 30"))
    if status is not None and status not in ("partial", "complete"):
        faults.append(Fault("--status", "bad_value", f"{status!r} is none of partial, complete", "write partial"))
    if faults:
        raise OptionError.of(faults, what="runs prune")
    limit = None if older_than_days is None else (now or datetime.now(UTC)) - timedelta(days=older_than_days)
    return [
        run
        for place, run in enumerate(runs)
        if run.status != "running"
        and (keep is None or place >= keep)
        and (limit is None or run.started_at < limit)
        and (status is None or run.status == status)
    ]


def remove_runs(runs: Iterable[ShelfEntry]) -> tuple[list[ShelfEntry], list[str]]:
    """Remove the folders of runs.

    One that another process holds stays, and so do one that is no run any more and one with files of somebody else.

    Returns:
        The runs that were removed, and of the others why they stay.
    """
    removed, kept = [], []
    for run in runs:
        folder = RunFolder(run.path)
        try:
            if folder.record()["run_id"] != run.run_id:
                raise RunFolderError(f"{run.path}: another run is there now")
            with folder.locked():
                check_strangers(folder)
                shutil.rmtree(run.path)
        except OSError as error:  # ours are too
            kept.append(str(error))
        else:
            removed.append(run)
    return removed, kept


def removable(runs: Iterable[ShelfEntry]) -> tuple[list[ShelfEntry], list[str]]:
    """Part the runs that hold nothing but a run from the others.

    Returns:
        The runs whose folders hold nothing else, and of the others why they stay.
    """
    alone, kept = [], []
    for run in runs:
        try:
            check_strangers(RunFolder(run.path))
        except RunFolderError as error:
            kept.append(str(error))
        else:
            alone.append(run)
    return alone, kept


def check_strangers(folder: RunFolder) -> None:
    """Refuse to remove a folder that holds more than a run.

    Raises:
        RunFolderError: Files are in it that no run wrote.
    """
    if strange := folder.strangers():
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise RunFolderError(
            f"{folder.path} holds {', '.join(strange[:3])}{more}, which no run wrote; move it away, and the run can go"
        )


def _records(folder: Path | None) -> list[tuple[Path, dict[str, Any]]]:
    """Read the ``run.json`` of each run of a folder."""
    place = runs_folder() if folder is None else folder
    if folder is not None and not place.is_dir():
        raise OptionError(f"--in {folder}: there is no such folder; give one that holds runs")
    if (place / "run.json").is_file():
        raise OptionError(f"--in {folder} is a run itself: evalframe runs show {folder}, or give the folder above it")
    found = []
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        if path.is_symlink() or not (path / "run.json").is_file():
            continue
        try:
            record = RunFolder(path).record()
            datetime.fromisoformat(record["started_at"])
            found.append((path, {**record, "run_id": str(record["run_id"]), "models": list(record["models"])}))
        except (RunFolderError, KeyError, TypeError, ValueError):
            continue  # of another format, or damaged: nothing that a command here should touch
    return found


def _entry(folder: RunFolder, record: dict[str, Any]) -> ShelfEntry:
    status = record["status"]
    if status == "running" and not _is_held(folder):
        status = "partial"  # its process is gone
    started = datetime.fromisoformat(record["started_at"])
    return ShelfEntry(
        run_id=record["run_id"],
        path=folder.path,
        status=status,
        started_at=started if started.tzinfo else started.replace(tzinfo=UTC),
        task_ids=_task_ids(folder),
        models=tuple(model["model_id"] for model in record["models"]),
        n_calls=record.get("n_finished"),
        n_bytes=sum(file.lstat().st_size for file in folder.path.rglob("*") if not file.is_dir()),
    )


def _task_ids(folder: RunFolder) -> tuple[str, ...] | None:
    try:
        ids = folder.scan("rows").select("task_id").unique().collect(engine="in-memory")
    except (RunFolderError, pl.exceptions.PolarsError):
        return None
    return tuple(ids["task_id"].sort())


def _is_held(folder: RunFolder) -> bool:
    """Whether a process is writing a run; a look that is over at once and takes nothing."""
    try:
        with (folder.path / "lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # it was never locked
    return False


def _ids(folder: Path | None) -> dict[str, set[Path]]:
    ids: dict[str, set[Path]] = {}
    for path, record in _records(folder):
        for name in (record["run_id"], path.name):
            ids.setdefault(name, set()).add(path)
    return ids


def _is_a_file(path: Path) -> str:
    suffix = path.name.lower().removesuffix(".gz")
    if suffix.endswith((".json", ".jsonl", ".ndjson", ".csv", ".yaml", ".yml")):
        return f"{path} is a file, and a run is a folder; make one with evalframe run {path} --model …, or {FORMS}"
    return f"{path} is a file, and a run is a folder; {FORMS}"
