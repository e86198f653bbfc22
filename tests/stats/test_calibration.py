"""Calibration figures against plain loops, scikit-learn and by hand."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.errors import OptionError
from evalframe.stats import calibration
from evalframe.stats.calibration import (
    bin_of,
    bin_sums,
    bin_table,
    brier,
    ece,
    ece_adaptive,
    ece_interval,
    mce,
    pairs,
    perplexity,
)

PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def columns(drawn: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c for c, _ in drawn]), np.array([float(y) for _, y in drawn])


def made(n: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 2, n)
    return confidence, (rng.random(n) < np.clip(confidence - shift, 0, 1)).astype(float)


def plain_ece(confidence: np.ndarray, correct: np.ndarray, bins: int) -> float:
    """The definition, bin by bin."""
    total = 0.0
    for b in range(bins):
        last = b == bins - 1
        inside = [i for i, c in enumerate(confidence) if b / bins <= c and (c < (b + 1) / bins or last)]
        if inside:
            gap = math.fsum(confidence[inside]) / len(inside) - math.fsum(correct[inside]) / len(inside)
            total += len(inside) / len(confidence) * abs(gap)
    return total


@pytest.mark.parametrize("bins", range(1, 101))
def test_every_edge_is_in_the_bin_to_its_right(bins: int) -> None:
    edges = np.arange(bins + 1) / bins
    assert bin_of(edges, bins).tolist() == [*range(bins), bins - 1]
    below = np.nextafter(edges[1:], 0)
    assert bin_of(below, bins).tolist() == list(range(bins))
    decimals = np.array([round(k / bins, 2) for k in range(bins + 1)])
    expected = np.minimum(np.searchsorted(edges, decimals, side="right") - 1, bins - 1)
    assert bin_of(decimals, bins).tolist() == expected.tolist()


@given(PAIRS, st.integers(1, 20))
def test_ece_equals_its_definition(drawn: list[tuple[float, bool]], bins: int) -> None:
    confidence, correct = columns(drawn)
    assert ece(bin_table(confidence, correct, bins)) == pytest.approx(plain_ece(confidence, correct, bins), abs=1e-12)


@given(PAIRS, st.integers(1, 20), st.randoms(use_true_random=False))
def test_figures_do_not_depend_on_the_order(drawn: list[tuple[float, bool]], bins: int, shuffle: object) -> None:
    def figures(rows: list[tuple[float, bool]]) -> list[float]:
        confidence, correct = columns(rows)
        table = bin_table(confidence, correct, bins)
        score = brier(confidence, correct, bins)
        return [ece(table), mce(table), ece_adaptive(confidence, correct, bins), score.brier, score.within_bin]

    other = list(drawn)
    shuffle.shuffle(other)  # type: ignore[attr-defined]
    assert figures(drawn) == pytest.approx(figures(other), abs=1e-12)


@given(PAIRS, st.integers(1, 20))
def test_brier_decomposition_adds_up(drawn: list[tuple[float, bool]], bins: int) -> None:
    score = brier(*columns(drawn), bins)
    assert score.brier == pytest.approx(
        score.reliability - score.resolution + score.uncertainty + score.within_bin, abs=1e-12
    )
    assert 0 <= score.brier <= 1


@given(PAIRS, st.integers(1, 20))
def test_figures_stay_in_range(drawn: list[tuple[float, bool]], bins: int) -> None:
    confidence, correct = columns(drawn)
    table = bin_table(confidence, correct, bins)
    assert 0 <= ece(table) <= mce(table) + 1e-12 <= 1 + 1e-12
    assert 0 <= ece_adaptive(confidence, correct, bins) <= 1
    assert int(table.n.sum()) == len(drawn)
    full = table.n > 0
    assert ((table.mean_confidence[full] >= 0) & (table.mean_confidence[full] <= 1)).all()
    assert np.isnan(table.mean_confidence[~full]).all()


def test_brier_agrees_with_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    confidence, correct = made(500, 0.1)
    assert brier(confidence, correct, 10).brier == pytest.approx(
        metrics.brier_score_loss(correct, confidence), abs=1e-12
    )


def test_reliability_table_agrees_with_scikit_learn() -> None:
    sklearn_calibration = pytest.importorskip("sklearn.calibration")
    confidence, correct = made(800)
    accuracy, mean = sklearn_calibration.calibration_curve(correct, confidence, n_bins=10)
    table = bin_table(confidence, correct, 10)
    assert table.accuracy[table.n > 0] == pytest.approx(accuracy)
    assert table.mean_confidence[table.n > 0] == pytest.approx(mean)


def test_murphy_by_hand() -> None:
    # two bins, constant forecasts within them: nothing is left within the bins
    confidence, correct = np.array([0.2] * 5 + [0.8] * 5), np.array([1.0, 0, 0, 0, 0, 1, 1, 1, 0, 0])
    score = brier(confidence, correct, 10)
    assert score.reliability == pytest.approx(0.5 * 0.2**2)
    assert score.resolution == pytest.approx(0.2**2)
    assert score.uncertainty == pytest.approx(0.24)
    assert score.within_bin == pytest.approx(0, abs=1e-15)


def test_adaptive_bins_by_hand() -> None:
    confidence, correct = np.array([0.1, 0.2, 0.6, 0.9]), np.array([0.0, 1, 1, 1])
    assert ece_adaptive(confidence, correct, 2) == pytest.approx((abs(0.15 - 0.5) + abs(0.75 - 1)) / 2)
    # one pair a bin where there are fewer pairs than bins
    assert ece_adaptive(confidence, correct, 100) == pytest.approx((0.1 + 0.8 + 0.4 + 0.1) / 4)


def test_adaptive_bins_share_ties() -> None:
    confidence, correct = np.full(4, 0.5), np.array([1.0, 1, 0, 0])
    assert ece_adaptive(confidence, correct, 2) == 0.0


def test_nothing_to_measure_is_nan_without_a_warning() -> None:
    nothing = np.empty(0)
    table = bin_table(nothing, nothing, 10)
    figures = [ece(table), mce(table), ece_adaptive(nothing, nothing, 10), brier(nothing, nothing, 10).brier]
    assert all(math.isnan(figure) for figure in [*figures, *ece_interval(nothing, nothing, 10)])
    assert int(table.n.sum()) == 0
    assert all(math.isnan(x) for x in ece_interval(np.array([0.3]), np.array([1.0]), 10))


def test_chunks_of_many_pairs_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence, correct = made(5_000, 0.1)
    whole = bin_sums(confidence, correct, 7), brier(confidence, correct, 7)
    monkeypatch.setattr(calibration, "CHUNK", 64)
    pieces = bin_sums(confidence, correct, 7), brier(confidence, correct, 7)
    for one, other in zip(whole[0], pieces[0], strict=True):
        assert other == pytest.approx(one, rel=1e-12)
    assert dataclasses.astuple(pieces[1]) == pytest.approx(dataclasses.astuple(whole[1]), abs=1e-12)
    assert whole[0][0].sum() == 5_000
    assert whole[0][2].sum() == correct.sum()


def test_memory_does_not_grow_with_the_pairs() -> None:
    confidence, correct = made(1_000_000, 0.1)
    tracemalloc.start()
    try:
        table, parts = bin_table(confidence, correct, 10), brier(confidence, correct, 10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.n.sum() == 1_000_000
    assert parts.brier > 0
    assert peak < confidence.nbytes / 2


def test_ece_interval_covers_the_true_value() -> None:
    """Also where calibration is perfect and the true value is 0, where a percentile interval never does."""
    for shift, least in ((0.0, 0.85), (0.05, 0.9), (0.15, 0.9)):
        covered = 0
        for seed in range(60):
            lo, hi = ece_interval(*made(150, shift, seed), 10, n_resamples=300, seed=seed)
            covered += lo <= shift + 1e-4 and hi >= shift - 1e-3
        assert covered >= least * 60, shift


def test_ece_interval_of_many_is_near_that_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence, correct = made(2_000, 0.1)
    drawn = ece_interval(confidence, correct, 10)
    monkeypatch.setattr(calibration, "MOST_UNITS_DRAWN", 100)
    assert ece_interval(confidence, correct, 10) == pytest.approx(drawn, abs=0.003)
    assert ece_interval(confidence, correct, 10, max_bytes=1) == ece_interval(confidence, correct, 10)


def test_ece_interval_draws_repeats_together(monkeypatch: pytest.MonkeyPatch) -> None:
    confidence, correct = made(300, 0.1)
    groups = np.repeat(np.arange(300), 4)
    repeated = np.repeat(confidence, 4), np.repeat(correct, 4)
    once = ece_interval(confidence, correct, 10)
    assert ece_interval(*repeated, 10, groups=groups) == pytest.approx(once, abs=1e-9)
    as_if_independent = ece_interval(*repeated, 10)
    assert as_if_independent[1] - as_if_independent[0] < 0.6 * (once[1] - once[0])
    monkeypatch.setattr(calibration, "MOST_UNITS_DRAWN", 100)
    assert ece_interval(*repeated, 10, groups=groups) == pytest.approx(once, abs=0.01)


@pytest.mark.parametrize(
    ("confidences", "correct", "bins", "message"),
    [
        ([0.5, 95.0], [1, 0], 10, r"confidences\[1\]: is 95, .*percentage"),
        ([0.5, -0.1], [1, 0], 10, r"confidences\[1\]: is -0.1, outside"),
        ([0.5, -2.3], [1, 0], 10, "log-probabilities"),
        ([float("nan"), 0.5], [1, 0], 10, r"confidences\[0\]: is missing"),
        ([0.1, None], [1, 0], 10, r"confidences\[1\]: is missing"),
        ([0.1, 0.2], [1, None], 10, r"correct\[1\]: is missing"),
        ([0.1, float("inf")], [1, 0], 10, r"confidences\[1\]"),
        ([0.1, 0.2], [1], 10, "correct: has 1 values, confidences has 2"),
        ([0.1], [0.5], 10, r"correct\[0\]: is 0.5, neither true"),
        ([0.1], [1], 0, "bins: is 0"),
        ([0.1], [1], 2.5, "bins: is 2.5"),
        ([0.1], [1], True, "bins: is True"),
        (["high"], [1], 10, "confidences: is no sequence of numbers"),
        (["0.5"], [1], 10, "confidences: is no sequence of numbers"),
        (0.5, [1], 10, "confidences: is no sequence of numbers"),
        ([[0.5], [0.1]], [1, 0], 10, "confidences: has 2 dimensions"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(confidences: object, correct: object, bins: int, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        pairs(confidences, correct, bins)


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        pairs([0.5, 7.0], [2, 1], 0)
    assert len(caught.value.fault_records) == 3


def test_perplexity() -> None:
    assert perplexity([math.log(2), 3 * math.log(2)], [1, 3]) == pytest.approx((2.0, math.log(2), 4))
    nothing = perplexity([], [])
    assert nothing[2] == 0
    assert all(math.isnan(x) for x in nothing[:2])
    assert math.isnan(perplexity([1e6], [1])[0])
    with pytest.raises(OptionError, match=r"token_nll\[1\] is -0.5.*minus missing"):
        perplexity([0.5, -0.5], [1, 1])
    with pytest.raises(OptionError, match="token_nll has 1 values, token_count 2"):
        perplexity([0.5], [1, 1])
