"""``run`` on data that a user already has: a suite of one task, through the one pipeline."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import evalframe as ef
from evalframe.advice import SettingWarning
from evalframe.errors import DatasetError, OptionError, TaskFileError
from evalframe.generate.journal import Journal
from evalframe.manifest.suite import parse_suite
from evalframe.options import RunOptions
from evalframe.prompts import MissingFieldWarning
from evalframe.registry import METRICS

ROWS = [
    {"id": f"q{i}", "question": f"{i} + {i} =", "answer": str(2 * i), "subject": "even" if i % 2 == 0 else "odd",
     "deep": {"level": i}}
    for i in range(6)
]  # fmt: skip
ASKED: dict[str, Any] = {
    "prompt": "Q: {{question}}", "targets": "answer", "extract": "number", "metrics": ["numeric_match"],
    "progress": False, "out": False,
}  # fmt: skip


def adding(name: str = "adding") -> ef.ModelAdapter:
    return ef.from_callable(name, lambda prompt: f"The sum is {2 * int(prompt.split()[-2])}.")


def faults(source: Any, **given: Any) -> dict[str, str]:
    """Give where and detail with remedy of each fault."""
    with pytest.raises(OptionError) as caught:
        ef.run(source, adding(), **{"progress": False, "out": False, **given})
    return {fault.where: f"{fault.detail} -> {fault.remedy}" for fault in caught.value.fault_records}  # type: ignore[union-attr]


def test_equal_data_has_one_version_and_equal_frames_in_every_form(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(tmp_path / "data.parquet")
    sources = [ROWS, frame, frame.lazy(), pd.DataFrame(ROWS), tmp_path / "data.parquet"]
    runs = [ef.run(source, adding(), **ASKED) for source in sources]
    for run in runs:
        assert run.record["version"] == runs[0].record["version"]
        assert run.rows.equals(runs[0].rows)
        assert run.scores.equals(runs[0].scores)
    rows = runs[0].rows
    assert rows["task_id"].unique().to_list() == ["data"]
    assert rows["sample_id"].to_list() == [row["id"] for row in ROWS]
    assert rows["prompt"][2] == "Q: 2 + 2 ="
    assert json.loads(rows["row"][3]) == ROWS[3]
    assert frame.equals(pl.DataFrame(ROWS)), "what is handed in stays as it is"
    (board,) = runs[0].leaderboard().to_dicts()
    assert (board["mean_score"], board["category.custom"], board["n_samples"]) == (1.0, 1.0, 6)


def test_slices_by_any_field_of_the_data() -> None:
    run = ef.run(ROWS, adding(), **ASKED)
    assert run.leaderboard(by="row.subject").select("by.row.subject", "n_samples").rows() == [("even", 3), ("odd", 3)]
    assert run.leaderboard(by="row.deep.level").height == 6


@pytest.mark.parametrize("name", ["my questions.jsonl", "q.ndjson", "q.csv", "q.jsonl.gz"])
def test_a_file_is_named_as_a_manifest_names_it(tmp_path: Path, name: str) -> None:
    records = [{key: value for key, value in row.items() if key != "deep"} for row in ROWS]
    content = "".join(json.dumps(record) + "\n" for record in records)
    path = tmp_path / name
    if name.endswith(".csv"):
        pl.DataFrame(records).write_csv(path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)
    run = ef.run(path, adding(), **ASKED)
    manifest = run.folder.manifest()
    task = manifest["tasks"][0]
    assert task["id"] == ("my_questions" if "my" in name else "q")
    assert task["dataset"]["file_id"] == name
    beside = tmp_path / "suite.json"
    beside.write_text(json.dumps(manifest))
    again = ef.run(beside, adding(), progress=False, out=False)
    assert again.record["version"] == run.record["version"]
    assert again.record["content_hashes"] == run.record["content_hashes"]
    assert again.rows.equals(run.rows)


def test_a_parquet_file_names_the_task(tmp_path: Path) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "sums.parquet")
    run = ef.run(str(tmp_path / "sums.parquet"), adding(), **ASKED)
    assert run.rows["task_id"].unique().to_list() == ["sums"]


def test_the_manifest_is_a_suite_and_says_all_that_was_asked() -> None:
    run = ef.run(ROWS, adding(), **ASKED)
    manifest = run.folder.manifest()
    (task,) = parse_suite(manifest).tasks
    assert (task.prompt_template, task.target_template) == ("Q: {{question}}", "{{answer}}")
    assert task.extraction_config == {"type": "number"}
    assert [choice.id for choice in task.metrics] == ["numeric_match"]
    assert not {"prompt", "targets", "extract", "metrics"} & set(run.record["options"])


def test_a_field_s_name_is_its_template_and_a_list_is_several_references() -> None:
    data = [{"q": "colour", "gold": ["grey", "gray"]}, {"q": "number", "gold": ["2"]}]
    run = ef.run(data, ef.from_callable("m", lambda prompt: {"colour": "gray"}.get(prompt, "3")), prompt="q",
                 targets="gold", metrics="exact_match", progress=False, out=False)  # fmt: skip
    assert run.rows["prompt"].to_list() == ["colour", "number"]
    assert run.rows["targets"].to_list() == [["grey", "gray"], ["2"]]
    assert run.scores["score"].to_list() == [1.0, 0.0]


def test_metrics_by_id_record_and_entry_keep_their_direction() -> None:
    @ef.metric("length_of_data_test", range=(0, 100), higher_is_better=False, needs_target=False)
    def length(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction.str.len_chars()

    for chosen in (length, "length_of_data_test", [length]):
        run = ef.run(ROWS, adding(), prompt="question", metrics=chosen, progress=False, out=False)
        (metric,) = run.rows["metrics"][0].to_list()
        assert (metric["id"], metric["higher_is_better"]) == ("length_of_data_test", False)
        assert run.rows["target"].null_count() == len(ROWS)
    entry = {"id": "f1", "aggregation": "none"}
    run = ef.run(ROWS, adding(), prompt="question", targets="answer", metrics=["exact_match", entry],
                 extract=ef.regex_last(r"(\d+)"), progress=False, out=False)  # fmt: skip
    assert run.rows["metrics"][0][1]["aggregation"] == "none"
    assert run.leaderboard()["mean_score"][0] == 1.0


def test_every_fault_at_once_in_the_words_of_the_call() -> None:
    found = faults(
        ROWS, prompt="quesion", targets="gold", metrics=["exact", "f1", print, "f1"],
        extract={"type": "regex", "pattern": "("},
    )  # fmt: skip
    assert list(found) == ["prompt", "targets", "extract.pattern", "metrics[0]", "metrics[2]", "metrics[1].id"]
    assert "did you mean 'question'?" in found["prompt"]
    assert "the data has the fields 'id', 'question', 'answer', 'subject', 'deep'" in found["prompt"]
    assert 'as in targets="{{deep}}"' in found["targets"]
    assert "at character 1" in found["extract.pattern"]
    assert "did you mean 'exact_match'?" in found["metrics[0]"]
    assert '@evalframe.metric("name")' in found["metrics[2]"]
    assert "stands at metrics[0] already" in found["metrics[1].id"]


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"prompt": "question"}, "metrics", "nothing says how replies are scored.*there are accuracy"),
        ({"prompt": "question", "metrics": []}, "metrics", "give metric ids"),
        ({"prompt": "question", "metrics": "f1"}, "targets", "the metric f1 compares with a target.*as in targets="),
        ({"prompt": "Say it", "metrics": "f1", "targets": "answer"}, "prompt", 'as in prompt="{{id}}"'),
        ({"prompt": " ", "metrics": "f1", "targets": "answer"}, "prompt", "is the name of no field"),
        ({"prompt": 5, "metrics": "f1", "targets": "answer"}, "prompt", "5 is no text"),
        ({"prompt": "id", "metrics": "f1", "targets": "answer", "extract": "nubmer"}, "extract",
         "did you mean 'number'"),
        ({"prompt": "id", "metrics": "f1", "targets": "answer", "extract": 5}, "extract", "give a type"),
        ({"prompt": "id", "metrics": [{"id": "f1", "agregation": "none"}], "targets": "answer"},
         "metrics[0].agregation", "did you mean 'aggregation'"),
    ],
)  # fmt: skip
def test_one_fault(given: dict[str, Any], where: str, words: str) -> None:
    found = faults(ROWS, **given)
    assert list(found) == [where]
    with pytest.raises(OptionError, match=f"(?s){words}"):
        ef.run(ROWS, adding(), progress=False, out=False, **given)


def test_a_template_of_single_braces_is_told_of_two() -> None:
    found = faults(ROWS, prompt="Q: {question}", targets="answer", metrics="f1")
    assert list(found) == ["prompt"]
    assert "placeholders have two braces, {{question}}; " in found["prompt"]


def test_a_file_divided_by_something_else_is_told_how_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "half.csv").write_text("question;answer\n1 + 1;2\n")
    found = faults(tmp_path / "half.csv", prompt="question", targets="answer", metrics="f1")
    assert list(found) == ["prompt", "targets"]
    assert all("divided by ';'? Read it first: polars.read_csv(path, separator=';')" in said for said in found.values())


def test_a_field_that_no_template_can_name() -> None:
    found = faults([{"row": "x", "a": "1"}], prompt="row", targets="a", metrics="f1")
    assert found == {"prompt": "no template can name the field 'row' -> rename the field"}


def test_the_fields_of_a_file_are_known_too(write_jsonl: Callable[..., Path], tmp_path: Path) -> None:
    late = write_jsonl(["no json", *ROWS, {"late": "x"}])
    assert "the data has the fields 'id', 'question'" in faults(late, prompt="x", metrics="f1", targets="a")["prompt"]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert "the fields 'a', 'b'" in faults(tmp_path / "t.csv", prompt="c", metrics="f1", targets="a")["prompt"]
    with pytest.raises(DatasetError, match=r"rows.jsonl:1:1"):  # the name is there, and the bad line is told
        ef.run(late, adding(), prompt="late", targets="answer", metrics="f1", progress=False, out=False)


def test_a_field_in_no_row_warns_or_is_refused() -> None:
    with pytest.warns(MissingFieldWarning, match="did you mean 'question'"):
        ef.run(ROWS, adding(), **{**ASKED, "prompt": "{{qestion}} 1 + 1 ="})
    with pytest.raises(DatasetError, match="did you mean 'question'"):
        ef.run(ROWS, adding(), **{**ASKED, "prompt": "{{qestion}}", "on_missing": "error"})


def test_samples_without_a_target_are_named_before_a_call_and_beside_the_figures() -> None:
    lacking = [{**ROWS[0], "answer": None}, {**ROWS[1], "answer": " "}, *ROWS[2:]]
    said = r"2 of 6 samples of data have an empty target.*wrong: q0, q1; fill the targets, or drop these rows"
    with pytest.warns(SettingWarning, match=said) as caught:
        run = ef.run(lacking, adding(), **ASKED)
    assert [warning.filename for warning in caught] == [__file__]
    assert any(re.match(said, note) for note in run.leaderboard().notes)
    assert any(re.match(said, note) for note in run.extend("mock/noisy", progress=False).leaderboard().notes)
    with pytest.warns(SettingWarning, match=said) as caught:
        ef.evaluate(lacking, prediction="question", targets="answer", metrics=["f1"], sample_id="id")
    assert [warning.filename for warning in caught] == [__file__]


def test_a_metric_that_compares_with_nothing_needs_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))

    @ef.metric("short_reply", range=(0, 1), needs_target=False)
    def short_reply(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        """Score 1 for a short reply."""
        return (prediction.str.len_chars() <= 10).cast(pl.Float64)

    lacking = [{**row, "answer": None} for row in ROWS]
    run = ef.run(lacking, adding(), **{**ASKED, "metrics": ["short_reply"]})
    assert "notes" not in run.record


def test_options_of_runs_hold_for_data() -> None:
    run = ef.run(ROWS, adding(), **ASKED, max_samples_per_task=2, sample_ids="content", repeats=2, task_ids=["data"])
    assert run.generations.height == 4
    assert all(len(name) == 32 for name in run.rows["sample_id"])
    with pytest.raises(OptionError, match=r"there is no task 'rows'.*known: data"):
        ef.run(ROWS, adding(), **ASKED, task_ids=["rows"])
    with pytest.raises(DatasetError, match=r"the id \"q0\" stands 2 times.*sample_ids='content'"):
        ef.run([ROWS[0], ROWS[0]], adding(), **ASKED)


@pytest.mark.parametrize(
    "source", [pl.DataFrame(ROWS), pl.LazyFrame(ROWS), pd.DataFrame(ROWS), ROWS, "data.csv", "data.parquet"], ids=type
)
def test_data_without_a_prompt_says_what_is_missing(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"a": [1]}).write_csv("data.csv")
    pl.DataFrame({"a": [1]}).write_parquet("data.parquet")
    with pytest.raises(OptionError, match=r'is data.*give prompt=, as in prompt="Q: {{question}}"'):
        ef.run(source, adding(), metrics="f1", progress=False, out=False)


def test_a_jsonl_file_of_data_without_a_prompt(write_jsonl: Callable[..., Path]) -> None:
    with pytest.raises(TaskFileError, match="data of your own goes with prompt="):
        ef.run(write_jsonl(ROWS), adding(), progress=False, out=False)


def test_what_data_is_asked_is_not_for_suites_and_task_files(fixtures: Path) -> None:
    found = faults(fixtures / "tasks.jsonl", targets="x", extract="number", metrics=["f1"])
    assert list(found) == ["targets", "extract", "metrics"]
    assert "run.rescore(extract=…)" in found["extract"]
    assert "run.rescore(manifest=…)" in found["targets"]


@pytest.mark.parametrize("source", [{"tasks": []}, "suite.json"], ids=str)
def test_a_manifest_takes_no_prompt(source: Any) -> None:
    with pytest.raises(OptionError, match="prompt= makes the source data, and a suite manifest is none: leave prompt="):
        ef.run(source, adding(), prompt="x", progress=False, out=False)


def test_a_path_that_is_no_data_file(tmp_path: Path) -> None:
    (tmp_path / "near.csv").write_text("a\n1\n")
    with pytest.raises(OptionError, match=r"there is no such file; .* has near.csv"):
        ef.run(tmp_path / "gone.csv", adding(), **ASKED)
    with pytest.raises(OptionError, match="is a folder -> give data"):
        ef.run(tmp_path, adding(), **ASKED)
    (tmp_path / "x.parquet").write_text("text")
    with pytest.raises(DatasetError, match="is no Parquet file"):
        ef.run(tmp_path / "x.parquet", adding(), **ASKED)


def test_options_of_data_are_recalled_without_them() -> None:
    options = RunOptions.of({"prompt": "q", "metrics": ["f1"], "seed": 3})
    recalled = RunOptions.recall(options.recorded())
    assert (recalled.seed, recalled.prompt, recalled.metrics) == (3, None, None)


CHILD = """
import sys, pathlib, time
import polars as pl
import evalframe as ef

folder, calls, gate = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
made = 0

def answer(prompt):
    global made
    made += 1
    if made > 7:
        gate.touch()
        time.sleep(600)
    with open(calls, "a") as log:
        log.write(prompt + "\\n")
    return prompt.split()[-1]

frame = pl.DataFrame({"q": [f"Say {i}" for i in range(20)], "a": [str(i) for i in range(20)]})
ef.run(frame, ef.from_callable("mine", answer), prompt="q", targets="a", metrics=["exact_match"], out=folder,
       progress=False, parallel=False)
"""


def test_a_killed_run_on_data_resumes_without_the_data(tmp_path: Path, killed_at) -> None:
    folder, calls, gate = tmp_path / "run", tmp_path / "calls", tmp_path / "gate"
    killed_at(gate, CHILD, folder, calls, gate)
    with Journal.open(folder / "journal.sqlite") as journal:
        assert journal.done().height == 7

    def answer(prompt: str) -> str:
        with calls.open("a") as log:
            log.write(prompt + "\n")
        return prompt.split()[-1]

    done = ef.resume(folder, ef.from_callable("mine", answer), progress=False)
    assert sorted(calls.read_text().splitlines()) == sorted(f"Say {i}" for i in range(20)), "each call once"
    assert done.record["status"] == "complete"
    assert done.leaderboard()["mean_score"].to_list() == [1.0]


def test_a_file_without_a_readable_record_has_its_lines_named(write_jsonl) -> None:
    path = write_jsonl(['{"question": ', "[1]"])
    with pytest.raises(DatasetError, match=r"(?s)rows.jsonl:1:.*rows.jsonl:2:1: is a list"):
        ef.run(path, adding(), prompt="question", targets="answer", metrics="f1", progress=False, out=False)


def test_many_tasks_without_targets_are_one_note(suite, write_jsonl) -> None:
    manifest = suite(*(f"t{index}" for index in range(5)))
    write_jsonl([{"id": index, "question": "?", "answer": " "} for index in range(6)])
    with pytest.warns(SettingWarning, match=r"30 samples of 5 tasks have an empty target.*wrong: t0, t1, t2, t3, t4;"):
        run = ef.run(manifest, adding(), progress=False, out=False)
    assert sum("empty target" in note for note in run.leaderboard().notes) == 1
