"""A run against a server, killed with SIGKILL again and again, and resumed: nothing is lost, doubled or asked twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe.frames import check
from evalframe.generate.journal import Journal
from evalframe.schemas import CALL_KEY, GENERATIONS
from tests.servers import ScriptedServer

GUARD = 120.0  # seconds until what hangs fails the test
N = 300
MODELS = ("m", "n")
FAULTS = {"share": 0.1, "kinds": ["429", "500", "reset", "hang_up", "reset_body"], "seed": 5}
START = """
import sys
import evalframe as ef

folder, url, n, cache = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
rows = [{"a": i, "b": 5, "sum": i + 5} for i in range(n)]
ef.run(rows, [f"openai-compatible/{name}@{url}" for name in "mn"], prompt="What is {{a}} + {{b}}?",
       targets="{{sum}}", extract="number", metrics=["numeric_match"], out=folder, progress=False,
       cache=cache or False, generation={"max_retries": 8})
"""
RESUME = "import sys, evalframe as ef; ef.resume(sys.argv[1], progress=False)"


def prompt_of(i: int) -> str:
    return f"What is {i} + 5?"


def finished(folder: Path) -> set[tuple[str, int]]:
    with Journal.open(folder / "journal.sqlite") as journal:
        done = journal.done().select("model_id", "sample_index")
    return set(done.iter_rows())


def asked(server: ScriptedServer) -> dict[tuple[str, int], int]:
    """Count the requests of each call, by the model's id and the sample."""
    numbers = {prompt_of(i): i for i in range(N)}
    counts: dict[tuple[str, int], int] = {}
    for one in server.recorded():
        key = f"openai-compatible/{one['model']}", numbers[one["prompt"]]
        counts[key] = counts.get(key, 0) + 1
    return counts


def killed_after(server: ScriptedServer, n_requests: int, command: list[str]) -> bool:
    """Run a command until the server has seen so many requests more, and kill it; False: it ended before."""
    before = server.stats()["requests"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + GUARD
    while server.stats()["requests"] - before < n_requests:
        if child.poll() is not None:
            _, stderr = child.communicate()
            assert child.returncode == 0, stderr.decode()
            return False
        assert time.monotonic() < deadline
    child.send_signal(signal.SIGKILL)
    child.communicate()
    return True


@pytest.fixture
def undisturbed(scripted: ScriptedServer, tmp_path: Path) -> ef.Run:
    subprocess.run([sys.executable, "-c", START, tmp_path / "whole", scripted.url, str(N), ""], check=True)
    return ef.load(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("n_kills", "cache"), [(10, ""), (4, "cache.sqlite")], ids=["ten times", "with a cache"])
def test_killed_at_some_points_and_resumed(
    scripted, tmp_path, undisturbed, same_frames: Any, n_kills: int, cache: str
) -> None:
    scripted.reset()
    scripted.script(latency_seconds=0.01, faults=FAULTS)
    folder = tmp_path / "run"
    drawn = random.Random(20261201)
    start = [sys.executable, "-c", START, str(folder), scripted.url, str(N), str(tmp_path / cache) if cache else ""]
    n_killed = 0
    done: set[tuple[str, int]] = set()
    for command in [start] + [[sys.executable, "-c", RESUME, str(folder)]] * (n_kills - 1):
        before = asked(scripted)
        n_killed += killed_after(scripted, drawn.randrange(1, 2 * N * len(MODELS) // n_kills), command)
        again = {key for key in done if asked(scripted)[key] != before[key]}
        assert again == set(), "finished calls are not made again"
        assert done <= finished(folder), "what was finished stays finished"
        done = finished(folder)
        if len(done) == N * len(MODELS):
            break
    assert n_killed >= n_kills // 2
    before = asked(scripted)
    run = ef.resume(folder, progress=False)
    assert {key for key in done if asked(scripted)[key] != before[key]} == set()

    generations = check(run.generations, GENERATIONS)
    assert generations.height == N * len(MODELS)
    assert generations.select(CALL_KEY).is_duplicated().sum() == 0
    assert run.record["status"] == "complete"
    # of a call that was under way when the process died, the server may have seen more attempts than this one made
    same_frames(run, undisturbed, but=("attempts", "cached", "cost_usd_original"))
    assert generations["status"].unique().to_list() == ["completed"]
