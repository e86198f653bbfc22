"""Errors as tables: aligned and wrapped on a terminal, one fault a line for everything else."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from evalframe.cli.printing import error_text, markdown, printable, shortened
from evalframe.errors import Fault, ManifestError, OptionError, PreprocessError, TaskFault, TaskFileError

LONG = "tasks[12].output_extraction.a_very_long_name_of_a_key.and_another_one[3].pattern"
ERROR = ManifestError.of(
    [
        Fault("tasks[0].id", "bad_value", "'a b' has a blank in it", "use letters, digits, - and _"),
        Fault(LONG, "bad_value", "the pattern does not compile: missing ), unterminated subpattern at position 0",
              "escape the bracket as \\( where it is meant as text"),
        Fault("", "missing", "there is no task"),
    ],
    what="suite.json",
)  # fmt: skip


@pytest.mark.parametrize("width", [70, 80, 100, 140])
def test_on_a_terminal_the_faults_are_a_table(width: int) -> None:
    lines = error_text(ERROR, width=width).splitlines()
    assert lines[0] == "ManifestError: suite.json: 3 faults"
    head = lines[1]
    assert head.split("  ")[1] == "where"
    what, to_do = head.index("what"), head.index("what to do")
    assert head.index("where") < what < to_do
    assert max(map(len, lines)) <= max(width, len(LONG) + 2)
    rows = lines[3:]
    assert f"  {LONG}" in rows, "a place is never broken"
    for row in rows:
        if row.strip() != LONG:  # columns begin where their heads do
            assert row[what - 2 : what] == "  "
            assert row[to_do - 2 : to_do].strip() == ""
    text = " ".join(" ".join(row[what : to_do - 1].split()) for row in rows if row.strip() != LONG)
    assert "the pattern does not compile: missing ), unterminated subpattern at position 0" in " ".join(text.split())


@pytest.mark.parametrize("width", [20, 40, 69])
def test_a_narrow_terminal_gets_them_under_each_other(width: int) -> None:
    lines = error_text(ERROR, width=width).splitlines()
    assert f"  {LONG}" in lines
    assert "  tasks[0].id" in lines
    assert any(line.startswith("    -> ") for line in lines)
    assert max(len(line) for line in lines if LONG not in line) <= max(width, len("    subpattern"))


def test_without_a_terminal_each_fault_is_a_line_to_search_for() -> None:
    lines = error_text(ERROR, width=None).splitlines()
    assert len(lines) == 4
    assert lines[1] == "  tasks[0].id: 'a b' has a blank in it -> use letters, digits, - and _"
    assert lines[2].startswith(f"  {LONG}: the pattern")


def test_faults_without_a_remedy_have_two_columns() -> None:
    error = TaskFileError.of([TaskFault("t.jsonl", 3, "a", "bad_value", "targets", "is empty")], what="t.jsonl")
    lines = error_text(error, width=100).splitlines()
    assert lines[1].split() == ["where", "what"]
    assert lines[3].split("  ")[1:] == ["t.jsonl:3 [a] targets", "bad_value: is empty"]
    assert error_text(error, width=None).splitlines()[1] == "  t.jsonl:3 [a] targets: bad_value: is empty"


def test_wide_letters_take_two_cells() -> None:
    error = OptionError.of([Fault("日本", "x", "is wrong", "mend it"), Fault("abcd", "x", "is wrong", "mend it")],
                           what="x")  # fmt: skip
    wide, plain = error_text(error, width=80).splitlines()[3:]
    assert wide.index("is wrong") == plain.index("is wrong") - 2


def test_what_came_from_data_steers_no_terminal() -> None:
    error = OptionError.of([Fault("a\nb", "x", "is '\x1b[31mred\x1b[0m'\r", "write\u202e it")], what="line\nbreak")
    for width in (None, 80, 40):
        text = error_text(error, width=width)
        assert "\x1b" not in text
        assert "\r" not in text
        assert "\u202e" not in text
    assert len(error_text(error, width=None).splitlines()) == 2
    assert printable("Grüße, 日本 👩‍👩‍👧\u00a0ok") == "Grüße, 日本 👩‍👩‍👧\u00a0ok"


def test_a_message_without_faults_is_wrapped_on_a_terminal_only() -> None:
    error = OptionError("one " * 40)
    assert len(error_text(error, width=None).splitlines()) == 1
    assert max(map(len, error_text(error, width=50).splitlines())) <= 50


def test_markdown_cells_hold_any_text() -> None:
    assert markdown(["a"], [["x|y\nz"], [None], [0.5]]).splitlines()[2:] == ["| x\\|y\\nz |", "| - |", "| 0.500 |"]


def test_long_answers_are_cut_in_the_middle() -> None:
    text = "The number of apples is what was asked. " * 9 + "#### 18"
    cut = shortened(text, 40)
    assert cut is not None
    assert len(cut) <= 40
    assert cut.startswith("The number")
    assert cut.endswith("#### 18")
    assert shortened("a\n b", 40) == "a b"
    assert shortened(None) is None


def test_a_real_terminal_gets_the_table_in_its_width(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text(json.dumps({"tasks": [{"id": "a b"}], "taks": 1}))
    wide = in_terminal(["validate", "suite.json"], cwd=tmp_path, columns=90)
    lines = wide.splitlines()
    assert any(line.split() == ["where", "what", "what", "to", "do"] for line in lines), wide
    assert max(map(len, lines)) <= 90
    narrow = in_terminal(["validate", "suite.json"], cwd=tmp_path, columns=40)
    assert "where" not in narrow.split()
    assert "    -> " in narrow
    told = in_terminal(["validate", "suite.json"], cwd=tmp_path, columns=120, COLUMNS="40")  # the user's word counts
    assert told == narrow


def in_terminal(arguments: list[str], *, cwd: Path, columns: int, **environment: str) -> str:
    """Run a command with a pseudo terminal as its stderr, and give what it shows there."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    settings = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | environment
    command = [sys.executable, "-m", "evalframe", *arguments]
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=follower, env=settings) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert process.wait() == 2
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [None, 60, 100])
def test_alike_faults_are_counted_and_not_scrolled_by(width: int | None) -> None:
    bad = [TaskFault("t.jsonl", n, "", "missing_required", "task_id", "is missing") for n in range(1, 1001)]
    odd = TaskFault("t.jsonl", 1001, "", "bad_json", "", "is no JSON")
    text = error_text(TaskFileError.of([*bad, odd], what="bad lines (data of your own goes with prompt=)"), width=width)
    told = " ".join(text.split())
    assert "1001 faults" in told
    assert "data of your own goes with --prompt" in told
    assert "t.jsonl:10 " in told
    assert "t.jsonl:11 " not in told
    assert "t.jsonl:1001" in told
    assert "and 990 more such faults (task_id missing_required: is missing); --json names them all" in told


@pytest.mark.parametrize("width", [None, 40, 120])
def test_a_traceback_stands_below_its_fault_line_by_line(width: int | None) -> None:
    lines = ["Traceback (most recent call last):", '  File "prepare.py", line 2, in transform\x1b[2J', "KeyError: 7"]
    traceback = "\n".join(f"    {line}" for line in lines)
    bad = Fault("task a: rows[0]", "raised", f"KeyError: 7\n{traceback}", "look")
    odd = Fault("task b", "raised", "two\nlines of data", "look")
    lines = error_text(PreprocessError.of([bad, odd], what="failed"), width=width).splitlines()
    at = next(index for index, line in enumerate(lines) if "Traceback" in line)
    assert lines[at + 1].endswith('File "prepare.py", line 2, in transform\\x1b[2J')
    assert lines[at + 2].endswith("    KeyError: 7")
    assert "look" in "".join(lines[:at])
    assert sum("two\\nlines" in line for line in lines) == 1


def test_python_s_options_are_said_as_flags() -> None:
    for text, said in {
        "leave it out (run.rescore(extract=…) does), or give prompt= where": "evalframe rescore RUN --extract …",
        "rescore(graders=…) takes other ones": "evalframe rescore RUN --grader … takes",
        'which are meant: models=("one of the first run", "one of the second")': "meant: --models A=B",
        "hand it in: files={'q.jsonl': 'PATH'}": "hand it in: --files q.jsonl=PATH",
        "pass limits=Limits(concurrency=64) to go higher": "give --limit concurrency=64 to go higher",
        'add it, as in targets="{{answer}}"': "add it, as in --targets '{{answer}}'",
        "name one that both have with metric=": "have with --metric",
        "(allow_bad_tasks=True runs the good ones)": "(--allow-bad-tasks runs the good ones)",
    }.items():
        assert said in error_text(OptionError(text), width=None)
