"""Extraction configurations: fields, defaults, and what is refused before any call."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.errors import ManifestError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.suite import parse_suite, validate_extraction
from evalframe.registry import EXTRACTORS

LEGAL = [
    ({"type": "none"}, {"type": "none"}),
    ({"type": "take_first"}, {"type": "take_first", "lines": 1}),
    ({"type": "take_first", "lines": 3}, {"type": "take_first", "lines": 3}),
    ({"type": "number"}, {"type": "number"}),
    ({"type": "label_set", "labels": ["A", "B"]}, {"type": "label_set", "labels": ["A", "B"], "case_sensitive": False}),
    ({"type": "label_set", "labels": ["a", "A"], "case_sensitive": True},
     {"type": "label_set", "labels": ["a", "A"], "case_sensitive": True}),
    ({"type": "regex", "pattern": "a(b)"}, {"type": "regex", "pattern": "a(b)", "group": 1, "flags": ""}),
    ({"type": "regex", "pattern": "a"}, {"type": "regex", "pattern": "a", "group": 0, "flags": ""}),
    ({"type": "regex", "pattern": "(a)(b)"}, {"type": "regex", "pattern": "(a)(b)", "group": 1, "flags": ""}),
    ({"type": "regex_last", "pattern": "(?P<x>a)", "group": "x", "flags": "mi"},
     {"type": "regex_last", "pattern": "(?P<x>a)", "group": "x", "flags": "im"}),
    ({"type": "regex", "pattern": "(a)", "group": 0, "flags": None},
     {"type": "regex", "pattern": "(a)", "group": 0, "flags": ""}),
    ({"type": "regex", "pattern": "x" * 1000}, {"type": "regex", "pattern": "x" * 1000, "group": 0, "flags": ""}),
    ({"type": "regex", "pattern": "\\d", "flags": "imsxu"},
     {"type": "regex", "pattern": "\\d", "group": 0, "flags": "imsux"}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), LEGAL, ids=str)
def test_legal_extractions(config: dict[str, Any], expected: dict[str, Any]) -> None:
    assert validate_extraction(config, where="extract", limits=DEFAULT_LIMITS) == (expected, [])
    made = parse_suite(suite(config)).tasks[0]
    assert made.extraction_config == expected
    assert validate_extraction(expected) == (expected, [])


def suite(extraction: Any) -> dict[str, Any]:
    made = {"id": "t", "type": "qa", "dataset": {"file_id": "x"}, "output_extraction": extraction}
    return {"tasks": [{**made, "target_template": "{{a}}", "metrics": [{"id": "f1"}]}]}


WRONG = [
    ({}, ".type", "missing", "is missing"),
    ({"lines": 1}, ".type", "missing", "is missing"),
    ({"type": "regexp", "pattern": "a"}, ".type", "bad_value", "'regex'"),
    ({"type": 5}, ".type", "bad_value", "allowed: none, take_first, regex, regex_last, label_set, number"),
    ("number", "", "bad_type", 'write {"type": "number"}'),
    ({"type": "none", "lines": 1}, ".lines", "unknown_key", "no key"),
    ({"type": "number", "labels": []}, ".labels", "unknown_key", "no key"),
    ({"type": "take_first", "lines": 0}, ".lines", "out_of_range", "1 line or more"),
    ({"type": "take_first", "lines": "1"}, ".lines", "bad_type", "write 1, without quotes"),
    ({"type": "take_first", "lines": True}, ".lines", "bad_type", "an integer"),
    ({"type": "regex"}, ".pattern", "missing", "is missing"),
    ({"type": "regex", "pattern": 5}, ".pattern", "bad_type", "a string"),
    ({"type": "regex", "pattern": ""}, ".pattern", "bad_value", "is empty"),
    ({"type": "regex", "pattern": "x" * 1001}, ".pattern", "too_long", "1001 characters; at most 1000"),
    ({"type": "regex", "pattern": "Answer: (a"}, ".pattern", "bad_pattern", "at character 9"),
    ({"type": "regex", "pattern": "a{2,1}"}, ".pattern", "bad_pattern", "at character 3"),
    ({"type": "regex", "pattern": "(?<=a+)b"}, ".pattern", "bad_pattern", "look-behind requires fixed-width"),
    ({"type": "regex", "pattern": "a\n(b"}, ".pattern", "bad_pattern", "at character 3"),
    ({"type": "regex", "pattern": "a{99999999999999999999}"}, ".pattern", "bad_pattern", "does not compile"),
    ({"type": "regex", "pattern": "a", "flags": "ig"}, ".flags", "bad_value", "has 'g'"),
    ({"type": "regex", "pattern": "a", "flags": "I"}, ".flags", "bad_value", "lower case"),
    ({"type": "regex", "pattern": "a", "flags": "au"}, ".flags", "bad_value", "leave out one"),
    ({"type": "regex", "pattern": "a", "flags": ["i"]}, ".flags", "bad_type", "a string"),
    ({"type": "regex", "pattern": "a", "group": 1}, ".group", "bad_group", "the pattern has no groups"),
    ({"type": "regex", "pattern": "(a)", "group": 2}, ".group", "bad_group", "the pattern has 1 group"),
    ({"type": "regex", "pattern": "(?P<x>a)", "group": "y"}, ".group", "bad_group", "named 'x'"),
    ({"type": "regex", "pattern": "(a)", "group": "1"}, ".group", "bad_group", "write 1, without quotes"),
    ({"type": "regex", "pattern": "(a)", "group": -1}, ".group", "bad_group", "below 0"),
    ({"type": "regex", "pattern": "(a)", "group": True}, ".group", "bad_type", "a group's number or name"),
    ({"type": "regex", "pattern": "(a)", "group": [1]}, ".group", "bad_type", "a group's number or name"),
    ({"type": "label_set"}, ".labels", "missing", "is missing"),
    ({"type": "label_set", "labels": []}, ".labels", "empty", "is empty"),
    ({"type": "label_set", "labels": "AB"}, ".labels", "bad_type", "a list"),
    ({"type": "label_set", "labels": ["A", 1]}, ".labels[1]", "bad_type", 'write "1"'),
    ({"type": "label_set", "labels": ["A", " "]}, ".labels[1]", "bad_value", "is blank"),
    ({"type": "label_set", "labels": ["A", "B", "A"]}, ".labels[2]", "duplicate", "the same as"),
    ({"type": "label_set", "labels": ["yes", "Yes"]}, ".labels[1]", "duplicate", "case_sensitive"),
    ({"type": "label_set", "labels": ["Straße", "STRASSE"]}, ".labels[1]", "duplicate", "the same as"),
    ({"type": "label_set", "labels": ["a", "a"], "case_sensitive": True}, ".labels[1]", "duplicate", "the same as"),
    ({"type": "label_set", "labels": ["a"], "case_sensitive": "no"}, ".case_sensitive", "bad_type", "true or false"),
    ({"type": "label_set", "labels": ["a"], "case_sensitve": True}, ".case_sensitve", "unknown_key", "case_sensitive"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "path", "rule", "says"), WRONG, ids=str)
def test_each_rule_of_an_extraction(config: Any, path: str, rule: str, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_suite(suite(config))
    (fault,) = caught.value.fault_records
    assert (fault.rule, fault.where) == (rule, f"tasks[0].output_extraction{path}")  # type: ignore[union-attr]
    assert says in str(fault)
    assert fault.remedy  # type: ignore[union-attr]
    # the door of one configuration says the same
    checked, faults = validate_extraction(config, where="extract")
    assert checked == {}
    assert [(one.where, one.rule) for one in faults] == [(f"extract{path}", rule)]


def test_all_faults_of_one_extraction_are_named() -> None:
    _, faults = validate_extraction({"type": "regex", "pattern": "(", "flags": "q", "group": [], "grp": 1}, where="e")
    assert [(fault.where, fault.rule) for fault in faults] == [
        ("e.flags", "bad_value"), ("e.group", "bad_type"), ("e.grp", "unknown_key"), ("e.pattern", "bad_pattern"),
    ]  # fmt: skip


def test_the_length_of_a_pattern_is_a_limit() -> None:
    config = {"type": "regex", "pattern": "x" * 1500}
    assert validate_extraction(config)[1]
    assert not validate_extraction(config, limits=Limits(regex_pattern_chars=2000))[1]


def test_warnings_of_the_regex_compiler_are_not_the_callers() -> None:
    # a possible nested set is a FutureWarning, and warnings are errors here
    assert not validate_extraction({"type": "regex", "pattern": "[[a]"})[1]


def test_a_rule_of_task_files_is_taken_alone_but_not_in_a_suite() -> None:
    config = {"type": "post_process", "rule": "extract_letter"}
    assert validate_extraction(config) == (config, [])
    assert [fault.where for fault in validate_extraction({"type": "post_process", "rule": "x"})[1]] == [
        "extraction.rule"
    ]
    with pytest.raises(ManifestError, match="allowed: none, take_first"):
        parse_suite(suite(config))


def test_every_extraction_type_has_a_configuration() -> None:
    from evalframe.manifest.extraction import MODELS

    assert sorted(MODELS) == EXTRACTORS.names()
