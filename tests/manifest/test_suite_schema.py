"""The JSON Schema: complete, described, and in agreement with what ``parse_suite`` accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalframe.errors import ManifestError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.suite import json_schema, parse_suite

EXAMPLES = [path for path in (Path(__file__).parent / "examples").glob("*.json") if path.stem != "generation"]
SCHEMA = json_schema()

FIELDS = {
    "Suite": "tasks schema_version metadata",
    "Task": "id type dataset name prompt_template target_template choices output_extraction metrics grader preprocess "
    "fewshot num_fewshot metadata",
    "Dataset": "source file_id format path name split revision data_files dataset_kwargs max_rows",
    "MetricChoice": "id aggregation higher_is_better description",
    "Preprocess": "type contract source file_id timeout_seconds",
    "Grader": "type contract execution model_access metric_id source file_id timeout_seconds max_model_calls",
    "FewShot": "count dataset prompt_template target_template example_template separator strategy seed",
    "NoExtraction": "type",
    "TakeFirst": "type lines",
    "Regex": "type pattern group flags",
    "LabelSet": "type labels case_sensitive",
    "NumberExtraction": "type",
}


def properties(name: str) -> dict[str, Any]:
    found = SCHEMA if name == "Suite" else SCHEMA["$defs"][name]
    result: dict[str, Any] = found["properties"]
    return result


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_there_with_a_description(name: str) -> None:
    assert sorted(properties(name)) == sorted(FIELDS[name].split())
    for field, schema in properties(name).items():
        assert schema.get("description"), f"{name}.{field}"
    found = SCHEMA if name == "Suite" else SCHEMA["$defs"][name]
    assert found["additionalProperties"] is False
    assert found["description"]


def test_it_is_of_the_dialect_it_says() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    json.dumps(SCHEMA, allow_nan=False)


def test_it_is_a_schema_to_the_library_too() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_limits_are_in_it() -> None:
    wide = json.dumps(json_schema(limits=Limits(suite_tasks=777, fewshot_examples=778, model_calls=779)))
    assert all(f": {number}" in wide for number in (777, 778, 779))
    assert properties("Suite")["tasks"]["maxItems"] == DEFAULT_LIMITS.suite_tasks
    rows = next(branch for branch in properties("Dataset")["max_rows"]["anyOf"] if branch["type"] == "integer")
    assert (rows["minimum"], rows["maximum"]) == (1, DEFAULT_LIMITS.max_rows)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_legal_by_it(path: Path) -> None:
    manifest = json.loads(path.read_text())
    assert list(errors(manifest, SCHEMA)) == []
    assert list(errors(parse_suite(manifest).to_manifest(), SCHEMA)) == []


URL = "https://example.org/x.jsonl"
WRONG: list[tuple[str, Any]] = [
    ("id", 5), ("id", "a b"), ("type", "qua"), ("dataset", {"file_id": 5}), ("dataset", {"fileid": "x"}),
    ("dataset", {"path": "a/b", "max_rows": 0}), ("dataset", {"path": "json", "data_files": 5}),
    ("dataset", {"file_id": "x", "format": "xml"}), ("choices", [1]), ("choices", []), ("metrics", [{}]),
    ("metrics", [{"id": "f1", "aggregation": "sum"}]), ("metadata", {"k" * 65: "x"}), ("metadata", {"k": "v" * 513}),
    ("num_fewshot", 101), ("fewshot", {"count": -1}), ("fewshot", {"strategy": "last"}), ("fewshot", {"seed": -1}),
    ("output_extraction", {"type": "regexp"}), ("output_extraction", {"type": "regex"}),
    ("output_extraction", {"type": "regex", "pattern": "x" * 1001}),
    ("output_extraction", {"type": "none", "lines": 1}),
    ("output_extraction", {"type": "regex", "pattern": "x", "flags": "q"}),
    ("output_extraction", {"type": "take_first", "lines": 0}),
    ("output_extraction", {"type": "label_set", "labels": []}),
    ("grader", {"source": "x", "max_model_calls": 501}), ("grader", {"source": "x", "timeout_seconds": 0}),
    ("grader", {"source": "x", "contract": "row"}), ("preprocess", {"source": "x", "timeout_seconds": 601}),
    ("audio", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), WRONG, ids=lambda value: str(value)[:40])
def test_what_it_refuses_is_refused_by_parse_suite_too(key: str, value: Any) -> None:
    task = {"id": "t", "type": "qa", "dataset": {"file_id": "x"}, "target_template": "", "metrics": [{"id": "f1"}]}
    assert list(errors({"tasks": [task]}, SCHEMA)) == []
    manifest = {"tasks": [{**task, key: value}]}
    assert list(errors(manifest, SCHEMA))
    with pytest.raises(ManifestError):
        parse_suite(manifest)


KINDS = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip
CHECKS: dict[str, Any] = {
    "enum": lambda value, bound: value in bound,
    "const": lambda value, bound: value == bound,
    "minimum": lambda value, bound: not number(value) or value >= bound,
    "maximum": lambda value, bound: not number(value) or value <= bound,
    "minItems": lambda value, bound: not isinstance(value, list) or len(value) >= bound,
    "maxItems": lambda value, bound: not isinstance(value, list) or len(value) <= bound,
    "minLength": lambda value, bound: not isinstance(value, str) or len(value) >= bound,
    "maxLength": lambda value, bound: not isinstance(value, str) or len(value) <= bound,
    "pattern": lambda value, bound: not isinstance(value, str) or re.search(bound, value),
}
ANNOTATIONS = {"title", "description", "default", "discriminator", "$schema", "$defs"}
STRUCTURE = {
    "$ref",
    "anyOf",
    "oneOf",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "propertyNames",
}


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def errors(value: Any, schema: Any, path: str = "$") -> Iterator[str]:
    """A small validator of the keywords that the schema uses; an unknown keyword is an error of the test."""
    if isinstance(schema, bool):
        yield from () if schema else (f"{path}: not allowed",)
        return
    assert not set(schema) - set(CHECKS) - ANNOTATIONS - STRUCTURE, schema
    if "$ref" in schema:
        yield from errors(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], path)
    kind = schema.get("type")
    if kind and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind in ("integer", "number"))):
        yield f"{path}: no {kind}"
        return
    for word, least, most in (("anyOf", 1, 99), ("oneOf", 1, 1)):
        if word in schema:
            fitting = sum(not list(errors(value, branch, path)) for branch in schema[word])
            yield from () if least <= fitting <= most else (f"{path}: fits {fitting} of {word}",)
    yield from (
        f"{path}: {word}" for word, check in CHECKS.items() if word in schema and not check(value, schema[word])
    )
    if isinstance(value, dict):
        yield from (f"{path}: {key} is missing" for key in schema.get("required", ()) if key not in value)
        known = schema.get("properties", {})
        for key, one in value.items():
            yield from errors(one, known.get(key, schema.get("additionalProperties", True)), f"{path}.{key}")
            yield from errors(key, schema.get("propertyNames", True), f"{path} key")
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from errors(one, schema.get("items", True), f"{path}[{index}]")
