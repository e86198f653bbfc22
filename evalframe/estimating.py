"""What the calls of a run would take, before any is made: tokens and dollars of each model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import polars as pl

from evalframe.adapters import ModelAdapter, Sending
from evalframe.generate import calls
from evalframe.generate.cache import ResultCache, cache_path
from evalframe.generate.cachekeys import cache_request, may_be_kept
from evalframe.generate.choices import continuations
from evalframe.generate.prices import Price
from evalframe.jsontext import dumps
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import Model, sending_of, settings_of
from evalframe.options import RunOptions

BYTES_PER_TOKEN = 4
MOST_LOOKED_UP = 10_000  # calls, of all models, that are looked for in the result cache: a second or two

_SCHEMA = {
    "model_id": pl.String,
    "n_calls": pl.Int64,
    "n_cached": pl.Int64,
    "input_tokens_estimate": pl.Int64,
    "output_tokens_most": pl.Int64,
    "cost_usd_least": pl.Float64,
    "cost_usd_most": pl.Float64,
}


def estimates(
    rows: pl.DataFrame,
    models: Sequence[Model],
    *,
    options: RunOptions,
    settings: GenerationSettings,
    prices: Mapping[str, Price],
) -> pl.DataFrame:
    """Estimate what each model's calls would take: one attempt each, nothing called.

    Frame in:
        ROWS.

    Frame out:
        A row a model: ``model_id``; ``n_calls``; ``n_cached``, of which the result cache has the reply;
        ``input_tokens_estimate`` of the others, by bytes; ``output_tokens_most`` of the others, by
        ``max_output_tokens``; ``cost_usd_least``, with no output at all, and ``cost_usd_most``.

    Args:
        rows: The samples.
        models: Of the run.
        options, settings: Of the run.
        prices: By model id, as far as they are known.

    Nulls:
        ``n_cached``: not looked up (off, replies of this model are never kept, over ``MOST_LOOKED_UP`` calls by now);
        it then counts as none. ``output_tokens_most``: no ``max_output_tokens``. Dollars: the price, or that bound, is
        unknown.
    """
    repeats = calls.repeats_of(rows, options.repeats)
    n_calls = int(repeats.sum())
    found, n_looked_up = [], 0
    with ExitStack() as stack:
        cache = _opened(options, stack)
        for model in models:
            sending, own = sending_of(model, settings), settings_of(model, settings)
            cached = None
            if cache is not None and n_looked_up + n_calls <= MOST_LOOKED_UP and _can_be_looked_up(model.adapter):
                n_looked_up += n_calls
                cached = _n_cached(rows, model.adapter, cache, options=options, generation=own.sent())
            needed = repeats if cached is None else repeats - cached
            tokens = rows.select(input=_input_tokens(options, sending), output=_output_most(options, own, sending))
            tokens = tokens.with_columns(needed.alias("n")).filter(pl.col("n") > 0)
            found.append(
                {
                    "model_id": model.adapter.model_id,
                    "n_calls": n_calls,
                    "n_cached": None if cached is None else cached.sum(),
                    "input_tokens_estimate": _total(tokens, "input"),
                    "output_tokens_most": _total(tokens, "output"),
                    **_dollars(tokens, prices.get(model.adapter.model_id)),
                }
            )
    return pl.DataFrame(found, schema=_SCHEMA)


def tokens_of(text: pl.Expr) -> pl.Expr:
    """Estimate the tokens of texts from their UTF-8 bytes."""
    return (text.str.len_bytes() / BYTES_PER_TOKEN).ceil().cast(pl.Int64)


def _input_tokens(options: RunOptions, sending: Sending | None) -> pl.Expr:
    """Of one call: the prompt and what goes with each; where choices are scored the prompt goes with each of them."""
    sent = {} if sending is None else sending.sent
    beside = sum(
        math.ceil(len((part if isinstance(part, str) else dumps(part)).encode()) / BYTES_PER_TOKEN)
        for part in (sent.get("instructions"), sent.get("tools"))
        if part
    )
    of_prompt = tokens_of(pl.col("prompt")) + beside
    if options.request_type != "loglikelihood":
        return of_prompt
    return of_prompt * pl.col("choices").list.len() + pl.col("choices").list.eval(tokens_of(pl.element())).list.sum()


def _output_most(options: RunOptions, own: GenerationSettings, sending: Sending | None) -> pl.Expr:
    if options.request_type == "loglikelihood":
        return pl.col("choices").list.len().cast(pl.Int64)  # servers write one token beside each, and throw it away
    dropped = sending is not None and "max_output_tokens" in sending.left_out
    return pl.lit(None if dropped else own.max_output_tokens, pl.Int64)


def _total(tokens: pl.DataFrame, name: str) -> int | None:
    if tokens[name].null_count():
        return None
    return int((tokens[name] * tokens["n"]).sum())


def _dollars(tokens: pl.DataFrame, price: Price | None) -> dict[str, float | None]:
    """Add up call by call, for long prompts may cost another price."""
    if price is None:
        return {"cost_usd_least": None, "cost_usd_most": None}
    least, most = [0.0], [0.0]
    alike = tokens.group_by("input", "output", maintain_order=True).agg(pl.col("n").sum())
    for n_input, n_output, n in alike.iter_rows():
        least.append(n * (price.cost(n_input, 0) or 0.0))
        cost = price.cost(n_input, n_output)
        most.append(math.nan if cost is None else n * cost)
    total = math.fsum(most)
    return {"cost_usd_least": math.fsum(least), "cost_usd_most": None if math.isnan(total) else total}


def _opened(options: RunOptions, stack: ExitStack) -> ResultCache | None:
    """Open the result cache where there is one to read; a preview makes none."""
    path = None if options.cache == "refresh" else cache_path(options.cache)
    if path is None or not path.is_file():
        return None
    return stack.enter_context(ResultCache.open(path))


def _can_be_looked_up(adapter: ModelAdapter) -> bool:
    # what prepare() gives may be known by another key, and preparing may load a model
    return may_be_kept(adapter) and not hasattr(adapter, "prepare")


def _n_cached(
    rows: pl.DataFrame,
    adapter: ModelAdapter,
    cache: ResultCache,
    *,
    options: RunOptions,
    generation: dict[str, Any],
) -> pl.Series:
    """Count for each row how many of its calls the cache has the reply of."""
    planned = calls.plan(rows, repeats=options.repeats)
    chooses = options.request_type == "loglikelihood"
    found = [0] * rows.height
    specs = calls.specs(rows, planned, generation=MappingProxyType(generation))
    for place, task in zip(planned["place"], specs, strict=True):
        request = cache_request(
            adapter, task, repeat=task.repeat, request_type=options.request_type, norm=options.loglikelihood_norm,
            continuations=continuations(task.prompt, task.choices) if chooses else (),
        )  # fmt: skip
        if request is not None and cache.get(request.key) is not None:
            found[place] += 1
    return pl.Series("n_cached", found, dtype=pl.Int64)
