"""The options ``weighting`` and ``cluster`` -> what each sample weighs, and which samples belong together.

Both may name anything that samples can be sliced by; see ``groups``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import cast

import polars as pl

from evalframe.errors import Fault, OptionError
from evalframe.groups import SAMPLE_KEY, sample_values
from evalframe.headlines import check_options
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.stats.bootstrap import resamples_of
from evalframe.units import Weighting

WORDS = ("task", "sample")
By = str | pl.Expr


@dataclass(frozen=True, slots=True)
class Design:
    """How samples are averaged and drawn.

    Attributes:
        weighting: What weighs, each like any other or by ``weight``.
        of_samples: ``task_id``, ``sample_index``, and ``weight`` and ``cluster`` where they were asked for; else None.
        cluster: What clusters are called, or None.
    """

    weighting: Weighting
    of_samples: pl.DataFrame | None = None
    cluster: str | None = None

    def with_whole_tasks(self, tasks: Collection[str]) -> Design:
        """Let tasks with one value for all their samples be a unit of their samples' mean weight, in no cluster."""
        if self.of_samples is None or not tasks:
            return self
        whole = pl.col("task_id").is_in(sorted(tasks))
        changed = []
        if "weight" in self.of_samples.columns:
            weight = pl.col("weight")
            changed.append(pl.when(whole).then(weight.mean().over("task_id")).otherwise(weight).alias("weight"))
        if "cluster" in self.of_samples.columns:
            changed.append(pl.when(~whole).then("cluster").alias("cluster"))
        return replace(self, of_samples=self.of_samples.with_columns(changed))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a leaderboard, once they are checked."""

    design: Design
    metric: str | None
    failures_count: bool
    common: bool
    split_ties: bool
    n_resamples: int
    seed: int
    limits: Limits


def asked_of(
    rows: pl.DataFrame | None,
    *,
    metric: str | None = None,
    weighting: Weighting | By = "task",
    cluster: By | None = None,
    failures: str = "omit",
    common: bool = False,
    ties: str = "split",
    n_resamples: int | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> Asked:
    """Check the options of a leaderboard."""
    check_options(
        "leaderboard", has_rows=rows is not None, metric=metric, weighting=weighting, failures=failures, common=common,
        ties=ties, seed=seed,
    )  # fmt: skip
    resamples = resamples_of(n_resamples, limits)
    design = design_of(weighting=weighting, cluster=cluster, rows=rows)
    return Asked(design, metric, failures == "zero", common, ties == "split", resamples, seed, limits)


def design_of(*, weighting: Weighting | By, cluster: By | None, rows: pl.DataFrame | None) -> Design:
    """Read the two options.

    ``metadata.<key>`` weighs tasks: the mean is that of the task means, each by its weight, and equal weights are
    ``"task"``. Anything else weighs samples, within their task and beyond: a task counts as much as its samples
    together, and equal weights are ``"sample"``. A weight of 0 leaves a sample, or a task, out as
    if it were not there, of win rates too, which other weights do not change.

    Args:
        weighting: ``task``, ``sample``, or what weighs.
        cluster: What samples share that are drawn together; None: each sample is drawn by itself.
        rows: ROWS, in any order.

    Nulls: a null cluster is a cluster of its own; a null weight is a fault.

    Raises:
        OptionError: There are no rows to read a column from, there is no such column, or a weight is null, no number,
            negative or infinite, or differs within a task that it weighs.
    """
    is_word = isinstance(weighting, str) and weighting in WORDS
    if rows is None:
        if cluster is not None:
            remedy = "give rows=, which say what samples share"
            asked = repr(cluster) if isinstance(cluster, str) else str(cluster)
            raise OptionError.of([Fault("cluster", "missing", f"{asked} is read from rows", remedy)], what="cluster")
        return Design(cast(Weighting, weighting))  # a column without rows is refused with the other words
    named: str | None = None
    columns = []
    if not is_word:
        columns.append(_weights(weighting, rows).alias("weight"))
    if cluster is not None:
        named, values = sample_values("cluster", cluster, rows=rows)
        columns.append(values.alias("cluster"))
    kind: Weighting = cast(Weighting, weighting) if is_word else "task" if _is_of_tasks(weighting) else "sample"
    return Design(kind, rows.select(SAMPLE_KEY).with_columns(columns) if columns else None, named)


def _is_of_tasks(weighting: Weighting | By) -> bool:
    names = [weighting] if isinstance(weighting, str) else weighting.meta.root_names()
    return bool(names) and all(name.startswith("metadata.") for name in names)


def _weights(weighting: By, rows: pl.DataFrame) -> pl.Series:
    if isinstance(weighting, str) and "." not in weighting and weighting not in rows.columns:
        remedy = "use 'task' or 'sample', a column of the rows, row.<field> or metadata.<key>"
        raise OptionError.of([Fault("weighting", "bad_value", f"is {weighting!r}", remedy)], what="weighting")
    name, texts = sample_values("weighting", weighting, rows=rows)
    keyed = rows.select(*SAMPLE_KEY, text=texts).with_columns(weight=pl.col("text").cast(pl.Float64, strict=False))
    weight, text = pl.col("weight"), pl.col("text")
    wrong = {
        "null": (text.is_null(), "give each sample a weight, 0 to leave it out"),
        "bad_type": (text.is_not_null() & (weight.is_null() | weight.is_nan()), "a weight is a number"),
        "bad_value": ((weight < 0) | weight.is_infinite(), "a weight is 0 or more, and finite"),
    }
    if _is_of_tasks(weighting):
        differs = weight.n_unique().over("task_id") > 1
        wrong["differs"] = (differs, "a task has one weight; name a field of the row to weigh samples")
    faults = []
    for rule, (condition, remedy) in wrong.items():
        found = keyed.filter(condition).sort(SAMPLE_KEY)
        if found.height:
            task, sample, seen = found.select(*SAMPLE_KEY, "text").row(0)
            detail = f"{name!r} is {'null' if seen is None else seen} for {found.height} samples"
            faults.append(Fault("weighting", rule, f"{detail}, first task_id={task} sample_index={sample}", remedy))
    if not faults and keyed.height and not keyed["weight"].max():
        faults.append(
            Fault("weighting", "bad_value", f"{name!r} is 0 for all samples", "nothing would be left to rank")
        )
    if faults:
        raise OptionError.of(faults, what="weighting")
    return keyed["weight"]
