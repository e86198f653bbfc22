"""Real data through the command line alone, no Python written: GSM8K as data, HumanEval as a suite."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doors.conftest import Answer

ROOT = Path(__file__).parent.parent.parent
PROBLEMS = 164
QUESTIONS = 1319
# of the published outputs, known right: tests/runs/test_gsm8k.py
RIGHT = {"6b_finetuning": 286, "175b_verification": 742}


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


@pytest.mark.parametrize("n", [20, pytest.param(PROBLEMS, marks=pytest.mark.slow)])
def test_every_canonical_solution_of_humaneval_scores_1(
    command: Callable[..., Answer], humaneval: Path, tmp_path: Path, n: int
) -> None:
    assert command("validate", humaneval).stdout == "valid: 1 task\n"
    shown = command("preview", humaneval, "--samples", 1)
    assert "def has_close_elements(" in shown.stdout
    assert f"{PROBLEMS} samples" in shown.stdout

    model = ("-m", f"replay/{tmp_path / 'canonical.jsonl'}", "--no-progress")
    answer = command("run", humaneval, *model, "--allow-unsandboxed", "--out", tmp_path / "run", "--fail-under", 1.0,
                     "--max-samples-per-task", n)  # fmt: skip
    assert answer.status == 0, answer.stderr
    assert answer.stdout.splitlines()[2].startswith("| 1 | canonical | 1.000 |")
    envelope = json.loads(command("runs", "show", tmp_path / "run", "--json").stdout)
    assert envelope["leaderboard"][0]["mean_score"] == 1.0
    assert envelope["summary"]["fates"] == {"scored": n}


@pytest.fixture
def solutions(shared_data: Path, write_jsonl: Callable[..., Path]) -> Path:
    """The published outputs of two models on GSM8K, as stored outputs."""
    records = read_jsonl(shared_data / "gsm8k" / "example_model_solutions.jsonl")
    return write_jsonl(
        [
            {"model_id": model, "task_id": "test", "sample_index": index, "output_text": record[model]["solution"]}
            for model in RIGHT
            for index, record in enumerate(records)
        ],
        "solutions.jsonl",
    )


def test_gsm8k_as_data_from_validation_to_comparison(
    command: Callable[..., Answer], shared_data: Path, solutions: Path, tmp_path: Path
) -> None:
    data = shared_data / "gsm8k" / "test.jsonl"
    definition = ("--prompt", "{{question}}", "--targets", "{{answer}}", "--extract", "number", "--metric",
                  "numeric_match")  # fmt: skip
    assert command("validate", data, *definition).stdout == f"valid: 1 task, {QUESTIONS} samples\n"
    preview = json.loads(command("preview", data, *definition, "-m", f"replay/{solutions}", "--json").stdout)
    assert preview["totals"]["calls"] == QUESTIONS * len(RIGHT)
    assert preview["samples"][0]["prompt"].startswith("Janet")

    first = tmp_path / "first"
    answer = command("run", data, *definition, "-m", f"replay/{solutions}", "--no-progress", "--out", first)
    assert answer.status == 0, answer.stderr
    assert [line.split(" | ")[1:3] for line in answer.stdout.splitlines()[2:]] == [
        [model, f"{RIGHT[model] / QUESTIONS:.3f}"] for model in ("175b_verification", "6b_finetuning")
    ]
    again = command("resume", first, "--no-progress")  # nothing is left to call
    assert (again.status, again.stdout) == (0, answer.stdout)
    shown = json.loads(command("runs", "show", first, "--json").stdout)
    assert {row["model_id"]: round(row["mean_score"] * QUESTIONS) for row in shown["leaderboard"]} == RIGHT
    assert command("run", data, *definition, "-m", f"replay/{solutions}", "--no-progress", "--out", tmp_path / "low",
                   "--max-samples-per-task", 50, "--fail-under", 0.9).status == 1  # fmt: skip

    models = command("compare", first, first, "--models", "6b_finetuning=175b_verification", "--json")
    (difference,) = json.loads(models.stdout)["differences"]
    assert difference["n_fixed"] - difference["n_broken"] == RIGHT["175b_verification"] - RIGHT["6b_finetuning"]
    assert difference["diff_mean"] == pytest.approx(456 / QUESTIONS, abs=1e-12)

    # the first line holds no answer but by accident
    second = tmp_path / "second"
    scored = command("rescore", first, "--extract", "take_first=1", "--out", second)
    assert scored.status == 0, scored.stderr
    compared = command("compare", first, second, "--changes", 5)
    assert compared.status == 0
    assert "| broken |" in compared.stdout
    assert "not the same extraction in: test" in compared.stderr
    back = command("rescore", second, "--extract", "number", "--json")
    assert {
        row["model_id"]: round(row["mean_score"] * QUESTIONS) for row in json.loads(back.stdout)["leaderboard"]
    } == RIGHT
