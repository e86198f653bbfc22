"""ROWS from records and tasks: prompt, target, references, ids, and the columns by which results are sliced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

import polars as pl

from evalframe.errors import DatasetError, OptionError
from evalframe.frames import DType, check, empty
from evalframe.jsontext import clean, dumps, text_of
from evalframe.limits import DEFAULT_LIMITS
from evalframe.prompts.fewshot import with_examples
from evalframe.prompts.needs import (
    NeededPaths,
    fewshot_paths,
    field_faults,
    needed_paths,
    prompt_faults,
    require_columns,
    task_templates,
)  # fmt: skip
from evalframe.prompts.sampleids import SampleIds, blake2b_128, name_samples, warn_of_gaps
from evalframe.prompts.templates import Template, text_expr, warn_missing
from evalframe.schemas import METRIC_CHOICES, RECORDS, ROWS, TEXTS

if TYPE_CHECKING:
    from evalframe.manifest.suite import Task
    from evalframe.manifest.taskfile import TaskRecord

__all__ = [
    "NeededPaths",
    "OnMissing",
    "SampleIds",
    "fewshot_paths",
    "needed_paths",
    "render",
    "suite_rows",
    "task_rows",
]

OnMissing = Literal["warn", "error"]
TASKS_AT_ONCE = 20_000  # task records that are Python lists at one time; then they are a frame


def suite_rows(
    task: Task,
    records: pl.DataFrame,
    *,
    fewshot_records: pl.DataFrame | None = None,
    on_missing: OnMissing = "warn",
    sample_ids: SampleIds = "auto",
    max_metadata_columns: int = DEFAULT_LIMITS.metadata_columns,
) -> pl.DataFrame:
    """Render a task's prompts and targets over its whole data set.

    A target template that is a single placeholder over a list of scalars gives the list's items as references; any
    other gives the one rendered text, also where it is empty because the value is missing. Without a target template
    there is no target and no reference. Values go in as they are, blanks and braces included.

    Frame in: RECORDS, with the columns that ``needed_paths(task)`` names.

    Frame out: ROWS of one task, in the order of the records, with ``row.<path>`` for each path that the prompt and
    target templates name and ``metadata.<key>`` for the task's metadata.

    Args:
        task: The task.
        records: Its data, all of it: few-shot examples are drawn from the whole.
        fewshot_records: RECORDS of the few-shot data set, where the task names one of its own.
        on_missing: ``warn``: a field that is in no row renders empty, with one warning; ``error``: it is refused.
        sample_ids: ``auto``: the rows' own ids where every row has one; ``content``: a hash of the content.
        max_metadata_columns: Of the task's metadata keys the first so many become columns.

    Nulls:
        Missing and null values render as nothing. No records are an error.

    Raises:
        DatasetError: No records; two samples of one id; no prompt template and a row without the field ``prompt``;
            with ``on_missing="error"``, a field in no row. Every fault is named.
        OptionError: A few-shot data set is named and not given, or an option has no such value.
        SchemaError: The records lack a column that the templates need.
    """
    check(records, RECORDS)
    _require_words(on_missing=(on_missing, OnMissing), sample_ids=(sample_ids, SampleIds))
    what = f"task {task.id!r}"
    require_columns(records, needed_paths(task), what=what)
    if records.is_empty():
        raise DatasetError(f"{what}: the data set has no rows; check its file, split and preprocessor")
    pool = _own_pool(task, fewshot_records)
    ids, faults = name_samples(records, mode=sample_ids)
    faults = [*prompt_faults(task, records, pool), *faults]
    missing = field_faults(task, records, pool)
    if faults or (missing and on_missing == "error"):
        raise DatasetError.of([*faults, *(missing if on_missing == "error" else [])], what=what)
    warn_missing(missing, what=what)
    warn_of_gaps(records, mode=sample_ids, what=what)
    rendered = _rendered(task, records)
    prompts = rendered["prompt"]
    if task.fewshot.count:
        prompts = with_examples(prompts, task=task, pool=records if pool is None else pool, same_rows=pool is None)
    rows = rendered.with_columns(
        ids.alias("sample_id"),
        prompts.alias("prompt"),
        pl.Series("prompt_hash", blake2b_128(prompts), dtype=pl.String),
        *_constants(task, rendered.height, max_metadata_columns),
    )
    return check(rows.select(*ROWS.names, *(name for name in rows.columns if ROWS.family_of(name))), ROWS)


def render(task: TaskRecord) -> str:
    r"""Write the prompt of a task record: its examples, then its prompt, with one blank line between.

    An example is ``prompt + " " + completion``. The text is the same for every model.
    """
    examples = [f"{example.prompt} {example.completion}" for example in task.few_shot_examples]
    return "\n\n".join([*examples, task.prompt])


def task_rows(
    records: Sequence[TaskRecord], *, max_metadata_columns: int = DEFAULT_LIMITS.metadata_columns
) -> pl.DataFrame:
    """Make ROWS of task records: each is a task with one sample, number 0, whose id is the task's.

    ``target`` is the first of the targets, ``targets`` all of them; the one metric is the headline.

    Frame out: ROWS, sorted by task id, with ``metadata.<key>`` for the first metadata keys in that order.

    Args:
        records: Task records, their ids distinct.
        max_metadata_columns: How many metadata keys become columns.

    Nulls:
        No records give a frame without rows. A key that a record lacks, or that is null, is null in its column.
    """
    ordered = sorted(records, key=lambda task: clean(task.task_id))
    keys = list(islice(_distinct(key for task in ordered for key in task.metadata), max_metadata_columns))
    # in slices, so that a million records are never a million Python lists for each column
    parts = [_task_slice(ordered[i : i + TASKS_AT_ONCE], keys) for i in range(0, len(ordered), TASKS_AT_ONCE)]
    return check(pl.concat(parts, rechunk=True) if parts else empty(ROWS), ROWS)


def _rendered(task: Task, records: pl.DataFrame) -> pl.DataFrame:
    """Render prompt, target and references; keep the record and the named fields."""
    prompt, target = task_templates(task)
    named = [] if task.prompt_template is None else [*prompt.fields]
    named += [] if target is None else target.fields
    no_target = pl.lit(None, dtype=pl.String)
    rendered = records.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("sample_index"),
        text_expr(prompt, choices=task.choices).alias("prompt"),
        (no_target if target is None else text_expr(target, choices=task.choices)).alias("target"),
        _choices(task, records.height),
        *(pl.col(f"field.{path}").alias(f"row.{path}") for path in dict.fromkeys(named)),
    ).with_columns(_references(target).alias("targets"))
    return rendered.drop(name for name in records.columns if name != "row")


def _references(target: Template | None) -> pl.Expr:
    one = pl.concat_list("target")
    if target is None:
        return pl.lit([], dtype=TEXTS)
    if target.single is None or target.single.kind in ("row", "choice_list"):
        return one
    items = pl.col("choices") if target.single.kind == "choices" else pl.col(f"items.{target.single.path}")
    return pl.when(items.is_null()).then(one).otherwise(items)


def _choices(task: Task, height: int) -> pl.Expr | pl.Series:
    if task.choices is None:
        return pl.col("items.choices").alias("choices")
    return _repeated("choices", list(map(clean, task.choices)), TEXTS, height)


def _constants(task: Task, height: int, max_metadata_columns: int) -> list[pl.Series]:
    metrics = [_metric(choice.id, choice.aggregation, choice.higher_is_better) for choice in task.metric_choices]
    texts = {
        "task_id": task.id,
        "category": task.type,
        "extraction": clean(dumps(task.extraction_config)),
        "metadata": clean(dumps(task.metadata)),
        **_metadata_columns(task.metadata, [*task.metadata][:max_metadata_columns]),
    }
    return [
        _repeated("metrics", metrics, METRIC_CHOICES, height),
        *(_repeated(name, text, pl.String, height) for name, text in texts.items()),
    ]


def _task_slice(tasks: Sequence[TaskRecord], keys: Sequence[str]) -> pl.DataFrame:
    # written out one by one: each record has its own examples and its own metadata
    prompts = pl.Series([clean(render(task)) for task in tasks], dtype=pl.String)
    ids = [clean(task.task_id) for task in tasks]
    targets = [list(map(clean, task.targets)) for task in tasks]
    extractions = {
        rule: dumps({"type": "post_process", "rule": rule}) for rule in {task.post_process for task in tasks}
    }
    columns = {
        "task_id": ids,
        "sample_index": [0] * len(tasks),
        "sample_id": ids,
        "category": [task.category for task in tasks],
        "prompt": prompts,
        "prompt_hash": blake2b_128(prompts),
        "target": [found[0] for found in targets],
        "targets": _lists(targets),
        "choices": [None] * len(tasks),
        "metrics": _metrics_of(tasks),
        "extraction": [extractions[task.post_process] for task in tasks],
        "row": [clean(task.row) for task in tasks],
        "metadata": [clean(dumps(task.metadata)) for task in tasks],
    }
    metadata = [_metadata_columns(task.metadata, keys) for task in tasks] if keys else []
    extra = {f"metadata.{clean(key)}": pl.String for key in keys}
    return pl.DataFrame(
        {**columns, **{name: [found[name] for found in metadata] for name in extra}}, schema={**ROWS.dtypes, **extra}
    )


def _lists(filled: Sequence[Sequence[str]]) -> pl.Series:
    # a fifth of the time that polars needs to look into Python lists one by one; none of them is empty
    places = [place for place, texts in enumerate(filled) for _ in texts]
    items = pl.DataFrame({"place": places, "text": [text for texts in filled for text in texts]})
    return items.group_by("place", maintain_order=True).agg("text")["text"]


def _metrics_of(tasks: Sequence[TaskRecord]) -> pl.Series:
    places = {name: place for place, name in enumerate(dict.fromkeys(task.metric_name for task in tasks))}
    each = pl.Series([[_metric(name)] for name in places], dtype=METRIC_CHOICES)
    return each.gather([places[task.metric_name] for task in tasks])


def _metric(name: str, aggregation: str = "mean", higher_is_better: bool = True) -> dict[str, Any]:
    return {"id": name, "aggregation": aggregation, "higher_is_better": higher_is_better}


def _distinct(keys: Iterator[str]) -> Iterator[str]:
    seen: set[str] = set()
    for key in keys:
        if key not in seen:
            seen.add(key)
            yield key


def _metadata_columns(metadata: Mapping[str, Any], keys: Sequence[str]) -> dict[str, str | None]:
    found = {key: metadata.get(key) for key in keys}
    return {f"metadata.{clean(key)}": None if value is None else clean(text_of(value)) for key, value in found.items()}


def _repeated(name: str, value: Any, dtype: DType, height: int) -> pl.Series:
    return pl.Series(name, [value], dtype=dtype).new_from_index(0, height)


def _own_pool(task: Task, fewshot_records: pl.DataFrame | None) -> pl.DataFrame | None:
    """Give the records that examples come from, where these are not the evaluated ones."""
    if not task.fewshot.count or task.fewshot.dataset is None:
        return None
    if fewshot_records is None:
        raise OptionError(f"task {task.id!r}: its few-shot data set was not given; read it and pass fewshot_records")
    check(fewshot_records, RECORDS)
    require_columns(fewshot_records, fewshot_paths(task), what=f"task {task.id!r}, few-shot data set")
    if fewshot_records.is_empty():
        raise DatasetError(
            f"task {task.id!r}: the few-shot data set has no rows; check its file, split and preprocessor"
        )
    return fewshot_records


def _require_words(**options: tuple[str, Any]) -> None:
    for name, (value, words) in options.items():
        if value not in get_args(words):
            raise OptionError(f"{name}={value!r} is not known; use {' or '.join(map(repr, get_args(words)))}")
