"""GENERATIONS -> COSTS: calls, tokens, dollars and latency of each model, of its tasks, or of the run."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from evalframe.errors import Fault, OptionError
from evalframe.frames import Noted, check
from evalframe.headlines import in_key_order
from evalframe.registry import suggestion
from evalframe.reprs import dollars
from evalframe.schemas import COSTS, GENERATIONS, RUN_COSTS, TASK_COSTS

# what is used of GENERATIONS beside the key: texts need not be loaded
OF_CALLS = (
    "status", "cached", "attempts", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd",
    "cost_usd_original", "latency_seconds", "error_type",
)  # fmt: skip
_SUMS = ("cost_usd", "cost_usd_original", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_MAYBE_PAID = ("timeout", "bad_reply")  # the server may have written a reply that never came, or that is none
_SCHEMAS = {"model": COSTS, "task": TASK_COSTS, "run": RUN_COSTS}


def costs(generations: pl.DataFrame, *, by: Literal["model", "task", "run"] = "model") -> pl.DataFrame:
    """Add up what calls cost.

    Frame in:
        GENERATIONS, in any order; of its columns only ``OF_CALLS`` and the key are looked at.

    Frame out:
        COSTS, a row a model; TASK_COSTS, a row a model and task; or RUN_COSTS, one row.

    Args:
        generations: The calls.
        by: ``model``, ``task`` or ``run``.

    Notes: models with completed calls whose price is not known; failed calls that may have been charged; with several
    rows what all calls cost.

    Nulls:
        A sum is null as soon as one completed call does not tell its part: an unknown price is not 0. Latencies are
        those of completed calls; without one they are null.

    Raises:
        SchemaError: The frame is not what it is called.
        OptionError: ``by`` is none of the three words.
    """
    if by not in _SCHEMAS:
        fault = Fault("by", "bad_value", f"{by!r} is none of model, task, run", suggestion(str(by), _SCHEMAS))
        raise OptionError.of([fault], what="costs")
    schema = _SCHEMAS[by]
    generations = in_key_order(generations, GENERATIONS, OF_CALLS)
    total = generations.select(**_sums())
    sums = generations.group_by(schema.key, maintain_order=True).agg(**_sums()) if schema.key else total
    found = check(_totalled(sums).select(schema.names), schema)
    by_model = found if by == "model" else generations.group_by("model_id", maintain_order=True).agg(**_sums())
    notes = [
        f"{model}: the price of {n} of {n_completed} completed calls is not known, so cost_usd is null"
        for model, n, n_completed in by_model.select("model_id", "n_unpriced", "n_completed").iter_rows()
        if n
    ]
    maybe = (pl.col("status") == "failed") & pl.col("error_type").is_in(_MAYBE_PAID) & pl.col("cost_usd").is_null()
    charged = generations.filter(maybe, pl.col("attempts") > 0).group_by("model_id", maintain_order=True).len()
    known = by_model.filter(pl.col("cost_usd").is_not_null())["model_id"].implode()
    notes += [
        f"{model}: {n} failed call{'' if n == 1 else 's'} (timeout or bad_reply) may have been charged by the server, "
        "and cost_usd does not count them"
        for model, n in charged.filter(pl.col("model_id").is_in(known)).iter_rows()
    ]
    if found.height > 1:
        notes += _in_all(_totalled(total).row(0, named=True))
    return Noted.of(found, notes)


def _sums() -> dict[str, pl.Expr]:
    completed, cached = pl.col("status") == "completed", pl.col("cached")
    latency = pl.col("latency_seconds").filter(completed & pl.col("latency_seconds").is_not_null())
    return {
        "n_calls": pl.len().cast(pl.Int64),
        **{
            f"n_{status}": (pl.col("status") == status).sum().cast(pl.Int64)
            for status in ("completed", "failed", "skipped")
        },
        "n_cached": (completed & cached).sum().cast(pl.Int64),
        "n_attempts": pl.col("attempts").sum(),
        "n_unpriced": (completed & pl.col("cost_usd").is_null()).sum().cast(pl.Int64),
        "latency_median_seconds": latency.median(),
        "latency_p95_seconds": latency.quantile(0.95, interpolation="linear"),
        "latency_sum_seconds": pl.when(latency.len() > 0).then(latency.sum()),
        **{name: pl.when(~(completed & pl.col(name).is_null()).any()).then(pl.col(name).sum()) for name in _SUMS},
    }


def _totalled(sums: pl.DataFrame) -> pl.DataFrame:
    return sums.with_columns(total_tokens=pl.col("input_tokens") + pl.col("output_tokens"))


def _in_all(total: dict[str, Any]) -> list[str]:
    """Say what the whole run cost, as far as that is known."""
    paid, original, tokens = total["cost_usd"], total["cost_usd_original"], total["total_tokens"]
    parts = []
    if paid is not None:
        parts.append(f"{dollars(paid)} paid")
        if original is not None and original != paid:
            parts[0] += f" ({dollars(original)} when the calls were made)"
    if tokens is not None:
        parts.append(f"{tokens:,} tokens")
    return [f"in all: {', '.join(parts)}, {total['n_calls']:,} calls"] if parts else []
