"""Real input with known right answers: GSM8K's test questions and the published outputs of four models."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import evalframe as ef

RIGHT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}
QUESTIONS = 1319


@pytest.fixture(scope="module")
def published(shared_data: Path) -> pl.DataFrame:
    """The outputs as replay rows, with the published verdict beside them."""
    lines = (shared_data / "gsm8k" / "example_model_solutions.jsonl").read_text("utf-8").splitlines()
    nested = [json.loads(line) for line in lines]
    return pl.DataFrame(
        [
            {
                "model_id": model,
                "task_id": "gsm8k",
                "sample_index": index,
                "output_text": record[model]["solution"],
                "is_correct": record[model]["is_correct"],
            }
            for model in RIGHT
            for index, record in enumerate(nested)
        ]
    )


@pytest.fixture(scope="module")
def gsm8k(shared_data: Path, published: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> ef.Run:
    manifest = {
        "tasks": [
            {
                "id": "gsm8k",
                "type": "math",
                "dataset": {"file_id": "gsm8k_test", "format": "jsonl"},
                "prompt_template": "{{question}}",
                "target_template": "{{answer}}",
                "output_extraction": {"type": "number"},
                "metrics": [{"id": "numeric_match"}],
            }
        ]
    }
    return ef.run(
        manifest,
        ef.replay(published.drop("is_correct")),
        files={"gsm8k_test": shared_data / "gsm8k" / "test.jsonl"},
        out=tmp_path_factory.mktemp("gsm8k") / "run",
        progress=False,
    )


def test_every_question_is_scored_for_every_model(gsm8k: ef.Run) -> None:
    assert gsm8k.rows.height == QUESTIONS
    assert gsm8k.scores["fate"].unique().to_list() == ["scored"]
    assert gsm8k.scores.height == QUESTIONS * len(RIGHT)


def test_exactly_the_published_numbers_are_right(gsm8k: ef.Run) -> None:
    right = gsm8k.scores.group_by("model_id").agg(pl.col("correct").sum())
    assert dict(right.iter_rows()) == RIGHT


def test_each_single_verdict_agrees_with_the_published_one(gsm8k: ef.Run, published: pl.DataFrame) -> None:
    both = gsm8k.scores.join(published, on=["model_id", "task_id", "sample_index"], how="inner")
    assert both.height == QUESTIONS * len(RIGHT)
    assert both.filter(pl.col("correct") != pl.col("is_correct")).is_empty()


def test_the_leaderboard_says_so_with_intervals(gsm8k: ef.Run) -> None:
    board = gsm8k.leaderboard()
    assert board["model_id"].to_list() == sorted(RIGHT, key=lambda model: -RIGHT[model])
    for row in board.to_dicts():
        share = RIGHT[row["model_id"]] / QUESTIONS
        assert row["mean_score"] == pytest.approx(share, abs=1e-12)
        half = 1.96 * (share * (1 - share) / QUESTIONS) ** 0.5
        assert row["mean_ci_lo"] == pytest.approx(share - half, abs=0.003)
        assert row["mean_ci_hi"] == pytest.approx(share + half, abs=0.003)


def test_pairwise_is_paired_on_the_questions(gsm8k: ef.Run) -> None:
    pairs = {(row["model_a"], row["model_b"]): row for row in gsm8k.pairwise().to_dicts()}
    assert len(pairs) == 6
    close = pairs["175b_finetuning", "6b_verification"]
    assert close["n_pairs"] == QUESTIONS
    assert close["diff_mean"] == pytest.approx((458 - 515) / QUESTIONS, abs=1e-12)
    assert close["significant"]
    assert close["p_value"] < 0.01


def test_a_slice_by_question_length_follows_from_the_exported_parquet(gsm8k: ef.Run, tmp_path: Path) -> None:
    hundreds = (pl.col("prompt").str.len_chars() // 100).clip(1, 5).alias("hundreds")
    found = gsm8k.slice(hundreds, n_resamples=2_000)
    assert found.equals(gsm8k.leaderboard(by=hundreds, n_resamples=2_000))
    assert found["by.hundreds"].unique(maintain_order=True).to_list() == ["1", "2", "3", "4", "5"]
    assert found["n_units"].sum() == QUESTIONS * len(RIGHT)

    gsm8k.to_parquet(tmp_path / "export")
    rows = pl.read_parquet(tmp_path / "export" / "rows.parquet")
    scores = pl.read_parquet(tmp_path / "export" / "scores" / "*.parquet")
    generations = pl.read_parquet(tmp_path / "export" / "generations" / "*.parquet")
    length = {index: min(max(len(text) // 100, 1), 5) for index, text in rows.select("sample_index", "prompt").rows()}
    right: dict[tuple[int, str], list[float]] = {}
    for index, model, score in scores.select("sample_index", "model_id", "score").iter_rows():
        right.setdefault((length[index], model), []).append(score)
    shown = {(int(r["by.hundreds"]), r["model_id"]): r for r in found.to_dicts()}
    assert shown.keys() == right.keys()
    for key, marks in right.items():
        assert shown[key]["n_units"] == shown[key]["n_scored"] == len(marks)
        assert shown[key]["mean_score"] == pytest.approx(sum(marks) / len(marks), abs=1e-9)

    for hundred in range(1, 6):
        its = pl.col("sample_index").is_in([index for index, value in length.items() if value == hundred])
        board = ef.leaderboard(
            scores.filter(its), rows=rows.filter(its), generations=generations.filter(its), n_resamples=2_000
        )
        same = found.filter(pl.col("by.hundreds") == str(hundred)).select(board.columns)
        assert same["model_id"].to_list() == board["model_id"].to_list()
        for name in ("mean_score", "mean_ci_lo", "mean_ci_hi", "win_rate", "rank_lo", "rank_hi"):
            assert same[name].to_list() == pytest.approx(board[name].to_list(), abs=1e-9)
    # longer questions are harder, for each model
    for model in RIGHT:
        assert shown[1, model]["mean_score"] > shown[4, model]["mean_score"]


def test_pass_at_1_of_one_repeat_is_the_share_that_is_right(gsm8k: ef.Run) -> None:
    found = gsm8k.pass_at_k(k=[1, 2], n_resamples=500)
    one = found.filter(k=1)
    assert dict(one.select("model_id", "pass_at_k").iter_rows()) == pytest.approx(
        {model: right / QUESTIONS for model, right in RIGHT.items()}, abs=1e-12
    )
    assert one["n_repeats_max"].unique().to_list() == [1]
    assert found.filter(k=2)["pass_at_k"].null_count() == len(RIGHT)


@pytest.mark.parametrize(
    ("before", "after"), [("6b_finetuning", "175b_verification"), ("6b_verification", "175b_finetuning")]
)
def test_a_comparison_counts_what_the_published_verdicts_say(
    gsm8k: ef.Run, published: pl.DataFrame, before: str, after: str
) -> None:
    verdicts = published.pivot(on="model_id", index="sample_index", values="is_correct")
    found = gsm8k.differences(gsm8k, models=(before, after)).to_dicts()[0]
    assert found["n_fixed"] == verdicts.filter(~pl.col(before) & pl.col(after)).height
    assert found["n_broken"] == verdicts.filter(pl.col(before) & ~pl.col(after)).height
    assert found["n_same"] == QUESTIONS - found["n_fixed"] - found["n_broken"]
    assert found["mean_a"] == pytest.approx(RIGHT[before] / QUESTIONS, abs=1e-12)
    assert found["mean_b"] == pytest.approx(RIGHT[after] / QUESTIONS, abs=1e-12)
    assert found["diff_mean"] == pytest.approx((RIGHT[after] - RIGHT[before]) / QUESTIONS, abs=1e-12)
    compared = gsm8k.compare(gsm8k, models=(before, after))
    assert compared["change"].to_list()[: found["n_broken"]] == ["broken"] * found["n_broken"]


def test_one_model_at_a_time_put_together_and_scored_anew_is_the_run_of_all(
    gsm8k: ef.Run, published: pl.DataFrame, shared_data: Path
) -> None:
    manifest = gsm8k.folder.manifest()
    manifest["tasks"][0]["output_extraction"] = {"type": "none"}
    runs = [
        ef.run(
            manifest,
            ef.replay(published.filter(pl.col("model_id") == model).drop("is_correct")),
            files={"gsm8k_test": shared_data / "gsm8k" / "test.jsonl"},
            out=False,
            progress=False,
        )
        for model in RIGHT
    ]
    again = ef.concat(runs).rescore(extract="number")
    assert again.scores.equals(gsm8k.scores)
    assert again.answers.equals(gsm8k.answers)
    assert again.record["version"] == gsm8k.record["version"]
    assert gsm8k.compare(again)["change"].unique().to_list() == ["same"]
