"""Paired tests against scipy, by enumeration and by hand."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from evalframe.stats.tests import EXACT_PAIRS, holm, mcnemar, min_detectable, sign_flip

ENOUGH = 64 * 1024 * 1024


def flip(differences: object, n_resamples: int = 2_000, seed: int = 0, max_bytes: int = ENOUGH) -> np.ndarray:
    return sign_flip(differences, n_resamples=n_resamples, seed=seed, max_bytes=max_bytes)  # type: ignore[arg-type]


def by_enumeration(differences: list[float]) -> float:
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(s >= abs(sum(differences)) - 1e-9 for s in sums) / len(sums)


def test_sign_flip_equals_the_enumeration() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        differences = rng.normal(0.3, 1, n).round(2).tolist()
        assert flip(differences)[0] == pytest.approx(by_enumeration(differences), abs=1e-12)
    assert flip([0.1, 0.2, -0.3, 0.0])[0] == 1.0


def test_sign_flip_agrees_with_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    differences = np.random.default_rng(1).normal(0.4, 1, 12)
    reference = scipy_stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert flip(differences)[0] == pytest.approx(reference.pvalue, abs=1e-12)


def test_sign_flip_is_exact_up_to_20_pairs_zeros_apart() -> None:
    twenty = [1.0] * EXACT_PAIRS + [0.0] * 50
    assert flip(twenty, 10)[0] == 2 / 2**20
    # 21: random patterns, none of which reaches the sum: 1 of 1 + N
    assert flip([1.0] * 21, 999)[0] == 1 / 1000


def test_random_sign_flips_come_near_the_exact_value() -> None:
    differences = [1.0] * 15 + [-1.0] * 8
    exact = min(1.0, 2 * sum(comb(23, k) for k in range(9)) / 2**23)
    assert flip(differences, 20_000)[0] == pytest.approx(exact, abs=0.01)


def test_random_sign_flips_do_not_depend_on_chunks_or_other_series() -> None:
    table = np.random.default_rng(2).normal(0.1, 1, (45, 3))
    together = flip(table)
    assert np.array_equal(together, flip(table, max_bytes=1_100))
    assert [flip(table[:, i])[0] for i in range(3)] == together.tolist()
    assert flip(table, seed=1).tolist() != together.tolist()


def test_sign_flip_of_nothing_is_1() -> None:
    assert flip(np.zeros((5, 2))).tolist() == [1.0, 1.0]
    assert flip(np.zeros((0, 1))).tolist() == [1.0]


def test_sign_flip_holds_its_level() -> None:
    rng = np.random.default_rng(3)
    p = flip(rng.normal(0, 1, (15, 400)))
    assert 0.02 <= np.mean(p <= 0.05) <= 0.085


@pytest.mark.parametrize(
    ("a", "b"), [(0, 0), (1, 0), (0, 1), (1, 1), (5, 0), (5, 1), (10, 3), (3, 10), (40, 41), (300, 200), (5000, 5300)]
)
def test_mcnemar_is_a_binomial_test(a: int, b: int) -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    expected = scipy_stats.binomtest(a, a + b).pvalue if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected, rel=1e-9)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
    assert holm([None, 0.02, None]) == [None, 0.02, None]


def test_holm_never_lowers_and_keeps_the_order() -> None:
    p = np.random.default_rng(4).random(30).tolist()
    adjusted = holm(p)
    assert all(a is not None and b <= a <= 1 for a, b in zip(adjusted, p, strict=True))
    order = np.argsort(p)
    assert (np.diff(np.array(adjusted, float)[order]) >= 0).all()


def test_min_detectable_has_the_promised_power() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    se = 0.02
    effect = float(min_detectable(se))
    power = scipy_stats.norm.sf(scipy_stats.norm.ppf(0.975) - effect / se)
    assert power == pytest.approx(0.8, abs=1e-9)
    assert float(min_detectable(se, power=0.9, alpha=0.01)) > effect
