"""``weighting=`` by a column: what weighs, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evalframe.errors import OptionError, SchemaError
from evalframe.frames import from_records
from evalframe.pairs import pairwise
from evalframe.registry import METRICS
from evalframe.schemas import ROWS, SCORES, TASK_METRICS
from evalframe.slicing import slices
from evalframe.standings import leaderboard
from evalframe.stats.bootstrap import Stratum, interval, ratio, resample
from evalframe.stats.tests import sign_flip

FAST = {"n_resamples": 300}
SCORED = {"t": [1.0, 0.0, 0.5, 0.0], "u": [0.2, 0.4], "v": [0.9]}
WEIGHTS: dict[str, list[Any]] = {"t": [1, 2, 3, 0], "u": [0.5, 2.5], "v": [4]}
OF_WEIGHT_0 = pl.DataFrame({"task_id": ["t"], "sample_index": [3]})


def rows_of(weights: dict[str, list[Any]] | None = None, of_tasks: dict[str, Any] | None = None) -> pl.DataFrame:
    choice = [{"id": "f1", "aggregation": "mean", "higher_is_better": True}]
    return from_records(
        [
            {
                "task_id": task, "sample_index": i, "sample_id": str(i), "category": task, "prompt": "?",
                "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "metrics": choice,
                "row": json.dumps({"weight": weight, "half": i % 2}, separators=(",", ":")),
                "metadata": json.dumps({"weight": (of_tasks or {}).get(task, 1)}, separators=(",", ":")),
            }
            for task, its in (weights or WEIGHTS).items()
            for i, weight in enumerate(its)
        ],
        ROWS,
    ).sort(ROWS.key)  # fmt: skip


def scores_of(models: dict[str, dict[str, list[float]]]) -> pl.DataFrame:
    return from_records(
        [
            {
                "model_id": model, "task_id": task, "sample_index": i, "repeat": 0, "metric": "f1", "score": score,
                "fate": "scored",
            }
            for model, tasks in models.items()
            for task, its in tasks.items()
            for i, score in enumerate(its)
        ],
        SCORES,
    ).sort(SCORES.key)  # fmt: skip


ONE = scores_of({"a": SCORED})
TWO = scores_of({"a": SCORED, "b": {"t": [0.0, 0.0, 0.25, 1.0], "u": [0.4, 0.1], "v": [0.2]}})


def mean(rows: pl.DataFrame, weighting: Any) -> float:
    return float(leaderboard(ONE, rows=rows, weighting=weighting, **FAST)["mean_score"][0])


def test_a_field_of_the_row_weighs_samples() -> None:
    total = 1 * 1 + 3 * 0.5 + 0.5 * 0.2 + 2.5 * 0.4 + 4 * 0.9
    assert mean(rows_of(), "row.weight") == pytest.approx(total / 13, abs=1e-12)
    mine = rows_of().with_columns(mine=pl.Series([1.0, 2, 3, 0, 0.5, 2.5, 4]))
    assert mean(mine, "mine") == mean(rows_of(), "row.weight")
    assert mean(mine, pl.col("mine") * 2) == pytest.approx(total / 13, abs=1e-12)


def test_a_key_of_the_metadata_weighs_tasks() -> None:
    rows = rows_of(of_tasks={"t": 1, "u": 2, "v": 0.5})
    expected = (1 * 0.375 + 2 * 0.3 + 0.5 * 0.9) / 3.5
    assert mean(rows, "metadata.weight") == pytest.approx(expected, abs=1e-12)
    # the number of samples of a task does not matter: only the pool weighs its units
    shown = leaderboard(ONE, rows=rows, weighting="metadata.weight", **FAST).row(0, named=True)
    assert [shown[f"category.{task}"] for task in "tuv"] == pytest.approx([0.375, 0.3, 0.9])


def test_categories_are_weighed_and_wins_are_not() -> None:
    board = leaderboard(TWO, rows=rows_of(), weighting="row.weight", **FAST)
    there = TWO.join(OF_WEIGHT_0, on=["task_id", "sample_index"], how="anti")
    plain = leaderboard(there, rows=rows_of(), weighting="sample", **FAST)
    assert board.filter(model_id="a")["category.t"].item() == pytest.approx(2.5 / 6)
    assert board.sort("model_id")["win_rate"].equals(plain.sort("model_id")["win_rate"])


@pytest.mark.parametrize(("weighting", "word"), [("row.weight", "sample"), ("metadata.weight", "task")])
def test_equal_weights_are_the_word(weighting: str, word: str) -> None:
    rows = rows_of({task: [1] * len(its) for task, its in WEIGHTS.items()})
    assert leaderboard(TWO, rows=rows, weighting=weighting, **FAST).equals(
        leaderboard(TWO, rows=rows, weighting=word, **FAST)
    )
    assert pairwise(TWO, rows=rows, weighting=weighting, **FAST).equals(
        pairwise(TWO, rows=rows, weighting=word, **FAST)
    )


def test_a_whole_number_weighs_as_so_many_samples() -> None:
    """Three times the weight is the sample three times, in one cluster."""
    scores = np.random.default_rng(0).random(40).round(3).tolist()
    weights = [1 + i % 3 for i in range(40)]
    repeated = [(i, score) for i, (score, w) in enumerate(zip(scores, weights, strict=True)) for _ in range(w)]
    weighted = leaderboard(
        scores_of({"a": {"t": scores}}), rows=rows_of({"t": weights}), weighting="row.weight", **FAST
    )
    clustered = leaderboard(
        scores_of({"a": {"t": [score for _, score in repeated]}}),
        rows=rows_of({"t": [i for i, _ in repeated]}), cluster="row.weight", **FAST,
    )  # fmt: skip
    assert (weighted["ci_method"].item(), clustered["ci_method"].item()) == ("weighted bootstrap", "cluster bootstrap")
    shown = ["mean_score", "mean_ci_lo", "mean_ci_hi"]
    assert weighted.select(shown).row(0) == pytest.approx(clustered.select(shown).row(0), abs=1e-9)


def test_a_weighted_interval_follows_from_the_rows() -> None:
    """Without clusters, and with weights that differ between tasks only, it is the plain bootstrap's, widened."""
    rows = rows_of({"t": [2] * 4, "u": [2] * 2, "v": [2]})
    board = leaderboard(ONE, rows=rows, weighting="row.weight", **FAST).row(0, named=True)
    strata = []
    for label, scores in (("t", SCORED["t"]), ("u", SCORED["u"]), ("\0single-sample tasks", SCORED["v"])):
        columns = np.array([[2 * score, 2.0] for score in scores])[:, None, :]
        strata.append(Stratum(label, columns, ratio, np.array([2.0 * len(scores)])))
    lo, hi = interval(resample(strata, n_resamples=300, seed=0, max_bytes=10**6))
    assert (board["mean_ci_lo"], board["mean_ci_hi"]) == (pytest.approx(lo[0]), pytest.approx(hi[0]))


def test_pairs_are_weighed() -> None:
    shown = pairwise(TWO, rows=rows_of(), weighting="row.weight", **FAST).row(0, named=True)
    effects = np.array([1.0 * 1, 0.0 * 2, 0.25 * 3, -1.0 * 0, -0.2 * 0.5, 0.3 * 2.5, 0.7 * 4])
    assert shown["diff_mean"] == pytest.approx(effects.sum() / 13)
    assert shown["p_value"] == pytest.approx(sign_flip(effects, n_resamples=1, seed=0, max_bytes=10**6)[0])
    assert shown["n_pairs"] == 6  # a weight of 0 leaves the sample out


def test_slices_are_weighed() -> None:
    shown = slices(ONE, by="row.half", rows=rows_of(), weighting="row.weight", **FAST)
    assert shown["mean_score"].to_list() == pytest.approx([(1 + 1.5 + 0.1 + 3.6) / 8.5, 1 / 4.5])


def test_a_batch_value_has_the_mean_weight_of_its_samples() -> None:
    batch = from_records(
        [
            {
                "model_id": "a", "task_id": "u", "category": "u", "metric": "mine", "aggregation": "mean",
                "source": "grader", "higher_is_better": True, "headline": True, "value": 0.6, "n_scored": 2,
                "n_unparsed": 0, "n_failed": 0, "n_grader_error": 0, "n_skipped": 0, "n_samples": 2,
            }
        ],
        TASK_METRICS,
    )  # fmt: skip
    scores = ONE.filter(pl.col("task_id") != "u")
    board = leaderboard(scores, rows=rows_of(), task_metrics=batch, weighting="row.weight", **FAST)
    assert board["mean_score"].item() == pytest.approx((2.5 + 1.5 * 0.6 + 3.6) / (6 + 1.5 + 4))


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        (None, r"'row.weight' is null for 1 samples, first task_id=t sample_index=1 -> give each sample a weight"),
        ("much", r"'row.weight' is much for 1 samples, first task_id=t sample_index=1 -> a weight is a number"),
        (True, r"'row.weight' is true for 1 samples.* -> a weight is a number"),
        (-1, r"'row.weight' is -1 for 1 samples.* -> a weight is 0 or more"),
    ],
)
def test_what_is_no_weight_is_named(weight: Any, told: str) -> None:
    rows = rows_of({"t": [1, weight, 1, 1], "u": [1, 1], "v": [1]})
    for function in (leaderboard, pairwise):
        with pytest.raises(OptionError, match=told):
            function(TWO, rows=rows, weighting="row.weight")


def test_all_faults_of_weights_are_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        leaderboard(ONE, rows=rows_of({"t": [None, "x", -1, 1], "u": [1, 1], "v": [1]}), weighting="row.weight")
    assert len(caught.value.fault_records) == 3


def test_columns_that_can_not_be_weights_are_refused() -> None:
    with pytest.raises(OptionError, match=r"'row.wieght' is in no row -> .*row.weight"):
        leaderboard(ONE, rows=rows_of(), weighting="row.wieght")
    with pytest.raises(OptionError, match=r"is 'samples' -> use 'task' or 'sample', a column of the rows"):
        leaderboard(ONE, rows=rows_of(), weighting="samples")
    with pytest.raises(OptionError, match=r"is 'row.weight' -> use 'task' or 'sample', or give rows="):
        leaderboard(ONE, weighting="row.weight")
    differing = rows_of().with_columns(pl.Series("metadata", [f'{{"weight":{i}}}' for i in range(7)]))
    with pytest.raises(OptionError, match=r"a task has one weight; name a field of the row"):
        leaderboard(ONE, rows=differing, weighting="metadata.weight")


def test_weights_of_0_leave_nothing() -> None:
    none = rows_of({task: [0] * len(its) for task, its in WEIGHTS.items()})
    with pytest.raises(OptionError, match=r"'row\.weight' is 0 for all samples"):
        leaderboard(ONE, rows=none, weighting="row.weight", **FAST)
    some = rows_of({"t": [0] * 4, "u": [1, 1], "v": [0]})
    assert mean(some, "row.weight") == pytest.approx(0.3)


# what a first reader ran into


@pytest.mark.parametrize("verb", [leaderboard, pairwise])
@pytest.mark.parametrize("option", [{"weighting": "row.weight"}, {"cluster": "row.half"}])
def test_a_sample_without_a_row_is_refused(verb: Any, option: dict[str, str]) -> None:
    rows = rows_of().filter(pl.col("sample_index") < 2)
    with pytest.raises(SchemaError, match=r"2 samples that were called have no row, .*give all rows of the run"):
        verb(TWO, rows=rows, **FAST, **option)


def test_a_group_of_weight_0_has_no_figures_and_says_so() -> None:
    weights = {"t": [1, 2, 3, 1], "u": [0, 0], "v": [4]}
    found = slices(ONE, rows=rows_of(weights), by="category", weighting="row.weight", **FAST)
    empty = found.filter(pl.col("by.category") == "u")
    assert empty["mean_score"].to_list() == [None]
    assert empty["ci_method"].to_list() == ["none: nothing scored"]


def test_a_weight_of_0_is_as_if_the_sample_were_not_there() -> None:
    there = TWO.join(OF_WEIGHT_0, on=["task_id", "sample_index"], how="anti")
    rows = rows_of()
    for verb in (leaderboard, pairwise):
        options: dict[str, Any] = {"rows": rows, "weighting": "row.weight", "cluster": "row.half", **FAST}
        with_it, without = verb(TWO, **options), verb(there, **options)
        figures = [name for name in with_it.columns if not name.startswith(("n_", "win_rate"))]
        assert with_it.select(figures).equals(without.select(figures))
        assert with_it.notes == without.notes


@pytest.mark.parametrize("size", [1e308, 1e-320, 2.0**40])
def test_the_size_of_all_weights_changes_nothing(size: float) -> None:
    for verb in (leaderboard, pairwise):
        plain = verb(TWO, rows=rows_of(), weighting=pl.col("sample_index") * 0 + 1, **FAST)
        found = verb(TWO, rows=rows_of(), weighting=pl.col("sample_index") * 0 + size, **FAST)
        assert_frame_equal(pl.DataFrame(found), pl.DataFrame(plain), abs_tol=1e-9)


def test_an_expression_without_a_column_weighs_samples() -> None:
    found, plain = (leaderboard(ONE, rows=rows_of(), weighting=w, **FAST) for w in (pl.lit(1), "sample"))
    assert found["mean_score"].to_list() == pytest.approx(plain["mean_score"].to_list())


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"metric": ["f1"]}, "name one metric id"),
        ({"metric": 3}, "name one metric id"),
        ({"seed": "x"}, "whole number"),
        ({"seed": None}, "whole number"),
        ({"common": "yes"}, "True or False"),
    ],
)
def test_an_option_of_another_type_is_refused(option: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        leaderboard(ONE, rows=rows_of(), **option)


def test_ranks_have_no_interval_where_no_mean_varies() -> None:
    one_sample = scores_of({"a": {"v": [1.0]}, "b": {"v": [0.0]}})
    board = leaderboard(one_sample, rows=rows_of({"v": [1]}), **FAST)
    assert board["rank"].to_list() == [1, 2]
    assert board["rank_lo"].to_list() == [None, None]


def test_a_difference_of_aggregates_stays_within_their_range() -> None:
    """Few samples of very unlike weight widen the interval beyond 1, where no difference of BLEU can be."""
    targets = ["a b c d e f", "g h i j k l", "m n o p q r", "s t u v w x"]
    predictions = {"a": [*targets[:3], ""], "b": [""] * 4}
    measure = METRICS.get("corpus_bleu_4").measure
    records = []
    for model, texts in predictions.items():
        measured = measure(pl.DataFrame({"prediction": texts, "targets": [[target] for target in targets]}))
        for i, (score, parts) in enumerate(measured.select("score", "parts").iter_rows()):
            records.append({
                "model_id": model, "task_id": "t", "sample_index": i, "repeat": 0, "metric": "corpus_bleu_4",
                "score": score, "fate": "scored", "parts": parts,
            })  # fmt: skip
    rows = rows_of({"t": [9, 1, 1, 2]}).with_columns(
        metrics=pl.lit([{"id": "corpus_bleu_4", "aggregation": "mean", "higher_is_better": True}])
    )
    pair = pairwise(from_records(records, SCORES).sort(SCORES.key), rows=rows, weighting="row.weight", **FAST)
    assert pair["diff_mean"].item() < pair["ci_hi"].item() <= 1.0
