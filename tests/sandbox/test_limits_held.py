"""Clock, memory, output, files and processes; nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from evalframe.limits import Limits
from evalframe.sandbox.launch import cores, run_jobs
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.scratch import remove_folder, scratch_folder
from evalframe.sandbox.verdict import CodeTask, run_code
from tests.sandbox.jobs import job

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
SMALL = Limits(code_memory_bytes=200 * 1024 * 1024, code_output_bytes=100_000)


@pytest.fixture
def own_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "body",
    ["while True: pass", "return 10 ** 10 ** 9", "import time; time.sleep(1e6)", "return sum(range(10 ** 15))",
     "import re; return re.match('(a+)+$', 'a' * 64 + 'b')",
     "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()",
     "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
     "while True:\n        try:\n            while True: pass\n        except BaseException: pass"],
    ids=["loop", "power", "sleep", "C loop", "regex", "SIGTERM ignored", "stopped", "catches all"],
)  # fmt: skip
def test_the_clock_ends_it(run, body):
    result = run(f"def f():\n    {body}\n", "f() == 1", timeout_seconds=0.4)
    assert (result.exit_code, result.score, result.reason) == ("timeout", 0.0, "over 0.4 s")


def test_endless_tests_are_ended_too(run):
    assert (
        run("def f():\n    return 1\n", "while True:\n    f()\n", "f() == 1", timeout_seconds=0.4).exit_code
        == "timeout"
    )


@LINUX
@pytest.mark.parametrize(
    "body",
    ["return list(range(10 ** 9))", "return 'x' * 10 ** 10", "return [bytearray(1 << 24) for _ in range(1000)]",
     "import itertools; return list(itertools.product(range(99), repeat=9))"],
)  # fmt: skip
def test_memory_is_bounded(run, body):
    result = run(f"def f():\n    {body}\ndef g():\n    return 1\n", "f() == 1", "g() == 1", limits=SMALL)
    assert [a.reason for a in result.assertions] == ["MemoryError", ""]


def test_recursion_is_an_exception_or_an_early_end(run_all):
    code = "def f():\n    return f()\n"
    deeper = "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x=0):\n    return [f(x) for _ in range(2)]\n"
    first, second = run_all([code, deeper], "f() == 1", timeout_seconds=1)
    assert first.reason.startswith("f() == 1: RecursionError")
    assert second.score == 0.0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("inside", [True, False], ids=["in the function", "at import"])
def test_endless_output_ends_it_and_is_bounded(run, stream, inside):
    loop = f"while True: print('x' * 1000, file=sys.{stream})"
    code = f"import sys\ndef f():\n    {loop}\n" if inside else f"import sys\n{loop}\n"
    result = run(code, "f() == 1", limits=SMALL)
    assert (result.exit_code, result.score) == ("error", 0.0)
    assert result.reason == "output overflow: over 100000 bytes"
    assert len(result.stdout) + len(result.stderr) < 2100


def test_the_output_of_both_streams_counts_together_and_to_the_byte(run):
    code = "import sys\ndef f(n, m):\n    sys.stdout.write('x' * n)\n    sys.stderr.write('y' * m)\n    return 1\n"
    assert run(code, "f(60_000, 40_000) == 1", limits=SMALL).exit_code == "pass"
    assert run(code, "f(60_000, 40_001) == 1", limits=SMALL).exit_code == "error"
    assert run("def f():\n    return 1\n", "print('x' * 100_000)\nassert f() == 1\n", limits=SMALL).exit_code == "error"


def test_output_is_read_in_bounded_pieces():
    [report] = run_jobs([job("while True: print('x' * 10 ** 6)", "1", seconds=5.0)], limits=SMALL)
    assert report.ended == "overflow"
    assert sum(map(len, report.output.values())) == 100_001


def test_file_size_open_files_and_core_files_are_bounded(run):
    code = """
import resource
def big():
    with open("big", "wb") as file:
        for _ in range(100):
            file.write(b"x" * (1 << 20))
def many():
    return len([open("/dev/null") for _ in range(200)])
def core():
    return resource.getrlimit(resource.RLIMIT_CORE)
def small():
    with open("small", "w") as file:
        file.write("fine")
    return open("small").read()
"""
    result = run(code, "big()", "many() == 200", "core() == (0, 0)", "small() == 'fine'", timeout_seconds=20)
    assert [a.outcome for a in result.assertions] == ["failed", "failed", "passed", "passed"]
    assert result.assertions[0].reason.startswith("OSError")
    assert "Too many open files" in result.assertions[1].reason


def test_the_environment_is_empty_and_the_folder_fresh(run, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "do-not-tell")
    code = "import os, sys\ndef f():\n    return dict(os.environ), os.listdir('.'), len(sys.argv)\n"
    result = run(code, "f() == ({}, [], 1)", "print(f())\nassert 'evalframe-' in where()\n", "1",
                 setup_code="import os\ndef where():\n    return os.getcwd()\n")  # fmt: skip
    assert result.exit_code == "pass", result.stdout


def test_only_its_own_descriptors_are_open(run):
    # standard streams, and the channel to the tests in two directions
    code = """
import os
def f():
    found = []
    for number in range(1024):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            pass
    return len(found)
"""
    with open(os.devnull, "rb"):
        assert run(code, "f() == 5").exit_code == "pass"


def test_the_caller_is_untouched(run):
    before = (os.getcwd(), dict(os.environ), sorted(sys.modules), os.listdir())
    run(
        "import os, sys\nos.chdir('/')\nos.environ['X'] = '1'\nsys.modules['evil'] = sys\ndef f(): return 1\n",
        "f() == 1",
    )
    assert (os.getcwd(), dict(os.environ), sorted(sys.modules), os.listdir()) == before


DAEMON = """
import os, signal
def leave():
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            os.write(write, b"1")
            while True:
                signal.pause()
        os._exit(0)
    os.wait()
    return os.read(read, 1) == b"1"
leave()
"""


@LINUX
@pytest.mark.parametrize("without", [("seccomp",), ("seccomp", "namespaces")], ids=["namespace", "subreaper"])
@pytest.mark.parametrize("clock", [10.0, 1.0])
def test_no_process_is_left_also_none_that_left_its_session(own_temporary_folder, without, clock):
    # the daemon leaves a word before the clock is waited for, and does not end by itself
    endless = "" if clock > 5 else "while True: pass\n"
    [report] = run_jobs([job(DAEMON + endless, "leave()", seconds=clock)], limits=Limits(), without=without)
    assert report.ended == ("timeout" if endless else "verdict"), report
    assert endless or report.end[0] == "pass", report
    assert processes_in(own_temporary_folder) == []
    assert list(own_temporary_folder.iterdir()) == []


def processes_in(folder):
    """Processes whose working folder is, or was, in this one; where this user may not look, the test can not tell."""
    if os.geteuid() != 0:
        pytest.skip("only root sees the working folders of processes that hide from their user")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd").startswith(f"{folder}/"):
                found.append(entry.name)
    return found


@LINUX
def test_no_child_and_no_descriptor_is_left_in_the_caller(run_all):
    run_all(["def f(): return 1\n"] * 2, "f() == 1")
    before = len(os.listdir("/proc/self/fd"))
    run_all(["def f(): return 1\n", "import os\nos._exit(0)\n", "while True: pass\n", "print('x' * 10 ** 6)\n"],
            "f() == 1", timeout_seconds=0.3)  # fmt: skip
    assert len(os.listdir("/proc/self/fd")) == before
    children = [entry for entry in os.listdir("/proc") if entry.isdigit() and _parent(entry) == os.getpid()]
    assert [child for child in children if b"/worker.py" in Path(f"/proc/{child}/cmdline").read_bytes()] == []


def _parent(entry: str) -> int:
    try:
        return int(Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def test_scratch_folders_are_removed_whatever_is_in_them(own_temporary_folder, run):
    code = """
import os
for i in range(1500):
    os.mkdir("d"); os.chdir("d")
open("deep", "w").close()
"""
    outside = own_temporary_folder / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    wide = f"""
import os
for i in range(300): open(f"f{{i}}", "w").close()
os.symlink({str(outside)!r}, "link")
os.umask(0o777)
os.mkdir("locked"); os.mkfifo("pipe")
def f(): return 1
"""
    locked = """
import os
os.mkdir("locked"); open("locked/x", "w").close(); os.chmod("locked", 0); os.chmod(".", 0)
def f(): return 1
"""
    assert run(code + "def f(): return 1\n", "f() == 1", timeout_seconds=20).exit_code == "pass"
    assert run(wide, "f() == 1", timeout_seconds=20).exit_code == "pass"
    [report] = run_jobs([job(locked, "f() == 1", seconds=20.0)], limits=Limits(), without=("seccomp",))
    assert report.end[0] == "pass"
    assert list(own_temporary_folder.iterdir()) == [outside]
    assert list(outside.iterdir()) == [outside / "kept"]


def test_ten_thousand_files_are_gone_with_their_folder(own_temporary_folder, run):
    code = "def f():\n    for i in range(10_000): open(str(i), 'x').close()\n    return 1\n"
    assert run(code, "f() == 1", timeout_seconds=30).exit_code == "pass"
    assert list(own_temporary_folder.iterdir()) == []


def test_what_is_registered_for_the_exit_is_not_run(run):
    result = run("import atexit\natexit.register(print, 'late', flush=True)\ndef f(): return 1\n", "f() == 1")
    assert (result.exit_code, result.stdout) == ("pass", "")


def test_the_package_that_runs_it_can_not_be_imported(run):
    for name in ("evalframe", "polars"):
        assert run(f"import {name}\n", "1").reason.endswith(f"ModuleNotFoundError: No module named '{name}'")


def test_removal_does_not_follow_a_folder_that_is_a_link(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    with scratch_folder() as folder:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "link").symlink_to(kept)
    assert kept.is_dir()
    assert not folder.exists()
    (tmp_path / "gone").mkdir()
    remove_folder(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_the_clock_does_not_count_start_and_queue(run_all):
    # far more at once than cores, and a clock that the start of their interpreters alone would use up
    results = run_all(["def f(): return 1\n"] * (8 * cores()), "f() == 1", timeout_seconds=2)
    assert {result.exit_code for result in results} == {"pass"}


@LINUX
def test_an_interrupt_ends_what_runs(own_temporary_folder):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    code = "import os\nopen(os.devnull)\nwhile True: pass\n"
    tasks = [CodeTask(candidate=code, tests=("1",), timeout_seconds=30)] * (2 * cores())
    before, started = signal.signal(signal.SIGALRM, interrupt), time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            run_code(tasks, policy=Policy(allow_unsandboxed=True))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 25  # a guard: far less than one clock
    assert list(own_temporary_folder.iterdir()) == []
