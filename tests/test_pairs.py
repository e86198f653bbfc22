"""Pairs of models: differences, intervals, tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from evalframe.errors import OptionError
from evalframe.frames import from_records
from evalframe.limits import Limits
from evalframe.pairs import pairwise
from evalframe.registry import METRICS
from evalframe.schemas import PAIRWISE, ROWS, SCORES
from evalframe.standings import leaderboard
from evalframe.stats.intervals import equal_differences
from evalframe.stats.tests import min_detectable, sign_flip

FAST: dict[str, Any] = {"n_resamples": 300}


def graded(model: str, task: str, values: list[float | None], **more: Any) -> list[dict[str, Any]]:
    key = {"model_id": model, "task_id": task, "repeat": 0, "metric": "exact_match"}
    return [
        key | {"sample_index": i, "score": v, "fate": "failed" if v is None else "scored"} | more
        for i, v in enumerate(values)
    ]


def scores_of(*records: dict[str, Any]) -> pl.DataFrame:
    return from_records(records, SCORES).sort(SCORES.key)


def row(task: str, sample: int, metric: str, *, higher: bool = True) -> dict[str, Any]:
    return {
        "task_id": task, "sample_index": sample, "sample_id": str(sample), "category": "qa", "prompt": "?",
        "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "row": "{}", "metadata": "{}",
        "metrics": [{"id": metric, "aggregation": "mean", "higher_is_better": higher}],
    }  # fmt: skip


def only(frame: pl.DataFrame) -> dict[str, Any]:
    assert frame.height == 1
    return frame.row(0, named=True)


def test_pairs_are_of_the_units_that_both_have() -> None:
    scores = scores_of(*graded("b", "t", [1.0, 0.0, None, 1.0, 0.0]), *graded("a", "t", [1.0, 1.0, 1.0, 0.0, None]))
    pair = only(pairwise(scores, **FAST))
    assert (pair["model_a"], pair["model_b"], pair["n_pairs"]) == ("a", "b", 3)
    assert pair["diff_mean"] == pytest.approx(0.0)
    assert pair["p_value"] == pair["p_adjusted"] == 1.0
    assert pair["significant"] is False


def test_tasks_weigh_the_same_unless_samples_do() -> None:
    scores = scores_of(
        *graded("a", "t", [0.9, 0.7]), *graded("b", "t", [0.4, 0.2]),
        *graded("a", "u", [0.1] * 4), *graded("b", "u", [0.3] * 4), *graded("a", "v", [0.5]), *graded("b", "v", [0.2]),
    )  # fmt: skip
    assert only(pairwise(scores, **FAST))["diff_mean"] == pytest.approx((0.5 - 0.2 + 0.3) / 3)
    assert only(pairwise(scores, weighting="sample", **FAST))["diff_mean"] == pytest.approx((1.0 - 0.8 + 0.3) / 7)


def test_zero_and_one_scores_get_mcnemar_and_graded_ones_sign_flips() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    a, b = (rng.random(100) < 0.8).astype(float), (rng.random(100) < 0.6).astype(float)
    pair = only(pairwise(scores_of(*graded("a", "t", a.tolist()), *graded("b", "t", b.tolist())), **FAST))
    wins = int((a > b).sum())
    assert pair["p_value"] == pytest.approx(scipy_stats.binomtest(wins, wins + int((a < b).sum())).pvalue)
    c, d = rng.random(15).round(2), rng.random(15).round(2)
    graded_pair = only(pairwise(scores_of(*graded("a", "t", c.tolist()), *graded("b", "t", d.tolist())), **FAST))
    reference = scipy_stats.permutation_test(
        (c - d,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert graded_pair["p_value"] == pytest.approx(reference.pvalue, abs=1e-9)


def test_repeats_are_one_pair() -> None:
    records = [
        {**r, "repeat": k, "score": s}
        for m, values in (("a", (1.0, 0.0)), ("b", (0.0, 0.0)))
        for r in graded(m, "t", [0.0] * 8)
        for k, s in enumerate(values)
    ]
    pair = only(pairwise(scores_of(*records), **FAST))
    assert (pair["n_pairs"], pair["diff_mean"]) == (8, 0.5)
    assert pair["p_value"] == pytest.approx(2 / 2**8)


def test_the_interval_is_that_of_the_difference_of_the_leaderboards_draws() -> None:
    rng = np.random.default_rng(1)
    values = {m: rng.random(60).round(3) for m in "ab"}
    pair = only(pairwise(scores_of(*(r for m, v in values.items() for r in graded(m, "t", v.tolist())))))
    difference = values["a"] - values["b"]
    half = 1.96 * difference.std(ddof=1) / np.sqrt(60)
    assert pair["ci_hi"] - pair["ci_lo"] == pytest.approx(2 * half, rel=0.05)
    assert pair["ci_lo"] < pair["diff_mean"] < pair["ci_hi"]
    assert pair["min_detectable"] == pytest.approx(float(min_detectable(difference.std(ddof=1) / np.sqrt(60))))
    # the draws are those of the leaderboard: a model that always scores 0 leaves the other's interval
    zero = scores_of(*graded("a", "t", values["a"].tolist()), *graded("b", "t", [0.0] * 60))
    board = leaderboard(zero).filter(model_id="a").row(0, named=True)
    against_zero = only(pairwise(zero))
    assert (against_zero["ci_lo"], against_zero["ci_hi"]) == pytest.approx(
        (board["mean_ci_lo"], board["mean_ci_hi"]), abs=1e-12
    )


def test_significant_means_that_the_interval_excludes_0() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(80)
    frame = pairwise(
        scores_of(
            *graded("a", "t", base.tolist()), *graded("b", "t", (base * 0.5).tolist()),
            *graded("c", "t", rng.permutation(base).tolist()),
        ), **FAST,
    )  # fmt: skip
    for pair in frame.to_dicts():
        assert pair["significant"] == (pair["ci_lo"] > 0 or pair["ci_hi"] < 0)
    assert frame["significant"].to_list() == [True, False, True]
    assert frame["p_adjusted"].to_list() == pytest.approx(
        [min(1.0, x) for x in _holm_by_hand(frame["p_value"].to_list())]
    )


def _holm_by_hand(p: list[float]) -> list[float]:
    ranked = sorted(range(len(p)), key=lambda i: p[i])
    return [max((len(p) - k) * p[j] for k, j in enumerate(ranked[: ranked.index(i) + 1])) for i in range(len(p))]


def test_equal_differences_do_not_look_certain_when_few() -> None:
    def pair(n: int) -> dict[str, Any]:
        return only(pairwise(scores_of(*graded("a", "t", [1.0] * n), *graded("b", "t", [0.0] * n)), **FAST))

    few, many, one = pair(3), pair(40), pair(1)
    assert (few["ci_lo"], few["ci_hi"]) == pytest.approx(equal_differences(1.0, 3))
    assert (few["significant"], few["p_value"]) == (False, pytest.approx(0.25))
    assert many["significant"] is True
    assert many["p_value"] == pytest.approx(2 / 2**40)
    assert many["min_detectable"] is None
    assert (one["ci_lo"], one["significant"], one["n_pairs"]) == (None, False, 1)


def test_equal_differences_of_unbounded_metrics_have_no_interval() -> None:
    rows = from_records([row("t", i, "points") for i in range(5)], ROWS)
    scores = scores_of(*graded("a", "t", [50.0] * 5, metric="points"), *graded("b", "t", [20.0] * 5, metric="points"))
    pair = only(pairwise(scores, rows=rows, **FAST))
    assert (pair["diff_mean"], pair["ci_lo"], pair["significant"]) == (30.0, None, False)


def test_a_lower_metric_turns_the_sign() -> None:
    rows = from_records([row("t", i, "seconds", higher=False) for i in range(4)], ROWS)
    scores = scores_of(
        *graded("quick", "t", [1.0, 2.0, 1.0, 2.5], metric="seconds"),
        *graded("slow", "t", [5.0, 4.0, 6.0, 5.0], metric="seconds")
    )  # fmt: skip
    pair = only(pairwise(scores, rows=rows, metric="seconds", **FAST))
    assert pair["diff_mean"] == pytest.approx(20 / 4 - 6.5 / 4)
    assert pair["ci_lo"] > 0


def test_a_corpus_metric_compares_aggregates() -> None:
    texts = {
        "a": ["the cat sat on the mat", "a quick brown fox", "to be or not", "one two three", "rain in spain"],
        "b": ["the cat", "quick fox", "to be or not to be", "one three", "plain rain"],
    }
    targets = [
        "the cat sat on a mat",
        "the quick brown fox",
        "to be or not to be",
        "one two three four",
        "rain in spain",
    ]
    metric = METRICS.get("corpus_bleu_4")
    records, parts = [], {}
    for model, predictions in texts.items():
        measured = metric.measure(pl.DataFrame({"prediction": predictions, "targets": [[t] for t in targets]}))
        parts[model] = np.array(measured["parts"].to_list())
        for i, (score, part) in enumerate(zip(measured["score"], measured["parts"].to_list(), strict=True)):
            records += [graded(model, "t", [score], metric="corpus_bleu_4", parts=part)[0] | {"sample_index": i}]
    pair = only(pairwise(scores_of(*records)))
    value = metric.aggregate
    assert pair["diff_mean"] == pytest.approx(
        float(value(parts["a"].sum(axis=0)) - value(parts["b"].sum(axis=0))), abs=1e-12
    )
    assert pair["ci_lo"] < pair["diff_mean"] < pair["ci_hi"]
    leave_one_out = np.array([
        value(np.delete(parts["a"], i, 0).sum(axis=0)) - value(np.delete(parts["b"], i, 0).sum(axis=0))
        for i in range(5)
    ])  # fmt: skip
    pseudo = 5 * pair["diff_mean"] - 4 * leave_one_out
    expected = sign_flip(pseudo, n_resamples=10, seed=0, max_bytes=10**6)[0]
    assert pair["p_value"] == pytest.approx(expected)
    assert pair["min_detectable"] == pytest.approx(float(min_detectable(pseudo.std(ddof=1) / np.sqrt(5))))


def test_tasks_out_of_the_combined_mean_are_out_of_the_comparison() -> None:
    rows = from_records(
        [row("t", 0, "exact_match"), row("t", 1, "exact_match"), row("u", 0, "seconds", higher=False)], ROWS
    )
    scores = scores_of(
        *graded("a", "t", [1.0, 0.0]), *graded("a", "u", [9.0], metric="seconds"),
        *graded("b", "t", [1.0, 0.0]), *graded("b", "u", [1.0], metric="seconds"),
    )  # fmt: skip
    pair = only(pairwise(scores, rows=rows, **FAST))
    assert (pair["diff_mean"], pair["n_pairs"]) == (0.0, 2)


def test_no_common_unit_is_null() -> None:
    pair = only(pairwise(scores_of(*graded("a", "t", [1.0, None]), *graded("b", "t", [None, 1.0])), **FAST))
    assert pair["n_pairs"] == 0
    assert [pair[name] for name in ("diff_mean", "ci_lo", "ci_hi", "p_value", "p_adjusted", "min_detectable")] == [
        None
    ] * 6
    assert pair["significant"] is False


def test_fewer_than_two_models_give_an_empty_frame() -> None:
    assert pairwise(from_records([], SCORES)).schema == dict(PAIRWISE.dtypes)
    assert pairwise(scores_of(*graded("a", "t", [1.0]))).is_empty()


def test_blocks_order_and_other_models_do_not_change_the_figures() -> None:
    rng = np.random.default_rng(3)
    scores = scores_of(*(r for m in "abcd" for t in "tu" for r in graded(m, t, rng.random(25).round(3).tolist())))
    whole = pairwise(scores, **FAST)
    assert whole.select("model_a", "model_b").rows() == [(x, y) for x in "abcd" for y in "abcd" if x < y]
    assert pairwise(scores, limits=Limits(resample_bytes=1), **FAST).equals(whole)
    assert pairwise(scores.sample(fraction=1, shuffle=True, seed=1), **FAST).equals(whole)
    alone = pairwise(scores.filter(pl.col("model_id").is_in(["b", "d"])), **FAST)
    same = whole.filter(model_a="b", model_b="d")
    assert alone.drop("p_adjusted").equals(same.drop("p_adjusted"))


def test_bad_options_are_refused() -> None:
    scores = scores_of(*graded("a", "t", [1.0]), *graded("b", "t", [1.0]))
    with pytest.raises(OptionError, match=r"n_resamples.*whole number"):
        pairwise(scores, n_resamples=0)
    with pytest.raises(OptionError, match=r"weighting.*'task' or 'sample'"):
        pairwise(scores, weighting="both")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no task has a mean of the metric"):
        pairwise(scores, metric="f1")


def test_notes_say_what_differences_do_not_show() -> None:
    many = [0.5, 0.25] * 20
    enough = scores_of(*graded("a", "t", many), *graded("b", "t", many[::-1]))
    assert pairwise(enough, **FAST).notes == ()  # type: ignore[attr-defined]
    lacking = scores_of(
        *graded("a", "t", many), *graded("b", "t", [None, None, *many[2:]]), *graded("c", "t", many[:3])
    )
    told = pairwise(lacking, **FAST).notes  # type: ignore[attr-defined]
    assert told == (
        "samples that only one of two models has a score of are in no difference, and failures are seldom by chance: "
        "a and b (2), a and c (37), b and c (39)",
        "few common samples (under 30): a and c (3), b and c (1); intervals are rough",
    )
