"""Progress: a bar on a terminal, sparse lines in a log, nothing where none is wanted."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest

from evalframe.generate.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_sparse_lines() -> None:
    stream, now = io.StringIO(), [0.0]
    with Progress(1_000, stream=stream, clock=lambda: now[0]) as progress:
        for number in range(1_000):
            now[0] += 0.1
            progress.add(1, failed=int(number == 0))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "100/1000 calls (10 %), 10.0 a second, 1 failed"
    assert lines[-1].startswith("1000/1000 calls (100 %)")


def test_a_run_of_no_time_gets_one_line() -> None:
    stream = io.StringIO()
    with Progress(1_000, stream=stream, clock=lambda: 0.0) as progress:
        for _ in range(1_000):
            progress.add(1)
    assert stream.getvalue() == "1000/1000 calls (100 %)\n"


def test_a_slow_run_gets_a_line_now_and_then() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(1_000, stream=stream, clock=lambda: now[0])
    for _ in range(50):
        now[0] += 10
        progress.add(1)
    assert [line.split()[0] for line in stream.getvalue().splitlines()][:3] == ["3/1000", "6/1000", "9/1000"]


def test_a_terminal_gets_a_bar_and_no_thread_stays(new_threads) -> None:
    stream = Terminal()
    with Progress(10, stream=stream) as progress:
        progress.add(4)
        progress.add(6, failed=2)
        progress.say("a word")
        assert not new_threads()
    shown = stream.getvalue()
    assert "10/10" in shown
    assert "2 failed" in shown
    assert "a word\n" in shown


@pytest.mark.parametrize(("total", "show"), [(10, False), (0, True)])
def test_nothing_is_shown_where_none_is_wanted(total, show) -> None:
    stream = Terminal()
    with Progress(total, show=show, stream=stream) as progress:
        progress.add(total)
        progress.say("a word")
    assert stream.getvalue() == ""
    assert progress.done == total


def test_tqdm_is_not_loaded_without_a_bar() -> None:
    code = (
        "import sys, io\nfrom evalframe.generate.progress import Progress\n"
        "Progress(3, stream=io.StringIO()).add(3)\nprint('tqdm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_notebook_gets_the_bar_of_its_kind(monkeypatch) -> None:
    class Notebook:
        kernel = object()

        @staticmethod
        def get_ipython() -> object:
            return Notebook

    monkeypatch.setitem(sys.modules, "IPython", Notebook)
    with Progress(2, stream=io.StringIO()) as progress:
        assert progress._bar is not None
        progress.add(2)


def test_counts_are_safe_from_several_threads() -> None:
    progress = Progress(8_000, stream=io.StringIO())
    threads = [threading.Thread(target=lambda: [progress.add(1, failed=1) for _ in range(1_000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (progress.done, progress.failed) == (8_000, 8_000)
