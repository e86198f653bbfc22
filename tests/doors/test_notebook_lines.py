"""The lines with which the design begins, as a user types them; mocks and stored outputs stand for paid models."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evalframe as ef


@pytest.fixture
def rows() -> list[dict[str, object]]:
    sums = [{"question": f"{n} + 3", "answer": n + 3, "subject": "sums"} for n in range(20)]
    products = [{"question": f"{n} * 3", "answer": n * 3, "subject": "products"} for n in range(20)]
    return sums + products


def test_the_lines_of_the_design(rows: list[dict[str, object]], tmp_path: Path) -> None:
    outputs = pl.DataFrame(
        [
            {"task_id": "data", "sample_index": n, "repeat": repeat, "model_id": model,
             "output_text": f"The answer is {row['answer'] if n % 5 or model == 'strong' else 0} (of {repeat + 1000})."}
            for model in ("strong", "weak") for n, row in enumerate(rows) for repeat in range(3)
        ]
    )  # fmt: skip
    run = ef.run(rows, models=[*ef.replay(outputs), "mock/rule_based"], prompt="Q: {{question}}\nA:",
                 targets="{{answer}}", extract="number", metrics=["numeric_match"], repeats=3,
                 out=tmp_path / "run", progress=False)  # fmt: skip
    board = run.leaderboard(by="row.subject")
    assert board["by.row.subject"].unique().sort().to_list() == ["products", "sums"]
    assert dict(run.leaderboard().select("model_id", "mean_score").iter_rows())["strong"] == 1.0  # a cue goes first
    assert run.pairwise().height == 3
    assert run.failures().height == 0

    better = run.rescore(extract=ef.regex_last(r"answer is (\S+)"))
    compared = run.compare(better)
    assert compared.height == 3 * 40 * 3
    changed = compared.filter(pl.col("change") != "same")
    assert changed["model_a"].unique().to_list() == ["mock/rule_based"]  # it answers with the bare number
    assert any("not the same extraction" in note for note in compared.notes)
    careless = run.rescore(extract=ef.regex_last(r"(\d+)"))
    assert run.compare(careless).filter(pl.col("model_a") == "strong")["change"].unique().to_list() == ["broken"]

    more = run.extend(models=[ef.from_callable("local", lambda prompt: "42")], progress=False)
    assert more.leaderboard()["model_id"].sort().to_list() == ["local", "mock/rule_based", "strong", "weak"]
    wrong = run.samples.filter(~pl.col("correct"))
    assert wrong.filter(pl.col("model_id") == "weak").height == 8 * 3 - 3  # 0 * 3 is 0


def test_a_suite_in_one_line(fixtures: Path) -> None:
    board = ef.run(fixtures / "suite.json", models=["mock/rule_based"], out=False, progress=False).leaderboard()
    assert board["mean_score"].to_list() == [1.0]
