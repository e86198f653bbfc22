"""GENERATIONS to ANSWERS: each task's extraction over the replies to it, whole columns at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from evalframe.errors import SchemaError
from evalframe.extractors import EXTRACTED, extract
from evalframe.frames import check
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS, ROWS

CODE_METRIC = "code_exec"
# what a code metric runs where the task has the extraction "none" (suite.md)
CODE_EXTRACTION: Mapping[str, Any] = {"type": "post_process", "rule": "extract_code_block"}


def extract_answers(generations: pl.DataFrame, *, rows: pl.DataFrame, limits: Limits = DEFAULT_LIMITS) -> pl.DataFrame:
    """Read the answer out of every reply, by the extraction of its row.

    A row with the metric ``code_exec`` and extraction ``none`` is read by the rule ``extract_code_block``.

    Frame in: GENERATIONS, ROWS (every sample that was called).
    Frame out: ANSWERS, in the order of the generations.

    Nulls:
        A failed or skipped call has no answer, status or rule. A completed call with a null or blank reply is
        ``empty_output``.

    Raises:
        SchemaError: A frame is not what it is called, or a call is of a sample that is in no row.
        OptionError: A row has an extraction that can not be used.
    """
    check(generations, GENERATIONS)
    check(rows, ROWS)
    has_code = pl.col("metrics").list.eval(pl.element().struct.field("id") == CODE_METRIC).list.any()
    configs = rows.select("task_id", "sample_index", "extraction", has_code=has_code.fill_null(False))
    completed = pl.when(pl.col("status") == "completed").then(pl.col("output_text").fill_null(""))
    calls = generations.select(*CALL_KEY, text=completed).join(
        configs, on=["task_id", "sample_index"], how="left", maintain_order="left"
    )
    if calls["extraction"].null_count():
        task_id, sample_index = calls.filter(pl.col("extraction").is_null()).select("task_id", "sample_index").row(0)
        raise SchemaError(
            f"rows has no sample {sample_index} of task {task_id!r}, which was called; "
            "pass the rows that the generations were made from"
        )
    parts = calls.with_row_index("place").partition_by("extraction", "has_code", maintain_order=True)
    read = [
        pl.concat([part.select("place"), extract(part["text"], _config(part), limits=limits)], how="horizontal")
        for part in parts
    ]
    nothing = pl.DataFrame(schema={"place": pl.UInt32, **EXTRACTED})
    in_order = pl.concat([nothing, *read]).sort("place").drop("place")
    return check(pl.concat([generations.select(CALL_KEY), in_order], how="horizontal"), ANSWERS)


def _config(part: pl.DataFrame) -> dict[str, Any]:
    """Give the one extraction of some calls; plain JSON numbers, as the extractors take them."""
    config: dict[str, Any] = json.loads(part["extraction"][0])
    if part["has_code"][0] and config.get("type") == "none":
        return dict(CODE_EXTRACTION)
    return config
