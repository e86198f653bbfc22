"""GENERATIONS to ANSWERS: each row's extraction over the replies to it."""

import json
from typing import Any

import polars as pl
import pytest

from evalframe.errors import OptionError, SchemaError
from evalframe.extracting import extract_answers
from evalframe.extractors import extract
from evalframe.frames import empty, example, from_records
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS, ROWS


def make_rows(tasks: dict[str, dict[str, Any]], *, samples: int = 1, metric: str = "exact_match") -> pl.DataFrame:
    like = example(ROWS, 1).row(0, named=True)
    choice = {"id": metric, "aggregation": "mean", "higher_is_better": True}
    records = [
        {**like, "task_id": task_id, "sample_index": i, "extraction": json.dumps(config), "metrics": [choice]}
        for task_id, config in sorted(tasks.items())
        for i in range(samples)
    ]
    return from_records(records, ROWS)


def make_generations(replies: dict[tuple[str, str, int, int], str | None], **fields: Any) -> pl.DataFrame:
    like = example(GENERATIONS, 1).row(0, named=True) | {"error_type": None, "error_message": None} | fields
    records = [
        like | dict(zip(CALL_KEY, key, strict=True)) | {"output_text": reply} for key, reply in sorted(replies.items())
    ]
    return from_records(records, GENERATIONS)


def read(generations: pl.DataFrame, rows: pl.DataFrame) -> list[tuple[str | None, ...]]:
    return extract_answers(generations, rows=rows).drop(CALL_KEY).rows()


def test_every_task_is_read_by_its_own_extraction_and_the_order_stays() -> None:
    rows = make_rows({"letters": {"type": "label_set", "labels": ["A", "B"]}, "sums": {"type": "number"}}, samples=2)
    generations = make_generations({
        (model, task_id, i, repeat): f"({'BA'[i]}) and {i}{repeat}7 {model}"
        for model in ("m/x", "m/y") for task_id in ("letters", "sums") for i in range(2) for repeat in range(2)
    })  # fmt: skip
    answers = extract_answers(generations, rows=rows)
    assert answers.select(CALL_KEY).equals(generations.select(CALL_KEY))
    assert answers.columns == ANSWERS.names
    assert answers["extracted_output"].to_list() == ["B", "B", "A", "A", "7", "17", "107", "117"] * 2
    assert set(answers["extraction_rule"]) == {"first_label", "last_number"}


def test_a_call_without_a_reply_has_no_answer_and_an_empty_reply_is_empty_output() -> None:
    rows = make_rows({"t": {"type": "number"}}, samples=4)
    replies = {("m", "t", i, 0): reply for i, reply in enumerate(["7", None, "", None])}
    generations = make_generations(replies).with_columns(
        status=pl.Series(["completed", "failed", "completed", "completed"]),
        error_type=pl.Series([None, "timeout", None, None], dtype=pl.String),
    )
    assert read(generations, rows) == [
        ("7", "ok", "last_number"),
        (None, None, None),
        (None, "empty_output", "blank"),
        (None, "empty_output", "blank"),  # a reply of tool calls alone
    ]


def test_a_skipped_call_has_no_answer_whatever_stands_in_its_text() -> None:
    rows = make_rows({"t": {"type": "none"}})
    generations = make_generations({("m", "t", 0, 0): "left over"}, status="skipped", error_type="cost_cap")
    assert read(generations, rows) == [(None, None, None)]


def test_code_without_an_extraction_is_taken_out_of_its_fence() -> None:
    reply = "Here:\n```python\nx = 1\n```\nDone"
    generations = make_generations({("m", "t", 0, 0): reply})
    none = {"type": "none"}
    code = extract(pl.Series([reply]), {"type": "post_process", "rule": "extract_code_block"}).rows()
    assert code[0][0] == "x = 1"
    assert read(generations, make_rows({"t": none}, metric="code_exec")) == code
    assert read(generations, make_rows({"t": none}, metric="exact_match"))[0][0] == reply
    # what a task asks for stands
    raw = {"type": "post_process", "rule": "none"}
    assert read(generations, make_rows({"t": raw}, metric="code_exec"))[0][0] == reply
    first = {"type": "take_first", "lines": 1}
    assert read(generations, make_rows({"t": first}, metric="code_exec"))[0][0] == "Here:"


def test_a_row_without_metrics_is_read_as_it_says() -> None:
    rows = make_rows({"t": {"type": "none"}}).with_columns(metrics=pl.lit([], dtype=ROWS.dtypes["metrics"]))
    assert read(make_generations({("m", "t", 0, 0): "a"}), rows) == [("a", "ok", "whole_text")]


def test_samples_of_one_task_may_have_extractions_of_their_own() -> None:
    rows = make_rows({"t": {"type": "number"}}, samples=2).with_columns(
        extraction=pl.Series(['{"type": "number"}', '{"type": "none"}'])
    )
    generations = make_generations({("m", "t", i, 0): "it is 7" for i in range(2)})
    assert [answer for answer, _, _ in read(generations, rows)] == ["7", "it is 7"]


def test_no_calls_give_no_answers() -> None:
    assert extract_answers(empty(GENERATIONS), rows=empty(ROWS)).equals(empty(ANSWERS))


def test_a_call_of_a_sample_that_is_in_no_row_is_named() -> None:
    with pytest.raises(SchemaError, match=r"no sample 0 of task 'u'.*pass the rows that"):
        extract_answers(make_generations({("m", "u", 0, 0): "a"}), rows=make_rows({"t": {"type": "none"}}))


def test_frames_are_held_to_their_schemas() -> None:
    rows = make_rows({"t": {"type": "none"}})
    with pytest.raises(SchemaError, match="this is no generations frame"):
        extract_answers(rows, rows=rows)
    with pytest.raises(SchemaError, match="this is no rows frame"):
        extract_answers(empty(GENERATIONS), rows=empty(GENERATIONS))


def test_a_configuration_that_can_not_be_used_raises() -> None:
    rows = make_rows({"t": {"type": "regex", "pattern": "("}})
    with pytest.raises(OptionError, match="does not compile"):
        extract_answers(make_generations({("m", "t", 0, 0): "a"}), rows=rows)
