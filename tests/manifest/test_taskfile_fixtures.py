"""The fixture tasks: ten that are right and use everything, and one bad line for everything that can be wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalframe.extractors.postprocess import post_process
from evalframe.manifest.taskfile import TaskRecord, validate_file
from evalframe.manifest.taskvocabulary import CATEGORIES, METRICS, POST_PROCESSES
from evalframe.metrics import score

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
TASKS = validate_file(FIXTURES / "tasks.jsonl")[0]
CODE_TASKS = [task for task in TASKS if task.category == "code_exec"]

# line of tasks_bad.jsonl -> the one rule that it breaks
BAD_LINES = {
    1: "bad_json", 2: "bad_json", 3: "bad_json", 4: "bad_json",
    5: "missing_required", 6: "missing_required", 7: "missing_required",
    8: "unknown_field", 9: "unknown_field",
    10: "bad_type", 11: "bad_type", 12: "bad_type", 13: "bad_type", 14: "bad_type", 15: "bad_type", 16: "bad_type",
    17: "bad_type",
    18: "bad_value", 19: "bad_value", 20: "bad_value", 21: "bad_value", 22: "bad_value", 23: "bad_value",
    24: "bad_value", 25: "bad_value", 26: "bad_value", 27: "bad_value", 28: "bad_value", 29: "bad_value",
    30: "illegal_pair", 31: "illegal_pair", 32: "illegal_pair", 33: "illegal_pair", 34: "illegal_pair",
    35: "embedded_few_shot", 36: "embedded_few_shot",
    37: "duplicate_task_id",
}  # fmt: skip
RULES = {
    "bad_json", "missing_required", "unknown_field", "bad_type", "bad_value", "illegal_pair", "duplicate_task_id",
    "embedded_few_shot",
}  # fmt: skip


def test_ten_tasks_use_every_word() -> None:
    assert validate_file(FIXTURES / "tasks.jsonl")[1] == []
    assert Counter(task.category for task in TASKS) == dict.fromkeys(CATEGORIES, 2)
    assert {task.metric_name for task in TASKS} == set(METRICS)
    assert {task.post_process for task in TASKS} == set(POST_PROCESSES)
    assert any(task.few_shot_examples for task in TASKS)
    assert any(not task.prompt.isascii() for task in TASKS)
    assert len({task.prompt for task in TASKS}) == 10


def test_the_code_tasks_show_the_whole_contract() -> None:
    assert all(task.metadata["solution"] for task in CODE_TASKS)
    assert any("timeout_s" in task.metadata and "setup_code" in task.metadata for task in CODE_TASKS)
    # test code, and expressions that are to be true
    assert {is_statement(target) for task in CODE_TASKS for target in task.targets} == {True, False}


def is_statement(target: str) -> bool:
    try:
        compile(target, "target", "eval")
    except SyntaxError:
        return True
    return False


@pytest.mark.parametrize("task", [task for task in TASKS if task.category != "code_exec"], ids=lambda t: t.task_id)
def test_the_first_target_comes_through_its_rule_with_full_marks(task: TaskRecord) -> None:
    answer = post_process(task.targets[0], task.post_process)
    assert answer is not None
    assert score(task.metric_name, answer, list(task.targets)) == 1.0
    assert answer == answer.strip()


@pytest.mark.parametrize("task", CODE_TASKS, ids=lambda t: t.task_id)
@pytest.mark.parametrize("fenced", [False, True])
def test_the_solution_passes_all_of_its_tests(task: TaskRecord, fenced: bool) -> None:
    solution = task.metadata["solution"]
    if fenced and task.post_process == "extract_code_block":
        solution = f"Sure, here it is.\n\n```python\n{solution}```\nAsk if it is not clear."
    code = post_process(solution, task.post_process)
    assert code is not None
    assert failures(code, task) == []


@pytest.mark.parametrize("task", CODE_TASKS, ids=lambda t: t.task_id)
def test_a_wrong_answer_fails_a_test(task: TaskRecord) -> None:
    name = task.targets[-1].split("(")[0].split()[-1] if task.task_id == "code_001" else "encode_runs"
    assert failures(f"def {name}(value):\n    return value\n", task) != []


def failures(code: str, task: TaskRecord) -> list[str]:
    names: dict[str, Any] = {}
    exec(task.metadata.get("setup_code", ""), names)
    exec(code, names)
    failed = []
    for target in task.targets:
        try:
            if is_statement(target):
                exec(target, names)
            else:
                assert eval(target, names) is True
        except AssertionError:
            failed.append(target)
    return failed


def test_every_bad_line_breaks_exactly_its_rule() -> None:
    path = FIXTURES / "tasks_bad.jsonl"
    records, faults = validate_file(path)
    assert records == []
    assert {fault.line_number: fault.rule for fault in faults} == BAD_LINES
    assert len(faults) == len(BAD_LINES) == len(path.read_text(encoding="utf-8").splitlines())
    assert set(BAD_LINES.values()) == RULES


def test_a_bad_line_is_named_for_what_is_wrong() -> None:
    _, faults = validate_file(FIXTURES / "tasks_bad.jsonl")
    for fault in faults:
        if fault.task_id and fault.rule != "duplicate_task_id":
            assert set(fault.rule.split("_")) & set(fault.task_id.replace(" ", "_").split("_"))


def test_the_readme_tells_of_every_task() -> None:
    told = (FIXTURES / "README.md").read_text(encoding="utf-8")
    for task in TASKS:
        assert f"| `{task.task_id}` | `{task.metric_name}` | `{task.post_process}` |" in told


def test_the_lines_are_json_as_json_writes_it() -> None:
    for line in (FIXTURES / "tasks.jsonl").read_text(encoding="utf-8").splitlines():
        assert json.dumps(json.loads(line), ensure_ascii=False) == line
