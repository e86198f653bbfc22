"""From the journal of a run to its result frames, one bounded segment at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from evalframe.advice import FROM_CALLER, warn_of
from evalframe.confiding import Lacks, confide
from evalframe.errors import UnknownNameError
from evalframe.extracting import extract_answers
from evalframe.frames import empty
from evalframe.generate.journal import Journal
from evalframe.generate.progress import Stage
from evalframe.generate.threads import record_missing
from evalframe.graders import Graded, grade_run, graded_tasks, rows_without, task_graders
from evalframe.judging import bridging, judge_calls
from evalframe.models import Model
from evalframe.options import RunOptions
from evalframe.registry import METRICS
from evalframe.sandbox.policy import Policy, require_walls
from evalframe.schemas import CALL_KEY, GRADES, SCORES
from evalframe.scoring import score_answers
from evalframe.store import RunFolder
from evalframe.summarising import Batches, summarise_tasks


def assemble(
    folder: RunFolder,
    *,
    options: RunOptions,
    model_ids: Sequence[str],
    models: Sequence[Model] = (),
    asks: bool = True,
) -> None:
    """Write every result frame of a run anew from its rows and its journal; only graders may call models.

    Calls that were planned and never finished become rows with status ``skipped``, error ``interrupted``, and the run
    is marked ``partial``. Doing it again gives the same files. Graders are called when all calls are in segments, for
    what was not graded before.

    Args:
        folder: The run's.
        options: Of the run.
        model_ids: Its models.
        models: Those of its models that are at hand as objects; graders may call them.
        asks: Whether graders that call models are called; else what they did not grade before stays without a score.

    Raises:
        UnknownNameError: A metric of the run is not registered in this process.
    """
    folder.update_record(grader_metrics={})  # they are found anew
    rows, manifest = folder.read("rows"), folder.manifest()
    policy = sandbox_policy(options)
    graders = task_graders(manifest, rows, record=folder.record())
    own = rows_without(rows, graded_tasks(manifest))
    check_registered(own, folder=folder)
    folder.drop_results()
    n_calls, segment, lacks = 0, -1, Lacks()
    with Journal.open(folder.journal_path) as journal:
        missing = record_missing(rows, model_ids=model_ids, journal=journal, repeats=options.repeats)
        n_recorded = int(journal.counts()["n"].sum())
        with Stage("scoring", n_recorded, show=options.progress) as stage:
            for segment, generations in enumerate(journal.segments(limits=options.limits)):
                answers = extract_answers(generations, rows=rows, limits=options.limits)
                if not graders:
                    scores = score_answers(answers, generations=generations, rows=rows, policy=policy)
                    folder.write("scores", scores, segment=segment)
                    del scores
                # the journal keeps what the adapter said, so that another source can be chosen later
                confident = confide(generations, answers, option=options.confidence, lacks=lacks, limits=options.limits)
                folder.write("generations", confident, segment=segment)
                folder.write("answers", answers, segment=segment)
                n_calls += generations.height
                stage.step(generations.height)
                del generations, answers, confident  # before the next segment is read
    folder.update_record(n_segments=segment + 1)
    graded = None
    if graders:
        with bridging(folder, graders if asks else (), options=options, models=models) as bridges:
            graded = grade_run(
                folder, graders, rows=rows, n_segments=segment + 1, options=options, policy=policy, bridges=bridges,
                asks=asks,
            )  # fmt: skip
        _write_scores(folder, graded, n_segments=segment + 1, rows=own, policy=policy)
        folder.update_record(grader_metrics=graded.choices)
        rows = folder.read("rows")
    folder.write("grades", empty(GRADES) if graded is None else graded.grades)
    folder.write("judge_calls", judge_calls(folder))
    # outcomes only: the texts of a large run would not fit
    outcomes = folder.scan("generations").select(*CALL_KEY, "status").collect(engine="in-memory")
    summary = summarise_tasks(
        folder.read("scores"), rows=rows, generations=outcomes,
        graded=None if graded is None else Batches(graded.tasks, graded.values, graded.grades),
    )  # fmt: skip
    folder.write("task_metrics", summary)
    status = "partial" if missing else "complete"
    folder.update_record(
        status=status, n_segments=segment + 1, n_finished=n_calls - missing, confidence_notes=lacks.lines()
    )


def _write_scores(folder: RunFolder, graded: Graded, *, n_segments: int, rows: pl.DataFrame, policy: Policy) -> None:
    """Write the scores of each segment: those of graders, and of metrics for the tasks that have none."""
    mine = ~pl.col("task_id").is_in(sorted(graded.tasks))
    for segment in range(n_segments):
        generations, answers = (
            folder.segment(name, segment).collect(engine="in-memory") for name in ("generations", "answers")
        )
        theirs = graded.scores.join(generations.select(CALL_KEY), on=CALL_KEY, how="semi")
        own = score_answers(answers.filter(mine), generations=generations.filter(mine), rows=rows, policy=policy)
        folder.write("scores", pl.concat([own, theirs]).sort(SCORES.key), segment=segment)


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


def check_sandbox(rows: pl.DataFrame, *, options: RunOptions, graded: Collection[str] = ()) -> None:
    """Refuse a run that would need more walls for foreign code than there are, before any call; say what is missing.

    Args:
        rows: ROWS.
        options: Of the run.
        graded: Tasks that have a grader.

    Raises:
        SandboxError: Says what is missing and how to accept it.
    """
    own = rows_without(rows, graded)
    runs_code = own["metrics"].list.eval(pl.element().struct.field("id") == "code_exec").list.any().any()
    if runs_code or len(graded):
        what = "generated code (code_exec)" if runs_code else "Python graders"
        notes = require_walls(sandbox_policy(options), what=what)
        warn_of(notes, stacklevel=FROM_CALLER + 1)
