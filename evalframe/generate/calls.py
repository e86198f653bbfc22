"""Planning: which calls a run makes, and what an adapter is told of each. Held as numbers, not as objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import polars as pl

from evalframe.adapters import NOTHING, TaskSpec
from evalframe.errors import Fault, OptionError
from evalframe.registry import suggestion

CHUNK = 64  # calls whose texts are taken out of the frame at once

_COLUMNS = (
    "task_id", "sample_index", "sample_id", "category", "prompt", "targets", "choices", "metrics", "extraction", "row",
    "metadata",
)  # fmt: skip


def repeats_of(rows: pl.DataFrame, repeats: int | Mapping[str, int]) -> pl.Series:
    """Give the number of repeats of each row.

    Args:
        rows: A ROWS frame.
        repeats: From 1 up; or by task id or category, where a task id goes before its category and what is not named
            is called once.

    Raises:
        OptionError: A number below 1, or a name that is neither a task nor a category; lists the nearest.
    """
    named = {"": repeats} if isinstance(repeats, int) else dict(repeats)
    faults = [
        Fault(f"repeats[{name!r}]" if name else "repeats", "bad_value", f"{n!r} is no whole number from 1 up")
        for name, n in named.items()
        if not isinstance(n, int) or isinstance(n, bool) or n < 1
    ]
    known = {""} if isinstance(repeats, int) else {*rows["task_id"].unique(), *rows["category"].unique()}
    faults += [
        Fault(f"repeats[{name!r}]", "unknown_name", "is neither a task nor a category", suggestion(name, known))
        for name in named
        if name not in known
    ]
    if faults:
        raise OptionError.of(faults, what="repeats")
    if isinstance(repeats, int):
        return pl.repeat(repeats, rows.height, dtype=pl.Int64, eager=True).alias("repeats")
    by_name = {"old": pl.Series(list(named), dtype=pl.String), "new": pl.Series(list(named.values()), dtype=pl.Int64)}
    task, category = (
        pl.col(name).replace_strict(**by_name, default=None, return_dtype=pl.Int64) for name in ("task_id", "category")
    )
    return rows.select(pl.coalesce(task, category, pl.lit(1, pl.Int64)).alias("repeats"))["repeats"]


def repeats_by_task(rows: pl.DataFrame, repeats: int | Mapping[str, int], *, of: pl.DataFrame) -> int | dict[str, int]:
    """Write repeats by task id alone, where they are a mapping: a category is then free to change.

    Args:
        rows: A ROWS frame, whose tasks and categories ``repeats`` names.
        repeats: As for ``repeats_of``.
        of: ROWS whose tasks are wanted.
    """
    if isinstance(repeats, int):
        return repeats
    counted = rows.select("task_id").with_columns(repeats_of(rows, repeats))
    tasks = counted.unique("task_id", keep="first").filter(pl.col("task_id").is_in(of["task_id"].unique().implode()))
    return dict(tasks.sort("task_id").iter_rows())


def plan(rows: pl.DataFrame, *, repeats: int | Mapping[str, int]) -> pl.DataFrame:
    """Give every call of one model: ``task_id``, ``sample_index``, ``repeat`` and ``place`` (of the row), in order.

    The order is that of the rows, the repeats of a row together.
    """
    counted = rows.select("task_id", "sample_index", pl.int_range(pl.len()).alias("place")).with_columns(
        repeats_of(rows, repeats)
    )
    return (
        counted.with_columns(pl.int_ranges(0, pl.col("repeats")).alias("repeat"))
        .explode("repeat")
        .select("task_id", "sample_index", "repeat", "place")
    )


def without(planned: pl.DataFrame, done: pl.DataFrame, *, model_id: str) -> pl.DataFrame:
    """Leave out the calls of a plan that a model has finished; the order stays."""
    own = done.filter(pl.col("model_id") == model_id)
    if own.is_empty():
        return planned
    return planned.join(own, on=["task_id", "sample_index", "repeat"], how="anti", maintain_order="left")


def specs(rows: pl.DataFrame, planned: pl.DataFrame, *, generation: Mapping[str, Any] = NOTHING) -> Iterator[TaskSpec]:
    """Give what the adapter is told of each planned call, in order, a few of them in memory at a time."""
    wanted = rows.select(_COLUMNS)
    for start in range(0, planned.height, CHUNK):
        chunk = planned.slice(start, CHUNK)
        # handed to the adapter one by one: a call is a row
        for row, repeat in zip(wanted[chunk["place"]].iter_rows(named=True), chunk["repeat"], strict=True):
            yield _spec(row, repeat, generation)


def _spec(row: Mapping[str, Any], repeat: int, generation: Mapping[str, Any]) -> TaskSpec:
    post_process = _post_process(row["extraction"])
    headline = next((metric["id"] for metric in row["metrics"] if metric["aggregation"] == "mean"), "")
    return TaskSpec(
        task_id=row["task_id"],
        category=row["category"],
        prompt=row["prompt"],
        targets=tuple(row["targets"]),
        metric_name=headline,
        post_process=post_process or "none",
        few_shot_examples=_few_shot_examples(row["row"]) if post_process else (),
        metadata=_metadata(row["metadata"]),
        choices=tuple(row["choices"] or ()),
        sample_index=row["sample_index"],
        sample_id=row["sample_id"],
        repeat=repeat,
        generation=generation,
        row=row["row"],
    )


@lru_cache(maxsize=64)  # a task's rows share these texts
def _post_process(extraction: str) -> str | None:
    """The rule of a task file's record; None for a task of a suite."""
    config = _plain(extraction)
    return config.get("rule") if config.get("type") == "post_process" else None


@lru_cache(maxsize=64)
def _metadata(metadata: str) -> Mapping[str, Any]:
    return MappingProxyType(_plain(metadata))


def _few_shot_examples(record: str) -> tuple[Mapping[str, str], ...]:
    if '"few_shot_examples"' not in record:
        return ()
    return tuple(MappingProxyType(example) for example in _plain(record).get("few_shot_examples") or ())


def _plain(text: str) -> Any:
    """Read JSON into plain Python values; an integer too long for Python stays text."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 4000 else digits)
