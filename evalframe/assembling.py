"""From the journal of a run to its result frames, one bounded segment at a time."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evalframe.confiding import Lacks, confide
from evalframe.errors import SandboxError, UnknownNameError
from evalframe.extracting import extract_answers
from evalframe.frames import empty
from evalframe.generate.journal import Journal
from evalframe.generate.progress import Stage
from evalframe.generate.threads import record_missing
from evalframe.options import RunOptions
from evalframe.registry import METRICS
from evalframe.sandbox.launch import layers
from evalframe.sandbox.policy import Policy
from evalframe.schemas import CALL_KEY, GRADES
from evalframe.scoring import score_answers
from evalframe.store import RunFolder
from evalframe.summarising import summarise_tasks


def assemble(folder: RunFolder, *, options: RunOptions, model_ids: Sequence[str]) -> None:
    """Write every result frame of a run anew from its rows and its journal; no model is called.

    Calls that were planned and never finished become rows with status ``skipped``, error ``interrupted``, and the run
    is marked ``partial``. Doing it again gives the same files.

    Raises:
        UnknownNameError: A metric of the run is not registered in this process.
    """
    rows = folder.read("rows")
    policy = sandbox_policy(options)
    check_registered(rows, folder=folder)
    folder.drop_results()
    n_calls, segment, lacks = 0, -1, Lacks()
    with Journal.open(folder.journal_path) as journal:
        missing = record_missing(rows, model_ids=model_ids, journal=journal, repeats=options.repeats)
        n_recorded = int(journal.counts()["n"].sum())
        with Stage("scoring", n_recorded, show=options.progress) as stage:
            for segment, generations in enumerate(journal.segments(limits=options.limits)):
                answers = extract_answers(generations, rows=rows, limits=options.limits)
                scores = score_answers(answers, generations=generations, rows=rows, policy=policy)
                # the journal keeps what the adapter said, so that another source can be chosen later
                confident = confide(generations, answers, option=options.confidence, lacks=lacks, limits=options.limits)
                folder.write("generations", confident, segment=segment)
                folder.write("answers", answers, segment=segment)
                folder.write("scores", scores, segment=segment)
                n_calls += generations.height
                stage.step(generations.height)
    folder.write("grades", empty(GRADES))
    # outcomes only: the texts of a large run would not fit
    outcomes = folder.scan("generations").select(*CALL_KEY, "status").collect(engine="in-memory")
    folder.write("task_metrics", summarise_tasks(folder.read("scores"), rows=rows, generations=outcomes))
    status = "partial" if missing else "complete"
    folder.update_record(
        status=status, n_segments=segment + 1, n_finished=n_calls - missing, confidence_notes=lacks.lines()
    )


def check_registered(rows: pl.DataFrame, *, folder: RunFolder) -> None:
    """Refuse to score with a metric missing: a run must never be written as if it had not asked for one.

    Raises:
        UnknownNameError: Names the metrics and says that the calls are safe.
    """
    asked = rows["metrics"].explode(empty_as_null=False).struct.field("id").unique().sort()
    if lost := [name for name in asked if name not in METRICS]:
        raise UnknownNameError(
            f"{folder.path}: the metrics {', '.join(lost)} of this run are not registered in this process; register "
            "them (run their cell, import their module), then call evalframe.resume or evalframe.load from Python; "
            "the finished calls are safe in the journal"
        )


def sandbox_policy(options: RunOptions) -> Policy:
    """The policy of a run for foreign code."""
    return Policy(sandbox=options.sandbox, allow_unsandboxed=options.allow_unsandboxed, limits=options.limits)


def check_sandbox(rows: pl.DataFrame, *, options: RunOptions) -> None:
    """Refuse a run that would need more walls for generated code than there are, before any call.

    Raises:
        SandboxError: Says what is missing and how to accept it.
    """
    runs_code = rows["metrics"].list.eval(pl.element().struct.field("id") == "code_exec").list.any().any()
    if not runs_code or (options.allow_unsandboxed and options.sandbox != "strict"):
        return
    held = ", ".join(name for name, there in layers().items() if there) or "none"
    raise SandboxError(
        "this run executes generated code (code_exec), and this version of evalframe has no wall around it but "
        f"resource limits (here: {held}); pass allow_unsandboxed=True (--allow-unsandboxed) to accept that, on a "
        "machine where generated code can do no harm"
    )
