"""Resampling against scipy's bootstrap, on graded and on 0/1 scores; calibration against a loop over masks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from scipy.stats import bootstrap

from evalframe.stats.bootstrap import Array, Stratum, ratio, resample
from evalframe.stats.calibration import bin_table
from tests.benchmarks.harness import Ratio, cpu_seconds

N_RESAMPLES, PREDICTIONS = 10_000, 10_000_000


def ratios() -> Iterable[Ratio]:
    draws = np.random.default_rng(3)
    graded, right = draws.random(1_000), (draws.random(1_000) < 0.6).astype(np.float64)
    for name, scores, target in (("graded", graded, 4.0), ("0/1", right, 15.0)):
        ours = cpu_seconds(lambda scores=scores: intervals_of(scores[:, None]))
        theirs = cpu_seconds(lambda scores=scores: by_scipy(scores))
        yield Ratio("stats", f"{name} scores, n = 1,000, 10,000 resamples, against scipy", ours, theirs, target)
    many = (draws.random((100_000, 3)) < 0.6).astype(np.float64)
    ours, small = cpu_seconds(lambda: intervals_of(many)), cpu_seconds(lambda: intervals_of(many[:1_000]))
    yield Ratio("stats", "0/1 scores, 3 models x 100,000 units, against 100 times 1,000 units", ours, 100 * small, 3.0)
    graded_many = draws.random((100_000, 3))
    ours, small = cpu_seconds(lambda: intervals_of(graded_many), times=1), cpu_seconds(lambda: by_scipy(graded))
    yield Ratio("stats", "graded, 3 models x 100,000 units, against scipy's 300 x 1,000", ours, 300 * small, 8.0)
    yield from calibration_ratios()


def intervals_of(scores: Array) -> Array:
    columns = np.stack([scores, np.ones_like(scores)], axis=2)
    stratum = Stratum("bench", columns, ratio, np.ones(scores.shape[1]))
    return np.quantile(resample([stratum], n_resamples=N_RESAMPLES, seed=0, max_bytes=1 << 26), [0.025, 0.975], axis=0)


def by_scipy(scores: Array) -> object:
    return bootstrap(
        (scores,), np.mean, n_resamples=N_RESAMPLES, method="percentile", batch=1_000, rng=np.random.default_rng(1)
    ).confidence_interval


def calibration_ratios() -> Iterable[Ratio]:
    draws = np.random.default_rng(4)
    confidence = draws.random(PREDICTIONS)
    correct = (draws.random(PREDICTIONS) < confidence).astype(np.float64)
    ours = cpu_seconds(lambda: bin_table(confidence, correct, 10))
    theirs = cpu_seconds(lambda: by_masks(confidence, correct, 10))
    yield Ratio("stats", f"calibration of {PREDICTIONS:,} against a loop over masks", ours, theirs, 8.0)


def by_masks(confidence: Array, correct: Array, bins: int) -> list[tuple[int, float, float]]:
    edges = np.linspace(0, 1, bins + 1)
    masks = ((confidence >= lo) & (confidence < hi) for lo, hi in pairwise(edges))
    return [(int(mask.sum()), float(confidence[mask].mean()), float(correct[mask].mean())) for mask in masks]
