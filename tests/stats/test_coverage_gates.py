"""The gates of coverage: a method that fails here is not the default."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.coverage import DESIGNS, SHARES, SIZES, exact_wilson, simulated

TIMES = 1_000


@pytest.mark.parametrize("n", SIZES)
def test_wilson_of_single_0_1_scores_covers(n: int) -> None:
    cells = [exact_wilson(share, n) for share in SHARES]
    assert min(cells) >= 0.92
    assert 0.94 <= np.mean(cells) <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_the_bootstrap_covers_within_simulation_error(design: str) -> None:
    draw, truth = DESIGNS[design]
    covered = simulated(draw, truth, times=TIMES)
    error = 2 * (0.95 * 0.05 / TIMES) ** 0.5
    assert 0.94 - error <= covered <= 0.96 + error
