"""Log-likelihood requests: the likeliest choice, how sure the model is of it, and scores that are none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import CallFailed, ContinuationScore, Generation, TaskSpec
from evalframe.adapters.mock import NAMES, from_name
from evalframe.generate.choices import can_choose, choose, choose_batch, continuations


class Scorer:
    """A model that knows the log-probability of each continuation, and remembers what it was asked."""

    model_id = "scorer"

    def __init__(self, *logprobs: Any, n_tokens: Any = 1) -> None:
        self.logprobs, self.n_tokens = logprobs, n_tokens
        self.asked: list[tuple[str, str]] = []

    def generate(self, prompt: str, task: TaskSpec) -> Any:
        raise AssertionError("no text is asked for")

    def loglikelihood(self, contexts: Any, continuations: Any) -> Any:
        self.asked += zip(contexts, continuations, strict=True)
        return [ContinuationScore(value, self.n_tokens) for value in self.logprobs]


def task(*choices: str, prompt: str = "Which?", **fields: Any) -> TaskSpec:
    return TaskSpec("t", "qa", prompt, choices=choices, sample_id="s1", **fields)


@pytest.mark.parametrize(
    ("prompt", "choices", "expected"),
    [
        ("Q:", ["a", "b c"], [" a", " b c"]),
        ("Q: ", ["a", "b"], ["a", "b"]),
        ("Q:\n", ["a"], ["a"]),
        ("Q:\u3000", ["a"], ["a"]),
        ("Q:", [" a", "\nb", "c"], [" a", "\nb", " c"]),
        ("Q: ", [" a"], [" a"]),
        ("", ["a"], [" a"]),
    ],
)
def test_a_choice_stands_after_one_blank(prompt: str, choices: list[str], expected: list[str]) -> None:
    assert continuations(prompt, choices) == expected


def test_the_reply_is_the_likeliest_choice_and_all_sums_are_told() -> None:
    model = Scorer(-3.0, -1.0, -2.0, n_tokens=4)
    reply = choose(model, task("Paris", "Rome", "Oslo"))
    assert model.asked == [("Which?", " Paris"), ("Which?", " Rome"), ("Which?", " Oslo")]
    assert (reply.text, reply.token_nll, reply.token_count) == ("Rome", 1.0, 4)
    assert reply.choice_logprobs == (-3.0, -1.0, -2.0)
    assert reply.confidence == pytest.approx(math.exp(-1) / (math.exp(-3) + math.exp(-1) + math.exp(-2)))


def test_of_equal_choices_it_is_the_first() -> None:
    assert choose(Scorer(-2.0, -1.0, -1.0), task("a", "b", "c")).text == "b"
    # a mean a byte: -2/2 is -1/1
    assert choose(Scorer(-2.0, -1.0), task("aa", "b"), norm="bytes").text == "aa"


def test_by_bytes_a_long_choice_is_not_unlikely_for_its_length() -> None:
    reply = choose(Scorer(-4.0, -2.0), task("née", "no"), norm="bytes")  # 4 bytes and 2: equal means, so the first
    assert reply.text == "née"
    reply = choose(Scorer(-3.0, -2.0), task("longer", "no"), norm="bytes")
    assert (reply.text, reply.token_nll) == ("longer", 3.0)
    # the sums and their softmax stay those of the sums: less than a half, since the other one is more probable
    assert reply.choice_logprobs == (-3.0, -2.0)
    assert reply.confidence == pytest.approx(1 / (1 + math.e))


@pytest.mark.parametrize(
    ("logprobs", "confidence"),
    [
        ([-math.inf, -5.0], 1.0),
        ([-1e5, -1e5 - math.log(3)], 0.75),
        ([-1e300, -1.0], 1.0),
        ([0.0], 1.0),
        ([-0.0, -math.inf], 1.0),
        ([-2.0] * 4, 0.25),
        ([1e-9, -50.0], 1.0),  # rounding of a sure continuation
        ([np.float32(-1), np.float32(-1)], 0.5),
    ],
)
def test_the_softmax_is_stable(logprobs: list[float], confidence: float) -> None:
    reply = choose(Scorer(*logprobs), task(*"abcd"[: len(logprobs)]))
    assert reply.confidence == pytest.approx(confidence)
    assert reply.token_nll is not None
    assert math.copysign(1, reply.token_nll) == 1
    assert all(type(value) is float and value <= 0 for value in reply.choice_logprobs or ())


@given(
    sums=st.lists(st.one_of(st.floats(-1e6, 0), st.just(-math.inf)), min_size=1, max_size=6).filter(
        lambda sums: max(sums) > -math.inf
    ),
    shift=st.floats(0, 1e3),
    norm=st.sampled_from([None, "bytes"]),
    data=st.data(),
)
def test_laws_of_choosing(sums: list[float], shift: float, norm: str | None, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=len(sums), max_size=len(sums)))
    choices = [chr(97 + place) * length for place, length in enumerate(lengths)]
    reply = choose(Scorer(*sums), task(*choices), norm=norm)
    place = choices.index(reply.text)
    compared = [total / length for total, length in zip(sums, lengths, strict=True)] if norm else sums
    assert compared[place] == max(compared)
    assert place == compared.index(max(compared))
    assert reply.confidence is not None
    # the softmax by its definition, in numpy
    with np.errstate(under="ignore"):
        powers = np.exp(np.array(sums) - max(sums))
    assert reply.confidence == pytest.approx(powers[place] / powers.sum())
    if norm is None:
        assert reply.confidence >= 1 / len(sums) - 1e-12
        # what all sums have in common tells nothing: a longer prompt, say
        shifted = choose(Scorer(*(total - shift for total in sums)), task(*choices))
        assert shifted.confidence == pytest.approx(reply.confidence, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Scorer(-1.0), "gave 1 scores for 2 continuations"),
        (Scorer(-1.0, -1.0, -1.0), "gave 3 scores for 2"),
        (Scorer(-1.0, math.nan), "nan is no log-probability"),
        (Scorer(-1.0, 0.5), "a missing minus"),
        (Scorer(math.inf, -1.0), "inf is no log-probability"),
        (Scorer(-1.0, "-1"), "'-1' is no log-probability"),
        (Scorer(-1.0, None), "None is no log-probability"),
        (Scorer(-1.0, True), "True is no log-probability"),
        (Scorer(-1.0, -1.0, n_tokens=-1), "n_tokens is -1"),
        (Scorer(-1.0, -1.0, n_tokens=1.5), "n_tokens is 1.5"),
        (Scorer(-math.inf, -math.inf), "every choice has the log-probability -inf"),
    ],
)
def test_scores_that_are_none_are_a_bad_reply(model: Scorer, says: str) -> None:
    with pytest.raises(CallFailed, match=says) as caught:
        choose(model, task("a", "b"))
    assert caught.value.error_type == "bad_reply"


@pytest.mark.parametrize("given", [None, 7, "ab", iter([]), [-1.0, -2.0]])
def test_what_is_no_list_of_scores_is_a_bad_reply(given: Any) -> None:
    class Strange(Scorer):
        def loglikelihood(self, contexts: Any, continuations: Any) -> Any:
            return given

    with pytest.raises(CallFailed, match="loglikelihood gave a"):
        choose(Strange(), task("a", "b"))


@pytest.mark.parametrize(
    ("choices", "says"), [((), "has no choices"), (("a", " \t"), "choice 1 of sample 's1' .*blank")]
)
def test_a_sample_without_usable_choices_is_a_bad_request(choices: tuple[str, ...], says: str) -> None:
    model = Scorer()
    with pytest.raises(CallFailed, match=says) as caught:
        choose(model, task(*choices))
    assert caught.value.error_type == "bad_request"
    assert model.asked == []


def test_an_adapter_is_told_what_it_asks_for() -> None:
    class Told(Scorer):
        def loglikelihood(self, contexts: Any, continuations: Any, *, deadline: Any, task: Any) -> Any:
            self.told = deadline, task
            return [ContinuationScore(-1.0, 1) for _ in contexts]

    model, asked = Told(), task("a", "b", deadline=12.5)
    choose(model, asked)
    assert model.told == (12.5, asked)


def test_a_batch_is_one_request_and_a_bad_sample_spoils_no_other() -> None:
    class Batch(Scorer):
        def loglikelihood(self, contexts: Any, continuations: Any, *, deadline: float | None = None) -> Any:
            self.deadline = deadline
            self.asked += zip(contexts, continuations, strict=True)
            return [ContinuationScore(math.nan if "bad" in text else -len(text), 1) for text in continuations]

    tasks = [
        task("bbb", "a", prompt="1", deadline=9.0), task(prompt="2"), task("bad", "a", prompt="3", deadline=7.0),
        task("c", prompt="4 "),
    ]  # fmt: skip
    model = Batch()
    outcomes = choose_batch(model, tasks)
    assert model.asked == [("1", " bbb"), ("1", " a"), ("3", " bad"), ("3", " a"), ("4 ", "c")]
    assert model.deadline == 7.0
    first, without, bad, last = outcomes
    assert isinstance(without, CallFailed)
    assert isinstance(bad, CallFailed)
    assert (without.error_type, bad.error_type) == ("bad_request", "bad_reply")
    assert [outcome.text for outcome in (first, last) if not isinstance(outcome, CallFailed)] == ["a", "c"]
    assert choose_batch(model, []) == []


def test_what_the_adapter_raises_is_passed_on() -> None:
    class Broken(Scorer):
        def loglikelihood(self, contexts: Any, continuations: Any) -> Any:
            raise CallFailed("rate_limited", "wait", retry_after_seconds=3)

    with pytest.raises(CallFailed, match="wait") as caught:
        choose(Broken(), task("a"))
    assert caught.value.retry_after_seconds == 3


def test_who_can_choose() -> None:
    assert can_choose(Scorer())
    assert not can_choose(object())
    without = Scorer()
    without.loglikelihood = None  # type: ignore[assignment, method-assign]
    assert not can_choose(without)


CITIES = task("Paris", "Rome", "Oslo", "Bern", targets=("Oslo",))


def test_mocks_choose_as_their_names_say() -> None:
    replies = {name: choose(mock(name), CITIES) for name in NAMES}
    assert (replies["rule_based"].text, replies["rule_based"].confidence) == ("Oslo", pytest.approx(0.92))
    assert replies["noisy"].confidence == pytest.approx(0.85)
    assert replies["biased"].text != "Oslo"
    assert replies["biased"].confidence == pytest.approx(0.4)
    (biased,) = from_name("biased", {"category": "qa"})
    assert choose(biased, CITIES).text == "Oslo"
    assert choose(biased, CITIES).confidence == pytest.approx(0.9)


def mock(name: str) -> Any:
    return from_name(name, {})[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_mock_chooses_what_it_would_write(name: str) -> None:
    for index in range(60):
        asked = task("Paris", "Rome", "Oslo", "Bern", targets=("Rome",), sample_index=index, repeat=index % 3)
        assert choose(mock(name), asked).text == mock(name).generate(asked.prompt, asked).text


@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_few_choices_a_wrong_mock_still_prefers_the_wrong_one(n: int) -> None:
    reply = choose(mock("biased"), task(*["Oslo", "Rome", "Bern"][:n], targets=("Oslo",)))
    assert (reply.text == "Oslo") == (n == 1)
    assert reply.confidence is not None
    assert reply.confidence == pytest.approx(1.0 if n == 1 else max(0.4, 1.25 / n))


def test_a_mock_scores_the_choices_of_a_task_and_nothing_else() -> None:
    with pytest.raises(CallFailed, match="scores the choices of one task, which has 4"):
        mock("noisy").loglikelihood(["p"], [" Oslo"], task=CITIES)


def test_what_the_server_told_of_the_requests_is_not_lost() -> None:
    class Paid(Scorer):
        def loglikelihood(self, contexts: Any, continuations: Any) -> Any:
            first = Generation("", input_tokens=10, output_tokens=2, response_id="r1", model_version="v", raw=b"one")
            other = Generation("", input_tokens=5, cached_tokens=1, response_id="r2", raw=b"two")
            told = [first, None, other]
            return [ContinuationScore(value, 1, one) for value, one in zip(self.logprobs, told, strict=True)]

    reply = choose(Paid(-3.0, -1.0, -2.0), task("a", "b", "c"))
    assert (reply.input_tokens, reply.output_tokens, reply.cached_tokens) == (15, 2, 1)
    assert (reply.reasoning_tokens, reply.response_id, reply.model_version) == (None, "r1", "v")
    assert reply.raw == b"one\ntwo"
    silent = choose(Scorer(-3.0, -1.0), task("a", "b"))
    assert (silent.input_tokens, silent.output_tokens, silent.raw) == (None, None, b"")
