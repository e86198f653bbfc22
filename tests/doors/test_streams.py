"""The command line as a process: closed pipes, other encodings, narrow terminals, Ctrl-C, and what it loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import evalframe as ef
from tests.doors.conftest import Answer

ROOT = Path(__file__).parent.parent.parent
EVALFRAME = [sys.executable, "-m", "evalframe"]
HEAVY = ("polars", "numpy", "datasets", "pandas", "pyarrow", "rapidfuzz", "rich", "tqdm")


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    script = f'evalframe() {{ {sys.executable} -m evalframe "$@"; }}; set -o pipefail; {line}'
    return subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, check=False,
                          env=os.environ | environment)  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["runs", "--help"], [], ["run", "--modle"]],
                         ids=" ".join)  # fmt: skip
def test_help_and_usage_load_nothing_heavy(words: list[str]) -> None:
    code = (
        f"import sys, json; sys.argv = ['evalframe', *{words!r}]\n"
        "from evalframe.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "line",
    ["evalframe schema | head -1", "evalframe doctor | true", "evalframe metrics --json | head -c 1",
     "evalframe --help | true", "evalframe run nowhere.json -m mock/noisy --json | true || true"],
)  # fmt: skip
def test_a_reader_that_goes_away_is_no_error(line: str) -> None:
    done = shell(line)
    assert done.returncode == 0, done
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


def test_the_status_is_that_of_the_command_whoever_reads() -> None:
    assert shell("evalframe run nowhere.json -m mock/noisy 2>&1 | true").returncode == 2
    assert shell("evalframe validate fixtures/suite.json >&-").returncode in (0, 3)  # no stdout at all
    assert b"Traceback" not in shell("evalframe validate fixtures/suite.json >&-").stderr


def test_a_run_goes_on_when_its_reader_goes_away(tmp_path: Path) -> None:
    done = shell(f"evalframe run fixtures/suite.json -m replay/fixtures/outputs.jsonl --out {tmp_path}/r 2>&1 | true")
    assert done.returncode == 0
    assert ef.load(tmp_path / "r").record["status"] == "complete"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_full_disk_behind_stdout_is_told_without_a_traceback(more: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*EVALFRAME, "runs", "list", *more], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False)  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.startswith("OSError: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
def test_a_terminal_that_is_not_utf_8_is_no_error(tmp_path: Path, encoding: str) -> None:
    outputs = tmp_path / "outputs.jsonl"
    record = {"model_id": "größe-日本-🎈", "task_id": "word_problems", "sample_id": "q01", "output_text": "22"}
    outputs.write_text(json.dumps(record) + "\n")
    words = ["run", "fixtures/suite.json", "-m", f"replay/{outputs}", "--no-progress", "--max-samples-per-task", "1"]
    done = subprocess.run([*EVALFRAME, *words, "--json"], cwd=ROOT, capture_output=True, check=False,
                          env=os.environ | {"PYTHONIOENCODING": encoding})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode(encoding))["leaderboard"][0]["model_id"] == record["model_id"]


def test_a_table_and_help_in_ascii(tmp_path: Path) -> None:
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    (tmp_path / "größe.json").write_text("{")
    words = ["validate", str(tmp_path / "größe.json")]
    done = subprocess.run([*EVALFRAME, *words], capture_output=True, check=False, env=ascii_only)
    assert done.returncode == 2
    assert b"gr\\xf6\\xdfe.json" in done.stderr
    shown = subprocess.run([*EVALFRAME, "run", "--help"], capture_output=True, check=False, env=ascii_only)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("words", ["--help", "run --help", "runs prune --help", "run"])
def test_forty_columns_are_enough(words: str) -> None:
    done = subprocess.run([*EVALFRAME, *words.split()], capture_output=True, text=True, check=False,
                          env=os.environ | {"COLUMNS": "40"})  # fmt: skip
    assert done.returncode == (2 if words == "run" else 0)
    shown = done.stdout or done.stderr
    assert "Traceback" not in shown
    assert "Usage: evalframe" in shown


SLOW_MODEL = """
import sys, threading
from evalframe.adapters import Generation
from evalframe.registry import ADAPTERS

class Slow:
    def __init__(self):
        self.model_id = "slow/one"
    def generate(self, prompt, task):
        print("calling", flush=True)
        threading.Event().wait(0.05)
        return Generation(text="1")

ADAPTERS.register("slow", lambda rest, options: [Slow()])
sys.argv = ["evalframe", *sys.argv[1:]]
from evalframe.cli import main
main()
"""


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    words = [
        "run",
        "fixtures/suite.json",
        "-m",
        "slow/one",
        "--sequential",
        "--out",
        str(tmp_path / "r"),
    ]
    process = subprocess.Popen([sys.executable, "-c", SLOW_MODEL, *words], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["calling\n"] * 2
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "interrupted: no further call begins; those in flight are waited for" in stderr
    assert f"the run is partial; it goes on with: evalframe resume {tmp_path / 'r'}" in stderr
    partial = ef.load(tmp_path / "r")
    assert partial.record["status"] == "partial"
    n_done = partial.generations.filter(status="completed").height
    assert 0 < n_done < 20

    words = ["resume", f"{tmp_path}/r", "--json"]
    resumed = subprocess.run([sys.executable, "-c", SLOW_MODEL, *words], cwd=ROOT, capture_output=True, text=True,
                             check=False)  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    calls, _, envelope = resumed.stdout.partition("{")
    assert calls == "calling\n" * (20 - n_done)  # no finished call is made again
    assert json.loads("{" + envelope)["run"]["status"] == "complete"


def test_ctrl_c_before_anything_began_ends_with_130() -> None:
    code = (
        "import sys, typer\n"
        "from evalframe import cli\n"
        "def interrupted(*arguments, **more): raise KeyboardInterrupt\n"
        "cli.app = interrupted\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"
    done = subprocess.run([sys.executable, "-c", code, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert json.loads(done.stdout)["error"]["type"] == "interrupted"


@pytest.mark.parametrize("place", ["evalframe.cli.naming.answering", "evalframe.cli.Sections.parse_args"])
def test_ctrl_c_outside_of_a_command_has_its_envelope_too(
    command: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Between the reading of the words and the command itself, where typer would end without a word."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    answer = command("metrics", "--json")
    assert (answer.status, answer.stderr) == (130, "interrupted\n")
    assert json.loads(answer.stdout)["error"]["type"] == "interrupted"
