"""Cases from the field of kind e, running: what can be held without a server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import polars as pl
import pytest

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.callables import from_callable
from evalframe.frames import check
from evalframe.generate.journal import Journal
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.schemas import GENERATIONS, ROWS

GUARD = 60.0  # seconds until a test that hangs fails


def make_rows(n: int) -> pl.DataFrame:
    prompts = [f"question {index}" for index in range(n)]
    records = [
        {
            "task_id": "t", "sample_index": index, "sample_id": str(index), "category": "qa", "prompt": prompt,
            "prompt_hash": hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest(), "target": "x",
            "targets": ["x"], "choices": None, "extraction": '{"type":"none"}', "row": json.dumps({"id": index}),
            "metrics": [{"id": "exact_match", "aggregation": "mean", "higher_is_better": True}], "metadata": "{}",
        }
        for index, prompt in enumerate(prompts)
    ]  # fmt: skip
    return check(pl.DataFrame(records, schema=ROWS.dtypes), ROWS)


@pytest.fixture
def run(tmp_path):
    """Run functions as models on n rows, each time with a journal of its own, or with a named one."""
    numbers = count()

    def run_once(fn, n: int, *, journal: str | None = None, **options) -> pl.DataFrame:
        path = tmp_path / (journal or f"journal_{next(numbers)}")
        with Journal.open(path) as opened:
            generate(
                make_rows(n), adapters=[from_callable("m", fn)], journal=opened, options=GenerateOptions(**options)
            )
            return check(opened.generations(), GENERATIONS)

    return run_once


def test_C019_reasoning_is_not_in_the_text_that_is_graded(run) -> None:
    replies = [
        "<think>Could be A, yes A.</think>\nB",
        "<think>It is A. The answer is A",
        "<think>\nhmm\n</think>\n\nLisbon\nMore text",
    ]
    generations = run(lambda prompt, task: replies[task.sample_index], 3)
    assert [text.strip() for text in generations["output_text"]] == ["B", "", "Lisbon\nMore text"]
    assert generations["reasoning"].to_list() == ["Could be A, yes A.", "It is A. The answer is A", "hmm"]
    assert generations["finish_reason"].to_list() == [None, "truncated_reasoning", None]
    assert generations["status"].to_list() == ["completed"] * 3


def test_C063_a_failed_row_stays_in_the_count(run) -> None:
    def answer(prompt, task):
        if task.sample_index == 9:
            raise CallFailed("connection", "the server hung up")
        return "right" if task.sample_index < 6 else "wrong"

    generations = run(answer, 10)
    assert generations.height == 10
    assert generations["status"].value_counts(sort=True).rows() == [("completed", 9), ("failed", 1)]
    failed = generations.filter(pl.col("status") == "failed").row(0, named=True)
    assert (failed["sample_index"], failed["error_type"]) == (9, "connection")
    assert failed["output_text"] is None


def test_C066_repeats_are_calls_of_their_own_and_a_second_run_makes_none(run) -> None:
    counter, calls = count(1), []

    def answer(prompt):
        calls.append(prompt)
        return str(next(counter))

    first = run(answer, 1, journal="same", repeats=5, parallel=False)
    assert first["output_text"].to_list() == ["1", "2", "3", "4", "5"]
    second = run(answer, 1, journal="same", repeats=5)
    assert len(calls) == 5
    assert second.equals(first)


@pytest.mark.parametrize("hidden", ["", None])
def test_C068_no_answer_for_want_of_tokens_is_told_apart_from_a_wrong_one(run, hidden) -> None:
    def answer(prompt, task):
        if task.sample_index:
            return Generation("", reasoning=hidden, finish_reason="length", output_tokens=64, reasoning_tokens=64)
        return Generation("right", finish_reason="stop")

    generations = run(answer, 4)
    assert generations["finish_reason"].to_list() == ["stop"] + ["truncated_no_answer"] * 3
    assert generations["status"].unique().to_list() == ["completed"]
    assert generations["reasoning_tokens"].to_list() == [None, 64, 64, 64]


@pytest.mark.parametrize(("concurrency", "at_once"), [(8, 8), (1, 1), (25, 25), (None, 8)])
def test_C070_no_more_calls_are_in_flight_than_allowed(run, concurrency, at_once) -> None:
    lock, full = threading.Lock(), threading.Event()
    in_flight, peak, deadlines = 0, 0, []

    def answer(prompt, task):
        nonlocal in_flight, peak
        with lock:
            in_flight += 1
            peak = max(peak, in_flight)
            deadlines.append(task.deadline)
            if in_flight == at_once:
                full.set()
        # nobody leaves before as many are in as may be: so the bound is reached, and a larger one would be seen
        assert full.wait(GUARD)
        with lock:
            in_flight -= 1
        return "x"

    ticks = count()
    generations = run(answer, 500, concurrency=concurrency, timeout_seconds=5, monotonic=lambda: float(next(ticks)))
    assert generations["status"].unique().to_list() == ["completed"]
    assert peak == at_once
    # the clock of a call starts when it is made: the last deadlines are as late as the last calls
    assert max(deadlines) > 500


def test_C070_the_bound_is_one_for_all_models(tmp_path) -> None:
    lock, full = threading.Lock(), threading.Event()
    in_flight, peak = 0, 0

    def answer(prompt):
        nonlocal in_flight, peak
        with lock:
            in_flight += 1
            peak = max(peak, in_flight)
            if in_flight == 3:
                full.set()
        assert full.wait(GUARD)
        with lock:
            in_flight -= 1
        return "x"

    models = [from_callable(f"m{number}", answer) for number in range(5)]
    with Journal.open(tmp_path / "journal") as journal:
        summary = generate(make_rows(20), adapters=models, journal=journal, options=GenerateOptions(concurrency=3))
    assert peak == 3
    assert summary.counts == {f"m{number}": {"completed": 20} for number in range(5)}


def answer_upper(prompt: str) -> str:
    return prompt.upper()


def in_the_script(work):
    return work()


def in_a_worker_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(GUARD)


def inside_a_running_loop(work):
    async def main():
        return work()

    return asyncio.run(main())


def awaited_from_a_loop(work):
    async def main():
        return await asyncio.to_thread(work)

    return asyncio.run(main())


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    "where", [in_the_script, in_a_worker_thread, inside_a_running_loop, awaited_from_a_loop], ids=lambda f: f.__name__
)
def test_C075_works_wherever_it_is_called_and_twice(run, new_threads, where, parallel) -> None:
    frames = [where(lambda: run(answer_upper, 30, parallel=parallel)) for _ in range(2)]
    for generations in frames:
        assert generations["output_text"][3] == "QUESTION 3"
        assert generations.height == 30
    assert not new_threads()
