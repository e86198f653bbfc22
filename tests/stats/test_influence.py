"""What units and clusters add to a mean: standard errors, degrees of freedom, and strata that draw clusters."""

from __future__ import annotations

import numpy as np
import pytest

from evalframe.stats.bootstrap import Array, Stratum, divide, estimate, ratio, resample
from evalframe.stats.clusters import draw_clusters
from evalframe.stats.influence import as_many_single_units, effects, influence, spread
from evalframe.stats.intervals import quantile_of_t, wilson

POOL = "pool"


def stratum(scores: list[float], label: str = "t", weight: float = 1.0, sizes: list[float] | None = None) -> Stratum:
    size = np.ones(len(scores)) if sizes is None else np.array(sizes)
    columns = np.stack([size * np.array(scores), size], axis=1)[:, None, :]
    return Stratum(label, columns, ratio, np.array([weight]))


def test_quantiles_of_t_agree_with_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    degrees = np.array([1, 1.5, 2, 3.7, 10, 29, 99.5, 1e3, 1e5, 1e7])
    for probability in (0.5, 0.9, 0.975, 0.995):
        expected = scipy_stats.t.ppf(probability, degrees)
        assert quantile_of_t(probability, degrees) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert quantile_of_t(0.975, 4).shape == ()


def test_wilson_takes_the_quantile_of_t() -> None:
    lo, hi = wilson(3, 10, df=1e7)
    assert (float(lo), float(hi)) == pytest.approx(tuple(map(float, wilson(3, 10))), abs=1e-7)
    wider_lo, wider_hi = wilson(3, 10, df=9)
    assert wider_lo < lo < hi < wider_hi


def test_the_error_of_single_units_is_that_of_the_mean() -> None:
    scores = [0.1, 0.4, 0.9, 0.2, 0.6]
    found = spread([stratum(scores)])
    expected = np.std(scores, ddof=1) / 5**0.5
    assert found.standard_error[0] == pytest.approx(expected)
    assert found.drawn_error[0] == pytest.approx(expected)
    assert found.df[0] == pytest.approx(4)
    assert found.widening()[0] == pytest.approx(float(quantile_of_t(0.975, 4)) / 1.959963985)


def test_errors_of_strata_add_up_by_their_weights() -> None:
    one, other = [0.1, 0.4, 0.9], [0.2, 0.6, 0.7, 0.9]
    found = spread([stratum(one, "t", 1), stratum(other, "u", 3)])
    variances = np.var(one, ddof=1) / 3 / 16, np.var(other, ddof=1) / 4 * 9 / 16
    assert found.standard_error[0] ** 2 == pytest.approx(sum(variances))
    assert found.df[0] == pytest.approx(sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 3))


def test_unequal_clusters_have_fewer_degrees_of_freedom() -> None:
    sizes = [1.0, 1.0, 8.0]
    found = spread([stratum([0.2, 0.8, 0.5], sizes=sizes)])
    assert found.df[0] == pytest.approx(max(1.0, 100 / 66 - 1))
    mean = (0.2 + 0.8 + 4) / 10
    residuals = np.array(sizes) * (np.array([0.2, 0.8, 0.5]) - mean) / 10
    assert found.standard_error[0] ** 2 == pytest.approx((residuals**2 / (1 - np.array(sizes) / 10)).sum())


def test_what_does_not_vary_has_no_error() -> None:
    for scores in ([0.5, 0.5, 0.5], [0.3]):
        found = spread([stratum(scores)])
        assert found.standard_error[0] == pytest.approx(0, abs=1e-15)
    assert np.isfinite(spread([stratum([0.3])]).widening()).all()


def test_effects_add_up_to_the_estimate_and_the_jackknife_of_a_mean_is_the_mean() -> None:
    plain = stratum([0.1, 0.4, 0.9], sizes=[1, 2, 3])

    def value(sums: Array) -> Array:
        return divide(sums[..., 0], sums[..., 1])

    as_any = Stratum("t", plain.columns, value, plain.weights)
    assert influence(as_any)[0] == pytest.approx(influence(plain)[0])
    strata = [plain, stratum([0.5, 0.7], "u", 2)]
    assert sum(part.sum() for part in effects(strata)) == pytest.approx(estimate(strata)[0])


def test_as_many_single_units() -> None:
    """A p whose standard error is that of 40 single units is worth 40, but never more than there are."""
    uneven = spread([stratum([1.0] * 20 + [0.0] * 21)])
    p = np.array([20 / 41])
    assert as_many_single_units(p, np.array([41]), uneven)[0] == pytest.approx(40)
    assert as_many_single_units(p, np.array([7]), uneven)[0] == 7
    sure = spread([stratum([1.0] * 12)])
    assert as_many_single_units(np.array([1.0]), np.array([60]), sure)[0] == pytest.approx(12)


def test_clusters_within_a_stratum_are_added_up() -> None:
    (found,) = draw_clusters([stratum([0.1, 0.4, 0.9, 0.2])], [np.array([0, 1, 0, 3])], pool=POOL)
    assert found.columns[:, 0].tolist() == [[1.0, 2.0], [0.4, 1.0], [0.2, 1.0]]
    assert found.label == "t"


def test_strata_of_one_cluster_are_pooled() -> None:
    strata = [stratum([0.1, 0.3], "t"), stratum([0.6], POOL, 1), stratum([0.5, 0.9], "u")]
    (found,) = draw_clusters(strata, [np.array([0, 0]), np.array([2]), np.array([3, 3])], pool=POOL)
    assert found.label == POOL
    assert found.columns[:, 0, 0] / found.columns[:, 0, 1] == pytest.approx([0.2, 0.6, 0.7])
    assert estimate([found])[0] == pytest.approx(estimate(strata)[0])


def test_strata_that_share_a_cluster_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    strata = [stratum(rng.random(6).tolist(), name) for name in "tuv"]
    clusters = [np.array([0, 0, 1, 1, 2, 2]), np.array([2, 3, 3, 4, 4, 5]), np.array([6, 7, 8, 9, 10, 11])]
    found = draw_clusters(strata, clusters, pool=POOL)
    assert [part.label for part in found] == ["t\0u", "v"]
    assert estimate(found)[0] == pytest.approx(estimate(strata)[0], abs=1e-12)
    drawn = resample(found, n_resamples=20_000, seed=0, max_bytes=10**7)
    # ratios of few drawn clusters are a little off; the mean of many is not
    assert drawn.mean() == pytest.approx(estimate(strata)[0], abs=0.1 * drawn.std())
    assert drawn.std() == pytest.approx(spread(found).drawn_error[0], rel=0.1)


def test_the_shared_strata_of_many_clusters_are_drawn_about_their_mean() -> None:
    rng = np.random.default_rng(1)
    strata = [stratum(rng.random(200).tolist(), name) for name in "tu"]
    found = draw_clusters(strata, [np.arange(200) // 2, np.arange(200) // 3 + 50], pool=POOL)
    assert len(found) == 1
    drawn = resample(found, n_resamples=10_000, seed=0, max_bytes=10**7)
    assert drawn.mean() == pytest.approx(estimate(strata)[0], abs=0.03 * drawn.std())
    assert drawn.std() == pytest.approx(spread(found).drawn_error[0], rel=0.03)


def test_series_that_lack_a_cluster_are_not_pulled_by_it() -> None:
    columns = np.zeros((4, 2, 2))
    columns[:, 0] = [[0.1, 1], [0.5, 1], [0.7, 1], [0.3, 1]]
    columns[:2, 1] = [[0.2, 1], [0.8, 1]]
    strata = [Stratum(name, columns, ratio, np.array([1.0, 1.0])) for name in "tu"]
    found = draw_clusters(strata, [np.array([0, 1, 2, 3])] * 2, pool=POOL)
    assert estimate(found) == pytest.approx([0.4, 0.5])
    alone = draw_clusters(
        [Stratum(name, columns[:2, 1:], ratio, np.ones(1)) for name in "tu"], [np.array([0, 1])] * 2, pool=POOL
    )
    assert spread(found).standard_error[1] == pytest.approx(spread(alone).standard_error[0])
