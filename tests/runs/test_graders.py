"""Runs with Python graders: what they are called with, what becomes of their scores, and that they are called once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe import grading
from evalframe.advice import SettingWarning
from evalframe.errors import DatasetError, ManifestError, OptionError, SandboxError
from evalframe.graders import GraderWarning

OPTIONS: dict[str, Any] = {"progress": False, "allow_unsandboxed": True}
MATCH = "def grade(sample, item):\n    return sample['output_text'] == item['target']\n"


@pytest.fixture
def graded(suite, Counting, tmp_path: Path):
    """Run a grader on six questions, of which the model gets q0 wrong and has no reply to q5."""

    def make(source: str, *, options: dict[str, Any] | None = None, model: Any = None, **task: Any) -> ef.Run:
        grader = {"source": source, **task.pop("grader", {})}
        manifest = suite(**{"metrics": [], "grader": grader, **task})
        model = model or Counting(wrong="0", fails="5")
        return ef.run(manifest, [model], out=tmp_path / "run", **{**OPTIONS, **(options or {})})

    return make


@pytest.fixture
def no_grading(monkeypatch: pytest.MonkeyPatch):
    """Make every further call of a grader a failure of the test."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a grader would be called")

    return lambda: monkeypatch.setattr(grading, "FunctionPool", refuse)


def scores_of(run: ef.Run, metric: str) -> list[float | None]:
    return run.scores.filter(metric=metric)["score"].to_list()


def test_a_number_is_a_score_and_a_failed_call_is_never_graded(graded) -> None:
    run = graded(MATCH)
    assert scores_of(run, "score") == [0.0, 1.0, 1.0, 1.0, 1.0, None]
    assert run.scores["fate"].to_list() == ["scored"] * 5 + ["failed"]
    assert run.scores["correct"].to_list() == [False, True, True, True, True, None]
    assert run.grades["grader_status"].to_list() == ["graded"] * 5
    summary = run.task_metrics.row(0, named=True)
    assert (summary["metric"], summary["value"], summary["source"]) == ("score", 0.8, "aggregate")
    assert (summary["n_scored"], summary["n_failed"], summary["n_samples"]) == (5, 1, 6)
    board = run.leaderboard().row(0, named=True)
    assert (board["mean_score"], board["tasks_completed"]) == (0.8, 1)
    assert board["mean_ci_lo"] is not None
    assert run.samples["score"].to_list() == [0.0, 1.0, 1.0, 1.0, 1.0, None]


SEEN = """
def grade(sample, item):
    return {"scores": {"seen": 1}, "metadata": {"sample": sample, "item": item}}
"""


def test_what_a_grader_is_called_with(graded, write_jsonl) -> None:
    run = graded(
        SEEN, metrics=[{"id": "seen"}], choices=["1", "2"], metadata={"k": [1]}, prompt_template="{{question}} {{big}}",
        target_template="<{{answer}}>", output_extraction={"type": "regex", "pattern": "(never)"},
        dataset={"file_id": str(write_jsonl([
            '{"id": "q7", "question": "a?", "answer": 2.50, "target": "its own", "big": 12345678901234567890123, '
            '"far": 1e999, "row": 1}'
        ], "one.jsonl").name)},
    )  # fmt: skip
    told = json.loads(run.grades["grader_metadata"][0])
    assert told["sample"] == {
        "task_id": "sums", "model": "m", "sample_index": 0, "sample_id": "q7", "repeat": 0,
        "prompt": "a? 12345678901234567890123", "target": "<2.50>", "targets": ["<2.50>"], "choices": ["1", "2"],
        "output_text": "<2.50>", "extracted_output": None, "reasoning": None, "tool_calls": None,
        "finish_reason": None, "metadata": {"k": [1]},
    }  # fmt: skip
    record = {"id": "q7", "question": "a?", "answer": 2.5, "target": "its own", "big": 12345678901234567890123,
              "far": "1e999", "row": 1}  # fmt: skip
    assert told["item"] == {**record, "target": "<2.50>", "row": record}
    assert run.scores["fate"].to_list() == ["scored"]  # nothing was extracted: the grader decides what that is worth


def test_declared_metrics_are_ranked_others_kept_and_missing_ones_named(graded) -> None:
    source = """
def grade(sample, item):
    scores = {"b": 0.5, "extra": 7}
    if item["id"] != "q1":
        scores["a"] = 1
    return {"scores": scores}
"""
    declared = [{"id": "a"}, {"id": "b", "aggregation": "none"}]
    with pytest.warns(
        GraderWarning, match="failed on 1 of 5 calls; the first: missing_metric: the grader returned no a"
    ):
        run = graded(source, metrics=declared)
    assert scores_of(run, "a") == [1.0, None, 1.0, 1.0, 1.0, None]
    assert scores_of(run, "extra") == [7.0] * 5
    lost = run.scores.filter(metric="a", sample_index=1).row(0, named=True)
    assert lost["fate"] == "grader_error"
    assert json.loads(lost["detail"])["error_type"] == "missing_metric"
    values = run.task_metrics.select("metric", "value", "aggregation", "headline").rows()
    assert values == [("a", 1.0, "mean", True), ("b", None, "none", False), ("extra", None, "none", False)]
    assert run.leaderboard()["mean_score"].to_list() == [1.0]
    assert run.samples["score.extra"].to_list() == [7.0] * 5 + [None]


def test_a_metric_of_a_grader_is_its_own_whatever_it_is_called(graded) -> None:
    run = graded("def grade(sample, item):\n    return {'scores': {'exact_match': 0.25, 'corpus_bleu_4': 0.5}}\n",
                 metrics=[{"id": "exact_match"}, {"id": "corpus_bleu_4"}])  # fmt: skip
    assert scores_of(run, "exact_match") == [0.25] * 5 + [None]
    assert dict(run.task_metrics.select("metric", "value").iter_rows()) == {"corpus_bleu_4": 0.5, "exact_match": 0.25}


BATCH = """
def grade_batch(samples):
    hits = [sample["output_text"] == sample["item"]["target"] for sample in samples]
    return {"metrics": {"accuracy": sum(hits) / len(hits), "n": len(samples)}}
"""


def test_a_grader_may_name_its_score_as_the_metric_that_runs_code(graded) -> None:
    half = "def grade(sample, item):\n    return 0.5\n"
    run = graded(half, grader={"metric_id": "code_exec"}, target_template="no Python: {{answer}}")
    assert scores_of(run, "code_exec") == [0.5] * 5 + [None]


def test_a_batch_grader_may_give_metrics_alone(graded) -> None:
    run = graded(
        BATCH, grader={"contract": "batch"}, options={"repeats": {"sums": 2}, "generation": {"temperature": 1}}
    )
    assert run.scores["fate"].to_list() == ["failed"] * 2  # the completed calls have no score of their own
    values = run.task_metrics.select("metric", "value", "source", "headline", "n_scored", "n_failed").rows()
    # without declared metrics the first key is the headline; what else it gave is kept
    assert values == [("accuracy", 0.8, "grader", True, 10, 2), ("n", 5.0, "grader", False, 10, 2)]
    assert run.rows["metrics"][0].to_list() == [{"id": "accuracy", "aggregation": "mean", "higher_is_better": True}]
    board = run.leaderboard().row(0, named=True)
    assert (board["mean_score"], board["mean_ci_lo"], board["tasks_completed"]) == (0.8, None, 1)
    assert (board["n_scored"], board["n_failed"], board["n_samples"]) == (10, 2, 12)
    assert run.pairwise().is_empty()
    assert run.grades["grader_status"].to_list() == ["graded"] * 10
    assert ef.load(run.path).leaderboard().equals(run.leaderboard())


def test_the_key_metric_id_is_the_headline_of_a_batch_that_declares_none(graded) -> None:
    run = graded(BATCH, grader={"contract": "batch", "metric_id": "n"})
    assert run.task_metrics.filter("headline")["metric"].to_list() == ["n"]


def test_a_batch_with_scores_and_their_mean_has_an_interval(graded, Counting) -> None:
    source = """
def grade_batch(samples):
    scores = [float(s["output_text"] == s["item"]["target"]) for s in samples]
    entries = [{"sample_index": s["sample_index"], "scores": {"hit": x}} for s, x in zip(samples, scores)]
    return {"metrics": {"hit": sum(scores) / len(scores)}, "samples": entries}
"""
    run = graded(source, grader={"contract": "batch"}, metrics=[{"id": "hit"}], model=Counting(wrong="0 1"))
    assert scores_of(run, "hit") == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert run.task_metrics["source"].to_list() == ["grader"]
    board = run.leaderboard().row(0, named=True)
    assert board["mean_score"] == pytest.approx(4 / 6)
    assert board["mean_ci_lo"] < board["mean_score"] < board["mean_ci_hi"]


def test_where_a_batch_value_is_no_mean_it_ranks_alone(graded) -> None:
    source = "def grade_batch(samples):\n    return {'metrics': {'hit': 0.3}, 'samples': [{'sample_index': s['sample_index'], 'score': 1} for s in samples]}\n"  # noqa: E501
    run = graded(source, grader={"contract": "batch", "metric_id": "hit"})
    assert run.task_metrics["value"].to_list() == [0.3]
    board = run.leaderboard().row(0, named=True)
    assert (board["mean_score"], board["mean_ci_lo"], board["n_scored"], board["n_samples"]) == (0.3, None, 5, 6)


def test_a_batch_that_fails_is_an_error_of_each_of_its_samples(graded) -> None:
    source = "def grade_batch(samples):\n    raise KeyError(len(samples))\n"
    with pytest.warns(GraderWarning, match="failed on 5 of 5 calls; the first: KeyError: 5"):
        run = graded(source, grader={"contract": "batch", "metric_id": "hit"})
    assert run.scores.select("metric", "fate").rows() == [("hit", "grader_error")] * 5 + [("hit", "failed")]
    (row,) = run.task_metrics.to_dicts()
    assert (row["value"], row["source"], row["headline"], row["n_grader_error"], row["n_failed"]) == (
        None, "aggregate", True, 5, 1,
    )  # fmt: skip
    assert run.leaderboard()["mean_score"].to_list() == [None]
    assert run.failures().height == 6


@pytest.mark.parametrize("contract", ["batch", "model_backed"])
def test_a_batch_is_all_samples_of_a_model_and_repeat_whatever_the_segments(
    suite, Counting, contract: str, recwarn: pytest.WarningsRecorder
) -> None:
    source = """
def grade_batch(samples):
    keys = {(s["model"], s["repeat"]) for s in samples}
    assert len(keys) == 1, keys
    indices = [s["sample_index"] for s in samples]
    return [{"score": len(samples) / 10, "metadata": indices} for s in samples]
"""
    manifest = suite(metrics=[], grader={"source": source, "contract": contract})
    options = OPTIONS | {"repeats": 2, "generation": {"temperature": 1}, "limits": ef.Limits(segment_rows=3)}
    run = ef.run(manifest, [Counting("a"), Counting("b", fails="2")], out=False, **options)
    assert run.record["n_segments"] > 2
    assert run.scores.filter(model_id="a")["score"].to_list() == [0.6] * 12
    told = run.grades.filter(model_id="b")["grader_metadata"].unique().to_list()
    assert told == ["[0,1,3,4,5]"]
    assert run.folder.kept().height == 4  # calls of the grader: two models, two repeats
    assert run.leaderboard()["mean_score"].to_list() == [0.6, 0.5]


def test_graded_and_ungraded_tasks_stand_side_by_side_in_every_segment(suite, Counting) -> None:
    manifest = suite("graded", "plain", metrics=[{"id": "exact_match"}])
    half = "def grade(sample, item):\n    return {'scores': {'exact_match': 0.5}}\n"
    manifest["tasks"][0]["grader"] = {"source": half}
    run = ef.run(manifest, [Counting(wrong="3")], out=False, limits=ef.Limits(segment_rows=4), **OPTIONS)
    assert run.scores.filter(task_id="graded")["score"].to_list() == [0.5] * 6
    assert run.scores.filter(task_id="plain")["score"].to_list() == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert run.grades["task_id"].unique().to_list() == ["graded"]
    assert run.leaderboard()["mean_score"].to_list() == [pytest.approx((0.5 + 5 / 6) / 2)]


def test_errors_cost_their_sample_alone_and_are_told(graded) -> None:
    source = """
import os

def helper(text):
    raise ValueError("no " + text)

def grade(sample, item):
    match item["id"]:
        case "q0": helper(item["question"])
        case "q1": return {"scores": {"score": float("nan")}}
        case "q2": return {1, 2}
        case "q3": os._exit(0)
    return 1
"""
    with pytest.warns(GraderWarning, match=r"failed on 4 of 5 calls; the first: ValueError: no 0 \+ 1\?; run.grades"):
        run = graded(source)
    assert scores_of(run, "score") == [None, None, None, None, 1.0, None]
    assert run.generations["status"].to_list() == ["completed"] * 5 + ["failed"]
    assert run.grades["grader_error_type"].to_list() == ["ValueError", "bad_score", "broken", "broken", None]
    first, second, third, fourth, _ = run.grades["grader_error_message"]
    assert first.startswith("no 0 + 1?\nTraceback")
    assert 'File "tasks[0].grader.source", line 5, in helper' in first
    assert 'File "tasks[0].grader.source", line 9, in grade' in first
    assert "nan as score, which is no finite number" in second
    assert "set" in third
    assert "ended" in fourth
    assert run.samples["grader_error_type"].to_list() == [*run.grades["grader_error_type"], None]
    assert run.scan("samples").select("grader_status").collect().equals(run.samples.select("grader_status"))
    assert run.task_metrics["n_grader_error"].to_list() == [4]
    assert run.failures()["sample_id"].to_list() == ["q0", "q1", "q2", "q3", "q5"]


def test_nothing_is_graded_twice(graded, no_grading, suite, tmp_path: Path, same_frames) -> None:
    run = graded(MATCH, metrics=[{"id": "score"}])
    no_grading()
    assert ef.resume(run.path, [*_model(run)], progress=False).scores.equals(run.scores)
    run.folder.update_record(status="running")  # as of a process that was killed before it had ended
    again = ef.load(run.path)
    same_frames(run, again)
    assert again.grades.equals(run.grades)
    assert run.rescore(confidence="adapter").scores.equals(run.scores)
    exported = ef.load(run.to_parquet(tmp_path / "export"))
    assert exported.rescore(confidence="adapter").scores.equals(run.scores)


def _model(run: ef.Run) -> list[Any]:
    class Silent:
        model_id = "m"

        def generate(self, prompt: str, task: Any) -> Any:
            raise ConnectionError("the line is down")

    return [Silent()]


def test_another_extraction_grades_what_it_changes(graded) -> None:
    source = "def grade(sample, item):\n    return sample['extracted_output'] == '1'\n"
    run = graded(source)
    assert scores_of(run, "score") == [0.0, 0.0, 0.0, 0.0, 0.0, None]
    other = run.rescore(extract={"type": "regex", "pattern": "([0-9])", "group": 1})
    assert scores_of(other, "score") == [0.0, 0.0, 0.0, 0.0, 0.0, None]
    always = run.rescore(extract={"type": "regex", "pattern": "^(1|2)", "group": 1})
    assert scores_of(always, "score") == [0.0, 0.0, 0.0, 0.0, 0.0, None]
    assert always.folder.kept().height > run.folder.kept().height


def test_regrade_calls_only_what_failed(graded) -> None:
    source = """
import json, os

FLAG = json.loads(os.environ["EVALFRAME_FILES"])

def grade(sample, item):
    if item["id"] == "q1":
        raise ValueError("not yet")
    return {"score": 1, "metadata": {"files": sorted(FLAG)}}
"""
    with pytest.warns(GraderWarning):
        run = graded(source)
    assert json.loads(run.grades["grader_metadata"][0]) == {"files": ["rows.jsonl"]}
    before = run.folder.kept()
    with pytest.warns(GraderWarning):
        again = run.regrade()
    assert again.record["derived_from"][0]["how"] == "regrade"
    assert again.scores.equals(run.scores)
    assert again.folder.kept().sort("digest").equals(before.sort("digest"))
    good = run.rescore(graders={"sums": MATCH})
    with pytest.raises(OptionError, match="every grader gave its scores: there is nothing to grade again"):
        good.regrade()
    with pytest.raises(OptionError, match="no task has a grader"):
        good.rescore(graders={"sums": None}, metrics=["exact_match"]).regrade()


def test_other_graders_for_the_same_replies(graded, tmp_path: Path) -> None:
    run = graded(MATCH)
    file = tmp_path / "half.py"
    file.write_text("def grade_batch(samples):\n    return [0.5 for _ in samples]\n")
    half = run.rescore(graders=file)
    assert scores_of(half, "score") == [0.5] * 5 + [None]
    assert half.record["graders"]["sums"]["name"] == "half.py"
    assert "not the same grader in: sums" in " ".join(half.record["notes"])
    built_in = half.rescore(graders={"sums": None}, metrics=["exact_match"])
    assert scores_of(built_in, "exact_match") == [0.0, 1.0, 1.0, 1.0, 1.0, None]
    back = built_in.rescore(graders={"sums": {"source": MATCH}})
    assert back.scores.equals(run.scores)


def test_parallel_and_sequential_runs_give_equal_frames(suite, Counting, same_frames, write_jsonl) -> None:
    write_jsonl([{"id": index, "question": f"{index}?", "answer": index} for index in range(100)])
    source = """
import random

seen = []

def grade(sample, item):
    seen.append(item["id"])
    return {"score": random.random(), "metadata": {"before": len(seen)}}
"""
    manifest = suite(metrics=[], grader={"source": source})
    one, other = (ef.run(manifest, [Counting()], out=False, parallel=parallel, **OPTIONS) for parallel in (True, False))
    same_frames(one, other)
    assert one.grades.equals(other.grades)
    assert one.scores["score"].n_unique() == 100
    before = [json.loads(text)["before"] for text in one.grades["grader_metadata"]]
    assert max(before) < 100  # globals begin anew with each chunk


def test_a_grader_in_a_file_goes_with_the_run(suite, Counting, tmp_path: Path, no_grading) -> None:
    file = tmp_path / "grader.py"
    file.write_text("\ufeff" + MATCH + "# end\n", encoding="utf-8")
    run = ef.run(suite(metrics=[], grader={"file_id": "grader.py"}), [Counting()], out=tmp_path / "run", **OPTIONS)
    assert scores_of(run, "score") == [1.0] * 6
    file.unlink()
    no_grading()
    manifest = suite(metrics=[], grader={"file_id": "grader.py"})
    assert run.rescore(manifest=manifest).scores.equals(run.scores)
    assert ef.resume(run.path, [Counting()], progress=False).scores.equals(run.scores)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("def grade(sample, item)\n    return 1\n", ManifestError, r"grader.file_id \(grader.py\): line 1"),
        ("def score(sample, item):\n    return 1\n", ManifestError, "does not define grade"),
        ("import no_such_package\n\ndef grade(sample, item):\n    return 1\n", SandboxError, "no_such_package"),
        (None, DatasetError, "there is no file 'grader.py'"),
    ],
)
def test_a_grader_that_can_not_be_used_costs_no_call(
    suite, Counting, tmp_path: Path, text: str | None, error: type[Exception], says: str
) -> None:
    if text is not None:
        (tmp_path / "grader.py").write_text(text)
    model = Counting()
    with pytest.raises(error, match=says):
        ef.run(suite(metrics=[], grader={"file_id": "grader.py"}), [model], out=tmp_path / "never", **OPTIONS)
    assert model.seen == []
    assert not (tmp_path / "never").exists()


def test_without_a_model_ctx_says_so(graded) -> None:
    source = """
def grade(sample, item, ctx):
    return len(ctx.responses_create(input="?")["output_text"])
"""
    with pytest.warns(GraderWarning, match="RuntimeError"), pytest.warns(SettingWarning, match="no judge_model"):
        run = graded(source, grader={"contract": "model_backed"})
    assert run.grades["grader_error_type"].to_list() == ["RuntimeError"] * 5


class Judge:
    model_id = "judge"

    def __init__(self) -> None:
        self.down = True

    def generate(self, prompt: str, task: ef.TaskSpec) -> ef.Generation:
        if self.down and prompt == "2":
            raise ConnectionError("the judge sleeps")
        return ef.Generation("0.5", raw=b"{}")


def test_what_a_judge_failed_at_is_graded_again_with_the_judge_handed_in(graded, Counting) -> None:
    source = """
def grade(sample, item, ctx):
    return float(ctx.responses_create(input=sample["output_text"])["output_text"])
"""
    judge = Judge()
    options = {"judge_model": judge, "generation": {"max_retries": 0}}
    with pytest.warns(GraderWarning, match="RuntimeError"):
        run = graded(source, grader={"contract": "model_backed"}, model=Counting(), options=options)
    assert scores_of(run, "score") == [0.5, None, 0.5, 0.5, 0.5, 0.5]
    better = Judge()
    better.down, better.model_id = False, "better"
    assert scores_of(run.rescore(judge_model=better), "score") == [0.5] * 6
    judge.down = False
    assert scores_of(run.regrade([judge]), "score") == [0.5] * 6
    with pytest.warns(SettingWarning, match="no judge_model"), pytest.warns(GraderWarning, match="1 of 6 calls"):
        run.regrade()


def test_more_models_and_other_runs_keep_their_grades(graded, suite, Counting) -> None:
    run = graded(MATCH, model=Counting())
    more = run.extend([Counting("n", wrong="1")])
    assert more.leaderboard()["mean_score"].to_list() == [1.0, pytest.approx(5 / 6)]
    other = ef.run(suite(metrics=[], grader={"source": MATCH}), [Counting("k", wrong="2")], out=False, **OPTIONS)
    both = ef.concat([run, other])
    assert both.scores.height == 12
    assert both.folder.kept().height == 12
    assert both.grades.height == 12


def test_the_published_example_runs_on_local_files(suite, Counting, shared_data: Path, write_jsonl, tmp_path) -> None:
    published = shared_data.parent / "spec" / "examples" / "qa_exact_match.json"
    write_jsonl([{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6"}], "data.jsonl")
    (tmp_path / "exact.py").write_text(
        "def grade(sample, item):\n"
        "    return {'scores': {'exact_match': 1.0 if sample['extracted_output'] == item['target'] else 0.0}}\n"
    )
    files = {"file_dataset123": "data.jsonl", "file_grader123": "exact.py"}
    run = ef.run(str(published), ["mock/rule_based"], files=files, out=False, **OPTIONS)
    assert run.task_metrics.select("metric", "source", "n_samples").rows() == [("exact_match", "aggregate", 2)]
    assert run.scores["fate"].to_list() == ["scored", "scored"]
    assert run.grades["grader_status"].to_list() == ["graded", "graded"]


def test_belebele_rows_run_with_the_published_grader(shared_data: Path, suite, Counting, write_jsonl) -> None:
    (task,) = json.loads((shared_data.parent / "spec" / "examples" / "belebele_ukrainian.json").read_text())["tasks"]
    blank = dict.fromkeys(("flores_passage", "question", "mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"), "x")
    write_jsonl([{**blank, "correct_answer_num": str(1 + index % 4)} for index in range(8)], "belebele.jsonl")
    task["dataset"] = {"file_id": "belebele.jsonl"}
    run = ef.run(
        {"tasks": [task]}, ["mock/rule_based", "mock/random"] if False else ["mock/rule_based"], out=False, **OPTIONS
    )
    assert set(run.scores["metric"]) == {"accuracy"}
    assert run.scores["score"].is_in([0.0, 1.0]).all()
    assert run.scores.filter(pl.col("fate") != "scored").is_empty()
