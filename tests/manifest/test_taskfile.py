"""Reading task files: records as they were written, one fault a bad line, ids unique over all files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.errors import TaskFault, TaskFileError
from evalframe.jsontext import Number
from evalframe.manifest.taskfile import (
    FewShotExample,
    TaskRecord,
    iter_task_file,
    iter_task_files,
    parse_records,
    validate_file,
    validate_files,
)

Write = Callable[..., Path]
TASK: dict[str, Any] = {
    "task_id": "t1", "category": "arithmetic", "prompt": "1 + 1 =", "targets": ["2"], "metric_name": "exact_match",
    "post_process": "none",
}  # fmt: skip


def line(**changes: Any) -> str:
    return json.dumps({**TASK, **changes}, ensure_ascii=False)


def test_a_record_has_every_field(write_jsonl: Write) -> None:
    examples = [{"prompt": "2 + 2 =", "completion": "4"}, {"completion": "6", "prompt": "3 + 3 ="}]
    path = write_jsonl([line(targets=["2", "zwei"], few_shot_examples=examples, metadata={"difficulty": "easy"})])
    (record,), faults = validate_file(path)
    assert faults == []
    assert record == TaskRecord(
        task_id="t1",
        category="arithmetic",
        prompt="1 + 1 =",
        targets=("2", "zwei"),
        metric_name="exact_match",
        post_process="none",
        few_shot_examples=(FewShotExample("2 + 2 =", "4"), FewShotExample("3 + 3 =", "6")),
        metadata={"difficulty": "easy"},
        row=record.row,
    )
    assert json.loads(record.row) == json.loads(path.read_text())


def test_numbers_stay_as_written_in_row_and_become_plain_in_metadata(write_jsonl: Write) -> None:
    metadata = '{"a": 2.50, "b": 1e5, "c": -12345678901234567890123, "d": [1, {"e": 1E-2}], "f": true, "g": null}'
    text = line()[:-1] + f', "metadata": {metadata}}}'
    (record,), _ = validate_file(write_jsonl([text]))
    assert record.metadata == {
        "a": 2.5, "b": 100000.0, "c": -12345678901234567890123, "d": [1, {"e": 0.01}], "f": True, "g": None,
    }  # fmt: skip
    assert [type(record.metadata[key]) for key in "abc"] == [float, float, int]
    assert record.row.endswith(
        '"metadata":{"a":2.50,"b":1e5,"c":-12345678901234567890123,"d":[1,{"e":1E-2}],"f":true,"g":null}}'
    )


def test_a_number_that_python_can_not_hold_stays_its_text(write_jsonl: Write) -> None:
    digits = "9" * 5000
    (record,), _ = validate_file(write_jsonl([line()[:-1] + f', "metadata": {{"a": 1e999, "b": {digits}}}}}']))
    assert record.metadata == {"a": "1e999", "b": digits}
    assert all(type(value) is Number for value in record.metadata.values())


def test_a_lone_surrogate_becomes_the_replacement_character(write_jsonl: Write) -> None:
    text = json.dumps(
        {**TASK, "task_id": "t\ud800", "prompt": "\ud83d?", "metadata": {"k\udfff": ["\ud83d\ude00\ud83d"]}}
    )
    (record,), _ = validate_file(write_jsonl([text]))
    assert (record.task_id, record.prompt) == ("t\ufffd", "\ufffd?")
    assert record.metadata == {"k\ufffd": ["😀\ufffd"]}
    assert "\ufffd?" in record.row
    record.row.encode()
    _, (fault,) = parse_records([{**TASK, "task_id": "t\ud800"}, {**TASK, "task_id": "t\ud801"}])
    assert fault.rule == "duplicate_task_id"


def test_every_line_is_judged_and_the_reading_goes_on(write_jsonl: Write) -> None:
    lines = ["{", line(), "", line(task_id="t2", prompt=5), "[]", line(task_id="t3"), '{"task_id": "t4"}', "nonsense"]
    path = write_jsonl(lines)
    records, faults = validate_file(path)
    assert [record.task_id for record in records] == ["t1", "t3"]
    assert [(fault.line_number, fault.task_id, fault.rule) for fault in faults] == [
        (1, "", "bad_json"), (4, "t2", "bad_type"), (5, "", "bad_json"), (7, "t4", "missing_required"),
        (8, "", "bad_json"),
    ]  # fmt: skip
    assert {fault.file for fault in faults} == {str(path)}


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (line()[:-1] + ', "metadata": {"a": NaN}}', "NaN is not JSON"),
        (line()[:-1] + ', "prompt": "again"}', "'prompt' stands twice"),
        (line()[:-1] + ', "metadata": {"a": 1, "a": 1}}', "'a' stands twice"),
        (line() + line(), f"column {len(line()) + 1}"),
        (line()[:-1], f"column {len(line())}"),
        (line().replace('"', "'"), "double quotes"),
        ("[" + line() + "]", "no list around them"),
        ("5", "not the number 5"),
        ('"a"', "not the string 'a'"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_json_says_why_and_where(write_jsonl: Write, text: str, detail: str) -> None:
    records, (fault,) = validate_file(write_jsonl([text]))
    assert (records, fault.rule, fault.field) == ([], "bad_json", "")
    assert detail in fault.detail


def test_metadata_of_a_thousand_levels_is_a_fault_or_a_record(write_jsonl: Write) -> None:
    for depth in (100, 400, 600, 900, 3000):
        text = line()[:-1] + ', "metadata": {"a": ' + '{"a": ' * depth + "1" + "}" * depth + "}}"
        records, faults = validate_file(write_jsonl([text]))
        assert len(records) + len(faults) == 1
        assert all("nested too deeply" in fault.detail for fault in faults)
        assert records or depth > 100


def test_a_duplicate_id_is_the_later_line_and_names_the_first(write_jsonl: Write) -> None:
    path = write_jsonl([line(), line(task_id="t2"), line(prompt="2 + 2 ="), line()])
    records, faults = validate_file(path)
    assert [record.task_id for record in records] == ["t1", "t2"]
    assert [(fault.line_number, fault.task_id, fault.rule, fault.field) for fault in faults] == [
        (3, "t1", "duplicate_task_id", "task_id"),
        (4, "t1", "duplicate_task_id", "task_id"),
    ]
    assert all(f"{path}:1" in fault.detail for fault in faults)


def test_an_id_belongs_to_its_first_line_even_where_that_is_bad(write_jsonl: Write) -> None:
    path = write_jsonl([line(targets=[]), line(), line(targets=[])])
    assert [fault.rule for fault in validate_file(path)[1]] == ["bad_value", "duplicate_task_id", "bad_value"]


def test_ids_are_unique_over_all_files(write_jsonl: Write) -> None:
    first, second = write_jsonl([line(), line(task_id="t2")], "a.jsonl"), write_jsonl([line(task_id="t2")], "b.jsonl")
    records, (fault,) = validate_files([first, second])
    assert [record.task_id for record in records] == ["t1", "t2"]
    assert (fault.file, fault.line_number, fault.rule) == (str(second), 1, "duplicate_task_id")
    assert f"{first}:2" in fault.detail
    assert validate_file(first)[1] == validate_file(second)[1] == []
    assert [type(outcome) for outcome in iter_task_files([first, second])] == [TaskRecord, TaskRecord, TaskFault]


def test_every_unreadable_file_is_named_once(write_jsonl: Write, tmp_path: Path) -> None:
    with pytest.raises(TaskFileError) as caught:
        validate_files([tmp_path / "one.jsonl", write_jsonl([line()]), tmp_path])
    assert str(tmp_path / "one.jsonl") in str(caught.value)
    assert "is a folder" in str(caught.value)


def test_reading_is_a_stream(write_jsonl: Write) -> None:
    path = write_jsonl([line(), "{", line(task_id="t2")])
    stream = iter_task_file(path)
    assert isinstance(next(stream), TaskRecord)
    assert isinstance(next(stream), TaskFault)
    assert isinstance(next(stream), TaskRecord)
    assert next(stream, None) is None


def test_records_from_memory_follow_the_same_rules() -> None:
    good = {**TASK, "targets": ("2",), "metadata": {"n": 1, "x": 2.5, "list": (1, 2)}}
    records, faults = parse_records([good, {**TASK, "prompt": 5}, {**TASK, "task_id": "t2", "prompt": ""}])
    (record,) = records
    assert (record.targets, record.metadata) == (("2",), {"n": 1, "x": 2.5, "list": [1, 2]})
    assert record.row.endswith('"metadata":{"n":1,"x":2.5,"list":[1,2]}}')
    assert [(fault.file, fault.line_number, fault.rule) for fault in faults] == [
        ("", 0, "bad_type"),
        ("", 0, "bad_value"),
    ]
    assert [fault.detail.endswith(f"(records[{index}])") for index, fault in enumerate(faults, start=1)] == [True, True]
    _, (fault,) = parse_records([TASK, TASK])
    assert "stands already at records[0]" in fault.detail


def test_faults_are_a_frame(write_jsonl: Write) -> None:
    _, faults = validate_file(
        write_jsonl(["{", line(prompt=5), json.dumps({**TASK, "prompt": "\ud83d ", "task_id": "\ud83d"})])
    )
    frame = TaskFileError.of(faults, what="tasks.jsonl").faults
    assert frame.columns == ["file", "line_number", "task_id", "rule", "field", "detail"]
    assert frame["rule"].to_list() == ["bad_json", "bad_type", "bad_value"]


TEXT = st.text(min_size=1, max_size=20)


@given(
    prompt=TEXT.filter(lambda text: not text[-1].isspace() and ":" not in text),
    targets=st.lists(TEXT, min_size=1, max_size=3),
    metadata=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT), max_size=3),
)
def test_a_legal_task_comes_back_whole(prompt: str, targets: list[str], metadata: dict[str, Any]) -> None:
    source = {**TASK, "prompt": prompt, "targets": targets, "metadata": metadata}
    (record,), _ = parse_records([source])
    assert (record.prompt, list(record.targets), record.metadata) == (prompt, targets, metadata)
    assert json.loads(record.row) == source
