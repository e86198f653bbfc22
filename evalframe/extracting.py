"""GENERATIONS to ANSWERS: each task's extraction over the replies to it, whole columns at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.errors import SchemaError
from evalframe.extractors import EXTRACTED, extract_runs
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
    samples = rows.select("task_id", "sample_index", "extraction", has_code=has_code.fill_null(False))
    configs = samples.select("extraction", "has_code").unique(maintain_order=True).with_row_index("config")
    numbered = samples.join(configs, on=["extraction", "has_code"], how="left", maintain_order="left")
    calls = generations.select("task_id", "sample_index").join(
        numbered.select("task_id", "sample_index", "config"),
        on=["task_id", "sample_index"], how="left", maintain_order="left",
    )  # fmt: skip
    if calls["config"].null_count():
        task_id, sample_index = calls.filter(pl.col("config").is_null()).select("task_id", "sample_index").row(0)
        raise SchemaError(
            f"rows has no sample {sample_index} of task {task_id!r}, which was called; "
            "pass the rows that the generations were made from"
        )
    config_of = calls["config"].to_numpy()
    del calls, samples, numbered
    completed = pl.when(pl.col("status") == "completed").then(pl.col("output_text").fill_null(""))
    read = _by_config(generations.select(completed).to_series(), config_of, configs, limits)
    return check(pl.concat([generations.select(CALL_KEY), read], how="horizontal"), ANSWERS)


def _by_config(texts: pl.Series, config_of: NDArray[np.uint32], configs: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Read each text by the extraction that it has the number of: each extraction is asked once."""
    order = np.argsort(config_of, kind="stable")
    counts = np.bincount(config_of, minlength=configs.height).tolist()
    asked = zip(configs.select("extraction", "has_code").rows(), counts, strict=True)
    runs = [(_config(*pair), count) for pair, count in asked if count]
    read = extract_runs(texts.gather(order), runs, limits=limits) if runs else pl.DataFrame(schema=EXTRACTED)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return read[place]


def _config(extraction: str, has_code: bool) -> dict[str, Any]:
    """Give an extraction; plain JSON numbers, as the extractors take them."""
    config: dict[str, Any] = json.loads(extraction)
    return dict(CODE_EXTRACTION) if has_code and config.get("type") == "none" else config
