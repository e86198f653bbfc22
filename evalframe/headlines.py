"""Which metric each task is ranked by, and which tasks share one mean."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evalframe.errors import Fault, OptionError, SchemaError
from evalframe.frames import FrameSchema, check
from evalframe.metrics import Metric
from evalframe.registry import METRICS, suggestion
from evalframe.schemas import METRIC_CHOICES

# what is used of ROWS and of GENERATIONS beside their keys: texts need not be loaded
OF_ROWS = ("category", "metrics")
OF_CALLS = (
    "status", "confidence", "token_nll", "token_count", "input_tokens", "output_tokens", "cost_usd",
)  # fmt: skip

CHOICE = {"task_id": pl.String, "metric": pl.String, "higher_is_better": pl.Boolean, "category": pl.String}


def in_key_order(frame: pl.DataFrame, schema: FrameSchema, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Check a frame that may stand in any order, and give it sorted by its key: a person may have sorted it anew.

    Args:
        frame: Of the schema.
        schema: What it should be.
        columns: What is used beside the key; the rest may be missing. None: all columns.
    """
    if columns is not None:
        frame = frame.select(name for name in frame.columns if name in {*schema.key, *columns})
    try:
        return check(frame, schema, columns=columns)
    except SchemaError as error:
        if any(fault.rule != "key" for fault in error.fault_records):
            raise
    return check(frame.sort(schema.key), schema, columns=columns)


def check_options(what: str, *, has_rows: bool = False, **given: object) -> None:
    """Hold the options of a leaderboard or a comparison to the words that they know, all at once.

    Args:
        what: Whose options they are.
        has_rows: There are rows, so that ``weighting`` may name a column of them.
        **given: The options.
    """
    words = {"weighting": ("task", "sample"), "failures": ("omit", "zero"), "ties": ("split", "all")}
    also = {"weighting": ", or give rows= and name a column of them"}
    types = {
        "metric": ((str, type(None)), "name one metric id"), "seed": ((int,), "give a whole number"),
        "common": ((bool,), "use True or False"),
    }  # fmt: skip
    faults = []
    for name, value in given.items():
        if name in types:
            allowed, remedy = types[name]
            if type(value) not in allowed:  # the very type: True is no seed
                faults.append(Fault(name, "bad_type", f"is {value!r}", remedy))
        elif not (has_rows and name == "weighting") and not (isinstance(value, str) and value in words[name]):
            remedy = f"use {' or '.join(map(repr, words[name]))}{also.get(name, '')}"
            faults.append(Fault(name, "bad_value", f"is {value!r}", remedy))
    if faults:
        raise OptionError.of(faults, what=what)


def refuse_without_rows(lacking: pl.DataFrame) -> None:
    """Refuse samples that were called and have no row, where each must have one.

    Args:
        lacking: ``task_id`` and ``sample_index`` of them; none is fine.

    Raises:
        SchemaError: Says how many, which is first and what to give.
    """
    if lacking.height:
        task, sample = lacking.select("task_id", "sample_index").sort("task_id", "sample_index").row(0)
        raise SchemaError(
            f"{lacking.height} samples that were called have no row, first task_id={task} sample_index={sample}; "
            "give all rows of the run"
        )


def registered(name: str) -> Metric | None:
    """Give the registered metric of a name, or None."""
    return METRICS.get(name) if name in METRICS else None


def choose_metrics(
    scores: pl.DataFrame, *, rows: pl.DataFrame | None, metric: str | None, batch: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Choose the metric of each task that is ranked: its headline, or ``metric`` where the task averages it.

    Args:
        scores: SCORES, sorted.
        rows: ROWS, sorted, or None.
        metric: A metric id, or None.
        batch: Choices that a batch grader made, the columns of the result; they stand before the others.

    Returns:
        ``task_id`` (sorted), ``metric``, ``higher_is_better``, ``category`` (null without ``rows``). Lower is better
        where the task or the registered metric says so.

    Raises:
        OptionError: No task has ``metric``; tasks differ about its direction; or, without ``rows``, a task has
            several metrics and none was named.
        SchemaError: A task of the scores has no rows.
    """
    if rows is None:
        choice = _only_metrics(scores, metric)
    else:
        known = rows["task_id"].unique()
        if unknown := sorted(set(scores["task_id"].unique()) - set(known)):
            raise SchemaError(f"scores of tasks that have no rows: {', '.join(unknown[:5])}; give all rows of the run")
        choice = _declared_metrics(rows, metric)
    if batch is not None:
        first = batch.unique("task_id", keep="first", maintain_order=True).select(list(CHOICE))
        choice = pl.concat([first, choice.join(first, on="task_id", how="anti", maintain_order="left")])
    lower = [name for name in choice["metric"].unique() if (m := registered(name)) and not m.higher_is_better]
    choice = choice.with_columns(pl.col("higher_is_better") & ~pl.col("metric").is_in(lower))
    if metric is not None and choice.is_empty() and (rows is not None or scores.height):
        there = [name for name in scores["metric"].unique() if name != metric]
        raise OptionError(f"no task has a mean of the metric {metric!r}; {suggestion(metric, there)}")
    if metric is not None and choice["higher_is_better"].n_unique() > 1:
        raise OptionError(
            f"some tasks take {metric!r} as better when higher, others when lower; "
            "rank them apart: filter the scores and rows by task_id first"
        )
    return choice.sort("task_id")


def in_one_mean(choice: pl.DataFrame, cells: pl.DataFrame) -> pl.Series:
    """Say for each task of ``choice`` whether it is in the combined mean: higher is better, scores in [0, 1].

    The others are left out of it and are ranked alone, by ``metric``. Where no task of a group qualifies and all have
    the same metric, they are that ranking. Both frames have ``group``.
    """
    beyond = {
        name: not 0 <= m.range[0] <= m.range[1] <= 1 for name in choice["metric"].unique() if (m := registered(name))
    }
    task = ["group", "task_id"]
    seen = cells.group_by(task).agg(seen_beyond=((pl.col("low") < 0) | (pl.col("high") > 1)).any())
    fits = pl.col("fits")
    of_one_kind = pl.struct("metric", "higher_is_better").n_unique().over("group") == 1
    return (
        choice.join(seen, on=task, how="left", maintain_order="left")
        .with_columns(
            fits=pl.col("higher_is_better")
            & ~pl.col("metric").is_in([name for name, is_beyond in beyond.items() if is_beyond])
            & ~pl.col("seen_beyond").fill_null(False)
        )
        .select(fits=fits | (~fits.any().over("group") & of_one_kind))["fits"]
    )


def _only_metrics(scores: pl.DataFrame, metric: str | None) -> pl.DataFrame:
    choice = scores.select("task_id", "metric").unique()
    if metric is not None:
        choice = choice.filter(pl.col("metric") == metric)
    elif several := choice.filter(pl.col("task_id").is_duplicated())["task_id"].unique().sort().to_list():
        raise OptionError(
            f"tasks with several metrics: {', '.join(several[:5])}; "
            "give rows=, which say what the headline metric is, or name one with metric="
        )
    return choice.with_columns(
        higher_is_better=pl.lit(True), category=pl.lit(None, dtype=pl.String)
    ).select(list(CHOICE))  # fmt: skip


def _declared_metrics(rows: pl.DataFrame, metric: str | None) -> pl.DataFrame:
    tasks = rows.unique("task_id", keep="first", maintain_order=True).select("task_id", "category", "metrics")
    choices = tasks.cast({"metrics": METRIC_CHOICES}).explode("metrics").unnest("metrics").rename({"id": "metric"})
    means = choices.filter(pl.col("aggregation") == "mean")
    if metric is not None:
        means = means.filter(pl.col("metric") == metric)
    return means.unique("task_id", keep="first", maintain_order=True).select(list(CHOICE))
