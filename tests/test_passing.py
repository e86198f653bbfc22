"""pass@k over frames: which tries count, how problems are averaged, what is left out and said."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from evalframe.errors import OptionError, SchemaError
from evalframe.frames import Noted, from_records
from evalframe.passing import pass_at_k
from evalframe.schemas import PASS_AT_K, ROWS, SCORES
from evalframe.standings import leaderboard

Record = dict[str, Any]
FAST: dict[str, Any] = {"n_resamples": 200}


def tries(model: str, task: str, sample: int, marks: str, *, metric: str = "code_exec") -> list[Record]:
    """One problem: ``+`` passed, ``-`` did not, ``u`` unparsed, ``f`` failed, ``g`` grader error, ``?`` unjudged."""
    fates = {"u": "unparsed", "f": "failed", "g": "grader_error"}
    return [
        {
            "model_id": model, "task_id": task, "sample_index": sample, "repeat": repeat, "metric": metric,
            "score": {"+": 1.0, "-": 0.5, "u": 0.0, "?": 7.0}.get(mark), "fate": fates.get(mark, "scored"),
            "correct": {"+": True, "-": False, "u": False}.get(mark),
        }
        for repeat, mark in enumerate(marks)
    ]  # fmt: skip


def scores_of(*problems: list[Record]) -> pl.DataFrame:
    return from_records([record for problem in problems for record in problem], SCORES).sort(SCORES.key)


def exactly(n: int, c: int, k: int) -> float:
    return float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


def test_problems_are_averaged_within_their_task_and_tasks_with_each_other() -> None:
    scores = scores_of(tries("m", "a", 0, "++--"), tries("m", "a", 1, "----"), tries("m", "b", 0, "+---"))
    one, two = pass_at_k(scores, k=[2, 1], **FAST).to_dicts()
    assert (one["k"], two["k"]) == (1, 2)
    assert one["pass_at_k"] == pytest.approx((0.5 / 2 + 0.25) / 2, abs=1e-12)
    assert two["pass_at_k"] == pytest.approx((exactly(4, 2, 2) / 2 + exactly(4, 1, 2)) / 2, abs=1e-12)
    by_sample = pass_at_k(scores, k=2, weighting="sample", **FAST)["pass_at_k"].item()
    assert by_sample == pytest.approx((exactly(4, 2, 2) + exactly(4, 1, 2)) / 3, abs=1e-12)


def test_only_a_full_pass_counts_and_no_reply_is_no_try() -> None:
    scores = scores_of(tries("m", "a", 0, "+-ufg"), tries("m", "a", 1, "fffff"), tries("m", "a", 2, "+++++"))
    found = pass_at_k(scores, k=[1, 3, 5], **FAST)
    assert found["pass_at_k"].to_list() == [pytest.approx((1 / 3 + 1) / 2), 1.0, 1.0]
    assert found["n_problems"].to_list() == [3, 3, 3]
    assert found["n_undefined"].to_list() == [1, 1, 2]
    assert found.select("n_repeats_min", "n_repeats_max").unique().rows() == [(0, 5)]
    assert isinstance(found, Noted)
    assert found.notes[-1] == (
        "k = 5: 2 problems (over all models) have fewer than 5 scored repeats and are in no mean"
    )


def test_more_tries_than_there_were_is_null_and_says_how_many_there_are() -> None:
    scores = scores_of(tries("m", "a", 0, "--"), tries("m", "a", 1, "+-"), tries("n", "a", 0, "+"))
    found = pass_at_k(scores, **FAST)
    assert found["k"].to_list() == [1, 5, 1, 5]
    five = found.filter(k=5)
    assert five["pass_at_k"].to_list() == five["pass_at_k_ci_lo"].to_list() == [None, None]
    assert five["ci_method"].to_list() == ["none: nothing scored"] * 2
    assert five["n_undefined"].to_list() == five["n_problems"].to_list() == [2, 1]
    assert five["n_repeats_max"].to_list() == [2, 1]


def test_pass_at_1_is_the_leaderboard_of_a_0_1_metric() -> None:
    marks = ["+", "u", "+", "+", "f"] * 9
    scores = scores_of(*(tries("m", "a", i, mark) for i, mark in enumerate(marks)), tries("n", "a", 0, "+"))
    found = pass_at_k(scores, k=1, seed=4, **FAST)
    board = leaderboard(scores, seed=4, **FAST).sort("model_id")
    for mine, theirs in (("pass_at_k", "mean_score"), ("pass_at_k_ci_lo", "mean_ci_lo"), ("ci_method", "ci_method")):
        assert found[mine].to_list() == board[theirs].to_list()


def test_the_interval_is_the_bootstrap_of_the_problems() -> None:
    marks = ["+---", "++--", "----", "+++-", "++++", "-+--"] * 8
    scores = scores_of(*(tries("m", "a", i, mark) for i, mark in enumerate(marks)))
    found = pass_at_k(scores, k=2, n_resamples=2_000).row(0, named=True)
    values = [exactly(4, mark.count("+"), 2) for mark in marks]
    mean = math.fsum(values) / len(values)
    error = (math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values)) ** 0.5
    assert found["pass_at_k"] == pytest.approx(mean, abs=1e-12)
    assert found["pass_at_k_ci_lo"] == pytest.approx(mean - 1.96 * error, abs=0.02)
    assert found["pass_at_k_ci_hi"] == pytest.approx(mean + 1.96 * error, abs=0.02)
    assert found["ci_method"] == "bootstrap"


def test_order_of_rows_does_not_matter() -> None:
    scores = scores_of(*(tries("m", f"t{i % 3}", i, "+-+-u") for i in range(30)))
    assert pass_at_k(scores, **FAST).equals(pass_at_k(scores.sample(fraction=1, shuffle=True, seed=1), **FAST))


def test_a_task_that_knows_no_correct_is_left_out_and_named() -> None:
    judged, graded = tries("m", "a", 0, "+-"), tries("m", "b", 0, "??", metric="my_grade")
    found = pass_at_k(scores_of(judged, graded), k=1, **FAST)
    assert found.select("pass_at_k", "n_problems").rows() == [(0.5, 1)]
    assert found.notes == ("left out, because their metric does not say what is correct: b",)
    assert pass_at_k(scores_of(graded), k=1, **FAST).is_empty()


def test_rows_or_metric_choose_among_several() -> None:
    scores = scores_of(tries("m", "a", 0, "+-"), tries("m", "a", 0, "++", metric="exact_match"))
    with pytest.raises(OptionError, match="give rows=, which say what the headline metric is"):
        pass_at_k(scores, k=1, **FAST)
    assert pass_at_k(scores, k=1, metric="exact_match", **FAST)["pass_at_k"].item() == 1.0
    rows = from_records(
        [{
            "task_id": "a", "sample_index": 0, "sample_id": "0", "category": "code", "prompt": "?",
            "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "row": "{}", "metadata": "{}",
            "metrics": [{"id": "code_exec", "aggregation": "mean", "higher_is_better": True}],
        }],
        ROWS,
    )  # fmt: skip
    assert pass_at_k(scores, k=1, rows=rows, **FAST)["pass_at_k"].item() == 0.5


def test_nothing_gives_an_empty_frame() -> None:
    found = pass_at_k(scores_of(), **FAST)
    assert found.is_empty()
    assert found.columns == PASS_AT_K.names


@pytest.mark.parametrize("k", [0, -1, [1, 0], True, 1.5, "1", []])
def test_k_is_one_or_more_whole_numbers(k: Any) -> None:
    with pytest.raises(OptionError, match=r"(a whole number from 1 up -> k is how many tries|is empty -> give one)"):
        pass_at_k(scores_of(tries("m", "a", 0, "+")), k=k)


def test_frames_are_what_they_are_called() -> None:
    with pytest.raises(SchemaError, match="this is no scores frame"):
        pass_at_k(pl.DataFrame({"a": [1]}))
