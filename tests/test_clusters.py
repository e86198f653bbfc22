"""``cluster=`` in leaderboards, comparisons and slices: whole clusters are drawn, flipped and counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.errors import OptionError, SchemaError
from evalframe.frames import from_records
from evalframe.pairs import pairwise
from evalframe.schemas import ROWS, SCORES
from evalframe.slicing import slices
from evalframe.standings import leaderboard
from evalframe.stats.intervals import quantile_of_t, wilson
from evalframe.stats.tests import min_detectable, sign_flip

FAST = {"n_resamples": 300}
FIGURES = ["model_id", "mean_score", "mean_ci_lo", "mean_ci_hi", "rank_lo", "rank_hi"]
Cells = dict[tuple[str, int], tuple[Any, dict[str, float]]]  # (task, sample) -> its passage, the score of each model


def frames(cells: Cells, *, metric: str = "f1") -> dict[str, pl.DataFrame]:
    choice = [{"id": metric, "aggregation": "mean", "higher_is_better": True}]
    rows = [
        {
            "task_id": task, "sample_index": i, "sample_id": str(i), "category": "qa", "prompt": "?",
            "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "metadata": "{}", "metrics": choice,
            "row": json.dumps({"passage_id": passage, "half": i % 2}, separators=(",", ":")),
        }
        for (task, i), (passage, _) in cells.items()
    ]  # fmt: skip
    scores = [
        {
            "model_id": model, "task_id": task, "sample_index": i, "repeat": 0, "metric": metric, "score": score,
            "fate": "scored",
        }
        for (task, i), (_, by_model) in cells.items()
        for model, score in by_model.items()
    ]  # fmt: skip
    return {
        "scores": from_records(scores, SCORES).sort(SCORES.key), "rows": from_records(rows, ROWS).sort(ROWS.key),
    }  # fmt: skip


def one_task(passages: Sequence[Any], scores: Sequence[float], *more: Sequence[float]) -> Cells:
    names = "abcdef"
    return {
        ("t", i): (passage, dict(zip(names, its, strict=False)))
        for i, (passage, *its) in enumerate(zip(passages, scores, *more, strict=True))
    }


def board(cells: Cells, *, metric: str = "f1", **options: Any) -> pl.DataFrame:
    made = frames(cells, metric=metric)
    return leaderboard(made["scores"], rows=made["rows"], **({"cluster": "row.passage_id"} | FAST | options))


def compared(cells: Cells, *, metric: str = "f1", **options: Any) -> dict[str, Any]:
    made = frames(cells, metric=metric)
    shown = pairwise(made["scores"], rows=made["rows"], **({"cluster": "row.passage_id"} | FAST | options))
    return shown.row(0, named=True)


def random_cells(seed: int = 0, *, models: int = 2, passages: int = 12, label: str = "p{}") -> Cells:
    rng = np.random.default_rng(seed)
    level = rng.random(passages)
    return {
        (f"t{i % 2}", i): (label.format(p), {m: float(round((level[p] + rng.random()) / 2, 4)) for m in "abc"[:models]})
        for i, p in enumerate(rng.integers(0, passages, 60).tolist())
    }


def test_an_interval_by_hand() -> None:
    """Four passages, each of one score throughout: as uncertain as four samples, with Student's t of 3 degrees."""
    scores = [0.2, 0.2, 0.2, 0.8, 0.8, 0.8, 0.2, 0.2, 0.2, 0.8, 0.8, 0.8]
    shown = board(one_task("pppqqqrrrsss", scores), n_resamples=20_000).row(0, named=True)
    assert shown["ci_method"] == "cluster bootstrap"
    # one in eight draws of 3 of 4 is all low, so the percentiles are 0.2 and 0.8: 0.3 to each side, times t over z
    half = 0.3 * 3.182446 / 1.959964
    assert (shown["mean_ci_lo"], shown["mean_ci_hi"]) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    alone = board(one_task(range(12), scores)).row(0, named=True)
    assert alone["mean_ci_hi"] - alone["mean_ci_lo"] < 0.4


def test_figures_but_the_uncertainty_stay_as_they_are() -> None:
    cells = random_cells()
    plain, clustered = board(cells, cluster=None), board(cells)
    same = ["model_id", "rank", "mean_score", "win_rate", "mean_all", "n_samples"]
    assert clustered.select(same).equals(plain.select(same))
    for column in ("diff_mean", "n_pairs"):
        assert compared(cells)[column] == compared(cells, cluster=None)[column]


def test_names_of_clusters_and_order_of_rows_do_not_matter() -> None:
    cells = random_cells()
    renamed = {key: (f"x{97 - int(passage[1:])}", its) for key, (passage, its) in cells.items()}
    assert board(renamed).equals(board(cells))
    assert compared(renamed) == compared(cells)
    made = frames(cells)
    shuffled = {name: frame.sample(fraction=1, shuffle=True, seed=3) for name, frame in made.items()}
    assert leaderboard(shuffled["scores"], rows=shuffled["rows"], cluster="row.passage_id", **FAST).equals(board(cells))


def test_clusters_of_one_sample_are_none() -> None:
    cells = random_cells()
    own = {key: (f"{key}", its) for key, (_, its) in cells.items()}
    assert board(own).equals(board(own, cluster=None))
    assert compared(own) == compared(own, cluster=None)
    missing = {key: (None, its) for key, (_, its) in cells.items()}
    assert board(missing).equals(board(missing, cluster=None))
    told = board(own).notes  # type: ignore[attr-defined]
    assert told == ("no two samples share row.passage_id: each is drawn by itself, as without cluster=",)


def test_a_null_is_a_cluster_of_its_own() -> None:
    scores = np.random.default_rng(1).random(9).tolist()
    cells = one_task(["p", "p", None, "q", "q", None, "r", "r", None], scores)
    named = one_task(["p", "p", "x", "q", "q", "y", "r", "r", "z"], scores)
    assert board(cells).equals(board(named))
    assert board(cells).notes[0] == "intervals and tests draw 6 clusters (row.passage_id), not 9 samples"  # type: ignore[attr-defined]


def test_anything_that_samples_are_sliced_by_can_be_a_cluster() -> None:
    cells = random_cells()
    made = frames(cells)
    rows = made["rows"].with_columns(mine=pl.col("row").str.json_path_match("$.passage_id"))
    expected = board(cells).select(FIGURES)
    for cluster in ("mine", pl.col("mine"), pl.col("row.passage_id").alias("passage")):
        assert leaderboard(made["scores"], rows=rows, cluster=cluster, **FAST).select(FIGURES).equals(expected)
    task = leaderboard(made["scores"], rows=rows, cluster="task_id", **FAST)
    assert task["ci_method"].to_list() == ["cluster bootstrap"] * 2


def test_what_can_not_be_a_cluster_is_refused() -> None:
    cells = random_cells()
    made = frames(cells)
    with pytest.raises(OptionError, match=r"'row.passage_id' is read from rows -> give rows="):
        leaderboard(made["scores"], cluster="row.passage_id")
    with pytest.raises(OptionError, match=r"give rows="):
        pairwise(made["scores"], cluster="row.passage_id")
    with pytest.raises(OptionError, match=r"cluster: 'row.pasage_id' is in no row -> .*row.passage_id"):
        board(cells, cluster="row.pasage_id")
    with pytest.raises(OptionError, match=r"of type list -> name one column"):
        board(cells, cluster=["row.passage_id", "row.half"])
    with pytest.raises(OptionError, match=r"'finish_reason' is of calls"):
        board(cells, cluster="finish_reason")
    with pytest.raises(OptionError, match=r"'row.passage_id' is read from 'row' -> give rows with 'row'"):
        leaderboard(made["scores"], rows=made["rows"].drop("row"), cluster="row.passage_id")
    with pytest.raises(SchemaError, match="missing"):
        leaderboard(made["scores"], rows=made["rows"].drop("sample_index"), cluster="row.passage_id")
    lists = {key: ([passage, "x"], its) for key, (passage, its) in cells.items()}
    with pytest.raises(OptionError, match=r"is a list in some rows -> a sample has one"):
        board(lists)


def test_a_passage_of_two_tasks_is_one_cluster() -> None:
    """Two tasks on the same passages go up and down together: their mean is no more certain than one of them."""
    rng = np.random.default_rng(2)
    level = rng.random(40)
    both = {(t, i): (f"p{i}", {"a": float(level[i])}) for t in ("t", "u") for i in range(40)}
    apart = {(t, i): (f"{t}{i}", {"a": float(level[i])}) for t in ("t", "u") for i in range(40)}
    single = {("t", i): (f"p{i}", {"a": float(level[i])}) for i in range(40)}

    def width(cells: Cells) -> float:
        shown = board(cells, n_resamples=20_000).row(0, named=True)
        return float(shown["mean_ci_hi"] - shown["mean_ci_lo"])

    assert width(both) == pytest.approx(width(single), rel=0.05)
    assert width(apart) == pytest.approx(width(single) / 2**0.5, rel=0.05)


def test_tasks_that_are_one_passage_each_are_drawn_as_tasks() -> None:
    cells = {(f"t{t}", i): (f"p{t}", {"a": float(v)}) for t, v in enumerate([0.1, 0.9, 0.4, 0.6]) for i in range(3)}
    single = {(f"t{t}", 0): (None, {"a": float(v)}) for t, v in enumerate([0.1, 0.9, 0.4, 0.6])}
    shown, pooled = (board(c, n_resamples=20_000).row(0, named=True) for c in (cells, single))
    assert shown["ci_method"] == "cluster bootstrap"
    factor = quantile_of_t(0.975, 3) / 1.959964
    assert shown["mean_ci_hi"] - 0.5 == pytest.approx(min(0.5, (pooled["mean_ci_hi"] - 0.5) * factor), rel=0.02)


def test_zeros_and_ones_get_wilson_of_as_many_as_they_are_worth() -> None:
    """Passages all right or all wrong: each is one sample; n - 1 of n gives p(1 - p)/(n - 1)."""
    right = [1.0] * 5 * 21 + [0.0] * 5 * 9
    passages = [f"p{i // 5}" for i in range(150)]
    shown = board(one_task(passages, right), metric="exact_match").row(0, named=True)
    lo, hi = wilson(0.7 * 29, 29, df=29)
    assert shown["ci_method"] == "cluster wilson"
    assert (shown["mean_ci_lo"], shown["mean_ci_hi"]) == (pytest.approx(float(lo)), pytest.approx(float(hi)))
    all_right = board(one_task(passages, [1.0] * 150), metric="exact_match").row(0, named=True)
    lo, hi = wilson(30, 30, df=29)
    assert (all_right["mean_ci_lo"], all_right["mean_ci_hi"]) == (pytest.approx(float(lo)), 1.0)


def test_one_cluster_tells_nothing() -> None:
    for metric, scores in (("f1", [0.1, 0.5, 0.4]), ("exact_match", [1.0, 0.0, 1.0])):
        shown = board(one_task("ppp", scores), metric=metric).row(0, named=True)
        assert (shown["ci_method"], shown["mean_ci_lo"], shown["rank_lo"]) == ("none: one cluster", None, None)
    level = board(one_task("ppqq", [0.2, 0.4, 0.4, 0.2])).row(0, named=True)
    assert (level["ci_method"], level["mean_ci_lo"]) == ("none: all clusters equal", None)


def test_a_test_flips_whole_clusters() -> None:
    cells = one_task("ppqqrrss", [0.9, 0.8, 0.7, 0.9, 0.5, 0.6, 0.9, 0.4], [0.1, 0.2, 0.3, 0.2, 0.4, 0.5, 0.2, 0.3])
    by_cluster = [1.4, 1.1, 0.2, 0.8]
    expected = sign_flip(by_cluster, n_resamples=1, seed=0, max_bytes=10**6)[0]
    assert expected == 2 / 16
    shown = compared(cells)
    assert shown["p_value"] == pytest.approx(expected)
    assert compared(cells, cluster=None)["p_value"] == pytest.approx(2 / 256)
    assert shown["n_pairs"] == 8
    residuals = np.array(by_cluster) - 2 * 3.5 / 8
    error = np.sqrt((residuals**2).sum() / (1 - 1 / 4)) / 8
    assert shown["min_detectable"] == pytest.approx(float(min_detectable(error)))


def test_zeros_and_ones_in_clusters_get_no_mcnemar() -> None:
    cells = one_task("pppqqqrrrsss", [1.0] * 12, [0.0] * 12)
    assert compared(cells, metric="exact_match")["p_value"] == pytest.approx(2 / 2**4)
    assert compared(cells, metric="exact_match", cluster=None)["p_value"] == pytest.approx(2 / 2**12)
    # all differences are equal: the bound is that of 4 pairs
    assert compared(cells, metric="exact_match")["ci_lo"] < compared(cells, metric="exact_match", cluster=None)["ci_lo"]


def test_few_clusters_are_told() -> None:
    cells = random_cells()
    assert board(cells).notes[1].startswith("12 clusters are few (under 30)")  # type: ignore[attr-defined]
    many = random_cells(passages=40)
    assert [n for n in board(many).notes if "few" in n] == []  # type: ignore[attr-defined]


def test_slices_draw_clusters_within_each_group() -> None:
    cells = random_cells()
    made = frames(cells)
    shown = slices(made["scores"], by="row.half", rows=made["rows"], cluster="row.passage_id", **FAST)
    for group in ("0", "1"):
        its = {key: value for key, value in cells.items() if str(key[1] % 2) == group}
        assert shown.filter(pl.col("by.row.half") == group).select(FIGURES).equals(board(its).select(FIGURES))
    with pytest.raises(OptionError, match=r"'row.pasage_id' is in no row"):
        slices(made["scores"], by="row.half", rows=made["rows"], cluster="row.pasage_id", **FAST)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t", "u", "v"]), st.integers(0, 9), st.sampled_from(["p", "q", "r", None]),
            st.integers(0, 4), st.one_of(st.none(), st.integers(0, 4)),
        ),
        min_size=1, max_size=25, unique_by=lambda cell: cell[:2],
    ),
    st.sampled_from(["task", "sample"]),
)  # fmt: skip
def test_laws_of_any_clusters(drawn: list[tuple[str, int, str | None, int, int | None]], weighting: str) -> None:
    cells = {
        (task, i): (p, {"a": a / 4} | ({} if b is None else {"b": b / 4})) for task, i, p, a, b in drawn
    }  # fmt: skip
    plain = board(cells, cluster=None, weighting=weighting, n_resamples=50)
    shown = board(cells, weighting=weighting, n_resamples=50)
    assert shown["mean_score"].equals(plain["mean_score"])
    for row in shown.to_dicts():
        if row["mean_ci_lo"] is not None:
            # a few resamples of few clusters may all lie to one side
            assert 0 <= row["mean_ci_lo"] <= row["mean_ci_hi"] <= 1
            if row["rank_lo"] is not None:  # null where no mean varies
                assert 1 <= row["rank_lo"] <= row["rank_hi"] <= shown.height
        assert (row["mean_ci_lo"] is None) == row["ci_method"].startswith("none")
    renamed = {key: (None if p is None else "zyx"["pqr".index(p)], its) for key, (p, its) in cells.items()}
    assert board(renamed, weighting=weighting, n_resamples=50).equals(shown)
    made = frames(cells)
    for pair in pairwise(made["scores"], rows=made["rows"], cluster="row.passage_id", n_resamples=50).to_dicts():
        assert pair["p_value"] is None or 0 < pair["p_value"] <= 1
        assert pair["ci_lo"] is None or -1 <= pair["ci_lo"] <= pair["ci_hi"] <= 1
