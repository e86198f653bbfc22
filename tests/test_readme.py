"""What the README says, run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ScriptedServer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


SERVER = "http://127.0.0.1:8000/v1"  # where a reader's own model may be


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_python_block_runs(block: str, scripted: ScriptedServer) -> None:
    command = [sys.executable, "-W", "error", "-c", block.replace(SERVER, scripted.url)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert bool(scripted.stats()["requests"]) == (SERVER in block)


def test_the_first_block_shows_what_it_promises() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKS[0]], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "| 1 | careful | 1.000 |" in done.stdout
    assert "| 2 | hasty | 0." in done.stdout


def test_the_shell_line_runs(tmp_path: Path) -> None:
    (line,) = re.findall(r"`evalframe (run .*?) --out results`", README)
    command = [sys.executable, "-m", "evalframe", *line.split(), "--out", str(tmp_path / "results")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "careful" in done.stdout
    assert "1 completed sample had no answer" in done.stderr  # the hasty model was not sure once


def test_every_room_of_the_map_is_there() -> None:
    rooms = re.findall(r"`([a-z_]+)/?`", README.split("## Where things are")[1])
    package = ROOT / "evalframe"
    missing = [r for r in rooms if not (package / f"{r}.py").is_file() and not (package / r).is_dir()]
    assert not missing


def test_every_room_is_on_the_map_or_covered_by_the_dots() -> None:
    shown = set(re.findall(r"`(\w+)(?:/)?`", README.split("## Where things are")[1]))
    stages = {"data", "prompts", "generate", "extracting", "scoring", "standings", "slicing", "pairs", "passing"}
    assert stages <= shown
