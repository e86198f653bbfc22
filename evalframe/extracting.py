"""GENERATIONS to ANSWERS: each task's extraction over the replies to it, whole columns at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.errors import OptionError, SchemaError
from evalframe.extractors import EXTRACTED, extract_runs
from evalframe.extractors import extract as extract_texts
from evalframe.frames import check
from evalframe.jsontext import clean
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.extraction import validate_extraction
from evalframe.registry import suggestion
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


def extract(
    frame: pl.DataFrame | pl.Series | Sequence[str | None],
    config: str | Mapping[str, Any],
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Try an extraction: read the answer out of each reply, and say which rule took it.

    Args:
        frame: Any frame with a column ``output_text`` (``run.generations``, ``run.samples``, one of your own); or the
            texts alone, a Series or a list. What it has of ``extracted_output``, ``extraction_status`` and
            ``extraction_rule`` is replaced.
        config: A type (``"number"``) or a configuration as in a manifest, as ``evalframe.regex(…)`` gives it.
        limits: The table of numbers: time and length of regular expressions.

    Returns:
        The frame, its rows and their order as they were, with ``extracted_output``, ``extraction_status`` and
        ``extraction_rule`` at the end.

    Nulls:
        A null text has null in all three. A blank one has no answer, and is ``empty_output``.

    Raises:
        OptionError: The configuration is wrong (each fault is named, a bad pattern with its position), or there is
            no text column.

    >>> extract(["It is 4, not 5.", None], "number").rows()
    [('It is 4, not 5.', '5', 'ok', 'last_number'), (None, None, None, None)]
    """
    replies = _replies(frame)
    settled, faults = validate_extraction({"type": config} if isinstance(config, str) else config, limits=limits)
    if faults:
        raise OptionError.of(faults, what="extract")
    read = extract_texts(replies["output_text"].cast(pl.String), settled, limits=limits)
    return pl.concat([replies.drop(EXTRACTED, strict=False), read], how="horizontal")


def _replies(frame: Any) -> pl.DataFrame:
    """Give what was handed in as a frame with ``output_text``.

    Raises:
        OptionError: It has none, or no text there.
    """
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect(engine="in-memory")
    elif isinstance(frame, pl.Series):
        frame = frame.alias("output_text").to_frame()
    elif isinstance(frame, Sequence) and not isinstance(frame, str):
        if not all(text is None or isinstance(text, str) for text in frame):
            raise OptionError("extract: the list holds something that is no text; give texts, and None for none")
        texts = [None if text is None else clean(text) for text in frame]
        frame = pl.DataFrame({"output_text": texts}, schema={"output_text": pl.String})
    if not isinstance(frame, pl.DataFrame):
        of_pandas = type(frame).__module__.startswith("pandas")
        raise OptionError(
            f"extract: {type(frame).__name__} is no frame; give a polars frame with output_text, a Series, or a list "
            f"of texts{'; polars.from_pandas(…) makes one' if of_pandas else ''}"
        )
    if "output_text" not in frame.columns:
        near = suggestion("output_text", frame.columns)
        raise OptionError(f"extract: the frame has no column output_text; rename one to it ({near})")
    if (dtype := frame["output_text"].dtype) not in (pl.String, pl.Null, pl.Categorical, pl.Enum):
        raise OptionError(f"extract: output_text is {dtype}, not text; cast it: .cast(pl.String)")
    return frame


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
