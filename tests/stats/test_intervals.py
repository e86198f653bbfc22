"""Closed-form intervals against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from evalframe.stats.intervals import equal_differences, wilson


def test_wilson_agrees_with_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    cases = [(k, n) for n in (1, 2, 12, 30, 1319) for k in sorted({0, 1, n // 3, n - 1, n})]
    lo, hi = wilson([k for k, _ in cases], [n for _, n in cases])
    for (k, n), low, high in zip(cases, lo, hi, strict=True):
        reference = scipy_stats.binomtest(k, n).proportion_ci(method="wilson")
        assert low == pytest.approx(reference.low, abs=1e-12)
        assert high == pytest.approx(reference.high, abs=1e-12)


def test_wilson_takes_other_levels_and_fractions() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    reference = scipy_stats.binomtest(3, 10).proportion_ci(0.8, method="wilson")
    assert [float(x) for x in wilson(3, 10, level=0.8)] == pytest.approx([reference.low, reference.high])
    lo, hi = wilson(2.5, 10)
    assert wilson(2, 10)[0] < lo < 0.25 < hi < wilson(3, 10)[1]


def test_wilson_of_nothing_is_nan_without_a_warning() -> None:
    lo, hi = wilson([0, 1], [0, 1])
    assert np.isnan(lo[0])
    assert np.isnan(hi[0])
    assert not np.isnan(lo[1])


def test_wilson_stays_in_the_unit_interval_and_touches_it_exactly() -> None:
    n = np.arange(1, 2_000)
    lo, hi = wilson(n, n)
    assert (hi == 1.0).all()
    assert (np.diff(lo) > 0).all()
    lo, hi = wilson(np.zeros(len(n)), n)
    assert (lo == 0.0).all()


def test_equal_differences_are_wilson_at_the_ends() -> None:
    q = float(wilson(0, 12)[1])
    assert equal_differences(1.0, 12) == pytest.approx((1 - 2 * q, 1.0))
    assert equal_differences(-1.0, 12) == pytest.approx((-1.0, -1 + 2 * q))
    assert equal_differences(0.0, 12) == pytest.approx((-q, q))
    lo, hi = equal_differences(0.25, 10**9)
    assert lo == pytest.approx(0.25, abs=1e-6)
    assert hi == pytest.approx(0.25, abs=1e-6)
