"""Suites that are right: defaults, aliases, inference, round trips."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from evalframe.errors import ManifestError
from evalframe.limits import Limits
from evalframe.manifest.suite import Dataset, Grader, MetricChoice, Suite, Task, parse_suite

EXAMPLES = Path(__file__).parent / "examples"
SUITES = sorted(path for path in EXAMPLES.glob("*.json") if path.stem != "generation")
GRADE = "def grade(sample, item):\n    return 1.0\n"
GRADE_BATCH = "def grade_batch(samples):\n    return {'metrics': {'x': 1}}\n"


def task(**fields: Any) -> dict[str, Any]:
    made = {
        "id": "t", "type": "qa", "dataset": {"file_id": "rows.jsonl"}, "target_template": "{{answer}}",
        "metrics": [{"id": "exact_match"}], **fields,
    }  # fmt: skip
    return {key: value for key, value in made.items() if value is not ...}


def one(**fields: Any) -> Task:
    return parse_suite({"tasks": [task(**fields)]}).tasks[0]


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_published_examples_validate_and_round_trip(path: Path) -> None:
    suite = parse_suite(path.read_text())
    assert parse_suite(json.loads(path.read_text())) == suite
    assert parse_suite(suite) == suite
    assert parse_suite(suite.to_manifest()) == suite
    assert parse_suite(json.dumps(suite.to_manifest())) == suite


def test_the_examples_here_are_the_shared_ones(shared_data: Path) -> None:
    for path in (shared_data.parent / "spec" / "examples").glob("*.json"):
        assert json.loads((EXAMPLES / path.name).read_text()) == json.loads(path.read_text())


def test_defaults_are_those_of_the_format() -> None:
    made = one(grader={"source": GRADE}, preprocess={"source": "def transform(row): return row"}, metrics=...)
    suite = parse_suite({"tasks": [task()]})
    assert (suite.schema_version, suite.metadata) == ("2026-05-27", {})
    assert made.grader == Grader(
        type="python", contract="sample", execution="per_sample", model_access="none", metric_id="score", source=GRADE,
        timeout_seconds=120, max_model_calls=64,
    )  # fmt: skip
    assert made.preprocess is not None
    assert (made.preprocess.type, made.preprocess.contract, made.preprocess.timeout_seconds) == ("python", "row", 120)
    few = made.fewshot
    assert (few.count, few.dataset, few.prompt_template, few.target_template) == (0, None, None, None)
    assert (few.example_template, few.separator, few.strategy, few.seed) == (
        "{{prompt}}\n{{target}}",
        "\n\n",
        "first",
        0,
    )
    assert (made.name, made.prompt_template, made.choices, made.metadata) == (None, None, None, {})
    assert made.extraction_config == {"type": "none"}
    assert suite.tasks[0].metrics == (MetricChoice(id="exact_match", aggregation="mean", higher_is_better=True),)
    assert suite.tasks[0].metrics[0].description is None


@pytest.mark.parametrize(
    "kind",
    ["classification", "multiple_choice", "qa", "summarization", "semantic_similarity", "llm_judge", "numeric", "math",
     "custom"],
)  # fmt: skip
def test_every_type_is_a_label(kind: str) -> None:
    assert one(type=kind).type == kind


def test_null_is_as_good_as_absent() -> None:
    fields = ("name", "prompt_template", "choices", "output_extraction", "grader", "preprocess", "fewshot",
              "num_fewshot", "metadata")  # fmt: skip
    assert one(**dict.fromkeys(fields)) == one()
    assert one(grader={"source": GRADE, "file_id": None, "execution": None}) == one(grader={"source": GRADE})
    assert one(metadata={"kept": None}).metadata == {"kept": None}


def test_source_is_inferred() -> None:
    assert one(dataset={"file_id": "x"}).dataset.source == "file"
    hub = one(dataset={"path": "acme/qa"}).dataset
    assert (hub.source, hub.split) == ("huggingface", "test")
    assert one(dataset={"file_id": "x"}).dataset.split is None
    assert Dataset(path="acme/qa") == hub


def test_examples_come_from_the_train_split_by_default() -> None:
    made = one(fewshot={"count": 1, "dataset": {"path": "acme/qa"}})
    assert made.fewshot.dataset is not None
    assert made.fewshot.dataset.split == "train"
    other = one(fewshot={"count": 1, "dataset": {"path": "acme/qa", "split": "dev"}})
    assert other.fewshot.dataset is not None
    assert other.fewshot.dataset.split == "dev"


def test_num_fewshot_is_an_alias() -> None:
    assert one(num_fewshot=2) == one(fewshot={"count": 2})
    assert one(num_fewshot=2, fewshot={"count": 2, "seed": 3}).fewshot.seed == 3
    assert one(num_fewshot=2, fewshot={"seed": 3}).fewshot.count == 2
    assert one(num_fewshot=0).fewshot.count == 0


def test_data_files_are_kept_by_split() -> None:
    url = "https://example.org/a.jsonl"
    expected = {"test": (url,)}
    for files in (url, [url], {"test": url}, {"test": [url]}):
        assert one(dataset={"path": "json", "data_files": files}).dataset.data_files == expected
    inside = one(dataset={"path": "json", "dataset_kwargs": {"data_files": url, "field": "rows"}}).dataset
    assert (inside.data_files, inside.dataset_kwargs) == (expected, {"field": "rows"})
    sliced = one(dataset={"path": "csv", "split": "dev[:10]", "data_files": [url, url]}).dataset
    assert sliced.data_files == {"dev": (url, url)}
    both = one(dataset={"path": "json", "data_files": url, "dataset_kwargs": {"data_files": url}}).dataset
    assert both.data_files == expected


@pytest.mark.parametrize(
    ("grader", "execution", "access"),
    [
        ({"source": GRADE}, "per_sample", "none"),
        ({"source": GRADE, "contract": "sample", "execution": "per_sample"}, "per_sample", "none"),
        ({"source": GRADE, "model_access": "mka1"}, "per_sample", "mka1"),
        ({"source": GRADE_BATCH, "contract": "batch"}, "aggregate", "none"),
        ({"source": GRADE_BATCH, "contract": "batch", "execution": "aggregate"}, "aggregate", "none"),
        ({"source": GRADE, "contract": "model_backed"}, "per_sample", "mka1"),
        ({"source": GRADE_BATCH, "contract": "model_backed"}, "aggregate", "mka1"),
        ({"source": GRADE + GRADE_BATCH, "contract": "model_backed"}, "per_sample", "mka1"),
        ({"source": GRADE + GRADE_BATCH, "contract": "model_backed", "execution": "aggregate"}, "aggregate", "mka1"),
        ({"file_id": "g.py", "contract": "model_backed"}, "per_sample", "mka1"),
        ({"source": GRADE, "contract": "model_backed", "model_access": "none"}, "per_sample", "none"),
    ],
)
def test_execution_and_model_access_follow_from_the_contract(grader: Any, execution: str, access: str) -> None:
    made = one(grader=grader).grader
    assert made is not None
    assert (made.execution, made.model_access) == (execution, access)


def test_metric_choices_and_headline() -> None:
    assert one().headline == MetricChoice(id="exact_match")
    default = one(metrics=..., grader={"source": GRADE, "metric_id": "good"})
    assert default.metric_choices == (MetricChoice(id="good"),)
    assert default.headline == MetricChoice(id="good")
    batch = one(metrics=..., grader={"source": GRADE_BATCH, "contract": "batch"})
    assert (batch.metric_choices, batch.headline) == ((), None)
    second = one(metrics=[{"id": "f1", "aggregation": "none"}, {"id": "exact_match"}])
    assert second.headline is not None
    assert second.headline.id == "exact_match"
    assert one(metrics=[{"id": "f1", "aggregation": "none"}]).headline is None


def test_with_a_grader_metric_ids_are_its_keys() -> None:
    made = one(metrics=[{"id": "my.own-metric_1"}], grader={"source": GRADE}, target_template=...)
    assert made.metric_choices[0].id == "my.own-metric_1"


def test_metric_names_may_be_given() -> None:
    manifest = {"tasks": [task(metrics=[{"id": "mine"}])]}
    assert parse_suite(manifest, metric_names={"mine"}).tasks[0].metrics[0].id == "mine"
    with pytest.raises(ManifestError, match="there is no metric"):
        parse_suite(manifest)


def test_a_wider_table_of_limits_is_the_callers() -> None:
    manifest = {"tasks": [task(num_fewshot=300, metadata={"long": "x" * 600})]}
    with pytest.raises(ManifestError, match="2 faults"):
        parse_suite(manifest)
    wide = parse_suite(manifest, limits=Limits(fewshot_examples=500, metadata_value_chars=1000))
    assert wide.tasks[0].fewshot.count == 300
    with pytest.raises(ManifestError):
        parse_suite(wide)  # a suite is held to the limits of the one who asks


def test_records_are_frozen_and_their_own() -> None:
    metadata = {"a": {"b": [1]}}
    manifest = {"tasks": [task()], "metadata": metadata}
    suite = parse_suite(manifest)
    metadata["a"]["b"].append(2)
    assert suite.metadata == {"a": {"b": [1]}}
    with pytest.raises(ValidationError, match="frozen"):
        suite.tasks[0].id = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(suite)) == suite


def test_python_values_of_a_notebook_are_read() -> None:
    made = one(
        dataset=Dataset(path="acme/qa", max_rows=5), metrics=(MetricChoice(id="f1"),), choices=("a", "b"),
        num_fewshot=np.int64(2), metadata={"x": np.float64(0.5), "t": (1, 2)},
    )  # fmt: skip
    assert (made.fewshot.count, made.choices, made.dataset.max_rows) == (2, ("a", "b"), 5)
    assert made.metadata == {"x": 0.5, "t": [1, 2]}
    assert one(num_fewshot=2.0).fewshot.count == 2


def test_a_suite_built_by_hand_is_held_to_the_rules() -> None:
    suite = Suite(tasks=(Task(id="a b", type="qa", dataset=Dataset(file_id="x")),))
    with pytest.raises(ManifestError) as caught:
        parse_suite(suite)
    assert caught.value.faults["rule"].to_list() == ["no_scoring", "bad_id"]


def test_a_round_trip_keeps_nulls_of_data() -> None:
    suite = parse_suite({"tasks": [task(metadata={"a": None}, dataset={"path": "x/y", "dataset_kwargs": {"k": None}})]})
    again = parse_suite(json.dumps(suite.to_manifest()))
    assert again == suite
    assert again.tasks[0].dataset.dataset_kwargs == {"k": None}


def test_one_hundred_tasks_are_allowed() -> None:
    tasks = [task(id=f"t{number}") for number in range(101)]
    assert len(parse_suite({"tasks": tasks[:100]}).tasks) == 100
    with pytest.raises(ManifestError, match="tasks: has 101 tasks; at most 100 are allowed -> split"):
        parse_suite({"tasks": tasks})
