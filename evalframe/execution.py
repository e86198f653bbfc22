"""The calls of a run's folder are made, and its result frames written; whatever comes between."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import polars as pl

from evalframe.assembling import assemble, check_registered
from evalframe.calling import call_options, prices_of
from evalframe.errors import AdapterError, OptionError
from evalframe.generate import calls
from evalframe.generate.cache import open_cache
from evalframe.generate.journal import Journal
from evalframe.generate.ledger import Ledger, paid
from evalframe.generate.threads import generate
from evalframe.graders import graded_tasks, rows_without
from evalframe.judging import ROLES
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import Model, resolve_models
from evalframe.options import RunOptions
from evalframe.recording import model_ids, now
from evalframe.result import Run
from evalframe.store import RunFolder


def execute(
    folder: RunFolder,
    models: Sequence[Model],
    options: RunOptions,
    settings: GenerationSettings,
    *,
    stop: threading.Event | None = None,
) -> Run:
    """Make the calls that a folder's journal does not have yet, and write the result frames.

    Once ``stop`` is set no further call begins; the run is then partial.

    Raises:
        RunFolderError: Another process is writing the folder.
        KeyboardInterrupt: After an interrupt, when the folder is complete and marked ``partial``; a temporary one is
            then kept. In a notebook the partial run is given back instead, with a warning.
    """
    started = time.perf_counter()
    names = model_ids(folder.record())
    with folder.locked(), _kept_on_error(folder):
        check_registered(rows_without(folder.read("rows"), graded_tasks(folder.manifest())), folder=folder)
        folder.update_record(status="running")
        try:
            if models:  # a run may have no call left to make
                _make_calls(folder, models, options, settings, stop=stop)
        except KeyboardInterrupt as interrupt:
            assemble(folder, options=options, model_ids=names, asks=False)
            how = f"the run is partial; it goes on with: {how_to_resume(folder, folder.record())}"
            if in_notebook():
                warnings.warn(f"interrupted: {how}", PartialRunWarning, stacklevel=4)
                return Run(folder)
            interrupt.add_note(how)
            raise
        finally:
            spent = folder.record()["wall_seconds"] + time.perf_counter() - started
            folder.update_record(wall_seconds=round(spent, 3), ended_at=now())
        stopped = stop is not None and stop.is_set()
        assemble(folder, options=options, model_ids=names, models=models, asks=not stopped)
    return Run(folder)


@contextmanager
def _kept_on_error(folder: RunFolder) -> Iterator[None]:
    """Let a temporary folder outlive an error once it holds calls: with it what was paid for would be gone."""
    try:
        yield
    except BaseException as error:
        if folder.temporary is not None and folder.journal_path.is_file():
            folder.keep()
            if not isinstance(error, KeyboardInterrupt):  # it says how to go on itself
                error.add_note(f"the replies until then are kept: {how_to_resume(folder, folder.record())}")
        raise


def _make_calls(
    folder: RunFolder,
    models: Sequence[Model],
    options: RunOptions,
    settings: GenerationSettings,
    *,
    stop: threading.Event | None,
) -> None:
    adapters = [model.adapter for model in models]
    record = folder.record()
    judges = [name for role in ROLES if (name := record.get(role)) is not None]
    prices = prices_of(models, options, settings, known=[*model_ids(record), *judges])
    with ExitStack() as stack:
        journal = stack.enter_context(Journal.open(folder.journal_path))
        cache = open_cache(options.cache, adapters)
        if cache is not None:
            stack.enter_context(cache)
        for model in models:
            if model.spec is not None and hasattr(model.adapter, "close"):  # an object of the caller's stays open
                stack.callback(model.adapter.close)
        before = 0.0
        if options.max_cost_usd is not None:
            before = max(0.0, paid(journal) - folder.record().get("paid_elsewhere_usd", 0.0))
        ledger = Ledger(prices, cap_usd=options.max_cost_usd, spent_usd=before)
        summary = generate(
            folder.read("rows"),
            adapters=adapters,
            journal=journal,
            ledger=ledger,
            options=call_options(models, options, settings, cache=cache, stop=stop),
        )
    folder.update_record(given_up=dict(summary.given_up), cap_reached=ledger.exhausted)
    if options.max_cost_usd is not None:
        for note in ledger.notes():
            warnings.warn(note, CostWarning, stacklevel=5)
    if not options.progress:  # else it was said when it happened
        for message in summary.given_up.values():
            warnings.warn(message, GivenUpWarning, stacklevel=5)


def how_to_resume(folder: RunFolder, record: Mapping[str, Any]) -> str:
    """Give the command or the call that goes on with a run: objects and own metrics are only known to Python."""
    objects = [model["model_id"] for model in record["models"] if model["spec"] is None]
    more = record.get("cap_reached")
    if not objects:
        return f"evalframe resume {folder.path}{' --max-cost-usd MORE' if more else ''}"
    cap = ", max_cost_usd=MORE" if more else ""
    return f"evalframe.resume({str(folder.path)!r}, [{', '.join(objects)}]{cap}) in Python"


class PartialRunWarning(UserWarning):
    """A run was interrupted in a notebook, and what was done of it is given back."""


class GivenUpWarning(UserWarning):
    """A model was given up: its remaining samples were not called."""


class CostWarning(UserWarning):
    """Replies came without the usage that their cost follows from, in a run that has a cap of dollars."""


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


def reopen_given_up(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Let the failed calls of models that were given up be made again: their server or key was at fault.

    The caller holds the folder.
    """
    given_up: Mapping[str, str] = record.get("given_up") or {}
    if not given_up:
        return
    with Journal.open(folder.journal_path) as journal:
        failed = journal.counts().filter(pl.col("status") == "failed", pl.col("model_id").is_in(list(given_up)))
        # first, so that no kill between the two lets the journal look short of finished calls
        folder.update_record(n_finished=max(0, record.get("n_finished", 0) - int(failed["n"].sum())))
        for model_id, message in given_up.items():
            journal.reopen(model_id, message=message)


def models_again(
    record: Mapping[str, Any], models: Any, options: RunOptions, *, needed: Collection[str]
) -> list[Model]:
    """Find the models of a run again: by the name they had, or among those that are handed in.

    Args:
        record: What ``run.json`` says.
        models: Models that are handed in, ``Model`` records too; None: none.
        options: Of the run.
        needed: The models that are to be called; the others need not be found.

    Raises:
        AdapterError: A needed model that was given as an object is not handed in.
        OptionError: A model that is handed in is none of the run's.
    """
    logprobs = options.confidence == "logprobs"
    handed = {}
    if models is not None:
        handed = {model.adapter.model_id: model for model in resolve_models(models, logprobs=logprobs)}
    if strangers := sorted(handed.keys() - model_ids(record)):
        raise OptionError(f"{', '.join(strangers)}: no model of this run, which has {', '.join(model_ids(record))}")
    again: list[Model] = []
    lost: list[str] = []
    for model in record["models"]:
        name, spec = model["model_id"], model["spec"]
        if name not in needed:
            continue
        if name in handed:
            again.append(handed[name])
        elif spec is not None:
            found = resolve_models(spec, limits=options.limits, logprobs=logprobs)
            again += [one for one in found if one.adapter.model_id == name]
        else:
            lost.append(name)
    if lost:
        raise AdapterError(
            f"models that were given as objects have calls to make: {', '.join(lost)}; hand them in again, with the "
            f"same model_id: models=[{', '.join(lost)}]"
        )
    return again
