"""Cases from the field about statistics: each test carries the id of its case."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import evalframe as ef
from evalframe.calibrating import CalibrationReport
from evalframe.frames import from_records
from evalframe.pairs import pairwise
from evalframe.schemas import GENERATIONS, ROWS, SCORES
from evalframe.standings import leaderboard
from evalframe.stats.bootstrap import Stratum, interval, ratio, resample
from evalframe.stats.tests import min_detectable


def graded(model: str, task: str, values: list[float | None], *, repeat: int = 0) -> list[dict[str, Any]]:
    key = {"model_id": model, "task_id": task, "repeat": repeat, "metric": "exact_match"}
    return [
        key | {"sample_index": i, "score": v, "fate": "grader_error" if v is None else "scored"}
        for i, v in enumerate(values)
    ]


def scores_of(*records: dict[str, Any]) -> pl.DataFrame:
    return from_records(records, SCORES).sort(SCORES.key)


def test_C095_micro_and_macro_means_have_their_own_intervals() -> None:
    scores = scores_of(*graded("m", "history", [1.0] * 9 + [0.0]), *graded("m", "law", [1.0, 0.0]))
    macro = leaderboard(scores, weighting="task").row(0, named=True)
    micro = leaderboard(scores, weighting="sample").row(0, named=True)
    assert macro["mean_score"] == pytest.approx(0.7, abs=1e-12)
    assert micro["mean_score"] == pytest.approx(0.833333, abs=1e-6)
    # the standard errors of the case: of the same draws, each weighted as its mean is
    strata = {
        task: np.array([[value, 1.0] for value in values])[:, None, :]
        for task, values in {"history": [1.0] * 9 + [0.0], "law": [1.0, 0.0]}.items()
    }

    def spread(weights: dict[str, float]) -> float:
        drawn = [Stratum(t, columns, ratio, np.array([weights[t]])) for t, columns in strata.items()]
        return float(resample(drawn, n_resamples=20_000, seed=0, max_bytes=10**7).std())

    assert spread({"history": 1, "law": 1}) == pytest.approx(0.254951, rel=0.02)
    assert spread({"history": 10, "law": 2}) == pytest.approx(math.hypot(10 * 0.1, 2 * 0.5) / 12, rel=0.02)
    assert macro["mean_ci_hi"] - macro["mean_ci_lo"] > 1.4 * (micro["mean_ci_hi"] - micro["mean_ci_lo"])


def test_C096_questions_of_one_passage_are_one_unit() -> None:
    """Four passages of three questions each; the correction is G/(G - 1): 0.288675."""
    right = {"p1": 1.0, "p2": 0.0, "p3": 1.0, "p4": 0.0}
    passages = [passage for passage in right for _ in range(3)]
    scores = scores_of(*graded("m", "t", [right[passage] for passage in passages]))
    rows = from_records(
        [
            {"task_id": "t", "sample_index": i, "sample_id": str(i), "category": "qa", "prompt": "?",
             "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "metadata": "{}",
             "row": f'{{"passage_id":"{passage}"}}',
             "metrics": [{"id": "exact_match", "aggregation": "mean", "higher_is_better": True}]}
            for i, passage in enumerate(passages)
        ],
        ROWS,
    )  # fmt: skip
    naive = leaderboard(scores, rows=rows).row(0, named=True)
    clustered = leaderboard(scores, rows=rows, cluster="row.passage_id")
    shown = clustered.row(0, named=True)
    assert shown["mean_score"] == naive["mean_score"] == 0.5
    assert (naive["ci_method"], shown["ci_method"]) == ("wilson", "cluster wilson")
    assert naive["mean_ci_hi"] - naive["mean_ci_lo"] < 0.52 < 0.7 < shown["mean_ci_hi"] - shown["mean_ci_lo"]
    assert any("4 clusters" in note for note in clustered.notes)  # type: ignore[attr-defined]
    # the standard errors of the case, of the difference from a model that has nothing right
    both = pl.concat([scores, scores_of(*graded("n", "t", [0.0] * 12))])
    for cluster, error in ((None, 0.150756), ("row.passage_id", 0.288675)):
        against = pairwise(both, rows=rows, cluster=cluster).row(0, named=True)
        assert against["min_detectable"] == pytest.approx(float(min_detectable(error)), abs=1e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_C098_ties_share_the_win_and_the_rank(turned: bool) -> None:
    records = [*graded("m1", "t", [0.62]), *graded("m2", "t", [0.31 + 0.31 + 1e-15]), *graded("m3", "t", [0.4])]
    board = leaderboard(scores_of(*records).sort(SCORES.key, descending=turned))
    assert dict(board.select("model_id", "win_rate").iter_rows()) == {"m1": 0.5, "m2": 0.5, "m3": 0.0}
    assert dict(board.select("model_id", "rank").iter_rows()) == {"m1": 1, "m2": 1, "m3": 3}


def test_C099_a_missing_judgement_is_no_loss_and_a_tie_is_half_a_win() -> None:
    """Judgements of a against b, as the two scores that a judge gives: the same for a tie, null where it gave none."""
    judged = ["a", "b", "tie", None, "a", None]
    of_a = [None if j is None else {"a": 1.0, "b": 0.0, "tie": 0.5}[j] for j in judged]
    scores = scores_of(*graded("a", "t", of_a), *graded("b", "t", [None if s is None else 1 - s for s in of_a]))
    board = leaderboard(scores)
    rates = dict(board.select("model_id", "win_rate").iter_rows())
    assert rates == {"a": 0.625, "b": 0.375}
    assert board["n_scored"].to_list() == [4, 4]
    assert board["n_grader_error"].to_list() == [2, 2]
    assert pairwise(scores)["n_pairs"].item() == 4


def test_C104_confidence_1_is_in_the_last_bin() -> None:
    report = CalibrationReport.from_predictions([0.93, 1.0, 0.0, 0.07], [1, 0, 0, 0], bins=10)
    assert report.ece == pytest.approx(0.25, abs=1e-12)
    assert report.brier == pytest.approx(0.25245, abs=1e-12)
    assert report.diagram["n"].to_list() == [2, *[0] * 8, 2]


def test_C105_every_pair_is_in_a_bin_and_bins_may_outnumber_pairs() -> None:
    confidence, correct = [0.9, 0.8, 0.6, 0.55, 0.3], [1, 1, 0, 1, 0]
    report = CalibrationReport.from_predictions(confidence, correct, bins=10)
    assert report.ece == pytest.approx(0.33, abs=1e-12)
    assert report.brier == pytest.approx(0.1405, abs=1e-12)
    assert report.diagram["n"].sum() == report.n_samples == 5
    assert report.diagram.filter(pl.col("n") > 0)["bin"].to_list() == [3, 5, 6, 8, 9]
    for bins in (1, 2, 3, 7, 1000):
        assert CalibrationReport.from_predictions(confidence, correct, bins=bins).diagram["n"].sum() == 5


def test_C109_twelve_of_twelve_is_not_certain() -> None:
    board = leaderboard(scores_of(*graded("m", "t", [1.0] * 12))).row(0, named=True)
    assert board["mean_score"] == 1.0
    assert (round(board["mean_ci_lo"], 4), board["mean_ci_hi"], board["ci_method"]) == (0.7575, 1.0, "wilson")


MODELS, TASKS = ("m1", "m2", "m3", "m4"), {"qa": 40, "law": 3, "solo_a": 1, "solo_b": 1}


def made_run(seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Scores of four models with ties, failures, grader errors and repeats; their rows and generations."""
    rng = np.random.default_rng(seed)
    scores, generations, rows = [], [], []
    for task, n in TASKS.items():
        choice = [{"id": "exact_match", "aggregation": "mean", "higher_is_better": True}]
        for i in range(n):
            rows.append({
                "task_id": task, "sample_index": i, "sample_id": str(i), "category": task[:2], "prompt": "?",
                "prompt_hash": "0", "targets": ["a"], "metrics": choice, "extraction": "{}", "row": "{}",
                "metadata": "{}",
            })  # fmt: skip
            for model in MODELS:
                for repeat in range(2):
                    key = {"model_id": model, "task_id": task, "sample_index": i, "repeat": repeat}
                    fate = str(rng.choice(["scored", "scored", "scored", "unparsed", "failed", "grader_error"]))
                    # the third model answers as the first: they tie but for what failed
                    score = {"scored": float(rng.integers(0, 5)) / 4, "unparsed": 0.0}.get(fate)
                    if model == "m3":
                        twin = next(s for s in scores if s == s | key | {"model_id": "m1"})
                        fate, score = twin["fate"], twin["score"]
                    correct = None if score is None else score >= 1
                    scores.append(key | {"metric": "exact_match", "score": score, "fate": fate, "correct": correct})
                    status = "failed" if fate == "failed" else "completed"
                    generations.append(key | {
                        "status": status, "attempts": 1, "cached": False, "cost_usd": 0.01 * (i + 1),
                        "input_tokens": i, "output_tokens": 3, "confidence": float(rng.integers(0, 11)) / 10,
                        "output_text": "x" if status == "completed" else None,
                        "error_type": None if status == "completed" else "timeout",
                    })  # fmt: skip
    return (
        from_records(scores, SCORES).sort(SCORES.key),
        from_records(rows, ROWS).sort(ROWS.key),
        from_records(generations, GENERATIONS).sort(GENERATIONS.key),
    )


def recomputed(records: list[dict[str, Any]], calls: list[dict[str, Any]], model: str) -> dict[str, Any]:
    """Every cell of a model's row but rank and interval, by loops over the exported rows."""
    mine = [r for r in records if r["model_id"] == model]
    fates = [r["fate"] for r in mine]

    def unit(m: str, task: str, i: int, *, failed_as: float | None = None) -> float | None:
        its = [r for r in records if (r["model_id"], r["task_id"], r["sample_index"]) == (m, task, i)]
        values = [r["score"] for r in its if r["score"] is not None]
        if values:
            return math.fsum(values) / len(values)
        return failed_as if any(r["fate"] == "failed" for r in its) else None

    def mean(values: list[float | None]) -> float | None:
        there = [v for v in values if v is not None]
        return math.fsum(there) / len(there) if there else None

    def tasks_mean(names: list[str], failed_as: float | None = None) -> float | None:
        return mean([mean([unit(model, t, i, failed_as=failed_as) for i in range(TASKS[t])]) for t in names])

    wins = []
    for task, n in TASKS.items():
        for i in range(n):
            got = {m: unit(m, task, i) for m in MODELS}
            if None not in got.values():
                best = [m for m, s in got.items() if s >= max(got.values()) - 1e-12]  # type: ignore[operator,type-var]
                wins.append((model in best) / len(best))
    keys = ("model_id", "task_id", "sample_index", "repeat")
    by_call = {tuple(c[k] for k in keys): c for c in calls}
    pairs = [
        (by_call[tuple(r[k] for k in keys)]["confidence"], bool(r["correct"]) and r["fate"] != "unparsed")
        for r in mine
        if r["fate"] in ("scored", "unparsed")
    ]
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in pairs:
        bins.setdefault(min(9, round(confidence * 10)), []).append((confidence, right))
    gaps = [abs(math.fsum(c for c, _ in b) - sum(y for _, y in b)) for b in bins.values()]
    my_calls = [c for c in calls if c["model_id"] == model]
    return {
        "mean_score": tasks_mean(list(TASKS)),
        "mean_all": tasks_mean(list(TASKS), 0.0),
        "win_rate": math.fsum(wins) / len(wins),
        "tasks_completed": sum(any(r["score"] is not None for r in mine if r["task_id"] == t) for t in TASKS),
        "n_samples": len(mine), "n_skipped": 0,
        **{f"n_{f}": fates.count(f) for f in ("scored", "unparsed", "failed", "grader_error")},
        "cost_usd": math.fsum(c["cost_usd"] for c in my_calls),
        "total_tokens": sum(c["input_tokens"] + c["output_tokens"] for c in my_calls),
        "ece": math.fsum(gaps) / len(pairs),
        "brier": math.fsum((c - y) ** 2 for c, y in pairs) / len(pairs),
        **{f"category.{c}": tasks_mean([t for t in TASKS if t[:2] == c]) for c in ("la", "qa", "so")},
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_C117_every_leaderboard_cell_follows_from_the_rows(tmp_path: Path, seed: int) -> None:
    scores, rows, generations = made_run(seed)
    scores.write_parquet(tmp_path / "scores.parquet")
    generations.write_parquet(tmp_path / "generations.parquet")
    board = leaderboard(scores, rows=rows, generations=generations, n_resamples=500, seed=3)
    records = pl.read_parquet(tmp_path / "scores.parquet").to_dicts()
    calls = pl.read_parquet(tmp_path / "generations.parquet").to_dicts()
    means = {}
    for shown in board.to_dicts():
        cells = recomputed(records, calls, shown["model_id"])
        means[shown["model_id"]] = cells["mean_score"]
        assert {name: shown[name] for name in cells} == {
            name: value if value is None else pytest.approx(value, abs=1e-9) for name, value in cells.items()
        }
        rest = {"rank", "rank_lo", "rank_hi", "model_id", "mean_ci_lo", "mean_ci_hi", "ci_method"}
        assert set(shown) - set(cells) == rest
    ranks = {m: 1 + sum(other > mean + 1e-12 for other in means.values()) for m, mean in means.items()}
    assert dict(board.select("model_id", "rank").iter_rows()) == ranks
    assert ranks["m1"] == ranks["m3"]


def test_C117_intervals_follow_from_the_rows_and_the_seed() -> None:
    scores, rows, generations = made_run()
    board = leaderboard(scores, rows=rows, generations=generations, n_resamples=500, seed=3)
    samples = scores.group_by("model_id", "task_id", "sample_index").agg(pl.col("score").mean())
    value = {tuple(key): score for *key, score in samples.iter_rows()}
    strata = []
    for label, units in (
        ("law", [("law", i) for i in range(3)]), ("qa", [("qa", i) for i in range(40)]),
        ("\0single-sample tasks", [("solo_a", 0), ("solo_b", 0)]),
    ):  # fmt: skip
        table = np.array([[value[m, *unit] for m in MODELS] for unit in units], float)
        there = ~np.isnan(table)
        weights = there.sum(axis=0) if len(label) > 3 else there.any(axis=0)
        columns = np.stack([np.nan_to_num(table), there], axis=2).astype(float)
        strata.append(Stratum(label, columns, ratio, weights.astype(float)))
    lo, hi = interval(resample(strata, n_resamples=500, seed=3, max_bytes=10**6))
    expected = {
        m: (pytest.approx(a, abs=1e-9), pytest.approx(b, abs=1e-9)) for m, a, b in zip(MODELS, lo, hi, strict=True)
    }
    shown = {m: (a, b) for m, a, b in board.select("model_id", "mean_ci_lo", "mean_ci_hi").iter_rows()}
    assert shown == expected
    assert set(board["ci_method"]) == {"bootstrap"}


@pytest.fixture
def given_scores(write_jsonl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a metric of one's own that gives each row the score that stands in it; give the run and its warnings."""
    monkeypatch.chdir(tmp_path)

    @ef.metric("given", needs=["row.grade"])
    def given(frame: pl.DataFrame) -> pl.Series:
        grade = pl.col("row.grade")
        score = pl.when(grade != "none").then(grade.cast(pl.Float64, strict=False))
        return frame.select(pl.when(grade.is_null()).then(0.0).otherwise(score).alias("score")).to_series()

    def run(*grades: str) -> tuple[ef.Run, list[str]]:
        write_jsonl([{"id": index, "q": "?", "grade": grade} for index, grade in enumerate(grades)])
        task = {"id": "t", "type": "custom", "dataset": {"file_id": "rows.jsonl"}, "prompt_template": "{{q}}",
                "target_template": "x", "metrics": [{"id": "given"}]}  # fmt: skip
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            done = ef.run({"tasks": [task]}, ef.from_callable("m", lambda prompt: "answer"), out=False, progress=False)
        return done, [str(warning.message) for warning in caught]

    return run


def test_C107_a_nan_score_is_an_unscored_row_with_a_warning(given_scores) -> None:
    run, said = given_scores("1.0", "none", "0.0", "NaN", "1.0")
    assert run.scores["score"].to_list() == [1.0, None, 0.0, None, 1.0]
    assert run.scores["fate"].to_list() == ["scored", "grader_error", "scored", "grader_error", "scored"]
    row = run.leaderboard().to_dicts()[0]
    assert (row["n_samples"], row["n_scored"], row["n_grader_error"]) == (5, 3, 2)
    assert row["mean_score"] == pytest.approx(2 / 3)
    assert any("gave no score for 2 calls" in line for line in said)


def test_C108_a_score_out_of_range_is_an_error_of_its_row_that_names_the_value(given_scores) -> None:
    run, said = given_scores("1.0", "1.7", "-0.2", "inf", "0.5")
    assert run.scores["score"].to_list() == [1.0, None, None, None, 0.5]
    for value, detail in zip(("1.7", "-0.2", "inf"), run.scores["detail"][1:4], strict=True):
        assert value in detail
        assert "give a number from 0 to 1" in detail
    assert any("gave no score for 3 calls" in line for line in said)
