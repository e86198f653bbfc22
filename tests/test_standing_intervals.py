"""The leaderboard's intervals and laws: by which method, how wide, and that nothing but seed and units changes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.frames import from_records
from evalframe.limits import Limits
from evalframe.schemas import ROWS, SCORES
from evalframe.standings import leaderboard
from evalframe.stats.intervals import wilson
from evalframe.summarising import summarise_tasks

FAST: dict[str, Any] = {"n_resamples": 200}


def call(model: str, task: str, sample: int, score: float) -> dict[str, Any]:
    key = {"model_id": model, "task_id": task, "sample_index": sample, "repeat": 0, "metric": "exact_match"}
    return key | {"score": score, "fate": "scored"}


def graded(model: str, task: str, values: list[float]) -> list[dict[str, Any]]:
    return [call(model, task, i, value) for i, value in enumerate(values)]


def scores_of(*records: dict[str, Any]) -> pl.DataFrame:
    return from_records(records, SCORES).sort(SCORES.key)


def test_scores_of_0_and_1_in_one_stratum_get_wilson() -> None:
    few = leaderboard(scores_of(*graded("a", "t", [1.0] * 5 + [0.0] * 4)), **FAST).row(0, named=True)
    lo, hi = wilson(5, 9)
    assert (few["mean_ci_lo"], few["mean_ci_hi"], few["ci_method"]) == (pytest.approx(lo), pytest.approx(hi), "wilson")
    for many in ([1.0] * 30, [1.0] * 30 + [0.0], [1.0, 0.0] * 40):
        assert leaderboard(scores_of(*graded("a", "t", many)), **FAST)["ci_method"].to_list() == ["wilson"]


def test_averages_over_repeats_get_wilson_only_where_they_are_few() -> None:
    calls = [(i, k) for i in range(40) for k in range(2)]
    repeated = scores_of(*(call("a", "t", i, float((i + k) % 3 == 0)) | {"repeat": k} for i, k in calls))
    assert leaderboard(repeated, **FAST)["ci_method"].to_list() == ["bootstrap"]
    wide = Limits(few_units=100)
    assert leaderboard(repeated, limits=wide, **FAST)["ci_method"].to_list() == ["wilson"]


def test_single_sample_tasks_are_one_stratum() -> None:
    pool = scores_of(*(call("a", f"t{i}", 0, float(i % 2)) for i in range(12)))
    lo, _ = wilson(6, 12)
    assert leaderboard(pool, **FAST).select("ci_method", "mean_ci_lo").row(0) == ("wilson", pytest.approx(lo))
    graded_pool = scores_of(*(call("a", f"t{i}", 0, i / 40) for i in range(40)))
    board = leaderboard(graded_pool).row(0, named=True)
    half = 1.96 * np.std([i / 40 for i in range(40)], ddof=1) / np.sqrt(40)
    assert board["ci_method"] == "bootstrap"
    assert board["mean_ci_hi"] - board["mean_ci_lo"] == pytest.approx(2 * half, rel=0.05)


def test_degenerate_graded_scores_have_no_interval() -> None:
    equal = leaderboard(scores_of(*graded("a", "t", [0.4] * 50)), **FAST).row(0, named=True)
    assert equal["ci_method"] == "none: all scores equal"
    assert equal["mean_ci_lo"] is equal["mean_ci_hi"] is equal["rank_lo"] is equal["rank_hi"] is None
    one = leaderboard(scores_of(call("a", "t", 0, 0.4)), **FAST).row(0, named=True)
    assert (one["ci_method"], one["mean_ci_lo"]) == ("none: one unit", None)
    # several strata, each of one value: Wilson does not apply, and a point would look certain
    strata = leaderboard(scores_of(*graded("a", "t", [1.0] * 40), *graded("a", "u", [0.0] * 40)), **FAST)
    assert strata["ci_method"].to_list() == ["none: all scores equal"]


def test_rank_intervals_say_what_resampling_leaves_open() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(200)
    scores = scores_of(
        *graded("best", "t", (base + 1).clip(0, 1).tolist()), *graded("mid_a", "t", base.tolist()),
        *graded("mid_b", "t", rng.permutation(base).tolist()),
    )  # fmt: skip
    board = leaderboard(scores)
    ranks = {m: (lo, hi) for m, lo, hi in board.select("model_id", "rank_lo", "rank_hi").iter_rows()}
    assert ranks["mid_a"] == ranks["mid_b"] == (2, 3)
    assert board.filter(model_id="best")["rank"].item() == 1


def test_order_of_rows_and_other_models_do_not_change_the_figures() -> None:
    rng = np.random.default_rng(1)
    records = [r for m in "abc" for t in ("t", "u") for r in graded(m, t, rng.random(35).round(3).tolist())]
    scores = scores_of(*records)
    board = leaderboard(scores, **FAST)
    assert leaderboard(scores.sample(fraction=1, shuffle=True, seed=3), **FAST).equals(board)
    assert leaderboard(scores, n_resamples=200, limits=Limits(resample_bytes=1)).equals(board)
    ends = ["mean_score", "mean_ci_lo", "mean_ci_hi"]
    alone = leaderboard(scores.filter(model_id="b"), **FAST)
    assert alone.select(ends).equals(board.filter(model_id="b").select(ends))
    assert not leaderboard(scores, seed=1, **FAST).select(ends).equals(board.select(ends))


def test_gsm8k_sized_boards_stay_within_their_memory() -> None:
    rng = np.random.default_rng(2)
    scores = scores_of(*(r for m in "abcd" for r in graded(m, "gsm", rng.integers(0, 2, 1319).astype(float).tolist())))
    board = leaderboard(scores, n_resamples=1_000, limits=Limits(resample_bytes=200_000))
    assert board.equals(leaderboard(scores, n_resamples=1_000))


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("tuv"), st.integers(0, 3), st.integers(0, 1),
                  st.one_of(st.none(), st.floats(0, 1))),
        min_size=1, max_size=30, unique_by=lambda record: record[:4],
    ),
    st.sampled_from(["task", "sample"]), st.booleans(),
)  # fmt: skip
def test_laws_of_any_board(drawn: list[tuple[str, str, int, int, float | None]], weighting: Any, common: bool) -> None:
    scores = scores_of(
        *({**call(m, t, i, 0.0), "repeat": r, "score": s, "fate": "failed" if s is None else "scored"}
          for m, t, i, r, s in drawn)
    )  # fmt: skip
    board = leaderboard(scores, weighting=weighting, common=common, n_resamples=20)
    assert sorted(board["model_id"]) == sorted(set(scores["model_id"]))
    assert board["n_samples"].sum() == scores.height
    if board["win_rate"].null_count() < board.height:
        assert board["win_rate"].sum() == pytest.approx(1)
    for shown in board.to_dicts():
        mean, lo, hi = shown["mean_score"], shown["mean_ci_lo"], shown["mean_ci_hi"]
        assert (mean is None) == (shown["rank"] is None) == (shown["ci_method"] == "none: nothing scored")
        assert (lo is None) == (hi is None) == shown["ci_method"].startswith("none")
        assert shown["rank_lo"] is None or lo is not None  # null where no mean varies, too
        if lo is not None:
            assert 0 <= lo <= hi <= 1
        if shown["rank_lo"] is not None:
            assert 1 <= shown["rank_lo"] <= shown["rank_hi"] <= board.height
        if mean is not None:
            assert 0 <= shown["mean_all"] <= 1


def test_the_mean_is_that_of_the_task_metrics() -> None:
    rng = np.random.default_rng(5)
    choice = {"id": "exact_match", "aggregation": "mean", "higher_is_better": True}
    base = {"category": "qa", "prompt": "?", "prompt_hash": "0", "targets": ["a"], "metrics": [choice],
            "extraction": "{}", "row": "{}", "metadata": "{}"}  # fmt: skip
    rows = from_records(
        [base | {"task_id": t, "sample_index": i, "sample_id": str(i)} for t in "tu" for i in range(9)], ROWS
    )
    records = [
        {**call(m, t, i, 0.0), "repeat": r, "score": float(rng.integers(0, 2)), "fate": "scored"}
        for m in "abc" for t in "tu" for i in range(9) for r in range(3)
    ]  # fmt: skip
    scores = scores_of(*records)
    values = summarise_tasks(scores, rows=rows).filter("headline")
    expected = values.group_by("model_id").agg(pl.col("value").mean()).sort("model_id")["value"]
    board = leaderboard(scores, rows=rows, **FAST).sort("model_id")
    assert board["mean_score"].to_list() == pytest.approx(expected.to_list(), abs=1e-12)
