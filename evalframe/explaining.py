"""Why replies of a run did not come from the result cache: each call that was made, against what was kept before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import lru_cache
from typing import Any

import polars as pl

from evalframe.errors import AdapterError, EvalframeError, UnknownNameError
from evalframe.execution import models_again
from evalframe.frames import Noted, check, from_records
from evalframe.generate import calls
from evalframe.generate.cache import cache_path, why_not_kept
from evalframe.generate.cachecontents import CacheContents, StoredRequest
from evalframe.generate.cachekeys import CacheRequest, cache_request, hash_of_prompt
from evalframe.generate.choices import continuations
from evalframe.manifest.generation import parse_generation
from evalframe.models import settings_of
from evalframe.options import RunOptions
from evalframe.registry import suggestion
from evalframe.schemas import CACHE_MISSES, CALL_KEY
from evalframe.store import RunFolder
from evalframe.words import CacheMiss

MEANINGS: Mapping[CacheMiss, str] = {
    "cache_off": "the run did not use the cache (cache=False)",
    "refreshed": 'the run was to ask anew (cache="refresh")',
    "no_version": "the adapter says neither what identifies a call nor its model_version, so nothing of it is kept",
    "model_unknown": "the model was given as an object; hand it in again",
    "not_kept": "failed, filtered, truncated and empty replies are not kept",
    "new_prompt": "no reply to this prompt was kept before the run",
    "other_model": "replies to this prompt were kept, of another model",
    "other_version": "replies to this prompt were kept, of another version of the model",
    "other_server": "replies to this prompt were kept, of another server, API or adapter",
    "other_request": "replies to this prompt were kept, for another type of request",
    "other_task": "replies to this prompt were kept, for another sample, which this adapter sees",
    "other_text": "replies to this prompt were kept, with other instructions or other text around it",
    "other_settings": "replies to this prompt were kept, with other settings",
    "other_repeat": "replies to this prompt were kept, for other repeats only",
    "not_read": "the reply was there: the cache could not be read then, or the run used another file",
}
MOST_CHARS = 60  # of a value in a difference

_OF_CALLS = (*CALL_KEY, "status", "cached", "started_at", "output_text", "tool_calls", "finish_reason", "error_type")
# in this order the first difference names the miss
_REASONS: Mapping[str, CacheMiss] = {
    "model": "other_model",
    "model_version": "other_version",
    "base_url": "other_server",
    "api": "other_server",
    "adapter": "other_server",
    "request": "other_request",
    "task": "other_task",
    "texts": "other_text",
    "settings": "other_settings",
    "repeat": "other_repeat",
}
_TOLD = {"texts": "instructions or text around the prompt", "task": "the sample"}
_HASHES = ("texts", "task", "request.continuations")  # of which only the fact can be told


def explain_cache(
    folder: RunFolder,
    *,
    models: Any = None,
    model_id: str | None = None,
    task_id: str | None = None,
    sample_id: str | None = None,
) -> pl.DataFrame:
    """Say of each call of a run that was made why its reply did not come from the result cache.

    A call is compared with what the cache holds now of the time before the run; what was removed or replaced since is
    not seen. Nothing is called, and no key is needed.

    Args:
        folder: Of the run.
        models: Models that were objects, handed in again. None: none.
        model_id, task_id, sample_id: Only these. None: all.

    Frame out:
        CACHE_MISSES; replies that came from the cache, and calls that were never made, have no row. Notes count the
        former and name the file.

    Raises:
        UnknownNameError: A model, task or sample is not in the run; the nearest are named.
        CacheError: The cache can not be read.
    """
    record = folder.record()
    options = RunOptions.recall(record["options"])
    names = [model["model_id"] for model in record["models"]]
    rows = _chosen_rows(folder.read("rows"), task_id, sample_id)
    if model_id is not None and model_id not in names:
        raise UnknownNameError(f"no model {model_id!r} in the run; {suggestion(model_id, names)}")
    every = folder.scan("generations").select(_OF_CALLS).collect(engine="in-memory")
    known = rows.select("task_id", "sample_index", pl.int_range(pl.len()).alias("place"))
    made = every.filter(pl.col("status") != "skipped").join(
        known, on=["task_id", "sample_index"], how="inner", maintain_order="left"
    )
    if model_id is not None:
        made = made.filter(pl.col("model_id") == model_id)
    misses = made.filter(~pl.col("cached"))
    notes = [f"{made.height - misses.height} of {made.height} replies came from the cache"]
    path = cache_path(options.cache)
    if path is None or options.cache == "refresh":
        reason: CacheMiss = "cache_off" if path is None else "refreshed"
        found = [_miss(call, reason) for call in misses.iter_rows(named=True)]
    else:
        notes.append(f"the cache: {path}{'' if path.is_file() else ', which is not there'}")
        began = every.select(pl.col("started_at").min()).item()
        with ExitStack() as stack:
            contents = stack.enter_context(CacheContents.open(path)) if path.is_file() else None
            found = [
                miss
                for name in names
                for miss in _misses_of(
                    name, misses.filter(pl.col("model_id") == name), rows, record=record, options=options,
                    models=models, near=contents.near if contents is not None else _nothing, began=began,
                )
            ]  # fmt: skip
    return Noted.of(check(from_records(found, CACHE_MISSES).sort(CALL_KEY), CACHE_MISSES), notes)


def summarise(misses: pl.DataFrame) -> pl.DataFrame:
    """Count the misses of each model by reason and detail, the most frequent first.

    Frame in:
        CACHE_MISSES.

    Frame out:
        ``model_id``, ``reason``, ``detail``, ``n_calls``.
    """
    check(misses, CACHE_MISSES)
    keys = ["model_id", "reason", "detail"]
    return (
        misses.group_by(keys)
        .agg(pl.len().cast(pl.Int64).alias("n_calls"))
        .sort(["n_calls", *keys], descending=[True, False, False, False], nulls_last=True)
    )


def differences(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, str]:
    """Name what differs between two configurations of requests: place to ``old -> new``, the weightiest first.

    >>> differences({"model": "m", "settings": {"temperature": 0}}, {"model": "m", "settings": {"temperature": 1}})
    {'settings.temperature': '0 -> 1'}
    """
    one, other = dict(_flat(kept)), dict(_flat(asked))
    places = [place for place in dict.fromkeys((*other, *one)) if one.get(place) != other.get(place)]
    weights = list(_REASONS)
    places.sort(key=lambda place: weights.index(_part(place)))
    return {
        place: "differs" if place.startswith(_HASHES) else f"{_short(one, place)} -> {_short(other, place)}"
        for place in places
    }


def _nothing(prompt_hash: bytes) -> Sequence[StoredRequest]:
    """What is near a request where there is no cache."""
    return ()


def _chosen_rows(rows: pl.DataFrame, task_id: str | None, sample_id: str | None) -> pl.DataFrame:
    for column, name in (("task_id", task_id), ("sample_id", sample_id)):
        if name is None:
            continue
        chosen = rows.filter(pl.col(column) == name)
        if chosen.is_empty():
            near = suggestion(name, rows[column].unique(maintain_order=True).head(500))
            raise UnknownNameError(f"no {column.removesuffix('_id')} {name!r} in the run; {near}")
        rows = chosen
    return rows


def _misses_of(
    model_id: str,
    misses: pl.DataFrame,
    rows: pl.DataFrame,
    *,
    record: Mapping[str, Any],
    options: RunOptions,
    models: Any,
    near: Callable[[bytes], Sequence[StoredRequest]],
    began: datetime | None,
) -> Iterator[dict[str, Any]]:
    """Explain the misses of one model."""
    if misses.is_empty():
        return
    try:
        (model,) = models_again(record, models, options, needed={model_id})
    except EvalframeError as error:  # an object, or a file that is gone
        yield from (_miss(call, "model_unknown", error.message) for call in misses.iter_rows(named=True))
        return
    settings = settings_of(model, parse_generation(record["generation"], limits=options.limits)).sent()
    # each call is looked up by itself: what was asked is only known to its adapter
    for call, task in zip(misses.iter_rows(named=True), calls.specs(rows, misses, generation=settings), strict=True):
        asks_choices = options.request_type == "loglikelihood"
        try:
            request = cache_request(
                model.adapter, task, repeat=task.repeat, request_type=options.request_type,
                continuations=continuations(task.prompt, task.choices) if asks_choices else (),
                norm=options.loglikelihood_norm,
            )  # fmt: skip
        except AdapterError as error:
            yield _miss(call, "not_kept", error.message)
            continue
        if request is None:
            yield _miss(call, "no_version")
            continue
        before = [one for one in near(hash_of_prompt(task.prompt)) if began is None or one.created_at < began]
        yield _explained(call, request, before)


@lru_cache(maxsize=4_096)  # the calls of a run differ in few ways from those of another one
def _differences(kept: str, kept_repeat: int, asked: str, asked_repeat: int) -> dict[str, str]:
    one, other = json.loads(kept), json.loads(asked)
    return differences({**one, "repeat": kept_repeat}, {**other, "repeat": asked_repeat})


def _explained(call: Mapping[str, Any], request: CacheRequest, before: Sequence[StoredRequest]) -> dict[str, Any]:
    if any(one.key == request.key for one in before):
        return _miss(call, "not_read")
    asked = request.configuration()
    found = (_differences(one.configuration, one.repeat, asked, request.repeat) for one in reversed(before))
    nearest = min(found, key=len, default={})
    told = {_TOLD.get(_part(place), place.removeprefix("settings.")): what for place, what in nearest.items()}
    detail = ", ".join(f"{what}: {change}" for what, change in told.items()) or None
    lost = why_not_kept(
        call["status"], output_text=call["output_text"], tool_calls=call["tool_calls"],
        finish_reason=call["finish_reason"],
    )  # fmt: skip
    if lost is not None:
        became = f"{lost} ({call['error_type'] or call['finish_reason']})" if lost != "empty" else lost
        return _miss(call, "not_kept", f"{became}; nearest kept: {detail}" if detail else became)
    if detail is None:
        return _miss(call, "new_prompt")
    return _miss(call, _REASONS[_part(next(iter(nearest)))], detail)


def _miss(call: Mapping[str, Any], reason: CacheMiss, detail: str | None = None) -> dict[str, Any]:
    return {**{name: call[name] for name in CALL_KEY}, "reason": reason, "detail": detail}


def _part(place: str) -> str:
    return place.partition(".")[0]


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _flat(item, f"{place}.{name}" if place else name)
    elif value is not None and value != {} and value != []:
        yield place, value


def _short(values: Mapping[str, Any], place: str) -> str:
    if place not in values:
        return "none"
    text = json.dumps(values[place], ensure_ascii=False)
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"
