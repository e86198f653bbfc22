"""What a grader may return, and what its error says where it returned something else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from evalframe.grading.verdicts import Verdict, read_batch, read_outcome
from evalframe.sandbox.foreign import Broken, Outcome, Raised, Returned, TimedOut


def read(value: Any, metric_id: str = "score") -> Verdict:
    return read_outcome(Returned(value), metric_id=metric_id)


@pytest.mark.parametrize(
    ("value", "scores"),
    [
        (1, {"score": 1.0}),
        (0.25, {"score": 0.25}),
        (True, {"score": 1.0}),
        (False, {"score": 0.0}),
        (-7, {"score": -7.0}),
        ({"score": 0.5}, {"score": 0.5}),
        ({"scores": {"a": 1, "b": True}}, {"a": 1.0, "b": 1.0}),
        ({"scores": {}}, {}),
    ],
)  # fmt: skip
def test_what_counts_as_scores(value: Any, scores: dict[str, float]) -> None:
    assert read(value) == Verdict(scores)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (None, "None as score, which is no number"), ("0.5", "'0.5' as score, which is no number"),
        (math.nan, "nan as score, which is no finite number"), (math.inf, "inf as score"), (-math.inf, "-inf as score"),
        ([1.0], "[1.0] as score"), (10**400, "which is more than a float can hold"),
        ({"score": "C"}, "'C' as score"), ({"scores": {"score": None}}, "None as score"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_named(value: Any, seen: str) -> None:
    verdict = read(value)
    assert verdict.scores == {}
    error_type, message = verdict.errors["score"]
    assert error_type == "bad_score"
    assert seen in message


def test_one_bad_number_does_not_take_the_others_along() -> None:
    verdict = read({"scores": {"good": 1, "bad": math.nan}})
    assert verdict.scores == {"good": 1.0}
    assert list(verdict.errors) == ["bad"]
    assert verdict.error is None


def test_a_registered_metric_keeps_its_range_and_another_id_has_none() -> None:
    assert "out of the range of the metric 'accuracy', 0 to 1" in read(1.7, "accuracy").errors["accuracy"][1]
    assert read(-0.2, "accuracy").errors
    assert read(1, "accuracy").scores == {"accuracy": 1.0}
    assert read(1.7, "points").scores == {"points": 1.7}


@pytest.mark.parametrize("value", [{}, {"accuracy": 1.0}, {"scores": 3}, {"scores": None}, {"metadata": {}}])
def test_a_dict_without_scores_is_no_result(value: Any) -> None:
    error = read(value).error
    assert error is not None
    assert error[0] == "bad_return"
    assert 'return a number, or {"scores": {"metric": number}}' in error[1]


def test_metadata_and_judge_are_kept_as_json() -> None:
    verdict = read({"scores": {"a": 1}, "metadata": {"n": 2, "x": math.nan}, "judge": ["é", {"why": "so"}]})
    assert verdict.metadata == '{"n":2,"x":null}'
    assert verdict.judge == '["é",{"why":"so"}]'
    assert json.loads(read({"score": 1, "why": "so", "metadata": {"n": 2}}).metadata or "") == {"why": "so", "n": 2}
    assert json.loads(read({"score": 1, "why": "so", "metadata": 3}).metadata or "") == {"why": "so", "metadata": 3}


@pytest.mark.parametrize(
    ("outcome", "error", "timed_out"),
    [
        (Raised("ValueError", "no", "File …"), ("ValueError", "no"), False),
        (TimedOut(120.0), ("timeout", "the grader was not done after 120 s; make it faster, or raise timeout_seconds"),
         True),
        (Broken("out of memory"), ("broken", "out of memory"), False),
    ],
)  # fmt: skip
def test_what_gave_nothing_has_an_error(outcome: Outcome, error: tuple[str, str], timed_out: bool) -> None:
    verdict = read_outcome(outcome, metric_id="score")
    assert (verdict.error, verdict.timed_out) == (error, timed_out)
    both = read_batch(outcome, metric_id="score", sample_indices=[4, 7]).verdicts
    assert both == [verdict, verdict]


def batch(value: Any, indices: tuple[int, ...] = (4, 7)) -> Any:
    return read_batch(Returned(value), metric_id="score", sample_indices=indices)


def test_a_batch_is_a_list_in_order_or_a_dict_with_either_part() -> None:
    assert [one.scores for one in batch([0.5, {"scores": {"a": 1}}]).verdicts] == [{"score": 0.5}, {"a": 1.0}]
    only_metrics = batch({"metrics": {"f": 0.5, "n": True}})
    assert only_metrics.metrics == {"f": 0.5, "n": 1.0}
    assert only_metrics.verdicts == [Verdict(), Verdict()]
    entries = [{"sample_index": 7, "scores": {"a": 1}, "judge": "x"}, {"sample_index": 4, "score": 0}]
    said = batch({"samples": entries})
    assert [one.scores for one in said.verdicts] == [{"score": 0.0}, {"a": 1.0}]
    assert said.verdicts[1].judge == '"x"'
    assert batch({"samples": entries[:1]}).verdicts[0] == Verdict()
    assert batch({"samples": [], "metrics": None}).verdicts == [Verdict(), Verdict()]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1.0], "grade_batch returned 1 results for 2 samples"),
        (0.5, "grade_batch returned 0.5"),
        ({"scores": {"a": 1}}, "grade_batch returned {'scores': {'a': 1}}"),
        ({"metrics": 0.5}, "grade_batch returned metrics: 0.5"),
        ({"samples": {"4": 1}}, "grade_batch returned samples: {'4': 1}"),
        ({"samples": [{"sample_index": 5, "score": 1}]}, "samples[0] with sample_index 5, which is no sample of this"),
        ({"samples": [{"score": 1}]}, "samples[0] with sample_index None"),
        ({"samples": [3]}, "samples[0] as 3"),
        ({"samples": [{"sample_index": 4, "score": 1}] * 2}, "with sample_index 4, which stands there twice"),
    ],
)  # fmt: skip
def test_what_is_no_batch_result_is_an_error_of_all(value: Any, says: str) -> None:
    for verdict in batch(value).verdicts:
        assert verdict.error is not None
        assert verdict.error[0] == "bad_return"
        assert says in verdict.error[1]


def test_a_bad_number_of_the_whole_batch_is_an_error_of_each_sample_and_keeps_the_rest() -> None:
    said = batch({"metrics": {"f": math.nan, "g": 1}, "samples": [{"sample_index": 4, "score": 1}]})
    assert said.metrics == {"g": 1.0}
    assert [list(one.errors) for one in said.verdicts] == [["f"], ["f"]]
    assert said.verdicts[0].scores == {"score": 1.0}
