"""``evaluate``: outputs that came from elsewhere are a run like any other; no model is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import evalframe as ef
from evalframe import schemas
from evalframe.errors import DatasetError, OptionError, SandboxError
from evalframe.frames import check

WIDE = pl.DataFrame({
    "id": ["a", "b", "c", "d"], "question": ["1 + 1", "2 + 2", "3 + 3", "4 + 4"], "gold": ["2", "4", "6", "8"],
    "small": ["It is 2.", "5", None, ""], "large": ["<think>1?</think>2", "4", "6", "8"],
})  # fmt: skip
SCORED: dict[str, Any] = {"targets": "gold", "extract": "number", "metrics": ["numeric_match"]}
LONG = pl.concat([
    WIDE.select("id", "question", "gold", pl.lit(name).alias("model"), pl.col(name).alias("out"))
    for name in ("small", "large")
])  # fmt: skip


def faults(frame: Any = WIDE, **given: Any) -> dict[str, str]:
    with pytest.raises(OptionError) as caught:
        ef.evaluate(frame, **{"metrics": "f1", "targets": "gold", **given})
    return {fault.where: f"{fault.detail} -> {fault.remedy}" for fault in caught.value.fault_records}  # type: ignore[union-attr]


def test_columns_of_outputs_are_models() -> None:
    run = ef.evaluate(WIDE, prediction=["small", "large"], **SCORED)
    for name in ("rows", "generations", "answers", "scores", "samples", "task_metrics"):
        check(getattr(run, name), getattr(schemas, name.upper()))
    assert run.record["status"] == "complete"
    board = {row["model_id"]: row for row in run.leaderboard().to_dicts()}
    assert board["large"]["mean_score"] == 1.0
    assert (board["small"]["mean_score"], board["small"]["n_failed"]) == (pytest.approx(1 / 3), 1)
    assert run.pairwise().select("model_a", "model_b").rows() == [("large", "small")]
    fates = run.failures().select("model_id", "sample_id", "fate", "error_type").rows()
    assert fates == [("small", "c", "failed", "missing_output"), ("small", "d", "unparsed", None)]
    thought = run.generations.filter(pl.col("model_id") == "large").row(0, named=True)
    assert (thought["output_text"], thought["reasoning"], thought["attempts"]) == ("2", "1?", 0)
    assert thought["started_at"] is None
    assert run.rows["prompt"].to_list() == [""] * 4
    assert run.rows["row"][0] == '{"id":"a","question":"1 + 1","gold":"2"}', "outputs are no part of the data"
    assert not run.rows["row"].str.contains("small").any()
    assert run.leaderboard(by="row.question").height == 8


def test_the_name_of_the_model() -> None:
    def names(**given: Any) -> list[str]:
        run = ef.evaluate(WIDE, **SCORED, **given)
        found: list[str] = run.leaderboard()["model_id"].sort().to_list()
        assert found == sorted(model["model_id"] for model in run.record["models"])
        return found

    assert names(prediction="small") == ["small"]
    assert names(prediction="small", model="acme/tiny") == ["acme/tiny"]
    assert names(prediction={"acme/tiny": "small", "acme/huge": "large"}) == ["acme/huge", "acme/tiny"]


def test_the_long_form_is_the_wide_one(tmp_path: Path) -> None:
    wide = ef.evaluate(WIDE, prediction=["small", "large"], **SCORED)
    for given in ({}, {"sample_id": "id"}):
        long = ef.evaluate(LONG, prediction="out", model="model", **SCORED, **given)
        assert long.record["version"] == wide.record["version"]
        for name in ("rows", "generations", "answers", "scores", "task_metrics"):
            assert getattr(long, name).equals(getattr(wide, name)), name
    LONG.write_csv(tmp_path / "data.csv", quote_style="always")
    run = ef.evaluate(tmp_path / "data.csv", prediction="out", model="model", **SCORED)
    assert run.rows.drop("task_id").equals(wide.rows.drop("task_id"))
    pandas = ef.evaluate(LONG.to_pandas(), prediction="out", model="model", **SCORED)
    assert pandas.scores.equals(wide.scores)
    dicts = ef.evaluate(LONG.to_dicts(), prediction="out", model="model", **SCORED)
    assert dicts.generations.equals(wide.generations)


def test_equal_records_of_one_model_are_repeats_in_order() -> None:
    outputs = {"a": ["1", "2", "2"], "b": ["1", "1", "1"]}
    rows = [{"q": "1 + 1", "gold": "2", "m": model, "out": out} for model, outs in outputs.items() for out in outs]
    run = ef.evaluate(rows, prediction="out", model="m", targets="gold", metrics=["exact_match"])
    assert run.generations.select("model_id", "sample_index", "repeat", "output_text").rows() == [
        ("a", 0, 0, "1"), ("a", 0, 1, "2"), ("a", 0, 2, "2"), ("b", 0, 0, "1"), ("b", 0, 1, "1"), ("b", 0, 2, "1"),
    ]  # fmt: skip
    assert run.pass_at_k(k=1).filter(pl.col("model_id") == "a")["pass_at_k"].item() == pytest.approx(2 / 3)
    several = ef.evaluate(rows, prediction="out", sample_id="q", targets="gold", metrics=["exact_match"])
    assert several.generations["repeat"].to_list() == [0, 1, 2, 3, 4, 5]
    assert several.rows["sample_id"].to_list() == ["1 + 1"]


def test_an_output_that_only_others_have_is_missing() -> None:
    run = ef.evaluate(LONG.head(7), prediction="out", model="model", sample_id="id", **SCORED)
    lost = run.generations.filter(pl.col("error_message") == "there is no output of this model, sample and repeat")
    assert lost.select("model_id", "sample_index", "error_type").rows() == [("large", 3, "missing_output")]
    assert run.record["status"] == "complete"


def test_without_ids_each_record_is_a_sample() -> None:
    frame = pl.DataFrame({"gold": ["1", "1"], "out": ["1", "2"]})
    run = ef.evaluate(frame, prediction="out", targets="gold", metrics=["exact_match"])
    first, second = run.rows["sample_id"].to_list()
    assert second == f"{first}-1"
    assert run.scores["score"].to_list() == [1.0, 0.0]


def test_two_evaluations_of_one_data_set_have_one_version_and_are_compared_by_sample() -> None:
    one = ef.evaluate(WIDE.drop("large"), prediction="small", model="m", **SCORED)
    two = ef.evaluate(WIDE.drop("small"), prediction="large", model="m", **SCORED)
    assert one.record["parts"] == two.record["parts"]
    changes = dict(one.compare(two).select("sample_id", "change").iter_rows())
    assert (changes["a"], changes["b"], changes["d"]) == ("same", "fixed", "fixed")


def test_an_evaluation_has_the_version_of_a_run_that_asked_the_same() -> None:
    asked = {**SCORED, "prompt": "Q: {{question}}"}
    ran = ef.run(WIDE.drop("small", "large"), ef.from_callable("m", lambda _: "2"), progress=False, out=False, **asked)
    scored = ef.evaluate(WIDE.drop("small"), prediction="large", **asked)
    assert scored.record["version"] == ran.record["version"]
    assert scored.rows.equals(ran.rows)


def test_the_run_can_be_kept_and_opened(tmp_path: Path) -> None:
    run = ef.evaluate(WIDE, prediction="large", out=tmp_path / "kept", **SCORED)
    again = ef.load(tmp_path / "kept")
    assert again.leaderboard().equals(run.leaderboard())
    assert run.envelope()["summary"]["fates"] == {"scored": 4}


def test_values_that_are_no_text_are_rendered() -> None:
    frame = pd.DataFrame({"gold": [1, 2], "out": [1.0, 2.5]})
    run = ef.evaluate(frame, prediction="out", targets="gold", metrics=["numeric_match", "exact_match"])
    assert run.generations["output_text"].to_list() == ["1.0", "2.5"]
    assert run.scores.filter(pl.col("metric") == "numeric_match")["score"].to_list() == [1.0, 0.0]


def test_outputs_without_any_data_beside_them() -> None:
    @ef.metric("short_of_evaluate_test", needs_target=False)
    def short(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction.str.len_chars() < 3

    for frame in (pl.DataFrame({"out": ["a", "long"]}), [{"out": "a"}, {"out": "long"}]):
        run = ef.evaluate(frame, prediction="out", metrics=short)
        assert run.rows["row"].to_list() == ["{}", "{}"]
        assert run.scores["score"].to_list() == [1.0, 0.0]


def test_every_fault_at_once() -> None:
    found = faults(prediction="outt", sample_id="nope", targets="gld", metrics=["zz"], prompt="x", extract="numer")
    assert list(found) == ["prediction", "sample_id", "prompt", "targets", "extract", "metrics[0]"]
    assert "did you mean" in found["targets"]


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"prediction": "smal"}, "prediction", "did you mean 'small'"),
        ({"prediction": ["small", "small"]}, "prediction", "name each once"),
        ({"prediction": []}, "prediction", "write a column"), ({"prediction": 5}, "prediction", "5 is no column"),
        ({"prediction": {1: "small"}}, "prediction", "1 is no name of a model"),
        ({"prediction": ["small", "large"], "model": "m"}, "model", "prediction={model: column}"),
        ({"prediction": "small", "model": 5}, "model", "write the model's name, or a column"),
        ({"prediction": "small", "sample_id": "small"}, "prediction, model, sample_id", "name it once"),
        ({"prediction": "small", "targets": "small"}, "targets", "is the name of no field"),
        ({"prediction": "small", "targets": None}, "targets", "compares with a target"),
        ({"prediction": "small", "metrics": None}, "metrics", "there are accuracy"),
        ({"prediction": {f"m{i}": "small" for i in range(21)}}, "prediction", "at most 20"),
    ],
)  # fmt: skip
def test_a_fault(given: dict[str, Any], where: str, words: str) -> None:
    found = faults(**given)
    assert words in found[where]


def test_models_that_are_not_named_and_too_many() -> None:
    assert "drop these" in faults(LONG.with_columns(model=None), prediction="out", model="model")["model='model'"]
    many = LONG.select("gold", "out", model=pl.int_range(8).cast(pl.String))
    with pytest.raises(OptionError, match=r"8 models; at most 3.*pass limits=Limits\(models=8\)"):
        ef.evaluate(many, prediction="out", model="model", targets="gold", metrics="f1", limits=ef.Limits(models=3))


def test_records_that_contradict_each_other() -> None:
    other = LONG.with_columns(gold=pl.when(pl.col("model") == "large").then(pl.lit("0")).otherwise("gold"))
    with pytest.raises(DatasetError, match=r"sample 'a': the records 1, 5 \(from 1\) have different values of 'gold'"):
        ef.evaluate(other, prediction="out", model="model", sample_id="id", **SCORED)
    noisy = LONG.with_columns(cost=pl.int_range(8))
    with pytest.raises(DatasetError, match="name the column that tells the samples apart: sample_id="):
        ef.evaluate(noisy, prediction="out", model="model", **SCORED)
    assert ef.evaluate(noisy, prediction="out", model="model", sample_id="id", **SCORED).rows.height == 4
    with pytest.raises(DatasetError, match="sample_id='id': 8 records have none, the first is record 1"):
        ef.evaluate(LONG.with_columns(id=None), prediction="out", model="model", sample_id="id", **SCORED)


@pytest.mark.usefixtures("no_walls")
def test_generated_code_is_run_without_walls_only_where_that_is_accepted() -> None:
    frame = pl.DataFrame({"out": ["def f(): return 1", "def f(): return 2"], "test": ["assert f() == 1"] * 2})
    with pytest.raises(SandboxError, match="allow_unsandboxed=True"):
        ef.evaluate(frame, prediction="out", targets="test", metrics=["code_exec"])
    run = ef.evaluate(frame, prediction="out", targets="test", metrics=["code_exec"], allow_unsandboxed=True)
    assert run.scores["score"].to_list() == [1.0, 0.0]
