"""Cases from the field of kind e, running: against a real server, end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from tests.servers import ScriptedServer
from tests.servers.wire import default_text

GUARD = 60.0  # seconds until what hangs fails the test
MODEL = "openai-compatible/m"
DATA = {"prompt": "What is {{a}} + {{b}}?", "targets": "{{sum}}", "extract": "number", "metrics": ["numeric_match"]}


def records(n: int) -> list[dict[str, Any]]:
    return [{"a": i, "b": 7, "sum": i + 7, "nothing": ""} for i in range(n)]


def prompt_of(i: int) -> str:
    return f"What is {i} + 7?"


@pytest.fixture
def ask(scripted: ScriptedServer, tmp_path: Path):
    """Run n sums with one model of the server; each run has a folder of its own."""

    def run(n: int, model: Any = None, *, out: str = "run", **options: Any) -> ef.Run:
        asked = {"cache": False, "progress": False, **DATA, **options}
        return ef.run(records(n), model or f"{MODEL}@{scripted.url}", out=tmp_path / out, **asked)

    return run


def arrivals(scripted: ScriptedServer, i: int) -> list[float]:
    return [one["arrived"] for one in scripted.recorded() if one["prompt"] == prompt_of(i)]


@pytest.mark.parametrize("max_retries", [4, 1])  # a 429 burns no retries
def test_C061_a_hint_to_wait_is_a_minimum_in_both_its_forms(ask, scripted, max_retries: int) -> None:
    steps = [{"status": 429, "retry_after": 2}, {"status": 429, "retry_after_date": 3}, {"text": "8"}]
    scripted.script(rules=[{"match": r"^What is 1 \+", "steps": steps}])
    run = ask(2, generation={"max_retries": max_retries})
    row = run.generations.row(1, named=True)
    assert (row["status"], row["attempts"], row["output_text"]) == ("completed", 3, "8")
    first, second, third = arrivals(scripted, 1)
    assert second - first >= 2.0
    assert third - second >= 2.0  # a date has whole seconds


def test_C061_all_workers_of_an_endpoint_wait(ask, scripted) -> None:
    scripted.script(
        latency_seconds=0.02,
        rules=[{"match": r"^What is 20 \+", "steps": [{"status": 429, "retry_after": 1}], "then": "default"}],
    )
    run = ask(60, concurrency=4)
    assert run.generations["status"].unique().to_list() == ["completed"]
    told, _ = arrivals(scripted, 20)
    later = [one["arrived"] - told for one in scripted.recorded() if one["arrived"] > told]
    # what was on its way when the hint came is not called back
    assert [seconds for seconds in later if 0.5 < seconds < 1.0] == []
    assert len([seconds for seconds in later if seconds >= 1.0]) >= 30


def test_C061_without_a_hint_the_wait_grows(ask, scripted) -> None:
    scripted.script(rules=[{"match": "", "steps": [{"status": 503}] * 3 + [{"text": "7"}]}])
    run = ask(1, generation={"max_retries": 3})
    assert run.generations.row(0, named=True)["attempts"] == 4
    waits = [after - before for before, after in pairwise(arrivals(scripted, 0))]
    assert min(waits) > 0.05
    assert waits[2] > waits[0]


@pytest.mark.parametrize("preflight", [True, False])
@pytest.mark.parametrize(
    "options",
    [{"generation": {"max_retries": 0}}, {"generation": {"max_retries": 5}, "max_rate_limit_wait_seconds": 3}],
    ids=["no retries", "no long waits"],
)  # fmt: skip
def test_C062_a_wait_longer_than_the_cap_is_a_failure_and_no_sleep(ask, scripted, options, preflight) -> None:
    scripted.script(default={"status": 429, "retry_after": 86400, "message": "daily quota"})
    began = time.monotonic()
    run = ask(3, preflight=preflight, **options)
    assert time.monotonic() - began < GUARD
    assert run.generations["status"].to_list() == ["failed"] * 3
    assert run.generations["error_type"].to_list() == ["rate_limited"] * 3
    for message in run.generations["error_message"]:
        assert "asks to wait 86,400 s" in message
    assert "daily quota" in run.generations["error_message"][0]
    if options["generation"]["max_retries"]:  # what the server told one call holds for the others
        assert set(scripted.stats()["by_prompt"].values()) == {1}
    else:
        assert scripted.stats()["by_prompt"] == {prompt_of(i): 1 for i in range(3)}
    assert run.leaderboard()["n_failed"].to_list() == [3]


CHANGES: dict[str, dict[str, Any]] = {
    "temperature": {"generation": {"temperature": 0.5}},
    "top_p": {"generation": {"top_p": 0.9}},
    "max_output_tokens": {"generation": {"max_output_tokens": 17}},
    "stop": {"generation": {"stop": ["\n"]}},
    "seed": {"generation": {"extra_body": {"seed": 2}}},
    "reasoning effort": {"generation": {"reasoning": {"effort": "high"}}},
    "system prompt": {"generation": {"instructions": "Be right."}},
    "base_url": {"base": "/elsewhere/v1"},
    "model": {"model": "n"},
    "response format": {"generation": {"extra_body": {"response_format": {"type": "json_object"}, "seed": 1}}},
    "extra_body": {"generation": {"extra_body": {"seed": 1, "mirostat": 2}}},
    "order of the messages": {"prompt": "Be brief.{{nothing}}", "generation": {"instructions": prompt_of(0)}},
    "repeat": {"repeats": 2},
    "model version": {"model_version": "2026-11"},
}
COMMON = {
    "temperature": 0.1, "top_p": 0.8, "max_output_tokens": 16, "stop": ["END"], "instructions": "Be brief.",
    "reasoning": {"effort": "low"}, "extra_body": {"seed": 1},
}  # fmt: skip


def test_C065_what_can_change_the_answer_is_a_miss_and_nothing_else(scripted, tmp_path, monkeypatch) -> None:
    def made(name: str, **changes: Any) -> int:
        """Run two sums and give the number of requests that it took."""
        generation = {**COMMON, **changes.pop("generation", {})}
        model = {"model": f"openai-compatible/{changes.pop('model', 'm')}",
                 "base_url": scripted.root + changes.pop("base", "/v1"),
                 "model_version": changes.pop("model_version", None)}  # fmt: skip
        before = scripted.stats()["requests"]
        options = {**DATA, "generation": generation, "cache": tmp_path / "cache.sqlite", "progress": False, **changes}
        run = ef.run(records(1), model, out=tmp_path / name, **options)
        assert run.generations["status"].unique().to_list() == ["completed"]
        n_made: int = scripted.stats()["requests"] - before
        assert run.generations.filter(~pl.col("cached")).height == n_made
        return n_made

    assert made("first") == 1
    assert made("again") == 0
    misses = {name: made(name, **changes) for name, changes in CHANGES.items()}
    assert misses == dict.fromkeys(CHANGES, 1)
    assert {name: made(f"{name} again", **changes) for name, changes in CHANGES.items()} == dict.fromkeys(CHANGES, 0)

    reordered = dict(reversed(COMMON.items()))
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-another")
    assert made("other order", generation=reordered | {"timeout_seconds": 7, "max_retries": 0}, concurrency=3) == 0
    assert made("refresh", cache=tmp_path / "other.sqlite") == 1


def test_C065_refresh_asks_again_and_keeps_the_new_reply(ask, scripted) -> None:
    scripted.script(default={"text": "old"})
    ask(1, out="a", cache=True)
    scripted.script(default={"text": "new"})
    texts = [
        ask(1, out=out, cache=cache).generations["output_text"][0]
        for out, cache in (("b", True), ("c", False), ("d", True), ("e", "refresh"), ("f", True))
    ]
    assert texts == ["old", "new", "old", "new", "new"]


BODY = """
import sys
import evalframe as ef
run = ef.run([{{"a": i, "b": 7, "sum": i + 7}} for i in range(10)], "{model}@{url}", out="{out}", cache=False,
             progress=False, generation={{"timeout_seconds": 1.0, "max_retries": 1}}, **{data!r})
print("ended", flush=True)
"""


@pytest.mark.parametrize("where", ["trickle_headers", "trickle_body", "delay_seconds"])
def test_C071_a_connection_that_stays_open_without_an_end_is_a_timeout(scripted, tmp_path, where: str) -> None:
    seconds = 3600 if where == "delay_seconds" else 0.3
    scripted.script(rules=[{"match": r"^What is 7 \+", "steps": [{where: seconds}]}])
    code = BODY.format(model=MODEL, url=scripted.url, out=tmp_path / "run", data=DATA)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=GUARD, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr  # and no thread holds the process
    run = ef.load(tmp_path / "run")
    hung = run.generations.row(7, named=True)
    assert (hung["status"], hung["error_type"], hung["attempts"]) == ("failed", "timeout", 2)
    assert run.generations["status"].value_counts(sort=True).rows() == [("completed", 9), ("failed", 1)]
    assert run.leaderboard().select("n_scored", "n_failed").row(0) == (9, 1)


def interrupted_command(
    scripted: ScriptedServer, folder: Path, write_jsonl: Any, *options: str
) -> subprocess.Popen[str]:
    """Start the command line with 100 sums, of which the server answers the first 30 and no other."""
    slow = [{"match": r"^What is ([3-9]\d) \+", "steps": [{"delay_seconds": 3600}]}]
    scripted.script(rules=slow)
    path = write_jsonl(records(100))
    words = ["run", str(path), "-m", f"{MODEL}@{scripted.url}", "--out", str(folder), "--prompt", DATA["prompt"],
             "--targets", "{{sum}}", "--extract", "number", "--metric", "numeric_match"]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "evalframe", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OPENAI_COMPATIBLE_API_KEY": ""},
    )  # fmt: skip


def until(condition: Any, process: subprocess.Popen[str]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + GUARD
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_C072_twice_interrupted_nothing_paid_for_is_lost(scripted, tmp_path, write_jsonl) -> None:
    folder = tmp_path / "run"
    process = interrupted_command(scripted, folder, write_jsonl)
    until(lambda: scripted.stats()["sent"].get("200", 0) == 30 and scripted.stats()["in_flight"] == 8, process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    told = ""
    began = time.monotonic()
    while "interrupted" not in told:  # said at once: no call in flight has ended
        told += process.stderr.readline()
        assert time.monotonic() - began < GUARD
    assert scripted.stats()["in_flight"] == 8
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)  # now those in flight are not waited for
    stdout, stderr = process.communicate(timeout=GUARD)
    assert process.returncode == 130, (stdout, stderr)
    assert "Traceback" not in told + stderr
    assert f"evalframe resume {folder}" in told + stderr

    partial = ef.load(folder)
    assert partial.record["status"] == "partial"
    assert Counter(partial.generations["status"]) == {"completed": 30, "skipped": 70}
    row = partial.leaderboard().row(0, named=True)
    right = sum(default_text(prompt_of(i)) == str(i + 7) for i in range(30))
    assert (row["n_scored"], row["n_skipped"]) == (30, 70)
    assert row["mean_score"] == pytest.approx(right / 30)

    scripted.script()
    resumed = ef.resume(folder, progress=False)
    assert resumed.record["status"] == "complete"
    assert Counter(resumed.generations["status"]) == {"completed": 100}
    by_prompt = scripted.stats()["by_prompt"]
    assert {by_prompt[prompt_of(i)] for i in range(30)} == {1}  # none that was done is asked again


def test_C072_interrupted_once_those_in_flight_are_waited_for(scripted, tmp_path, write_jsonl) -> None:
    folder = tmp_path / "run"
    process = interrupted_command(scripted, folder, write_jsonl)
    scripted.script(rules=[{"match": r"^What is ([3-9]\d) \+", "steps": [{"delay_seconds": 1.0}]}])
    until(lambda: scripted.stats()["sent"].get("200", 0) >= 30 and scripted.stats()["in_flight"] == 8, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=GUARD)
    assert process.returncode == 130
    stats = scripted.stats()
    assert "lost" not in stats["sent"]
    partial = ef.load(folder)
    assert partial.record["status"] == "partial"
    assert Counter(partial.generations["status"])["completed"] == stats["sent"]["200"]
    assert stats["sent"]["200"] < 100


def test_C076_a_cached_row_keeps_its_latency_and_tokens_and_costs_nothing_now(ask, scripted) -> None:
    scripted.script(default={"delay_seconds": 0.3, "text": "7", "usage": {"input_tokens": 100, "output_tokens": 50}})
    options = {"cache": True, "prices": {MODEL: (10.0, 20.0)}}
    first = ask(2, out="first", **options).generations.row(0, named=True)
    second = ask(2, out="second", **options).generations.row(0, named=True)
    assert scripted.stats()["requests"] == 2
    assert (first["cached"], second["cached"]) == (False, True)
    assert first["latency_seconds"] >= 0.3
    assert second["latency_seconds"] == pytest.approx(first["latency_seconds"], abs=1e-6)
    for row in (first, second):
        assert (row["input_tokens"], row["output_tokens"]) == (100, 50)
    assert first["cost_usd"] == pytest.approx(0.002)
    assert second["cost_usd"] == 0.0
    assert second["cost_usd_original"] == pytest.approx(0.002)


def test_C076_an_unknown_price_is_null_and_not_0(ask, scripted) -> None:
    runs = [ask(1, out=out, cache=True).generations.row(0, named=True) for out in ("first", "second")]
    assert [row["cached"] for row in runs] == [False, True]
    assert runs[0]["cost_usd"] is None
    assert runs[1]["cost_usd_original"] is None


LONG = """
import sys
import evalframe as ef

rows = [{{"q": f"Say {{i}}", "a": str(i)}} for i in range({n})]
run = ef.run(rows, "openai-compatible/m@{url}", prompt="{{{{q}}}}", targets="{{{{a}}}}", metrics=["exact_match"],
             out="{out}", progress=False, cache={cache!r}, concurrency=16)
print(run.record["status"], run.leaderboard()["n_scored"].to_list())
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc for the peak of a process's memory")
def test_C077_texts_of_a_gigabyte_are_not_held_in_memory(scripted, tmp_path) -> None:
    n, chars = 50_000, 20_000
    scripted.script(default={"text_chars": chars}, record=False)
    folder = tmp_path / "run"
    code = LONG.format(n=n, url=scripted.url, out=folder, cache=str(tmp_path / "cache.sqlite"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    said, peak = done.stdout.splitlines()
    assert said == f"complete [{n}]"
    assert int(peak) / 1024 < 600
    journal = (folder / "journal.sqlite").stat().st_size
    assert journal < 1.5 * n * chars
    # the pace of the last calls is that of the first: nothing is read again and again
    started = pl.scan_parquet(folder / "generations" / "*.parquet").select("started_at").collect()["started_at"].sort()
    tenth = n // 10
    first, last = (started[2 * tenth] - started[tenth], started[-tenth] - started[-2 * tenth])
    assert last < 3 * first
    began = time.monotonic()
    assert ef.load(folder).scores["score"].sum() == 0
    assert time.monotonic() - began < GUARD


REFUSED = ["stop", "max_tokens", "temperature"]


def test_C078_dropped_and_renamed_parameters_and_no_hidden_defaults(ask, scripted) -> None:
    scripted.script(refuse=REFUSED, default={"text": "The answer is 7\n\nWhat is 9 + 9?"})
    model = {
        "model": f"{MODEL}@{scripted.url}", "drop": ["stop"], "rename": {"max_tokens": "max_completion_tokens"},
    }  # fmt: skip
    run = ask(3, model, generation={"max_output_tokens": 500, "stop": ["\n\n"]})
    assert run.generations["status"].to_list() == ["completed"] * 3
    assert run.generations["output_text"].to_list() == ["The answer is 7"] * 3  # the stop is applied here
    for one in scripted.recorded():
        assert one["body"] == {
            "model": "m", "messages": [{"role": "user", "content": one["prompt"]}], "max_completion_tokens": 500,
        }  # fmt: skip
    recorded = json.dumps(run.record["models"])
    assert "stop" in recorded
    assert "max_completion_tokens" in recorded


def test_C078_without_help_the_servers_own_words_are_told(ask, scripted) -> None:
    scripted.script(refuse=REFUSED)
    run = ask(3, generation={"temperature": 0.0})
    assert run.generations["error_type"].to_list() == ["bad_request"] * 3
    assert "'temperature' is not supported" in run.generations["error_message"][0]
    assert scripted.stats()["by_prompt"] == {prompt_of(i): 1 for i in range(3)}  # no use in asking again
