"""The gates of coverage and of p-values: a method that fails here is not the default."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.coverage import (
    DESIGNS,
    LEVELS,
    NULLS,
    SHARES,
    SIZES,
    covers,
    exact_wilson,
    from_uniform,
    holds_its_levels,
    p_values,
    simulated,
    two_errors,
)

TIMES = 1_000


@pytest.mark.parametrize("n", SIZES)
def test_wilson_of_single_0_1_scores_covers(n: int) -> None:
    cells = [exact_wilson(share, n) for share in SHARES]
    assert min(cells) >= 0.92
    assert 0.94 <= np.mean(cells) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, d in DESIGNS.items() if d.gated and len(d.tasks) <= 1_000])
def test_intervals_cover_within_simulation_error(name: str) -> None:
    assert covers(simulated(DESIGNS[name], times=TIMES), TIMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NULLS)
def test_p_values_are_what_they_say(name: str) -> None:
    p = p_values(name, times=TIMES)
    assert holds_its_levels(p)
    if NULLS[name][1]:
        assert from_uniform(p) < 1.63


def test_the_gates_can_fail() -> None:
    assert not covers(0.92, TIMES)
    assert not covers(0.98, TIMES)
    assert not holds_its_levels(np.random.default_rng(0).random(TIMES) ** 1.5)
    assert from_uniform(np.random.default_rng(0).random(TIMES) ** 1.5) > 1.63
    assert [round(two_errors(level, 1_000), 3) for level in LEVELS] == [0.006, 0.014, 0.019]
