"""What a grader is called with: the sample, the dataset's row, and a digest by which its answer is found again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from evalframe.manifest.records import Grader
from evalframe.schemas import CALL_KEY

CallKey = tuple[str, str, int, int]  # model, task, sample, repeat

OF_ROWS = ("sample_id", "prompt", "target", "targets", "choices", "row", "metadata")
OF_CALLS = ("output_text", "reasoning", "tool_calls", "finish_reason")
_AT_ONCE = 1_000


def graded_samples(
    generations: pl.DataFrame, *, answers: pl.DataFrame, rows: pl.DataFrame
) -> Iterator[tuple[CallKey, dict[str, Any], dict[str, Any]]]:
    """Give ``sample`` and ``item`` of each completed call, in order; a failed generation is never handed to a grader.

    ``item`` is the row's fields with ``target``, which is the rendered one, and ``row``, which is always the whole row.
    Numbers are Python's: ``2.50`` is 2.5; what no float can hold (``1e400``) stays text, as written.

    A loop over rows, because a grader is called for one sample at a time.

    Frame in:
        GENERATIONS, ANSWERS, ROWS of one task.
    """
    completed = generations.filter(pl.col("status") == "completed").select(*CALL_KEY, *OF_CALLS)
    joined = completed.join(answers.select(*CALL_KEY, "extracted_output"), on=CALL_KEY, how="left",
                            maintain_order="left").join(
        rows.select("task_id", "sample_index", *OF_ROWS), on=["task_id", "sample_index"], how="left",
        maintain_order="left",
    )  # fmt: skip
    for part in joined.iter_slices(_AT_ONCE):
        for call in part.iter_rows(named=True):
            record = _plain(call["row"])
            sample = {
                "task_id": call["task_id"],
                "model": call["model_id"],
                **{name: call[name] for name in ("sample_index", "sample_id", "repeat", "prompt", "target", "targets")},
                **{name: call[name] for name in ("choices", "output_text", "extracted_output", "reasoning")},
                "tool_calls": None if call["tool_calls"] is None else _plain(call["tool_calls"]),
                "finish_reason": call["finish_reason"],
                "metadata": _plain(call["metadata"]),
            }
            key = tuple(call[name] for name in CALL_KEY)
            yield key, sample, {**record, "target": call["target"], "row": record}


def digest_of(grader: Grader, arguments: tuple[Any, ...], *, models: Mapping[str, str | None]) -> str:
    """Hash all that decides what a grader says: its text, how it is called, and with what.

    Args:
        grader: With its ``source``.
        arguments: What the function is called with.
        models: What ``ctx`` reaches, where the grader may use it.
    """
    has_models = grader.model_access != "none"
    of_grader = [grader.source, grader.execution, grader.max_model_calls if has_models else 0]
    text = json.dumps([of_grader, dict(models) if has_models else {}, arguments], separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def seed_of(task_id: str, sample_id: str) -> int:
    """Give the seed of ``random`` for a sample of a task: the same for every model and repeat."""
    return int.from_bytes(hashlib.blake2b(f"{task_id}\0{sample_id}".encode(), digest_size=4).digest())


def _plain(text: str) -> Any:
    return json.loads(text, parse_float=_number, parse_int=_whole)


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _whole(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:  # more digits than Python reads
        return text
