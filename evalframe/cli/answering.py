"""How a command ends: results, or an error that says what to do, and an exit status that a script can trust.

Exit status: 0 clean; 1 the run ended but something failed; 2 wrong input; 3 run-time error; 130 interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import typer

from evalframe.cli.printing import counted, markdown, printable_lines, say, say_error, show, show_json

if TYPE_CHECKING:
    from evalframe.result import Run

FAILED, WRONG_INPUT, RUN_TIME_ERROR, INTERRUPTED = 1, 2, 3, 130


@contextmanager
def answering(json: bool) -> Iterator[None]:
    """Turn errors into messages and exit statuses: no traceback reaches a user for a mistake of theirs.

    Warnings go to stderr as one line each.
    """
    import warnings

    from evalframe.errors import EvalframeError, SchemaError

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_args, **_more: say(f"warning: {message}")
        try:
            yield
        except KeyboardInterrupt as interrupt:
            for note in getattr(interrupt, "__notes__", ("interrupted",)):
                say(note)
            if json:
                show_json(no_results("interrupted", "; ".join(getattr(interrupt, "__notes__", ("interrupted",)))))
            raise typer.Exit(INTERRUPTED) from None
        except SchemaError as error:
            fail(error, RUN_TIME_ERROR, json=json)
        except typer.Exit:
            raise
        except EvalframeError as error:  # also those that are an OSError: a folder or file that the user named
            fail(error, WRONG_INPUT, json=json)
        except OSError as error:
            fail(error, RUN_TIME_ERROR, json=json)
        except Exception as error:  # ours to mend, and no status of a run that ended
            import traceback

            say(traceback.format_exc())
            say("this is a fault of evalframe, or of a metric or adapter that it was given; please report it")
            fail(error, RUN_TIME_ERROR, json=json)


def fail(error: Exception, status: int, *, json: bool) -> None:
    """End with an error: on stderr, and with ``--json`` as an envelope on stdout."""
    from evalframe import export

    if json:
        with suppress(OSError):  # stdout can not be written, which may be the very error
            show_json(export.error_envelope(error))
    say_error(error)
    raise typer.Exit(status) from None


def report(done: Run, *, json: bool, fail_under: float | None = None, by: list[str] | None = None) -> None:
    """Print a run's results, and end with the status that they deserve."""
    from evalframe import export

    say(f"run: {done.path}")
    envelope = export.envelope(done)
    sliced = {name: done.slice(name) for name in by or ()}
    if lost := given_up(done):
        message = f"every model was given up, so that there is no result: {'; '.join(lost)}"
        if json:
            show_json({**no_results("models_given_up", message), "run": envelope["run"]})
        say(message)
        raise typer.Exit(RUN_TIME_ERROR)
    board = done.leaderboard()
    if json:
        show_json(with_slices(envelope, sliced))
    else:
        show(export.markdown(board))
        for name, frame in sliced.items():
            show("\n" + slice_table(name, frame))
    for note in getattr(board, "notes", ()):
        say(f"note: {note}")
    if unparsed := envelope["summary"]["fates"].get("unparsed"):
        samples = counted(unparsed, "completed sample")
        say(f"note: {samples} had no answer that the extraction could read; they score the worst")
    complaints = [*complaints_of(envelope, done), *_below(envelope, fail_under)]
    for line in complaints:
        say(line)
    if complaints:
        raise typer.Exit(FAILED)


def complaints_of(envelope: dict[str, Any], done: Run) -> list[str]:
    """Name what failed in a run that ended."""
    from evalframe.execution import how_to_resume

    summary = envelope["summary"]
    lost = {status: count for status, count in summary["status"].items() if status != "completed"}
    found = [f"{counted(count, 'call')} {status}" for status, count in lost.items()]
    reasons = ", ".join(f"{name} ({count})" for name, count in summary["errors"].items())
    if found and "completed" in summary["status"] and reasons:
        found[-1] += f": {reasons}"
    elif found and "completed" not in summary["status"]:
        found.append(f"no call of any model was answered: {reasons}; see evalframe runs show {done.path}")
    if done.record["status"] == "partial":
        exported = done.record.get("exported")
        found.append(
            "the run is partial, and an export: resume the run's own folder"
            if exported
            else f"the run is partial; it goes on with: {how_to_resume(done.folder, done.record)}"
        )
    if summary["fates"].get("grader_error"):
        found.append(f"{counted(summary['fates']['grader_error'], 'grader error')}")
    if summary["bad_tasks"]:
        found += [f"{counted(summary['bad_tasks'], 'bad task')} left out"]
        found += map(printable_lines, done.record["bad_tasks"])
    return found


def given_up(done: Run) -> list[str]:
    """Name the models and why they were given up, where every one was before it gave a reply; else nothing."""
    import polars as pl

    calls = done.scan("generations").select("model_id", "status", "error_type").collect(engine="in-memory")
    gone = calls.filter(pl.col("status") == "skipped", pl.col("error_type").is_in(["unavailable", "unauthorized"]))
    reasons = dict(gone.group_by("model_id", maintain_order=True).agg(pl.col("error_type").first()).iter_rows())
    models = calls["model_id"].unique(maintain_order=True).to_list()
    answered = (calls["status"] == "completed").any()
    if answered or not models or any(name not in reasons for name in models):
        return []
    return [f"{name} ({reasons[name]})" for name in models]


def with_slices(envelope: dict[str, Any], sliced: dict[str, Any]) -> dict[str, Any]:
    """Add sliced leaderboards to an envelope."""
    return {**envelope, **({"slices": {name: frame.to_dicts() for name, frame in sliced.items()}} if sliced else {})}


def slice_table(name: str, sliced: Any) -> str:
    """Give a sliced leaderboard as a markdown table."""
    columns = [f"by.{name}"] if f"by.{name}" in sliced.columns else [c for c in sliced.columns if c.startswith("by.")]
    rows = [
        [
            *(row[c] for c in columns),
            row["rank"],
            row["model_id"],
            row["n_units"],
            row["mean_score"],
            interval(row["mean_ci_lo"], row["mean_ci_hi"]),
        ]
        for row in sliced.to_dicts()
    ]
    return markdown([*(c.removeprefix("by.") for c in columns), "Rank", "Model", "Units", "Mean", "95% CI"], rows)


def interval(low: float | None, high: float | None) -> str | None:
    """Give an interval as a cell of a table."""
    return None if low is None or high is None else f"{low:.3f} to {high:.3f}"


def chance(p_value: float | None) -> str | None:
    """Give a p-value as a cell of a table."""
    return None if p_value is None else "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def check_bar(fail_under: float | None) -> None:
    """Refuse a bar that no score can be below."""
    from evalframe.errors import OptionError

    if fail_under is not None and not math.isfinite(fail_under):
        raise OptionError(f"--fail-under {fail_under}: no score can be below it; give a number, as in 0.8")


def _below(envelope: dict[str, Any], bar: float | None) -> list[str]:
    return [
        f"{row['model_id']}: "
        + (
            f"no sample has a score; {bar} is asked for"
            if row["mean_score"] is None
            else f"mean score {row['mean_score']} is below {bar}"
        )
        for row in envelope["leaderboard"]
        if bar is not None and (row["mean_score"] is None or row["mean_score"] < bar)
    ]


def no_results(kind: str, message: str) -> dict[str, Any]:
    """Give the envelope of a run without results, for a reason that is no exception."""
    return {
        "leaderboard": [], "pairwise": [], "calibration": {}, "perplexity": {}, "summary": {},
        "error": {"type": kind, "message": message, "details": []},
    }  # fmt: skip
