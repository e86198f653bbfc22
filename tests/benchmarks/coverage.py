"""Do 95 % intervals cover? ``python -m tests.benchmarks.coverage`` prints the table.

For 0/1 scores of one stratum the coverage is computed exactly: every outcome, weighted by its probability. For the
other designs data sets are drawn, and the leaderboard's own resampling gives the interval.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import binom

from evalframe.stats.bootstrap import Array, Stratum, interval, ratio, resample
from evalframe.stats.intervals import wilson

SHARES = (0.05, 0.5, 0.9, 0.99)
SIZES = (30, 100, 1_000)
N_RESAMPLES = 2_000


def exact_wilson(share: float, n: int) -> float:
    """The probability that Wilson's interval of n scores of 0 or 1 holds their true share."""
    right = np.arange(n + 1)
    lo, hi = wilson(right.astype(np.float64), np.full(n + 1, n))
    holds = (lo <= share + 1e-12) & (share - 1e-12 <= hi)
    return float(binom.pmf(right, n, share)[holds].sum())


def simulated(draw: Callable[[np.random.Generator], list[Array]], truth: float, *, times: int, seed: int = 1) -> float:
    """The share of drawn data sets whose interval holds the truth; each is a list of strata, shape (units,)."""
    draws = np.random.default_rng(seed)
    held = 0
    for _ in range(times):
        strata = [
            Stratum(str(i), np.stack([scores, np.ones_like(scores)], axis=1)[:, None], ratio, np.ones(1))
            for i, scores in enumerate(draw(draws))
        ]
        seed = int(draws.integers(2**31))
        lo, hi = interval(resample(strata, n_resamples=N_RESAMPLES, seed=seed, max_bytes=1 << 26))
        held += bool(lo[0] <= truth <= hi[0])
    return held / times


def graded(n: int) -> Callable[[np.random.Generator], list[Array]]:
    """Scores between 0 and 1 in one task; the truth is 0.6."""
    return lambda draws: [draws.beta(3, 2, n)]


def tasks_of(n_tasks: int, n_samples: int) -> Callable[[np.random.Generator], list[Array]]:
    """0/1 scores of fixed tasks, from easy to hard; the truth is 0.5."""
    shares = np.linspace(0.2, 0.8, n_tasks)
    return lambda draws: [(draws.random(n_samples) < share).astype(np.float64) for share in shares]


def repeated(n: int, n_repeats: int) -> Callable[[np.random.Generator], list[Array]]:
    """Samples of their own difficulty, averaged over repeats; the truth is 0.6."""
    return lambda draws: [draws.binomial(n_repeats, draws.beta(3, 2, n)) / n_repeats]


DESIGNS = {
    "graded, n = 100": (graded(100), 0.6),
    "50 tasks x 2 samples": (tasks_of(50, 2), 0.5),
    "20 tasks x 5 samples": (tasks_of(20, 5), 0.5),
    "100 samples x 5 repeats": (repeated(100, 5), 0.6),
}


def main() -> None:
    """Print the table."""
    for n in SIZES:
        cells = "  ".join(f"p = {share}: {exact_wilson(share, n):.4f}" for share in SHARES)
        print(f"wilson, n = {n:5}  {cells}")
    for name, (draw, truth) in DESIGNS.items():
        print(f"bootstrap, {name:26} {simulated(draw, truth, times=1_000):.3f}")


if __name__ == "__main__":
    main()
