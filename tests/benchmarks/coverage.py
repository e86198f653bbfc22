"""Do 95 % intervals cover, and are p-values what they say? ``python -m tests.benchmarks.coverage`` prints the table.

For 0/1 scores of one stratum the coverage is computed exactly: every outcome, weighted by its probability. For the
other designs data sets are drawn, and the leaderboard's own function gives the intervals, of many data sets at once: a
model each. P-values are drawn under the null hypothesis that two models are alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import binom

from evalframe.limits import DEFAULT_LIMITS
from evalframe.standings import standings_of
from evalframe.stats.bootstrap import Array
from evalframe.stats.intervals import wilson
from evalframe.stats.tests import mcnemar, sign_flip
from evalframe.units import IntArray, Units

SHARES = (0.05, 0.5, 0.9, 0.99)
SIZES = (30, 100, 1_000)
LEVELS = (0.01, 0.05, 0.1)
N_RESAMPLES, TOGETHER = 2_000, 100
RHO = 0.3  # correlation within clusters
Draw = Callable[[np.random.Generator], Array]


@dataclass(frozen=True, slots=True)
class Design:
    """Data sets of one shape.

    Attributes:
        draw: Scores of all units.
        truth: Their expected mean.
        tasks: The task of each unit, sorted.
        clusters: The cluster of each unit, or None.
        weights: Of each unit, or None.
        gated: Coverage must be 94 to 96 %; else it is only shown.
    """

    draw: Draw
    truth: float
    tasks: IntArray
    clusters: IntArray | None = None
    weights: Array | None = None
    gated: bool = True


def exact_wilson(share: float, n: int) -> float:
    """The probability that Wilson's interval of n scores of 0 or 1 holds their true share."""
    right = np.arange(n + 1)
    lo, hi = wilson(right.astype(np.float64), np.full(n + 1, n))
    holds = (lo <= share + 1e-12) & (share - 1e-12 <= hi)
    return float(binom.pmf(right, n, share)[holds].sum())


def simulated(design: Design, *, times: int, seed: int = 1) -> float:
    """The share of drawn data sets whose interval holds the truth."""
    draws, held = np.random.default_rng(seed), 0
    for _ in range(times // TOGETHER):
        units = units_of(design, np.stack([design.draw(draws) for _ in range(TOGETHER)], axis=1))
        shown = standings_of(
            units, n_resamples=N_RESAMPLES, seed=int(draws.integers(2**31)), limits=DEFAULT_LIMITS
        )  # fmt: skip
        truth = design.truth
        held += int(((shown["mean_ci_lo"] <= truth) & (truth <= shown["mean_ci_hi"])).sum())
    return held / (times // TOGETHER * TOGETHER)


def units_of(design: Design, scores: Array) -> Units:
    names, starts = np.unique(design.tasks, return_index=True)
    tasks = pl.DataFrame({"task_id": [f"{name:05}" for name in names]}).with_columns(
        metric=pl.lit("f1"), higher_is_better=pl.lit(True), category=pl.lit(None, pl.String)
    )
    return Units(
        models=tuple(map(str, range(scores.shape[1]))),
        tasks=tasks,
        starts=np.append(starts, len(scores)),
        scores=scores,
        failed=np.zeros(scores.shape, np.bool_),
        parts={},
        zeros_and_ones=np.isin(scores, (0, 1)).all(axis=1),
        weighting="task" if design.weights is None else "sample",
        weights=design.weights,
        clusters=design.clusters,
    )


def one(n: int) -> IntArray:
    return np.zeros(n, np.int64)


def graded(n: int, **more: Any) -> Design:
    """Scores between 0 and 1 in one task; the truth is 0.6."""
    return Design(lambda draws: draws.beta(3, 2, n), 0.6, one(n), **more)


def right(n: int, share: float, **more: Any) -> Design:
    """0/1 scores in one task."""
    return Design(lambda draws: (draws.random(n) < share).astype(np.float64), share, one(n), **more)


def tasks_of(n_tasks: int, n_samples: int) -> Design:
    """0/1 scores of fixed tasks, from easy to hard; the truth is 0.5."""
    shares = np.repeat(np.linspace(0.2, 0.8, n_tasks), n_samples)
    tasks = np.repeat(np.arange(n_tasks), n_samples)
    return Design(lambda draws: (draws.random(len(shares)) < shares).astype(np.float64), 0.5, tasks)


def repeated(n: int, n_repeats: int) -> Design:
    """Samples of their own difficulty, averaged over repeats; the truth is 0.6."""
    return Design(lambda draws: draws.binomial(n_repeats, draws.beta(3, 2, n)) / n_repeats, 0.6, one(n))


def clustered(sizes: list[int], share: float | None = None, **more: Any) -> Design:
    """Clusters whose units are correlated by 0.3: graded (mean 0.6), or right with a probability."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)

    def plain(draws: np.random.Generator, n: int) -> Array:
        return draws.beta(3, 2, n) if share is None else (draws.random(n) < share).astype(np.float64)

    def draw(draws: np.random.Generator) -> Array:
        of_cluster, own = plain(draws, len(sizes))[cluster], plain(draws, len(cluster))
        return np.where(draws.random(len(cluster)) < RHO**0.5, of_cluster, own)  # a correlation of RHO between two

    return Design(draw, 0.6 if share is None else share, **{"tasks": one(len(cluster)), "clusters": cluster} | more)


def in_tasks(n_tasks: int, sizes: list[int]) -> Design:
    """Tasks that each have clusters of their own, graded."""
    tasks = np.repeat(np.arange(n_tasks), sum(sizes))
    return clustered(sizes * n_tasks, tasks=tasks)


def shared(n_tasks: int, n_clusters: int) -> Design:
    """Tasks that ask two questions about each of the same passages, graded."""
    tasks = np.repeat(np.arange(n_tasks), 2 * n_clusters)
    passage = np.tile(np.repeat(np.arange(n_clusters), 2), n_tasks)
    order = np.argsort(passage, kind="stable")
    by_passage = clustered([2 * n_tasks] * n_clusters)

    def draw(draws: np.random.Generator) -> Array:
        scores = np.empty(len(passage))
        scores[order] = by_passage.draw(draws)
        return scores

    return Design(draw, 0.6, tasks, passage)


UNEVEN = list(range(1, 11)) * 6
DESIGNS = {
    "graded, n = 100": graded(100),
    "graded, n = 30": graded(30, gated=False),
    "50 tasks x 2 samples": tasks_of(50, 2),
    "20 tasks x 5 samples": tasks_of(20, 5),
    "100 samples x 5 repeats": repeated(100, 5),
    "100 samples of weight 1 to 5, graded": graded(100, weights=1.0 + np.arange(100) % 5),
    "100 samples of weight 1 to 5, 0/1, p = 0.9": right(100, 0.9, weights=1.0 + np.arange(100) % 5),
    "1,500 graded samples, drawn by counts": graded(1_500),
    "50 clusters x 4, graded": clustered([4] * 50),
    "50 clusters x 4, 0/1, p = 0.5": clustered([4] * 50, 0.5),
    "50 clusters x 4, 0/1, p = 0.9": clustered([4] * 50, 0.9),
    "100 clusters x 5, graded": clustered([5] * 100),
    "100 clusters x 5, 0/1, p = 0.7": clustered([5] * 100, 0.7),
    "60 clusters of 1 to 10, graded": clustered(UNEVEN),
    "60 clusters of 1 to 10, 0/1, p = 0.7": clustered(UNEVEN, 0.7),
    "20 clusters x 5, graded": clustered([5] * 20),
    "10 clusters x 10, graded": clustered([10] * 10),
    "20 tasks x 3 clusters x 3, graded": in_tasks(20, [3, 3, 3]),
    "4 tasks on the same 30 passages": shared(4, 30),
    "20 clusters x 5, 0/1, p = 0.9": clustered([5] * 20, 0.9, gated=False),
}


def normal(*shape: int) -> Callable[[np.random.Generator], Array]:
    return lambda draws: draws.normal(size=shape)


def tied(n: int) -> Draw:
    """Differences of scores in quarters, most of them 0."""
    return lambda draws: (draws.binomial(4, 0.8, n) - draws.binomial(4, 0.8, n)) / 4


def zeros_and_ones(n: int, share: float) -> Draw:
    return lambda draws: (draws.random(n) < share).astype(float) - (draws.random(n) < share)


def of_strata(draws: np.random.Generator) -> Array:
    """What units of tasks of 2 to 40 samples add to the mean over tasks: they differ in weight and in spread."""
    sizes = np.array([2, 3, 5, 10, 40])
    return np.repeat(1 / sizes, sizes) * draws.normal(size=sizes.sum()) * np.repeat([2.0, 0.5, 1.0, 3.0, 1.0], sizes)


def of_clusters(sizes: list[int]) -> Draw:
    """What clusters of correlated differences add."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)

    def draw(draws: np.random.Generator) -> Array:
        units = RHO**0.5 * draws.normal(size=len(sizes))[cluster] + (1 - RHO) ** 0.5 * draws.normal(size=len(cluster))
        return np.bincount(cluster, units)

    return draw


NULLS: dict[str, tuple[Draw, bool]] = {  # what is drawn, and whether it is continuous
    "sign flips, n = 8": (normal(8), False),
    "sign flips, n = 18": (normal(18), True),
    "sign flips, n = 30": (normal(30), True),
    "sign flips, n = 200": (normal(200), True),
    "sign flips of ties, n = 15": (tied(15), False),
    "sign flips of ties, n = 60": (tied(60), False),
    "sign flips of 0/1, n = 80": (zeros_and_ones(80, 0.7), False),
    "sign flips over 5 tasks": (of_strata, True),
    "sign flips of 15 clusters of 1 to 5": (of_clusters([1, 2, 3, 4, 5] * 3), True),
    "sign flips of 50 clusters x 4": (of_clusters([4] * 50), True),
    "McNemar, n = 30": (zeros_and_ones(30, 0.7), False),
    "McNemar, n = 300": (zeros_and_ones(300, 0.7), False),
}


def p_values(name: str, *, times: int, seed: int = 2) -> Array:
    """P-values of data sets in which neither model is better."""
    draw, _ = NULLS[name]
    draws, found = np.random.default_rng(seed), []
    for _ in range(times // TOGETHER):  # each with flips of its own: shared flips would all err to one side
        differences = np.stack([draw(draws) for _ in range(TOGETHER)], axis=1)
        if name.startswith("McNemar"):
            wins, losses = (differences > 0).sum(axis=0), (differences < 0).sum(axis=0)
            found.append(np.array([mcnemar(int(a), int(b)) for a, b in zip(wins, losses, strict=True)]))
        else:
            its_seed = int(draws.integers(2**31))
            found.append(sign_flip(differences, n_resamples=N_RESAMPLES, seed=its_seed, max_bytes=1 << 26))
    return np.concatenate(found)


def two_errors(share: float, times: int) -> float:
    return float(2 * (share * (1 - share) / times) ** 0.5)


def covers(covered: float, times: int) -> bool:
    """Whether it is 94 to 96 % within simulation error."""
    return 0.94 - two_errors(0.94, times) <= covered <= 0.96 + two_errors(0.96, times)


def holds_its_levels(p: Array) -> bool:
    """Whether P(p <= a) is at most a, within simulation error."""
    return all(np.mean(p <= level + 1e-12) <= level + two_errors(level, len(p)) for level in LEVELS)


def from_uniform(p: Array) -> float:
    """Kolmogorov and Smirnov's distance of p-values from the uniform distribution, times sqrt(n): 1.63 at 1 %."""
    ordered, n = np.sort(p), len(p)
    above, below = np.arange(1, n + 1) / n - ordered, ordered - np.arange(n) / n
    return float(max(above.max(), below.max()) * n**0.5)


def lines(times: int) -> Iterator[tuple[str, bool]]:
    """The lines of the table, and whether each holds."""
    for n in SIZES:
        cells = [exact_wilson(share, n) for share in SHARES]
        shown = "  ".join(f"p = {share}: {cell:.4f}" for share, cell in zip(SHARES, cells, strict=True))
        holds = min(cells) >= 0.92 and 0.94 <= float(np.mean(cells)) <= 0.965
        yield f"exact      0/1, n = {n:4}  {shown}  mean {np.mean(cells):.4f}", holds
    for name, design in DESIGNS.items():
        covered = simulated(design, times=times)
        mark = "" if design.gated else "  (shown only)"
        yield f"coverage   {name:42} {covered:.4f}{mark}", covers(covered, times) or not design.gated
    for name, (_, continuous) in NULLS.items():
        p = p_values(name, times=times)
        shares = "  ".join(f"P(p <= {level}) = {np.mean(p <= level + 1e-12):.4f}" for level in LEVELS)
        distance = f"  from uniform {from_uniform(p):.2f}" if continuous else ""
        holds = holds_its_levels(p) and (not continuous or from_uniform(p) < 1.63)
        yield f"p-values   {name:42} {shares}{distance}", holds


def main(times: int) -> int:
    """Print the table; give the number of lines that do not hold."""
    print(f"{times:,} data sets a design, {N_RESAMPLES:,} resamples; 94 to 96 %, P(p <= a) <= a, within 2 errors")
    under = 0
    for line, holds in lines(times):
        print(line if holds else f"{line}  UNDER", flush=True)
        under += not holds
    print(f"{under} under their gate")
    return under


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000) else 0)
