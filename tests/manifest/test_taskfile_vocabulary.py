"""The vocabulary of task files is closed: a new word comes with all that belongs to it, and a new version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import get_args

import pytest

from evalframe.extractors.postprocess import RULES
from evalframe.limits import DEFAULT_LIMITS
from evalframe.manifest.taskfile import TASK_SPEC_VERSION, TaskRecord, validate_file
from evalframe.manifest.taskvocabulary import (
    CATEGORIES,
    CODE_METADATA,
    EXAMPLE_FIELDS,
    FIELDS,
    MARKERS,
    METRICS,
    OPTIONAL,
    POST_PROCESSES,
    REQUIRED,
)
from evalframe.registry import METRICS as METRIC_REGISTRY
from evalframe.words import Category, PostProcess, TaskMetric

# Every published version of the vocabulary, by the hash of its tables. A change of the tables fails the first test
# below; the remedy is a new TASK_SPEC_VERSION with a line of its own here, never another hash in an old line.
PUBLISHED = {
    "1.0": "72a44f6e3db318759e552ecd66c3d6ae",
}


def vocabulary_hash() -> str:
    tables = {
        "required": REQUIRED,
        "optional": OPTIONAL,
        "example_fields": EXAMPLE_FIELDS,
        "most_examples": DEFAULT_LIMITS.task_fewshot_examples,
        "categories": {name: [sorted(r.metrics), sorted(r.post_processes)] for name, r in CATEGORIES.items()},
        "metrics": sorted(METRICS),
        "post_processes": sorted(POST_PROCESSES),
        "code_metadata": sorted(CODE_METADATA),
        "most_seconds": DEFAULT_LIMITS.code_timeout_seconds_max,
        "markers": sorted(MARKERS),
    }
    return hashlib.blake2b(json.dumps(tables, sort_keys=True).encode(), digest_size=16).hexdigest()


@pytest.fixture(scope="module")
def tasks(fixtures: Path) -> list[TaskRecord]:
    return validate_file(fixtures / "tasks.jsonl")[0]


def test_a_changed_vocabulary_has_a_new_version() -> None:
    assert TASK_SPEC_VERSION in PUBLISHED, "add the new version and its hash to PUBLISHED"
    assert PUBLISHED[TASK_SPEC_VERSION] == vocabulary_hash(), "the tables changed: give TASK_SPEC_VERSION a new number"
    assert list(PUBLISHED)[-1] == TASK_SPEC_VERSION
    assert len(set(PUBLISHED.values())) == len(PUBLISHED)


def test_the_words_are_those_of_the_tables() -> None:
    assert set(CATEGORIES) == set(get_args(Category))
    assert set(METRICS) == set(get_args(TaskMetric))
    assert set(POST_PROCESSES) == set(get_args(PostProcess)) == set(RULES)
    assert set(FIELDS) == {*REQUIRED, *OPTIONAL}
    assert len(FIELDS) == len(REQUIRED) + len(OPTIONAL)


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_has_a_meaning_legal_pairs_and_two_fixtures(category: Category, tasks: list[TaskRecord]) -> None:
    rule = CATEGORIES[category]
    assert len(rule.meaning) > 10
    assert rule.metrics
    assert set(rule.metrics) <= set(METRICS)
    assert rule.post_processes
    assert set(rule.post_processes) <= set(POST_PROCESSES)
    assert sum(task.category == category for task in tasks) == 2


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_has_a_definition_a_category_and_a_fixture(metric: str, tasks: list[TaskRecord]) -> None:
    entry = METRIC_REGISTRY.get(metric)
    assert len(entry.description) > 10
    assert any(metric in rule.metrics for rule in CATEGORIES.values())
    assert any(task.metric_name == metric for task in tasks)


@pytest.mark.parametrize("rule", POST_PROCESSES)
def test_a_post_process_rule_has_a_definition_a_category_a_fixture_and_tests(
    rule: str, tasks: list[TaskRecord]
) -> None:
    assert RULES[rule].meaning
    assert any(rule in legal.post_processes for legal in CATEGORIES.values())
    assert any(task.post_process == rule for task in tasks)
    tests = Path(__file__).parent.parent / "extractors" / "test_postprocess.py"
    assert tests.read_text(encoding="utf-8").count(f'"{rule}"') >= 2
