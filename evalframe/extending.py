"""A run goes on as a new one: failed calls again, models or repeats added; no finished call is repeated."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evalframe.advice import warn_of_left_out, warn_of_repeats, warn_of_unused
from evalframe.calling import check_ready
from evalframe.deriving import begin
from evalframe.errors import Fault, OptionError
from evalframe.execution import execute, models_again
from evalframe.feasibility import check_feasible
from evalframe.generate.calls import repeats_of
from evalframe.manifest.generation import parse_generation
from evalframe.models import Model, resolve_models
from evalframe.options import RunOptions, option_faults
from evalframe.recording import model_entry, model_ids
from evalframe.result import Run

Out = str | os.PathLike[str] | bool | None


def rerun_failed(run: Run, models: Any = None, *, out: Out = None, progress: bool = True) -> Run:
    """Call again what has no reply, failed and skipped calls alike, as a new run.

    Args:
        run: The run; it stays as it is.
        models: Models that were given as objects are handed in again and matched by ``model_id``.
        out: The new folder; None: temporary where the run is, else a new one under the user's data directory.
        progress: Show a progress bar.

    Raises:
        AdapterError: A model that was given as an object, and has calls without a reply, is not handed in.
        OptionError: A model that is handed in is none of the run's; or every call has a reply.
        RunFolderError: The run is being written now, or the new folder holds something already.
    """
    without_reply = pl.col("status") != "completed"
    lacking = run.scan("generations").filter(without_reply).select("model_id").collect(engine="in-memory")["model_id"]
    if lacking.is_empty():
        raise OptionError(f"every call of {run.path} has a reply: there is nothing to call again")
    options = RunOptions.recall({**run.record["options"], "progress": progress, "out": out})
    settings = parse_generation(run.record["generation"], limits=options.limits)
    again = models_again(run.record, models, options, needed=set(lacking))
    check_ready(again, options, settings, known=model_ids(run.record))
    folder = begin(
        [run], how="rerun_failed", rows=run.rows, manifest=run.folder.manifest(), changes={}, statuses=("completed",),
        out=out,
    )  # fmt: skip
    return execute(folder, again, options, settings)


def extend(
    run: Run,
    models: Any = None,
    *,
    repeats: int | Mapping[str, int] | None = None,
    out: Out = None,
    progress: bool = True,
) -> Run:
    """Add models, or repeats, as a new run: only the calls that are missing are made.

    Args:
        run: The run; it stays as it is.
        models: Models to add; also those of the run that were given as objects, where they get more repeats.
        repeats: Calls a sample, at least as many as the run has; for all models. None: as the run has.
        out: The new folder; None: temporary where the run is, else a new one under the user's data directory.
        progress: Show a progress bar.

    Raises:
        OptionError: Nothing is added, there would be fewer repeats, or a model is there already.
        AdapterError: The run's own models are to be called more often, and one that was given as an object is not
            handed in.
        RunFolderError: The run is being written now, or the new folder holds something already.
    """
    options = RunOptions.recall({**run.record["options"], "progress": progress, "out": out})
    grown = options if repeats is None else dataclasses.replace(options, repeats=repeats)
    if faults := option_faults(grown):
        raise OptionError.of(faults, what="extend")
    resolved = (
        []
        if models is None
        else resolve_models(models, limits=options.limits, logprobs=options.confidence == "logprobs")
    )
    there = model_ids(run.record)
    added = [model for model in resolved if model.adapter.model_id not in there]
    handed = [model for model in resolved if model.adapter.model_id in there]
    more = _more_repeats(run, options, grown)
    if faults := list(_addition_faults(run, added, handed, more=more, most=options.limits.models)):
        raise OptionError.of(faults, what="extend")
    settings = parse_generation(run.record["generation"], limits=options.limits)
    needed = set(there) if more else set()
    own = models_again(run.record, handed or None, grown, needed=needed)
    check_feasible(run.rows, [model.adapter for model in (*own, *added)], grown)
    check_ready([*own, *added], grown, settings, known=there)
    warn_of_left_out(added, settings)
    warn_of_repeats(grown, settings)
    warn_of_unused(added, run.rows, grown)
    entries = [*run.record["models"], *(model_entry(model, settings) for model in added)]
    folder = begin(
        [run], how="extend", rows=run.rows, manifest=run.folder.manifest(), out=out,
        changes={"models": entries, "options": grown.recorded()},
    )  # fmt: skip
    return execute(folder, [*own, *added], grown, settings)


def _more_repeats(run: Run, options: RunOptions, grown: RunOptions) -> bool:
    """Say whether samples get more repeats than they have.

    Raises:
        OptionError: Some would get fewer.
    """
    before, after = (repeats_of(run.rows, one.repeats) for one in (options, grown))
    if (after < before).any():
        place = (after < before).arg_max() or 0
        raise OptionError(
            f"task {run.rows['task_id'][place]} has {before[place]} repeats and would get {after[place]}; an extended "
            "run keeps all its calls, so name as many or more"
        )
    return bool((after > before).any())


def _addition_faults(
    run: Run, added: Sequence[Model], handed: Sequence[Model], *, more: bool, most: int
) -> Sequence[Fault]:
    if not added and not handed and not more:
        return [Fault("", "nothing", "nothing is added", "give models= that the run has not, or more repeats=")]
    faults = [
        Fault("models", "duplicate", f"the run has {model.adapter.model_id!r} already", "call it by another name, or "
              "leave it out")
        for model in handed if not more
    ]  # fmt: skip
    n_models = len(run.record["models"]) + len(added)
    if n_models > most:
        faults.append(Fault("models", "too_many", f"{n_models} models; at most {most} in one run"))
    return faults
