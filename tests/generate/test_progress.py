"""Progress: a bar on a terminal, sparse lines in a log, nothing where none is wanted."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.generate.finished import Finished
from evalframe.generate.progress import LINE_SECONDS, Progress, Stage, _Pace

CALL = {"model_id": "m", "task_id": "t", "sample_index": 0, "repeat": 0, "status": "completed"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def calls(n: int = 1, **told: Any) -> list[Finished]:
    return [Finished(**{**CALL, **told})] * n


FAILED = {"status": "failed", "error_type": "timeout", "error_message": "x"}


def test_a_log_gets_sparse_lines() -> None:
    stream, now = io.StringIO(), [0.0]
    with Progress(1_000, stream=stream, clock=lambda: now[0]) as progress:
        for number in range(1_000):
            now[0] += 0.1
            progress.finish(calls(**(FAILED if number == 0 else {})))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "100/1000 calls (10 %), 10.0 a second, 1:30 left, 1 failed"
    assert lines[-1] == "1000/1000 calls (100 %), 10.0 a second, 1 failed"


def test_a_run_of_no_time_gets_one_line() -> None:
    stream = io.StringIO()
    with Progress(1_000, stream=stream, clock=lambda: 0.0) as progress:
        for _ in range(1_000):
            progress.finish(calls())
        progress.tick()
    assert stream.getvalue() == "1000/1000 calls (100 %)\n"


def test_a_slow_run_gets_a_line_now_and_then() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(1_000, stream=stream, clock=lambda: now[0])
    for _ in range(50):
        now[0] += 10
        progress.finish(calls())
    assert [line.split()[0] for line in stream.getvalue().splitlines()][:3] == ["3/1000", "6/1000", "9/1000"]


def test_a_log_tells_of_a_run_in_which_nothing_ends() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(100, stream=stream, clock=lambda: now[0])
    progress.sent(8)
    for _ in range(240):
        now[0] += 0.25
        progress.tick()
    assert stream.getvalue().splitlines() == ["0/100 calls (0 %), 8 in flight"] * 2


def test_the_last_line_is_told_even_if_another_thread_was_telling_one() -> None:
    stream = io.StringIO()
    with Progress(10, stream=stream) as progress:
        telling, done = threading.Event(), threading.Event()

        def tell() -> None:
            with progress._drawing:
                telling.set()
                done.wait(10)

        other = threading.Thread(target=tell)
        other.start()
        telling.wait(10)
        progress.finish(calls(10))
        done.set()
        other.join()
        assert stream.getvalue() == ""
    assert stream.getvalue().startswith("10/10 calls (100 %)")


def test_all_that_is_counted_is_shown() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(100, stream=stream, clock=lambda: now[0])
    progress.sent(12)
    progress.returned(9)
    progress.retried(5)
    told = {"input_tokens": 400_000, "output_tokens": 100_000, "cost_usd": 0.14}
    progress.finish([*calls(3, **told), *calls(2, **FAILED), *calls(1, **{**FAILED, "status": "skipped"})])
    now[0] = 40.0
    progress.finish(calls(4, **{**told, "cost_usd": 0.0}, cached=True))
    line = stream.getvalue().splitlines()[-1]
    assert line.startswith("10/100 calls (10 %), 15.0 a minute, ")
    assert line.endswith("3 in flight, 2 failed, 1 skipped, 5 retried, 4 cached, 1.5M tokens, $0.42")
    progress.finish(calls())  # a reply of a model without a price
    now[0] = 80.0
    progress.tick()
    assert stream.getvalue().splitlines()[-1].endswith("$0.42+")


def test_dollars_are_shown_only_where_something_has_a_price() -> None:
    stream, now = io.StringIO(), [0.0]
    with Progress(2, stream=stream, clock=lambda: now[0]) as progress:
        now[0] = 2.0
        progress.finish(calls(2, output_tokens=7))
    assert stream.getvalue() == "2/2 calls (100 %), 1.0 a second, 14 tokens\n"


def test_the_rate_is_that_of_late_and_steady() -> None:
    pace = _Pace(0.0)
    assert pace.rate(0.0, 0) is None
    now, done, rates = 0.0, 0, []
    for second in range(300):  # ten a second; from 100 s on one a second
        done += 10 if second < 100 else 1
        now += 1.0
        pace.look(now, done)
        rates.append(pace.rate(now, done))
    assert rates[99] == pytest.approx(10.0)
    assert rates[103] > 5.0  # a moment is no change of pace
    assert rates[:100] == pytest.approx([10.0] * 100)
    assert rates[130:] == pytest.approx([1.0] * 170, rel=0.1)
    assert pace.rate(now + 30, done) == pytest.approx(0.5, abs=0.05)  # nothing ends: it goes down


def test_the_rate_forgets_a_start_from_the_cache() -> None:
    pace, now, done = _Pace(0.0), 0.5, 5_000
    pace.look(now, done)
    for _ in range(60):
        now, done = now + 0.1, done + 3
        pace.look(now, done)
    assert pace.rate(now, done) == pytest.approx(30.0, rel=0.1)


def test_the_rate_of_slow_calls_looks_back_over_enough_of_them() -> None:
    pace = _Pace(0.0)
    for number in range(1, 101):  # eight at once, a minute each
        pace.look(60.0 * number, 8 * number)
        assert pace.rate(60.0 * number, 8 * number) == pytest.approx(8 / 60)
    assert len(pace._marks) < 10


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), max_size=200))
def test_a_rate_lies_between_the_slowest_and_the_fastest(steps: list[tuple[float, int]]) -> None:
    pace, now, done = _Pace(0.0), 0.0, 0
    for seconds, n in steps:
        now, done = now + seconds, done + n
        pace.look(now, done)
        rate = pace.rate(now, done)
        assert (rate is None) == (done == pace._marks[0][1] or now == pace._marks[0][0])
        assert rate is None or rate > 0


def test_the_time_left_is_not_guessed_before_the_first_calls_are_back() -> None:
    def shown(n: int, seconds: float) -> str:
        stream, now = io.StringIO(), [0.0]
        progress = Progress(1_000, stream=stream, clock=lambda: now[0])
        progress.sent(25)
        now[0] = seconds
        progress.finish(calls(n))
        now[0] = seconds + LINE_SECONDS
        progress.tick()
        return stream.getvalue().splitlines()[-1]

    assert "left" not in shown(24, 10.0)
    assert "left" in shown(25, 10.0)


def test_a_terminal_gets_a_bar_and_no_thread_stays(new_threads) -> None:
    stream = Terminal()
    with Progress(10, stream=stream) as progress:
        progress.sent(3)
        progress.finish(calls(4))
        progress.finish(calls(6, **FAILED))
        progress.say("a word")
        progress.returned(3)
        assert not new_threads()
    shown = stream.getvalue()
    assert "10/10" in shown
    assert "6 failed" in shown
    assert "a word\n" in shown
    assert "in flight" not in shown.splitlines()[-1]  # the last picture is of the end


def test_a_bar_is_drawn_ten_times_a_second_at_most() -> None:
    stream, now = Terminal(), [0.0]
    with Progress(100_000, stream=stream, clock=lambda: now[0]) as progress:
        for _ in range(10_000):
            now[0] += 0.001
            progress.finish(calls())
    assert 90 <= stream.getvalue().count("\r") <= 110


def test_an_interrupt_while_a_bar_is_drawn_locks_nobody_out(monkeypatch) -> None:
    stream = Terminal()
    with Progress(10, stream=stream, clock=iter(range(100)).__next__) as progress:
        with monkeypatch.context() as patch:
            patch.setattr(progress._bar, "display", lambda **_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                progress.tick()
        other = threading.Thread(target=lambda: progress.finish(calls(10)), daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive()
        progress.say("stopping")
    assert "stopping\n" in stream.getvalue()
    assert "10/10" in stream.getvalue()


@pytest.mark.parametrize(("total", "show"), [(10, False), (0, True)])
def test_nothing_is_shown_where_none_is_wanted(total, show) -> None:
    stream = Terminal()
    with Progress(total, show=show, stream=stream) as progress:
        progress.finish(calls(total))
        progress.say("a word")
    assert stream.getvalue() == ""
    assert progress.done == total


def test_tqdm_is_not_loaded_without_a_bar() -> None:
    code = (
        "import sys, io\nfrom evalframe.generate.progress import Progress\n"
        "Progress(3, stream=io.StringIO()).tick()\nprint('tqdm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class Notebook:
    kernel = object()

    @staticmethod
    def get_ipython() -> object:
        return Notebook


def test_a_notebook_gets_the_bar_of_its_kind(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", Notebook)
    with Progress(2, stream=io.StringIO()) as progress:
        assert progress._bar is not None
        progress.finish(calls(2))


def test_counts_are_safe_from_several_threads() -> None:
    progress = Progress(8_000, stream=Terminal())

    def work() -> None:
        for _ in range(1_000):
            progress.sent()
            progress.retried()
            progress.returned()
            progress.finish(calls(**FAILED))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress.close()
    assert (progress.done, progress.failed, progress.retries, progress.in_flight) == (8_000, 8_000, 8_000, 0)


def test_a_stage_is_a_bar_that_goes_away() -> None:
    stream = Terminal()
    with Stage("scoring", 40, stream=stream) as stage:
        stage.step(40)
    shown = stream.getvalue()
    assert "scoring" in shown
    assert "\n" not in shown
    assert not shown.rpartition("\r")[0].rpartition("\r")[2].strip()  # wiped out


def test_a_stage_is_told_in_a_log_where_it_takes_its_time() -> None:
    stream, now = io.StringIO(), [0.0]
    with Stage("scoring", 3_000, stream=stream, clock=lambda: now[0]) as stage:
        for _ in range(3):
            now[0] += 20.0
            stage.step(1_000)
    assert stream.getvalue().splitlines() == ["scoring 3000 calls", "scoring: 2000/3000 calls"]
    told = io.StringIO()
    with Stage("preparing qa", 1_000, unit="row", stream=told):
        assert told.getvalue() == "preparing qa 1000 rows\n"
    for total, show in ((999, True), (3_000, False), (0, True)):
        with Stage("scoring", total, show=show, stream=stream) as stage:
            stage.step(total)
    assert len(stream.getvalue().splitlines()) == 2
