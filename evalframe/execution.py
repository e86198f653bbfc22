"""The calls of a run's folder are made, and its result frames written; whatever comes between."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evalframe.adapters import ModelAdapter
from evalframe.assembling import assemble, check_registered
from evalframe.errors import AdapterError, OptionError
from evalframe.generate import calls
from evalframe.generate.journal import Journal
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import resolve_models
from evalframe.options import RunOptions
from evalframe.recording import model_ids, now
from evalframe.result import Run
from evalframe.store import RunFolder


def execute(
    folder: RunFolder,
    adapters: Sequence[ModelAdapter],
    options: RunOptions,
    settings: GenerationSettings,
    *,
    stop: threading.Event | None = None,
) -> Run:
    """Make the calls that a folder's journal does not have yet, and write the result frames.

    Once ``stop`` is set no further call begins; the run is then partial.

    Raises:
        RunFolderError: Another process is writing the folder.
        KeyboardInterrupt: After an interrupt, when the folder is complete and marked ``partial``. In a notebook the
            partial run is given back instead, with a warning.
    """
    started = time.perf_counter()
    call_options = GenerateOptions(
        concurrency=options.concurrency,
        parallel=options.parallel,
        repeats=options.repeats,
        generation=settings.sent(),
        timeout_seconds=settings.timeout_seconds,
        reasoning_tags=tuple(options.reasoning_tags),
        limits=options.limits,
        progress=options.progress,
        stop=stop,
    )
    names = model_ids(folder.record())
    with folder.locked():
        check_registered(folder.read("rows"), folder=folder)
        folder.update_record(status="running")
        try:
            if adapters:  # a run may have no call left to make
                with Journal.open(folder.journal_path) as journal:
                    generate(folder.read("rows"), adapters=adapters, journal=journal, options=call_options)
        except KeyboardInterrupt as interrupt:
            assemble(folder, options=options, model_ids=names)
            how = f"the run is partial; it goes on with: {how_to_resume(folder, folder.record())}"
            if in_notebook():
                warnings.warn(f"interrupted: {how}", PartialRunWarning, stacklevel=4)
                return Run(folder)
            interrupt.add_note(how)
            raise
        finally:
            spent = folder.record()["wall_seconds"] + time.perf_counter() - started
            folder.update_record(wall_seconds=round(spent, 3), ended_at=now())
        assemble(folder, options=options, model_ids=names)
    return Run(folder)


def how_to_resume(folder: RunFolder, record: Mapping[str, Any]) -> str:
    """Give the command or the call that goes on with a run: objects and own metrics are only known to Python."""
    objects = [model["model_id"] for model in record["models"] if model["spec"] is None]
    if not objects:
        return f"evalframe resume {folder.path}"
    return f"evalframe.resume({str(folder.path)!r}, [{', '.join(objects)}]) in Python"


class PartialRunWarning(UserWarning):
    """A run was interrupted in a notebook, and what was done of it is given back."""


def in_notebook() -> bool:
    """Say whether this process is a notebook's kernel: there an exception would lose the run's value."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def unfinished(folder: RunFolder, options: RunOptions) -> set[str]:
    """Name the models of a run that have calls to make."""
    planned = calls.plan(folder.read("rows"), repeats=options.repeats)
    with Journal.open(folder.journal_path) as journal:
        done = journal.done()
    return {name for name in model_ids(folder.record()) if calls.without(planned, done, model_id=name).height}


def adapters_again(
    record: Mapping[str, Any], models: Any, options: RunOptions, *, needed: Collection[str]
) -> list[ModelAdapter]:
    """Find the models of a run again: by the name they had, or among those that are handed in.

    Args:
        record: What ``run.json`` says.
        models: Models that are handed in; None: none.
        options: Of the run.
        needed: The models that are to be called; the others need not be found.

    Raises:
        AdapterError: A needed model that was given as an object is not handed in.
        OptionError: A model that is handed in is none of the run's.
    """
    handed = {} if models is None else {m.adapter.model_id: m.adapter for m in resolve_models(models)}
    if strangers := sorted(handed.keys() - model_ids(record)):
        raise OptionError(f"{', '.join(strangers)}: no model of this run, which has {', '.join(model_ids(record))}")
    adapters: list[ModelAdapter] = []
    lost: list[str] = []
    for model in record["models"]:
        name, spec = model["model_id"], model["spec"]
        if name not in needed:
            continue
        if name in handed:
            adapters.append(handed[name])
        elif spec is not None:
            found = resolve_models(spec, limits=options.limits)
            adapters += [one.adapter for one in found if one.adapter.model_id == name]
        else:
            lost.append(name)
    if lost:
        raise AdapterError(
            f"models that were given as objects have calls to make: {', '.join(lost)}; hand them in again, with the "
            f"same model_id: models=[{', '.join(lost)}]"
        )
    return adapters
