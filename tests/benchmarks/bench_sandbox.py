"""Generated code in warm workers, against a fresh interpreter for each program that asserts by itself."""

from __future__ import annotations

import functools
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator

from evalframe.sandbox.launch import layers
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.verdict import CodeTask, run_code
from tests.benchmarks.harness import Ratio, cpu_pair
from tests.conftest import SHARED

ROOM = "sandbox"
SOURCE = SHARED / "data" / "humaneval" / "HumanEval.jsonl.gz"
N_PROGRAMS = 164
PROMPT = "from typing import List\n\n\ndef running_{i}(values: List[int]) -> List[int]:\n    '''Largest so far.'''\n"
BODY = "    seen = []\n    for value in values:\n        seen.append(max(value, *seen[-1:]))\n    return seen\n"
TEST = "def check(candidate):\n    assert candidate([1, 3, 2]) == [1, 3, 3]\n    assert candidate([]) == []\n"


def ratios() -> Iterator[Ratio]:
    """Compare all of HumanEval, or as many programs of its kind where it is not at hand."""
    layers()  # the walls are tried out once, and not in the measured part
    tasks = programs()
    whose = "HumanEval" if SOURCE.exists() else f"{N_PROGRAMS} programs"
    for name, flags in (("a bare interpreter", ("-I", "-S")), ("an interpreter", ())):
        ours, theirs = cpu_pair(functools.partial(_run, tasks), functools.partial(_interpret, tasks, flags), times=1)
        yield Ratio(ROOM, f"{whose}, code_exec / {name} a problem", ours, theirs)


def programs() -> list[CodeTask]:
    """Right solutions with their tests."""
    if SOURCE.exists():
        with gzip.open(SOURCE, "rt", encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
    else:
        records = [
            {"canonical_solution": BODY, "test": TEST, "prompt": PROMPT.format(i=i), "entry_point": f"running_{i}"}
            for i in range(N_PROGRAMS)
        ]
    return [
        CodeTask(
            candidate=record["canonical_solution"], tests=(record["test"],), prompt=record["prompt"],
            completes_prompt=True, entry_point=record["entry_point"], timeout_seconds=30,
        )
        for record in records
    ]  # fmt: skip


def _run(tasks: list[CodeTask]) -> None:
    results = run_code(tasks, policy=Policy(allow_unsandboxed=True))
    assert all(result.exit_code == "pass" for result in results)


def _interpret(tasks: list[CodeTask], flags: tuple[str, ...]) -> None:
    for task in tasks:
        program = f"{task.prompt}\n{task.candidate}\n{task.tests[0]}\ncheck({task.entry_point})\n"
        subprocess.run([sys.executable, *flags, "-"], input=program, text=True, check=True)
