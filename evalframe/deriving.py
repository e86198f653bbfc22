"""A run that begins with the calls of other runs: a folder of its own; theirs stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from evalframe.advice import target_notes
from evalframe.assembling import check_registered
from evalframe.errors import RunFolderError
from evalframe.generate.finished import from_generations
from evalframe.generate.journal import Journal
from evalframe.generate.judgejournal import JudgeJournal
from evalframe.graders import graded_tasks, rows_without
from evalframe.recording import digest, environment, now
from evalframe.sandbox.launch import layers
from evalframe.schemas import CALL_KEY, GRADED
from evalframe.store import RunFolder, new_folder, run_id_of

if TYPE_CHECKING:
    from evalframe.result import Run

ALL_STATUSES = ("completed", "failed", "skipped")
CALLS_AT_ONCE = 5_000
ANEW = ("exported", "n_segments", "grader_metrics")  # entries of run.json that assembly writes


def begin(
    parents: Sequence[Run],
    *,
    how: str,
    rows: pl.DataFrame,
    manifest: Mapping[str, Any],
    changes: Mapping[str, Any],
    notes: Iterable[str] = (),
    statuses: Collection[str] = ALL_STATUSES,
    places: Sequence[pl.DataFrame | None] = (None,),
    kept_of: Callable[[pl.DataFrame], pl.DataFrame] = lambda kept: kept,
    out: str | os.PathLike[str] | bool | None = None,
) -> RunFolder:
    """Make the folder of a run that comes from others: rows, manifest, their calls, and ``run.json``.

    ``run.json`` comes last: a folder that was given up before has no run, and none that would repeat paid calls.

    Args:
        parents: The runs it comes from; settings and models are those of the first where ``changes`` say nothing.
        how: The verb: ``rescore``, ``extend``, ``rerun_failed``, ``concat``.
        rows: ROWS of the new run.
        manifest: What ``manifest.json`` keeps.
        changes: Entries of ``run.json`` that differ from the first parent's.
        notes: What a reader of its figures must know; those of the parents stay.
        statuses: Which outcomes are copied.
        places: For each parent the samples whose calls are copied, and their new numbers: ``task_id``,
            ``sample_index``, ``place``; None: all, as they are.
        kept_of: What is kept of what graders gave (GRADED).
        out: The folder; None: a temporary one where the first parent is in one, else a new one under the user's data
            directory.

    Raises:
        UnknownNameError: A metric is not registered in this process.
        RunFolderError: A parent is being written now, or the folder holds something already; or calls can not be read
            or written.
    """
    for parent in parents:
        if parent.record["status"] == "running":
            raise RunFolderError(f"{parent.path} is still running, or was killed; open it again with evalframe.load")
    first = parents[0]
    graded = graded_tasks(manifest)
    check_registered(rows_without(rows, graded), folder=first.folder)
    folder = new_folder(False if out is None and first.folder.temporary is not None else out)
    folder.write("rows", rows)
    folder.write_manifest(manifest)
    outcomes = pl.concat(kept_of(parent.folder.kept()) for parent in parents)
    if outcomes.height:
        folder.keep_graded(outcomes.unique(GRADED.key, maintain_order=True).sort(GRADED.key))
    for parent in parents:
        if parent.folder.judges_path.is_file():
            with JudgeJournal.open(folder.judges_path) as judges:
                judges.take(parent.folder.judges_path)
    with Journal.open(folder.journal_path) as journal:
        for parent, place in zip(parents, places, strict=True):
            _copy_calls(parent.folder, journal, statuses=statuses, places=place)
        n_finished = journal.done().height
    # what the parents' rows lack is said of the new rows, which may lack it no more, or now
    outdated = {note for parent in parents for note in target_notes(parent.rows)}
    told = [n for p in parents for n in p.record.get("notes", ()) if n not in outdated]
    kept = {name: value for name, value in first.record.items() if name not in ANEW}
    folder.write_record(
        {
            **kept,
            "run_id": run_id_of(folder),
            "status": "running",
            "started_at": now(),
            "ended_at": None,
            "wall_seconds": round(sum(parent.record["wall_seconds"] for parent in parents), 3),
            "sandbox_layers": layers(),
            "environment": environment(),
            "derived_from": [
                {"run_id": parent.record["run_id"], "path": str(parent.path), "how": how} for parent in parents
            ],
            **changes,
            "notes": list(dict.fromkeys([*target_notes(rows_without(rows, graded)), *told, *notes])),
            "rows_digest": digest(folder),
            "n_finished": n_finished,
            "paid_elsewhere_usd": sum(_paid(parent, statuses) for parent in parents),
            "cap_reached": False,
        }
    )
    return folder


def _paid(parent: Run, statuses: Collection[str]) -> float:
    """What the calls that are copied cost in their own run: a cap of dollars is on what the new run itself spends."""
    copied = parent.scan("generations").filter(pl.col("status").is_in(list(statuses)))
    return float(copied.select(pl.col("cost_usd").sum()).collect(engine="in-memory").item())


def _copy_calls(source: RunFolder, journal: Journal, *, statuses: Collection[str], places: pl.DataFrame | None) -> None:
    """Copy the calls of a run, with their raw replies; an exported one has no journal, so its generations are read."""
    if source.journal_path.is_file():
        journal.take(source.journal_path, statuses=statuses, places=places)
        return
    generations = source.scan("generations").filter(pl.col("status").is_in(list(statuses)))
    if places is not None:
        placed = generations.join(places.lazy(), on=["task_id", "sample_index"])
        generations = placed.with_columns(sample_index="place").drop("place").sort(CALL_KEY)
    for part in generations.collect(engine="in-memory").iter_slices(CALLS_AT_ONCE):
        journal.record(from_generations(part))
