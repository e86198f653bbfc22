"""Records and tasks for the tests of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalframe.data.local import read_records
from evalframe.manifest.suite import Task, parse_suite
from evalframe.prompts.assemble import fewshot_paths, needed_paths, suite_rows


@pytest.fixture
def make_task():
    def make(prompt: str | None = "{{q}}", target: str | None = "{{a}}", **fields: Any) -> Task:
        given = {"id": "t", "type": "qa", "dataset": {"file_id": "f"}, "metrics": [{"id": "exact_match"}], **fields}
        templates = {"prompt_template": prompt, "target_template": target}
        manifest = {"tasks": [given | {key: text for key, text in templates.items() if text is not None}]}
        return parse_suite(manifest, metric_names={"exact_match", "f1"}).tasks[0]

    return make


@pytest.fixture
def read_for(write_jsonl):
    """Write records as JSONL and read them with what a task needs."""

    def read(task: Task, records: list[Any], *, fewshot: bool = False, name: str = "rows.jsonl") -> pl.DataFrame:
        path: Path = write_jsonl(records, name)
        paths = fewshot_paths(task) if fewshot else needed_paths(task)
        return read_records(path, fields=paths.fields, items=paths.items)

    return read


@pytest.fixture
def rows_of(read_for):
    """Records straight to ROWS."""

    def rows(task: Task, records: list[Any], **options: Any) -> pl.DataFrame:
        return suite_rows(task, read_for(task, records), **options)

    return rows
