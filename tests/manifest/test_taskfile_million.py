"""A task file of a million lines validates in a stream."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import collections, json, resource, sys
from evalframe.manifest.taskfile import iter_task_file

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform != "darwin" else 1024)

counts, before = collections.Counter(), peak()
for outcome in iter_task_file(sys.argv[1]):
    counts[getattr(outcome, "rule", "good")] += 1
print(json.dumps({"counts": counts, "rise_mb": (peak() - before) / 1024}))
"""


def write(path: Path, n: int) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for index in range(n):
            record = {
                "task_id": f"arith_{index if index % 1000 else 0}", "category": "arithmetic",
                "prompt": f"Compute: {index} + 1 =" + " " * (index % 1000 == 1), "targets": [str(index + 1)],
                "metric_name": "exact_match", "post_process": "strip_whitespace", "metadata": {"note": "x" * 200},
            }  # fmt: skip
            stream.write(json.dumps(record) + "\n")


def measured(path: Path) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_a_million_lines_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    write(path, 1_000_000)
    assert path.stat().st_size > 400_000_000
    result = measured(path)
    assert result["counts"] == {"good": 998_001, "duplicate_task_id": 999, "bad_value": 1000}
    assert result["rise_mb"] < 250  # the ids; the records would take 1.5 GB


def test_ten_thousand_lines_take_no_more_than_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    write(path, 10_000)
    result = measured(path)
    assert result["counts"] == {"good": 9981, "duplicate_task_id": 9, "bad_value": 10}
    assert result["rise_mb"] < 25
