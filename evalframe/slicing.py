"""SCORES -> SLICES: the leaderboard of each group of samples, or of calls, that share a value.

``groups.py`` says which group each sample or call is in. Here the frames are cut by it, and each piece is given to
``leaderboard``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from evalframe.errors import SchemaError
from evalframe.frames import FrameSchema, Noted, check, empty
from evalframe.groups import FIELDS, SAMPLE_KEY, By, Grouped, Slicer, columns_of_calls, group_values, listed, slicers_of
from evalframe.headlines import OF_CALLS, OF_ROWS, choose_metrics, in_key_order
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import CALL_KEY, GENERATIONS, LEADERBOARD, ROWS, SAMPLES, SCORES, SLICES, TASK_METRICS
from evalframe.standings import leaderboard

Groups = Mapping[int, pl.DataFrame]
SCHEMAS = {"scores": SCORES, "rows": ROWS, "generations": GENERATIONS, "task_metrics": TASK_METRICS}


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
    if generations is not None:
        in_key_order(generations, GENERATIONS, [*OF_CALLS, *_known(of_calls, generations, GENERATIONS)])
    if samples is not None:
        in_key_order(samples, SAMPLES, _known(of_calls, samples, SAMPLES))
    sources = [frame for frame in (generations, samples) if frame is not None]
    calls = pl.concat([frame.select(CALL_KEY) for frame in (scores, *sources)]).unique(maintain_order=True)
    _check_rows(calls, rows)

    batch = _batch_values(task_metrics, scores, metric)
    choice = choose_metrics(scores, rows=rows, metric=metric, batch=batch)
    grouped = group_values(slicers, rows=rows, calls=calls, sources=sources)
    ranked = choice["task_id"] if metric is not None else None
    groups, members = _numbered(grouped, calls=calls, batch=batch, ranked=ranked)
    whole = _of_whole_tasks(batch, members, grouped)
    frames = {
        "scores": _cut(scores, members, grouped.key),
        "rows": _cut(rows, members.select("group", *SAMPLE_KEY).unique(maintain_order=True), SAMPLE_KEY),
        "generations": None if generations is None else _cut(generations, members, grouped.key),
        "task_metrics": None if task_metrics is None else _pieces(whole.select("group", *TASK_METRICS.names)),
    }
    boards, told = _boards(groups["group"], frames, {"metric": metric, "limits": limits, **options})
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
    lacking = calls.select(SAMPLE_KEY).unique().join(rows, on=SAMPLE_KEY, how="anti").sort(SAMPLE_KEY)
    if lacking.height:
        task, sample = lacking.row(0)
        raise SchemaError(
            f"{lacking.height} samples that were called have no row, first task_id={task} sample_index={sample}; "
            "give all rows of the run"
        )


def _batch_values(task_metrics: pl.DataFrame | None, scores: pl.DataFrame, metric: str | None) -> pl.DataFrame:
    """Give the rows of TASK_METRICS that only a batch grader knows, of the metric that is ranked."""
    if task_metrics is None:
        return empty(TASK_METRICS)
    wanted = pl.col("headline") if metric is None else pl.col("metric") == metric
    return (
        in_key_order(task_metrics, TASK_METRICS)
        .filter((pl.col("source") == "grader") & (pl.col("aggregation") == "mean") & wanted)
        .join(scores, on=["task_id", "metric"], how="anti", maintain_order="left")
    )


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


def _cut(frame: pl.DataFrame, members: pl.DataFrame, key: Sequence[str]) -> Groups:
    """Cut a frame into the groups; a row of several groups is in each."""
    return _pieces(frame.join(members, on=list(key), maintain_order="left"))


def _pieces(frame: pl.DataFrame) -> Groups:
    pieces = frame.partition_by("group", as_dict=True, include_key=False, maintain_order=True)
    return {int(group): piece for (group,), piece in pieces.items()}


def _boards(
    groups: pl.Series, frames: Mapping[str, Groups | None], options: Mapping[str, Any]
) -> tuple[list[pl.DataFrame], dict[str, list[int]]]:
    """Make the leaderboard of each group; give them, and which groups each of their notes is about."""
    boards: list[pl.DataFrame] = []
    told: dict[str, list[int]] = {}
    for group in groups:  # a leaderboard each: their strata and draws differ
        its: dict[str, Any] = {
            name: None if cut is None else cut.get(group, empty(SCHEMAS[name])) for name, cut in frames.items()
        }
        board = leaderboard(its.pop("scores"), **its, **options)
        boards.append(board.select(pl.lit(group, pl.Int64).alias("group"), pl.all()))
        for note in getattr(board, "notes", ()):
            told.setdefault(note, []).append(group)
    return boards, told


def _units(chosen: pl.DataFrame, members: pl.DataFrame, key: Sequence[str], whole: pl.DataFrame) -> pl.DataFrame:
    """Count for each group and model the samples with a score; a batch grader's value is one."""
    unit = ["group", "model_id", *SAMPLE_KEY]
    scored = chosen.filter(pl.col("score").is_not_null()).join(members, on=list(key)).select(unit)
    batch = whole.filter(pl.col("value").is_not_null()).with_columns(sample_index=pl.lit(0, pl.Int64)).select(unit)
    return pl.concat([scored, batch]).unique().group_by("group", "model_id").agg(n_units=pl.len().cast(pl.Int64))


def _assembled(
    boards: Sequence[pl.DataFrame], groups: pl.DataFrame, units: pl.DataFrame, limits: Limits
) -> pl.DataFrame:
    labels = [name for name in groups.columns if name != "group"]
    nothing = pl.DataFrame(schema={"group": pl.Int64, **LEADERBOARD.dtypes})
    together = (
        pl.concat([nothing, *boards], how="diagonal")
        .join(groups, on="group", how="left", maintain_order="left")
        .join(units, on=["group", "model_id"], how="left", maintain_order="left")
        .with_columns(pl.col("n_units").fill_null(0))
        .with_columns(small=pl.col("n_units") < limits.small_group_units)
    )
    categories = sorted(name for name in together.columns if name.startswith("category."))
    return together.select("group", *labels, "n_units", "small", *LEADERBOARD.names, *categories)


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
