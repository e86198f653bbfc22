"""Graders in warm workers behind walls, against the standard library's pool of processes and an interpreter a call."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from evalframe.sandbox.functions import Call, ForeignSource, FunctionPool, Returned
from evalframe.sandbox.launch import layers
from evalframe.sandbox.policy import Policy
from tests.benchmarks.harness import Ratio, cpu_pair

ROOM = "sandbox"
SOURCE = (
    "def grade(sample):\n    return {'scores': {'exact': float(sample['output_text'].strip() == sample['target'])}}\n"
)
N_CALLS, N_PROGRAMS, N_WORKERS, CHUNK = 10_000, 40, 2, 32


def ratios() -> Iterator[Ratio]:
    """Compare calls of one small grader."""
    layers()  # the walls are tried out once, and not in the measured part
    samples = [{"output_text": f" {number}", "target": str(number % 7)} for number in range(N_CALLS)]
    few = samples[:N_PROGRAMS]
    ours, theirs = cpu_pair(functools.partial(_grade, samples), functools.partial(_spawned, samples), times=1)
    yield Ratio(ROOM, f"{N_CALLS:,} calls of a grader / a pool of spawned processes, no walls", ours, theirs)
    ours, theirs = cpu_pair(functools.partial(_grade, few), functools.partial(_interpret, few), times=1)
    yield Ratio(ROOM, f"{N_PROGRAMS} calls of a grader / a bare interpreter a call, no walls", ours, theirs)


def _grade(samples: list[dict[str, str]]) -> None:
    code = ForeignSource(source=SOURCE, name="grader.py", functions=("grade",))
    with FunctionPool(code, policy=Policy(allow_unsandboxed=True), n_workers=N_WORKERS) as functions:
        outcomes = list(functions.map(Call((sample,), 60.0) for sample in samples))
    assert all(isinstance(outcome, Returned) for outcome in outcomes)


def _compiled(sample: dict[str, str]) -> object:
    if "grade" not in globals():
        exec(SOURCE, globals())
    return globals()["grade"](sample)


def _spawned(samples: list[dict[str, str]]) -> None:
    with ProcessPoolExecutor(N_WORKERS, mp_context=get_context("spawn")) as pool:
        assert len(list(pool.map(_compiled, samples, chunksize=CHUNK))) == len(samples)


def _interpret(samples: list[dict[str, str]]) -> None:
    program = f"import json, sys\n{SOURCE}\nprint(json.dumps(grade(json.load(sys.stdin))))\n"
    for sample in samples:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", program], input=json.dumps(sample), text=True, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
