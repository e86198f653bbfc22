"""Suites that are wrong: each rule of the format, and all of them in one pass."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.errors import ManifestError
from evalframe.manifest.suite import Suite, parse_suite

GRADE = "def grade(sample, item):\n    return 1.0\n"


def task(**fields: Any) -> dict[str, Any]:
    made = {
        "id": "t", "type": "qa", "dataset": {"file_id": "rows.jsonl"}, "target_template": "{{answer}}",
        "metrics": [{"id": "exact_match"}], **fields,
    }  # fmt: skip
    return {key: value for key, value in made.items() if value is not ...}


def faults_of(manifest: Any) -> pl.DataFrame:
    with pytest.raises(ManifestError) as caught:
        parse_suite(manifest)
    return caught.value.faults


def the_fault(**fields: Any) -> dict[str, str]:
    faults = faults_of({"tasks": [task(**fields)]})
    assert faults.height == 1, faults.rows()
    return faults.row(0, named=True)


# field of a task, path below the task, rule, what the message says, what the remedy says
TASK_RULES = [
    ({"id": "a b"}, "id", "bad_id", "has ' '", "write 'a_b'"),
    ({"id": "ключ"}, "id", "bad_id", "letters A-Z", "write an id"),
    ({"id": ""}, "id", "bad_id", "is empty", "write an id"),
    ({"id": "a/b"}, "id", "bad_id", "has '/'", "'a_b'"),
    ({"id": "a\n"}, "id", "bad_id", "has '\\n'", "'a'"),
    ({"id": 5}, "id", "bad_type", "5 is a number; a string is needed", 'write "5"'),
    ({"id": ...}, "id", "missing", "is missing", "'id'"),
    ({"id": None}, "id", "missing", "is missing", "'id'"),
    ({"type": ...}, "type", "missing", "is missing", "'type'"),
    ({"dataset": ...}, "dataset", "missing", "is missing", "'dataset'"),
    ({"dataset": "rows.jsonl"}, "dataset", "bad_type", "an object is needed", "{"),
    ({"type": "classificaton"}, "type", "bad_value", "allowed: classification, multiple_choice", "'classification'"),
    ({"type": "transcription"}, "type", "not_supported", "newer part of the format", "leave"),
    ({"type": "embedding"}, "type", "not_supported", "newer part of the format", "leave"),
    ({"embedding": {}}, "embedding", "not_supported", "newer part of the format", "leave"),
    ({"language": "uk"}, "language", "not_supported", "newer part of the format", "leave"),
    ({"dataset": {"file_id": "x", "audio_column": "a"}}, "dataset.audio_column", "not_supported", "newer", "leave"),
    ({"name": 5}, "name", "bad_type", "a string is needed", 'write "5"'),
    ({"prompt_template": ["x"]}, "prompt_template", "bad_type", '["x"] is a list', "give a string"),
    ({"target_template": True}, "target_template", "bad_type", "a truth value", 'write "true"'),
    ({"choices": "AB"}, "choices", "bad_type", "a list is needed", "square brackets"),
    ({"choices": ["A", 1]}, "choices[1]", "bad_type", "1 is a number", 'write "1"'),
    ({"choices": []}, "choices", "empty", "is empty", "leave it out"),
    ({"prompt_tempate": "x"}, "prompt_tempate", "unknown_key", 'no key "prompt_tempate"', "'prompt_template'"),
    ({"few_shot": {}}, "few_shot", "unknown_key", "no key", "fewshot"),
    ({"models": []}, "models", "unknown_key", "choice of the run", "run()"),
    ({"metadata": {"k" * 65: 1}}, f"metadata.{'k' * 65}", "key_too_long", "65 characters; at most 64", "shorten"),
    ({"metadata": {"k": "v" * 513}}, "metadata.k", "too_long", "513 characters; at most 512", "shorten"),
    ({"metadata": {"k": ["v" * 509]}}, "metadata.k", "too_long", "513 characters", "shorten"),
    ({"metadata": []}, "metadata", "bad_type", "an object is needed", "{"),
    ({"metadata": {"k": float("nan")}}, "metadata.k", "not_finite", "no JSON number", "null"),
    ({"metadata": {"k": {1, 2}}}, "metadata.k", "bad_type", "a Python set", "list"),
    ({"metadata": {5: 1}}, "metadata", "bad_key", "the key 5", '"5"'),
    ({"metadata": {"k": "\ud800"}}, "metadata.k", "bad_text", "surrogate", "whole character"),
    # metrics
    ({"metrics": ...}, "", "no_scoring", "neither metrics nor a grader", "exact_match"),
    ({"metrics": []}, "", "no_scoring", "neither metrics nor a grader", "grader"),
    ({"metrics": {"id": "f1"}}, "metrics", "bad_type", "a list is needed", "["),
    ({"metrics": ["f1"]}, "metrics[0]", "bad_type", '"f1" is a string', 'write {"id": "f1"}'),
    ({"metrics": [{}]}, "metrics[0].id", "missing", "is missing", "'id'"),
    ({"metrics": [{"id": "exact_mach"}]}, "metrics[0].id", "unknown_metric", 'no metric "exact_mach"', "exact_match"),
    ({"metrics": [{"id": "f 1"}]}, "metrics[0].id", "bad_id", "has ' '", "'f_1'"),
    ({"metrics": [{"id": "f1"}, {"id": "f1"}]}, "metrics[1].id", "duplicate", "at tasks[0].metrics[0]", "unique"),
    ({"metrics": [{"id": "f1", "aggregation": "sum"}]}, "metrics[0].aggregation", "bad_value", "mean, none", "use one"),
    ({"metrics": [{"id": "f1", "higher_is_better": 1}]}, "metrics[0].higher_is_better", "bad_type", "1 is a number",
     "true or false"),
    ({"metrics": [{"id": "f1", "higher_is_better": "true"}]}, "metrics[0].higher_is_better", "bad_type", "a string",
     "write true, without quotes"),
    ({"metrics": [{"id": "f1", "description": 1}]}, "metrics[0].description", "bad_type", "a string is needed", '"1"'),
    ({"metrics": [{"id": "f1", "weight": 1}]}, "metrics[0].weight", "unknown_key", "no key", "higher_is_better"),
    ({"target_template": ...}, "target_template", "missing", "the metric exact_match compares with a target", "add"),
    # few-shot
    ({"num_fewshot": 101}, "num_fewshot", "out_of_range", "101 is out of range", "from 0 to 100"),
    ({"num_fewshot": -1}, "num_fewshot", "out_of_range", "-1 is out of range", "from 0 to 100"),
    ({"num_fewshot": "2"}, "num_fewshot", "bad_type", '"2" is no integer', "as in 2"),
    ({"num_fewshot": True}, "num_fewshot", "bad_type", "true is no integer", "as in 2"),
    ({"num_fewshot": 2, "fewshot": {"count": 3}}, "num_fewshot", "conflict", "but fewshot.count is 3", "keep one"),
    ({"fewshot": {"count": 101}}, "fewshot.count", "out_of_range", "101", "from 0 to 100"),
    ({"fewshot": {"count": 1.5}}, "fewshot.count", "bad_type", "an integer is needed", "integer"),
    ({"fewshot": {"count": "3"}}, "fewshot.count", "bad_type", '"3" is a string', "write 3, without quotes"),
    ({"fewshot": 3}, "fewshot", "bad_type", "an object is needed", "{"),
    ({"fewshot": {"strategy": "last"}}, "fewshot.strategy", "bad_value", "allowed: first, random", "use one"),
    ({"fewshot": {"seed": -1}}, "fewshot.seed", "out_of_range", "-1", "0 or more"),
    ({"fewshot": {"separator": 1}}, "fewshot.separator", "bad_type", "a string is needed", '"1"'),
    ({"fewshot": {"example_template": 1}}, "fewshot.example_template", "bad_type", "a string", '"1"'),
    ({"fewshot": {"prompt_template": 1}}, "fewshot.prompt_template", "bad_type", "a string", '"1"'),
    ({"fewshot": {"target_template": 1}}, "fewshot.target_template", "bad_type", "a string", '"1"'),
    ({"fewshot": {"n": 2}}, "fewshot.n", "unknown_key", "no key", "count"),
    ({"fewshot": {"dataset": {}}}, "fewshot.dataset", "one_source", "neither path nor file_id", "file_id"),
    ({"num_fewshot": 1, "target_template": ..., "grader": {"source": GRADE}}, "target_template", "missing_for_fewshot",
     "the examples have a {{target}}", "example_template"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "path", "rule", "detail", "remedy"), TASK_RULES, ids=str)
def test_each_rule_of_a_task(fields: dict[str, Any], path: str, rule: str, detail: str, remedy: str) -> None:
    fault = the_fault(**fields)
    assert (fault["where"], fault["rule"]) == (f"tasks[0].{path}" if path else "tasks[0]", rule)
    assert detail in fault["detail"]
    assert remedy in fault["remedy"]


SUITE_RULES = [
    ({}, "tasks", "missing", "is missing", "'tasks'"),
    ({"tasks": []}, "tasks", "empty", "is empty", "add a task"),
    ({"tasks": {}}, "tasks", "bad_type", "a list is needed", "["),
    ({"tasks": [5]}, "tasks[0]", "bad_type", "5 is a number", "{"),
    ({"tasks": [task()], "schema_version": "2025-01-01"}, "schema_version", "bad_value", "allowed: 2026-05-27",
     "write '2026-05-27'"),
    ({"tasks": [task()], "schema_version": 2026}, "schema_version", "bad_value", "2026 is not allowed", "2026-05-27"),
    ({"tasks": [task()], "metadata": {"k": "v" * 513}}, "metadata.k", "too_long", "at most 512", "shorten"),
    ({"tasks": [task()], "metadata": {"k" * 65: ""}}, f"metadata.{'k' * 65}", "key_too_long", "at most 64",
     "shorten"),
    ({"tasks": [task()], "metdata": {}}, "metdata", "unknown_key", "no key", "'metadata'"),
    ({"tasks": [task()], "generation": {}}, "generation", "unknown_key", "choice of the run", "run()"),
    ({"tasks": [task()], "limits": {}}, "limits", "unknown_key", "choice of the run", "run()"),
    ({"tasks": [task(), task()]}, "tasks[1].id", "duplicate", 'the task "t" stands at tasks[0]', "rename"),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "path", "rule", "detail", "remedy"), SUITE_RULES, ids=str)
def test_each_rule_of_a_suite(manifest: Any, path: str, rule: str, detail: str, remedy: str) -> None:
    faults = faults_of(manifest)
    assert faults.select("where", "rule").rows() == [(path, rule)]
    assert detail in faults["detail"][0]
    assert remedy in faults["remedy"][0]


CODE_RULES = [
    ({"timeout_s": 31}, "timeout_s", "out_of_range", "up to 30"),
    ({"timeout_s": 0}, "timeout_s", "out_of_range", "above 0"),
    ({"timeout_s": "3"}, "timeout_s", "bad_type", "seconds"),
    ({"setup_code": 1}, "setup_code", "bad_type", "a string"),
    ({"completes_prompt": "yes"}, "completes_prompt", "bad_type", "true or false"),
]


@pytest.mark.parametrize(("metadata", "key", "rule", "remedy"), CODE_RULES, ids=str)
def test_metadata_that_code_exec_reads(metadata: Any, key: str, rule: str, remedy: str) -> None:
    fault = the_fault(metrics=[{"id": "code_exec"}], metadata=metadata)
    assert (fault["where"], fault["rule"]) == (f"tasks[0].metadata.{key}", rule)
    assert remedy in fault["remedy"]
    parse_suite({"tasks": [task(metadata=metadata)]})  # other metrics do not read it


def test_examples_that_show_no_target_need_no_template_for_it() -> None:
    for template in ("{{prompt}}", "targets: {{prompt}}"):
        fewshot = {"count": 1, "example_template": template}
        parse_suite({"tasks": [task(fewshot=fewshot, grader={"source": GRADE}, target_template=...)]})


def test_metadata_at_its_limits_is_legal() -> None:
    parse_suite({"tasks": [task(metadata={"k" * 64: "v" * 512})], "metadata": {"k" * 64: ["v" * 508]}})


def test_twelve_faults_are_twelve_lines() -> None:
    manifest = {
        "schema_version": "1",
        "metadata": {"note": "x" * 600},
        "tasks": [
            {
                "id": "a b",
                "type": "qua",
                "dataset": {"path": "acme/qa", "file_id": "x", "max_rows": 0},
                "prompt_tmplate": "{{q}}",
                "output_extraction": {"type": "regex", "pattern": "(a"},
                "metrics": [{"id": "exact_match", "aggregation": "median"}],
                "grader": {"contract": "batch", "execution": "per_sample", "source": "def grade_batch(s) return 1"},
                "num_fewshot": "2",
            },
        ],
    }
    paths = [
        "metadata.note", "schema_version", "tasks[0].dataset", "tasks[0].dataset.max_rows", "tasks[0].grader.execution",
        "tasks[0].grader.source", "tasks[0].id", "tasks[0].metrics[0].aggregation", "tasks[0].num_fewshot",
        "tasks[0].output_extraction.pattern", "tasks[0].prompt_tmplate", "tasks[0].type",
    ]  # fmt: skip
    with pytest.raises(ManifestError) as caught:
        parse_suite(manifest, where="suite.json")
    title, *lines = str(caught.value).splitlines()
    assert title == "suite.json: 12 faults"
    assert [line.strip().split(": ")[0] for line in lines] == paths
    for line in lines:
        assert re.fullmatch(r"  \S+: .+ -> \S.*", line), f"no remedy: {line}"
    faults = caught.value.faults
    assert faults.columns == ["where", "rule", "detail", "remedy"]
    assert faults["where"].to_list() == paths


def test_a_wrong_type_hides_no_other_fault_of_its_object() -> None:
    grader = {"timeout_seconds": "long", "max_model_calls": 501, "contract": 5, "metric_id": "a b"}
    faults = faults_of({"tasks": [task(grader=grader, type=5, num_fewshot=101, metrics="f1", id="x y")]})
    assert set(faults["where"]) == {
        "tasks[0].grader", "tasks[0].grader.timeout_seconds", "tasks[0].grader.max_model_calls",
        "tasks[0].grader.contract", "tasks[0].grader.metric_id", "tasks[0].type", "tasks[0].num_fewshot",
        "tasks[0].metrics", "tasks[0].id",
    }  # fmt: skip


def test_faults_stand_in_the_order_of_their_paths() -> None:
    faults = faults_of({"tasks": [task(id=f"t {number}") for number in range(12)]})
    assert faults["where"].to_list() == [f"tasks[{number}].id" for number in range(12)]


def test_keys_of_a_like_beginning_are_named_apart() -> None:
    faults = faults_of({"tasks": [task(metadata={"k" * 90 + " a": 1, "k" * 90 + " b": 1})]})
    assert faults.height == 2


def test_no_message_speaks_of_the_validator() -> None:
    wrong = [5, "x", True, None, [], {}, [5], {"x": 5}]
    for key in ("id", "type", "dataset", "choices", "output_extraction", "metrics", "grader", "preprocess", "fewshot"):
        for value in wrong:
            made = suite_or_error({"tasks": [task(**{key: value})]})
            if isinstance(made, ManifestError):
                assert not re.search(r"Input should|pydantic|https?://errors|type=|dict_type|union_tag", str(made))
                assert all(made.faults["remedy"])


KEYS = [
    "tasks", "id", "type", "dataset", "name", "prompt_template", "target_template", "choices", "output_extraction",
    "metrics", "grader", "preprocess", "fewshot", "num_fewshot", "metadata", "source", "file_id", "format", "path",
    "split", "data_files", "dataset_kwargs", "max_rows", "contract", "execution", "count", "pattern", "group", "flags",
    "labels", "lines", "timeout_seconds", "schema_version", "token",
]  # fmt: skip
WORDS = [
    "",
    "qa",
    "json",
    "regex",
    "label_set",
    "take_first",
    "(a",
    "def grade(s, i): pass",
    "batch",
    "\ud800",
    "f1",
    "a b",
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner),
    max_leaves=30,
)
TASK = st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JUNK)) | st.fixed_dictionaries(
    {"id": st.just("t"), "type": st.just("qa"), "dataset": st.just({"file_id": "x"})},
    optional=dict.fromkeys(("metrics", "grader", "output_extraction", "fewshot", "preprocess", "num_fewshot"), JUNK),
)


@settings(max_examples=300, deadline=None)
@given(JUNK | st.fixed_dictionaries({"tasks": st.lists(TASK, max_size=2)}))
def test_whatever_comes_it_is_a_suite_or_faults_with_remedies(manifest: Any) -> None:
    if isinstance(manifest, str):
        return  # text has tests of its own
    made = suite_or_error(manifest)
    if isinstance(made, ManifestError):
        assert made.faults.height > 0
        assert all(made.faults["remedy"])
        assert not made.faults.select("where", "rule").is_duplicated().any()
    else:
        assert parse_suite(made.to_manifest()) == made


def suite_or_error(manifest: Any) -> Suite | ManifestError:
    try:
        return parse_suite(manifest)
    except ManifestError as error:
        return error
