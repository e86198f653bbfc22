"""Graders that failed are called again, as a new run; no model is asked for an answer, and what was graded stays."""

from __future__ import annotations

import dataclasses
import os
from functools import partial
from typing import Any

import polars as pl

from evalframe.assembling import assemble, check_sandbox, sandbox_policy
from evalframe.deriving import begin
from evalframe.errors import OptionError
from evalframe.graders import check_graders, graded_tasks, task_graders, without_failed
from evalframe.judging import check_judges, hand_in, judges_of
from evalframe.manifest.generation import parse_generation
from evalframe.models import resolve_models
from evalframe.options import RunOptions
from evalframe.recording import model_ids, now
from evalframe.result import Run


def regrade(
    run: Run,
    models: Any = None,
    *,
    out: str | os.PathLike[str] | bool | None = None,
    allow_unsandboxed: bool = False,
) -> Run:
    """Call the graders of a run again where they raised, took too long or gave no scores.

    A batch of which any sample lacks a score is graded again as a whole. All other grades stay.

    Args:
        run: The run; it stays as it is.
        models: Models that graders ask and that were given as objects, handed in again and matched by ``model_id``.
        out: The new folder; None: temporary where the run is, else a new one under the user's data directory.
        allow_unsandboxed: Run graders without walls but resource limits, where the run itself may not yet.

    Raises:
        OptionError: No grader failed, or the run has none; or a model that graders ask can not be called.
        SandboxError: A grader does not load, or may not run here.
        RunFolderError: The run is being written now, or the new folder holds something already.
    """
    manifest = run.folder.manifest()
    graded = graded_tasks(manifest)
    if run.grades.filter(pl.col("grader_status") != "graded").is_empty():
        what = "every grader gave its scores" if graded else "no task has a grader"
        raise OptionError(f"{run.path}: {what}: there is nothing to grade again; rescore(graders=…) takes other ones")
    recalled = RunOptions.recall(run.record["options"])
    allowed = allow_unsandboxed or recalled.allow_unsandboxed
    options, rest = hand_in(dataclasses.replace(recalled, out=out, allow_unsandboxed=allowed), models)
    own = resolve_models(rest, limits=options.limits) if rest else []
    check_sandbox(run.rows, options=options, graded=graded)
    graders = task_graders(manifest, run.rows, record=run.record)
    settings = parse_generation(run.record["generation"], limits=options.limits)
    check_judges(judges_of(options, own), graders, options=options, settings=settings, models=own)
    check_graders(graders, policy=sandbox_policy(options))
    batches = [grader.task_id for grader in graders if grader.is_batch]
    folder = begin(
        [run], how="regrade", rows=run.rows, manifest=manifest, changes={"options": options.recorded()},
        kept_of=partial(without_failed, grades=run.grades, batches=batches), out=out,
    )  # fmt: skip
    with folder.locked():
        assemble(folder, options=options, model_ids=model_ids(run.record), models=own)
        folder.update_record(ended_at=now())
    return Run(folder)
