"""Every rule of one task record, tried both ways, and the order in which they are told."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe import jsontext
from evalframe.errors import TaskFault
from evalframe.manifest.taskfile import TaskRecord, parse_records, validate_task
from evalframe.manifest.taskvocabulary import CATEGORIES, METRICS, OPTIONAL, POST_PROCESSES, REQUIRED

EXAMPLE = {"prompt": "2 + 2 =", "completion": "4"}
FITTING = {  # what makes the rest of a record fit its category
    "arithmetic": {"metric_name": "exact_match"},
    "mcq": {"targets": ["A"], "metric_name": "exact_match"},
    "code_exec": {"targets": ["add(1, 2) == 3"], "metric_name": "code_exec"},
    "classification": {"metric_name": "accuracy"},
    "summary": {"metric_name": "rouge_l"},
}


def task(category: str = "arithmetic", **changes: Any) -> dict[str, Any]:
    record = {"task_id": "t1", "category": category, "prompt": "1 + 1 =", "targets": ["2"], "post_process": "none"}
    return {**record, **FITTING.get(category, {"metric_name": "exact_match"}), **changes}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in task().items() if key != name}


def only_fault(record: Any) -> TaskFault:
    (fault,) = validate_task(record)
    return fault


def told(record: Any) -> tuple[str, str]:
    fault = only_fault(record)
    assert fault.detail
    return fault.rule, fault.field


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_plain_task_of_each_category_is_legal(category: str) -> None:
    assert validate_task(task(category)) == []


@pytest.mark.parametrize("name", REQUIRED)
def test_each_required_field_is_missed(name: str) -> None:
    assert told(without(name)) == ("missing_required", name)


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_fields_may_be_left_out_but_are_not_null(name: str) -> None:
    assert validate_task(without(name)) == []
    fault = only_fault(task(**{name: None}))
    assert (fault.rule, fault.field) == ("bad_type", name)
    assert "leave the field out" in fault.detail


def test_an_unknown_field_suggests_the_nearest_known_one() -> None:
    fault = only_fault(task(target="2"))
    assert (fault.rule, fault.field) == ("unknown_field", "target")
    assert "did you mean 'targets'" in fault.detail
    assert "metadata" in fault.detail


@pytest.mark.parametrize("name", [*REQUIRED, *OPTIONAL])
@pytest.mark.parametrize("number", [5, jsontext.loads("5"), True], ids=["plain", "as written", "true"])
def test_a_number_is_no_value_of_any_field(name: str, number: Any) -> None:
    assert told(task(**{name: number})) == ("bad_type", name)


@pytest.mark.parametrize(
    ("task_id", "legal"),
    [("HumanEval/0", True), ("a-b_c.d:é", True), ("", False), ("a b", False), ("a\n", False), ("a\u00a0b", False)],
)
def test_task_id(task_id: str, legal: bool) -> None:
    assert (
        validate_task(task(task_id=task_id)) == []
        if legal
        else told(task(task_id=task_id))
        == (
            "bad_value",
            "task_id",
        )
    )


@pytest.mark.parametrize(
    ("prompt", "legal"),
    [
        (" 1 + 1 =", True), ("a\n\nb", True), ("a\u200b", True),
        ("", False), (" ", False), ("1 + 1 = ", False), ("a\n", False), ("a\u00a0", False), ("a\u2028", False),
    ],
)  # fmt: skip
def test_prompt(prompt: str, legal: bool) -> None:
    faults = [(fault.rule, fault.field) for fault in validate_task(task(prompt=prompt))]
    assert faults == ([] if legal else [("bad_value", "prompt")])


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["2", "two", ""], None),
        (("2", "two"), None),
        ([], ("bad_value", "targets")),
        ("2", ("bad_type", "targets")),
        ({"a": "b"}, ("bad_type", "targets")),
        (["2", None], ("bad_type", "targets[1]")),
        (["2", ["3"]], ("bad_type", "targets[1]")),
        ([jsontext.loads("2.50")], ("bad_type", "targets[0]")),
    ],
)
def test_targets(targets: Any, expected: tuple[str, str] | None) -> None:
    faults = [(fault.rule, fault.field) for fault in validate_task(task(targets=targets))]
    assert faults == ([expected] if expected else [])


def test_a_number_among_the_targets_is_told_what_to_do() -> None:
    assert "put it in quotes" in only_fault(task(targets=[41])).detail


@pytest.mark.parametrize(
    ("targets", "legal"),
    [([letter], True) for letter in "ABCDE"]
    + [(bad, False) for bad in (["F"], ["a"], ["AB"], [""], [" A"], ["A", "B"], ["А"])],  # the last one is Cyrillic
)
def test_mcq_has_exactly_one_letter(targets: list[str], legal: bool) -> None:
    faults = [(fault.rule, fault.field) for fault in validate_task(task("mcq", targets=targets))]
    assert faults == ([] if legal else [("bad_value", "targets")])


@pytest.mark.parametrize(
    ("target", "legal"),
    [
        ("add(1, 2) == 3", True), ("  add(1, 2) == 3\n", True), ("def check(f):\n    assert f(1)\ncheck(add)", True),
        ("re.match('\\d', add())", True), ("assert add(1, 2) == 3", True),
        ("  a = 1\n  assert add(a, 2)\n", True), ("  (add(1, 2)\n== 3)\n", True), ("  a = 1\nassert a", False),
        ("", False), ("   ", False), ("# nothing", False), ("add(1, 2", False), ("add(1) ==", False), ("a\0b", False),
        ("-" * 100_000 + "1", False),
    ],
)  # fmt: skip
def test_code_targets_are_python(target: str, legal: bool) -> None:
    faults = [(fault.rule, fault.field) for fault in validate_task(task("code_exec", targets=["True", target]))]
    assert faults == ([] if legal else [("bad_value", "targets[1]")])


@pytest.mark.parametrize("field", ["category", "metric_name", "post_process"])
def test_the_vocabulary_is_closed_and_suggests(field: str) -> None:
    known = task()[field]
    fault = only_fault(task(**{field: known + "s"}))
    assert (fault.rule, fault.field) == ("bad_value", field)
    assert f"did you mean '{known}'" in fault.detail
    assert told(task(**{field: known.upper()})) == ("bad_value", field)


@pytest.mark.parametrize("rule", ["lower,strip_whitespace", "lower|extract_letter", ["lower", "strip_whitespace"]])
def test_a_combination_of_post_process_rules_is_refused(rule: Any) -> None:
    fault = only_fault(task(post_process=rule))
    assert fault.rule == ("bad_type" if isinstance(rule, list) else "bad_value")
    assert fault.field == "post_process"
    assert "exactly one" in fault.detail
    assert "combination" in fault.detail


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        ([], None),
        ([EXAMPLE] * 8, None),
        ((EXAMPLE,), None),
        ([{"prompt": "", "completion": ""}], None),
        ([EXAMPLE] * 9, ("bad_value", "few_shot_examples")),
        (EXAMPLE, ("bad_type", "few_shot_examples")),
        ("x", ("bad_type", "few_shot_examples")),
        ([EXAMPLE, "x"], ("bad_type", "few_shot_examples[1]")),
        ([EXAMPLE, {"prompt": "x", "completion": 4}], ("bad_type", "few_shot_examples[1].completion")),
        ([{"prompt": None, "completion": "4"}], ("bad_type", "few_shot_examples[0].prompt")),
        ([EXAMPLE, {"completion": "4"}], ("missing_required", "few_shot_examples[1].prompt")),
        ([{**EXAMPLE, "target": "4"}], ("unknown_field", "few_shot_examples[0].target")),
    ],
)
def test_few_shot_examples(examples: Any, expected: tuple[str, str] | None) -> None:
    faults = [(fault.rule, fault.field) for fault in validate_task(task(few_shot_examples=examples))]
    assert faults == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"timeout_s": 30}, None),
        ({"timeout_s": 0.01}, None),
        ({"timeout_s": jsontext.loads("3e1")}, None),
        ({"timeout_s": 0}, ("bad_value", "metadata.timeout_s")),
        ({"timeout_s": -1}, ("bad_value", "metadata.timeout_s")),
        ({"timeout_s": 30.000001}, ("bad_value", "metadata.timeout_s")),
        ({"timeout_s": jsontext.loads("1e999")}, ("bad_value", "metadata.timeout_s")),
        ({"timeout_s": 10**400}, ("bad_value", "metadata.timeout_s")),
        ({"timeout_s": "5"}, ("bad_type", "metadata.timeout_s")),
        ({"timeout_s": True}, ("bad_type", "metadata.timeout_s")),
        ({"timeout_s": None}, ("bad_type", "metadata.timeout_s")),
        ({"setup_code": "import math\n"}, None),
        ({"setup_code": ""}, None),
        ({"setup_code": 5}, ("bad_type", "metadata.setup_code")),
        ({"setup_code": "def f(:"}, ("bad_value", "metadata.setup_code")),
        ({"solution": "this is no Python, as a wrong solution may be"}, None),
        ({"solution": ["x"]}, ("bad_type", "metadata.solution")),
        ({"completes_prompt": True}, None),
        ({"completes_prompt": False}, None),
        ({"completes_prompt": 1}, ("bad_type", "metadata.completes_prompt")),
        ({"anything": {"else": [1, None, "x" * 100_000]}}, None),
    ],
)
def test_metadata_of_a_code_task(metadata: Any, expected: tuple[str, str] | None) -> None:
    faults = [(fault.rule, fault.field) for fault in validate_task(task("code_exec", metadata=metadata))]
    assert faults == ([expected] if expected else [])


def test_metadata_of_another_task_is_free() -> None:
    assert validate_task(task(metadata={"timeout_s": "long", "setup_code": 5, "completes_prompt": 1})) == []


@pytest.mark.parametrize(
    ("value", "rule", "field"),
    [
        (float("nan"), "bad_value", "metadata.a.b[1]"),
        (float("inf"), "bad_value", "metadata.a.b[1]"),
        ({1: "x"}, "bad_type", "metadata.a.b[1]"),
        ({"c": {1, 2}}, "bad_type", "metadata.a.b[1].c"),
        (datetime.date(2026, 1, 1), "bad_type", "metadata.a.b[1]"),
        (b"bytes", "bad_type", "metadata.a.b[1]"),
    ],
)
def test_metadata_from_memory_must_be_json(value: Any, rule: str, field: str) -> None:
    assert told(task(metadata={"a": {"b": [0, value]}})) == (rule, field)


def test_metadata_without_a_floor_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    fault = only_fault(task(metadata=loop))
    assert (fault.rule, fault.field) == ("bad_value", "metadata")
    assert "nested too deeply" in fault.detail


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rule", POST_PROCESSES)
def test_pairs(category: str, metric: str, rule: str) -> None:
    # written out once more, apart from the table in the code
    legal_metrics = {
        "arithmetic": {"exact_match", "f1"}, "mcq": {"exact_match"}, "code_exec": {"code_exec"},
        "classification": {"exact_match", "accuracy", "f1"}, "summary": {"exact_match", "f1", "bleu_4", "rouge_l"},
    }  # fmt: skip
    illegal_rules = {
        "arithmetic": {"extract_code_block", "extract_letter"}, "mcq": {"extract_code_block"},
        "code_exec": {"strip_whitespace", "lower", "extract_letter", "extract_first_line"},
        "classification": {"extract_code_block"}, "summary": {"extract_code_block", "extract_letter"},
    }  # fmt: skip
    expected = []
    if metric not in legal_metrics[category]:
        expected = [("illegal_pair", "metric_name")]
    elif rule in illegal_rules[category]:
        expected = [("illegal_pair", "post_process")]
    faults = validate_task(task(category, metric_name=metric, post_process=rule))
    assert [(fault.rule, fault.field) for fault in faults] == expected
    assert all("legal there" in fault.detail for fault in faults)


def test_an_embedded_few_shot_block_is_refused_with_and_without_examples() -> None:
    body = "Q: 1 + 1\nA: 2\nQ: 2 + 2\nA:"
    assert told(task(prompt=body)) == ("embedded_few_shot", "prompt")
    assert told(task(prompt=body, few_shot_examples=[EXAMPLE])) == ("embedded_few_shot", "prompt")
    assert "few_shot_examples" in only_fault(task(prompt=body)).detail


def test_one_fault_a_record_the_first_in_the_order() -> None:
    record = task("mcq", task_id="", prompt="Q: a\nQ: b", post_process="extract_code_block", extra=1)
    del record["targets"]
    steps = []
    for mend in (
        {"targets": ["A"]},
        {"extra": None},
        {"task_id": "t1"},
        {"post_process": "none"},
        {"prompt": "a"},
    ):
        steps.append(told(record)[0])
        record = {key: value for key, value in (record | mend).items() if key != "extra" or value}
    assert steps == ["missing_required", "unknown_field", "bad_value", "illegal_pair", "embedded_few_shot"]
    assert validate_task(record) == []


def test_what_is_no_object_is_no_task() -> None:
    assert told(["a"]) == ("bad_json", "")
    assert told("a") == ("bad_json", "")


def test_a_fault_says_where_and_of_what() -> None:
    (fault,) = validate_task(task(task_id="arith_9", prompt=5), 17)
    assert (fault.file, fault.line_number, fault.task_id) == ("", 17, "arith_9")
    assert only_fault(task(task_id=5)).task_id == ""


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*REQUIRED, *OPTIONAL]), JSON_VALUES), st.sampled_from(list(CATEGORIES)))
def test_any_record_gets_a_record_or_one_fault(changes: dict[str, Any], category: str) -> None:
    record = {**task(category), **changes}
    faults = validate_task(record)
    records, same = parse_records([record])
    assert len(faults) + len(records) == 1
    assert [fault.rule for fault in same] == [fault.rule for fault in faults]
    for kept in records:
        assert isinstance(kept, TaskRecord)
        kept.row.encode()
        assert list(jsontext.loads(kept.row)) == list(record)
    for fault in faults:
        f"{fault}".encode()
