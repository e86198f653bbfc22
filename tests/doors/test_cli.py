"""The command line: results on stdout, the rest on stderr, exit statuses, no traceback."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

import evalframe as ef
from evalframe.cli import COMMANDS, GROUPS, app
from tests.doors.conftest import Answer, answer_of

ROOT = Path(__file__).parent.parent.parent


def evalframe(*arguments: object, status: int = 0) -> Answer:
    """Run one command in the project's folder and hold it to its status."""
    with contextlib.chdir(ROOT):
        answer = answer_of(*arguments)
    assert "Traceback" not in answer.stderr
    assert answer.status == status, answer
    return answer


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "evalframe", "validate", "fixtures/suite.json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "valid: 1 task\n", "")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, Path]:
    out = tmp_path_factory.mktemp("demo") / "results"
    return evalframe("demo", "--out", out), out


def test_the_demo_shows_a_table_and_writes_files(demo: tuple[Answer, Path]) -> None:
    done, out = demo
    assert done.stdout.startswith("| Rank | Model | Mean | 95% CI | Win rate | Tasks | ECE | Brier |")
    assert done.stdout.splitlines()[2].startswith("| 1 | mock/rule_based | 1.000 |")
    envelope = json.loads((out / "envelope.json").read_text())
    assert envelope["summary"]["tasks"] == 10
    assert envelope["summary"]["task_runs"] == 30
    assert {"leaderboard", "pairwise", "calibration", "perplexity", "summary"} <= set(envelope)
    assert ef.load(out).scores.height == 30


def test_the_demo_replaces_its_own_results_and_nothing_else(tmp_path: Path) -> None:
    evalframe("demo", "--out", tmp_path / "d", "--json")
    envelope = json.loads(evalframe("demo", "--out", tmp_path / "d", "--json").stdout)
    assert envelope["leaderboard"][0]["model_id"] == "mock/rule_based"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = evalframe("demo", "--out", tmp_path / "mine", status=2)
    assert "holds something that is no demonstration" in done.stderr
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_run_prints_the_table_and_keeps_the_run(tmp_path: Path) -> None:
    done = evalframe(
        "run", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--out", tmp_path / "r", "--no-progress"
    )
    assert "| 1 | careful | 1.000 |" in done.stdout
    assert str(tmp_path / "r") in done.stderr
    assert ef.load(tmp_path / "r").leaderboard()["model_id"].to_list() == ["careful", "hasty"]


def test_json_is_one_envelope_at_every_status(tmp_path: Path) -> None:
    good = evalframe("run", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--json", "--no-progress",
                     "--out", tmp_path / "r")  # fmt: skip
    assert json.loads(good.stdout)["leaderboard"][0]["mean_score"] == 1.0
    bad = json.loads(evalframe("run", "nowhere.json", "-m", "mock/noisy", "--json", status=2).stdout)
    assert bad["leaderboard"] == []
    assert bad["error"]["type"] == "OptionError"
    assert bad["error"]["details"][0]["where"] == "nowhere.json"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "fixtures/suite.json", "-m", "gpt"], "'gpt' names no adapter; write one of anthropic/…"),
        (["run", "fixtures/suite.json", "-m", "mok/x"], "there is no model adapter 'mok'; did you mean 'mock'?"),
        (["run", "fixtures/suite.json", "-m", "mock/rule"], "mock/rule_based"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "-m", "mock/noisy"], "'mock/noisy' stands twice"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--concurrency", "99"], "out of range (1 to 25)"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--task", "word_problem"], "did you mean 'word_problems'?"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--files", "x"], "write ID=PATH"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--generation", "{x"], "--generation: column 2"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--generation", '{"temprature": 1}'], "temperature"),
        (["run", "fixtures/suite.json", "-m", "replay/none.parquet"], "none.parquet"),
        (["run", "fixtures", "-m", "mock/noisy"], "is a folder"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--generation", "none.json"], "no file of one"),
        (["run", "fixtures/suite.json", "-m", "mock/noisy", "--fail-under", "nan"], "no score can be below it"),
        (["run", "fixtures/suite.json", "-m", "replay/fixtures/questions.jsonl"], "models[0]: stored outputs of"),
        (["run", "fixtures/suite.json", "fixtures/tasks.jsonl", "-m", "mock/noisy"], "one suite alone"),
        (["run", "README.md", "-m", "mock/noisy"], "is no source by its name; give a suite (.json)"),
        (["validate", "fixtures/tasks_bad.jsonl"], "fixtures/tasks_bad.jsonl:1"),
        (["resume", "nowhere-at-all"], "holds no run"),
        (["files", "add", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_a_mistake_gets_a_line_that_says_what_to_do(
    command: Callable[..., Answer], root: Path, arguments: list[str], says: str
) -> None:
    answer = command(*arguments)
    assert answer.status == 2
    assert says in answer.stderr


def test_a_wrong_command_line_gets_an_envelope_too(command: Callable[..., Answer]) -> None:
    for arguments in (["run", "fixtures/suite.json", "--json"], ["run", "--repeats", "x", "--json"]):
        answer = command(*arguments)
        assert answer.status == 2
        envelope = json.loads(answer.stdout)
        assert envelope["leaderboard"] == []
        assert envelope["error"]["message"]


def test_twelve_faults_print_twelve_lines(tmp_path: Path) -> None:
    manifest = {
        "schema_version": "2025-01-01",
        "taks": [],
        "metadata": {"k" * 65: "v", "long": "x" * 600},
        "tasks": [
            {
                "id": "a b",
                "type": "quiz",
                "dataset": {"file_id": "f", "path": "org/x", "format": "tsv"},
                "promt_template": "{{q}}",
                "output_extraction": {"type": "regex", "pattern": "(", "flags": "q"},
                "metrics": [{"id": "exactmatch", "aggregation": "median"}],
            }
        ],
    }
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(manifest))
    lines = evalframe("validate", path, status=2).stderr.splitlines()[1:]
    assert len(lines) >= 12
    for place in (
        "schema_version", "taks", "metadata", "tasks[0].id", "tasks[0].type", "tasks[0].dataset",
        "tasks[0].dataset.format", "tasks[0].promt_template", "tasks[0].output_extraction.pattern",
        "tasks[0].output_extraction.flags", "tasks[0].metrics[0].id", "tasks[0].metrics[0].aggregation",
    ):  # fmt: skip
        assert any(line.strip().startswith(place) for line in lines), place


def test_a_bad_data_line_names_file_line_and_column(tmp_path: Path, write_jsonl: Callable[..., Path]) -> None:
    data = write_jsonl(['{"question": "1?", "answer": "1"}', '{"question": "2?", "answer": NaN}'])
    suite = json.loads((ROOT / "fixtures" / "suite.json").read_text())
    suite["tasks"][0]["dataset"]["file_id"] = data.name
    (data.parent / "suite.json").write_text(json.dumps(suite))
    error = evalframe("run", data.parent / "suite.json", "-m", "mock/noisy", status=2).stderr
    assert "rows.jsonl:2:30" in error
    assert "NaN is not JSON; write null" in error


def test_failed_samples_and_low_scores_end_with_1(tmp_path: Path, write_jsonl: Callable[..., Path]) -> None:
    outputs = [
        {"model_id": "m", "task_id": "word_problems", "sample_id": f"q{i:02}", "output_text": "1"} for i in range(1, 20)
    ]
    path = write_jsonl(outputs, "outputs.jsonl")
    run = ["run", "fixtures/suite.json", "-m", f"replay/{path}", "--no-progress"]
    done = evalframe(*run, "--out", tmp_path / "a", status=1)
    assert "1 call failed" in done.stderr
    assert "| 1 | m |" in done.stdout
    good = ["run", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--no-progress"]
    low = evalframe(*good, "--out", tmp_path / "b", "--fail-under", 0.9, status=1)
    assert "hasty: mean score" in low.stderr
    evalframe(*good, "--out", tmp_path / "c", "--fail-under", 0.1)


def test_bad_tasks_stop_a_run_unless_allowed(tmp_path: Path, write_jsonl: Callable[..., Path]) -> None:
    good = {"task_id": "a", "category": "arithmetic", "prompt": "1 + 1 =", "targets": ["2"],
            "metric_name": "exact_match", "post_process": "strip_whitespace"}  # fmt: skip
    path = write_jsonl([good, {**good, "task_id": "b", "targets": []}], "tasks.jsonl")
    assert "tasks.jsonl:2 [b] targets" in evalframe("run", path, "-m", "mock/rule_based", status=2).stderr
    done = evalframe("run", path, "-m", "mock/rule_based", "--allow-bad-tasks", "--no-progress", "--json",
                     "--out", tmp_path / "r", status=1)  # fmt: skip
    envelope = json.loads(done.stdout)
    assert envelope["summary"]["bad_tasks"] == 1
    assert envelope["leaderboard"][0]["mean_score"] == 1.0


def test_what_is_not_built_is_one_error_before_anything_runs(tmp_path: Path) -> None:
    for name in ("belebele_ukrainian", "json_builder"):
        manifest = _published(name)
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(manifest))
        evalframe("validate", path)
        error = evalframe("run", path, "-m", "mock/noisy", "--out", tmp_path / "never", status=2).stderr
        assert "NotBuiltError" in error
        assert "tasks[0].dataset: data from the Hugging Face Hub is not loaded yet" in error
        assert not (tmp_path / "never").exists()


def _published(name: str) -> dict[str, Any]:
    """Two manifests of our own with the parts that this version does not run."""
    hub = {"path": "acme/quiz", "split": "test"}
    builder = {"path": "json", "data_files": "https://data.example.org/rows.jsonl"}
    grader = {"type": "python", "source": "def grade(sample, item):\n    return 1.0\n"}
    task = {"id": name, "type": "qa", "dataset": builder if name == "json_builder" else hub,
            "prompt_template": "{{q}}", "grader": grader}  # fmt: skip
    return {"tasks": [task]}


def test_schema_files_and_doctor(tmp_path: Path) -> None:
    schema = json.loads(evalframe("schema").stdout)
    assert schema["properties"]["tasks"]["maxItems"] == 100
    data = tmp_path / "q.jsonl"
    data.write_text('{"prompt": "Say 7"}\n')
    name = evalframe("files", "add", data).stdout.strip()
    assert name in evalframe("files", "list").stdout
    found = json.loads(evalframe("doctor", "--json").stdout)
    assert found["evalframe"] == ef.__version__
    assert "exact_match" in found["metrics"]
    assert "python:" in evalframe("doctor").stdout


ALL = [[name] for section in COMMANDS.values() for name in section]
ALL += [[group, name] for group, (members, _) in GROUPS.items() for name in members]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_says_what_a_command_does_and_gives_an_example(command: Callable[..., Answer], words: list[str]) -> None:
    answer = command(*words, "--help")
    assert answer.status == 0
    assert f"Usage: evalframe {' '.join(words)}" in answer.stdout
    (example,) = [line.strip() for line in answer.stdout.splitlines() if "Example:" in line]
    assert example.startswith(f"Example: evalframe {' '.join(words)}")
    options = answer.stdout.split("Options:")[1]
    assert "<list" not in options  # each value has a name
    assert "<str" not in options


def test_the_version_is_told(command: Callable[..., Answer]) -> None:
    assert command("--version").stdout == f"evalframe {ef.__version__}\n"


def test_a_fault_of_ours_is_no_ordinary_end(
    command: Callable[..., Answer], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("evalframe.runner.run", broken)
    answer = command("run", "fixtures/suite.json", "-m", "mock/noisy", "--json")
    assert answer.status == 3
    assert json.loads(answer.stdout)["error"]["type"] == "ZeroDivisionError"
    assert "please report it" in answer.stderr
    assert "Traceback" in answer.stderr  # of use to whom it is reported


def test_the_help_has_every_command_in_its_section_on_one_line(command: Callable[..., Answer]) -> None:
    shown = command("--help").stdout
    assert "..." not in shown.split("Evaluate:")[1]
    at = [shown.index(f"\n  {name} ") for section in COMMANDS.values() for name in section]
    assert at == sorted(at)
    for section in COMMANDS:
        assert f"\n{section}:\n" in shown


def test_the_examples_are_command_lines_that_are_understood() -> None:
    examples = [example for section in COMMANDS.values() for _, example in section.values()]
    examples += [example for members, _ in GROUPS.values() for _, example in members.values()]
    built = typer.main.get_command(app)
    for example in examples:
        words = shlex.split(example.split(" > ")[0])
        assert words[0] == "evalframe"
        context = built.make_context("evalframe", words[1:])
        name, chosen, rest = built.resolve_command(context, [*context._protected_args, *context.args])
        if name in GROUPS:
            inner = chosen.make_context(name, rest, parent=context)
            name, chosen, rest = chosen.resolve_command(inner, [*inner._protected_args, *inner.args])
        chosen.make_context(name, rest, parent=context)  # raises where an option or argument is wrong
