"""ROWS whose prompts stay, with what comes after the reply made anew: targets, choices, extraction, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from evalframe.frames import check
from evalframe.limits import DEFAULT_LIMITS
from evalframe.prompts.assemble import OnMissing, suite_rows
from evalframe.schemas import ROWS

if TYPE_CHECKING:
    from evalframe.manifest.suite import Task

KEPT = ("task_id", "sample_index", "sample_id", "prompt", "prompt_hash")


def with_definitions(
    rows: pl.DataFrame,
    *,
    task: Task,
    records: pl.DataFrame,
    on_missing: OnMissing = "warn",
    max_metadata_columns: int = DEFAULT_LIMITS.metadata_columns,
) -> pl.DataFrame:
    """Apply a task's definitions to rows that were rendered before.

    Prompts, few-shot examples included, and sample ids stay as they are.

    Frame in:
        ROWS of one task; RECORDS of the same samples in the same order, with what ``needed_paths(task)`` names.

    Frame out:
        ROWS of the same samples, as ``suite_rows`` makes them of the task, but for what stays.

    Args:
        rows: The samples.
        task: The task, of the same id.
        records: What the rows hold, as the data readers give it.
        on_missing: As for ``suite_rows``.
        max_metadata_columns: As for ``suite_rows``.

    Raises:
        DatasetError: As ``suite_rows``.
    """
    check(rows, ROWS)
    bare = task.model_copy(update={"fewshot": type(task.fewshot)()})
    made = suite_rows(
        bare, records, on_missing=on_missing, sample_ids="content", max_metadata_columns=max_metadata_columns
    )
    return check(made.with_columns(rows[name] for name in KEPT), ROWS)
