"""Preprocessors from a shell: flags reach the run and the preview; a failed task is told, with status 1 or 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doors.conftest import Answer

TASK = {"type": "qa", "dataset": {"file_id": "rows.jsonl"}, "prompt_template": "{{q}}", "target_template": "{{a}}",
        "metrics": [{"id": "exact_match"}]}  # fmt: skip


@pytest.fixture
def manifest(tmp_path: Path, write_jsonl: Callable[..., Path]) -> Path:
    """A suite whose first task needs a field that no row has, by a preprocessor in a file beside it."""
    write_jsonl([{"q": f"{n} + 1 =", "a": n + 1} for n in range(3)])
    (tmp_path / "prepare.py").write_text("def transform(row):\n    return {**row, 'q': row['query']}\n")
    tasks = [{**TASK, "id": "bad", "preprocess": {"file_id": "prepare.py"}}, {**TASK, "id": "good"}]
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return path


def test_a_failed_preprocessor_ends_the_run_before_it_begins(
    command: Callable[..., Answer], manifest: Path, tmp_path: Path
) -> None:
    answer = command("run", manifest, "-m", "mock/rule_based", "--allow-unsandboxed", "--out", tmp_path / "r")
    assert answer.status == 2
    lines = answer.stderr.splitlines()
    assert lines[0].endswith("correct it, or run the other tasks: --skip-failed-tasks: 3 faults")
    assert lines[1] == "  task bad: rows[0] (line 1): KeyError: 'query'"
    assert '        File "prepare.py", line 2, in transform' in lines
    assert not (tmp_path / "r").exists()
    told = json.loads(command("run", manifest, "-m", "mock/rule_based", "--allow-unsandboxed", "--json").stdout)
    assert told["error"]["type"] == "PreprocessError"
    assert [fault["rule"] for fault in told["error"]["details"]] == ["raised"] * 3


def test_the_other_tasks_can_be_run_and_the_status_says_that_one_is_missing(
    command: Callable[..., Answer], manifest: Path, tmp_path: Path
) -> None:
    answer = command("run", manifest, "-m", "mock/rule_based", "--allow-unsandboxed", "--skip-failed-tasks",
                     "--no-progress", "--out", tmp_path / "r")  # fmt: skip
    assert answer.status == 1
    assert "| 1 | mock/rule_based |" in answer.stdout
    assert "warning: task bad is left out, because its preprocessor failed: KeyError: 'query'" in answer.stderr
    assert (
        "1 bad task left out\ntask bad: rows[0] (line 1): KeyError: 'query' (and 2 more of its rows)" in answer.stderr
    )


def test_a_preview_prepares_the_rows_too(command: Callable[..., Answer], manifest: Path, tmp_path: Path) -> None:
    assert command("preview", manifest, "--allow-unsandboxed").status == 2
    answer = command("preview", manifest, "--allow-unsandboxed", "--skip-failed-tasks", "--samples", 1)
    assert answer.status == 0
    assert "left out: task bad: rows[0] (line 1): KeyError: 'query'" in answer.stderr
    (tmp_path / "prepare.py").write_text("def transform(row):\n    return {**row, 'q': row['q'].upper() + ' ?'}\n")
    answer = command("preview", manifest, "--allow-unsandboxed", "--samples", 1)
    assert "\n    0 + 1 = ?\n" in answer.stdout
    assert "2 tasks, 6 samples" in answer.stdout


@pytest.mark.usefixtures("no_walls")
@pytest.mark.parametrize("name", ["run", "preview"])
def test_without_walls_the_flag_is_named(command: Callable[..., Answer], manifest: Path, name: str) -> None:
    answer = command(name, manifest, "-m", "mock/rule_based")
    assert answer.status == 2
    assert "SandboxError: Python preprocessors would run here with no wall but resource limits" in answer.stderr
    assert "pass --allow-unsandboxed" in answer.stderr


def test_validate_looks_at_the_text_of_a_file_beside_the_manifest(
    command: Callable[..., Answer], manifest: Path, tmp_path: Path
) -> None:
    assert command("validate", manifest).status == 0
    (tmp_path / "prepare.py").write_text("def transform(row) return row\n")
    answer = command("validate", manifest)
    assert answer.status == 2
    assert "tasks[0].preprocess.file_id (prepare.py): line 1, column 20" in answer.stderr
    (tmp_path / "prepare.py").unlink()
    answer = command("validate", manifest)
    assert answer.status == 0
    assert (
        "note: tasks[0].preprocess.file_id: its text was not looked at: there is no file 'prepare.py'" in answer.stderr
    )
