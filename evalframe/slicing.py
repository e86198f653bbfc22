"""SCORES -> SLICES: the leaderboard of each group of samples, or of calls, that share a value.

``groups.py`` says which group each sample or call is in. Here the frames are given it, and ``standings`` ranks all
groups at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from evalframe.designs import asked_of
from evalframe.frames import FrameSchema, Noted, check, listed
from evalframe.groups import FIELDS, SAMPLE_KEY, By, Grouped, Slicer, columns_of_calls, group_values, slicers_of
from evalframe.headlines import OF_CALLS, OF_ROWS, choose_metrics, in_key_order, refuse_without_rows
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import CALL_KEY, GENERATIONS, ROWS, SAMPLES, SCORES, SLICES, TASK_METRICS
from evalframe.standings import batch_values, ranked_groups


def slices(
    scores: pl.DataFrame,
    *,
    by: By,
    rows: pl.DataFrame,
    generations: pl.DataFrame | None = None,
    task_metrics: pl.DataFrame | None = None,
    samples: pl.DataFrame | None = None,
    metric: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **options: Any,
) -> pl.DataFrame:
    """Rank the models within each group of samples.

    A group's figures are those of ``leaderboard`` on the scores, generations and rows of the group alone, with the
    same seed: the mean of a task is over those of its samples that are in the group. A value that a batch grader gave
    for a whole task counts where the group has all of the task.

    Groups are of text, as a template renders a value: the number ``1`` and the text ``"1"`` are one group, and the
    frame's notes say where both occur; ``1`` and ``1.0`` are two. A list (in the record, or a column of lists) counts
    its row once in each of its distinct values. Groups are numbered in the order of their values: of numbers where all
    are, else of texts; null comes last.

    Frame in:
        SCORES, ROWS, GENERATIONS, TASK_METRICS, SAMPLES, in any order. ROWS and SAMPLES may have columns of one's own.

    Frame out:
        SLICES, with a column ``by.<name>`` for each of ``by`` (``by.row.subject``), sorted by group, within it as the
        leaderboard is. Groups without a call are left out.

    Args:
        scores: Of all calls.
        by: A column of ROWS or SAMPLES (``category``, ``finish_reason``), ``row.<path>`` (a field of the record),
            ``metadata.<key>`` (of the task), or a polars expression over these, named by its output (``.alias``);
            or several of them. Where all are known of a sample, samples are grouped, and an expression sees one row a
            sample; else calls are, and it sees one row a call.
        rows: The samples. A field that is no column is read from ``row`` or ``metadata``.
        generations: As for the leaderboard; give columns of calls, too.
        task_metrics: As for the leaderboard.
        samples: Gives columns of calls that ``generations`` do not have; needs only these and the key.
        metric: Rank this metric; groups without a task that has it are left out.
        limits: The table of numbers: groups under ``small_group_units`` are marked ``small``.
        **options: Of the leaderboard: ``weighting``, ``n_resamples``, ``seed``, ...

    Nulls: a missing or null value, and an empty list, are the null group.

    Raises:
        SchemaError: A frame is not what it is called, or lacks samples or calls of the scores.
        OptionError: ``by`` names no column and no field of any row; the nearest are named.
    """
    slicers = slicers_of(by)
    of_calls = columns_of_calls(slicers, rows)
    scores = in_key_order(scores, SCORES)
    in_key_order(rows, ROWS, [*OF_ROWS, *_json_columns(slicers, rows)])
    asked = asked_of(rows, metric=metric, limits=limits, **options)
    if generations is not None:
        in_key_order(generations, GENERATIONS, [*OF_CALLS, *_known(of_calls, generations, GENERATIONS)])
    if samples is not None:
        in_key_order(samples, SAMPLES, _known(of_calls, samples, SAMPLES))
    sources = [frame for frame in (generations, samples) if frame is not None]
    calls = pl.concat([frame.select(CALL_KEY) for frame in (scores, *sources)]).unique(maintain_order=True)
    _check_rows(calls, rows)

    batch = batch_values(task_metrics, scores, metric)
    choice = choose_metrics(scores, rows=rows, metric=metric, batch=batch)
    grouped = group_values(slicers, rows=rows, calls=calls, sources=sources)
    ranked = choice["task_id"] if metric is not None else None
    groups, members = _numbered(grouped, calls=calls, batch=batch, ranked=ranked)
    whole = _of_whole_tasks(batch, members, grouped)
    boards, told = ranked_groups(
        _in_groups(scores, members, grouped.key),
        choice=_choices(choice, batch, whole, members, scores=scores, rows=rows, metric=metric),
        batch=whole.select(*TASK_METRICS.names, "group"),
        generations=None if generations is None else _in_groups(generations, members, grouped.key),
        has_rows=True,
        asked=asked,
    )
    units = _units(scores.join(choice, on=["task_id", "metric"], how="semi"), members, grouped.key, whole)
    shown = _assembled(boards, groups, units, limits)
    notes = [*grouped.notes, *_small_notes(shown, limits), *_told_notes(told, groups)]
    return Noted.of(check(shown, SLICES), notes)


def needs_samples(by: By, *, rows: pl.DataFrame, generations: pl.DataFrame) -> bool:
    """Say whether ``slices`` needs SAMPLES: a column is named that is in neither frame and can be in SAMPLES."""
    missing = set(columns_of_calls(slicers_of(by), rows)) - set(generations.columns)
    return any(name in SAMPLES.names or SAMPLES.family_of(name) is not None for name in missing)


def _known(names: Sequence[str], frame: pl.DataFrame, schema: FrameSchema) -> list[str]:
    """Give the columns that the frame has and its schema declares; the others are a caller's own."""
    return [name for name in names if name in frame.columns and (name in schema.names or schema.family_of(name))]


def _json_columns(slicers: Sequence[Slicer], rows: pl.DataFrame) -> set[str]:
    """Say which JSON columns are read because a field is no column."""
    names = (name for slicer in slicers for name in slicer.columns if name not in rows.columns)
    return {name.partition(".")[0] for name in names if name.startswith(FIELDS)}


def _check_rows(calls: pl.DataFrame, rows: pl.DataFrame) -> None:
    refuse_without_rows(calls.select(SAMPLE_KEY).unique().join(rows, on=SAMPLE_KEY, how="anti"))


def _numbered(
    grouped: Grouped, *, calls: pl.DataFrame, batch: pl.DataFrame, ranked: pl.Series | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the groups that have a call, or a batch grader's value, on a ranked task.

    Returns:
        The groups: ``group`` and its values, in order. The members: ``group`` and the key.
    """
    labels = [name for name in grouped.values.columns if name not in grouped.key]
    called = pl.concat(
        [
            grouped.values.join(calls, on=grouped.key, how="semi", maintain_order="left"),
            grouped.values.join(batch, on="task_id", how="semi", maintain_order="left"),
        ]
    ).unique(maintain_order=True)
    used = called if ranked is None else called.filter(pl.col("task_id").is_in(ranked.implode()))
    groups = used.select(labels).unique()
    groups = groups.sort([key for name in labels for key in _order(groups[name])], nulls_last=True)
    groups = groups.with_row_index("group").cast({"group": pl.Int64})
    members = called.join(groups, on=labels, nulls_equal=True, maintain_order="left").select("group", *grouped.key)
    return groups, members


def _order(values: pl.Series) -> list[pl.Expr]:
    """Sort texts as numbers where all of them are; ``1`` and ``1.0`` are equal then, and are told apart as texts."""
    numbers = values.drop_nulls().cast(pl.Float64, strict=False)
    text = pl.col(values.name)
    are_numbers = numbers.null_count() == 0 and bool(numbers.is_finite().all())
    return [text.cast(pl.Float64), text] if are_numbers else [text]


def _of_whole_tasks(batch: pl.DataFrame, members: pl.DataFrame, grouped: Grouped) -> pl.DataFrame:
    """Give each batch value the groups that have all of its task, as ``group``."""
    of_task = [name for name in grouped.key if name in ("model_id", "task_id")]
    all_of_it = grouped.values.select(grouped.key).unique().group_by(of_task).len()
    there = members.group_by("group", *of_task).len().join(all_of_it, on=[*of_task, "len"], how="semi")
    return batch.join(there.drop("len"), on=of_task).sort("group", *TASK_METRICS.key)


def _in_groups(frame: pl.DataFrame, members: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Give each row of a frame its ``group``, and sort by it; a row of several groups is there for each."""
    return frame.join(members, on=list(key), maintain_order="left").sort("group", maintain_order=True)


def _choices(
    choice: pl.DataFrame,
    batch: pl.DataFrame,
    whole: pl.DataFrame,
    members: pl.DataFrame,
    *,
    scores: pl.DataFrame,
    rows: pl.DataFrame,
    metric: str | None,
) -> pl.DataFrame:
    """Give the metric of each task of each group; a batch grader's only where the group has all of the task."""
    tasks = members.select("group", "task_id").unique().sort("group", "task_id")
    if batch.is_empty():
        return tasks.join(choice, on="task_id", maintain_order="left").select(*choice.columns, "group")
    found = []
    for (group,), its in tasks.partition_by("group", as_dict=True, maintain_order=True).items():
        chosen = choose_metrics(
            scores.join(its, on="task_id", how="semi", maintain_order="left"),
            rows=rows.join(its, on="task_id", how="semi", maintain_order="left"),
            metric=metric,
            batch=whole.filter(pl.col("group") == group),
        )
        found.append(chosen.with_columns(pl.lit(group, pl.Int64).alias("group")))
    return pl.concat(found) if found else choice.head(0).with_columns(group=pl.lit(0, pl.Int64))


def _units(chosen: pl.DataFrame, members: pl.DataFrame, key: Sequence[str], whole: pl.DataFrame) -> pl.DataFrame:
    """Count for each group and model the samples with a score; a batch grader's value is one."""
    unit = ["group", "model_id", *SAMPLE_KEY]
    scored = chosen.filter(pl.col("score").is_not_null()).join(members, on=list(key)).select(unit)
    batch = whole.filter(pl.col("value").is_not_null()).with_columns(sample_index=pl.lit(0, pl.Int64)).select(unit)
    return pl.concat([scored, batch]).unique().group_by("group", "model_id").agg(n_units=pl.len().cast(pl.Int64))


def _assembled(boards: pl.DataFrame, groups: pl.DataFrame, units: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    labels = [name for name in groups.columns if name != "group"]
    together = (
        boards.join(groups, on="group", how="left", maintain_order="left")
        .join(units, on=["group", "model_id"], how="left", maintain_order="left")
        .with_columns(pl.col("n_units").fill_null(0))
        .with_columns(small=pl.col("n_units") < limits.small_group_units)
    )
    categories = sorted(name for name in together.columns if name.startswith("category."))
    return together.select(*labels, *SLICES.names, *categories)


def _small_notes(shown: pl.DataFrame, limits: Limits) -> Iterator[str]:
    n_groups, n_small = shown["group"].n_unique(), shown.filter("small")["group"].n_unique()
    if n_small:
        yield (
            f"{n_small} of {n_groups} groups have under {limits.small_group_units} samples with a score (small): "
            "their figures say little"
        )


def _told_notes(told: Mapping[str, Sequence[int]], groups: pl.DataFrame) -> Iterator[str]:
    """Say what the leaderboards said, once, and of which groups."""
    names = groups.select(pl.concat_str(pl.exclude("group").fill_null("(none)"), separator=" / ")).to_series()
    for note, its_groups in told.items():
        yield f"{note} (in {listed(names[list(its_groups)].to_list())})"
