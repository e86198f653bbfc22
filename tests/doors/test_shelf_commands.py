"""runs list, show and prune, rescore and compare, on runs that were made by the command line alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import evalframe as ef
from tests.doors.conftest import Answer

RUN = ("run", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--no-progress")


@pytest.fixture
def made(command: Callable[..., Answer], root: Path, tmp_path: Path) -> Path:
    """A folder of two runs: `first`, and `second` scored by another extraction."""
    assert command(*RUN, "--out", tmp_path / "first").status == 0
    answer = command("rescore", tmp_path / "first", "--extract", r"regex=(\d+)", "--out", tmp_path / "second")
    assert answer.status == 0, answer
    return tmp_path


def rows_of(table: str) -> list[list[str]]:
    """The cells of a markdown table, its head first."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for i, line in enumerate(lines) if i != 1]


def test_a_list_names_each_run_with_what_is_in_it(command: Callable[..., Answer], made: Path) -> None:
    head, newest, oldest = rows_of(command("runs", "list", "--in", made).stdout)
    assert head == ["Run", "Status", "Begun (UTC)", "Tasks", "Models", "Calls", "Size", "Folder"]
    assert newest[1] == oldest[1] == "complete"
    assert newest[3:6] == ["word_problems", "careful, hasty", "40"]
    assert {newest[7], oldest[7]} == {str(made / "first"), str(made / "second")}
    listed = json.loads(command("runs", "list", "--in", made, "--json").stdout)["runs"]
    assert sorted(Path(run["path"]).name for run in listed) == ["first", "second"]


def test_runs_that_name_no_folder_are_found_by_id(command: Callable[..., Answer], root: Path) -> None:
    assert command(*RUN).status == 0
    (run,) = json.loads(command("runs", "list", "--json").stdout)["runs"]
    for name in (run["run_id"], run["run_id"][:8], run["path"]):
        shown = command("runs", "show", name)
        assert shown.status == 0
        assert "| 1 | careful | 1.000 |" in shown.stdout
        assert f"next: evalframe compare {run['path']} OTHER_RUN" in shown.stderr
    envelope = json.loads(command("resume", run["run_id"], "--json", "--no-progress").stdout)
    assert envelope["run"]["run_id"] == run["run_id"]
    assert command("rescore", run["run_id"], "--metric", "exact_match").status == 0
    assert len(json.loads(command("runs", "list", "--json").stdout)["runs"]) == 2


def test_a_grader_scores_the_replies_of_a_run_anew(command: Callable[..., Answer], made: Path) -> None:
    (made / "long.py").write_text("def grade(sample, item):\n    return len(sample['output_text']) > 1\n")
    answer = command("rescore", made / "first", "--grader", made / "long.py", "--allow-unsandboxed", "--json")
    assert answer.status == 0, answer
    # a reply of which no answer was read is the grader's to score
    assert json.loads(answer.stdout)["summary"]["fates"] == {"scored": 40}
    missing = command("rescore", made / "first", "--grader", made / "none.py")
    assert missing.status == 2
    assert "there is no file" in missing.stderr


def test_showing_a_run_says_what_is_not_scored_and_what_is_next(command: Callable[..., Answer], made: Path) -> None:
    shown = command("runs", "show", "first", "--in", made)
    assert shown.status == 0
    assert "1 task, 20 samples, 2 models, 40 calls" in shown.stderr
    assert "not scored: 1 call; see evalframe.load(" in shown.stderr
    assert "next: evalframe rescore" in shown.stderr
    assert "scored anew from run" in command("runs", "show", made / "second").stderr
    envelope = json.loads(command("runs", "show", made / "first", "--json").stdout)
    assert envelope["leaderboard"] == ef.load(made / "first").envelope()["leaderboard"]


def test_showing_a_run_says_whether_its_models_differ(command: Callable[..., Answer], made: Path) -> None:
    pair = ef.load(made / "first").pairwise().row(0, named=True)
    _, table = command("runs", "show", made / "first").stdout.split("\n\n")
    head, cells = rows_of(table)
    assert head == ["Model A", "Model B", "A - B", "95% CI", "p", "p, Holm", "Pairs", "Detectable from"]
    low, high = f"{pair['ci_lo']:.3f}", f"{pair['ci_hi']:.3f}"
    assert cells[:4] == ["careful", "hasty", f"{pair['diff_mean']:.3f}", f"{low} to {high}"]
    assert cells[4:] == ["0.002", "0.002", "20", f"{pair['min_detectable']:.3f}"]


def test_pruning_lists_first_and_removes_when_told(command: Callable[..., Answer], made: Path) -> None:
    (made / "thesis").mkdir()
    listed = command("runs", "prune", "--in", made, "--keep", 1)
    assert listed.status == 0
    assert len(rows_of(listed.stdout)) == 2
    assert "1 run, " in listed.stderr
    assert "would go; nothing was removed: add --yes" in listed.stderr
    assert {path.name for path in made.iterdir()} == {"first", "second", "thesis"}
    assert len(json.loads(command("runs", "prune", "--in", made, "--keep", 1, "--json").stdout)["would_go"]) == 1
    nothing = command("runs", "prune", "--in", made, "--older-than", 3, "--yes")
    assert "removed 0 runs" in nothing.stderr
    gone = json.loads(command("runs", "prune", "--in", made, "--keep", 0, "--yes", "--json").stdout)
    assert len(gone["removed"]) == 2
    assert {path.name for path in made.iterdir()} == {"thesis"}


def test_pruning_keeps_runs_with_files_of_somebody_else(command: Callable[..., Answer], made: Path) -> None:
    (made / "first" / "notes.txt").write_text("mine")
    for more, rest in (((), "1 run, "), (("--yes",), "removed 1 run, ")):
        answer = command("runs", "prune", "--in", made, "--keep", 0, *more)
        assert f"kept: {made / 'first'} holds notes.txt, which no run wrote; move it away" in answer.stderr
        assert rest in answer.stderr
        assert len(rows_of(answer.stdout)) == 2
    assert (made / "first" / "notes.txt").read_text() == "mine"
    assert {path.name for path in made.iterdir()} == {"first"}


def test_pruning_keeps_what_another_process_holds(command: Callable[..., Answer], made: Path) -> None:
    with ef.load(made / "first").folder.locked():
        answer = command("runs", "prune", "--in", made, "--keep", 0, "--yes")
    assert "kept: " in answer.stderr
    assert "another process is writing this run; wait for it to end" in answer.stderr
    assert {path.name for path in made.iterdir()} == {"first"}


def test_comparing_shows_the_difference_and_what_changed(command: Callable[..., Answer], made: Path) -> None:
    answer = command("compare", made / "first", made / "second", "--changes", 3)
    assert answer.status == 0
    differences, changed = answer.stdout.split("\n\n")
    head, careful, hasty = rows_of(differences)
    there = ef.load(made / "first").differences(ef.load(made / "second"))
    for cells, row in zip((careful, hasty), there.to_dicts(), strict=True):
        shown = dict(zip(head, cells, strict=True))
        assert shown["Model"] == row["model_a"]
        assert float(shown["B - A"]) == pytest.approx(row["diff_mean"], abs=5e-4)
        assert (int(shown["Fixed"]), int(shown["Broken"])) == (row["n_fixed"], row["n_broken"])
    assert rows_of(changed)[0] == ["Model", "Sample", "Change", "Answer A", "Answer B", "Target", "Score A", "Score B"]
    assert rows_of(changed)[1] == ["careful", "q01", "broken", "22", "4", "22", "1.000", "0.000"]
    assert len(rows_of(changed)) == 4
    assert "more changed samples; --changes" in answer.stderr
    assert "not the same extraction in: word_problems" in answer.stderr
    whole = json.loads(command("compare", made / "first", made / "second", "--json").stdout)
    assert len(whole["changed"]) == there["n_broken"].sum() + there["n_fixed"].sum()
    assert [row["model_a"] for row in whole["differences"]] == ["careful", "hasty"]


def test_comparing_two_models_of_one_run(command: Callable[..., Answer], made: Path) -> None:
    answer = command("compare", made / "first", made / "first", "--models", "careful=hasty")
    assert "| careful | hasty |" in answer.stdout
    same = command("compare", made / "first", made / "first")
    assert "no sample changed" in same.stderr
    assert len(rows_of(same.stdout)) == 3
    wrong = command("compare", made / "first", made / "first", "--models", "careful=hast")
    assert (wrong.status, "did you mean 'hasty'?" in wrong.stderr) == (2, True)
    assert command("compare", made / "first", made / "first", "--models", "careful").status == 2
    assert "write how many" in command("compare", made / "first", made / "first", "--changes", -1).stderr


def test_runs_of_other_data_are_not_compared(command: Callable[..., Answer], made: Path, root: Path) -> None:
    manifest = json.loads((root / "fixtures" / "suite.json").read_text())
    manifest["tasks"][0]["prompt_template"] = "{{question}}"
    (made / "other.json").write_text(json.dumps(manifest))
    other = command("run", made / "other.json", "-m", "replay/fixtures/outputs.jsonl", "--no-progress", "--out",
                    made / "third", "--files", "questions.jsonl=fixtures/questions.jsonl")  # fmt: skip
    assert other.status == 0
    answer = command("compare", made / "first", made / "third")
    assert answer.status == 2
    assert "VersionMismatch" in answer.stderr
    assert "prompt" in answer.stderr


def test_rescoring_takes_a_manifest_and_the_bar(command: Callable[..., Answer], made: Path, root: Path) -> None:
    manifest = json.loads((root / "fixtures" / "suite.json").read_text())
    manifest["tasks"][0]["output_extraction"] = {"type": "regex", "pattern": r"(\d+)"}
    (made / "changed.json").write_text(json.dumps(manifest))
    answer = command("rescore", made / "first", "--manifest", made / "changed.json", "--out", made / "fourth",
                     "--fail-under", 0.5)  # fmt: skip
    assert answer.status == 1
    assert "is below 0.5" in answer.stderr
    again = json.loads(command("rescore", made / "first", "--metric", "exact_match", "--metric", "f1", "--json").stdout)
    assert [row["model_id"] for row in again["leaderboard"]] == ["careful", "hasty"]
    nothing = command("rescore", made / "first")
    assert nothing.status == 2
    assert "give --manifest FILE, --extract TYPE, --metric ID or --grader FILE" in nothing.stderr
    wrong = command("rescore", made / "first", "--metric", "exactmatch")
    assert (wrong.status, "did you mean 'exact_match'" in wrong.stderr) == (2, True)
