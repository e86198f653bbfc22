"""A small suite and models that count, for the tests of runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe.adapters import Generation

QUESTIONS = [{"id": f"q{index}", "question": f"{index} + 1?", "answer": index + 1} for index in range(6)]


class Counting:
    """A model that is right but where it is told to be wrong or to fail, and counts its calls."""

    def __init__(self, model_id: str = "m", *, wrong: str = "", fails: str = "") -> None:
        self.model_id, self.wrong, self.fails = model_id, wrong, fails
        self.seen: list[tuple[str, int]] = []

    def generate(self, prompt: str, task: Any) -> Generation:
        self.seen.append((task.sample_id, task.repeat))
        if task.sample_id[1:] in self.fails.split():
            raise ConnectionError("the line is down")
        right = task.targets[0]
        text = "0" if task.sample_id[1:] in self.wrong.split() else right
        return Generation(text, input_tokens=10, output_tokens=1, raw=b"{}")


def same_frames(a: ef.Run, b: ef.Run, *, but: tuple[str, ...] = ()) -> None:
    """Assert that two runs have equal frames, times aside."""
    for name in ("rows", "answers", "scores", "task_metrics"):
        assert getattr(a, name).equals(getattr(b, name)), name
    times = ["latency_seconds", "started_at", *but]
    assert a.generations.drop(times).equals(b.generations.drop(times))
    assert a.leaderboard().equals(b.leaderboard())


def killed_at(gate: Path, code: str, *arguments: object) -> None:
    """Run Python code in a process of its own, wait until it makes the file ``gate``, and kill it."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not gate.exists():
        assert child.poll() is None, child.stderr and child.stderr.read().decode()
        assert time.monotonic() < deadline
        os.sched_yield()
    child.send_signal(signal.SIGKILL)
    child.communicate()


@pytest.fixture(name="killed_at")
def _killed_at():
    return killed_at


@pytest.fixture(name="Counting")
def _counting() -> type[Counting]:
    return Counting


@pytest.fixture(name="same_frames")
def _same_frames():
    return same_frames


@pytest.fixture
def suite(write_jsonl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give the manifest of one task, or of several, over six questions; keys of the task can be changed."""
    write_jsonl(QUESTIONS)
    monkeypatch.chdir(tmp_path)

    def make(*task_ids: str, **changes: Any) -> dict[str, Any]:
        task = {
            "type": "qa", "dataset": {"file_id": "rows.jsonl"}, "prompt_template": "{{question}}",
            "target_template": "{{answer}}", "metrics": [{"id": "exact_match"}], **changes,
        }  # fmt: skip
        return {"tasks": [{**task, "id": task_id} for task_id in task_ids or ("sums",)]}

    return make
