"""Manifests as text: what is no JSON, or JSON that would lose something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalframe.errors import ManifestError
from evalframe.jsontext import loads
from evalframe.manifest.suite import parse_suite

TASK = {
    "id": "t", "type": "qa", "dataset": {"file_id": "x"}, "target_template": "{{a}}", "metrics": [{"id": "f1"}],
}  # fmt: skip
TEXT = json.dumps({"tasks": [TASK]}, indent=1)

UNREADABLE = [
    ("", "s.json", "empty", "is empty", '{"tasks"'),
    (" \n\t ", "s.json", "empty", "is empty", '{"tasks"'),
    ('{"tasks": [}', "s.json:1:12", "bad_json", "a value is expected here", "comma"),
    ('{\n "tasks": [1,\n ]}', "s.json:3:2", "bad_json", "a value is expected here", "a comma before a closing bracket"),
    ('{"a": 1,}', "s.json:1:9", "bad_json", "a key in double quotes", "a comma before a closing bracket"),
    ("{'a': 1}", "s.json:1:2", "bad_json", "a key in double quotes", "double quotes"),
    ("{\"a\": 'x'}", "s.json:1:7", "bad_json", "a value is expected", "double quotes"),
    ('{"a" 1}', "s.json:1:6", "bad_json", "a colon is expected", "mend"),
    ('{"a": 1 "b": 2}', "s.json:1:9", "bad_json", "a comma or a closing bracket", "mend"),
    ('{"a": "x', "s.json:1:7", "bad_json", "not closed", "mend"),
    ('{"a": "x\ny"}', "s.json:1:9", "bad_json", "\\n", "mend"),
    ('{"a": 1} {"b": 2}', "s.json:1:10", "bad_json", "more text after", "mend"),
    ('{\n// note\n"a": 1}', "s.json:2:1", "bad_json", "a key in double quotes", "no comments"),
    ('{"a": True}', "s.json:1:7", "bad_json", "a value is expected", "true, false and null"),
    ("schema_version: 2026-05-27\ntasks:\n  - id: x\n", "s.json:1:1", "bad_json", "a value", "looks like YAML"),
    ("---\ntasks: []\n", "s.json:1:1", "bad_json", "a value is expected", "looks like YAML"),
    ("- id: x\n  type: qa\n", "s.json:1:1", "bad_json", "a value is expected", "looks like YAML"),
    ("# my suite\ntasks: []\n", "s.json:1:1", "bad_json", "a value is expected", "looks like YAML"),
    ("evals/suite.json", "s.json:1:1", "bad_json", "a value is expected", "a file's name"),
    ("[" * 100_000, "s.json", "bad_json", "nested too deeply", "levels"),
]


@pytest.mark.parametrize(("text", "where", "rule", "detail", "remedy"), UNREADABLE, ids=lambda value: repr(value)[:40])
def test_text_that_is_no_json(text: str, where: str, rule: str, detail: str, remedy: str) -> None:
    fault = the_fault(text)
    assert (fault["where"], fault["rule"]) == (where, rule)
    assert detail in fault["detail"]
    assert remedy in fault["remedy"]


@pytest.mark.parametrize(
    "manifest", ["[1]", "5", "null", '"x"', "true", 5, None, [TASK], b"{}", Path("s.json"), {1, 2}]
)
def test_a_manifest_is_an_object(manifest: Any) -> None:
    fault = the_fault(manifest)
    assert (fault["where"], fault["rule"]) == ("s.json", "not_an_object")
    assert "one JSON object" in fault["detail"]
    assert "tasks" in fault["remedy"]


def test_keys_that_stand_twice_are_named_with_their_path() -> None:
    text = TEXT.replace('"id": "t"', '"id": "u", "id": "t", "type": "math"').replace('"f1"', '"f1", "id": "f1"')
    with pytest.raises(ManifestError) as caught:
        parse_suite(text)
    assert caught.value.faults.select("where", "rule").rows() == [
        ("tasks[0].id", "duplicate_key"),
        ("tasks[0].metrics[0].id", "duplicate_key"),
        ("tasks[0].type", "duplicate_key"),
    ]


def test_keys_that_stand_twice_hide_no_other_fault() -> None:
    with pytest.raises(ManifestError, match="2 faults"):
        parse_suite('{"tasks": [5], "metadata": {"a": 1, "a": 1}}')


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
def test_numbers_that_are_none(number: str) -> None:
    fault = the_fault(TEXT[:-1] + f', "metadata": {{"a": [0, {number}]}}}}')
    assert (fault["where"], fault["rule"]) == ("metadata.a[1]", "not_finite")


def test_deep_nesting_in_a_dict_is_a_fault() -> None:
    loop: dict[str, Any] = {"tasks": [TASK], "metadata": {}}
    loop["metadata"]["self"] = loop["metadata"]
    with pytest.raises(ManifestError) as caught:
        parse_suite(loop)
    assert set(caught.value.faults["rule"]) == {"too_deep", "too_long"}


def test_a_byte_order_mark_is_no_matter() -> None:
    assert parse_suite("\ufeff" + TEXT) == parse_suite(TEXT)


def test_numbers_kept_as_text_are_numbers_here() -> None:
    text = TEXT[:-1] + ', "metadata": {"a": 2.50, "b": 3}}'
    assert parse_suite(loads(text)).metadata == {"a": 2.5, "b": 3}


def test_any_script_is_text() -> None:
    made = parse_suite({"tasks": [{**TASK, "prompt_template": "Питання: {{питання}} 🦉"}]})
    assert made.tasks[0].prompt_template == "Питання: {{питання}} 🦉"
    assert parse_suite(json.dumps(made.to_manifest())) == made


def the_fault(manifest: Any) -> dict[str, str]:
    with pytest.raises(ManifestError) as caught:
        parse_suite(manifest, where="s.json")
    faults = caught.value.faults
    assert faults.height == 1, faults.rows()
    return faults.row(0, named=True)
