"""GENERATIONS -> COSTS: calls, tokens, dollars and latency of each model."""

from __future__ import annotations

import polars as pl

from evalframe.frames import Noted, check
from evalframe.headlines import in_key_order
from evalframe.schemas import COSTS, GENERATIONS

# what is used of GENERATIONS beside the key: texts need not be loaded
OF_CALLS = (
    "status", "cached", "attempts", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd",
    "cost_usd_original", "latency_seconds",
)  # fmt: skip
_SUMS = ("cost_usd", "cost_usd_original", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def costs(generations: pl.DataFrame) -> pl.DataFrame:
    """Add up what each model's calls cost.

    Frame in:
        GENERATIONS, in any order; of its columns only ``OF_CALLS`` and the key are looked at.

    Frame out:
        COSTS.

    Notes: models with completed calls whose price is not known.

    Nulls:
        A sum is null as soon as one completed call does not tell its part: an unknown price is not 0. Latencies are
        those of completed calls; without one they are null.

    Raises:
        SchemaError: The frame is not what it is called.
    """
    generations = in_key_order(generations, GENERATIONS, OF_CALLS)
    completed, cached = pl.col("status") == "completed", pl.col("cached")
    latency = pl.col("latency_seconds").filter(completed & pl.col("latency_seconds").is_not_null())
    found = generations.group_by("model_id", maintain_order=True).agg(
        n_calls=pl.len().cast(pl.Int64),
        **{f"n_{status}": (pl.col("status") == status).sum().cast(pl.Int64)
           for status in ("completed", "failed", "skipped")},
        n_cached=(completed & cached).sum().cast(pl.Int64),
        n_attempts=pl.col("attempts").sum(),
        n_unpriced=(completed & pl.col("cost_usd").is_null()).sum().cast(pl.Int64),
        latency_median_seconds=latency.median(),
        latency_p95_seconds=latency.quantile(0.95, interpolation="linear"),
        latency_sum_seconds=pl.when(latency.len() > 0).then(latency.sum()),
        **{name: pl.when(~(completed & pl.col(name).is_null()).any()).then(pl.col(name).sum()) for name in _SUMS},
    ).with_columns(total_tokens=pl.col("input_tokens") + pl.col("output_tokens"))  # fmt: skip
    shown = check(found.select(COSTS.names), COSTS)
    notes = [
        f"{model}: the price of {n} of {n_completed} completed calls is not known, so cost_usd is null"
        for model, n, n_completed in shown.select("model_id", "n_unpriced", "n_completed").iter_rows()
        if n
    ]
    return Noted.of(shown, notes)
