"""The stratified bootstrap: what is drawn, how wide it is, and that nothing but seed and labels changes it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from evalframe.errors import OptionError
from evalframe.limits import Limits
from evalframe.stats.bootstrap import (
    BYTES_PER_CELL,
    MANY_UNITS,
    SEGMENT,
    Stratum,
    estimate,
    generator,
    interval,
    on_exact_grid,
    ratio,
    resample,
    resampled_sums,
    resamples_of,
)

ENOUGH = 64 * 1024 * 1024


def stratum(values: np.ndarray, label: str = "t", weights: list[float] | None = None) -> Stratum:
    """A plain mean of values (units, series), NaN where a series lacks the unit."""
    table = np.asarray(values, float)
    table = table[:, None] if table.ndim == 1 else table
    there = ~np.isnan(table)
    columns = np.stack([np.nan_to_num(table), there], axis=2)
    return Stratum(label, columns, ratio, np.array(weights) if weights else there.any(axis=0).astype(float))


def drawn(strata: list[Stratum], n_resamples: int = 4_000, seed: int = 0, max_bytes: int = ENOUGH) -> np.ndarray:
    return resample(strata, n_resamples=n_resamples, seed=seed, max_bytes=max_bytes)


def test_estimate_is_the_weighted_mean_of_the_strata() -> None:
    history, law = stratum([1.0] * 9 + [0.0], "history"), stratum([1.0, 0.0], "law")
    assert estimate([history, law])[0] == pytest.approx(0.7)
    assert estimate([stratum([1.0] * 9 + [0.0], "h", [10]), stratum([1.0, 0.0], "l", [2])])[0] == pytest.approx(10 / 12)


def test_a_series_without_a_stratum_takes_no_part_in_it() -> None:
    table = [[1.0, np.nan], [0.0, np.nan]]
    strata = [stratum(np.array(table), "a"), stratum(np.array([[0.2, 0.4], [0.6, 0.8]]), "b")]
    assert estimate(strata) == pytest.approx([(0.5 + 0.4) / 2, 0.6])
    assert not np.isnan(drawn(strata)).any()
    nothing = stratum(np.full((3, 1), np.nan))
    assert np.isnan(estimate([nothing])).all()
    assert np.isnan(drawn([nothing], 10)).all()


def test_resamples_take_n_minus_1_of_n() -> None:
    columns = np.eye(5)
    sums = np.concatenate([s for _, s in resampled_sums(columns, label="x", n_resamples=500, seed=0, max_bytes=ENOUGH)])
    assert (sums.sum(axis=1) == 4).all()
    assert sums.max() >= 3
    assert sums.mean(axis=0) == pytest.approx([0.8] * 5, abs=0.15)


def test_spread_is_the_standard_error_of_the_mean() -> None:
    values = np.random.default_rng(1).random(400)
    spread = drawn([stratum(values)], 20_000).std()
    assert spread == pytest.approx(values.std(ddof=1) / np.sqrt(400), rel=0.02)


def test_two_units_do_not_give_too_narrow_an_interval() -> None:
    # n of n would give a variance of s²/4 for n = 2; the unbiased one is s²/2
    assert drawn([stratum([0.0, 1.0])], 20_000).var() == pytest.approx(0.25, rel=0.03)


def test_strata_are_drawn_independently_by_label() -> None:
    values = np.random.default_rng(2).random(50)
    a, b, again = drawn([stratum(values, "a")]), drawn([stratum(values, "b")]), drawn([stratum(values, "a")])
    assert np.array_equal(a, again)
    assert abs(np.corrcoef(a[:, 0], b[:, 0])[0, 1]) < 0.06
    assert not np.array_equal(a, drawn([stratum(values, "a")], seed=1))


def test_series_share_the_draws_whoever_else_is_there() -> None:
    table = np.random.default_rng(3).random((40, 3))
    together = drawn([stratum(table)])
    for series in range(3):
        assert np.array_equal(together[:, [series]], drawn([stratum(table[:, series])]))
    same = drawn([stratum(np.column_stack([table[:, 0], table[:, 0] + 0.25]))])
    assert np.ptp(same[:, 1] - same[:, 0]) < 1e-12


@pytest.mark.parametrize("per_chunk", [1, 3, 7, 1000])
def test_chunks_do_not_change_the_draws(per_chunk: int) -> None:
    values = np.random.default_rng(4).random(23)
    whole = drawn([stratum(values)], 100)
    assert np.array_equal(whole, drawn([stratum(values)], 100, max_bytes=BYTES_PER_CELL * 23 * per_chunk))


def test_a_stratum_of_one_unit_does_not_vary() -> None:
    assert np.ptp(drawn([stratum([0.3], "one"), stratum([0.5, 0.5], "two")])) == 0


def test_a_draw_without_a_unit_of_the_series_uses_its_own_value() -> None:
    table = np.full((10, 1), np.nan)
    table[3] = 0.7
    assert np.allclose(drawn([stratum(table)]), 0.7)


def test_exact_grid_keeps_integers_and_makes_sums_independent_of_order() -> None:
    values = np.random.default_rng(5).random((1_000, 4)) * [1, 1e6, 1e-9, 0]
    exact = on_exact_grid(values, 1_000)
    assert (np.abs(exact - values) <= 1e-12 * values.max(axis=0)).all()
    orders = [np.random.default_rng(seed).permutation(1_000) for seed in range(5)]
    sums = [np.cumsum(exact[order], axis=0)[-1] for order in orders]
    assert all(np.array_equal(sums[0], other) for other in sums)
    counts = np.arange(12.0).reshape(4, 3)
    assert np.array_equal(on_exact_grid(counts, 1000), counts)


@pytest.mark.parametrize("n", [700, 20_000])
def test_figures_are_the_same_with_one_thread(n: int) -> None:
    code = (
        f"N = {n}\n"
        "import numpy as np; from evalframe.stats.bootstrap import *\n"
        "v = np.random.default_rng(0).random((N, 5)); c = np.stack([v, np.ones_like(v)], 2)\n"
        "s = Stratum('t', c, ratio, np.ones(5))\n"
        "print(resample([s], n_resamples=200, seed=0, max_bytes=10**7).tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True, text=True, check=True,
        ).stdout
        for threads in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1


def test_many_units_are_drawn_as_often_as_in_a_bootstrap() -> None:
    """Mean, variance and skewness of the counts are 1; size and order of memory do not change them."""
    unit = np.zeros((MANY_UNITS + 3, 1))
    unit[5] = 1.0
    spread_out = unit + np.arange(len(unit))[:, None] * 1e-9  # else there are two kinds, which are drawn by a binomial
    drawn_sums = [
        np.concatenate([sums for _, sums in resampled_sums(
            np.column_stack([spread_out, np.ones(len(unit))]), label="t", n_resamples=20_000, seed=1, max_bytes=most,
        )])
        for most in (ENOUGH, 10_000)
    ]  # fmt: skip
    assert np.array_equal(*drawn_sums)
    counts, sizes = np.rint(drawn_sums[0][:, 0]), drawn_sums[0][:, 1]
    assert set(np.unique(counts)) == {0, 1, 2, 4}
    assert counts.mean() == pytest.approx(1, abs=0.03)
    assert counts.var() == pytest.approx(1, abs=0.04)
    assert ((counts - 1) ** 3).mean() == pytest.approx(1, abs=0.15)
    assert (sizes.mean(), sizes.std()) == pytest.approx((len(unit), len(unit) ** 0.5), rel=0.02)


@pytest.mark.parametrize("n", [MANY_UNITS, 2 * SEGMENT + 17])
def test_intervals_of_many_units_are_those_of_the_normal_limit(n: int) -> None:
    table = np.random.default_rng(8).beta(2, 5, (n, 2))
    resampled = drawn([stratum(table)], 4_000)
    assert resampled.mean(axis=0) == pytest.approx(table.mean(axis=0), abs=4e-3 * table.std() / (n / 300) ** 0.5)
    assert resampled.std(axis=0) == pytest.approx(table.std(axis=0) / n**0.5, rel=0.04)
    # models share the draws: the difference is as certain as that of pairs
    table[:, 1] = table[:, 0] + 0.01
    apart = drawn([stratum(table)], 500)
    assert np.ptp(apart[:, 1] - apart[:, 0]) < 1e-9


def test_many_units_that_are_not_there_are_not_counted() -> None:
    table = np.random.default_rng(9).random((MANY_UNITS, 2))
    table[: MANY_UNITS // 2, 1] = np.nan
    both = drawn([stratum(table)], 4_000)
    assert both[:, 1].std() == pytest.approx(np.nanstd(table[:, 1]) / (MANY_UNITS / 2) ** 0.5, rel=0.05)
    assert np.array_equal(both[:, :1], drawn([stratum(table[:, :1])], 4_000))


def test_generator_differs_by_seed_and_label() -> None:
    firsts = {int(generator(seed, label).integers(2**62)) for seed in (0, 1, -1) for label in ("", "a", "b")}
    assert len(firsts) == 9


def test_interval_agrees_with_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(6).beta(2, 5, 300)
    lo, hi = interval(drawn([stratum(values)], 20_000))
    reference = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    width = reference.high - reference.low
    assert lo[0] == pytest.approx(reference.low, abs=0.05 * width)
    assert hi[0] == pytest.approx(reference.high, abs=0.05 * width)


def test_intervals_of_many_small_strata_cover() -> None:
    """50 tasks of 2 samples: a plain n of n bootstrap covers 81 % here."""
    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(120):
        difficulty = rng.beta(2, 2, 50)
        strata = [stratum(rng.binomial(1, p, 2).astype(float), f"{i}") for i, p in enumerate(difficulty)]
        lo, hi = interval(drawn(strata, 300, seed=trial))
        covered += bool(lo[0] <= difficulty.mean() <= hi[0])
    assert covered >= 0.89 * 120


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "10"])
def test_bad_numbers_of_resamples_are_refused(bad: object) -> None:
    with pytest.raises(OptionError, match=r"n_resamples.*whole number from 1 up"):
        resamples_of(bad, Limits())  # type: ignore[arg-type]
    assert resamples_of(None, Limits(n_resamples=7)) == 7
