"""Keeping to the rates of servers, on a clock that the test moves: no test waits."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.generate.limiter import FIRST_SECONDS, JITTER_SECONDS, MOST_SECONDS, Limiter, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock) -> Limiter:
    return Limiter(monotonic=clock, random=lambda: 0.0)


def enter(limiter: Limiter, n: int) -> list[int]:
    tickets = [limiter.enter() for _ in range(n)]
    assert None not in tickets
    return tickets


def room(limiter: Limiter) -> int:
    """How many more may send now, up to 1,000; takes none of the places."""
    tickets = []
    while len(tickets) < 1_000 and (ticket := limiter.enter()) is not None:
        tickets.append(ticket)
    for ticket in tickets:
        limiter.leave(ticket, succeeded=False)
    return len(tickets)


# a 429


def test_nobody_is_held_up_before_a_429(limiter) -> None:
    assert limiter.closed_seconds() == 0
    for ticket in enter(limiter, 500):
        limiter.leave(ticket, succeeded=True)
    assert room(limiter) == 1_000


def test_the_wait_that_a_429_asks_for_holds_for_all(limiter, clock) -> None:
    first, *others = enter(limiter, 8)
    assert limiter.throttled(first, 7.0) == 7.0
    assert limiter.closed_seconds() == 7.0
    assert limiter.enter() is None
    for ticket in others:
        limiter.leave(ticket, succeeded=True)
    clock.now += 6.9
    assert limiter.enter() is None
    clock.now += 0.2
    assert limiter.closed_seconds() == 0
    assert limiter.enter() is not None


def test_the_longest_hint_of_a_burst_is_kept(limiter) -> None:
    one, two, three = enter(limiter, 3)
    limiter.throttled(one, 5.0)
    limiter.throttled(two, 60.0)
    limiter.throttled(three, 1.0)
    assert limiter.closed_seconds() == 60.0


def test_a_hint_is_a_minimum_with_jitter(clock) -> None:
    limiter = Limiter(monotonic=clock, random=lambda: 0.5)
    (ticket,) = enter(limiter, 1)
    assert limiter.throttled(ticket, 2.0) == 2.0 + JITTER_SECONDS / 2


def test_after_the_wait_one_sends_and_more_as_calls_succeed(limiter, clock) -> None:
    tickets = enter(limiter, 16)
    limiter.throttled(tickets[0], 1.0)
    for ticket in tickets[1:]:
        limiter.throttled(ticket, 1.0)
    clock.now += 1.01
    windows = []
    for _ in range(6):
        windows.append(room(limiter))
        for ticket in enter(limiter, windows[-1]):
            limiter.leave(ticket, succeeded=True)
    # doubles up to half of what was too much, then grows by about one a round
    assert windows == [1, 2, 4, 8, 9, 10]


def test_in_the_end_the_limit_is_forgotten(limiter, clock) -> None:
    limiter.throttled(enter(limiter, 1)[0], 0.5)
    clock.now += 1
    for _ in range(10_000):
        limiter.leave(enter(limiter, 1)[0], succeeded=True)
    assert room(limiter) == 1_000


def test_a_failure_that_is_no_429_does_not_widen_it(limiter, clock) -> None:
    limiter.throttled(enter(limiter, 1)[0], 0.5)
    clock.now += 1
    for _ in range(20):
        limiter.leave(enter(limiter, 1)[0], succeeded=False)
    assert room(limiter) == 1


def test_calls_that_were_sent_before_the_429_do_not_widen_it(limiter, clock) -> None:
    first, *others = enter(limiter, 50)
    limiter.throttled(first, 1.0)
    for ticket in others:
        limiter.leave(ticket, succeeded=True)
    clock.now += 1.01
    assert room(limiter) == 1


def test_without_a_hint_the_wait_doubles_while_no_call_succeeds(clock) -> None:
    limiter = Limiter(monotonic=clock, random=lambda: 1.0 - 1e-12)
    waits = []
    for _ in range(9):
        waits.append(limiter.throttled(enter(limiter, 1)[0], None))
        clock.now += waits[-1]
    assert waits == pytest.approx([min(MOST_SECONDS, FIRST_SECONDS * 2**n) for n in range(9)])
    limiter.leave(enter(limiter, 1)[0], succeeded=True)
    assert limiter.throttled(enter(limiter, 1)[0], None) == pytest.approx(FIRST_SECONDS)


@pytest.mark.parametrize("hint", [None, 0.0, 0.2])
def test_a_burst_of_429s_counts_once(limiter, clock, hint) -> None:
    for ticket in enter(limiter, 40):
        limiter.throttled(ticket, hint)
    assert limiter.closed_seconds() <= FIRST_SECONDS
    clock.now += FIRST_SECONDS + 0.01
    assert room(limiter) == 1
    ticket = enter(limiter, 1)[0]
    assert FIRST_SECONDS <= limiter.throttled(ticket, None) <= 2 * FIRST_SECONDS  # the second one, not the 41st


def test_a_server_that_always_says_zero_is_not_asked_without_end(limiter, clock) -> None:
    began, asked = clock.now, 0
    while clock.now - began < 300:
        asked += 1
        limiter.throttled(enter(limiter, 1)[0], 0.0)
        clock.now += limiter.closed_seconds() or 1e-9
    assert asked < 30


@pytest.mark.parametrize("hint", [3_600.0, 86_400.0])
def test_a_long_hint_is_believed(limiter, hint) -> None:
    assert limiter.throttled(enter(limiter, 1)[0], hint) == hint
    assert limiter.closed_seconds() == hint


@given(st.lists(st.tuples(st.sampled_from(["enter", "ok", "bad", "429", "429 hint", "time"]), st.floats(0, 5))))
def test_whatever_happens_it_opens_again(steps) -> None:
    clock = Clock()
    limiter = Limiter(monotonic=clock, random=lambda: 0.3)
    held: list[int] = []
    for what, amount in steps:
        if what == "time":
            clock.now += amount
        elif what == "enter":
            if (ticket := limiter.enter()) is not None:
                held.append(ticket)
        elif held:
            ticket = held.pop(0)
            if what in ("ok", "bad"):
                limiter.leave(ticket, succeeded=what == "ok")
            else:
                limiter.throttled(ticket, amount if what == "429 hint" else None)
        assert 0 <= limiter.closed_seconds() <= MOST_SECONDS + JITTER_SECONDS
    for ticket in held:
        limiter.leave(ticket, succeeded=False)
    clock.now += limiter.closed_seconds() + 1e-6
    assert room(limiter) >= 1


def test_threads_do_not_lose_places(clock) -> None:
    limiter = Limiter(monotonic=clock, random=lambda: 0.0)
    limiter.throttled(enter(limiter, 1)[0], 0.0)  # so that there is a window
    clock.now += 1
    peak, inside, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal peak, inside
        for _ in range(300):
            if (ticket := limiter.enter()) is None:
                continue
            with lock:
                inside += 1
                peak = max(peak, inside)
            with lock:
                inside -= 1
            limiter.leave(ticket, succeeded=False)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert peak == 1
    assert room(limiter) == 1


# a pace


def test_without_limits_a_pace_is_idle(clock) -> None:
    assert Pace(requests_per_minute=None, tokens_per_minute=None, monotonic=clock).is_idle
    assert not Pace(requests_per_minute=1, tokens_per_minute=None, monotonic=clock).is_idle


def most_in_a_minute(times: list[float], amounts: list[float] | None = None) -> float:
    amounts = amounts or [1.0] * len(times)
    return max(
        sum(amount for other, amount in zip(times, amounts, strict=True) if start <= other < start + 60 - 1e-6)
        for start in times
    )


@given(st.floats(0.5, 6_000), st.lists(st.floats(0, 90), min_size=1, max_size=60))
def test_requests_a_minute_are_kept_however_they_come(per_minute, gaps) -> None:
    clock = Clock()
    pace = Pace(requests_per_minute=per_minute, tokens_per_minute=None, monotonic=clock)
    times = []
    for gap in gaps:
        clock.now += gap
        pause, _ = pace.reserve(input_tokens=10, max_output_tokens=None)
        assert pause >= 0
        times.append(clock.now + pause)
    assert most_in_a_minute(times) <= math.ceil(per_minute)


def test_requests_are_evenly_spaced_and_not_slower_than_allowed(clock) -> None:
    pace = Pace(requests_per_minute=120, tokens_per_minute=None, monotonic=clock)
    pauses = [pace.reserve(input_tokens=0, max_output_tokens=None)[0] for _ in range(241)]
    assert pauses == pytest.approx([n / 2 for n in range(241)])


def test_a_pause_of_the_caller_is_not_made_good_in_a_burst(clock) -> None:
    pace = Pace(requests_per_minute=60, tokens_per_minute=None, monotonic=clock)
    pace.reserve(input_tokens=0, max_output_tokens=None)
    clock.now += 600
    pauses = [pace.reserve(input_tokens=0, max_output_tokens=None)[0] for _ in range(5)]
    assert pauses == pytest.approx([0, 1, 2, 3, 4])


def test_tokens_a_minute_are_kept_once_replies_have_told_what_they_take(clock) -> None:
    pace = Pace(requests_per_minute=None, tokens_per_minute=6_000, monotonic=clock)
    times, taken = [], []
    for n in range(300):
        pause, counted = pace.reserve(input_tokens=20, max_output_tokens=1_000)
        clock.now += pause
        times.append(clock.now)
        took = (25, 60 + n % 7)  # more input than was estimated, far less output than was allowed
        taken.append(float(sum(took)))
        pace.settle(counted, input_tokens=took[0], output_tokens=took[1])
    assert most_in_a_minute(times, taken) <= 6_000 * 1.05
    rate = sum(taken) / (times[-1] - times[0]) * 60
    assert rate > 6_000 * 0.95  # and it is used


def test_until_a_reply_is_back_the_most_that_it_may_take_is_counted(clock) -> None:
    pace = Pace(requests_per_minute=None, tokens_per_minute=600, monotonic=clock)
    assert pace.reserve(input_tokens=10, max_output_tokens=290) == (0, 300)
    pause, counted = pace.reserve(input_tokens=10, max_output_tokens=290)
    assert (pause, counted) == (pytest.approx(30), 300)
    pace.settle(300, input_tokens=10, output_tokens=40)
    pause, counted = pace.reserve(input_tokens=10, max_output_tokens=290)
    assert counted == 50
    assert pause == pytest.approx(60 - 25)  # 250 tokens fewer than were counted


def test_usage_that_is_not_told_corrects_nothing(clock) -> None:
    pace = Pace(requests_per_minute=None, tokens_per_minute=600, monotonic=clock)
    pace.reserve(input_tokens=10, max_output_tokens=50)
    pace.settle(60, input_tokens=None, output_tokens=None)
    assert pace.reserve(input_tokens=10, max_output_tokens=50) == (pytest.approx(6), 60)


def test_both_limits_hold(clock) -> None:
    pace = Pace(requests_per_minute=60, tokens_per_minute=600, monotonic=clock)
    pauses = [pace.reserve(input_tokens=tokens, max_output_tokens=None)[0] for tokens in (1, 1, 50, 1, 1)]
    assert pauses == pytest.approx([0, 1, 2, 7, 8])
