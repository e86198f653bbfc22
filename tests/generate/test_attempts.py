"""One call and its attempts, on a clock that only moves when something waits: nothing here sleeps."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from evalframe.adapters import TRANSIENT, CallFailed, Generation, TaskSpec
from evalframe.generate.attempts import Caller
from evalframe.generate.limiter import Limiter, Pace
from evalframe.generate.outcomes import Judge, Notes
from evalframe.generate.progress import Progress
from evalframe.generate.reasoning import reasoning_tags
from evalframe.generate.retry import RetryPolicy
from evalframe.words import CallError

WHEN = datetime(2026, 12, 1, tzinfo=UTC)
USAGE = {"input_tokens": 10, "output_tokens": 4, "cached_tokens": 0, "reasoning_tokens": 3}


class World:
    """The crew of a call: time goes by when it waits, and at once. A test may end it at a wait, or at an attempt."""

    def __init__(self, *, stops_at_wait: int | None = None, ended_in_queue: bool = False) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.held = self.most_held = 0
        self.held_while_waiting = False
        self.progress = Progress(0, show=False)
        self.stops_at_wait = stops_at_wait
        self.ended_in_queue = ended_in_queue
        self.is_ended = False

    def wait(self, seconds: float) -> bool:
        self.held_while_waiting |= self.held > 0
        if self.stops_at_wait is not None and len(self.waits) >= self.stops_at_wait:
            self.is_ended = True
            return False
        self.waits.append(seconds)
        self.now += seconds
        return True

    def ended(self) -> bool:
        return self.is_ended

    def acquire(self) -> None:
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        self.is_ended |= self.ended_in_queue

    def release(self) -> None:
        self.held -= 1


class Model:
    """Does one thing after the other; the last one again and again."""

    def __init__(self, world: World, *outcomes: Any, seconds: float = 0.0) -> None:
        self.model_id = "m"
        self.world, self.outcomes, self.seconds = world, list(outcomes), seconds
        self.seen: list[TaskSpec] = []
        self.times: list[float] = []

    def generate(self, prompt: str, task: TaskSpec) -> Any:
        self.seen.append(task)
        self.times.append(self.world.now)
        self.world.now += self.seconds
        outcome = self.outcomes[min(len(self.seen), len(self.outcomes)) - 1]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def cost(*tokens: int | None) -> float | None:
    """One dollar a token."""
    return None if tokens[0] is None or tokens[1] is None else float(tokens[0] + tokens[1])


def caller(world: World, adapter: Any, *, pace: Pace | None = None, limiter: Any = ..., **options: Any) -> Caller:
    policy = {"max_retries": 3, "max_empty_retries": 0, "random": lambda: 0.0} | options
    timeout_seconds = policy.pop("timeout_seconds", None)
    if limiter is ...:
        limiter = Limiter(monotonic=lambda: world.now, random=lambda: 0.0) if policy["max_retries"] else None
    return Caller(
        adapter=adapter,
        judge=Judge("m", None, reasoning_tags(["think"]), Notes(), cost=cost),
        policy=RetryPolicy(**policy),
        pace=pace or Pace(requests_per_minute=None, tokens_per_minute=None, monotonic=lambda: world.now),
        limiter=limiter,
        timeout_seconds=timeout_seconds,
        batch=hasattr(adapter, "generate_batch"),
        monotonic=lambda: world.now,
        now=lambda: WHEN,
    )


def tasks(n: int = 1) -> list[TaskSpec]:
    return [TaskSpec("t", "qa", f"prompt {i}", sample_index=i) for i in range(n)]


def call(world: World, adapter: Any, **options: Any) -> Any:
    """Make one call; gives its record, or None where it was not made."""
    done = caller(world, adapter, **options).call(tasks(), world)
    assert world.held == 0
    assert not world.held_while_waiting
    assert world.progress.in_flight == 0
    return done[0].finished if done else None


# each error word


@pytest.mark.parametrize("error_type", get_args(CallError))
def test_what_may_pass_is_tried_again_and_nothing_else(error_type) -> None:
    world = World()
    failure = CallFailed(error_type, "no")
    record = call(world, Model(world, failure), max_retries=2, limiter=None)
    assert (record.status, record.error_type, record.error_message) == ("failed", error_type, "no")
    assert record.attempts == (3 if error_type in TRANSIENT else 1)
    assert world.waits == ([0.25, 0.5] if error_type in TRANSIENT else [])
    assert world.progress.retries == record.attempts - 1


@pytest.mark.parametrize(("transient", "attempts"), [(True, 4), (False, 1)])
def test_the_failure_itself_may_say_whether_to_try_again(transient, attempts) -> None:
    world = World()
    record = call(world, Model(world, CallFailed("bad_request", "409", status=409, transient=transient)))
    assert record.attempts == attempts


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(2), KeyboardInterrupt()])
def test_an_exception_that_is_not_of_the_network_is_not_tried_again(error) -> None:
    world = World()
    record = call(world, Model(world, error))
    assert (record.error_type, record.attempts) == ("adapter_error", 1)


@pytest.mark.parametrize(("error", "error_type"), [(TimeoutError(), "timeout"), (ConnectionResetError(), "connection")])
def test_time_outs_and_broken_connections_of_other_adapters_are_tried_again(error, error_type) -> None:
    world = World()
    assert call(world, Model(world, error, Generation("x"))).output_text == "x"
    world = World()
    record = call(world, Model(world, error))
    assert (record.error_type, record.attempts) == (error_type, 4)


def test_a_call_that_succeeds_in_the_end_is_completed() -> None:
    world = World()
    model = Model(
        world, CallFailed("timeout", "a"), CallFailed("server_error", "b"), Generation("x", **USAGE), seconds=2
    )
    record = call(world, model)
    assert (record.status, record.output_text, record.attempts) == ("completed", "x", 3)
    assert record.error_type is None
    assert record.input_tokens == 10
    assert record.latency_seconds == 2  # of the last attempt, without waits
    assert record.started_at == WHEN


def test_what_a_server_in_trouble_asks_for_is_a_minimum_wait() -> None:
    world = World()
    model = Model(world, CallFailed("server_error", "503", retry_after_seconds=9.0), Generation("x"))
    assert call(world, model).attempts == 2
    assert world.waits == [9.0]


def test_a_server_in_trouble_is_not_waited_for_beyond_the_cap_in_all() -> None:
    world = World()
    model = Model(world, CallFailed("server_error", "503", retry_after_seconds=40.0))
    record = call(world, model, max_retries=10, max_rate_limit_wait_seconds=100)
    assert record.attempts == 3
    assert sum(world.waits) == 80


# rate limits


def limited(seconds: float | None = None) -> CallFailed:
    return CallFailed("rate_limited", "HTTP 429: slow down", status=429, retry_after_seconds=seconds)


def test_a_429_burns_no_retries() -> None:
    world = World()
    record = call(world, Model(world, *[limited(2.0)] * 6, Generation("x")), max_retries=1)
    assert (record.status, record.attempts) == ("completed", 7)
    assert len(world.waits) == 6
    assert min(world.waits) >= 2


@pytest.mark.parametrize("hint", [None, 0.0, 5.0])
def test_without_retries_a_429_is_one_request_and_no_wait(hint) -> None:
    world = World()
    model = Model(world, limited(hint))
    record = call(world, model, max_retries=0)
    assert (record.error_type, record.attempts, len(model.seen)) == ("rate_limited", 1, 1)
    assert world.waits == []


def test_a_hint_beyond_the_cap_is_no_wait() -> None:
    world = World()
    record = call(world, Model(world, limited(86_400)), max_rate_limit_wait_seconds=300)
    assert (record.error_type, record.attempts) == ("rate_limited", 1)
    assert "HTTP 429: slow down" in record.error_message
    assert "86,400 s" in record.error_message
    assert "max_rate_limit_wait_seconds = 300" in record.error_message
    assert world.waits == []


@pytest.mark.parametrize("hint", [None, 0.0, 7.0, 299.0])
def test_a_call_waits_for_rate_limits_at_most_so_long_in_all(hint) -> None:
    world = World()
    record = call(world, Model(world, limited(hint)))
    assert record.error_type == "rate_limited"
    assert world.now <= 300
    assert record.attempts < 60


def test_a_quota_that_is_used_up_is_not_waited_for() -> None:
    world = World()
    record = call(world, Model(world, CallFailed("rate_limited", "quota", status=429, transient=False)))
    assert (record.error_type, record.attempts, world.waits) == ("rate_limited", 1, [])


def test_the_wait_of_one_model_holds_for_the_other_at_the_same_endpoint() -> None:
    world = World()
    shared = Limiter(monotonic=lambda: world.now, random=lambda: 0.0)
    shared.throttled(shared.enter(), 30.0)
    other = Model(world, Generation("y"))
    assert call(world, other, limiter=shared).attempts == 1
    assert other.times == [30.0]


def test_a_quota_of_the_day_holds_for_its_model_alone() -> None:
    world = World()
    shared = Limiter(monotonic=lambda: world.now, random=lambda: 0.0)
    model = Model(world, limited(86_400))
    engine = caller(world, model, limiter=shared)
    records = [done.finished for _ in range(3) for done in engine.call(tasks(), world)]
    assert [record.error_type for record in records] == ["rate_limited"] * 3
    assert [record.attempts for record in records] == [1, 0, 0]  # it is asked no more
    assert call(world, Model(world, Generation("y")), limiter=shared).output_text == "y"
    assert world.waits == []


def test_a_call_that_can_not_be_sent_for_too_long_says_so() -> None:
    world = World()
    shared = Limiter(monotonic=lambda: world.now, random=lambda: 0.0)
    shared.throttled(shared.enter(), 3_600)
    record = call(world, Model(world, Generation("x")), limiter=shared)
    assert (record.status, record.error_type, record.attempts) == ("failed", "rate_limited", 0)
    assert record.latency_seconds is None
    assert "3,600 s" in record.error_message


def test_while_enough_are_in_flight_a_call_waits_without_a_place() -> None:
    world = World()
    shared = Limiter(monotonic=lambda: world.now, random=lambda: 0.0)
    shared.throttled(shared.enter(), 1.0)
    world.now = 1.0
    other = shared.enter()  # the one that may

    waited = world.wait

    def wait(seconds: float) -> bool:
        if len(world.waits) == 3:
            shared.leave(other, succeeded=True)
        return waited(seconds)

    world.wait = wait  # type: ignore[method-assign]
    assert call(world, Model(world, Generation("x")), limiter=shared).status == "completed"
    assert len(world.waits) == 4


# a pace


def test_each_attempt_takes_a_place_in_time() -> None:
    world = World()
    pace = Pace(requests_per_minute=6, tokens_per_minute=None, monotonic=lambda: world.now)
    model = Model(world, CallFailed("timeout", "a"), CallFailed("timeout", "b"), Generation("x"))
    call(world, model, pace=pace)
    assert model.times == [0, 10, 20]


def test_a_rate_limit_and_a_pace_together_keep_the_pace() -> None:
    world = World()
    pace = Pace(requests_per_minute=60, tokens_per_minute=None, monotonic=lambda: world.now)
    shared = Limiter(monotonic=lambda: world.now, random=lambda: 0.0)
    shared.throttled(shared.enter(), 30.0)
    model = Model(world, Generation("x"))
    for _ in range(3):
        call(world, model, pace=pace, limiter=shared)
    assert model.times == [30, 31, 32]


def test_tokens_of_failed_calls_teach_the_pace_nothing() -> None:
    world = World()
    pace = Pace(requests_per_minute=None, tokens_per_minute=600, monotonic=lambda: world.now)
    task = TaskSpec("t", "qa", "x" * 40, generation={"max_output_tokens": 90})
    engine = caller(world, Model(world, CallFailed("bad_request", "no"), Generation("x", **USAGE)), pace=pace)
    engine.call([task], world)
    assert pace.reserve(input_tokens=0, max_output_tokens=90) == (pytest.approx(10), 90)


# empty replies


@pytest.mark.parametrize("text", ["", " \n", "<think>all of it</think>", "<think>never ends"])
def test_an_empty_reply_is_asked_for_again_and_its_tokens_are_paid(text) -> None:
    world = World()
    model = Model(world, Generation(text, **USAGE), Generation("x", **USAGE))
    record = call(world, model, max_empty_retries=2, max_retries=0)
    assert (record.status, record.output_text, record.attempts) == ("completed", "x", 2)
    assert (record.input_tokens, record.output_tokens, record.reasoning_tokens) == (20, 8, 6)
    assert record.cost_usd == 28
    assert len(world.waits) == 1


@pytest.mark.parametrize("text", ["", "<think>all of it</think>"])
def test_still_empty_it_is_a_completed_sample(text) -> None:
    world = World()
    record = call(world, Model(world, Generation(text, **USAGE)), max_empty_retries=2)
    assert (record.status, record.output_text, record.attempts) == ("completed", "", 3)
    assert record.input_tokens == 30


@pytest.mark.parametrize(
    "reply",
    [Generation("", tool_calls=[{"name": "f"}]), Generation("x"), Generation("<think>a</think>b"), Generation(None)],
)
def test_other_replies_are_not_asked_for_again(reply) -> None:
    world = World()
    assert call(world, Model(world, reply), max_empty_retries=2).attempts == 1


def test_a_part_of_the_usage_that_is_not_told_makes_the_sum_null() -> None:
    world = World()
    model = Model(world, Generation("", input_tokens=10), Generation("x", **USAGE))
    record = call(world, model, max_empty_retries=1)
    assert (record.input_tokens, record.output_tokens) == (20, None)


def test_failures_and_empty_replies_are_counted_apart() -> None:
    world = World()
    failure = CallFailed("server_error", "500")
    model = Model(world, failure, Generation(""), failure, Generation(""), Generation("x"))
    record = call(world, model, max_retries=2, max_empty_retries=2)
    assert (record.output_text, record.attempts) == ("x", 5)


def test_a_failure_after_an_empty_reply_keeps_what_that_took() -> None:
    world = World()
    model = Model(world, Generation("", **USAGE), CallFailed("bad_request", "no"))
    record = call(world, model, max_empty_retries=1)
    assert (record.status, record.input_tokens, record.cost_usd) == ("failed", 10, 14)


def test_an_empty_reply_is_better_than_a_wait_beyond_the_cap() -> None:
    world = World()
    shared = Limiter(monotonic=lambda: world.now, random=lambda: 0.0)
    model = Model(world, Generation("", **USAGE))
    generate = model.generate

    def answer(prompt: str, task: TaskSpec) -> Any:
        shared.throttled(shared.enter(), 3_600)  # another call is told to wait
        return generate(prompt, task)

    model.generate = answer  # type: ignore[method-assign]
    record = call(world, model, limiter=shared, max_empty_retries=1)
    assert (record.status, record.output_text, record.input_tokens) == ("completed", "", 10)


# stops


def test_a_stop_while_a_failed_call_waits_leaves_it_to_a_resume() -> None:
    world = World(stops_at_wait=0)
    model = Model(world, CallFailed("timeout", "a"))
    assert call(world, model) is None
    assert len(model.seen) == 1


def test_a_stop_while_a_rate_limit_lasts_leaves_it_to_a_resume() -> None:
    world = World(stops_at_wait=1)
    assert call(world, Model(world, limited(2.0))) is None
    assert world.waits == [2.0]


def test_a_stop_after_an_empty_reply_keeps_it_and_counts_its_tokens_once() -> None:
    world = World(stops_at_wait=0)
    record = call(world, Model(world, Generation("", **USAGE)), max_empty_retries=3)
    assert (record.status, record.output_text, record.attempts) == ("completed", "", 1)
    assert (record.input_tokens, record.cost_usd) == (10, 14)


def test_a_stop_after_an_empty_reply_and_a_failure_keeps_what_was_paid() -> None:
    world = World(stops_at_wait=1)
    model = Model(world, Generation("", **USAGE), CallFailed("timeout", "a"))
    record = call(world, model, max_empty_retries=1)
    assert (record.status, record.error_type, record.attempts) == ("failed", "timeout", 2)
    assert (record.input_tokens, record.cost_usd) == (10, 14)


def test_a_stop_while_a_call_queues_for_a_place_in_flight_lets_it_not_begin() -> None:
    world = World(ended_in_queue=True)
    model = Model(world, Generation("x"))
    assert call(world, model) is None
    assert model.seen == []


def test_nothing_begins_after_a_stop() -> None:
    world = World()
    world.is_ended = True
    model = Model(world, Generation("x"))
    assert call(world, model) is None
    assert model.seen == []


# batches


class Batcher(Model):
    batch_size = 3

    def generate_batch(self, prompts: list[str], specs: list[TaskSpec]) -> Any:
        return [self.generate(prompt, spec) for prompt, spec in zip(prompts, specs, strict=True)]


def in_batches(world: World, *rounds: Any, **options: Any) -> tuple[list[Any], list[list[str]]]:
    model = Batcher(world)
    asked: list[list[str]] = []

    def answer(prompts: list[str], specs: list[TaskSpec]) -> Any:
        asked.append(prompts)
        outcome = rounds[len(asked) - 1]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    model.generate_batch = answer  # type: ignore[method-assign]
    done = caller(world, model, **options).call(tasks(3), world)
    return sorted((one.finished for one in done), key=lambda record: record.sample_index), asked


def test_only_the_items_of_a_batch_that_failed_are_asked_for_again() -> None:
    world = World()
    records, asked = in_batches(
        world,
        [Generation("a"), CallFailed("server_error", "500"), CallFailed("bad_request", "no")],
        [Generation("b")],
    )
    assert asked == [["prompt 0", "prompt 1", "prompt 2"], ["prompt 1"]]
    assert [(r.output_text, r.error_type, r.attempts) for r in records] == [
        ("a", None, 1), ("b", None, 2), (None, "bad_request", 1),
    ]  # fmt: skip


def test_a_batch_that_fails_as_a_whole_is_sent_again() -> None:
    world = World()
    records, asked = in_batches(world, CallFailed("timeout", "slow"), [Generation(text) for text in "abc"])
    assert [r.output_text for r in records] == ["a", "b", "c"]
    assert [len(prompts) for prompts in asked] == [3, 3]
    assert world.progress.retries == 3


def test_the_empty_items_of_a_batch_are_asked_for_again() -> None:
    world = World()
    rounds = [[Generation("a", **USAGE), Generation("", **USAGE), Generation("c", **USAGE)], [Generation("", **USAGE)]]
    records, asked = in_batches(world, *rounds, max_empty_retries=1)
    assert [r.input_tokens for r in records] == [10, 20, 10]
    assert asked[1] == ["prompt 1"]


def test_a_stop_keeps_the_items_of_a_batch_that_are_paid() -> None:
    world = World(stops_at_wait=0)
    outcomes = [Generation("a"), Generation("", **USAGE), CallFailed("timeout", "slow")]
    records, _ = in_batches(world, outcomes, max_empty_retries=1)
    assert [(r.sample_index, r.output_text) for r in records] == [(0, "a"), (1, "")]


# deadlines, and the bound over all models


def test_each_attempt_is_told_its_own_deadline() -> None:
    world = World()
    model = Model(world, CallFailed("timeout", "a"), Generation("x"), seconds=5)
    call(world, model, timeout_seconds=7)
    assert [task.deadline for task in model.seen] == [7.0, world.waits[0] + 5 + 7]
    call(world, other := Model(world, Generation("x")))
    assert other.seen[0].deadline is None


def test_a_throttled_model_does_not_keep_another_from_its_place(make_rows, journal) -> None:
    """One place in flight for two models: the one that waits for a rate limit does not hold it."""
    from evalframe.generate.threads import GenerateOptions, generate

    other_is_done = threading.Event()

    class Throttled:
        model_id, n = "throttled", 0

        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            self.n += 1
            if self.n == 1:
                raise limited(0.2)
            return Generation("x")

    class Other:
        model_id = "other"

        def generate(self, prompt: str, task: TaskSpec) -> Generation:
            if task.sample_index == 9:
                other_is_done.set()
            return Generation("y")

    summary = generate(
        make_rows({"a": 10}),
        adapters=[Throttled(), Other()],
        journal=journal,
        options=GenerateOptions(concurrency=1, max_retries=1),
    )
    assert other_is_done.is_set()
    assert summary.counts == {"throttled": {"completed": 10}, "other": {"completed": 10}}
