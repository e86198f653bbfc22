"""When a model is given up, what is said, and that the others and a resume go on."""

from __future__ import annotations

import threading
from typing import Any

import polars as pl
import pytest

from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.frames import check
from evalframe.generate.attempts import Done
from evalframe.generate.finished import Finished
from evalframe.generate.giving_up import FAILURES, SECONDS, Patience
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.schemas import GENERATIONS

TASK = TaskSpec("t", "qa", "?")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def ended(failure: BaseException | None = None, *, cached: bool = False) -> Done:
    """A finished call."""
    if failure is None:
        record = Finished(model_id="m", task_id="t", sample_index=0, repeat=0, status="completed", cached=cached)
        return Done(record, TASK, Generation("x"))
    error_type = failure.error_type if isinstance(failure, CallFailed) else "adapter_error"
    record = Finished(
        model_id="m", task_id="t", sample_index=0, repeat=0, status="failed", error_type=error_type,
        error_message=str(failure),
    )  # fmt: skip
    return Done(record, TASK, failure)


def failures(clock: Clock, patience: Patience, n: int, failure: BaseException, *, over: float) -> list[str]:
    """Let calls fail one after the other, over some seconds; gives what was said."""
    said = []
    for place in range(n):
        if message := patience.count([ended(failure)]):
            said.append(message)
        if place < n - 1:
            clock.now += over / (n - 1)
    return said


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def patience(clock) -> Patience:
    return Patience("m", monotonic=clock)


UNREACHABLE = CallFailed("connection", "127.0.0.1:1 can not be reached", unreachable=True)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (CallFailed("unauthorized", "HTTP 401: no such key", status=401), "unauthorized"),
        (CallFailed("unauthorized", "HTTP 403: not yours", status=403), "unauthorized"),
        (CallFailed("bad_request", "HTTP 404: no such model", status=404), "unavailable"),
        (CallFailed("bad_request", "HTTP 405: no calls here", status=405), "unavailable"),
        (CallFailed("bad_request", "HTTP 308: it redirects", status=308), "unavailable"),
        (CallFailed("rate_limited", "HTTP 429: quota", status=429, transient=False), "unavailable"),
        (UNREACHABLE, "unavailable"),
    ],
)
def test_a_wrong_key_name_or_address_is_seen_by_the_first_call(patience, failure, reason) -> None:
    message = patience.count([ended(failure)], preflight=True)
    assert message == f"m is given up: its first call failed: {failure}"
    assert patience.given_up == (reason, message)
    assert patience.count([ended(failure)], preflight=True) is None  # it is said once


@pytest.mark.parametrize(
    "failure",
    [
        CallFailed("bad_request", "HTTP 400", status=400),
        CallFailed("server_error", "HTTP 500", status=500),
        CallFailed("timeout", "slow"),
        CallFailed("connection", "reset"),
        CallFailed("rate_limited", "HTTP 429", status=429),
        CallFailed("rate_limited", "in 3,600 s", transient=False),
        ValueError("of an adapter"),
    ],
)
def test_another_failure_of_the_first_call_says_nothing_of_the_next(patience, failure) -> None:
    assert patience.count([ended(failure)], preflight=True) is None
    assert patience.given_up is None


def test_later_a_wrong_key_is_a_failure_like_others(patience) -> None:
    assert patience.count([ended(CallFailed("unauthorized", "no", status=401))]) is None


@pytest.mark.parametrize("failure", [CallFailed("timeout", "slow"), CallFailed("bad_reply", "html"), ValueError("x")])
def test_failures_in_a_row_over_a_minute(clock, patience, failure) -> None:
    (message,) = failures(clock, patience, FAILURES, failure, over=SECONDS + 0.5)
    assert message.startswith(f"m is given up: {FAILURES} calls in a row failed within 60 s: ")
    assert patience.given_up == ("unavailable", message)


def test_a_key_that_is_taken_away_is_named_as_such(clock, patience) -> None:
    failures(clock, patience, FAILURES, CallFailed("unauthorized", "revoked", status=401), over=SECONDS + 0.5)
    assert patience.given_up[0] == "unauthorized"


def test_many_failures_in_a_short_time_are_no_reason(clock, patience) -> None:
    assert failures(clock, patience, 500, CallFailed("timeout", "slow"), over=SECONDS - 1) == []


def test_few_failures_over_a_long_time_are_no_reason(clock, patience) -> None:
    assert failures(clock, patience, FAILURES - 1, CallFailed("timeout", "slow"), over=3_600) == []


def test_a_reply_in_between_begins_anew(clock, patience) -> None:
    slow = CallFailed("timeout", "slow")
    for _ in range(10):
        assert failures(clock, patience, FAILURES - 1, slow, over=SECONDS + 0.5) == []
        assert patience.count([ended()]) is None
    assert len(failures(clock, patience, FAILURES, slow, over=SECONDS + 0.5)) == 1


def test_a_reply_from_the_cache_says_nothing_of_the_server(clock, patience) -> None:
    slow = CallFailed("timeout", "slow")
    failures(clock, patience, FAILURES - 1, slow, over=SECONDS + 0.5)
    patience.count([ended(cached=True)])
    assert patience.count([ended(slow)]) is not None


@pytest.mark.parametrize(
    "failure",
    [
        CallFailed("bad_request", "HTTP 400: too long", status=400),
        CallFailed("bad_request", "HTTP 422", status=422),
        CallFailed("missing_output", "not stored"),
    ],
)
def test_what_is_the_sample_s_own_fault_is_not_counted(clock, patience, failure) -> None:
    assert failures(clock, patience, 100, failure, over=3_600) == []
    slow = CallFailed("timeout", "slow")
    failures(clock, patience, FAILURES - 1, slow, over=SECONDS + 0.5)
    assert patience.count([ended(failure)]) is None  # nor does it begin anew
    assert patience.count([ended(slow)]) is not None


def test_a_model_that_is_gone_is_counted(clock, patience) -> None:
    gone = CallFailed("bad_request", "HTTP 404: no such model", status=404)
    assert len(failures(clock, patience, FAILURES, gone, over=SECONDS + 0.5)) == 1


def test_a_rate_limit_that_no_call_can_wait_for_needs_no_minute(clock, patience) -> None:
    shut = CallFailed("rate_limited", "the server asks to wait 86,400 s", transient=False)
    assert failures(clock, patience, FAILURES - 1, shut, over=0) == []
    assert patience.count([ended(shut)]) is not None


def test_a_model_is_given_up_once_whatever_the_threads(clock, patience) -> None:
    clock.now = 0.0
    patience.count([ended(CallFailed("timeout", "slow"))])
    clock.now = 100.0
    said: list[str] = []

    def work() -> None:
        said.extend(filter(None, [patience.count([ended(CallFailed("timeout", "slow"))]) for _ in range(50)]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 1


# in a run


class Remote:
    """A model of a server; ``answer`` is what that does."""

    endpoint = "http://127.0.0.1:9/v1"

    def __init__(self, model_id: str, answer: Any) -> None:
        self.model_id, self.answer = model_id, answer
        self.lock = threading.Lock()
        self.n = 0

    def generate(self, prompt: str, task: TaskSpec) -> Any:
        with self.lock:
            self.n += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(prompt, task)


def run(rows: pl.DataFrame, models: list[Any], journal: Any, **options: Any) -> tuple[Any, pl.DataFrame]:
    options = {"preflight": True, "monotonic": Clock()} | options
    summary = generate(rows, adapters=models, journal=journal, options=GenerateOptions(**options))
    return summary, check(journal.generations(), GENERATIONS)


@pytest.mark.parametrize("parallel", [True, False])
def test_a_wrong_key_costs_one_call_and_the_others_go_on(make_rows, journal, parallel) -> None:
    wrong = Remote("wrong", CallFailed("unauthorized", "HTTP 401: no such key", status=401))
    right = Remote("right", lambda prompt, task: Generation("x"))
    summary, generations = run(make_rows({"a": 30}), [wrong, right], journal, parallel=parallel)
    assert wrong.n == 1
    assert summary.counts == {"wrong": {"failed": 1, "skipped": 29}, "right": {"completed": 30}}
    assert "HTTP 401: no such key" in summary.given_up["wrong"]
    skipped = generations.filter(pl.col("status") == "skipped")
    assert skipped["error_type"].unique().to_list() == ["unauthorized"]
    assert skipped["error_message"].unique().to_list() == [summary.given_up["wrong"]]
    assert skipped["attempts"].sum() == 0


def test_a_resume_asks_again(make_rows, journal) -> None:
    rows = make_rows({"a": 30})
    run(rows, [Remote("m", UNREACHABLE)], journal)
    awake = Remote("m", lambda prompt, task: Generation("x"))
    summary, _ = run(rows, [awake], journal)
    assert awake.n == 29  # a failed call is finished, a skipped one is not
    assert summary.counts == {"m": {"failed": 1, "completed": 29}}
    assert not summary.given_up
    assert not summary.interrupted


def test_without_preflight_calls_begin_at_once(make_rows, journal) -> None:
    meet = threading.Barrier(4)

    def answer(prompt: str, task: TaskSpec) -> Generation:
        meet.wait(60)
        return Generation("x")

    summary, _ = run(make_rows({"a": 4}), [Remote("m", answer)], journal, preflight=False, concurrency=4)
    assert summary.counts == {"m": {"completed": 4}}


def test_with_it_the_first_call_is_made_alone(make_rows, journal) -> None:
    inside, alone = [], []
    lock = threading.Lock()

    def answer(prompt: str, task: TaskSpec) -> Generation:
        with lock:
            inside.append(task.sample_index)
            alone.append(len(inside))
        with lock:
            inside.remove(task.sample_index)
        return Generation("x")

    run(make_rows({"a": 20}), [Remote("m", answer)], journal, concurrency=8)
    assert alone[0] == 1
    assert len(alone) == 20


def test_a_day_s_quota_ends_the_run_at_once_and_loses_few_samples(make_rows, journal) -> None:
    spent = CallFailed("rate_limited", "HTTP 429: per day", status=429, retry_after_seconds=86_400)
    model = Remote("m", spent)
    summary, generations = run(make_rows({"a": 500}), [model], journal, max_retries=3, concurrency=4)
    assert model.n == 1
    failed = generations.filter(pl.col("status") == "failed")
    assert failed["error_type"].unique().to_list() == ["rate_limited"]
    assert FAILURES <= failed.height < FAILURES + 4
    assert "86,400 s" in summary.given_up["m"]
    assert generations.height == 500


def test_a_server_that_dies_in_the_middle(make_rows, journal) -> None:
    clock = Clock()

    def answer(prompt: str, task: TaskSpec) -> Generation:
        if task.sample_index < 10:
            return Generation("x")
        clock.now += 4.0
        raise CallFailed("timeout", "slow")

    model = Remote("m", answer)
    summary, _ = run(make_rows({"a": 100}), [model], journal, parallel=False, monotonic=clock)
    assert model.n == 10 + FAILURES
    assert summary.counts == {"m": {"completed": 10, "failed": FAILURES, "skipped": 70}}
    assert summary.interrupted


def test_calls_that_wait_when_a_model_is_given_up_are_not_made_and_a_resume_asks_again(make_rows, journal) -> None:
    """One worker waits for a quarter of an hour, the other sees that the model is gone."""
    clock, waits = Clock(), threading.Event()
    slow = CallFailed("server_error", "HTTP 503", status=503, retry_after_seconds=900.0)

    def answer(prompt: str, task: TaskSpec) -> Generation:
        if task.sample_index == 0:
            waits.set()
            raise slow
        assert waits.wait(60)
        clock.now += 10.0
        raise CallFailed("bad_reply", "html")

    summary, generations = run(
        make_rows({"a": 40}), [Remote("m", answer)], journal, preflight=False, concurrency=2, max_retries=1,
        max_rate_limit_wait_seconds=1_000, monotonic=clock,
    )  # fmt: skip
    assert "20 calls in a row failed" in summary.given_up["m"]
    assert generations.filter(sample_index=0)["status"].to_list() == ["skipped"]
    assert summary.counts == {"m": {"failed": FAILURES, "skipped": 40 - FAILURES}}
