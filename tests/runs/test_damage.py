"""What happens to a run's folder afterwards is told, and never made good in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import OptionError, RunFolderError, UnknownNameError
from evalframe.registry import METRICS
from evalframe.scoring import MetricWarning

TASK = {"category": "arithmetic", "targets": ["1"], "metric_name": "exact_match", "post_process": "none"}
SOURCE = [{"task_id": f"t{i}", "prompt": f"Say {i}", **TASK} for i in range(6)]


class Counting:
    """A model that counts its calls."""

    model_id = "counting"

    def __init__(self) -> None:
        self.n_calls = 0

    def generate(self, prompt: str, task: ef.TaskSpec) -> ef.Generation:
        self.n_calls += 1
        return ef.Generation(prompt.split()[-1])


@pytest.fixture
def model() -> Counting:
    return Counting()


@pytest.fixture
def run(tmp_path: Path, model: Counting) -> ef.Run:
    return ef.run(SOURCE, model, out=tmp_path / "run", progress=False)


@pytest.mark.parametrize("name", ["generations", "answers", "scores"])
@pytest.mark.parametrize("damage", ["missing", "garbage", "empty"])
def test_a_lost_or_damaged_file_is_named_and_resume_writes_it_again(
    run: ef.Run, model: Counting, name: str, damage: str
) -> None:
    file = run.path / name / "00000.parquet"
    board = run.leaderboard()
    file.unlink() if damage == "missing" else file.write_bytes(b"" if damage == "empty" else b"junk")
    with pytest.raises(RunFolderError, match=rf"{name}.*evalframe resume writes what follows from the journal again"):
        getattr(ef.load(run.path), name)
    again = ef.resume(run.path, model, progress=False)
    assert again.leaderboard().equals(board)
    assert model.n_calls == len(SOURCE)


def test_a_stray_file_is_no_segment(run: ef.Run) -> None:
    (run.path / "scores" / "copy of 00000.parquet").write_bytes(b"junk")
    assert ef.load(run.path).scores.equals(run.scores)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage"])
def test_a_lost_journal_never_leads_to_paying_again(run: ef.Run, model: Counting, damage: str) -> None:
    for file in run.path.glob("journal.sqlite*"):
        file.unlink()
    if damage != "missing":
        (run.path / "journal.sqlite").write_bytes(b"" if damage == "empty" else b"junk" * 2000)
    with pytest.raises(RunFolderError, match="journal"):
        ef.resume(run.path, model, progress=False)
    assert model.n_calls == len(SOURCE)


def test_an_export_can_be_opened_and_not_resumed(run: ef.Run, model: Counting, tmp_path: Path) -> None:
    folder = run.to_parquet(tmp_path / "export")
    assert ef.load(folder).leaderboard().equals(run.leaderboard())
    with pytest.raises(RunFolderError, match="is an export without the journal"):
        ef.resume(folder, model, progress=False)
    assert model.n_calls == len(SOURCE)


def test_an_export_overwrites_nothing(run: ef.Run, tmp_path: Path) -> None:
    other = ef.run(SOURCE, "mock/noisy", out=tmp_path / "other", progress=False)
    for folder in (other.path, run.path):
        with pytest.raises(RunFolderError, match="holds a run"):
            run.to_parquet(folder)
    assert ef.load(other.path).generations["model_id"].unique().to_list() == ["mock/noisy"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(OptionError, match="is a file; name a folder"):
        run.to_csv(tmp_path / "file")
    with pytest.raises(OptionError, match="is a folder; name a file"):
        run.to_json(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"format_version": 99}'])
def test_a_damaged_record_says_so(run: ef.Run, text: str) -> None:
    (run.path / "run.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"damaged|format 99"):
        ef.load(run.path)


def test_a_record_that_lacks_what_every_run_says_is_damaged(run: ef.Run) -> None:
    record = {**run.record, "models": None}
    del record["run_id"]
    (run.path / "run.json").write_text(json.dumps(record))
    for opening in (ef.load, ef.resume):
        with pytest.raises(RunFolderError, match="run_id, models missing or of a wrong type; bring the file back"):
            opening(run.path)


def test_lost_rows_say_so(run: ef.Run, model: Counting) -> None:
    (run.path / "rows.parquet").unlink()
    with pytest.raises(RunFolderError, match=r"rows.parquet can not be read"):
        ef.resume(run.path, model, progress=False)


def test_a_stranger_is_refused_at_a_resume(run: ef.Run, model: Counting) -> None:
    with pytest.raises(OptionError, match="mock/noisy: no model of this run, which has counting"):
        ef.resume(run.path, [model, "mock/noisy"], progress=False)


def suite(tmp_path: Path, *metrics: str) -> dict[str, Any]:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"q": f"Say {i}", "a": str(i)}) + "\n" for i in range(6)))
    task = {"id": "t", "type": "qa", "dataset": {"file_id": "rows"}, "prompt_template": "{{q}}",
            "target_template": "{{a}}", "metrics": [{"id": name} for name in metrics]}  # fmt: skip
    return {"tasks": [task]}


@pytest.fixture
def inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric of the user's that raises for one answer."""
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))

    @ef.metric("inverse", range=(-1, 1))
    def inverse(frame: pl.DataFrame) -> pl.Series:
        numbers = frame["prediction"].str.extract(r"(\d+)").fill_null("1").cast(pl.Int64)
        return pl.Series([1 / (number - 5) for number in numbers], dtype=pl.Float64)


@pytest.mark.usefixtures("inverse")
def test_an_own_metric_that_fails_costs_its_own_rows(tmp_path: Path, model: Counting) -> None:
    manifest = suite(tmp_path, "inverse", "exact_match")
    with pytest.warns(MetricWarning, match=r"'inverse' gave no score for 1 calls.*ZeroDivisionError"):
        run = ef.run(manifest, model, files={"rows": tmp_path / "rows.jsonl"}, out=tmp_path / "r", progress=False)
    fates = run.scores.filter(metric="inverse")["fate"].to_list()
    assert fates == ["scored"] * 5 + ["grader_error"]
    assert run.scores.filter(metric="exact_match")["score"].to_list() == [1.0] * 6
    assert run.failures()["sample_index"].to_list() == [5]


def test_a_run_is_never_scored_without_one_of_its_metrics(
    tmp_path: Path, model: Counting, inverse: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.warns(MetricWarning):
        run = ef.run(suite(tmp_path, "inverse"), model, files={"rows": tmp_path / "rows.jsonl"}, out=tmp_path / "r",
                     progress=False)  # fmt: skip
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "status": "running"}))  # as a killed run leaves it
    shutil.copytree(run.path, tmp_path / "copy")
    entries = {name: entry for name, entry in METRICS._entries.items() if name != "inverse"}
    monkeypatch.setattr(METRICS, "_entries", entries)
    for open_again in (ef.load, lambda path: ef.resume(path, model, progress=False)):
        with pytest.raises((UnknownNameError, ValueError), match="inverse"):
            open_again(tmp_path / "copy")
    assert (tmp_path / "copy" / "scores" / "00000.parquet").exists()
    assert model.n_calls == 6
