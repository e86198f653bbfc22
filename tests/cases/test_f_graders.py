"""Cases from the field that graders touch: C064, C107, C108."""

from __future__ import annotations

import json
from typing import Any

import pytest

import evalframe as ef
from evalframe.graders import GraderWarning


@pytest.fixture
def graded(write_jsonl, tmp_path, monkeypatch):
    def make(source: str, n: int, **task: Any) -> ef.Run:
        write_jsonl([{"id": index + 1, "q": "?"} for index in range(n)])
        monkeypatch.chdir(tmp_path)
        manifest = {"tasks": [{
            "id": "t", "type": "custom", "dataset": {"file_id": "rows.jsonl"}, "prompt_template": "{{q}}",
            "grader": {"source": source}, **task,
        }]}  # fmt: skip
        model = ef.from_callable("m", lambda prompt: "an answer")
        with pytest.warns(GraderWarning):
            return ef.run(manifest, [model], out=False, progress=False, allow_unsandboxed=True)

    return make


def test_c064_one_failing_call_leaves_the_others_alone(graded) -> None:
    source = "def grade(sample, item):\n    if item['id'] == 3:\n        raise ValueError('no 3')\n    return 1.0\n"
    run = graded(source, 5)
    assert run.scores["score"].to_list() == [1, 1, None, 1, 1]
    lost = run.grades.filter(grader_status="error").row(0, named=True)
    assert (lost["sample_index"], lost["grader_error_type"]) == (2, "ValueError")
    assert "no 3" in lost["grader_error_message"]
    assert "line 3, in grade" in lost["grader_error_message"]


def test_c107_nan_is_an_unscored_row_with_a_warning(graded) -> None:
    source = "def grade(sample, item):\n    return [1.0, None, 0.0, float('nan'), 1.0][sample['sample_index']]\n"
    row = graded(source, 5).task_metrics.row(0, named=True)
    assert (row["n_samples"], row["n_scored"], row["n_grader_error"]) == (5, 3, 2)
    assert row["value"] == pytest.approx(0.666667, abs=1e-6)


def test_c108_what_is_no_score_is_named(graded) -> None:
    source = """
def grade(sample, item):
    return [True, 1.7, -0.2, float("inf"), "0.5", {"score": 0.5}, "C"][sample["sample_index"]]
"""
    run = graded(source, 7, grader={"source": source, "metric_id": "accuracy"}, metrics=[{"id": "accuracy"}])
    assert run.scores["score"].to_list() == [1.0, None, None, None, None, 0.5, None]
    said = [json.loads(text)["error_message"] for text in run.scores["detail"].drop_nulls()]
    for value, message in zip(("1.7", "-0.2", "inf", "'0.5'", "'C'"), said, strict=True):
        assert f"returned {value} as accuracy" in message
