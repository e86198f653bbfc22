"""The commands on runs that are there: runs list, show and prune."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalframe.cli import arguments as given
from evalframe.cli.answering import answering, chance, complaints_of, interval, slice_table, with_slices
from evalframe.cli.printing import counted, markdown, say, show, show_json, sized

if TYPE_CHECKING:
    from evalframe.shelf import ShelfEntry

FEW = 3  # names shown in a cell
MOST_FACING = 6  # models whose differences, a row a pair, are shown


def list_runs(folder: given.In = None, json: given.Json = False) -> None:
    """List runs, the newest first."""
    with answering(json):
        from evalframe import shelf, store

        found = shelf.list_runs(folder)
        if json:
            show_json({"runs": [run.to_json() for run in found]})
            return
        show(_table(found))
        if not found:
            say(f"no run in {folder or store.runs_folder()}; evalframe run SOURCE --model … makes one")


def show_run(name: given.RunName, folder: given.In = None, by: given.By = None, json: given.Json = False) -> None:
    """Show one run: leaderboard, differences, failures, what can be done next."""
    with answering(json):
        from evalframe import export

        done = given.run_of(name, folder=folder)
        envelope = export.envelope(done)
        board = done.leaderboard()
        sliced = {field: done.slice(field) for field in by or ()}
        if json:
            show_json(with_slices(envelope, sliced))
        else:
            show(export.markdown(board))
            for field, frame in sliced.items():
                show("\n" + slice_table(field, frame))
            if 1 < board.height <= MOST_FACING:
                show("\n" + _pairs(envelope["pairwise"]))
        summary, record = envelope["summary"], done.record
        say(f"run {record['run_id']} ({record['status']}), begun {record['started_at']}: {done.path}")
        counts = {"task": "tasks", "sample": "samples", "model": "models", "call": "task_runs"}
        say(", ".join(counted(summary[name], what) for what, name in counts.items()))
        for note in getattr(board, "notes", ()):
            say(f"note: {note}")
        for line in complaints_of(envelope, done):
            say(line)
        n_failures = done.failures().height
        say(f"not scored: {counted(n_failures, 'call')}{_how(n_failures, done.path)}")
        if summary["status"].get("failed"):
            say(f"next: evalframe.load({str(done.path)!r}).rerun_failed() in Python makes the failed calls again")
        say(f"next: evalframe compare {done.path} OTHER_RUN")
        say(f"next: evalframe rescore {done.path} --extract number")
        say(f"next: evalframe.load({str(done.path)!r}) in Python; its frames are the Parquet files of the folder")


def prune(
    folder: given.In = None,
    keep: Annotated[int | None, typer.Option(help="The newest N of all runs stay.", metavar="N")] = None,
    older_than: Annotated[float | None, typer.Option(help="Runs that began longer ago.", metavar="DAYS")] = None,
    status: Annotated[str | None, typer.Option(help="Only partial, or only complete ones.", metavar="WORD")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; else they are only listed.")] = False,
    json: given.Json = False,
) -> None:
    """List runs that may go; with --yes remove them."""
    with answering(json):
        from evalframe import shelf

        entries = shelf.list_runs(folder)
        chosen = shelf.choose_runs(entries, keep=keep, older_than_days=older_than, status=status)
        removed, stay = shelf.remove_runs(chosen) if yes else ([], [])
        if not yes:
            chosen, stay = shelf.removable(chosen)
        if json:
            show_json({
                "would_go": [] if yes else [run.to_json() for run in chosen],
                "removed": [run.to_json() for run in removed],
                "kept": stay,
            })  # fmt: skip
        else:
            show(_table(removed if yes else chosen))
        for line in stay:
            say(f"kept: {line}")
        size = sized(sum(run.n_bytes for run in (removed if yes else chosen)))
        if yes:
            say(f"removed {counted(len(removed), 'run')}, {size}")
        elif chosen:
            say(f"{counted(len(chosen), 'run')}, {size}, would go; nothing was removed: add --yes to remove them")
        else:
            say("no run is to go")


def _pairs(rows: list[dict[str, Any]]) -> str:
    """Show whether the models differ: the paired differences of the run."""
    columns = ["Model A", "Model B", "A - B", "95% CI", "p", "p, Holm", "Pairs", "Detectable from"]
    cells = [
        [
            row["model_a"], row["model_b"], row["diff_mean"], interval(row["ci_lo"], row["ci_hi"]),
            chance(row["p_value"]), chance(row["p_adjusted"]), row["n_pairs"], row["min_detectable"],
        ]
        for row in rows
    ]  # fmt: skip
    return markdown(columns, cells)


def _table(runs: list[ShelfEntry]) -> str:
    rows = [
        [
            run.run_id, run.status, f"{run.started_at:%Y-%m-%d %H:%M}",
            None if run.task_ids is None else _few(run.task_ids), _few(run.models), run.n_calls, sized(run.n_bytes),
            str(run.path),
        ]
        for run in runs
    ]  # fmt: skip
    return markdown(["Run", "Status", "Begun (UTC)", "Tasks", "Models", "Calls", "Size", "Folder"], rows)


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _how(n_failures: int, path: object) -> str:
    return f"; see evalframe.load({str(path)!r}).failures() in Python" if n_failures else ""
