"""Versions: what changes results changes a part and its name, what does not changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from evalframe.errors import OptionError
from evalframe.manifest.suite import Suite, parse_suite
from evalframe.manifest.version import PARTS, SuiteVersion, differing_parts, file_ids, hub_key, suite_version

GRADE = "def grade(sample, item):\n    return 1.0\n"
ROW = "def transform(row):\n    return row\n"
HASHES = {"rows.jsonl": "aa", "other.jsonl": "bb", "same.jsonl": "aa", "shots.jsonl": "cc"}


def suite(*tasks: dict[str, Any], **fields: Any) -> Suite:
    return parse_suite({"tasks": list(tasks), **fields})


def task(**fields: Any) -> dict[str, Any]:
    made = {
        "id": "t", "type": "qa", "dataset": {"file_id": "rows.jsonl"}, "prompt_template": "{{q}}",
        "target_template": "{{a}}", "metrics": [{"id": "exact_match"}, {"id": "f1"}], **fields,
    }  # fmt: skip
    return {key: value for key, value in made.items() if value is not ...}


def hub(**fields: Any) -> dict[str, Any]:
    return {"dataset": {"path": "acme/qa", **fields}}


def version(made: Suite, hashes: dict[str, str] = HASHES) -> SuiteVersion:
    return suite_version(made, content_hashes=hashes)


def difference(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    a, b = version(suite(task(**before))), version(suite(task(**after)))
    assert (a.version == b.version) == (a.parts == b.parts)
    found = differing_parts(a, b)
    assert all(task_id == "t" for task_id, _ in found)
    assert found == differing_parts(a.parts, b.parts)
    return [part for _, part in found]


CODE = {"metrics": [{"id": "code_exec"}]}
RANDOM = {"count": 2, "strategy": "random"}
BACKED = {"source": GRADE, "contract": "model_backed"}

CHANGES = [
    ("dataset", {}, {"dataset": {"file_id": "other.jsonl"}}),
    ("dataset", {}, {"dataset": {"file_id": "rows.jsonl", "max_rows": 5}}),
    ("dataset", {}, hub()),
    ("dataset", hub(), {"dataset": {"path": "acme/qb"}}),
    ("dataset", hub(), hub(name="easy")),
    ("dataset", hub(), hub(split="train")),
    ("dataset", hub(), hub(revision="abc")),
    ("dataset", hub(), hub(max_rows=5)),
    ("dataset", hub(), hub(data_files="a.csv")),
    ("dataset", hub(), hub(dataset_kwargs={"field": "rows"})),
    ("preprocess", {}, {"preprocess": {"source": ROW}}),
    ("preprocess", {"preprocess": {"source": ROW}}, {"preprocess": {"source": ROW + "#"}}),
    ("preprocess", {"preprocess": {"source": ROW + "def transform_batch(r): return r"}},
     {"preprocess": {"source": ROW + "def transform_batch(r): return r", "contract": "batch"}}),
    ("prompt", {}, {"prompt_template": "{{q}} "}),
    ("prompt", {}, {"prompt_template": ...}),
    ("target", {}, {"target_template": "{{b}}"}),
    ("choices", {}, {"choices": ["A"]}),
    ("choices", {"choices": ["A", "B"]}, {"choices": ["B", "A"]}),
    ("fewshot", {}, {"num_fewshot": 1}),
    ("fewshot", {"num_fewshot": 1}, {"num_fewshot": 2}),
    ("fewshot", {"num_fewshot": 1}, {"fewshot": {"count": 1, "separator": "\n"}}),
    ("fewshot", {"num_fewshot": 1}, {"fewshot": {"count": 1, "example_template": "{{prompt}} {{target}}"}}),
    ("fewshot", {"num_fewshot": 1}, {"fewshot": {"count": 1, "prompt_template": "x"}}),
    ("fewshot", {"num_fewshot": 1}, {"fewshot": {"count": 1, "target_template": "x"}}),
    ("fewshot", {"num_fewshot": 1}, {"fewshot": {"count": 1, "strategy": "random"}}),
    ("fewshot", {"num_fewshot": 1}, {"fewshot": {"count": 1, "dataset": {"file_id": "shots.jsonl"}}}),
    ("fewshot", {"fewshot": RANDOM}, {"fewshot": {**RANDOM, "seed": 1}}),
    ("extraction", {}, {"output_extraction": {"type": "number"}}),
    ("extraction", {"output_extraction": {"type": "take_first"}},
     {"output_extraction": {"type": "take_first", "lines": 2}}),
    ("metrics", {}, {"metrics": [{"id": "exact_match"}]}),
    ("metrics", {}, {"metrics": [{"id": "f1"}, {"id": "exact_match"}]}),
    ("metrics", {}, {"metrics": [{"id": "exact_match"}, {"id": "f1", "aggregation": "none"}]}),
    ("metrics", {}, {"metrics": [{"id": "exact_match"}, {"id": "f1", "higher_is_better": False}]}),
    ("metrics", CODE, {**CODE, "metadata": {"timeout_s": 5}}),
    ("metrics", CODE, {**CODE, "metadata": {"setup_code": "import math"}}),
    ("metrics", CODE, {**CODE, "metadata": {"completes_prompt": True}}),
    ("grader", {}, {"grader": {"source": GRADE}}),
    ("grader", {"grader": {"source": GRADE}}, {"grader": {"source": GRADE + "#"}}),
    ("grader", {"grader": {"source": GRADE}}, {"grader": BACKED}),
    ("grader", {"grader": {"source": GRADE}}, {"grader": {"source": GRADE, "metric_id": "x"}}),
    ("grader", {"grader": {"source": GRADE}}, {"grader": {"source": GRADE, "model_access": "mka1"}}),
    ("grader", {"grader": BACKED}, {"grader": {**BACKED, "max_model_calls": 1}}),
]  # fmt: skip


@pytest.mark.parametrize(("part", "before", "after"), CHANGES, ids=str)
def test_what_affects_results_changes_its_part(part: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    assert difference(before, after) == [part]


def test_every_part_is_covered_by_a_change() -> None:
    assert {part for part, _, _ in CHANGES} == set(PARTS)


def test_an_example_template_that_comes_from_the_task_changes_with_it() -> None:
    assert difference({"num_fewshot": 1}, {"num_fewshot": 1, "target_template": "{{b}}"}) == ["fewshot", "target"]


SAME = [
    ({}, {"name": "A name"}),
    ({}, {"type": "math"}),
    ({}, {"metadata": {"note": "x", "timeout_s": 5}}),
    (CODE, {**CODE, "metadata": {"solution": "x", "note": "y"}}),
    ({}, {"metrics": [{"id": "exact_match", "description": "d", "aggregation": "mean"}, {"id": "f1"}]}),
    ({}, {"dataset": {"file_id": "same.jsonl"}}),
    ({}, {"dataset": {"file_id": "rows.jsonl", "format": "jsonl", "source": "file"}}),
    (hub(), hub(split="test", source="huggingface")),
    ({"dataset": {"path": "json", "data_files": "https://a.org/x"}},
     {"dataset": {"path": "json", "dataset_kwargs": {"data_files": {"test": ["https://a.org/x"]}}}}),
    ({"num_fewshot": 2}, {"fewshot": {"count": 2}}),
    ({"num_fewshot": 2}, {"fewshot": {"count": 2, "seed": 7}}),  # the strategy first draws nothing
    ({}, {"fewshot": {"separator": "x", "strategy": "random"}}),  # no examples
    ({"num_fewshot": 1}, {"fewshot": {"count": 1, "prompt_template": "{{q}}", "target_template": "{{a}}"}}),
    ({}, {"output_extraction": {"type": "none"}}),
    ({"output_extraction": {"type": "regex", "pattern": "(a)", "flags": "im"}},
     {"output_extraction": {"type": "regex", "pattern": "(a)", "group": 1, "flags": "mi"}}),
    ({"grader": {"source": GRADE}}, {"grader": {"source": GRADE, "timeout_seconds": 5, "max_model_calls": 1}}),
    ({"grader": BACKED}, {"grader": {**BACKED, "execution": "per_sample", "model_access": "mka1"}}),
    ({"preprocess": {"source": ROW}}, {"preprocess": {"source": ROW, "timeout_seconds": 5}}),
    ({"metrics": ..., "grader": {"source": GRADE}}, {"metrics": [{"id": "score"}], "grader": {"source": GRADE}}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SAME, ids=str)
def test_what_means_the_same_hashes_the_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert difference(before, after) == []


def test_names_of_suites_and_order_of_tasks_are_not_in_it() -> None:
    one, two = task(id="a"), task(id="b", choices=["x"])
    assert version(suite(one, two)) == version(suite(two, one, metadata={"project": "x"}))
    assert version(suite(one, two)).version != version(suite(one)).version
    assert version(suite(one)).version != version(suite(task(id="c"))).version


def test_a_task_that_only_one_has_is_named() -> None:
    a = version(suite(task(id="a"), task(id="b")))
    b = version(suite(task(id="b", choices=["x"], prompt_template="y"), task(id="c")))
    assert differing_parts(a, b) == [("a", "task"), ("b", "prompt"), ("b", "choices"), ("c", "task")]
    assert differing_parts(a, json.loads(json.dumps(a.parts))) == []


def test_python_in_the_manifest_and_in_a_file_are_the_same() -> None:
    hashes = {**HASHES, "g.py": hashlib.blake2b(GRADE.encode(), digest_size=16).hexdigest()}
    inside = version(suite(task(grader={"source": GRADE})), hashes)
    assert inside == version(suite(task(grader={"file_id": "g.py"})), hashes)


def test_the_commit_of_a_hub_data_set_stands_for_its_revision() -> None:
    made = suite(task(**hub()))
    key = hub_key(made.tasks[0].dataset)
    assert key == "hub:acme/qa"
    first, second = version(made, {key: "c1"}), version(made, {key: "c2"})
    assert differing_parts(first, second) == [("t", "dataset")]
    tagged = suite(task(**hub(revision="v1")))
    assert hub_key(tagged.tasks[0].dataset) == "hub:acme/qa@v1"
    assert version(tagged, {"hub:acme/qa@v1": "c1"}) == first


def test_files_whose_content_counts() -> None:
    made = suite(
        task(id="a", grader={"file_id": "g.py"}, preprocess={"file_id": "p.py"}),
        task(id="b", fewshot={"count": 1, "dataset": {"file_id": "shots.jsonl"}}),
        task(id="c", fewshot={"dataset": {"file_id": "unused.jsonl"}}, **hub()),
    )
    assert file_ids(made) == ["g.py", "p.py", "rows.jsonl", "shots.jsonl"]
    with pytest.raises(OptionError, match="2 faults") as caught:
        version(made)
    assert caught.value.faults["where"].to_list() == ["content_hashes['g.py']", "content_hashes['p.py']"]
    assert set(caught.value.faults["remedy"]) == {"hash the file's bytes"}


def test_it_is_the_same_in_every_process_and_for_every_order_of_keys() -> None:
    made = task(metadata={"b": 1, "a": 2}, grader={"source": GRADE}, **hub(dataset_kwargs={"x": 1, "y": [2]}))
    backwards = {key: made[key] for key in reversed(made)}
    backwards["dataset"] = {"dataset_kwargs": {"y": [2], "x": 1}, "path": "acme/qa"}
    expected = version(suite(made)).version
    assert version(suite(backwards)).version == expected
    code = (
        "import json, sys\nfrom evalframe.manifest.suite import parse_suite\n"
        "from evalframe.manifest.version import suite_version\n"
        "print(suite_version(parse_suite(sys.stdin.read()), content_hashes={}).version)"
    )
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code], input=json.dumps({"tasks": [made]}), capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == expected


def test_a_version_is_written_down() -> None:
    # stored runs hold this hash: where it changes, they can not be resumed, and _RULES in version.py goes up
    assert version(suite(task())).version == "371774d248f40e3e2d2e1b1c0692a9d2"
    assert set(version(suite(task())).parts["t"]) == set(PARTS)


def test_a_stored_manifest_has_the_version_of_its_suite() -> None:
    made = suite(task(num_fewshot=1, output_extraction={"type": "regex", "pattern": "a"}, grader=BACKED))
    assert version(parse_suite(json.dumps(made.to_manifest()))) == version(made)
