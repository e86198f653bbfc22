"""Rows, models and journals for the tests of the engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalframe.adapters import Generation, TaskSpec
from evalframe.frames import check
from evalframe.generate.journal import Journal
from evalframe.schemas import ROWS

WHEN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
METRIC = {"id": "exact_match", "aggregation": "mean", "higher_is_better": True}


def make_rows(tasks: dict[str, int] | None = None, **columns: Any) -> pl.DataFrame:
    """Rows of a suite: task id to number of samples; ``columns`` replaces the value of a column in every row."""
    records = []
    for task_id, n in sorted((tasks or {"a": 3, "b": 2}).items()):
        for index in range(n):
            prompt = f"{task_id} {index}?"
            record = {
                "task_id": task_id, "sample_index": index, "sample_id": f"{task_id}-{index}", "category": "qa",
                "prompt": prompt, "prompt_hash": hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest(),
                "target": str(index), "targets": [str(index)], "choices": None, "metrics": [METRIC],
                "extraction": '{"type":"none"}', "row": json.dumps({"question": prompt}), "metadata": "{}",
            }  # fmt: skip
            records.append(record | columns)
    return check(pl.DataFrame(records, schema=ROWS.dtypes), ROWS)


class Model:
    """A model that is a function of prompt and task."""

    def __init__(self, answer: Callable[[str, TaskSpec], Any] | None = None, *, model_id: str = "m") -> None:
        self.model_id = model_id
        self.answer = answer or (lambda prompt, task: Generation(f"{prompt} {task.repeat}"))
        self.seen: list[TaskSpec] = []

    def generate(self, prompt: str, task: TaskSpec) -> Any:
        self.seen.append(task)
        return self.answer(prompt, task)


@pytest.fixture
def rows() -> pl.DataFrame:
    return make_rows()


@pytest.fixture(name="make_rows")
def _make_rows() -> Callable[..., pl.DataFrame]:
    return make_rows


@pytest.fixture(name="Model")
def _model() -> type[Model]:
    return Model


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as opened:
        yield opened


@pytest.fixture
def new_journal(tmp_path: Path) -> Iterator[Callable[[], Journal]]:
    """Make several journals in one test."""
    opened: list[Journal] = []

    def make() -> Journal:
        opened.append(Journal.open(tmp_path / f"journal_{len(opened)}.sqlite"))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
