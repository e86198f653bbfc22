"""Stopping a run: what is in flight is kept, what was not called is said, and no thread stays."""

from __future__ import annotations

import signal
import threading

import polars as pl
import pytest

from evalframe.adapters import Generation
from evalframe.errors import RunFolderError
from evalframe.frames import check
from evalframe.generate import lanes
from evalframe.generate.ledger import Ledger
from evalframe.generate.progress import Progress
from evalframe.generate.threads import GenerateOptions, generate, record_missing
from evalframe.schemas import GENERATIONS


def run(rows, adapters, journal, **options) -> None:
    generate(rows, adapters=adapters, journal=journal, options=GenerateOptions(**options))


@pytest.mark.parametrize("parallel", [True, False])
def test_a_stop_finishes_what_is_in_flight_and_records_the_rest_as_skipped(make_rows, Model, journal, parallel) -> None:
    rows, stop = make_rows({"a": 50}), threading.Event()

    def answer(prompt, task):
        stop.set()
        return Generation("paid for")

    model = Model(answer)
    summary = generate(
        rows, adapters=[model], journal=journal, options=GenerateOptions(stop=stop, parallel=parallel, concurrency=2)
    )
    generations = check(journal.generations(), GENERATIONS)
    assert summary.interrupted
    assert generations.height == 50
    assert 1 <= len(model.seen) <= 2
    assert generations.filter(pl.col("status") == "completed").height == len(model.seen)
    skipped = generations.filter(pl.col("status") == "skipped")
    assert skipped["error_type"].unique().to_list() == ["interrupted"]
    assert "resume" in skipped["error_message"][0]
    assert skipped["attempts"].sum() == 0
    assert skipped["started_at"].null_count() == skipped.height


@pytest.mark.parametrize("parallel", [True, False])
def test_an_interrupt_waits_for_calls_in_flight_and_is_raised_again(
    make_rows, Model, journal, monkeypatch, new_threads, parallel
) -> None:
    crews = []

    class Crew(lanes._Crew):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            crews.append(self)

    def answer(prompt, task):
        if task.sample_index == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        assert crews[0].halt.wait(60)
        return Generation("paid for")

    monkeypatch.setattr(lanes, "_Crew", Crew)
    model = Model(answer)
    with pytest.raises(KeyboardInterrupt):
        run(make_rows({"a": 40}), [model], journal, concurrency=3, parallel=parallel)
    assert not new_threads()
    generations = check(journal.generations(), GENERATIONS)
    assert 1 <= len(model.seen) <= 3
    assert generations["output_text"].count() == len(model.seen)
    assert generations["status"].value_counts(sort=True).rows()[0] == ("skipped", 40 - len(model.seen))


@pytest.mark.parametrize("parallel", [True, False])
def test_a_call_that_goes_on_for_long_after_an_interrupt_is_waited_for(
    make_rows, Model, journal, new_threads, parallel
) -> None:
    never = threading.Event()

    def answer(prompt, task):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        never.wait(0.5)  # the call lasts, while the calling thread waits for it again
        return Generation("paid for")

    with pytest.raises(KeyboardInterrupt):
        run(make_rows({"a": 5}), [Model(answer)], journal, concurrency=1, parallel=parallel)
    assert not new_threads()
    assert journal.generations()["output_text"].to_list() == ["paid for", None, None, None, None]


def test_a_worker_whose_start_an_interrupt_cut_short_is_waited_for(journal) -> None:
    crew = lanes._Crew(journal, Progress(0, show=False), Ledger({}), threading.Event(), None)

    class Slow(threading.Thread):
        def start(self) -> None:  # the thread begins after the interrupt
            launch = super().start
            threading.Thread(target=lambda: crew.halt.wait(60) and launch()).start()
            raise KeyboardInterrupt

    class Idle:
        opened = threading.Event()

        def leads(self) -> bool:
            return True

        def take(self) -> list[object]:
            raise AssertionError("no call begins after an interrupt")

    worker = Slow(target=crew.work, args=(Idle(),))
    assert isinstance(crew.run([worker]), KeyboardInterrupt)
    assert worker.ident is not None  # it began
    assert not worker.is_alive()


def test_an_error_of_the_journal_ends_the_run_and_no_thread_is_left(make_rows, Model, journal, new_threads) -> None:
    def answer(prompt, task):
        journal.close()
        return Generation("x")

    with pytest.raises(RunFolderError, match="journal"):
        run(make_rows({"a": 30}), [Model(answer)], journal)
    assert not new_threads()


def test_missing_calls_are_recorded_and_counted(rows, Model, journal, make_rows) -> None:
    run(make_rows({"a": 2}), [Model()], journal)
    for _ in range(2):  # doing it again changes nothing
        assert record_missing(rows, model_ids=["m"], journal=journal) == 3
        assert journal.generations()["status"].to_list() == ["completed"] * 2 + ["skipped"] * 3
    run(rows, [Model()], journal)
    assert record_missing(rows, model_ids=["m"], journal=journal) == 0
