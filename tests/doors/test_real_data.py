"""Real data through the command line alone, no Python written: HumanEval as a suite in the test's folder."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doors.conftest import Answer

ROOT = Path(__file__).parent.parent.parent
PROBLEMS = 164


def read_jsonl(path: Path) -> list[dict[str, object]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.decode().splitlines()]


@pytest.fixture
def humaneval(shared_data: Path, tmp_path: Path, write_jsonl: Callable[..., Path]) -> Path:
    """A suite of HumanEval beside its data, and the canonical solutions as stored outputs."""
    problems = read_jsonl(shared_data / "humaneval" / "HumanEval.jsonl.gz")
    (tmp_path / "HumanEval.jsonl.gz").write_bytes((shared_data / "humaneval" / "HumanEval.jsonl.gz").read_bytes())
    write_jsonl(
        [
            {"model_id": "canonical", "task_id": "humaneval", "sample_id": problem["task_id"],
             "output_text": problem["canonical_solution"]}
            for problem in problems
        ],
        "canonical.jsonl",
    )  # fmt: skip
    task = {
        "id": "humaneval",
        "type": "custom",
        "dataset": {"file_id": "HumanEval.jsonl.gz"},
        "prompt_template": "{{prompt}}",
        "target_template": "{{test}}",
        "metrics": [{"id": "code_exec"}],
        "metadata": {"completes_prompt": True, "timeout_s": 30},
    }
    suite = tmp_path / "humaneval.json"
    suite.write_text(json.dumps({"tasks": [task]}))
    return suite


def test_every_canonical_solution_of_humaneval_scores_1(
    command: Callable[..., Answer], humaneval: Path, tmp_path: Path
) -> None:
    assert command("validate", humaneval).stdout == "valid: 1 task\n"
    shown = command("preview", humaneval, "--samples", 1)
    assert "def has_close_elements(" in shown.stdout
    assert f"{PROBLEMS} samples" in shown.stdout

    model = ("-m", f"replay/{tmp_path / 'canonical.jsonl'}", "--no-progress")
    refused = command("run", humaneval, *model, "--out", tmp_path / "never")
    assert refused.status == 2
    assert "--allow-unsandboxed" in refused.stderr
    answer = command("run", humaneval, *model, "--allow-unsandboxed", "--out", tmp_path / "run", "--fail-under", 1.0)
    assert answer.status == 0, answer.stderr
    assert answer.stdout.splitlines()[2].startswith("| 1 | canonical | 1.000 |")
    envelope = json.loads(command("runs", "show", tmp_path / "run", "--json").stdout)
    assert envelope["leaderboard"][0]["mean_score"] == 1.0
    assert envelope["summary"]["fates"] == {"scored": PROBLEMS}
