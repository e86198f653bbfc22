"""Cases of kind h: export and analysis."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe import export, schemas
from evalframe.frames import check

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ef.Run:
    """A run with ties, failures, unparsed answers and repeats."""

    def flaky(prompt: str, task: ef.TaskSpec) -> str:
        if task.sample_id in ("q03", "q07"):
            raise ConnectionError("the line is down")
        return "no idea" if task.sample_id == "q05" else f"It is {task.sample_index + task.repeat}."

    out = tmp_path_factory.mktemp("run") / "run"
    models = ["mock/rule_based", "mock/noisy", ef.from_callable("flaky", flaky)]
    return ef.run(FIXTURES / "suite.json", models, repeats=2, out=out, progress=False)


def strict(path: Path) -> Any:
    """Parse as a strict reader does."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in {path}")

    return json.loads(path.read_text("utf-8"), parse_constant=refuse)


def test_C110_nested_cells_are_json_text(run: ef.Run, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [1], "targets": [["a", "b"]], "meta": [{"page": 3, "ok": None}], "score": [1.0]})
    assert export.flat(frame).row(0) == (1, '["a","b"]', '{"page":3,"ok":null}', 1.0)
    assert export.flat(frame.clear()).height == 0
    with (run.to_csv(tmp_path / "csv") / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [json.loads(row["targets"]) for row in rows] == run.rows["targets"].to_list()
    assert json.loads(rows[0]["metrics"])[0]["id"] == "numeric_match"
    assert json.loads(rows[18]["row"])["question"] == json.loads(run.rows["row"][18])["question"]


def test_C110_cells_that_a_spreadsheet_would_run_are_quoted_on_demand() -> None:
    frame = pl.DataFrame({"output_text": ["=1+1", "@x", "-3", "plain", None], "n": [-1, 2, 3, 4, 5]})
    assert export.flat(frame, spreadsheet_safe=True)["output_text"].to_list() == ["'=1+1", "'@x", "'-3", "plain", None]
    assert export.flat(frame, spreadsheet_safe=True)["n"].to_list() == [-1, 2, 3, 4, 5]
    assert export.flat(frame).equals(frame)


def test_C112_every_json_that_is_written_parses_strictly(run: ef.Run, tmp_path: Path) -> None:
    folder = run.to_parquet(tmp_path / "parquet")
    for path in (run.to_json(tmp_path / "e.json"), *folder.glob("*.json"), *run.path.glob("*.json")):
        strict(path)
    with pytest.raises(ValueError, match="JSON compliant"):
        export.to_json({"f1": math.nan})


def test_C112_nothing_to_measure_is_null_with_its_counts(tmp_path: Path) -> None:
    silent = ef.from_callable("silent", lambda prompt: "")
    run = ef.run(FIXTURES / "suite.json", silent, out=tmp_path / "r", progress=False)
    envelope = strict(run.to_json(tmp_path / "e.json"))
    assert envelope["perplexity"]["silent"] == {
        "perplexity": None, "avg_neg_log_likelihood": None, "n_nll_tokens": 0,
    }  # fmt: skip
    assert envelope["calibration"]["silent"]["ece"] is None
    assert envelope["summary"]["extraction"] == {"empty_output": 20}


def test_C116_analysis_starts_from_rows(run: ef.Run, tmp_path: Path) -> None:
    samples = pl.read_parquet(run.to_parquet(tmp_path / "p") / "samples.parquet")
    wanted = {
        "run_id", "model_id", "sample_id", "repeat", "prompt_hash", "output_text", "extracted_output", "target",
        "score.numeric_match", "status", "error_type", "error_message", "latency_seconds", "input_tokens",
        "output_tokens", "cached", "fate", "correct",
    }  # fmt: skip
    assert wanted <= set(samples.columns)
    assert not samples.select("run_id", "model_id", "task_id", "sample_id", "repeat").is_duplicated().any()
    questions = pl.read_ndjson(FIXTURES / "questions.jsonl").rename({"id": "sample_id"})
    joined = samples.join(questions, on="sample_id", how="left", maintain_order="left")
    assert joined["answer"].to_list() == joined["target"].to_list()


def test_C117_every_leaderboard_cell_follows_from_the_parquet(run: ef.Run, tmp_path: Path) -> None:
    folder = run.to_parquet(tmp_path / "p")
    board = {row["model_id"]: row for row in pl.read_parquet(folder / "leaderboard.parquet").to_dicts()}
    samples = pl.read_parquet(folder / "samples.parquet").to_dicts()
    assert set(board) == {"mock/rule_based", "mock/noisy", "flaky"}
    means = {}
    for model, row in board.items():
        mine = [sample for sample in samples if sample["model_id"] == model]
        units: dict[int, list[float]] = {}
        for sample in mine:
            if sample["score"] is not None:
                units.setdefault(sample["sample_index"], []).append(sample["score"])
        unit_scores = {index: sum(scores) / len(scores) for index, scores in units.items()}
        means[model] = unit_scores
        assert row["mean_score"] == pytest.approx(sum(unit_scores.values()) / len(unit_scores), abs=1e-9)
        assert row["mean_all"] == pytest.approx(sum(unit_scores.values()) / 20, abs=1e-9)
        assert row["n_samples"] == len(mine) == 40
        for fate in ("scored", "unparsed", "failed", "grader_error"):
            assert row[f"n_{fate}"] == sum(sample["fate"] == fate for sample in mine)
    common = set.intersection(*(set(units) for units in means.values()))
    for model, row in board.items():
        wins = 0.0
        for index in common:
            best = max(units[index] for units in means.values())
            winners = [m for m, units in means.items() if units[index] == best]
            wins += (model in winners) / len(winners)
        assert row["win_rate"] == pytest.approx(wins / len(common), abs=1e-9)
    again = ef.leaderboard(
        pl.read_parquet(folder / "scores" / "00000.parquet"),
        rows=pl.read_parquet(folder / "rows.parquet"),
        generations=pl.read_parquet(folder / "generations" / "00000.parquet"),
        task_metrics=pl.read_parquet(folder / "task_metrics.parquet"),
    )
    assert again.equals(pl.read_parquet(folder / "leaderboard.parquet"))


def test_an_exported_folder_opens_again(run: ef.Run, tmp_path: Path) -> None:
    again = ef.load(run.to_parquet(tmp_path / "p"))
    for name in ("rows", "generations", "answers", "grades", "scores", "samples", "task_metrics"):
        assert getattr(again, name).equals(getattr(run, name)), name
    assert again.envelope()["leaderboard"] == run.envelope()["leaderboard"]


def test_the_markdown_table_cuts_ids_and_escapes_pipes() -> None:
    board = pl.DataFrame(
        [dict.fromkeys(schemas.LEADERBOARD.names) | {"model_id": "a|b" + "x" * 30, "ci_method": "none"}],
        schema=schemas.LEADERBOARD.dtypes,
    ).with_columns(pl.col(pl.Int64).fill_null(0))
    check(board, schemas.LEADERBOARD)
    line = export.markdown(board).splitlines()[2]
    assert line == "| 0 | a\\|bxxxxxxxxxxxxxxxx… | - | - | - | 0 | - | - |"
