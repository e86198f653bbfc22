"""ROWS of a task file: each record a task with one sample."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from evalframe.frames import check, empty
from evalframe.manifest.taskfile import parse_records
from evalframe.prompts.assemble import TASKS_AT_ONCE, render, task_rows
from evalframe.schemas import ROWS


def make(**fields: Any) -> Any:
    given = {"task_id": "t", "category": "arithmetic", "prompt": "Compute 17 + 24.", "targets": ["41"],
             "metric_name": "exact_match", "post_process": "strip_whitespace", **fields}  # fmt: skip
    records, faults = parse_records([given])
    assert not faults
    return records[0]


def test_rendering() -> None:
    assert render(make()) == "Compute 17 + 24."
    examples = [{"prompt": "2 + 2 =", "completion": "4"}, {"prompt": "", "completion": " 5"}]
    assert render(make(few_shot_examples=examples)) == "2 + 2 = 4\n\n  5\n\nCompute 17 + 24."
    assert render(make(few_shot_examples=[])) == "Compute 17 + 24."


def test_a_record_in_full() -> None:
    examples = [{"prompt": "2 + 2 =", "completion": "4"}]
    record = make(targets=["41", "forty-one"], few_shot_examples=examples, metadata={"level": 2.5, "tags": ["é"]})
    prompt = "2 + 2 = 4\n\nCompute 17 + 24."
    assert task_rows([record]).row(0, named=True) == {
        "task_id": "t",
        "sample_index": 0,
        "sample_id": "t",
        "category": "arithmetic",
        "prompt": prompt,
        "prompt_hash": hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest(),
        "target": "41",
        "targets": ["41", "forty-one"],
        "choices": None,
        "metrics": [{"id": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "extraction": '{"type":"post_process","rule":"strip_whitespace"}',
        "row": record.row,
        "metadata": '{"level":2.5,"tags":["é"]}',
        "metadata.level": "2.5",
        "metadata.tags": '["é"]',
    }


def test_sorted_by_task_id_whatever_the_order() -> None:
    records = [make(task_id=name) for name in ("b", "ä", "a/1", "B", "\U0001f600", "\uffee")]
    rows = task_rows(records)
    assert rows["task_id"].to_list() == ["B", "a/1", "b", "ä", "\uffee", "\U0001f600"]
    assert rows.equals(task_rows(records[::-1]))


def test_metadata_that_differs_from_record_to_record() -> None:
    records = [
        make(task_id="a", metadata={"x": 1}),
        make(task_id="b"),
        make(task_id="c", metadata={"x": "1", "y": None}),
    ]
    rows = task_rows(records)
    assert rows["metadata.x"].to_list() == ["1", None, "1"]
    assert rows["metadata.y"].to_list() == [None, None, None]
    assert rows["metadata"].to_list() == ['{"x":1}', "{}", '{"x":"1","y":null}']
    bounded = task_rows([make(metadata={f"k{i}": i for i in range(99)})])
    assert len([name for name in bounded.columns if name.startswith("metadata.")]) == 64
    assert "metadata.k63" in bounded.columns


def test_no_records() -> None:
    assert task_rows([]).equals(empty(ROWS))


def test_more_records_than_one_slice() -> None:
    one = make(metadata={"x": 1})
    kind = type(one)
    names = {slot: getattr(one, slot) for slot in one.__slots__}
    records = [kind(**{**names, "task_id": f"t{i:06}"}) for i in range(TASKS_AT_ONCE + 3)]
    rows = check(task_rows(records), ROWS)
    assert rows.height == TASKS_AT_ONCE + 3
    assert rows["task_id"][-1] == f"t{TASKS_AT_ONCE + 2:06}"


@pytest.mark.parametrize("rule", ["none", "lower", "extract_first_line"])
def test_the_rule_is_the_extraction(rule: str) -> None:
    assert task_rows([make(post_process=rule)])["extraction"][0] == f'{{"type":"post_process","rule":"{rule}"}}'
