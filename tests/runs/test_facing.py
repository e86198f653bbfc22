"""Two runs that face each other: which models, what is refused, and what is said beside the figures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import OptionError, VersionMismatch


def test_what_is_no_run_is_refused(suite, Counting) -> None:
    run = ef.run(suite(), Counting(), progress=False)
    for verb in (run.compare, run.differences):
        with pytest.raises(OptionError, match=r"'results' is no run.*evalframe.load\(path\)"):
            verb("results")


def test_the_models_that_both_have_face_each_other(suite, Counting) -> None:
    a = ef.run(suite(), [Counting("x", wrong="1"), Counting("y")], progress=False)
    b = ef.run(suite(), [Counting("x"), Counting("z")], progress=False)
    assert a.compare(b).select("model_a", "model_b").unique().rows() == [("x", "x")]
    assert a.compare(b)["change"][0] == "fixed"
    assert a.differences(b, models={"x": "x", "y": "z"})["model_b"].to_list() == ["x", "z"]


def test_models_without_a_namesake_are_asked_for(suite, Counting) -> None:
    a = ef.run(suite(), [Counting("x"), Counting("y")], progress=False)
    b = ef.run(suite(), Counting("z"), progress=False)
    with pytest.raises(OptionError, match=r"first run has x, y, the second z; say which.*models=\("):
        a.compare(b)
    with pytest.raises(OptionError, match="the second run has no model 'zz'; did you mean 'z'"):
        a.compare(b, models=("x", "zz"))
    with pytest.raises(OptionError, match="names no pair of models"):
        a.compare(b, models="x")
    assert a.compare(b, models=("y", "z")).height == 6


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt_template": "Q: {{question}}"}, "task sums: the prompt differs"),
        ({"dataset": {"file_id": "rows.jsonl", "max_rows": 3}}, "task sums: the data set differs"),
        ({"num_fewshot": 1}, "task sums: the few-shot examples differ"),
    ],
)
def test_samples_that_are_not_the_same_are_refused_by_part(suite, Counting, changes, said: str) -> None:
    a, b = (ef.run(one, Counting(), progress=False) for one in (suite(), suite(**changes)))
    for verb in (a.compare, a.differences):
        with pytest.raises(VersionMismatch, match=said):
            verb(b)


def test_what_else_differs_is_said(suite, Counting) -> None:
    a = ef.run(suite("a", "b"), Counting(), progress=False)
    b = ef.run(suite("b", "c", output_extraction={"type": "number"}), Counting(), progress=False)
    for verb in (a.compare, a.differences):
        notes = verb(b).notes
        assert "tasks that only one of the runs has: a, c" in notes
        assert "not the same extraction in: b" in notes


def test_samples_that_were_named_in_two_ways_are_said_not_to_meet(suite, Counting) -> None:
    a = ef.run(suite(), Counting(), progress=False)
    b = ef.run(suite(), Counting(), sample_ids="content", progress=False)
    said = "no sample of one run is in the other: they were named by sample_ids='auto' and 'content'"
    assert said in a.compare(b).notes


def test_task_files_are_compared_row_by_row(fixtures: Path, tmp_path: Path) -> None:
    options = {"allow_unsandboxed": True, "progress": False}
    a = ef.run(fixtures / "tasks.jsonl", "mock/rule_based", **options)
    other = tmp_path / "other.jsonl"
    text = (fixtures / "tasks.jsonl").read_text("utf-8")
    other.write_text(text.replace("Compute the result. Question: 17 + 24", "Compute: 17 + 24"), "utf-8")
    with pytest.raises(VersionMismatch, match="task arith_001: the prompt differs") as caught:
        a.compare(ef.run(other, "mock/rule_based", **options))
    assert len(caught.value.fault_records) == 1
    assert a.compare(a)["change"].unique().to_list() == ["same"]


def test_samples_are_scanned_without_being_joined_whole(suite, Counting) -> None:
    run = ef.run(suite("a", "b", metadata={"page": 1}), [Counting("x", fails="1"), Counting("y")], progress=False)
    lazy = run.scan("samples")
    assert lazy.select("sample_id", "score").collect().height == 24
    assert "samples" not in run.__dict__
    assert lazy.collect().equals(run.samples)


def test_differences_follow_from_the_exported_frames(suite, Counting, tmp_path: Path) -> None:
    class Wavering(Counting):
        """Wrong, or down, in its second repeat."""

        def generate(self, prompt, task):
            fails, wrong = self.fails, self.wrong
            if task.repeat == 0:
                self.fails, self.wrong = "", ""
            try:
                return super().generate(prompt, task)
            finally:
                self.fails, self.wrong = fails, wrong

    options = {"repeats": 2, "generation": {"temperature": 1}, "parallel": False, "progress": False}
    a = ef.run(suite("a", "b"), Wavering("x", wrong="1 2 3", fails="4"), **options)
    b = ef.run(suite("a", "b"), Wavering("x", wrong="2 5"), task_ids=["a"], **options)
    b = ef.concat([b, ef.run(suite("a", "b"), Wavering("x", fails="0 1 2"), task_ids=["b"], **options)])
    means = []
    for name, run in (("a", a), ("b", b)):
        folder = run.to_parquet(tmp_path / name)
        scores = pl.read_parquet(folder / "scores/*.parquet").filter(pl.col("score").is_not_null())
        found: dict[tuple[str, int], list[float]] = {}
        for task, index, score in scores.select("task_id", "sample_index", "score").iter_rows():
            found.setdefault((task, index), []).append(score)
        means.append({key: sum(values) / len(values) for key, values in found.items()})
    tasks = [
        [means[1][key] - means[0][key] for key in means[0].keys() & means[1].keys() if key[0] == task] for task in "ab"
    ]
    expected = sum(sum(task) / len(task) for task in tasks) / 2
    row = a.differences(b).to_dicts()[0]
    assert row["diff_mean"] == pytest.approx(expected, abs=1e-9)
    assert row["diff_mean"] == pytest.approx(row["mean_b"] - row["mean_a"], abs=1e-9)
    turned = b.differences(a).to_dicts()[0]
    assert turned["diff_mean"] == pytest.approx(-expected, abs=1e-9)
    assert (turned["ci_lo"], turned["ci_hi"]) == pytest.approx((-row["ci_hi"], -row["ci_lo"]), abs=1e-9)
    assert (turned["n_fixed"], turned["n_broken"]) == (row["n_broken"], row["n_fixed"])
    assert row["n_unscored"] == turned["n_unscored"] == 5
