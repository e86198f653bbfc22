"""A run scored anew: the same replies, no call, and what may not differ."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.adapters import Generation
from evalframe.errors import DatasetError, OptionError, RunFolderError, SandboxError, VersionMismatch
from evalframe.generate.journal import Journal
from evalframe.runner import load

QUESTIONS = [
    {"id": "one", "question": "1 + 1?", "answer": 2, "word": "two", "n": 18446744073709551617},
    {"id": "two", "question": "2 + 1?", "answer": 3, "word": "three", "n": 1.50},
    {"id": "three", "question": "fail", "answer": 4, "word": "four", "n": None},
]


def task(**changes: Any) -> dict[str, Any]:
    return {
        "id": "sums", "type": "qa", "dataset": {"file_id": "rows.jsonl"}, "prompt_template": "Q: {{question}}",
        "target_template": "{{answer}}", "metrics": [{"id": "exact_match"}], **changes,
    }  # fmt: skip


class Counting:
    """A model that counts its calls and brings a raw reply."""

    model_id = "counting"

    def __init__(self) -> None:
        self.n_calls = 0

    def generate(self, prompt: str, task: Any) -> Generation:
        self.n_calls += 1
        if "fail" in prompt:
            raise ConnectionError("the line is down")
        return Generation(f"I say {prompt[3]}... no: two", raw=b'{"reply": 1}', confidence=0.5)


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def run(write_jsonl, tmp_path: Path, model: Counting, monkeypatch: pytest.MonkeyPatch) -> ef.Run:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    return ef.run({"tasks": [task()]}, model, out=tmp_path / "run", progress=False)


def same_frames(a: ef.Run, b: ef.Run) -> None:
    for name in ("rows", "answers", "scores", "task_metrics"):
        assert getattr(a, name).equals(getattr(b, name)), name
    times = ["latency_seconds", "started_at"]
    assert a.generations.drop(times).equals(b.generations.drop(times))


def test_another_extraction_makes_no_call_and_leaves_the_run_as_it_was(run: ef.Run, model: Counting, tmp_path) -> None:
    before, n_calls = {p.name: p.read_bytes() for p in run.path.glob("*.json")}, model.n_calls
    again = run.rescore(extract=ef_regex_last(), metrics=["exact_match", "f1"], out=tmp_path / "again")
    assert model.n_calls == n_calls
    assert again.path == (tmp_path / "again").resolve()
    assert again.answers["extracted_output"].to_list() == ["two", "two", None]
    assert again.scores["metric"].unique().sort().to_list() == ["exact_match", "f1"]
    assert again.generations.equals(run.generations)
    assert {p.name: p.read_bytes() for p in run.path.glob("*.json")} == before
    assert again.record["derived_from"] == [{"run_id": run.record["run_id"], "path": str(run.path), "how": "rescore"}]
    assert again.record["run_id"] != run.record["run_id"]
    assert again.record["status"] == "complete"


def ef_regex_last() -> dict[str, str]:
    return {"type": "regex_last", "pattern": r"no: (\w+)"}


@pytest.mark.parametrize(
    "changes",
    [
        {"output_extraction": {"type": "take_first"}},
        {"target_template": "{{word}}", "metrics": [{"id": "f1"}, {"id": "exact_match", "aggregation": "none"}]},
        {"choices": ["two", "three"], "output_extraction": {"type": "label_set", "labels": ["two", "three"]}},
        {"target_template": "{{n}} {{row}}", "metadata": {"page": 3, "tags": ["a"]}, "type": "math"},
        {"metrics": [{"id": "exact_match", "higher_is_better": False}]},
    ],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_rescore_equals_a_run_made_with_that_manifest(run: ef.Run, tmp_path: Path, changes: dict[str, Any]) -> None:
    manifest = {"tasks": [task(**changes)]}
    same_frames(run.rescore(manifest=manifest), ef.run(manifest, Counting(), out=tmp_path / "whole", progress=False))


def test_few_shot_prompts_stay_without_their_data(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    shots = {"fewshot": {"count": 2, "strategy": "random", "seed": 4}}
    run = ef.run({"tasks": [task(**shots)]}, Counting(), progress=False)
    (tmp_path / "rows.jsonl").unlink()
    manifest = {"tasks": [task(**shots, target_template="{{word}}")]}
    with pytest.raises(VersionMismatch, match="few-shot examples differ"):  # an example's target is part of the prompt
        run.rescore(manifest=manifest)
    shots["fewshot"]["target_template"] = "{{answer}}"
    again = run.rescore(manifest={"tasks": [task(**shots, target_template="{{word}}")]})
    assert again.rows["prompt"].to_list() == run.rows["prompt"].to_list()
    assert again.rows["target"].to_list() == ["two", "three", "four"]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"prompt_template": "{{question}}"}, "the prompt differs"),
        ({"dataset": {"file_id": "rows.jsonl", "max_rows": 2}}, "the data set differs"),
        ({"num_fewshot": 1}, "the few-shot examples differ"),
        ({"id": "others"}, "only one of the runs has this task"),
    ],
)
def test_what_makes_other_samples_is_refused_by_name(run: ef.Run, changes: dict[str, Any], part: str) -> None:
    with pytest.raises(VersionMismatch, match=rf"(?s)task (sums|others): {part} -> start a new run"):
        run.rescore(manifest={"tasks": [task(**changes)]})


def test_other_data_under_the_same_name_is_refused(run: ef.Run, write_jsonl) -> None:
    write_jsonl([*QUESTIONS, {"id": "four", "question": "x", "answer": 1, "word": "one"}])
    with pytest.raises(VersionMismatch, match="task sums: the data set differs"):
        run.rescore(manifest={"tasks": [task()]})


def test_data_that_is_gone_is_not_needed_and_other_data_is(run: ef.Run, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").unlink()
    assert run.rescore(manifest={"tasks": [task(target_template="{{word}}")]}).rows["target"][0] == "two"
    with pytest.raises(DatasetError, match=r"other\.jsonl"):
        run.rescore(manifest={"tasks": [task(dataset={"file_id": "other.jsonl"})]})


def test_a_task_that_the_manifest_lacks_is_left_out_and_said(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    run = ef.run({"tasks": [task(), task(id="more")]}, Counting(), progress=False)
    again = run.rescore(manifest={"tasks": [task()]})
    assert again.rows["task_id"].unique().to_list() == ["sums"]
    assert again.generations.height == 3
    assert again.record["status"] == "complete"
    assert "the manifest has no task more: left out" in again.leaderboard().notes
    by_task = run.rescore(extract={"more": "take_first"}, metrics={"sums": ["f1"]})
    assert by_task.rows["extraction"].str.contains("take_first").to_list() == [True] * 3 + [False] * 3
    assert by_task.task_metrics.select("task_id", "metric").rows() == [("more", "exact_match"), ("sums", "f1")]


def test_what_differs_is_said_on_the_leaderboard_and_in_the_envelope(run: ef.Run) -> None:
    again = run.rescore(extract="take_first", metrics=["f1"])
    start = f"scored anew from run {run.record['run_id']}: not the same"
    expected = [f"{start} {part} in: sums" for part in ("extraction", "metrics")]
    assert [note for note in again.leaderboard().notes if "anew" in note] == expected
    assert [note for note in again.envelope()["notes"] if "anew" in note] == expected


def test_targets_that_are_empty_are_said_of_the_new_definition_alone(suite, Counting) -> None:
    full = suite(target_template="{{answer}}")
    run = ef.run(full, Counting(), progress=False, out=False)
    lacking = run.rescore(manifest=suite(target_template=" "))
    assert any("6 of 6 samples of sums have an empty target" in note for note in lacking.record["notes"])
    again = lacking.rescore(manifest=full)
    assert not any("empty target" in note for note in again.record["notes"])


def test_raw_replies_come_along(run: ef.Run) -> None:
    again = run.rescore(extract="take_first")
    with Journal.open(again.folder.journal_path) as journal:
        assert journal.raw("counting", "sums", 0) == b'{"reply": 1}'


def test_an_export_without_a_journal_can_be_scored_anew(run: ef.Run, tmp_path: Path) -> None:
    exported = load(run.to_parquet(tmp_path / "export"))
    again = exported.rescore(extract=ef_regex_last(), out=tmp_path / "again")
    same_frames(again, run.rescore(extract=ef_regex_last()))
    assert "exported" not in again.record
    assert load(again.path).generations.equals(run.generations)


def test_a_temporary_run_gives_a_temporary_one(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    run = ef.run({"tasks": [task()]}, Counting(), out=False, progress=False)
    again = run.rescore(extract="take_first")
    assert again.folder.temporary is not None
    assert run.rescore(extract="take_first", out=tmp_path / "kept").folder.temporary is None


def test_a_partial_run_stays_partial(run: ef.Run) -> None:
    with sqlite3.connect(run.folder.journal_path) as journal:  # as if it had been killed before the last call
        journal.execute("DELETE FROM calls WHERE sample_index = 2")
    journal.close()
    run.folder.update_record(status="running")
    again = load(run.path).rescore(extract="number")
    assert again.record["status"] == "partial"
    assert again.generations["status"].to_list() == ["completed", "completed", "skipped"]


def test_a_run_that_is_still_running_is_refused(run: ef.Run) -> None:
    run.folder.update_record(status="running")
    with pytest.raises(RunFolderError, match=r"still running.*evalframe.load"):
        ef.Run(run.folder).rescore(extract="number")


def test_task_files_take_extract_and_metrics(fixtures: Path) -> None:
    run = ef.run(fixtures / "tasks.jsonl", "mock/rule_based", allow_unsandboxed=True, progress=False)
    one = run.rows.filter(pl.col("category") == "mcq")["task_id"][0]
    again = run.rescore(extract={one: "take_first"}, metrics={one: ["exact_match", "f1"]})
    changed = again.rows.filter(pl.col("task_id") == one)
    assert json.loads(changed["extraction"][0])["type"] == "take_first"
    assert [m["id"] for m in changed["metrics"][0]] == ["exact_match", "f1"]
    assert again.rows.filter(pl.col("task_id") != one).equals(run.rows.filter(pl.col("task_id") != one))
    assert again.record["version"] != run.record["version"]
    with pytest.raises(OptionError, match="task file, which has no manifest"):
        run.rescore(manifest={"tasks": [task()]})


def test_an_own_metric_is_named_by_itself(run: ef.Run) -> None:
    @ef.metric("says_two")
    def says_two(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction.str.contains("two")

    assert run.rescore(metrics=[says_two]).scores["score"].to_list() == [1.0, 1.0, None]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, OptionError, "give manifest=, extract=, metrics=, graders= or confidence="),
        ({"extract": "numbr"}, OptionError, "extract: there is no extraction 'numbr' -> did you mean 'number'"),
        ({"extract": 3}, OptionError, "extract: 3 is no extraction -> give a type"),
        ({"extract": {"type": "regex", "pattern": "("}}, OptionError, "extract.pattern: does not compile"),
        ({"extract": {"sum": "number"}}, OptionError, "the run has no task 'sum' -> did you mean 'sums'"),
        ({"metrics": ["exact"]}, OptionError, r"metrics\[0\]: there is no metric 'exact' -> did you mean"),
        ({"metrics": []}, OptionError, "metrics: the list is empty -> give metric ids"),
        ({"metrics": [3]}, OptionError, r"metrics\[0\]: 3 is no metric"),
        ({"graders": {"sum": "def grade(sample, item): return 1"}}, OptionError, "no task 'sum' -> did you mean"),
        ({"graders": 3}, OptionError, "graders: 3 is no grader -> give a .py file"),
        ({"graders": "none.py"}, OptionError, "graders: there is no file 'none.py'"),
        ({"metrics": ["code_exec"]}, SandboxError, "allow_unsandboxed=True"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_walls")
def test_what_is_wrong_is_said_before_a_folder_is_made(
    run: ef.Run, tmp_path: Path, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        run.rescore(**given, out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_all_faults_are_said_at_once(run: ef.Run) -> None:
    with pytest.raises(OptionError) as caught:
        run.rescore(extract="numbr", metrics=["exact", "f2"])
    assert caught.value.faults["where"].to_list() == ["extract", "metrics[0]", "metrics[1]"]


def test_data_that_changed_since_is_looked_at_only_for_a_manifest(run: ef.Run, write_jsonl) -> None:
    write_jsonl([{"id": "other", "question": "?", "answer": 1}])
    assert run.rescore(extract="number").record["version"] != run.record["version"]
    with pytest.raises(VersionMismatch, match="the data set differs"):
        run.rescore(manifest={"tasks": [task()]})


def test_repeats_by_task_or_category_stay_whatever_the_manifest_says(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    options = {"generation": {"temperature": 1}, "progress": False}
    run = ef.run({"tasks": [task(), task(id="more", type="math")]}, Counting(), repeats={"qa": 2}, **options)
    again = run.rescore(manifest={"tasks": [task(type="math"), task(id="more", type="math")]})
    assert (again.record["status"], again.generations.height) == ("complete", 9)
    assert run.rescore(manifest={"tasks": [task(id="more", type="qa")]}).generations.height == 3


def test_a_part_of_the_data_may_lack_a_field_that_the_whole_has(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl([*QUESTIONS, {"id": "last", "question": "5?", "answer": 5, "hint": "five"}])
    monkeypatch.chdir(tmp_path)
    hinted = {"tasks": [task(prompt_template="Q: {{question}} {{hint}}")]}
    run = ef.run(hinted, Counting(), max_samples_per_task=2, on_missing="error", progress=False)
    hinted["tasks"][0]["target_template"] = "{{word}}"
    with pytest.warns(UserWarning, match="hint"):
        assert run.rescore(manifest=hinted).rows["target"].to_list() == ["two", "three"]


def test_tasks_may_be_called_as_the_keys_of_a_definition(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    run = ef.run({"tasks": [task(id="type"), task(id="id")]}, Counting(), progress=False)
    again = run.rescore(extract={"type": {"type": "number"}}, metrics={"id": ["f1"]})
    assert again.task_metrics.select("task_id", "metric").rows() == [("id", "f1"), ("type", "exact_match")]
    assert again.rows["extraction"].str.contains("number").to_list() == [False] * 3 + [True] * 3


@pytest.fixture
def of_tasks(fixtures: Path) -> ef.Run:
    return ef.run(fixtures / "tasks.jsonl", "mock/rule_based", allow_unsandboxed=True, progress=False)


def test_task_files_take_an_extraction_alone(of_tasks: ef.Run) -> None:
    again = of_tasks.rescore(extract="take_first")
    assert again.rows["extraction"].str.json_decode(pl.Struct({"type": pl.String})).struct.unnest().to_series(
    ).unique().to_list() == ["take_first"]  # fmt: skip
    assert again.rows.drop("extraction").equals(of_tasks.rows.drop("extraction"))


def test_only_what_differs_is_said_of_task_files(of_tasks: ef.Run) -> None:
    same = {row["task_id"]: row["metrics"] for row in of_tasks.rows.select("task_id", "metrics").to_dicts()}
    again = of_tasks.rescore(metrics=same)
    assert again.record["version"] == of_tasks.record["version"]
    assert not [note for note in again.leaderboard().notes if "anew" in note]


@pytest.mark.parametrize("of_suite", [True, False])
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"id": "f1", "aggregation": "median"}], r'metrics\[0\].aggregation: "median" is not allowed.*did you mean'),
        (["f1", "f1"], r'metrics\[1\].id: the metric "f1" stands at metrics\[0\] already -> ids are unique'),
        ([{"id": "f1", "x": 1}], r'metrics\[0\].x: there is no key "x" here -> known: aggregation'),
        ([{"id": "f1", "higher_is_better": "no"}], r"metrics\[0\].higher_is_better.*give true or false"),
    ],
)
def test_entries_of_metrics_keep_the_rules_of_a_manifest(request, of_suite: bool, entries: list, said: str) -> None:
    given = request.getfixturevalue("run" if of_suite else "of_tasks")
    with pytest.raises(OptionError, match=said):
        given.rescore(metrics=entries)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"out": True}, "out: True is no folder -> give a path, None or False"),
        ({"out": 3}, "out: 3 is no folder"),
        ({"files": {"rows.jsonl": "nowhere.jsonl"}}, r"files\['rows.jsonl'\]: there is no file 'nowhere.jsonl'"),
        ({"files": {"rows.jsonl": 3}}, r"there is no file '3' -> mend the path"),
        ({"allow_unsandboxed": "yes"}, "allow_unsandboxed: 'yes' is not True or False"),
    ],
)
def test_its_options_are_those_of_a_run(run: ef.Run, given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        run.rescore(manifest={"tasks": [task()]}, **given)


def test_a_metric_that_is_not_registered_here_is_asked_for_or_replaced(run: ef.Run, tmp_path: Path) -> None:
    @ef.metric("of_another_process")
    def of_another_process(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction.str.contains("two")

    old = run.rescore(metrics=[of_another_process], out=tmp_path / "old")
    script = """
import sys
from evalframe.errors import UnknownNameError
from evalframe.runner import load

old = load(sys.argv[1])
for going_on in (
    lambda: old.rescore(extract="number", out=sys.argv[2]),
    lambda: old.extend("mock/rule_based", out=sys.argv[2]),
):
    try:
        going_on()
    except UnknownNameError as error:
        print(error)
print(old.rescore(metrics=["exact_match"]).record["status"])
"""
    said = subprocess.run(
        [sys.executable, "-c", script, old.path, tmp_path / "never"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert ["of_another_process of this run are not registered in this process; register them" in line
            for line in said[:2]] == [True, True]  # fmt: skip
    assert said[-1] == "complete"
    assert not (tmp_path / "never").exists()


def test_a_run_of_some_tasks_of_its_suite_is_scored_anew(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    whole = {"tasks": [task(), task(id="more")]}
    run = ef.run(whole, Counting(), task_ids=["sums"], progress=False)
    number = {"output_extraction": {"type": "number"}}
    by_manifest = run.rescore(manifest={"tasks": [task(**number), task(id="more", prompt_template="?", **number)]})
    for again in (run.rescore(extract="number"), by_manifest):
        assert again.rows["task_id"].unique().to_list() == ["sums"]
        assert run.compare(again).notes[-1] == "not the same extraction in: sums"
    with pytest.raises(VersionMismatch, match="task new: only one of the runs has this task"):
        run.rescore(manifest={"tasks": [task(), task(id="new")]})
    assert run.rescore(extract="number").extend([counting_as("z")], progress=False).generations.height == 6


def counting_as(name: str) -> Counting:
    model = Counting()
    model.model_id = name
    return model


def test_a_manifest_without_a_task_of_the_run_is_refused(write_jsonl, tmp_path: Path, monkeypatch) -> None:
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)
    run = ef.run({"tasks": [task(), task(id="more")]}, Counting(), task_ids=["sums"], progress=False)
    with pytest.raises(OptionError, match="no task of this run, which has sums"):
        run.rescore(manifest={"tasks": [task(id="more")]})
