"""`evalframe run`: every option that a shell can say reaches the run; slices; and how a run that failed ends."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import evalframe as ef
from evalframe.cli import answering
from evalframe.options import RunOptions
from tests.doors.conftest import Answer

RUN = ("run", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--no-progress")

# options that a shell can not say, or says by another word
ELSEWHERE = {"task_ids": "--task", "limits": "--limit", "reasoning_tags": "--reasoning-tag", "metrics": "--metric",
             "parallel": "--parallel", "prices": "--price"}  # fmt: skip


def test_every_option_of_a_run_has_a_flag(command: Callable[..., Answer]) -> None:
    shown = command("run", "--help").stdout
    for field in dataclasses.fields(RunOptions):
        flag = ELSEWHERE.get(field.name, "--" + field.name.replace("_", "-"))
        assert f"{flag} " in shown, field.name


def test_options_reach_the_run(command: Callable[..., Answer], root: Path, tmp_path: Path) -> None:
    answer = command(
        *RUN, "--out", tmp_path / "r", "--task", "word_problems", "--max-samples-per-task", 3, "--repeats",
        "word_problems=2", "--concurrency", 4, "--sequential", "--seed", 7, "--sample-ids", "content", "--on-missing",
        "error", "--allow-bad-tasks", "--allow-unsandboxed", "--sandbox", "auto", "--reasoning-tag", "thought",
        "--reasoning-tag", "plan", "--limit", "n_resamples=500", "--limit", "regex_seconds_per_text=0.5", "--metadata",
        "commit=3f2a", "--generation", '{"temperature": 0.5}',
    )  # fmt: skip
    assert answer.status == 1, answer  # the stored outputs have other sample ids
    assert "12 calls failed" in answer.stderr
    run = ef.load(tmp_path / "r")
    options = run.record["options"]
    assert options["task_ids"] == ["word_problems"]
    assert (options["max_samples_per_task"], options["repeats"]) == (3, {"word_problems": 2})
    assert (options["concurrency"], options["parallel"], options["seed"]) == (4, False, 7)
    assert (options["sample_ids"], options["on_missing"], options["sandbox"]) == ("content", "error", "auto")
    assert options["allow_bad_tasks"]
    assert options["allow_unsandboxed"]
    assert options["reasoning_tags"] == ["thought", "plan"]
    assert options["limits"] == {"n_resamples": 500, "regex_seconds_per_text": 0.5}
    assert run.record["metadata"] == {"commit": "3f2a"}
    assert run.record["generation"]["temperature"] == 0.5
    assert run.generations.height == 12


def test_no_reasoning_tag_and_settings_from_a_file(command: Callable[..., Answer], root: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"generation": {"top_p": 0.9}}')
    answer = command(*RUN, "--out", tmp_path / "r", "--reasoning-tag", "none", "--generation",
                     tmp_path / "settings.json", "--repeats", 1)  # fmt: skip
    assert answer.status == 0
    record = ef.load(tmp_path / "r").record
    assert record["options"]["reasoning_tags"] == []
    assert record["generation"]["top_p"] == 0.9


def test_by_prints_the_ranks_of_each_group_too(command: Callable[..., Answer], root: Path, tmp_path: Path) -> None:
    answer = command(*RUN, "--out", tmp_path / "r", "--by", "row.subject", "--by", "category")
    assert answer.status == 0
    board, subjects, categories = answer.stdout.split("\n\n")
    assert board.startswith("| Rank | Model | Mean |")
    assert categories.startswith("| category | Rank | Model | Units | Mean | 95% CI |")
    there = ef.load(tmp_path / "r").slice("row.subject")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in subjects.splitlines()[2:]]
    assert len(rows) == there.height
    for cells, row in zip(rows, there.to_dicts(), strict=True):
        assert cells[:5] == [row["by.row.subject"], str(row["rank"]), row["model_id"], str(row["n_units"]),
                             f"{row['mean_score']:.3f}"]  # fmt: skip
    envelope = json.loads(command(*RUN, "--by", "row.subject", "--json").stdout)
    assert envelope["slices"]["row.subject"] == there.to_dicts()


@pytest.mark.parametrize("name", ["row.subjekt", "subject", "metadata.sourc"])
def test_a_group_that_is_nowhere_is_told_before_any_call(
    command: Callable[..., Answer], root: Path, tmp_path: Path, name: str
) -> None:
    answer = command(*RUN, "--out", tmp_path / "r", "--by", "category", "--by", name)
    assert answer.status == 2
    assert "did you mean" in answer.stderr
    assert not (tmp_path / "r").exists()


def test_groups_of_calls_and_of_scores_are_known_before_any_call(
    command: Callable[..., Answer], root: Path, tmp_path: Path
) -> None:
    names = ("finish_reason", "score.numeric_match", "extraction_status", "repeat", "row.subject")
    answer = command(*RUN, "--out", tmp_path / "r", *(word for name in names for word in ("--by", name)))
    assert answer.status == 0, answer.stderr
    shown = command("runs", "show", tmp_path / "r", *(word for name in names for word in ("--by", name)))
    assert shown.stdout.startswith(answer.stdout)
    envelope = json.loads(command("runs", "show", tmp_path / "r", "--by", "row.subject", "--json").stdout)
    assert envelope["slices"]["row.subject"] == ef.load(tmp_path / "r").slice("row.subject").to_dicts()


def test_an_empty_prompt_is_refused(command: Callable[..., Answer], root: Path) -> None:
    answer = command("run", "fixtures/questions.jsonl", "-m", "mock/noisy", "--prompt", "", "--metric", "exact_match")
    assert answer.status == 2
    assert "--prompt: is empty, and every call would be sent an empty text; write a template" in answer.stderr


def test_calls_that_failed_are_told_with_the_reason(command: Callable[..., Answer], root: Path, tmp_path: Path) -> None:
    answer = command(*RUN, "--repeats", 2, "--out", tmp_path / "r")
    assert answer.status == 1
    assert "40 calls failed: missing_output (40)" in answer.stderr


def test_a_line_break_that_the_shell_did_not_make_is_told(
    command: Callable[..., Answer], root: Path, write_jsonl: Callable[..., Path]
) -> None:
    data = write_jsonl([{"q": "1 + 1", "a": "2"}], "sums.jsonl")
    words = ("preview", data, "--targets", "a", "--metric", "exact_match", "--prompt")
    told = (
        "note: --prompt has \\n as two characters, which stay as they are; a shell writes a line break as --prompt $'"
    )
    assert told in command(*words, r"Q: {{q}}\nA:").stderr
    assert "two characters" not in command(*words, "Q: {{q}}\nA:").stderr


def test_a_run_without_any_reply_ends_with_1_and_says_why(
    command: Callable[..., Answer], root: Path, write_jsonl: Callable[..., Path]
) -> None:
    outputs = write_jsonl([{"model_id": "m", "task_id": "other", "sample_id": "q01", "output_text": "1"}])
    answer = command("run", "fixtures/suite.json", "-m", f"replay/{outputs}", "--no-progress", "--json")
    assert answer.status == 1
    assert "20 calls failed" in answer.stderr
    assert "no call of any model was answered: missing_output (20); see evalframe runs show" in answer.stderr
    envelope = json.loads(answer.stdout)
    assert envelope["leaderboard"][0]["mean_score"] is None
    assert envelope["summary"]["status"] == {"failed": 20}
    shown = command("runs", "show", envelope["run"]["run_id"])
    assert shown.status == 0
    assert ".rerun_failed() in Python makes the failed calls again" in shown.stderr


@pytest.mark.parametrize(
    ("calls", "lost"),
    [
        ([("a", "skipped", "unauthorized"), ("b", "failed", "timeout"), ("b", "skipped", "unavailable")],
         ["a (unauthorized)", "b (unavailable)"]),
        ([("a", "skipped", "unauthorized"), ("b", "failed", "timeout")], []),
        ([("a", "skipped", "unauthorized"), ("b", "completed", None)], []),
        ([("a", "completed", None), ("a", "skipped", "unavailable")], []),
        ([("a", "skipped", "interrupted")], []),
        ([], []),
    ],
)  # fmt: skip
def test_every_model_given_up_is_a_run_time_error(calls: list[tuple[str, str, str | None]], lost: list[str]) -> None:
    schema = {"model_id": pl.String, "status": pl.String, "error_type": pl.String}

    class Done:
        def scan(self, name: str) -> pl.LazyFrame:
            assert name == "generations"
            return pl.LazyFrame(calls, schema=schema, orient="row")

    assert answering.given_up(Done()) == lost  # type: ignore[arg-type]


def test_such_a_run_ends_with_3_and_an_envelope_of_empty_lists(
    command: Callable[..., Answer], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "given_up", lambda done: ["m (unauthorized)"])
    answer = command(*RUN, "--json")
    assert answer.status == 3
    envelope = json.loads(answer.stdout)
    assert (envelope["leaderboard"], envelope["pairwise"]) == ([], [])
    assert envelope["error"]["type"] == "models_given_up"
    assert "m (unauthorized)" in envelope["error"]["message"]
    assert envelope["run"]["run_id"]
