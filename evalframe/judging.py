"""The models that graders may call, found and connected: the run's judge and embedding model, and its own models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import polars as pl

from evalframe.advice import FROM_CALLER, SettingWarning
from evalframe.calling import call_options, check_ready, prices_of
from evalframe.errors import Fault, OptionError
from evalframe.frames import empty
from evalframe.generate.bridge import JudgeModel, Switchboard
from evalframe.generate.cache import open_cache
from evalframe.generate.cachekeys import may_be_kept
from evalframe.generate.journal import Journal
from evalframe.generate.judgejournal import JudgeJournal
from evalframe.generate.ledger import Ledger, paid
from evalframe.generate.limiter import Limiter
from evalframe.generate.memory import Memory
from evalframe.generate.outcomes import Notes
from evalframe.generate.progress import Progress
from evalframe.generate.reasoning import reasoning_tags
from evalframe.generate.threads import caller_of
from evalframe.grading import Bridges, TaskGrader
from evalframe.manifest.generation import GenerationSettings, parse_generation
from evalframe.models import Model, resolve_models, settings_of
from evalframe.options import RunOptions
from evalframe.schemas import JUDGE_CALLS
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


def ids_of(judges: Mapping[str, Model | None]) -> dict[str, str | None]:
    """Give the ids of the judge and the embedding model, as ``run.json`` keeps them."""
    return {role: None if model is None else model.adapter.model_id for role, model in judges.items()}


def check_judges(
    judges: Mapping[str, Model | None],
    graders: Sequence[TaskGrader],
    *,
    options: RunOptions,
    settings: GenerationSettings,
    models: Sequence[Model],
) -> None:
    """Refuse, before anything is written or called, judges that can not be called; say where there is none.

    Raises:
        OptionError: As ``calling.check_ready``.
    """
    own = [model for model in judges.values() if model is not None and model not in models]
    known = [model.adapter.model_id for model in models]
    check_ready(own, replace(options, request_type="generate"), settings, known=known)
    asking = [grader.task_id for grader in graders if grader.grader.model_access != "none"]
    if asking and not any(judges.values()):
        warnings.warn(
            f"graders of {', '.join(asking)} may call models, and the run has no judge_model: "
            'ctx.responses_create(model="auto") raises in them',
            SettingWarning, stacklevel=FROM_CALLER,
        )  # fmt: skip


def hand_in(options: RunOptions, models: Any) -> tuple[RunOptions, Any]:
    """Put objects that are handed in again in the place of a judge that was one; gives the other models.

    Args:
        options: Recalled from ``run.json``.
        models: As for ``evalframe.resume``.
    """
    wanted = {
        role: given["object"]
        for role in ROLES
        if isinstance(given := getattr(options, role), Mapping) and "object" in given
    }
    if models is None or not wanted:
        return options, models
    handed = resolve_models(models, limits=options.limits)
    by_id = {model.adapter.model_id: model for model in handed}
    found: dict[str, Any] = {role: by_id[name].adapter for role, name in wanted.items() if name in by_id}
    rest = [model for model in handed if model.adapter.model_id not in wanted.values()]
    return replace(options, **found), rest or None


def _only(role: str, given: Any, options: RunOptions) -> Model:
    resolved = resolve_models(given, limits=options.limits)
    if len(resolved) != 1:
        fault = Fault(role, "too_many", f"{len(resolved)} models are given", "give one")
        raise OptionError.of([fault], what="options of the run")
    return resolved[0]


@contextmanager
def bridging(
    folder: RunFolder, graders: Sequence[TaskGrader], *, options: RunOptions, models: Sequence[Model]
) -> Iterator[Bridges | None]:
    """Give graders their way to models while they are called; None where none of them may call one.

    Args:
        folder: The run's.
        graders: Those that are called.
        options: Of the run.
        models: Those of the run that are at hand; others are found again by the name that they had.
    """
    if all(grader.grader.model_access == "none" for grader in graders):
        yield None
        return
    record = folder.record()
    there = {model.adapter.model_id for model in models}
    named = [m["spec"] for m in record["models"] if m["spec"] is not None and m["model_id"] not in there]
    others = [found for spec in named for found in resolve_models(spec, limits=options.limits)]
    settings = parse_generation(record["generation"], limits=options.limits)
    with switchboard(folder, options=options, settings=settings, models=[*models, *others]) as board:
        yield board.bridge_for


def judge_calls(folder: RunFolder) -> pl.DataFrame:
    """Give the calls that the graders of a run made: JUDGE_CALLS."""
    if not folder.judges_path.is_file():
        return empty(JUDGE_CALLS)
    with JudgeJournal.open(folder.judges_path) as journal:
        return journal.frame()


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
            spent_usd=_spent(folder, journal) if options.max_cost_usd is not None else 0.0,
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


def _spent(folder: RunFolder, judges: JudgeJournal) -> float:
    """Give the dollars that a run has paid so far, for its own calls and for those of its graders."""
    with Journal.open(folder.journal_path) as journal:
        own = max(0.0, paid(journal) - folder.record().get("paid_elsewhere_usd", 0.0))
    return math.fsum([own, *judges.frame()["cost_usd"].drop_nulls()])


def _name_of(model: Model | None) -> str | None:
    return None if model is None else model.adapter.model_id
