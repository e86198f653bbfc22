"""The extraction types regex and regex_last, and the worker process in which they run."""

import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from evalframe.errors import OptionError, SandboxError
from evalframe.extractors import extract, regex_process
from evalframe.extractors.regex_process import Search, search_all
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.sandbox.regex_worker import WORDS

MIB = DEFAULT_LIMITS.regex_text_chars


def read(text: str, pattern: str, kind: str = "regex", **config: object) -> tuple[str | None, ...]:
    return extract(pl.Series([text]), {"type": kind, "pattern": pattern, **config}).row(0)


PYTHONS = r"(a)\1"  # only Python's engine has back-references
# Python's alone, and every text with an "a" may hold a match; takes exponential time where "!" or "?" follows
CATASTROPHIC = r"(?:a+)+(?!!|\?)(?!a)"


def searched(texts: list[str], pattern: str) -> list[tuple[str, str | None]]:
    return [(WORDS[word], answer) for word, answer in search_all(pl.Series(texts), Search(pattern=pattern)).rows()]


def worker_pid() -> int:
    searched(["x"], "x")
    assert regex_process._running is not None
    return regex_process._running.process.pid


def test_the_first_and_the_last_match() -> None:
    text = "gives #### 12\nNow ours: 45\n#### 45"
    assert read(text, r"#### (-?[0-9.,]+)") == ("12", "ok", "first_match")
    assert read(text, r"#### (-?[0-9.,]+)", "regex_last") == ("45", "ok", "last_match")


def test_the_last_match_is_the_last_of_those_that_do_not_overlap() -> None:
    assert read("aaa", "aa", "regex_last")[0] == "aa"
    assert read("a1a2a", r"a(\d)a", "regex_last")[0] == "1"


@pytest.mark.parametrize(
    ("pattern", "config", "answer"),
    [
        (r"\w+ \w+", {}, "ab cd"),
        (r"(\w+) (\w+)", {}, "ab"),
        (r"(\w+) (\w+)", {"group": 2}, "cd"),
        (r"(\w+) (\w+)", {"group": 0}, "ab cd"),
        (r"(?P<left>\w+) (?P<right>\w+)", {"group": "right"}, "cd"),
        (r"(\w+) (\w+)", {"group": None, "flags": ""}, "ab"),
    ],
)
def test_which_group_is_taken(pattern: str, config: dict, answer: str) -> None:
    assert read("ab cd", pattern, **config)[0] == answer


@pytest.mark.parametrize(
    ("flags", "text", "pattern", "answer"),
    [
        ("i", "ABC", "b", "B"), ("m", "x\nab", "^ab", "ab"), ("s", "a\nb", "a.b", "a\nb"),
        ("x", "ab", "a  b # both", "ab"),
        ("u", "é", r"\w", "é"), ("a", "éx", r"\w", "x"), ("imsx", "A\nB", "^a . b$", "A\nB"),
    ],
)  # fmt: skip
def test_every_flag(flags: str, text: str, pattern: str, answer: str) -> None:
    assert read(text, pattern, flags=flags)[0] == answer


@pytest.mark.parametrize(
    "pattern", [r"(?<=is )\S\d+", r"(\d)\1", r"\d++", r"(?>\d+)", r"(?a:\d)\Z", r"[[]\d", r"\d(?#note)"]
)
def test_the_dialect_is_pythons(pattern: str) -> None:
    assert read("it is [22", pattern)[1] == "ok"


def test_the_text_is_seen_as_it_is() -> None:
    assert read("\ufeff x </s> y ", r"(?s).*")[0] == "\ufeff x </s> y "
    assert read("a\x00b𝒳\r\n", r"\x00b.\r")[0] == "\x00b𝒳\r"


def test_no_match_is_told_from_a_group_that_took_no_part_and_from_an_empty_one() -> None:
    assert read("abc", r"\d") == (None, "no_match", "no_match")
    assert read("b", r"(a)?b") == (None, "no_match", "group_unset")
    assert read("Answer:", r"Answer:(.*)") == (None, "no_match", "empty_group")
    assert read("Answer: \u200b\n", r"(?s)Answer:(.*)") == (None, "no_match", "empty_group")
    assert read("ab1 b", r"(\d)? ?b", "regex_last") == ("1", "ok", "last_match")
    assert read("1b b", r"(\d)?b", "regex_last") == (None, "no_match", "group_unset")


@pytest.mark.parametrize(
    ("config", "remedy"),
    [
        ({"pattern": "a(b"}, "does not compile: missing \\), .* at position 1; mend it"),
        ({"pattern": "a", "group": 1}, "no group 1; use one of 0 to 0"),
        ({"pattern": "(?P<x>a)", "group": "y"}, "no group 'y'; use one of 0 to 1, 'x'"),
        ({"pattern": "a", "flags": "il"}, "'il' have l; use letters of i m s x u a"),
        ({"pattern": "a", "flags": "ua"}, "does not compile"),
    ],
)
def test_a_pattern_that_can_not_be_used_says_why(config: dict, remedy: str) -> None:
    with pytest.raises(OptionError, match=remedy):
        extract(pl.Series(["a"]), {"type": "regex", **config})


def test_a_catastrophic_match_costs_its_own_text() -> None:
    texts = pl.Series(["aa", "a" * 60 + "!", "a", None, "a" * 60 + "?"])
    found = extract(texts, {"type": "regex", "pattern": CATASTROPHIC})
    assert found["extracted_output"].to_list() == ["aa", None, "a", None, None]
    assert found["extraction_status"].to_list() == ["ok", "timeout", "ok", None, "timeout"]
    assert found["extraction_rule"].to_list()[1] == "time_limit"


def test_a_match_that_can_not_be_interrupted_costs_its_own_text_too() -> None:
    # this loop never comes back to where Python looks for signals: the timer of the system ends the worker
    texts = pl.Series(["x", "." + " " * (MIB - 3) + "xy", " x", "no"])
    found = extract(texts, {"type": "regex", "pattern": r" +x(?!y)(?!z)"})
    assert found["extraction_status"].to_list() == ["no_match", "timeout", "ok", "no_match"]
    assert found["extracted_output"].to_list()[2] == " x"


def test_a_match_that_takes_all_memory_costs_its_own_text() -> None:
    # each turn of the loop puts ninety groups on the stack
    pattern = "(?:" + "(" * 90 + "a" + ")" * 90 + ")*c(?!$|d)"
    texts = pl.Series(["a" * (MIB - 1) + "c", "abca"])
    found = extract(texts, {"type": "regex", "pattern": pattern, "group": 0}, limits=Limits(regex_seconds_per_text=9.0))
    assert found["extraction_rule"].to_list() == ["memory_limit", "first_match"]
    assert found["extraction_status"].to_list() == ["timeout", "ok"]


@pytest.mark.parametrize("filler", ["x", "é", "𝒳"])
def test_of_a_long_text_the_first_or_last_mebibyte_is_searched(filler: str) -> None:
    most = f"in the {{}} {MIB} characters"
    inside, beyond = filler * (MIB - 1) + "7", filler * MIB + "7"
    assert read(inside, r"\d") == ("7", "ok", "first_match")
    assert read(beyond, r"\d") == (None, "no_match", "no_match " + most.format("first"))
    assert read("1" + beyond, r"\d") == ("1", "ok", "first_match " + most.format("first"))
    assert read("1" + beyond, r"\d", "regex_last") == ("7", "ok", "last_match " + most.format("last"))
    assert read("1" + filler * MIB, r"\d", "regex_last")[1:] == ("no_match", "no_match " + most.format("last"))


def test_many_texts_go_through_one_warm_worker() -> None:
    before = worker_pid()
    texts = [f"the answer is {number}" for number in range(5_000)]
    found = extract(pl.Series(texts), {"type": "regex", "pattern": r"is (\d+)"})
    assert found["extracted_output"].to_list() == [str(number) for number in range(5_000)]
    assert worker_pid() == before


def test_batches_are_bounded_in_texts_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_process, "_BATCH_TEXTS", 1_000)
    sizes = [len(batch) for batch in regex_process._batches(pl.Series(["x"] * 2_500))]
    assert sizes == [1_000, 1_000, 500]
    texts = pl.Series(["x" * MIB] * 2 + ["é" * MIB] * 2 + ["𝒳" * MIB, "x"])
    assert [len(batch) for batch in regex_process._batches(texts)] == [2, 1, 1, 1, 1]
    assert list(regex_process._batches(pl.Series([], dtype=pl.String))) == []


def test_texts_of_every_width_come_back() -> None:
    texts = ["", "a\x00b", "é\r\n", "𝒳" * 70_000 + "1", "नदी"] * 3
    assert searched(texts, r"(?s).*") == [("ok", text) for text in texts]
    assert searched(texts, r"\d$")[3] == ("ok", "1")


def test_a_worker_that_was_killed_is_started_again() -> None:
    pid = worker_pid()
    os.kill(pid, signal.SIGKILL)
    assert searched(["a1", "b2"], r"\d") == [("ok", "1"), ("ok", "2")]
    assert worker_pid() != pid


def test_a_worker_that_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = worker_pid()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(regex_process, "_SILENCE_SECONDS", 1.0)
    assert searched(["a1"], r"\d") == [("ok", "1")]
    assert worker_pid() != pid


def test_an_interrupt_leaves_no_results_for_the_next_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    worker_pid()
    monkeypatch.setattr(regex_process._Worker, "_piece", interrupt)
    with pytest.raises(KeyboardInterrupt):
        searched(["a1", "b2"], r"\d")
    monkeypatch.undo()
    assert searched(["c", "d4"], r"\d") == [("no_match", None), ("ok", "4")]


def test_a_worker_that_does_not_start_is_an_error_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    regex_process.close()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SandboxError, match=r"does not answer .*exit status.*see that /bin/false -I -S .* runs"):
        extract(pl.Series(["aa"]), {"type": "regex", "pattern": PYTHONS})
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match=r"does not start: .*nowhere"):
        extract(pl.Series(["aa"]), {"type": "regex", "pattern": PYTHONS})
    monkeypatch.undo()
    assert read("aa", PYTHONS)[0] == "a"


def in_fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_worker_goes_with_its_process_and_leaves_no_warning() -> None:
    code = (
        "import polars as pl\n"
        "from evalframe.extractors import regex_process as r\n"
        "found = r.search_all(pl.Series(['a1']), r.Search(pattern='[0-9]'))\n"
        "print(found.rows(), r._running.process.pid)"
    )
    said, pid = in_fresh_process(code).rsplit(maxsplit=1)
    assert said == "[(0, '1')]"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_forked_child_has_a_worker_of_its_own() -> None:
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads, from Python 3.12 on
import polars as pl
from evalframe.extractors import regex_process as r
search = r.Search(pattern="[0-9]")
def ask(text):
    worker = r._worker()
    answer = worker.ask(pl.Series([text]), search, careful=False)
    return len(answer), worker.process.pid
mine = ask("a1")[1]
if os.fork() == 0:
    size, pid = ask("b2")
    print(size, pid != mine, flush=True)
else:
    os.wait()
    size, pid = ask("c3")
    print(size, pid == mine)
"""
    assert in_fresh_process(code).splitlines() == ["12 True", "12 True"]


def test_the_interpreter_of_the_caller_is_not_held() -> None:
    import threading

    ticks: list[float] = []
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.monotonic())
            over.wait(0.001)

    clock = threading.Thread(target=tick)
    clock.start()
    extract(pl.Series(["a" * 60 + "!"]), {"type": "regex", "pattern": CATASTROPHIC})
    over.set()
    clock.join()
    assert len(ticks) > 5  # in this process the match would hold every other thread


def test_searches_from_several_threads_do_not_mix() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def ask(number: int) -> list[tuple[str, str | None]]:
        return searched([f"{number}-{i}" for i in range(50)], rf"{number}-\d+")

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(ask, range(20))):
            assert found == [("ok", f"{number}-{i}") for i in range(50)]
