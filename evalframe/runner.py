"""``run``, ``resume`` and ``load``: the stages wired together, with the run's folder on disk before the first call."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from evalframe.advice import target_notes, warn_of, warn_of_files, warn_of_left_out, warn_of_repeats, warn_of_unused
from evalframe.assembling import assemble, check_sandbox, sandbox_policy
from evalframe.calling import check_ready
from evalframe.datasource import find_source
from evalframe.errors import RunFolderError
from evalframe.execution import execute, models_again, reopen_given_up, unfinished
from evalframe.feasibility import check_feasible
from evalframe.graders import check_graders, graded_tasks, rows_without, task_graders
from evalframe.judging import check_judges, hand_in, ids_of, judges_of
from evalframe.manifest.generation import parse_generation
from evalframe.models import resolve_models
from evalframe.options import RunOptions
from evalframe.planning import make_plan
from evalframe.recording import begin_run, check_journal, check_unchanged, model_ids, moved_models
from evalframe.result import Run
from evalframe.sources import TaskSource
from evalframe.store import RunFolder


def run(source: Any, models: Any, **options: Any) -> Run:
    """Evaluate models on a suite, on task files, or with ``prompt=`` on data.

    Args:
        source: A suite manifest (path of a .json file, dict, ``Suite``), task records (path of a .jsonl file, dicts),
            or a list of .jsonl files. With ``prompt=``, ``targets=``, ``extract=`` and ``metrics=``: data, which is a
            polars or pandas frame, a ``datasets.Dataset``, a list of dicts, or the path of a .jsonl, .csv or .parquet
            file; it is a task of one suite, of type ``custom``.
        models: A model or a list: ``"mock/rule_based"``, an adapter, ``evalframe.replay(path)``,
            ``evalframe.from_callable(name, fn)``, a dict with ``model``.
        **options: For data ``prompt``, ``targets``, ``extract``, ``metrics``. For all: ``out`` (a folder; False: a
            temporary one), ``repeats``, ``max_samples_per_task``, ``task_ids``, ``generation`` (a dict:
            ``{"temperature": 0}``), ``concurrency``, ``seed``, ``files``, ``metadata``, ``progress`` and more:
            ``help(evalframe.options.RunOptions)`` describes each.

    Returns:
        The run: a folder on disk (``run.path``), its frames and verbs.

    Raises:
        ManifestError, TaskFileError, OptionError, DatasetError, NotBuiltError: The input is wrong; no model was
            called. Every fault is named, with what to do.
        PreprocessError: Preprocessors of tasks failed; no model was called. See ``skip_failed_tasks``.
        SandboxError: Foreign code would have to run without walls, see ``allow_unsandboxed``; or a grader does not
            load.
        KeyboardInterrupt: The run was interrupted; its folder holds what was done and can be resumed. In a notebook
            the partial run is given back instead, with a warning.
    """
    return _run(source, models, options, stop=None)


async def arun(source: Any, models: Any, **options: Any) -> Run:
    """Evaluate models as ``run`` does, without holding up the event loop: ``await evalframe.arun(…)``.

    The run works in a thread of its own. When the awaiting task is cancelled, no further call begins, those in flight
    are waited for and kept, and the run's folder is left partial, to be resumed; then the cancellation goes on.

    Args, Returns, Raises: as ``run``.
    """
    import asyncio  # not needed by anybody else here, and slow to import

    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_run, source, models, options, stop=stop))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as cancelled:
        stop.set()
        await asyncio.wait([work])
        if not work.cancelled():
            if (error := work.exception()) is not None:
                raise error from None
            folder = work.result().folder
            folder.keep()  # nobody gets the run, so that a temporary folder would go with it
            cancelled.add_note(f"what was done of the run is kept; see evalframe.load({str(folder.path)!r})")
        raise


def _run(source: Any, models: Any, options: dict[str, Any], *, stop: threading.Event | None) -> Run:
    settled = RunOptions.of(options)
    settings = parse_generation(settled.generation, limits=settled.limits)
    found = find_source(source, settled)
    resolved = resolve_models(models, limits=settled.limits, logprobs=settled.confidence == "logprobs")
    plan = make_plan(found, options=settled)
    graded = graded_tasks(plan.manifest)
    check_sandbox(plan.rows, options=settled, graded=graded)
    unfit = check_feasible(plan.rows, [model.adapter for model in resolved], settled)
    judges = judges_of(settled, resolved)
    check_ready(resolved, settled, settings, known=[name for name in ids_of(judges).values() if name is not None])
    graders = task_graders(plan.manifest, plan.rows, record={"graders": plan.graders})
    check_judges(judges, graders, options=settled, settings=settings, models=resolved)
    check_graders(graders, policy=sandbox_policy(settled))
    warn_of_repeats(settled, settings)
    warn_of_left_out(resolved, settings)
    warn_of_files(settled, plan.content_hashes)
    warn_of_unused(resolved, plan.rows, settled)
    notes = [*plan.notes, *target_notes(rows_without(plan.rows, graded)), *unfit]
    warn_of(notes)

    kind = "tasks" if isinstance(found, TaskSource) else "suite"
    folder = begin_run(
        plan, kind=kind, options=settled, settings=settings, models=resolved, notes=notes, judges=ids_of(judges)
    )
    return execute(folder, resolved, settled, settings, stop=stop)


def resume(
    path: str | os.PathLike[str], models: Any = None, *, progress: bool = True, max_cost_usd: float | None = None
) -> Run:
    """Go on with a run that was interrupted or killed: make the calls that are missing, none again.

    What a model failed at that was then given up (its key or server was at fault) is missing too. Other failed calls
    are finished: ``Run.rerun_failed`` makes those again.

    Args:
        path: The run's folder.
        models: Models that were given as objects are handed in again and matched by ``model_id``; those that a string
            or dict named are found again by themselves.
        progress: Show a progress bar.
        max_cost_usd: Dollars of the whole run, what it spent before included, after which no further call begins, over
            0. None: as it was.

    Raises:
        RunFolderError: The folder holds no run, or another process is writing it.
        VersionMismatch: Manifest or rows were changed since the run began.
        AdapterError: A model that was given as an object, and has calls to make, is not handed in again.
        OptionError: A model that is handed in is none of the run's.
    """
    folder = RunFolder(Path(path).resolve())
    record = folder.record()
    changed = {} if max_cost_usd is None else {"max_cost_usd": max_cost_usd}
    recalled = RunOptions.recall({**record["options"], **changed, "progress": progress})
    options, models = hand_in(recalled, models)
    if record.get("exported"):
        raise RunFolderError(f"{folder.path} is an export without the journal of calls; resume the run's own folder")
    check_unchanged(folder, record, options)
    check_journal(folder, record)
    settings = parse_generation(record["generation"], limits=options.limits)
    with folder.locked():
        reopen_given_up(folder, record)
    again = models_again(record, models, options, needed=unfinished(folder, options))
    check_ready(again, options, settings, known=model_ids(record))
    if changed:
        with folder.locked():
            folder.update_record(options={**record["options"], **changed}, cap_reached=False)
    if moved := moved_models(record, again):
        warn_of(moved)
        with folder.locked():
            folder.update_record(notes=[*record.get("notes", ()), *moved])
    return execute(folder, again, options, settings)


def load(path: str | os.PathLike[str]) -> Run:
    """Open a run's folder.

    A run that was killed is first put together from its journal, and marked ``partial``.

    Raises:
        RunFolderError: The folder holds no run, or one that another process is writing now.
    """
    folder = RunFolder(Path(path).resolve())
    record = folder.record()
    if record["status"] == "running":
        with folder.locked():
            options = RunOptions.recall(record["options"])
            assemble(folder, options=options, model_ids=model_ids(record), asks=False)  # to open a run costs nothing
    return Run(folder)
