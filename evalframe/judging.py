"""The models that graders may call, found and connected: the run's judge and embedding model, and its own models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from evalframe.errors import Fault, OptionError
from evalframe.execution import call_options, prices_of
from evalframe.generate.bridge import JudgeModel, Switchboard
from evalframe.generate.cache import open_cache
from evalframe.generate.cachekeys import may_be_kept
from evalframe.generate.judgejournal import JudgeJournal
from evalframe.generate.ledger import Ledger
from evalframe.generate.limiter import Limiter
from evalframe.generate.memory import Memory
from evalframe.generate.outcomes import Notes
from evalframe.generate.progress import Progress
from evalframe.generate.reasoning import reasoning_tags
from evalframe.generate.threads import caller_of
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import Model, resolve_models, settings_of
from evalframe.options import RunOptions
from evalframe.store import RunFolder

ROLES = ("judge_model", "embedding_model")


def judges_of(options: RunOptions, models: Sequence[Model] = ()) -> dict[str, Model | None]:
    """Find the judge and the embedding model of a run, each by its option.

    Args:
        options: Of the run; ``judge_model`` and ``embedding_model`` are models in any form, the id of one of the run's,
            or what ``run.json`` keeps of an object.
        models: Of the run, and those that are handed in again.

    Nulls: None where there is none, or where it was an object that is not handed in.

    Raises:
        OptionError: One can not be resolved, or is several.
    """
    known = {model.adapter.model_id: model for model in models}
    found: dict[str, Model | None] = {}
    for role in ROLES:
        given = getattr(options, role)
        name = given["object"] if isinstance(given, Mapping) and "object" in given else given
        if name is None or (isinstance(name, str) and name in known):
            found[role] = known.get(name) if name is not None else None
        elif isinstance(given, Mapping) and "object" in given:
            found[role] = None
        else:
            found[role] = _only(role, given, options)
    return found


def _only(role: str, given: Any, options: RunOptions) -> Model:
    resolved = resolve_models(given, limits=options.limits)
    if len(resolved) != 1:
        fault = Fault(role, "too_many", f"{len(resolved)} models are given", "give one")
        raise OptionError.of([fault], what="options of the run")
    return resolved[0]


@contextmanager
def switchboard(
    folder: RunFolder, *, options: RunOptions, settings: GenerationSettings, models: Sequence[Model] = ()
) -> Iterator[Switchboard]:
    """Connect the graders of a run with its models, while they are graded.

    Args:
        folder: The run; its journal of judge calls is made where there is none.
        options, settings: Of the run.
        models: Of the run, as far as they are at hand: graders may call them by id.
    """
    judges = judges_of(options, models)
    reached = {model.adapter.model_id: model for model in (*models, *(one for one in judges.values() if one))}
    adapters = [model.adapter for model in reached.values()]
    with ExitStack() as stack:
        for model in reached.values():
            if model.spec is not None and hasattr(model.adapter, "close"):
                stack.callback(model.adapter.close)
        journal = stack.enter_context(JudgeJournal.open(folder.judges_path))
        cache = open_cache(options.cache, adapters)
        if cache is not None:
            stack.enter_context(cache)
        ledger = Ledger(
            prices_of(list(reached.values()), options, settings, known=[*(options.prices or {})]),
            cap_usd=options.max_cost_usd,
            spent_usd=folder.record().get("spent_usd", 0.0) if options.max_cost_usd is not None else 0.0,
        )
        how = call_options(list(reached.values()), options, settings, cache=cache, stop=None)
        limiters: dict[str, Limiter] = {}
        tags, began = reasoning_tags(options.reasoning_tags), how.now()
        connected = {}
        for name, model in reached.items():
            its = replace(how, request_type="generate", **how.own.get(name, {}))
            caller = caller_of(model.adapter, tags=tags, notes=Notes(), options=its, limiters=limiters, ledger=ledger)
            memory = None
            if cache is not None and may_be_kept(model.adapter):
                memory = Memory(cache=cache, before=began, reads=not its.refresh, request_type="judge")
            connected[name] = JudgeModel(caller=caller, settings=settings_of(model, settings), memory=memory)
        yield Switchboard(
            connected,
            judge=_name_of(judges["judge_model"]),
            embedder=_name_of(judges["embedding_model"]),
            journal=journal,
            ledger=ledger,
            progress=stack.enter_context(Progress(0, show=False)),
            concurrency=options.concurrency or options.limits.concurrency,
        )


def _name_of(model: Model | None) -> str | None:
    return None if model is None else model.adapter.model_id
