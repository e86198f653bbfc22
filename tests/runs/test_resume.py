"""A run killed with SIGKILL in the middle goes on: no committed call is made again, no sample has two rows."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import AdapterError, RunFolderError, VersionMismatch
from evalframe.frames import check
from evalframe.generate.journal import Journal
from evalframe.schemas import CALL_KEY, GENERATIONS
from tests.servers import ScriptedServer

N = 60

# each call appends its sample to a file of calls, and blocks when the gate file is not there
CHILD = """
import sys, pathlib, time
import evalframe as ef

N = int(sys.argv[5])
folder, calls, gate, stop_after = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
made = 0

def answer(prompt):
    global made
    made += 1
    if made > stop_after:
        gate.touch()
        time.sleep(600)
    with open(calls, "a") as log:
        log.write(prompt + "\\n")
    return prompt.split()[-1]

source = [{"task_id": f"t{i:03}", "category": "arithmetic", "prompt": f"Say {i}", "targets": [str(i)],
           "metric_name": "exact_match", "post_process": "strip_whitespace"} for i in range(N)]
ef.run(source, [ef.from_callable("mine", answer), "mock/noisy"], out=folder, progress=False, parallel=False)
"""


@pytest.fixture
def killed_run(tmp_path: Path, killed_at):
    """Start a run in a process of its own, wait until it blocks in a call, and kill it."""

    def kill(stop_after: int) -> tuple[Path, Path]:
        folder, calls, gate = tmp_path / "run", tmp_path / "calls", tmp_path / "gate"
        killed_at(gate, CHILD, folder, calls, gate, stop_after, N)
        return folder, calls

    return kill


def answering(calls: Path) -> ef.ModelAdapter:
    def answer(prompt: str) -> str:
        with calls.open("a") as log:
            log.write(prompt + "\n")
        return prompt.split()[-1]

    return ef.from_callable("mine", answer)


@pytest.mark.parametrize("stop_after", [0, 1, 37])
def test_a_killed_run_resumes(killed_run, stop_after: int) -> None:
    folder, calls = killed_run(stop_after)
    with Journal.open(folder / "journal.sqlite") as journal:
        committed = journal.done()
    assert committed.filter(pl.col("model_id") == "mine").height == stop_after

    done = ef.resume(folder, answering(calls), progress=False)

    made = calls.read_text().splitlines()
    assert sorted(made) == sorted(f"Say {i}" for i in range(N)), "each call once: none lost, none made again"
    assert done.record["status"] == "complete"
    generations = check(done.generations, GENERATIONS)
    assert generations.height == 2 * N
    assert generations["status"].unique().to_list() == ["completed"]
    assert generations.select(CALL_KEY).is_duplicated().sum() == 0
    scores = dict(done.leaderboard().select("model_id", "mean_score").iter_rows())
    assert scores["mine"] == 1.0


def test_a_resumed_run_equals_one_that_was_never_stopped(tmp_path: Path, killed_run) -> None:
    folder, calls = killed_run(20)
    resumed = ef.resume(folder, answering(calls), progress=False)
    source = [json.loads(row) for row in resumed.rows["row"]]
    whole = ef.run(source, [answering(calls), "mock/noisy"], out=tmp_path / "whole", progress=False)
    times = ["started_at", "latency_seconds"]
    assert resumed.generations.drop(times).equals(whole.generations.drop(times))
    for name in ("rows", "answers", "scores", "task_metrics"):
        assert getattr(resumed, name).equals(getattr(whole, name)), name
    assert resumed.leaderboard().equals(whole.leaderboard())


def test_a_killed_run_can_be_read_and_is_marked_partial(killed_run) -> None:
    folder, _ = killed_run(5)
    partial = ef.load(folder)
    assert partial.record["status"] == "partial"
    mine = partial.generations.filter(pl.col("model_id") == "mine")
    assert dict(mine["status"].value_counts().iter_rows()) == {"completed": 5, "skipped": N - 5}
    assert mine.filter(pl.col("status") == "skipped")["error_type"].unique().to_list() == ["interrupted"]
    row = partial.leaderboard().filter(pl.col("model_id") == "mine").to_dicts()[0]
    assert (row["n_scored"], row["n_skipped"], row["mean_score"]) == (5, N - 5, 1.0)


def test_a_model_that_was_an_object_must_be_handed_in_again(killed_run) -> None:
    folder, _ = killed_run(3)
    with pytest.raises(AdapterError, match=r"mine; hand them in again"):
        ef.resume(folder, progress=False)


def test_changed_rows_are_refused(killed_run) -> None:
    folder, calls = killed_run(3)
    rows = folder / "rows.parquet"
    rows.write_bytes(rows.read_bytes() + b" ")
    with pytest.raises(VersionMismatch, match=r"rows.parquet was changed"):
        ef.resume(folder, answering(calls), progress=False)


def test_two_resumers_at_once_are_refused(killed_run) -> None:
    folder, calls = killed_run(3)
    from evalframe.store import RunFolder

    with RunFolder(folder).locked(), pytest.raises(RunFolderError, match="another process is writing this run"):
        ef.resume(folder, answering(calls), progress=False)


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"there is no such folder; give the folder that run\(\) wrote"):
        ef.load(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match=r"it has no run.json"):
        ef.load(tmp_path)
    (tmp_path / "envelope.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"envelope.json holds no run: it is a file"):
        ef.load(tmp_path / "envelope.json")


def test_what_a_model_failed_at_that_was_given_up_is_called_again(tmp_path: Path, monkeypatch) -> None:
    rows = [{"a": i, "sum": i + 5} for i in range(6)]
    with ScriptedServer(require_key="good") as server:
        monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "bad")
        with pytest.warns(UserWarning, match="is given up: its first call failed: HTTP 401"):
            run = ef.run(
                rows, f"openai-compatible/m@{server.url}", prompt="What is {{a}} + 5?", targets="{{sum}}",
                metrics=["exact_match"], out=tmp_path / "run", progress=False, cache=False,
            )  # fmt: skip
        assert run.generations["status"].to_list() == ["failed", *["skipped"] * 5]
        with pytest.warns(UserWarning, match="is given up"):  # wrong again: nothing is lost
            run = ef.resume(tmp_path / "run", progress=False)
        assert run.generations["status"].to_list() == ["failed", *["skipped"] * 5]

        monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "good")
        run = ef.resume(tmp_path / "run", progress=False)
        assert server.stats()["sent"] == {"401": 2, "200": 6}
    assert run.record["status"] == "complete"
    assert run.generations["status"].to_list() == ["completed"] * 6


def test_a_call_that_failed_by_itself_is_not_called_again(tmp_path: Path) -> None:
    rows = [{"a": i, "sum": i + 5} for i in range(6)]
    no = {"match": "is 3", "steps": [{"status": 400}]}
    late = {"match": "is [45]", "steps": [{"status": 401}]}
    with ScriptedServer(rules=[no, late]) as server:
        run = ef.run(
            rows, f"openai-compatible/m@{server.url}", prompt="What is {{a}} + 5?", targets="{{sum}}", parallel=False,
            metrics=["exact_match"], out=tmp_path / "run", progress=False, cache=False,
        )  # fmt: skip
        assert not run.record["given_up"]
        server.script()
        ef.resume(tmp_path / "run", progress=False)
        assert server.stats()["requests"] == 6
    with Journal.open(tmp_path / "run" / "journal.sqlite") as journal:
        assert dict(journal.counts().select("status", "n").iter_rows()) == {"completed": 3, "failed": 3}


def test_a_model_that_goes_on_at_another_address_is_told(scripted: ScriptedServer, tmp_path: Path) -> None:
    source = [{"q": f"{i} + 1", "a": str(i + 1)} for i in range(4)]
    ask = {"prompt": "{{q}}", "targets": "a", "extract": "number", "metrics": ["numeric_match"], "progress": False}
    nowhere = {"model": "openai-compatible/m@http://127.0.0.1:9/v1", "generation": {"max_retries": 0}}
    with pytest.warns(UserWarning, match="given up"):
        ef.run(source, nowhere, out=tmp_path / "run", **ask)
    with pytest.warns(UserWarning, match="on it was called at"):
        run = ef.resume(tmp_path / "run", f"openai-compatible/m@{scripted.url}", progress=False)
    assert run.generations["status"].unique().to_list() == ["completed"]
    assert any(f"called at {scripted.url}, before at http://127.0.0.1:9/v1" in note for note in run.record["notes"])
