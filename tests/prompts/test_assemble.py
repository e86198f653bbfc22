"""ROWS of a suite's task: every column."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from evalframe.errors import DatasetError, OptionError, SchemaError
from evalframe.frames import check
from evalframe.prompts.assemble import needed_paths, suite_rows
from evalframe.prompts.templates import MissingFieldWarning
from evalframe.schemas import ROWS


def blake(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def test_a_row_in_full(make_task, rows_of) -> None:
    task = make_task(
        prompt="Q: {{q.text}}",
        target="{{a}}",
        choices=["yes", "no"],
        metrics=[{"id": "f1", "aggregation": "none"}, {"id": "exact_match", "higher_is_better": False}],
        output_extraction={"type": "take_first", "lines": 1},
        metadata={"source": "x", "level": 3, "nothing": None},
    )
    rows = rows_of(task, ['{"q": {"text": "é?"}, "a": 1.50}', '{"q": null}'])
    assert check(rows, ROWS).row(0, named=True) == {
        "task_id": "t",
        "sample_index": 0,
        "sample_id": blake('{"q":{"text":"é?"},"a":1.50}'),
        "category": "qa",
        "prompt": "Q: é?",
        "prompt_hash": blake("Q: é?"),
        "target": "1.50",
        "targets": ["1.50"],
        "choices": ["yes", "no"],
        "metrics": [
            {"id": "f1", "aggregation": "none", "higher_is_better": True},
            {"id": "exact_match", "aggregation": "mean", "higher_is_better": False},
        ],
        "extraction": json.dumps(task.extraction_config, separators=(",", ":")),
        "row": '{"q":{"text":"é?"},"a":1.50}',
        "metadata": '{"source":"x","level":3,"nothing":null}',
        "row.q.text": "é?",
        "row.a": "1.50",
        "metadata.source": "x",
        "metadata.level": "3",
        "metadata.nothing": None,
    }
    second = rows.row(1, named=True)
    assert (second["sample_index"], second["prompt"], second["target"], second["targets"]) == (1, "Q: ", "", [""])
    assert (second["row.q.text"], second["row.a"]) == (None, None)


@pytest.mark.parametrize(
    ("template", "line", "target", "targets"),
    [
        ("{{a}}", {"a": ["x", 2, True, None]}, '["x",2,true,null]', ["x", "2", "true", ""]),
        ("{{ a.b }}", {"a": {"b": ["x", "y"]}}, '["x","y"]', ["x", "y"]),
        ("{{a}}", {"a": []}, "[]", []),
        ("{{a}}", {"a": [["x"]]}, '[["x"]]', ['[["x"]]']),
        ("{{a}}", {"a": {"k": 1}}, '{"k":1}', ['{"k":1}']),
        ("{{a}}", {"a": "x"}, "x", ["x"]),
        ("{{a}}", {"a": None}, "", [""]),
        ("{{a}}.", {"a": ["x", "y"]}, '["x","y"].', ['["x","y"].']),
        ("{{{a}}}", {"a": ["x"]}, '{["x"]}', ['{["x"]}']),
        ("{{row}}", {"a": 1}, '{"a":1}', ['{"a":1}']),
        ("{{choices}}", {"choices": ["x", "y"]}, '["x","y"]', ["x", "y"]),
        ("{{choice_list}}", {"choices": ["x", "y"]}, "x\ny", ["x\ny"]),
        ("fixed", {"a": 1}, "fixed", ["fixed"]),
        ("", {"a": 1}, "", [""]),
        (None, {"a": 1}, None, []),
    ],
)
def test_target_and_references(make_task, rows_of, template: str | None, line: Any, target: Any, targets: Any) -> None:
    task = make_task(prompt="p").model_copy(update={"target_template": template})
    rows = rows_of(task, [line, line])
    assert rows["target"].to_list() == [target, target]
    assert rows["targets"].to_list() == [targets, targets]


def test_references_of_the_tasks_choices(make_task, rows_of) -> None:
    rows = rows_of(make_task(prompt="p", target="{{choices}}", choices=["x", "y"]), [{"choices": ["own"]}])
    assert (rows["target"][0], rows["targets"].to_list()) == ('["x","y"]', [["x", "y"]])


def test_choices_come_from_the_task_else_from_the_row(make_task, rows_of) -> None:
    lines = [{"q": 1, "a": 1, "choices": ["x", 1.5]}, {"q": 1, "a": 1, "choices": "x"}, {"q": 1, "a": 1}]
    assert rows_of(make_task(), lines)["choices"].to_list() == [["x", "1.5"], None, None]
    assert rows_of(make_task(choices=["z"]), lines)["choices"].to_list() == [["z"]] * 3


def test_without_a_template_the_rows_bring_their_prompt(make_task, rows_of) -> None:
    rows = rows_of(make_task(prompt=None), [{"prompt": " {{a}} ", "a": "1"}, {"prompt": "", "a": "2"}])
    assert rows["prompt"].to_list() == [" {{a}} ", ""]
    assert [name for name in rows.columns if name.startswith("row.")] == ["row.a"]


def test_a_row_without_its_prompt_is_an_error_with_all_lines(make_task, rows_of) -> None:
    lines = [{"prompt": "x", "a": 1}, {"a": 1}, "", {"prompt": None, "a": 1}, *[{"a": 1}] * 12]
    with pytest.raises(DatasetError) as caught:
        rows_of(make_task(prompt=None), lines)
    assert "no field 'prompt' (lines 2, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 4 more)" in str(caught.value)
    assert "give the task a prompt_template, or each row a prompt" in str(caught.value)


def test_missing_fields_are_warned_of_or_refused(make_task, rows_of) -> None:
    task = make_task(prompt="{{qq}}{{q}}", target="{{aa}}")
    with pytest.warns(MissingFieldWarning) as caught:
        rows = rows_of(task, [{"q": "x", "a": "y"}])
    assert rows.select("prompt", "target").row(0) == ("x", "")
    assert [str(warned.message) for warned in caught] == [
        "task 't', prompt_template: names 'qq', which is in no row; it renders empty -> did you mean 'q'?",
        "task 't', target_template: names 'aa', which is in no row; it renders empty -> did you mean 'a'?",
    ]
    with pytest.raises(DatasetError, match="2 faults") as refused:
        rows_of(task, [{"q": "x", "a": "y"}], on_missing="error")
    assert refused.value.faults["rule"].to_list() == ["missing_field"] * 2


def test_all_faults_of_a_task_come_together(make_task, rows_of) -> None:
    with pytest.raises(DatasetError) as caught:
        rows_of(make_task(prompt=None, target="{{b}}"), [{"id": 1}, {"id": 1}], on_missing="error")
    assert caught.value.faults["rule"].to_list() == ["missing_prompt", "duplicate_id", "missing_field"]


def test_no_rows_and_rows_read_otherwise(make_task, read_for) -> None:
    task = make_task()
    records = read_for(task, [{"q": "x", "a": "y"}])
    with pytest.raises(DatasetError, match="task 't': the data set has no rows; check its file"):
        suite_rows(task, records.clear())
    with pytest.raises(SchemaError, match=r"lack the columns 'field.q', 'items.a'.*needed_paths\(task\)"):
        suite_rows(task, records.drop("field.q", "items.a"))
    with pytest.raises(SchemaError, match="no records frame"):
        suite_rows(task, records.drop("row"))
    with pytest.raises(OptionError, match="on_missing='maybe' is not known; use 'warn' or 'error'"):
        suite_rows(task, records, on_missing="maybe")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="sample_ids='id' is not known; use 'auto' or 'content'"):
        suite_rows(task, records, sample_ids="id")  # type: ignore[arg-type]


def test_metadata_columns_are_bounded(make_task, rows_of) -> None:
    task = make_task(metadata={f"k{i:03}": i for i in range(80)})
    line = [{"q": "x", "a": "y"}]
    named = [name for name in rows_of(task, line).columns if name.startswith("metadata.")]
    assert named == [f"metadata.k{i:03}" for i in range(64)]
    assert len([n for n in rows_of(task, line, max_metadata_columns=2).columns if n.startswith("metadata.")]) == 2
    assert json.loads(rows_of(task, line)["metadata"][0]) == {f"k{i:03}": i for i in range(80)}


def test_needed_paths(make_task) -> None:
    ids = ("id", "task_id", "question_id")
    assert needed_paths(make_task("{{q}}{{row}}", "{{a}}")).fields == (*ids, "q", "a")
    assert needed_paths(make_task("{{q}}", "{{a}}")).items == ("a", "choices")
    assert needed_paths(make_task("{{q}}", "{{a}}", choices=["x"])).items == ("a",)
    assert needed_paths(make_task("{{q}}", "A {{a}}", choices=["x"])).items == ()
    assert needed_paths(make_task("{{choices}}", "{{a}}")).fields == (*ids, "choices", "choice_list", "a")
    assert needed_paths(make_task("{{choices}}", "{{a}}", choices=["x"])).fields == (*ids, "a")
    assert needed_paths(make_task(None, "{{id}}")).fields == (*ids, "prompt")


def test_lone_surrogates_lose_no_row(make_task, rows_of) -> None:
    # a manifest with one is refused; a task that was built by hand need not come from one
    task = make_task().model_copy(
        update={"prompt_template": "{{q}}\ud800", "choices": ("\ud800",), "metadata": {"k": "\udfff"}}
    )
    rows = rows_of(task, ['{"q": "x\\ud83d", "a": "y"}'])
    assert rows.select("prompt", "metadata.k").row(0) == ("x\ufffd\ufffd", "\ufffd")
    assert rows["choices"].to_list() == [["\ufffd"]]


def test_the_order_is_that_of_the_data(make_task, rows_of) -> None:
    rows = rows_of(make_task(), [{"id": 10 - i, "q": f"q{i}", "a": "x"} for i in range(10)])
    assert rows["sample_index"].to_list() == list(range(10))
    assert rows["prompt"].to_list() == [f"q{i}" for i in range(10)]
    assert rows["sample_id"].to_list() == [str(10 - i) for i in range(10)]
