"""The plan of a run, and what an adapter is told of a call."""

from __future__ import annotations

import json

import pytest

from evalframe.errors import OptionError
from evalframe.generate.calls import plan, repeats_of, specs, without
from evalframe.schemas import CALL_KEY, GENERATIONS


def test_repeats_by_number_task_and_category(make_rows) -> None:
    rows = make_rows({"a": 2, "b": 1, "qa": 1})
    assert repeats_of(rows, 3).to_list() == [3, 3, 3, 3]
    assert repeats_of(rows, {}).to_list() == [1, 1, 1, 1]
    assert repeats_of(rows, {"a": 2}).to_list() == [2, 2, 1, 1]
    assert repeats_of(rows, {"qa": 4, "b": 2}).to_list() == [4, 4, 2, 4]
    assert repeats_of(rows.clear(), 2).to_list() == []


def test_unknown_names_of_repeats_are_all_told(make_rows) -> None:
    with pytest.raises(OptionError) as caught:
        repeats_of(make_rows({"arith": 1}), {"arit": 2, "zzz": 2, "arith": 0})
    assert len(caught.value.fault_records) == 3
    assert "did you mean 'arith'" in str(caught.value)


def test_the_plan_is_in_row_order_with_repeats_together(make_rows) -> None:
    rows = make_rows({"a": 2, "b": 1})
    assert plan(rows, repeats={"a": 2}).rows() == [
        ("a", 0, 0, 0), ("a", 0, 1, 0), ("a", 1, 0, 1), ("a", 1, 1, 1), ("b", 0, 0, 2),
    ]  # fmt: skip
    assert plan(rows.clear(), repeats=2).is_empty()


def test_what_is_done_is_left_out_for_its_model_alone(make_rows) -> None:
    import polars as pl

    planned = plan(make_rows({"a": 3}), repeats=1)
    done = pl.DataFrame(
        [("m", "a", 1, 0), ("n", "a", 0, 0)], schema={n: GENERATIONS.dtypes[n] for n in CALL_KEY}, orient="row"
    )
    assert without(planned, done, model_id="m")["sample_index"].to_list() == [0, 2]
    assert without(planned, done, model_id="o").equals(planned)


def test_what_is_told_of_a_task_of_a_suite(make_rows) -> None:
    rows = make_rows(
        {"a": 1},
        choices=["x", "y"],
        metadata='{"k":1.5,"n":[1]}',
        metrics=[
            {"id": "kept", "aggregation": "none", "higher_is_better": True},
            {"id": "f1", "aggregation": "mean", "higher_is_better": True},
        ],
        extraction='{"type":"regex","pattern":"x"}',
        row='{"few_shot_examples":[{"prompt":"p","completion":"c"}]}',
    )
    (task,) = specs(rows, plan(rows, repeats=1))
    assert (task.task_id, task.sample_index, task.sample_id, task.repeat) == ("a", 0, "a-0", 0)
    assert (task.prompt, task.category, task.targets, task.choices) == ("a 0?", "qa", ("0",), ("x", "y"))
    assert (task.metric_name, task.post_process, task.few_shot_examples) == ("f1", "none", ())
    assert dict(task.metadata) == {"k": 1.5, "n": [1]}
    assert task.row == rows["row"][0]
    assert task.deadline is None


def test_what_is_told_of_a_record_of_a_task_file(make_rows) -> None:
    record = {"task_id": "a", "few_shot_examples": [{"prompt": "p", "completion": "c"}]}
    rows = make_rows({"a": 1}, extraction='{"type":"post_process","rule":"lower"}', row=json.dumps(record))
    (task,) = specs(rows, plan(rows, repeats=1))
    assert task.post_process == "lower"
    assert [dict(example) for example in task.few_shot_examples] == record["few_shot_examples"]


def test_a_task_without_targets_choices_and_headline(make_rows) -> None:
    rows = make_rows({"a": 1}, targets=[], choices=None, metrics=[])
    (task,) = specs(rows, plan(rows, repeats=1))
    assert (task.targets, task.choices, task.metric_name) == ((), (), "")


def test_an_integer_too_long_for_python_stays_text(make_rows) -> None:
    rows = make_rows({"a": 1}, metadata='{"n":' + "9" * 5_000 + "}")
    (task,) = specs(rows, plan(rows, repeats=1))
    assert task.metadata["n"] == "9" * 5_000


def test_many_calls_come_in_order(make_rows) -> None:
    rows = make_rows({"a": 150, "b": 20})
    planned = plan(rows, repeats=2)
    told = [(task.task_id, task.sample_index, task.repeat) for task in specs(rows, planned)]
    assert told == planned.select("task_id", "sample_index", "repeat").rows()
