"""``run``: a source and models in, frames out; what goes wrong is said before a model is called."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe import schemas
from evalframe.advice import SettingWarning
from evalframe.errors import DatasetError, ManifestError, NotBuiltError, OptionError, RunFolderError, SandboxError
from evalframe.frames import check
from evalframe.prompts import MissingFieldWarning

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
TIMES = ["started_at", "latency_seconds"]


def suite(**task: Any) -> dict[str, Any]:
    return {
        "tasks": [
            {
                "id": "t",
                "type": "qa",
                "dataset": {"file_id": "rows", "format": "jsonl"},
                "prompt_template": "Q: {{q}}",
                "target_template": "{{a}}",
                "metrics": [{"id": "exact_match"}],
                **task,
            }
        ]
    }


ROWS = [{"q": f"{i} + {i}?", "a": str(2 * i), "level": i % 2} for i in range(6)]


@pytest.fixture
def rows_file(write_jsonl: Callable[..., Path]) -> Path:
    return write_jsonl(ROWS)


def doubling(name: str = "doubling") -> ef.ModelAdapter:
    return ef.from_callable(name, lambda prompt: str(2 * int(prompt.split()[-3])))


class Recording:
    """A model that notes each call."""

    model_id = "recording"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def generate(self, prompt: str, task: ef.TaskSpec) -> ef.Generation:
        self.prompts.append(prompt)
        return ef.Generation("x")


def test_the_fixture_tasks_through_three_mocks(tmp_path: Path) -> None:
    run = ef.run(ef.load_fixtures(), ["mock/rule_based", "mock/noisy", "mock/biased"], out=tmp_path / "r",
                 progress=False, allow_unsandboxed=True)  # fmt: skip
    assert run.record["status"] == "complete"
    means = dict(run.leaderboard().select("model_id", "mean_score").iter_rows())
    assert means["mock/rule_based"] == 1.0
    assert means["mock/noisy"] < means["mock/rule_based"]
    board = {row["model_id"]: row for row in run.leaderboard().to_dicts()}
    assert board["mock/biased"]["category.arithmetic"] == 1.0
    assert run.calibration()["ece"].null_count() == 0
    assert {row.split(".")[1] for row in run.leaderboard().columns if row.startswith("category.")} == {
        "arithmetic", "mcq", "code_exec", "classification", "summary",
    }  # fmt: skip


def test_every_frame_keeps_its_schema(rows_file: Path, tmp_path: Path) -> None:
    run = ef.run(suite(), [doubling(), "mock/noisy"], files={"rows": rows_file}, out=tmp_path / "r", progress=False,
                 repeats=2)  # fmt: skip
    for name in ("rows", "generations", "answers", "grades", "scores", "task_metrics", "judge_calls", "samples"):
        check(getattr(run, name), getattr(schemas, name.upper()))
    assert run.generations.height == run.samples.height == 2 * 2 * len(ROWS)
    assert run.scan("samples").select(pl.len()).collect().item() == 24
    with pytest.raises(LookupError, match="did you mean 'generations'"):
        run.scan("generation")
    assert run.sample(run.rows["sample_id"][2])["repeat"].to_list() == [0, 1, 0, 1]
    with pytest.raises(LookupError, match="no sample"):
        run.sample("nothing")


def test_parallel_and_sequential_runs_are_equal(rows_file: Path, tmp_path: Path) -> None:
    runs = [
        ef.run(suite(), ["mock/noisy", "mock/biased", doubling()], files={"rows": rows_file}, out=tmp_path / str(n),
               progress=False, repeats=3, parallel=parallel, concurrency=concurrency)
        for n, (parallel, concurrency) in enumerate([(True, None), (False, None), (True, 1), (True, 25)])
    ]  # fmt: skip
    for other in runs[1:]:
        assert other.generations.drop(TIMES).equals(runs[0].generations.drop(TIMES))
        for name in ("rows", "answers", "scores", "task_metrics"):
            assert (other.path / f"{name}.parquet").exists() == (runs[0].path / f"{name}.parquet").exists()
            assert getattr(other, name).equals(getattr(runs[0], name)), name
        assert other.leaderboard().equals(runs[0].leaderboard())
    assert (runs[0].path / "rows.parquet").read_bytes() == (runs[1].path / "rows.parquet").read_bytes()
    scores = [(run.path / "scores" / "00000.parquet").read_bytes() for run in runs]
    assert len(set(scores)) == 1


def test_a_failed_call_is_a_row_and_not_a_crash(rows_file: Path) -> None:
    def answer(prompt: str) -> str:
        if "3 + 3" in prompt:
            raise TimeoutError("no reply in 1 s")
        return "4"

    run = ef.run(suite(), ef.from_callable("m", answer), files={"rows": rows_file}, out=False, progress=False)
    failed = run.failures().to_dicts()
    assert [(row["sample_index"], row["status"], row["fate"], row["score"]) for row in failed] == [
        (3, "failed", "failed", None)
    ]
    assert "no reply in 1 s" in failed[0]["error_message"]
    (row,) = run.leaderboard().to_dicts()
    assert (row["n_samples"], row["n_scored"], row["n_failed"]) == (6, 5, 1)
    assert row["mean_score"] == pytest.approx(1 / 5)
    assert row["mean_all"] == pytest.approx(1 / 6)


def test_C019_reasoning_is_no_answer(write_jsonl: Callable[..., Path]) -> None:
    replies = {
        "closed": "<think>Could be A, yes A.</think>\nB",
        "open": "<think>It is A. The answer is A",
        "prose": "Write <think> to think. Answer: C",
    }
    data = write_jsonl([{"id": name, "q": name, "a": "B"} for name in replies])
    labels = {"type": "label_set", "labels": ["A", "B", "C", "D"]}
    run = ef.run(suite(output_extraction=labels, prompt_template="{{q}}"), ef.from_callable("m", replies.__getitem__),
                 files={"rows": data}, out=False, progress=False)  # fmt: skip
    samples = {row["sample_id"]: row for row in run.samples.to_dicts()}
    assert {name: row["extracted_output"] for name, row in samples.items()} == {
        "closed": "B",
        "open": None,
        "prose": "C",
    }
    assert samples["closed"]["reasoning"] == "Could be A, yes A."
    assert samples["open"]["finish_reason"] == "truncated_reasoning"
    assert (samples["open"]["fate"], samples["open"]["extraction_status"]) == ("unparsed", "empty_output")


def test_limits_on_tasks_and_samples_leave_the_fewshot_pool_whole(rows_file: Path) -> None:
    model = Recording()
    manifest = suite(fewshot={"count": 1, "strategy": "random", "seed": 5})
    run = ef.run(manifest, model, files={"rows": rows_file}, out=False, progress=False, max_samples_per_task=2)
    whole = ef.run(manifest, Recording(), files={"rows": rows_file}, out=False, progress=False)
    assert run.rows["prompt"].to_list() == whole.rows["prompt"].head(2).to_list()
    assert len(model.prompts) == 2
    two = {"tasks": [suite(id="a")["tasks"][0], suite(id="b")["tasks"][0]]}
    chosen = ef.run(two, Recording(), files={"rows": rows_file}, out=False, progress=False, task_ids=["b"])
    assert chosen.rows["task_id"].unique().to_list() == ["b"]
    with pytest.raises(OptionError, match="there is no task 'c'"):
        ef.run(two, Recording(), files={"rows": rows_file}, out=False, task_ids=["c"])


def test_repeats_by_task_and_category(rows_file: Path) -> None:
    two = {"tasks": [suite(id="a")["tasks"][0], suite(id="b", type="math")["tasks"][0]]}
    run = ef.run(two, "mock/noisy", files={"rows": rows_file}, out=False, progress=False, repeats={"math": 3})
    counts = dict(run.generations.group_by("task_id").agg(pl.col("repeat").max() + 1).iter_rows())
    assert counts == {"a": 1, "b": 3}


def test_a_run_is_a_folder_that_loads_again(rows_file: Path, tmp_path: Path) -> None:
    run = ef.run(suite(), "mock/noisy", files={"rows": rows_file}, out=tmp_path / "r", progress=False,
                 metadata={"note": "first"}, generation={"temperature": 0, "until": ["\n"]})  # fmt: skip
    again = ef.load(tmp_path / "r")
    assert again.leaderboard().equals(run.leaderboard())
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    assert record["metadata"] == {"note": "first"}
    assert record["generation"]["stop"] == ["\n"]
    assert record["models"][0]["spec"] == "mock/noisy"
    assert {"polars", "numpy"} <= set(record["environment"]["packages"])
    assert pl.read_parquet(tmp_path / "r" / "scores" / "*.parquet").equals(run.scores)
    metadata = pl.read_parquet_metadata(tmp_path / "r" / "rows.parquet")
    assert (metadata["evalframe.schema"], metadata["evalframe.schema_version"]) == ("rows", "1")
    with pytest.raises(RunFolderError, match="holds a run: resume it, or give another folder"):
        ef.run(suite(), "mock/noisy", files={"rows": rows_file}, out=tmp_path / "r")


def test_a_run_without_a_folder_goes_with_its_object(rows_file: Path) -> None:
    run = ef.run(suite(), "mock/noisy", files={"rows": rows_file}, out=False, progress=False)
    path = run.path
    assert path.is_dir()
    del run
    assert not path.exists()


def test_a_run_without_a_name_goes_under_the_users_folder(rows_file: Path) -> None:
    run = ef.run(suite(), "mock/noisy", files={"rows": rows_file}, progress=False)
    assert run.path.parent.name == "runs"
    assert "noisy" in repr(run)
    assert "<table" in run._repr_html_()


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        ({}, OptionError, "is no source: give a suite manifest"),
        ([], OptionError, "with nothing in it"),
        (17, OptionError, "a int is no source"),
        ({"tasks": []}, ManifestError, "tasks"),
        (suite(metrics=[{"id": "exactmatch"}]), ManifestError, "did you mean 'exact_match'"),
        (suite(dataset={"file_id": "nowhere.jsonl"}), DatasetError, "nowhere.jsonl"),
        (suite(dataset={"path": "org/set"}), NotBuiltError, "tasks[0].dataset"),
        (
            {"task_id": "c", "category": "code_exec", "prompt": "f", "targets": ["f() == 1"],
             "metric_name": "code_exec", "post_process": "none"},
            SandboxError, "allow_unsandboxed=True",
        ),
    ],
    ids=range(8),
)  # fmt: skip
@pytest.mark.usefixtures("no_walls")
def test_wrong_input_is_told_before_a_model_is_called(
    source: Any, error: type[Exception], says: str, rows_file: Path, tmp_path: Path
) -> None:
    model = Recording()
    with pytest.raises(error) as caught:
        ef.run(source, model, files={"rows": rows_file}, out=tmp_path / "r")
    assert says in str(caught.value)
    assert model.prompts == []
    assert not (tmp_path / "r").exists()


def test_the_data_faults_of_all_tasks_are_named_at_once(write_jsonl: Callable[..., Path]) -> None:
    bad = write_jsonl(['{"q": NaN}'])
    tasks = [suite(id="a", dataset={"file_id": "none.jsonl"})["tasks"][0], suite(id="b")["tasks"][0]]
    with pytest.raises(DatasetError) as caught:
        ef.run({"tasks": tasks}, Recording(), files={"rows": bad}, out=False)
    assert {where.split(":")[0] for where in caught.value.faults["where"]} == {"task a", "task b"}


def test_a_field_in_no_row_is_one_loud_warning_before_any_call(rows_file: Path) -> None:
    model = Recording()
    manifest = suite(prompt_template="Q: {{quest}}{{q}}")
    with pytest.warns(MissingFieldWarning, match="quest"):
        ef.run(manifest, model, files={"rows": rows_file}, out=False, progress=False)
    assert model.prompts[0] == "Q: 0 + 0?"
    with pytest.raises(DatasetError, match="quest"):
        ef.run(manifest, model, files={"rows": rows_file}, out=False, on_missing="error")


def test_a_metric_of_ones_own_is_a_metric(rows_file: Path) -> None:
    @ef.metric("as_long", range=(0, 1))
    def as_long(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return (prediction.str.len_chars() == targets.list.first().str.len_chars()).cast(pl.Float64)

    run = ef.run(suite(metrics=[{"id": "as_long"}, {"id": "exact_match"}]), doubling(), files={"rows": rows_file},
                 out=False, progress=False)  # fmt: skip
    assert run.leaderboard()["mean_score"].to_list() == [1.0]
    assert run.samples["score.as_long"].to_list() == [1.0] * 6


def test_C075_runs_anywhere_and_twice(rows_file: Path) -> None:
    def once() -> float:
        run = ef.run(suite(), doubling(), files={"rows": rows_file}, out=False, progress=False)
        return float(run.leaderboard()["mean_score"][0])

    async def inside() -> float:
        return once()

    results = [once(), once(), asyncio.run(inside())]
    worker = threading.Thread(target=lambda: results.append(once()))
    worker.start()
    worker.join()
    assert results == [1.0] * 4


def test_replay_of_a_run_gives_its_scores_again(rows_file: Path, tmp_path: Path) -> None:
    first = ef.run(
        suite(), ["mock/noisy", "mock/biased"], files={"rows": rows_file}, out=tmp_path / "a", progress=False
    )
    again = ef.run(suite(), ef.replay(tmp_path / "a"), files={"rows": rows_file}, out=tmp_path / "b", progress=False)
    assert again.scores.equals(first.scores)
    assert again.leaderboard()["mean_score"].equals(first.leaderboard()["mean_score"])


def test_stored_outputs_that_fit_nothing_are_told_before_the_run(rows_file: Path) -> None:
    def outputs(task_id: str, n: int) -> pl.DataFrame:
        return pl.DataFrame({"task_id": [task_id] * n, "sample_index": range(n), "output_text": ["1"] * n})

    def replayed(frame: pl.DataFrame, **options: Any) -> ef.Run:
        return ef.run(suite(), ef.replay(frame), files={"rows": rows_file}, out=False, progress=False, **options)

    with pytest.warns(SettingWarning, match=r"replay: 6 of 6 stored outputs fit no call.*task_id 'zz'.*tasks: t"):
        replayed(outputs("zz", 6))
    with pytest.warns(SettingWarning, match=r"replay: 2 of 8 stored outputs fit no call.*sample_index 6"):
        replayed(outputs("t", 8))
    with pytest.warns(SettingWarning, match=r"replay: 6 of 12 stored outputs fit no call.*repeat 1"):
        replayed(pl.concat([outputs("t", 6).with_columns(repeat=pl.lit(k)) for k in range(2)]))
    replayed(outputs("t", 6), max_samples_per_task=2)


def test_a_file_under_an_id_that_nothing_names_is_told(rows_file: Path) -> None:
    says = r"nothing in the source names 'row', and what stands under it is not read; file ids of the source: rows"
    with pytest.warns(SettingWarning, match=says):
        ef.run(suite(), "mock/noisy", files={"rows": rows_file, "row": rows_file}, out=False, progress=False)


def test_settings_that_do_not_do_what_they_say_are_told(rows_file: Path) -> None:
    for options, says in (({"repeats": 2, "generation": {"temperature": 0}}, "repeats at temperature 0"),):
        with pytest.warns(SettingWarning, match=says):
            ef.run(suite(), "mock/noisy", files={"rows": rows_file}, out=False, progress=False, **options)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"model": "mock/noisy", "api_key": "sk-1"}, "'api_key' looks like a secret"),
        ({"model": "mock/noisy", "generation": {"temperatur": 1}}, "temperatur: .*did you mean"),
        ({"model": "mock/noisy", "requests_per_minute": 0}, "0 is no number over 0"),
        ({"model": "mock/noisy", "speed": 3}, "has no option 'speed'"),
        ({"name": "mock/noisy"}, "a dict names its model"),
    ],
)
def test_a_models_dict_is_checked(model: dict[str, Any], says: str, rows_file: Path) -> None:
    with pytest.raises(OptionError, match=says):
        ef.run(suite(), model, files={"rows": rows_file}, out=False)


def test_a_frame_without_a_prompt_is_no_source_and_says_what_is_missing() -> None:
    with pytest.raises(OptionError, match=r"a DataFrame is data.*give prompt="):
        ef.run(pl.DataFrame({"a": [1]}), "mock/noisy")
