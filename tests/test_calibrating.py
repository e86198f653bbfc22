"""Calibration of scores: which pairs count, what is left out, and the frames that come of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from evalframe.calibrating import CalibrationReport, calibration, reliability
from evalframe.errors import OptionError, SchemaError
from evalframe.frames import from_records
from evalframe.headlines import OF_CALLS
from evalframe.limits import Limits
from evalframe.schemas import CALIBRATION, GENERATIONS, RELIABILITY, ROWS, SCORES

FAST: dict[str, Any] = {"n_resamples": 200}


def call(model: str, sample: int, correct: bool | None, *, task: str = "t", **more: Any) -> dict[str, Any]:
    return {
        "model_id": model, "task_id": task, "sample_index": sample, "repeat": 0, "metric": "exact_match",
        "score": None if correct is None else float(correct), "correct": correct, "fate": "scored", **more,
    }  # fmt: skip


def generation(model: str, sample: int, confidence: float | None, *, task: str = "t", **more: Any) -> dict[str, Any]:
    return {
        "model_id": model, "task_id": task, "sample_index": sample, "repeat": 0, "status": "completed",
        "output_text": "x", "confidence": confidence, "attempts": 1, "cached": False, **more,
    }  # fmt: skip


def scores_of(*records: dict[str, Any]) -> pl.DataFrame:
    return from_records(records, SCORES).sort(SCORES.key)


def generations_of(*records: dict[str, Any]) -> pl.DataFrame:
    return from_records(records, GENERATIONS).sort(GENERATIONS.key)


@pytest.fixture
def mixed() -> tuple[pl.DataFrame, pl.DataFrame]:
    """One model with a pair of each kind, one without any pair."""
    scores = scores_of(
        call("a", 0, True), call("a", 1, False), call("a", 2, False, fate="unparsed"),
        call("a", 3, None, fate="failed"), call("a", 4, None, fate="grader_error"), call("a", 5, True),
        call("a", 6, None, score=3.5, metric="points", task="u"), call("b", 0, True),
    )  # fmt: skip
    generations = generations_of(
        *(generation("a", i, c) for i, c in enumerate([0.9, 0.35, 0.8])),
        generation("a", 3, 0.5, status="failed", output_text=None, error_type="timeout"), generation("a", 4, 0.5),
        generation("a", 5, None), generation("a", 6, 0.7, task="u"), generation("b", 0, None),
        generation("a", 7, None, status="skipped", output_text=None, error_type="cost_cap"),
    )  # fmt: skip
    return scores, generations


def test_pairs_are_scored_or_unparsed_calls_with_a_confidence(mixed: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    scores, generations = mixed
    frame = calibration(scores, generations=generations, **FAST)
    a, b = frame.to_dicts()
    assert (a["n_samples"], a["n_left_out"], a["populated_bins"]) == (3, 4, 3)
    assert a["brier"] == pytest.approx((0.1**2 + 0.35**2 + 0.8**2) / 3)
    assert a["ece"] == pytest.approx((0.1 + 0.35 + 0.8) / 3)
    assert a["mce"] == pytest.approx(0.8)
    assert (b["n_samples"], b["n_left_out"], b["populated_bins"], b["n_nll_tokens"]) == (0, 1, 0, 0)
    figures = [name for name in CALIBRATION.names if not name.startswith(("n_", "model", "populated"))]
    assert [b[name] for name in figures] == [None] * len(figures)


def test_only_headline_metrics_count() -> None:
    rows = from_records(
        [{
            "task_id": "t", "sample_index": 0, "sample_id": "0", "category": "qa", "prompt": "?", "prompt_hash": "0",
            "targets": ["a"], "extraction": "{}", "row": "{}", "metadata": "{}",
            "metrics": [
                {"id": "notes", "aggregation": "none", "higher_is_better": True},
                {"id": "f1", "aggregation": "mean", "higher_is_better": True},
                {"id": "exact_match", "aggregation": "mean", "higher_is_better": True},
            ],
        }],
        ROWS,
    )  # fmt: skip
    scores = scores_of(call("a", 0, False), call("a", 0, True, metric="f1"), call("a", 0, False, metric="notes"))
    generations = generations_of(generation("a", 0, 0.75))
    frame = calibration(scores, generations=generations, rows=rows, **FAST)
    assert frame.select("n_samples", "n_left_out", "brier").row(0) == (1, 0, 0.0625)
    with pytest.raises(OptionError, match="tasks with several metrics: t; give rows="):
        calibration(scores, generations=generations)


def test_perplexity_is_over_all_calls_with_token_log_probabilities() -> None:
    told = {"token_nll": 2 * math.log(4), "token_count": 2}
    generations = generations_of(
        generation("a", 0, None, **told), generation("a", 1, None, token_nll=math.log(2), token_count=1),
        generation("a", 2, None, token_nll=5.0), generation("a", 3, None, token_nll=0.0, token_count=0),
    )  # fmt: skip
    frame = calibration(scores_of(call("a", 0, True)), generations=generations, **FAST)
    assert frame["n_nll_tokens"].to_list() == [3]
    assert frame["avg_neg_log_likelihood"][0] == pytest.approx(5 * math.log(2) / 3)
    assert frame["perplexity"][0] == pytest.approx(2 ** (5 / 3))
    beyond = generations_of(generation("a", 0, None, token_nll=1e6, token_count=1))
    assert calibration(scores_of(call("a", 0, True)), generations=beyond, **FAST)["perplexity"].to_list() == [None]


def test_repeats_are_drawn_with_their_sample() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(60)
    right = rng.random(60) < confidence
    scores = scores_of(*(call("a", i, bool(y), repeat=r) for i, y in enumerate(right) for r in range(5)))
    generations = generations_of(*(generation("a", i, c, repeat=r) for i, c in enumerate(confidence) for r in range(5)))
    repeated = calibration(scores, generations=generations, **FAST).row(0, named=True)
    once = CalibrationReport.from_predictions(confidence, right, **FAST)
    assert (repeated["ece_ci_lo"], repeated["ece_ci_hi"]) == pytest.approx((once.ece_ci_lo, once.ece_ci_hi))
    assert repeated["n_samples"] == 300


def test_reliability_adds_up_to_the_calibration(mixed: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    scores, generations = mixed
    diagram = reliability(scores, generations=generations, bins=4)
    assert diagram.height == 8
    assert diagram.filter(model_id="b")["n"].sum() == 0
    a = diagram.filter(model_id="a")
    assert a["n"].to_list() == [0, 1, 0, 2]
    assert a["bin_lo"].to_list() == [0.0, 0.25, 0.5, 0.75]
    assert a["mean_confidence"].to_list() == [None, 0.35, None, pytest.approx(0.85)]
    assert a["accuracy"].to_list() == [None, 0.0, None, 0.5]
    gaps = (a["mean_confidence"] - a["accuracy"]).abs() * a["n"] / a["n"].sum()
    assert gaps.sum() == pytest.approx(calibration(scores, generations=generations, bins=4, **FAST)["ece"][0])


def test_order_of_rows_does_not_matter(mixed: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    scores, generations = mixed
    turned = calibration(
        scores.sort(SCORES.key, descending=True), generations=generations.sort(GENERATIONS.key, descending=True), **FAST
    )
    assert turned.equals(calibration(scores, generations=generations, **FAST))


def test_texts_need_not_be_loaded(mixed: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    scores, generations = mixed
    lean = generations.select(*GENERATIONS.key, *OF_CALLS)
    assert calibration(scores, generations=lean, **FAST).equals(calibration(scores, generations=generations, **FAST))
    with pytest.raises(SchemaError, match="token_nll: the column is missing"):
        calibration(scores, generations=lean.drop("token_nll"))


def test_calls_without_a_generation_are_left_out() -> None:
    frame = calibration(scores_of(call("a", 0, True)), generations=from_records([], GENERATIONS), **FAST)
    assert frame.select("n_samples", "n_left_out").row(0) == (0, 1)


def test_nothing_gives_empty_frames() -> None:
    nothing, none = from_records([], SCORES), from_records([], GENERATIONS)
    assert calibration(nothing, generations=none).schema == CALIBRATION.dtypes
    assert reliability(nothing, generations=none).schema == RELIABILITY.dtypes


def test_bad_input_is_named(mixed: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    scores, generations = mixed
    with pytest.raises(OptionError, match="bins: is 0"):
        calibration(scores, generations=generations, bins=0)
    with pytest.raises(OptionError, match="n_resamples: is 0"):
        calibration(scores, generations=generations, n_resamples=0)
    with pytest.raises(SchemaError, match="confidence"):
        reliability(scores, generations=generations.with_columns(confidence=pl.lit(1.5)))
    with pytest.raises(SchemaError, match="token_nll"):
        calibration(scores, generations=generations.with_columns(token_nll=pl.lit(-0.5)))


def test_a_report_of_predictions_from_anywhere() -> None:
    columns = pl.Series([0.2, 0.8, 0.9]), pl.Series([False, True, True])
    report = CalibrationReport.from_predictions(*columns)
    assert report == CalibrationReport.from_predictions([0.2, 0.8, 0.9], [0, 1, 1])
    assert report == CalibrationReport.from_predictions(np.array([0.2, 0.8, 0.9]), np.array([False, True, True]))
    assert (report.n_samples, report.populated_bins, report.bins) == (3, 3, 10)
    assert report.diagram.columns == [name for name in RELIABILITY.names if name != "model_id"]
    assert report.ece_ci_lo is not None
    assert report.ece is not None
    assert report.ece_ci_lo <= report.ece <= (report.ece_ci_hi or 0)
    small = CalibrationReport.from_predictions(*columns, seed=1, limits=Limits(n_resamples=50, resample_bytes=1))
    assert small.ece == report.ece
    with pytest.raises(AttributeError):
        report.ece = 0.0  # type: ignore[misc]


def test_a_report_of_nothing_is_none_without_a_warning() -> None:
    report = CalibrationReport.from_predictions([], [])
    assert (report.n_samples, report.populated_bins, report.ece, report.brier, report.ece_ci_lo) == (
        0,
        0,
        None,
        None,
        None,
    )
    assert report.diagram["accuracy"].null_count() == 10
    one = CalibrationReport.from_predictions([0.7], [True])
    assert (one.ece, one.ece_ci_lo, one.populated_bins) == (pytest.approx(0.3), None, 1)


def test_a_percentage_is_asked_about() -> None:
    with pytest.raises(OptionError, match=r"confidences\[1\]: is 85, outside of \[0, 1\] -> is it a percentage\?"):
        CalibrationReport.from_predictions([0.5, 85], [True, False])


def test_notes_say_what_the_figures_do_not_show(mixed: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    scores, generations = mixed
    told = calibration(scores, generations=generations, **FAST).notes  # type: ignore[attr-defined]
    assert told[0].startswith("few pairs for 10 bins (under 100): a (3); chance alone makes an ece")
    assert told[1:] == ("calls without a confidence, a reply or a grade are in no figure: a (4 of 7)",)
    sure = scores_of(*(call("a", i, i % 3 > 0) for i in range(120)))
    always = generations_of(*(generation("a", i, 0.95) for i in range(120)))
    (note,) = calibration(sure, generations=always, **FAST).notes  # type: ignore[attr-defined]
    assert note.startswith("all confidences are in one bin: a; ")
    varied = generations_of(*(generation("a", i, (i % 10) / 10) for i in range(120)))
    assert calibration(sure, generations=varied, **FAST).notes == ()  # type: ignore[attr-defined]
