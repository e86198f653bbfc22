"""Adapters that take several prompts in one request."""

from __future__ import annotations

import pytest

from evalframe.adapters import CallFailed, ContinuationScore, Generation
from evalframe.errors import AdapterError
from evalframe.frames import check
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.schemas import GENERATIONS


class Batcher:
    """Answers a batch by ``answer(prompts)``; remembers the sizes."""

    model_id = "batcher"

    def __init__(self, answer=None, batch_size=3) -> None:
        self.batch_size = batch_size
        self.answer = answer or (lambda prompts: [Generation(prompt.upper()) for prompt in prompts])
        self.batches = []

    def generate(self, prompt, task):
        raise AssertionError("an adapter with batches is called with batches")

    def generate_batch(self, prompts, tasks):
        assert prompts == [task.prompt for task in tasks]
        self.batches.append([(task.sample_index, task.repeat) for task in tasks])
        return self.answer(prompts)


def run(rows, adapter, journal, **options):
    generate(rows, adapters=[adapter], journal=journal, options=GenerateOptions(**options))
    return check(journal.generations(), GENERATIONS)


@pytest.mark.parametrize("parallel", [True, False])
def test_a_batch_is_the_next_calls_in_order(make_rows, journal, parallel) -> None:
    adapter = Batcher()
    generations = run(make_rows({"a": 4}), adapter, journal, repeats=2, parallel=parallel)
    assert sorted(adapter.batches) == [[(0, 0), (0, 1), (1, 0)], [(1, 1), (2, 0), (2, 1)], [(3, 0), (3, 1)]]
    assert generations["output_text"].to_list() == [f"A {i}?" for i in range(4) for _ in range(2)]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    ("answer", "error_type", "message"),
    [
        (lambda prompts: [Generation("x")] * (len(prompts) - 1), "bad_reply", "2 replies for 3 prompts"),
        (lambda prompts: [Generation("x")] * (len(prompts) + 1), "bad_reply", "4 replies for 3 prompts"),
        (lambda prompts: None, "bad_reply", "a NoneType for 3 prompts"),
        (lambda prompts: 1 / 0, "adapter_error", "ZeroDivisionError"),
    ],
)
def test_a_batch_that_fails_is_a_row_for_each_of_its_calls(
    make_rows, journal, answer, error_type, message, parallel
) -> None:
    generations = run(make_rows({"a": 3}), Batcher(answer), journal, parallel=parallel)
    assert generations["error_type"].to_list() == [error_type] * 3
    assert all(message in words for words in generations["error_message"])


def test_one_item_of_a_batch_may_fail_alone(make_rows, journal) -> None:
    def answer(prompts):
        return [Generation("x"), CallFailed("timeout", "slow"), None][: len(prompts)]

    generations = run(make_rows({"a": 3}), Batcher(answer), journal)
    assert generations["status"].to_list() == ["completed", "failed", "failed"]
    assert generations["error_type"].to_list() == [None, "timeout", "bad_reply"]


@pytest.mark.parametrize("batch_size", [0, -1, "3", 2.5])
def test_a_batch_size_that_is_none_is_refused(rows, journal, batch_size) -> None:
    with pytest.raises(AdapterError, match=r"batch_size is .* from 1 up"):
        run(rows, Batcher(batch_size=batch_size), journal)


def test_without_generate_batch_a_batch_size_says_nothing(rows, Model, journal) -> None:
    model = Model()
    model.batch_size = 4
    assert run(rows, model, journal)["status"].unique().to_list() == ["completed"]


@pytest.mark.parametrize("parallel", [True, False])
def test_the_choices_of_several_samples_are_scored_in_one_request(make_rows, journal, parallel) -> None:
    class Scorer(Batcher):
        def loglikelihood(self, contexts, continuations, *, deadline=None):
            self.batches.append(list(zip(contexts, continuations, strict=True)))
            values = [float("nan") if context == "a 1?" else -len(text) for context, text in self.batches[-1]]
            return [ContinuationScore(value, 1) for value in values]

    adapter = Scorer(batch_size=2)
    rows = make_rows({"a": 3}, choices=["long", "no"])
    generations = run(rows, adapter, journal, parallel=parallel, request_type="loglikelihood")
    assert sorted(map(len, adapter.batches)) == [2, 4]
    assert generations["output_text"].to_list() == ["no", None, "no"]
    assert generations["error_type"].to_list() == [None, "bad_reply", None]


def test_scores_of_the_wrong_number_fail_every_call_of_the_request(make_rows, journal) -> None:
    class Scorer(Batcher):
        def loglikelihood(self, contexts, continuations):
            return [ContinuationScore(-1.0, 1)] * 3

    generations = run(make_rows({"a": 4}, choices=["a", "b"]), Scorer(), journal, request_type="loglikelihood")
    assert generations["error_type"].to_list() == ["bad_reply"] * 4
    assert "3 scores for 6 continuations" in generations["error_message"][0]
