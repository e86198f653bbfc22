"""The closed vocabulary of task files, as data: fields, categories and which metric and rule goes with which.

It is closed on purpose: a new word comes with its definition, its legal pairs, a fixture task, tests and a new
``TASK_SPEC_VERSION``. ``tests/manifest/test_taskfile_vocabulary.py`` fails where one of these is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from evalframe.words import Category, PostProcess, TaskMetric

TASK_SPEC_VERSION = "1.0"

REQUIRED = ("task_id", "category", "prompt", "targets", "metric_name", "post_process")
OPTIONAL = ("few_shot_examples", "metadata")
FIELDS = ("task_id", "category", "prompt", "targets", "metric_name", "few_shot_examples", "post_process", "metadata")
EXAMPLE_FIELDS = ("prompt", "completion")

METRICS: tuple[str, ...] = get_args(TaskMetric)
POST_PROCESSES: tuple[str, ...] = get_args(PostProcess)


@dataclass(frozen=True, slots=True)
class CategoryRule:
    """What a category means and what goes with it.

    Attributes:
        meaning: One line.
        metrics: The legal values of ``metric_name``.
        post_processes: The legal values of ``post_process``.
    """

    meaning: str
    metrics: tuple[str, ...]
    post_processes: tuple[str, ...]


def _all_but(*left_out: str) -> tuple[str, ...]:
    return tuple(rule for rule in POST_PROCESSES if rule not in left_out)


CATEGORIES: Mapping[Category, CategoryRule] = MappingProxyType({
    "arithmetic": CategoryRule(
        "the answer is a number or a short expression",
        ("exact_match", "f1"), _all_but("extract_code_block", "extract_letter"),
    ),
    "mcq": CategoryRule(
        "multiple choice: the one target is a letter A-E",
        ("exact_match",), _all_but("extract_code_block"),
    ),
    "code_exec": CategoryRule(
        "the answer is a Python program; the targets are expressions or test code that run against it",
        ("code_exec",), ("none", "extract_code_block"),
    ),
    "classification": CategoryRule(
        "the answer is one of a few labels",
        ("exact_match", "accuracy", "f1"), _all_but("extract_code_block"),
    ),
    "summary": CategoryRule(
        "the answer is a text of a sentence or more",
        ("exact_match", "f1", "bleu_4", "rouge_l"), _all_but("extract_code_block", "extract_letter"),
    ),
})  # fmt: skip

CODE_METADATA: Mapping[str, str] = MappingProxyType({
    "timeout_s": "seconds for all assertions of the task together",
    "setup_code": "trusted helper code that only the tests see",
    "solution": "a right answer, given by the mock models",
    "completes_prompt": "true: the candidate is the prompt, a newline and the answer",
})  # fmt: skip

MARKERS = ("question:", "q:", "example:")
