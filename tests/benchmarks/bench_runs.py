"""Whole runs against a server: what a call costs beside the network, how near the ideal, how much memory, how fast a
start; each in a process of its own, beside a bare client of urllib3 that only asks and reads JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import Ratio
from tests.servers import ROOT, ScriptedServer

ROOM = "runs"
N = 5_000
LATENCY = 0.05
MOST_MEGABYTES = 150.0
MOST_SECONDS_TO_START = 1.5
PROMPT = "Question: {{a}} + {{b}}\nAnswer:"

# each prints CPU seconds, wall seconds of the calls and of the whole work, and peak memory of its own process
FIGURES = """
import json, resource, time
began = time.perf_counter()
calls = {work}
wall = time.perf_counter() - began
peak = next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"cpu": time.process_time(), "calls": calls, "wall": wall, "peak": peak}}))
"""
OURS = """
import evalframe as ef
def work(path, url, out, cache, workers):
    run = ef.run(path, f"openai-compatible/m@{url}", prompt="Question: {{a}} + {{b}}\\nAnswer:", targets="{{sum}}",
                 extract="number", metrics=["numeric_match"], out=out, cache=cache, progress=False,
                 concurrency=workers, limits=ef.Limits(concurrency=64, workers_per_model=64))
    board = run.leaderboard()
    assert board["n_scored"].to_list() == [len(run.rows)], board
    assert 0.7 < board["mean_score"][0] < 0.9, board
    calls = run.generations.select("started_at", "latency_seconds")
    ended = calls["started_at"].dt.timestamp("us") / 1e6 + calls["latency_seconds"]
    return ended.max() - calls["started_at"].dt.timestamp("us").min() / 1e6
"""
THEIRS = """
import json, threading, time
import urllib3
def work(path, url, out, cache, workers):
    prompts = ["Question: {a} + {b}\\nAnswer:".format(**json.loads(line)) for line in open(path)]
    pool, todo, lock, texts = urllib3.PoolManager(maxsize=workers), iter(prompts), threading.Lock(), []
    def ask():
        while True:
            with lock:
                prompt = next(todo, None)
            if prompt is None:
                return
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]})
            reply = pool.request("POST", url + "/chat/completions", body=body.encode(),
                                 headers={"Content-Type": "application/json"})
            texts.append(json.loads(reply.data)["choices"][0]["message"]["content"])
    threads = [threading.Thread(target=ask) for _ in range(workers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == len(prompts)
    return time.perf_counter() - began
"""


def ratios() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as folder, ScriptedServer(latency_seconds=LATENCY, record=False) as server:
        rows = write_rows(Path(folder), N)
        yield from starting(Path(folder), server)
        for workers in (25, 64):
            measured = [
                (measure(OURS, rows, server, Path(folder) / f"{workers}-{turn}", workers),
                 measure(THEIRS, rows, server, Path(folder) / f"{workers}-{turn}", workers))
                for turn in range(2)
            ]  # fmt: skip
            ours, theirs = (min(turns, key=lambda one: one["cpu"]) for turns in zip(*measured, strict=True))
            what = f"{N:,} calls at {LATENCY * 1000:.0f} ms, {workers} in flight"
            per_call = f"{ours['cpu'] / N * 1000:.2f} ms a call"
            yield Ratio(ROOM, f"{what}: CPU ({per_call}), a bare urllib3", ours["cpu"], theirs["cpu"], 0.5)
            ideal = N * LATENCY / workers
            yield Ratio(ROOM, f"{what}: wall of the calls, the ideal", ours["calls"], ideal, 1 / 1.15)
            yield Ratio(ROOM, f"{what}: wall of the run, the ideal", ours["wall"], ideal)
            yield Ratio(ROOM, f"{what}: wall of a bare urllib3, the ideal", theirs["calls"], ideal)
            yield Ratio(ROOM, f"{what}: peak memory, the most", ours["peak"], MOST_MEGABYTES, 1.0, unit="MB")


def starting(folder: Path, server: ScriptedServer) -> Iterator[Ratio]:
    """From the shell to the table, for one sample."""
    rows = write_rows(folder, 1, "one.jsonl")
    took = []
    for turn in range(3):
        model = f"openai-compatible/m@{server.url}"
        words = ["run", str(rows), "-m", model, "--out", f"{folder}/start-{turn}", "--prompt", PROMPT,
                 "--targets", "{{sum}}", "--extract", "number", "--metric", "numeric_match"]  # fmt: skip
        took.append(timed([sys.executable, "-m", "evalframe", *words], folder))
    yield Ratio(ROOM, "evalframe run, one sample: wall of the process, the most", min(took), MOST_SECONDS_TO_START, 1.0)


def measure(code: str, rows: Path, server: ScriptedServer, folder: Path, workers: int) -> dict[str, float]:
    """Do some work in a process of its own and give its figures."""
    arguments = (str(rows), server.url, str(folder), f"{folder}.sqlite", workers)
    watched = code + FIGURES.format(work=f"work(*{arguments!r})")
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, cwd=ROOT, env=own(folder))
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def timed(command: list[str], folder: Path) -> float:
    """Give the wall seconds of a command."""
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=own(folder), check=True, capture_output=True)
    return time.perf_counter() - began


def own(folder: Path) -> dict[str, str]:
    """The environment with a user folder of its own."""
    return os.environ | {"EVALFRAME_HOME": f"{folder}-home", "PYTHONPATH": str(ROOT)}


def write_rows(folder: Path, n: int, name: str = "sums.jsonl") -> Path:
    path = folder / name
    records: list[dict[str, Any]] = [{"id": i, "a": i, "b": i % 97, "sum": i + i % 97} for i in range(n)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path
