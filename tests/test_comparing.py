"""Two runs beside each other: changes by call, and the paired difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from evalframe.comparing import CHANGES, Side, compare, differences
from evalframe.errors import OptionError
from evalframe.frames import check
from evalframe.pairs import pairwise
from evalframe.schemas import ANSWERS, COMPARISON, DIFFERENCES, ROWS, SCORES

Call = tuple[str, str, float | None]  # sample id, fate, score


def side(
    calls: Sequence[Call], *, model: str = "m", task: str = "t", metric: str = "exact_match", lower: bool = False,
    repeats: int = 1, threshold: bool = True,
) -> Side:  # fmt: skip
    """Make a run of one model on one task; the calls stand in the order of their samples."""
    ids = list(dict.fromkeys(call[0] for call in calls))
    rows = [
        {
            "task_id": task, "sample_index": index, "sample_id": name, "category": "qa", "prompt": "p",
            "prompt_hash": "0", "target": f"target {name}", "targets": [], "choices": None,
            "metrics": [{"id": metric, "aggregation": "mean", "higher_is_better": not lower}], "extraction": "{}",
            "row": "{}", "metadata": "{}",
        }
        for index, name in enumerate(ids)
    ]  # fmt: skip
    keys = [
        {"model_id": model, "task_id": task, "sample_index": ids.index(name), "repeat": place % repeats}
        for place, (name, _, _) in enumerate(calls)
    ]
    scores = [
        key | {
            "metric": metric, "score": score, "fate": fate, "parts": None, "detail": None,
            "correct": None if score is None or not threshold else score >= 1,
        }
        for key, (_, fate, score) in zip(keys, calls, strict=True)
    ]  # fmt: skip
    answers = [
        key | {"extracted_output": None if fate == "failed" else f"answer {score}", "extraction_status": "ok",
               "extraction_rule": "whole"}
        for key, (_, fate, score) in zip(keys, calls, strict=True)
    ]  # fmt: skip
    return Side(frame(scores, SCORES), frame(rows, ROWS), frame(answers, ANSWERS))


def frame(records: list[dict[str, Any]], schema: Any) -> pl.DataFrame:
    return check(pl.DataFrame(records, schema=schema.dtypes).sort(schema.key), schema)


def right(*scores: float, first: int = 0) -> list[Call]:
    return [(f"s{first + index}", "scored", score) for index, score in enumerate(scores)]


SELF = [("m", "m")]


def changes(a: Side, b: Side, **options: Any) -> dict[str, str]:
    compared = compare(a, b=b, pairs=options.pop("pairs", SELF), **options)
    assert check(compared, COMPARISON) is compared
    return dict(compared.select("sample_id", "change").iter_rows())


def test_what_turns_is_fixed_or_broken_and_what_does_not_is_same() -> None:
    found = changes(side(right(0, 1, 1, 0)), side(right(1, 0, 1, 0)))
    assert found == {"s0": "fixed", "s1": "broken", "s2": "same", "s3": "same"}


def test_what_changed_stands_first_and_is_counted_in_a_note() -> None:
    compared = compare(side(right(1, 1, 0)), b=side(right(1, 0, 1)), pairs=SELF)
    assert compared["change"].to_list() == ["broken", "fixed", "same"]
    assert compared.notes == ("m: 1 broken, 1 fixed, 1 same",)


@pytest.mark.parametrize(("lower", "expected"), [(False, ["better", "worse"]), (True, ["worse", "better"])])
def test_a_metric_without_threshold_is_better_or_worse_in_its_direction(lower: bool, expected: list[str]) -> None:
    a, b = (side(right(*s), lower=lower, threshold=False) for s in ((0.2, 0.9, 0.3), (0.4, 0.5, 0.3 + 1e-15)))
    assert changes(a, b) == dict(zip(("s0", "s1", "s2"), [*expected, "same"], strict=True))


def test_samples_are_aligned_by_id_wherever_they_stand() -> None:
    a, b = side(right(0, 1, 1, 0)), side(list(reversed(right(1, 1, 1, 1))))
    assert changes(a, b) == {"s0": "fixed", "s1": "same", "s2": "same", "s3": "fixed"}
    assert compare(a, b=b, pairs=SELF)["target"].to_list()[0] == "target s0"


def test_what_one_side_lacks_is_one_sided_and_named() -> None:
    a, b = side(right(1, 1)), side(right(1, 1, first=1))
    assert changes(a, b) == {"s0": "only_a", "s1": "same", "s2": "only_b"}
    notes = compare(a, b=b, pairs=SELF).notes
    assert "no counterpart in b: 1 calls of a, of samples s0" in notes
    assert "no counterpart in a: 1 calls of b, of samples s2" in notes


def test_a_failed_call_is_no_change_for_better_or_worse() -> None:
    failed = [("s0", "failed", None), ("s1", "scored", 1.0)]
    assert changes(side(failed), side(right(1, 1))) == {"s0": "unscored", "s1": "same"}
    assert changes(side(right(1, 1)), side(failed)) == {"s0": "unscored", "s1": "same"}


def test_repeats_are_aligned_one_by_one() -> None:
    calls = [("s0", "scored", 0.0), ("s0", "scored", 1.0)]
    flipped = [("s0", "scored", 1.0), ("s0", "scored", 1.0)]
    compared = compare(side(calls, repeats=2), b=side(flipped, repeats=2), pairs=SELF)
    assert compared.select("repeat", "change").rows() == [(0, "fixed"), (1, "same")]


def test_models_of_other_names_are_compared_as_asked() -> None:
    a, b = side(right(0, 1), model="old"), side(right(1, 1), model="new")
    found = differences(a, b=b, pairs=[("old", "new")])
    assert found.select("model_a", "model_b", "diff_mean", "mean_a", "mean_b").row(0) == ("old", "new", 0.5, 0.5, 1.0)
    assert "old and new: 0 broken, 1 fixed, 1 same" in found.notes


def test_other_headline_metrics_need_a_name() -> None:
    with pytest.raises(OptionError, match=r"t \(exact_match, then f1\).*metric="):
        compare(side(right(1)), b=side(right(1), metric="f1"), pairs=SELF)


@pytest.mark.parametrize("lower", [False, True])
def test_the_difference_is_that_of_pairwise_turned(lower: bool) -> None:
    ones = [((i * 7) % 10) / 10 for i in range(40)]
    others = [((i * 3) % 10) / 10 for i in range(40)]
    a, b = (side(right(*scores), threshold=False, lower=lower) for scores in (ones, others))
    found = differences(a, b=b, pairs=SELF, seed=3)
    assert check(found, DIFFERENCES) is found
    both = pl.concat([a.scores.with_columns(model_id=pl.lit("a")), b.scores.with_columns(model_id=pl.lit("b"))])
    paired = pairwise(both.sort(SCORES.key), rows=a.rows, seed=3).to_dicts()[0]
    row = found.to_dicts()[0]
    assert row["diff_mean"] == pytest.approx(-paired["diff_mean"], abs=1e-12)
    assert (row["ci_lo"], row["ci_hi"]) == pytest.approx((-paired["ci_hi"], -paired["ci_lo"]), abs=1e-12)
    assert (row["p_value"], row["min_detectable"]) == (paired["p_value"], paired["min_detectable"])
    sign = -1 if lower else 1
    assert row["diff_mean"] == pytest.approx(sign * (row["mean_b"] - row["mean_a"]), abs=1e-12)
    assert row["n_pairs"] == 40
    assert sum(row[f"n_{change}"] for change in CHANGES) == 40


def test_the_difference_is_over_common_scored_samples_alone() -> None:
    a = side([*right(1, 0), ("s2", "failed", None), ("s3", "scored", 1.0)])
    b = side([*right(1, 1), ("s2", "scored", 1.0)])
    row = differences(a, b=b, pairs=SELF).to_dicts()[0]
    assert (row["n_pairs"], row["mean_a"], row["mean_b"], row["diff_mean"]) == (2, 0.5, 1.0, 0.5)
    assert (row["n_fixed"], row["n_same"], row["n_unscored"], row["n_only_a"]) == (1, 1, 1, 1)


def test_a_model_that_was_never_called_has_null_figures() -> None:
    row = differences(side(right(1, 0)), b=side(right(1, 0), model="other"), pairs=[("m", "nobody")]).to_dicts()[0]
    assert row["diff_mean"] is None
    assert (row["n_only_a"], row["n_pairs"], row["significant"]) == (2, 0, False)


def test_no_pair_gives_empty_frames() -> None:
    a = side(right(1))
    assert check(compare(a, b=a, pairs=[]), COMPARISON).is_empty()
    assert check(differences(a, b=a, pairs=[]), DIFFERENCES).is_empty()


def test_the_order_of_the_frames_changes_nothing() -> None:
    a, b = side(right(0, 1, 1, 0, 1)), side(right(1, 0, 1, 0, 1))
    turned = [
        Side(*(f.sample(fraction=1, shuffle=True, seed=1) for f in (s.scores, s.rows, s.answers))) for s in (a, b)
    ]
    assert compare(turned[0], b=turned[1], pairs=SELF).equals(compare(a, b=b, pairs=SELF))
    assert differences(turned[0], b=turned[1], pairs=SELF).equals(differences(a, b=b, pairs=SELF))


def test_figures_follow_from_the_comparison(tmp_path) -> None:
    a, b = side(right(0, 1, 1, 0, 1, 1)), side(right(1, 0, 1, 1, 1, 1))
    compared = compare(a, b=b, pairs=SELF)
    again = pl.read_parquet(_written(compared, tmp_path))
    row = differences(a, b=b, pairs=SELF).to_dicts()[0]
    assert row["diff_mean"] == pytest.approx((again["score_b"] - again["score_a"]).mean(), abs=1e-9)
    assert {c: row[f"n_{c}"] for c in again["change"].unique()} == dict(again["change"].value_counts().iter_rows())
    assert json.loads(compared.write_json())[0]["change"] == "broken"


def _written(compared: pl.DataFrame, folder: Any) -> Any:
    compared.write_parquet(folder / "c.parquet")
    return folder / "c.parquet"


def test_notes_name_the_runs_and_not_the_columns_of_the_machinery() -> None:
    found = differences(side(right(0, 1)), b=side([*right(1), ("s1", "failed", None)]), pairs=SELF)
    assert any("the first run and the second run (1)" in note for note in found.notes)


def two_tasks(aggregation: str) -> Side:
    one, two = side(right(1, 0)), side(right(1, 0), task="u")
    entries = pl.Series([[{"id": "exact_match", "aggregation": aggregation, "higher_is_better": True}]])
    rows = two.rows.with_columns(metrics=entries.new_from_index(0, 2).cast(ROWS.dtypes["metrics"]))
    pairs = ((one.scores, two.scores), (one.rows, rows), (one.answers, two.answers))
    return Side(*(pl.concat(pair) for pair in pairs))


def test_tasks_that_average_nothing_are_left_out_and_named() -> None:
    a = two_tasks("none")
    said = "tasks that are not compared, because no metric of theirs is averaged: u"
    assert said in compare(a, b=a, pairs=SELF).notes
    assert said in differences(a, b=a, pairs=SELF).notes
    assert compare(a, b=a, pairs=SELF)["task_id"].unique().to_list() == ["t"]
    by_name = compare(a, b=a, pairs=SELF, metric="exact_match").notes
    assert "tasks that are not compared, because they do not average exact_match: u" in by_name
    assert not any("not compared" in note for note in compare(two_tasks("mean"), b=a, pairs=SELF).notes)


def test_a_direction_that_turned_is_said() -> None:
    compared = compare(side(right(0, 1)), b=side(right(1, 1), lower=True, threshold=False), pairs=SELF)
    assert "better is the other way in the second run, and here as in the first: t" in compared.notes
