"""The leaderboard: units, means, ranks, win rates, counts, costs, intervals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from evalframe.errors import OptionError, SchemaError
from evalframe.frames import from_records
from evalframe.registry import METRICS
from evalframe.schemas import GENERATIONS, LEADERBOARD, ROWS, SCORES, TASK_METRICS
from evalframe.standings import leaderboard
from evalframe.stats.intervals import wilson

Record = dict[str, Any]


def call(model: str, task: str, sample: int, score: float | None, **more: Any) -> Record:
    return {
        "model_id": model, "task_id": task, "sample_index": sample, "repeat": 0, "metric": "exact_match",
        "score": score, "fate": "failed" if score is None else "scored",
        "correct": None if score is None else score == 1, **more,
    }  # fmt: skip


def scores_of(*records: Record) -> pl.DataFrame:
    return from_records(records, SCORES).sort(SCORES.key)


def graded(model: str, task: str, values: list[float | None], **more: Any) -> list[Record]:
    return [call(model, task, i, value, **more) for i, value in enumerate(values)]


def row(task: str, sample: int, *, category: str = "qa", metrics: list[tuple[str, str, bool]] | None = None) -> Record:
    choices = [("exact_match", "mean", True)] if metrics is None else metrics
    return {
        "task_id": task, "sample_index": sample, "sample_id": str(sample), "category": category, "prompt": "?",
        "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "row": "{}", "metadata": "{}",
        "metrics": [dict(zip(("id", "aggregation", "higher_is_better"), m, strict=True)) for m in choices],
    }  # fmt: skip


def rows_of(*records: Record) -> pl.DataFrame:
    return from_records(records, ROWS).sort(ROWS.key)


def generation(model: str, task: str, sample: int, **more: Any) -> Record:
    record = {"model_id": model, "task_id": task, "sample_index": sample, "repeat": 0, "status": "completed",
              "output_text": "a", "attempts": 1, "cached": False} | more  # fmt: skip
    return record if record["status"] == "completed" else record | {"output_text": None, "error_type": "timeout"}


def generations_of(*records: Record) -> pl.DataFrame:
    return from_records(records, GENERATIONS).sort(GENERATIONS.key)


def by_model(board: pl.DataFrame, column: str) -> dict[str, Any]:
    return dict(board.select("model_id", column).iter_rows())


FAST: dict[str, Any] = {"n_resamples": 200}


def test_the_mean_is_over_tasks_of_means_over_samples_of_means_over_repeats() -> None:
    scores = scores_of(
        call("a", "t1", 0, 1.0), call("a", "t1", 0, 0.0, repeat=1), call("a", "t1", 0, None, repeat=2),
        call("a", "t1", 1, 1.0),
        call("a", "t2", 0, 0.0), call("a", "t2", 1, 0.0), call("a", "t2", 2, 1.0),
    )  # fmt: skip
    t1, t2 = (0.5 + 1.0) / 2, 1 / 3
    assert leaderboard(scores, **FAST)["mean_score"][0] == pytest.approx((t1 + t2) / 2, abs=1e-12)
    assert leaderboard(scores, weighting="sample", **FAST)["mean_score"][0] == pytest.approx((1.5 + 1) / 5, abs=1e-12)


def test_ranks_are_shared_within_1e_12() -> None:
    scores = scores_of(
        *graded("c", "t", [0.1 + 0.2, 0.5]), *graded("a", "t", [0.3, 0.5]), *graded("b", "t", [0.3, 0.4]),
        *graded("d", "t", [0.3, 0.500001]), *graded("e", "t", [None, None]),
    )  # fmt: skip
    board = leaderboard(scores, **FAST)
    assert board.select("rank", "model_id").rows() == [(1, "d"), (2, "a"), (2, "c"), (4, "b"), (None, "e")]
    assert board["ci_method"][4] == "none: nothing scored"
    assert board.row(4, named=True)["mean_score"] is None


def test_a_lower_metric_is_ranked_the_other_way_round() -> None:
    rows = rows_of(*(row("t", i, metrics=[("seconds", "mean", False)]) for i in range(3)))
    scores = scores_of(
        *graded("slow", "t", [9.0, 8, 7], metric="seconds"), *graded("quick", "t", [1.0, 2, 30], metric="seconds")
    )
    board = leaderboard(scores, rows=rows, metric="seconds", **FAST)
    assert board["model_id"].to_list() == ["slow", "quick"]
    assert by_model(board, "win_rate") == pytest.approx({"slow": 1 / 3, "quick": 2 / 3})
    assert by_model(board, "mean_score") == pytest.approx({"slow": 8.0, "quick": 11.0})
    # nothing else is there to be combined with, so that the plain leaderboard is the same
    assert leaderboard(scores, rows=rows, **FAST).equals(board)


def test_other_directions_and_ranges_stay_out_of_the_mean() -> None:
    def declared(task: str) -> list[tuple[str, str, bool]]:
        return {
            "em": [("exact_match", "mean", True)],
            "slow": [("seconds", "mean", False)],
            "pts": [("points", "mean", True)],
        }[task]

    rows = rows_of(
        *(row(task, i, category=task, metrics=declared(task)) for task in ("em", "slow", "pts") for i in (0, 1))
    )
    scores = scores_of(
        *(r for m, v in (("a", 1.0), ("b", 0.0)) for r in (
            *graded(m, "em", [v, 0.0]), *graded(m, "slow", [0.5, 0.5 + v], metric="seconds"),
            *graded(m, "pts", [70.0, 1 - v], metric="points"),
        )),
    )  # fmt: skip
    board = leaderboard(scores, rows=rows, **FAST)
    assert by_model(board, "mean_score") == {"a": 0.5, "b": 0.0}
    assert by_model(board, "category.em") == {"a": 0.5, "b": 0.0}
    assert by_model(board, "category.slow") == {"a": None, "b": None}
    assert by_model(board, "tasks_completed") == {"a": 3, "b": 3}
    assert by_model(board, "n_scored") == {"a": 6, "b": 6}
    assert leaderboard(scores, rows=rows, metric="points", **FAST)["model_id"].to_list() == ["b", "a"]


def test_metrics_without_a_mean_are_not_ranked() -> None:
    rows = rows_of(
        row("t", 0, metrics=[("notes", "none", True), ("f1", "mean", True)]),
        row("u", 0, metrics=[("notes", "none", True)]),
    )
    scores = scores_of(
        call("a", "t", 0, 0.1, metric="notes"), call("a", "t", 0, 0.9, metric="f1"),
        call("a", "u", 0, 0.2, metric="notes"),
    )  # fmt: skip
    board = leaderboard(scores, rows=rows, **FAST)
    assert by_model(board, "mean_score") == {"a": 0.9}
    assert by_model(board, "n_samples") == {"a": 1}
    with pytest.raises(OptionError, match=r"no task has a mean of the metric 'notes'"):
        leaderboard(scores, rows=rows, metric="notes")


def test_categories_are_means_over_their_tasks() -> None:
    rows = rows_of(row("t1", 0, category="mcq"), row("t2", 0, category="mcq"), row("t3", 0, category="code"))
    scores = scores_of(
        call("a", "t1", 0, 1.0), call("a", "t2", 0, 0.5), call("b", "t3", 0, 0.25), call("b", "t1", 0, None)
    )
    board = leaderboard(scores, rows=rows, **FAST)
    assert board.columns[-2:] == ["category.code", "category.mcq"]
    assert by_model(board, "category.mcq") == {"a": 0.75, "b": None}
    assert by_model(board, "category.code") == {"a": None, "b": 0.25}
    assert leaderboard(scores, **FAST).columns == LEADERBOARD.names


def test_fates_are_counted_as_calls() -> None:
    scores = scores_of(
        call("a", "t", 0, 1.0), call("a", "t", 0, 0.0, repeat=1, fate="unparsed"), call("a", "t", 1, None),
        call("a", "t", 2, None, fate="grader_error"), call("a", "u", 0, None),
    )  # fmt: skip
    generations = generations_of(
        generation("a", "t", 0), generation("a", "t", 0, repeat=1), generation("a", "t", 1, status="failed"),
        generation("a", "t", 2), generation("a", "t", 3, status="skipped"), generation("a", "v", 0, status="skipped"),
        generation("a", "u", 0, status="failed"), generation("z", "t", 0, status="skipped"),
    )  # fmt: skip
    board = leaderboard(scores, generations=generations, **FAST)
    counts = ["n_samples", "n_scored", "n_unparsed", "n_failed", "n_grader_error", "n_skipped", "tasks_completed"]
    assert board.select("model_id", *counts).rows() == [("a", 7, 1, 1, 2, 1, 2, 1), ("z", 1, 0, 0, 0, 0, 1, 0)]
    assert leaderboard(scores, **FAST)["n_skipped"].to_list() == [0]
    # rows know that the task v is never ranked
    rows = rows_of(*(row("t", i) for i in range(4)), row("u", 0), row("v", 0, metrics=[("notes", "none", True)]))
    assert by_model(leaderboard(scores, rows=rows, generations=generations, **FAST), "n_skipped") == {"a": 1, "z": 1}


def test_failed_samples_count_as_worst_in_mean_all() -> None:
    scores = scores_of(
        *graded("a", "t", [1.0, None, 1.0, None]), *graded("b", "t", [1.0, 1.0, 0.0, 1.0]),
        *graded("c", "t", [None] * 4), call("d", "t", 0, 1.0),
        call("d", "t", 0, None, repeat=1), call("d", "t", 1, None, fate="grader_error"),
    )  # fmt: skip
    board = leaderboard(scores, **FAST)
    assert by_model(board, "mean_score") == {"a": 1.0, "b": 0.75, "c": None, "d": 1.0}
    # one of d's repeats has a score, and its other sample is the grader's failure
    assert by_model(board, "mean_all") == {"a": 0.5, "b": 0.75, "c": 0.0, "d": 1.0}
    zero = leaderboard(scores, failures="zero", **FAST)
    assert by_model(zero, "mean_score") == by_model(board, "mean_all")
    assert by_model(zero, "rank") == {"d": 1, "b": 2, "a": 3, "c": 4}
    lo, hi = wilson(2, 4)
    assert zero.filter(model_id="a").select("mean_ci_lo", "mean_ci_hi").row(0) == pytest.approx((float(lo), float(hi)))


def test_the_worst_of_a_lower_metric_is_its_highest_score() -> None:
    rows = rows_of(*(row("t", i, metrics=[("error_rate", "mean", False)]) for i in range(2)))
    scores = scores_of(*graded("a", "t", [0.5, None], metric="error_rate"))
    assert leaderboard(scores, rows=rows, metric="error_rate", **FAST)["mean_all"].to_list() == [0.75]


def test_common_uses_only_units_that_all_have() -> None:
    scores = scores_of(
        *graded("a", "t", [1.0, 0.0, 1.0]), *graded("b", "t", [0.0, None, 0.5]), *graded("c", "t", [None] * 3)
    )
    assert by_model(leaderboard(scores, **FAST), "mean_score") == pytest.approx({"a": 2 / 3, "b": 0.25, "c": None})
    assert by_model(leaderboard(scores, common=True, **FAST), "mean_score") == {"a": 1.0, "b": 0.25, "c": None}


def test_win_rates_split_ties_and_add_up_to_1() -> None:
    scores = scores_of(
        *graded("a", "t", [1.0, 0.0, 1.0, None]), *graded("b", "t", [1.0, 0.0, 0.0, 1.0]),
        *graded("c", "t", [0.0, 0.0, 0.0, 1.0]), *graded("d", "t", [None] * 4),
    )  # fmt: skip
    split = by_model(leaderboard(scores, **FAST), "win_rate")
    assert split == pytest.approx({"a": (1 / 2 + 1 / 3 + 1) / 3, "b": (1 / 2 + 1 / 3) / 3, "c": 1 / 9, "d": None})
    assert sum(rate for rate in split.values() if rate is not None) == pytest.approx(1)
    assert by_model(leaderboard(scores, ties="all", **FAST), "win_rate") == pytest.approx(
        {"a": 1, "b": 2 / 3, "c": 1 / 3, "d": None}
    )


def test_no_common_unit_gives_no_win_rate() -> None:
    board = leaderboard(scores_of(call("a", "t", 0, 1.0), call("b", "t", 1, 1.0)), **FAST)
    assert board["win_rate"].to_list() == [None, None]


def test_costs_and_tokens_are_null_where_a_completed_call_does_not_tell() -> None:
    scores = scores_of(*(call(m, "t", i, 1.0) for m in "abc" for i in (0, 1)))
    told = {"cost_usd": 0.25, "input_tokens": 10, "output_tokens": 5}
    generations = generations_of(
        generation("a", "t", 0, **told), generation("a", "t", 1, **told), generation("a", "t", 2, status="failed"),
        generation("b", "t", 0, **told), generation("b", "t", 1, cost_usd=None, input_tokens=10),
        generation("d", "t", 0, status="failed"),
    )  # fmt: skip
    board = leaderboard(scores, generations=generations, **FAST)
    assert by_model(board, "cost_usd") == {"a": 0.5, "b": None, "c": None, "d": 0.0}
    assert by_model(board, "total_tokens") == {"a": 30, "b": None, "c": None, "d": 0}


def test_calibration_columns_come_from_the_headline_pairs() -> None:
    scores = scores_of(*graded("a", "t", [1.0, 0.0, 0.0, 0.0]), *graded("b", "t", [1.0]))
    generations = generations_of(
        *(generation("a", "t", i, confidence=c) for i, c in enumerate([0.93, 1.0, 0.0, 0.07])), generation("b", "t", 0)
    )
    board = leaderboard(scores, generations=generations, **FAST)
    assert by_model(board, "ece") == {"a": pytest.approx(0.25), "b": None}
    assert by_model(board, "brier") == {"a": pytest.approx(0.25245), "b": None}


def test_batch_graders_values_are_units_of_their_task() -> None:
    rows = rows_of(row("t", 0), row("t", 1), row("batch", 0, category="essay", metrics=[]))
    scores = scores_of(*graded("a", "t", [1.0, 0.0]), *graded("b", "t", [0.0, 0.0]))
    said = {
        "task_id": "batch", "metric": "coherence", "category": "essay", "aggregation": "mean",
        "higher_is_better": True, "headline": True, "source": "grader",
    }  # fmt: skip
    counted = dict.fromkeys(("n_unparsed", "n_grader_error", "n_skipped"), 0)
    counted |= {"n_samples": 3, "n_scored": 2, "n_failed": 1}
    ours = said | counted | {"task_id": "t", "metric": "exact_match", "source": "aggregate"}
    task_metrics = from_records(
        [said | counted | {"model_id": "a", "value": 0.2}, said | counted | {"model_id": "b", "value": 0.9},
         ours | {"model_id": "a", "value": 0.5}],
        TASK_METRICS,
    ).sort(TASK_METRICS.key)  # fmt: skip
    board = leaderboard(scores, rows=rows, task_metrics=task_metrics, **FAST)
    assert by_model(board, "mean_score") == pytest.approx({"a": (0.5 + 0.2) / 2, "b": (0 + 0.9) / 2})
    assert by_model(board, "category.essay") == {"a": 0.2, "b": 0.9}
    assert by_model(board, "tasks_completed") == {"a": 2, "b": 2}
    assert by_model(board, "n_samples") == {"a": 5, "b": 5}
    assert leaderboard(scores, rows=rows, task_metrics=task_metrics, metric="coherence", **FAST)[
        "model_id"
    ].to_list() == ["b", "a"]
    assert by_model(leaderboard(scores, rows=rows, **FAST), "mean_score") == {"a": 0.5, "b": 0.0}


def test_a_corpus_metric_adds_up_its_parts() -> None:
    texts = [("the cat sat on the mat", "the cat sat on a mat"), ("a b c d", "a b x d e f"), ("no", "yes it is")]
    metric = METRICS.get("corpus_bleu_4")
    frame = pl.DataFrame({"prediction": [p for p, _ in texts], "targets": [[t] for _, t in texts]})
    measured = metric.measure(frame)
    records = [
        call("a", "t", i, s, metric="corpus_bleu_4", parts=p)
        for i, (s, p) in enumerate(zip(measured["score"], measured["parts"].to_list(), strict=True))
    ]
    scores = scores_of(*records, call("a", "t", 3, None, metric="corpus_bleu_4"), call("a", "u", 0, 0.5))
    rows = rows_of(*(row("t", i, metrics=[("corpus_bleu_4", "mean", True)]) for i in range(4)), row("u", 0))
    corpus = float(metric.aggregate(np.array(measured["parts"].to_list()).sum(axis=0)))
    board = leaderboard(scores, rows=rows, **FAST)
    assert corpus != pytest.approx(measured["score"].mean())
    assert board["mean_score"][0] == pytest.approx((corpus + 0.5) / 2, abs=1e-12)
    assert board["mean_all"][0] == pytest.approx((corpus * 3 / 4 + 0.5) / 2, abs=1e-12)
    assert board["ci_method"][0] == "bootstrap"
    assert board["mean_ci_lo"][0] < board["mean_score"][0] < board["mean_ci_hi"][0]


def test_an_aggregate_of_parts_never_has_the_interval_of_a_share() -> None:
    """Texts of unlike length weigh unlike, also where each is all right or all wrong."""
    texts = [("a b c d e f g h", "a b c d e f g h"), ("", "x"), ("q r s t u", "q r s t u"), ("", "y z")] * 5
    frame = pl.DataFrame({"prediction": [p for p, _ in texts], "targets": [[t] for _, t in texts]})
    measured = METRICS.get("corpus_bleu_4").measure(frame)
    records = [
        call("a", "t", i, s, metric="corpus_bleu_4", parts=p)
        for i, (s, p) in enumerate(zip(measured["score"], measured["parts"].to_list(), strict=True))
    ]
    assert set(measured["score"]) == {0.0, 1.0}
    rows = rows_of(*(row("t", i, metrics=[("corpus_bleu_4", "mean", True)]) for i in range(len(texts))))
    assert leaderboard(scores_of(*records), rows=rows, **FAST)["ci_method"].to_list() == ["bootstrap"]


def test_without_rows_the_direction_is_the_registry_s_and_several_metrics_ask_for_rows() -> None:
    scores = scores_of(call("a", "t", 0, 1.0), call("a", "t", 0, 0.5, metric="f1"))
    with pytest.raises(OptionError, match=r"tasks with several metrics: t; give rows=.*or name one with metric="):
        leaderboard(scores)
    assert leaderboard(scores, metric="f1", **FAST)["mean_score"].to_list() == [0.5]
    with pytest.raises(OptionError, match=r"no task has a mean of the metric 'f2'; known: exact_match, f1"):
        leaderboard(scores, metric="f2")


def test_bad_options_and_frames_are_named() -> None:
    scores = scores_of(call("a", "t", 0, 1.0))
    with pytest.raises(OptionError, match=r"weighting.*'task' or 'sample'") as caught:
        leaderboard(scores, weighting="tasks", ties="none")  # type: ignore[arg-type]
    assert len(caught.value.fault_records) == 2
    with pytest.raises(SchemaError, match="missing"):
        leaderboard(scores.drop("fate"))
    with pytest.raises(SchemaError, match="does not come after"):
        leaderboard(pl.concat([scores, scores]))
    with pytest.raises(SchemaError, match="scores of tasks that have no rows: t"):
        leaderboard(scores, rows=rows_of(row("other", 0)))
    rows = rows_of(row("t", 0, metrics=[("x", "mean", True)]), row("u", 0, metrics=[("x", "mean", False)]))
    both = scores_of(call("a", "t", 0, 1.0, metric="x"), call("a", "u", 0, 1.0, metric="x"))
    with pytest.raises(OptionError, match="better when higher"):
        leaderboard(both, rows=rows, metric="x")


def test_nothing_gives_an_empty_board() -> None:
    nothing = from_records([], SCORES)
    assert leaderboard(nothing).is_empty()
    skipped = leaderboard(
        nothing, rows=rows_of(row("t", 0)), generations=generations_of(generation("a", "t", 0, status="skipped"))
    )
    assert skipped.select("rank", "model_id", "n_samples", "mean_all", "ci_method").row(0) == (
        None,
        "a",
        1,
        None,
        "none: nothing scored",
    )
    json.dumps(skipped.to_dicts())
