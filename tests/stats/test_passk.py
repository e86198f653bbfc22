"""pass@k against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.errors import OptionError
from evalframe.stats.passk import pass_at_k


def exactly(n: int, c: int, k: int) -> float:
    """The definition, in whole numbers."""
    return math.nan if k > n else float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))


@st.composite
def triples(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(0, 1_000))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n + 2))


@given(st.lists(triples(), max_size=20))
def test_it_is_the_exact_value_to_1e_12(cases: list[tuple[int, int, int]]) -> None:
    n, c, k = np.array(cases, dtype=np.int64).reshape(-1, 3).T
    expected = [exactly(*case) for case in cases]
    np.testing.assert_allclose(pass_at_k(n, c, k), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 10, 200, 1_000])
def test_all_of_a_large_table(n: int) -> None:
    steps = sorted({0, 1, 2, n // 3, n // 2, n - 1, n})
    cases = [(n, c, k) for c in steps if c <= n for k in steps if k >= 1]
    got = pass_at_k(*np.array(cases).T)
    expected = np.array([exactly(*case) for case in cases])
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=0)
    assert np.nanmin(got) >= 0
    assert np.nanmax(got) <= 1


def test_nothing_right_is_0_and_too_few_tries_are_nan() -> None:
    assert pass_at_k([5, 5, 2, 2, 0], [0, 5, 0, 1, 0], [5, 1, 5, 5, 1]).tolist()[:2] == [0.0, 1.0]
    assert np.isnan(pass_at_k([2, 2, 0], [0, 1, 0], [5, 5, 1])).all()


def test_shapes_are_broadcast() -> None:
    assert pass_at_k(10, 3, 1).shape == ()
    assert pass_at_k([[10], [20]], 3, [1, 5, 30]).shape == (2, 3)
    assert pass_at_k([], [], 1).shape == (0,)


@pytest.mark.parametrize(
    ("n", "c", "k", "told"),
    [
        (3, 4, 1, r"c: is negative or over n \(n=3, c=4, k=1\) -> c is how many of the n were right"),
        ([3, 3], [1, -1], 1, r"c: is negative or over n \(n=3, c=-1, k=1\)"),
        (3, 1, [1, 0], r"k: is under 1 \(n=3, c=1, k=0\) -> k is how many tries are drawn: 1 or more"),
        (-1, 0, 1, r"n: is negative \(n=-1, c=0, k=1\) -> n is how many tries there were"),
        (3.0, 1, True, r"n: is of type float64 -> give whole numbers\n  k: is of type bool"),
    ],
)
def test_what_can_not_be_is_refused(n: object, c: object, k: object, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        pass_at_k(n, c, k)  # type: ignore[arg-type]
