"""Runs of suites with preprocessors: samples, ids, examples, versions, and what happens where one fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe.advice import SettingWarning
from evalframe.errors import DatasetError, PreprocessError, SandboxError, VersionMismatch
from evalframe.previewing import make_preview
from evalframe.prompts import MissingFieldWarning
from evalframe.sandbox import launch

Suite = Callable[..., dict[str, Any]]
BARE = {"out": False, "progress": False, "cache": False}
OPTIONS = {**BARE, "allow_unsandboxed": True}


def row_by_row(body: str, **fields: Any) -> dict[str, Any]:
    return {"preprocess": {"source": f"def transform_row(row):\n    {body}\n", **fields}}


def all_at_once(body: str, **fields: Any) -> dict[str, Any]:
    return {"preprocess": {"source": f"def process_docs(rows):\n    {body}\n", "contract": "batch", **fields}}


ASKED = row_by_row("return {**row, 'question': 'What is ' + row['question']}")
FAILS = row_by_row("return row['none_such']")


def test_prompts_targets_and_rows_are_those_of_the_new_rows(suite: Suite, Counting: Any) -> None:
    model = Counting()
    run = ef.run(suite(**row_by_row("return {'question': row['question'][::-1], 'answer': row['answer'] * 1.0}")),
                 model, **OPTIONS)  # fmt: skip
    assert run.rows["prompt"].to_list() == [f"?1 + {n}" for n in range(6)]
    assert run.rows["target"].to_list() == [f"{n}.0" for n in range(1, 7)]
    assert run.rows["row"][0] == '{"question":"?1 + 0","answer":1.0}'
    assert run.rows["row.answer"][5] == "6.0"
    assert len(model.seen) == 6
    assert run.leaderboard()["mean_score"].to_list() == [1.0]


def test_sample_indices_and_ids_are_those_after_the_preprocessor(suite: Suite, Counting: Any) -> None:
    odd = row_by_row("return [row, {**row, 'id': row['id'] + 'b'}] if int(row['id'][1:]) % 2 else None")
    run = ef.run(suite(**odd), Counting(), **OPTIONS, max_samples_per_task=4)
    assert run.rows.select("sample_index", "sample_id").rows() == [(0, "q1"), (1, "q1b"), (2, "q3"), (3, "q3b")]
    dropped = row_by_row("del row['id']; return row")
    hashed = ef.run(suite(**dropped), Counting(), **OPTIONS).rows["sample_id"]
    assert hashed.n_unique() == 6
    assert hashed.str.len_bytes().unique().to_list() == [32]


def test_ids_that_clash_afterwards_are_refused_by_their_new_place(suite: Suite, Counting: Any) -> None:
    model = Counting()
    with pytest.raises(DatasetError, match=r"lines are counted after its preprocessor\): lines 1 and 2") as caught:
        ef.run(suite(**row_by_row("return [row, row]")), model, **OPTIONS)
    assert "sample_ids='content'" in str(caught.value)
    assert model.seen == []
    both = ef.run(suite(**row_by_row("return [row, row]")), model, **OPTIONS, sample_ids="content")
    assert both.rows["sample_id"].n_unique() == 12


def test_bad_lines_of_the_file_keep_their_own_numbers(suite: Suite, write_jsonl: Any, Counting: Any) -> None:
    write_jsonl(['{"question": "a"}', "{"])
    with pytest.raises(DatasetError) as caught:
        ef.run(suite(**ASKED), Counting(), **OPTIONS)
    assert caught.value.faults["where"].to_list() == ["task sums: rows.jsonl:2:2"]


def test_max_rows_comes_before_and_the_sample_limit_after(suite: Suite, Counting: Any) -> None:
    doubled = row_by_row("return [row, {**row, 'id': row['id'] + 'b'}]")
    manifest = suite(**doubled, dataset={"file_id": "rows.jsonl", "max_rows": 2})
    assert ef.run(manifest, Counting(), **OPTIONS).rows.height == 4
    assert ef.run(manifest, Counting(), **OPTIONS, max_samples_per_task=3).rows.height == 3


def test_the_pool_of_examples_is_the_whole_new_data_set(suite: Suite, Counting: Any) -> None:
    manifest = suite(
        **all_at_once("return rows[::-1]"), fewshot={"count": 2, "example_template": "{{prompt}}={{target}}"}
    )
    run = ef.run(manifest, Counting(), **OPTIONS, max_samples_per_task=2)
    assert run.rows["prompt"].to_list() == ["4 + 1?=5\n\n3 + 1?=4\n\n5 + 1?", "5 + 1?=6\n\n3 + 1?=4\n\n4 + 1?"]


def test_rows_of_a_separate_few_shot_data_set_go_through_it_too(suite: Suite, write_jsonl: Any, Counting: Any) -> None:
    write_jsonl([{"question": "Capital?", "answer": "Paris"}], "shots.jsonl")
    shots = {"count": 1, "dataset": {"file_id": "shots.jsonl"}}
    run = ef.run(suite(**ASKED, fewshot=shots), Counting(), **OPTIONS)
    assert run.rows["prompt"][0] == "What is Capital?\nParis\n\nWhat is 0 + 1?"
    with pytest.raises(PreprocessError) as caught:
        ef.run(suite(**row_by_row("row['id']; return row"), fewshot=shots), Counting(), **OPTIONS)
    assert caught.value.faults["where"].to_list() == ["task sums: fewshot rows[0] (line 1)"]
    with pytest.raises(PreprocessError, match="fewshot rows: every row is dropped"):
        ef.run(suite(**row_by_row("return row if 'id' in row else None"), fewshot=shots), Counting(), **OPTIONS)


def test_a_text_in_a_file(suite: Suite, tmp_path: Path, Counting: Any) -> None:
    (tmp_path / "prepare.py").write_text("\ufeff" + ASKED["preprocess"]["source"], encoding="utf-8")
    run = ef.run(suite(preprocess={"file_id": "prepare.py"}), Counting(), **OPTIONS)
    inline = ef.run(suite(**ASKED), Counting(), **OPTIONS)
    assert run.rows.equals(inline.rows)
    assert run.record["content_hashes"].keys() == {"rows.jsonl", "prepare.py"}
    (tmp_path / "prepare.py").write_text("def prepare(row): return row")
    with pytest.raises(PreprocessError, match=r"task sums: prepare.py: does not define transform_row"):
        ef.run(suite(preprocess={"file_id": "prepare.py"}), Counting(), **OPTIONS)
    (tmp_path / "prepare.py").write_bytes(b"# caf\xe9")
    with pytest.raises(DatasetError, match="is not UTF-8"):
        ef.run(suite(preprocess={"file_id": "prepare.py"}), Counting(), **OPTIONS)
    with pytest.raises(DatasetError, match=r"there is no file 'prepared\.py'"):
        ef.run(suite(preprocess={"file_id": "prepared.py"}), Counting(), **OPTIONS)


def test_the_files_of_the_task_can_be_read(suite: Suite, Counting: Any) -> None:
    lookup = (
        "import json, os\n"
        "with open(json.loads(os.environ['EVALFRAME_FILES'])['rows.jsonl']) as file: N = len(list(file))\n"
        "def transform(row): return {**row, 'question': f\"{row['question']} of {N}\"}\n"
    )
    run = ef.run(suite(preprocess={"source": lookup}), Counting(), **OPTIONS)
    assert run.rows["prompt"][0] == "0 + 1? of 6"


def test_every_failed_task_is_named_at_once_before_any_call(suite: Suite, Counting: Any, tmp_path: Path) -> None:
    model = Counting()
    manifest = suite("good", "bad", "worse")
    manifest["tasks"][1] |= FAILS
    manifest["tasks"][2] |= row_by_row("return 5")
    with pytest.raises(PreprocessError) as caught:
        ef.run(manifest, model, **{**OPTIONS, "out": tmp_path / "run"})
    where = caught.value.faults["where"].to_list()
    assert where[0] == "task bad: rows[0] (line 1)"
    assert {one.split(":")[0] for one in where} == {"task bad", "task worse"}
    text = str(caught.value)
    assert "the preprocessor of 2 tasks failed, and no model was called" in text
    assert "run the other tasks: skip_failed_tasks=True" in text
    assert 'File "tasks[1].preprocess.source", line 2, in transform_row' in text
    assert "KeyError: 'none_such'" in text
    assert model.seen == []
    assert not (tmp_path / "run").exists()


def test_what_is_wrong_with_other_data_is_told_with_it(suite: Suite, Counting: Any) -> None:
    manifest = suite("bad", "lost")
    manifest["tasks"][0] |= FAILS
    manifest["tasks"][1]["dataset"] = {"file_id": "nowhere.jsonl"}
    with pytest.raises(PreprocessError, match=r"task lost: there is no file 'nowhere.jsonl'"):
        ef.run(manifest, Counting(), **OPTIONS)
    with pytest.raises(DatasetError) as caught:
        ef.run(manifest, Counting(), **OPTIONS, skip_failed_tasks=True)
    assert caught.value.faults["where"].to_list() == ["task lost"]


def test_failed_tasks_can_be_skipped_and_the_run_says_so(suite: Suite, Counting: Any, tmp_path: Path) -> None:
    manifest = suite("bad", "good")
    manifest["tasks"][0] |= FAILS
    with pytest.warns(SettingWarning, match="task bad is left out, because its preprocessor failed: KeyError"):
        run = ef.run(manifest, Counting(), **{**OPTIONS, "out": tmp_path / "run"}, skip_failed_tasks=True)
    assert run.rows["task_id"].unique().to_list() == ["good"]
    assert len(run.record["bad_tasks"]) == 1
    first, *below = run.record["bad_tasks"][0].split("\n")
    assert first == "task bad: rows[0] (line 1): KeyError: 'none_such' (and 4 more of its rows)"
    assert below[0] == "    Traceback (most recent call last):"
    assert run.record["options"]["skip_failed_tasks"]
    assert run.envelope()["summary"]["bad_tasks"] == 1
    assert any("task bad is left out" in note for note in run.leaderboard().notes)
    assert ef.resume(tmp_path / "run", Counting(), progress=False).rows.equals(run.rows)


def test_with_no_task_left_there_is_no_run(suite: Suite, Counting: Any) -> None:
    with pytest.raises(PreprocessError) as caught:
        ef.run(suite(**FAILS), Counting(), **OPTIONS, skip_failed_tasks=True)
    assert "skip_failed_tasks" not in str(caught.value)


def test_a_task_that_is_not_chosen_is_not_prepared(suite: Suite, Counting: Any) -> None:
    manifest = suite("good", "bad")
    manifest["tasks"][1] |= FAILS
    assert ef.run(manifest, Counting(), **OPTIONS, task_ids=["good"]).rows.height == 6


@pytest.mark.usefixtures("no_walls")
def test_without_walls_nothing_of_it_runs_unless_that_is_accepted(suite: Suite, Counting: Any) -> None:
    refused = "Python preprocessors would run here with no wall but resource limits.*allow_unsandboxed=True"
    for skip in (False, True):  # it is no failed task that could be skipped
        with pytest.raises(SandboxError, match=refused):
            ef.run(suite(**ASKED), Counting(), **BARE, skip_failed_tasks=skip)
    with pytest.raises(SandboxError, match="sandbox='strict' refuses to run Python preprocessors"):
        ef.run(suite(**ASKED), Counting(), **OPTIONS, sandbox="strict")
    manifest = suite("asked", "plain")
    manifest["tasks"][0] |= ASKED
    assert ef.run(manifest, Counting(), **BARE, task_ids=["plain"]).rows.height == 6


def test_walls_that_are_missing_are_said_at_the_line_of_the_caller(
    suite: Suite, Counting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("no_new_privs", "rlimits", "seccomp", "non_root")
    monkeypatch.setattr(launch, "_raised", lambda: {layer: layer in there for layer in launch.RAISED})
    with pytest.warns(SettingWarning, match="Python preprocessors runs? with less than all walls: landlock") as caught:
        ef.run(suite(**ASKED), Counting(), **BARE)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_field_that_only_the_old_rows_have_is_told(suite: Suite, Counting: Any) -> None:
    renamed = row_by_row("row['text'] = row.pop('question'); return row")
    with pytest.warns(MissingFieldWarning, match="'question'"):
        ef.run(suite(**renamed), Counting(), **OPTIONS)
    run = ef.run(suite(**renamed, prompt_template="{{text}}"), Counting(), **OPTIONS)
    assert run.rows["prompt"][0] == "0 + 1?"


def test_another_preprocessor_is_another_version(suite: Suite, Counting: Any) -> None:
    plain, asked = (ef.run(suite(**part), Counting(), **OPTIONS) for part in ({}, ASKED))
    assert plain.record["version"] != asked.record["version"]
    differing = [part for part, value in plain.record["parts"]["sums"].items()
                 if asked.record["parts"]["sums"][part] != value]  # fmt: skip
    assert differing == ["preprocess"]
    with pytest.raises(VersionMismatch, match="preprocessor"):
        plain.compare(asked)


def test_a_run_is_scored_anew_without_running_it_again(suite: Suite, Counting: Any, tmp_path: Path) -> None:
    run = ef.run(suite(**ASKED), Counting(), **OPTIONS)
    manifest = suite(**ASKED, target_template="{{answer}}!")
    (tmp_path / "rows.jsonl").unlink()  # rows are the run's own now
    again = run.rescore(manifest=manifest)
    assert again.rows["target"].to_list() == [f"{n}!" for n in range(1, 7)]
    assert again.leaderboard()["mean_score"].to_list() == [0.0]


def test_equal_runs_have_equal_frames_in_order_and_side_by_side(suite: Suite, Counting: Any, same_frames: Any) -> None:
    shuffled = {"preprocess": {"source": (
        "import random\ndef transform(row):\n    row['question'] += ' ' + random.choice('abcdef')\n    return row\n"
    )}}  # fmt: skip
    one = ef.run(suite(**shuffled), Counting(), **OPTIONS, parallel=False)
    other = ef.run(suite(**shuffled), Counting(), **OPTIONS)
    same_frames(one, other)
    assert one.rows["prompt"].str.slice(-1).n_unique() > 1


def test_a_preview_shows_the_prompts_of_the_new_rows(suite: Suite) -> None:
    manifest = suite("sums", "bad")
    manifest["tasks"][0] |= ASKED
    manifest["tasks"][1] |= FAILS
    with pytest.raises(PreprocessError):
        make_preview(manifest, allow_unsandboxed=True)
    shown = make_preview(manifest, allow_unsandboxed=True, skip_failed_tasks=True, samples=1)
    assert shown.samples["prompt"].to_list() == ["What is 0 + 1?"]
    assert shown.tasks["task_id"].to_list() == ["sums"]
    assert shown.bad_tasks[0].startswith("task bad: rows[0]")


def test_gold_answers_of_generated_rows_reach_the_model(suite: Suite, write_jsonl: Any, Counting: Any) -> None:
    write_jsonl([{"story": "s", "questions": ["a", "b"], "answers": [["x", "y"], ["z"]]}])
    flat = row_by_row("return [{'question': row['story'] + q, 'answer': a} for q, a in zip(row['questions'], "
                      "row['answers'])]")  # fmt: skip
    run = ef.run(suite(**flat), Counting(), **OPTIONS)
    assert run.rows.select("prompt", "targets").rows() == [("sa", ["x", "y"]), ("sb", ["z"])]
    assert json.loads(run.rows["row"][1]) == {"question": "sb", "answer": ["z"]}
