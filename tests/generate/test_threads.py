"""The engine: every call becomes one row, whatever the model does and however many threads there are."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import polars as pl
import pytest

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.mock import from_name
from evalframe.errors import AdapterError, OptionError, SchemaError
from evalframe.frames import check
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.limits import Limits
from evalframe.schemas import CALL_KEY, GENERATIONS

TIMES = ("latency_seconds", "started_at")


def run(rows, adapters, journal, **options) -> pl.DataFrame:
    generate(rows, adapters=adapters, journal=journal, options=GenerateOptions(**options))
    return check(journal.generations(), GENERATIONS)


def test_one_row_a_call_in_key_order(rows, Model, journal) -> None:
    generations = run(rows, [Model(model_id="z"), Model(model_id="b")], journal, repeats=2)
    assert generations.height == 2 * 5 * 2
    assert generations.select(CALL_KEY).row(0) == ("b", "a", 0, 0)
    assert generations["output_text"][:4].to_list() == ["a 0? 0", "a 0? 1", "a 1? 0", "a 1? 1"]
    assert generations["status"].unique().to_list() == ["completed"]
    assert generations["attempts"].unique().to_list() == [1]
    assert generations["cost_usd"].null_count() == generations.height
    assert not generations["cached"].any()


def test_parallel_and_sequential_runs_give_equal_frames(make_rows, new_journal) -> None:
    rows = make_rows({"a": 40, "b": 7, "c": 1})
    models = [*from_name("noisy", {}), *from_name("rule_based", {}), *from_name("biased", {})]
    frames = [
        run(rows, models, new_journal(), repeats=3, parallel=parallel, concurrency=n).drop(TIMES)
        for parallel, n in ((False, None), (True, None), (True, 1), (True, 25))
    ]
    assert frames[0].height == 48 * 3 * 3
    for frame in frames[1:]:
        assert frame.equals(frames[0])


def test_a_sequential_run_calls_in_row_order_with_repeats_together(rows, Model, journal) -> None:
    model = Model()
    run(rows, [model], journal, parallel=False, repeats=2)
    assert [(t.task_id, t.sample_index, t.repeat) for t in model.seen][:5] == [
        ("a", 0, 0), ("a", 0, 1), ("a", 1, 0), ("a", 1, 1), ("a", 2, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("parallel", [True, False])
def test_the_summary_counts_models_and_statuses(rows, Model, journal, parallel) -> None:
    def answer(prompt, task):
        if task.task_id == "b":
            raise CallFailed("timeout", "too slow")
        return Generation("x")

    summary = generate(
        rows, adapters=[Model(answer), Model(model_id="n")], journal=journal, options=GenerateOptions(parallel=parallel)
    )
    assert summary.counts == {"m": {"completed": 3, "failed": 2}, "n": {"completed": 5}}
    assert summary.n_called == 10
    assert not summary.interrupted
    assert summary.notes == ()


# failures are rows


def raising(error: BaseException):
    def answer(prompt, task):
        raise error

    return answer


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    ("answer", "error_type", "message"),
    [
        (raising(CallFailed("rate_limited", "wait 10 s")), "rate_limited", "wait 10 s"),
        (raising(CallFailed("nonsense", "what")), "adapter_error", "CallFailed: what"),
        (raising(KeyError("x")), "adapter_error", "KeyError: 'x'"),
        (raising(Speechless()), "adapter_error", "Speechless: no message"),
        (raising(SystemExit(3)), "adapter_error", "SystemExit: 3"),
        (raising(GeneratorExit()), "adapter_error", "GeneratorExit"),
        (raising(StopIteration()), "adapter_error", "StopIteration"),
        (raising(ValueError("\ud800")), "adapter_error", "ValueError: \ufffd"),
        (raising(ValueError("x" * 10_000)), "adapter_error", "ValueError: xxx"),
        (lambda prompt, task: None, "bad_reply", "the adapter returned None, not a Generation"),
        (lambda prompt, task: "text", "bad_reply", "returned a str"),
        (lambda prompt, task: Generation(None), "bad_reply", "text is None, not a str"),
        (lambda prompt, task: Generation(b"x"), "bad_reply", "text is a bytes"),
    ],
)
def test_whatever_a_model_does_is_a_row(rows, Model, journal, answer, error_type, message, parallel) -> None:
    generations = run(rows, [Model(answer)], journal, parallel=parallel)
    assert generations["status"].to_list() == ["failed"] * 5
    assert generations["error_type"].unique().to_list() == [error_type]
    assert message in generations["error_message"][0]
    assert len(generations["error_message"][0]) < 2_100
    assert generations["output_text"].null_count() == 5
    assert generations["attempts"].to_list() == [1] * 5
    assert generations["started_at"].null_count() == 0


def test_a_keyboard_interrupt_that_a_model_raises_in_a_worker_is_a_row(rows, Model, journal) -> None:
    generations = run(rows, [Model(raising(KeyboardInterrupt()))], journal)
    assert generations["error_message"].unique().to_list() == ["KeyboardInterrupt: "]


def test_one_failed_sample_does_not_touch_the_others(rows, Model, journal) -> None:
    def answer(prompt, task):
        return Generation("ok") if task.sample_index else 1 / 0

    generations = run(rows, [Model(answer)], journal)
    assert generations["status"].to_list() == ["failed", "completed", "completed", "failed", "completed"]


# resume


def test_finished_calls_are_not_made_again(make_rows, Model, journal) -> None:
    rows, few = make_rows({"a": 4}), make_rows({"a": 2})
    run(few, [Model()], journal, repeats=2)
    again = Model()
    summary = generate(rows, adapters=[again], journal=journal, options=GenerateOptions(repeats=3))
    made = {(t.sample_index, t.repeat) for t in again.seen}
    assert made == {(0, 2), (1, 2)} | {(i, r) for i in (2, 3) for r in range(3)}
    assert summary.n_called == len(again.seen) == 8
    assert summary.counts == {"m": {"completed": 12}}
    assert check(journal.generations(), GENERATIONS).height == 12


def test_failed_calls_are_finished_and_skipped_ones_are_not(rows, Model, journal) -> None:
    stop = threading.Event()

    def answer(prompt, task):
        if task.task_id == "a" and task.sample_index == 1:
            stop.set()
        raise CallFailed("timeout", "too slow")

    first = generate(
        rows, adapters=[Model(answer)], journal=journal, options=GenerateOptions(parallel=False, stop=stop)
    )
    assert first.interrupted
    assert first.counts == {"m": {"failed": 2, "skipped": 3}}
    again = Model()
    second = generate(rows, adapters=[again], journal=journal, options=GenerateOptions())
    assert len(again.seen) == 3
    assert second.counts == {"m": {"failed": 2, "completed": 3}}


def test_a_second_model_of_the_same_journal_is_its_own(rows, Model, journal) -> None:
    run(rows, [Model()], journal)
    assert run(rows, [Model(model_id="n")], journal)["model_id"].value_counts(sort=True)["count"].to_list() == [5, 5]


# what is told and what is measured


def test_clocks_are_those_of_the_options(rows, Model, journal) -> None:
    ticks = iter(range(1_000))
    when = datetime(2026, 1, 2, tzinfo=UTC)
    generations = run(rows, [Model()], journal, parallel=False, monotonic=lambda: float(next(ticks)), now=lambda: when)
    assert generations["latency_seconds"].to_list() == [1.0] * 5
    assert generations["started_at"].unique().to_list() == [when]


def test_the_deadline_counts_from_the_call(rows, Model, new_journal) -> None:
    model = Model()
    run(rows, [model], new_journal(), parallel=False, timeout_seconds=7, monotonic=lambda: 100.0)
    assert {task.deadline for task in model.seen} == {107.0}
    without = Model()
    run(rows, [without], new_journal())
    assert {task.deadline for task in without.seen} == {None}


def test_settings_reach_the_adapter_and_can_not_be_changed_there(rows, Model, journal) -> None:
    model = Model()
    run(rows, [model], journal, generation={"temperature": 0.5})
    assert dict(model.seen[0].generation) == {"temperature": 0.5}
    with pytest.raises(TypeError):
        model.seen[0].generation["temperature"] = 1  # type: ignore[index]


def test_reasoning_tags_of_the_run(rows, Model, new_journal) -> None:
    model = Model(lambda prompt, task: Generation("[THINK]a[/THINK]B"))
    own = run(rows, [model], new_journal(), reasoning_tags=[("[THINK]", "[/THINK]")])
    assert own.select("output_text", "reasoning").row(0) == ("B", "a")
    assert run(rows, [model], new_journal())["output_text"][0] == "[THINK]a[/THINK]B"


# options


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"concurrency": 0}, "from 1 to 25"),
        ({"concurrency": 26}, "limits=Limits"),
        ({"concurrency": True}, "whole number"),
        ({"timeout_seconds": 0}, "over 0"),
        ({"repeats": 0}, "whole number from 1 up"),
        ({"repeats": {"aa": 2}}, "neither a task nor a category"),
        ({"repeats": {"a": 0}}, "from 1 up"),
        ({"reasoning_tags": [""]}, "give a name"),
    ],
)
def test_wrong_options_are_refused_before_any_call(rows, Model, journal, options, remedy) -> None:
    model = Model()
    with pytest.raises(OptionError, match=remedy):
        run(rows, [model], journal, **options)
    assert model.seen == []


def test_wrong_models_are_refused_before_any_call(rows, Model, journal) -> None:
    model = Model()
    with pytest.raises(OptionError, match="'m' stands twice"):
        run(rows, [model, Model()], journal)
    with pytest.raises(OptionError, match="0 models; 1 to 20"):
        run(rows, [], journal)
    with pytest.raises(OptionError, match="2 models; 1 to 1"):
        run(rows, [model, Model(model_id="n")], journal, limits=Limits(models=1))
    with pytest.raises(AdapterError, match="needs model_id"):
        run(rows, [model, object()], journal)
    with pytest.raises(AdapterError, match="rename it"):
        run(rows, [model, Model(model_id="\ud800")], journal)
    with pytest.raises(SchemaError):
        run(rows.drop("prompt"), [model], journal)
    assert model.seen == []


def test_a_model_is_called_by_no_more_workers_than_it_takes(make_rows, Model, new_journal) -> None:
    together, workers = threading.Barrier(2), set()

    def meet(prompt, task):
        together.wait(timeout=60)
        return Generation(prompt)

    def tell(prompt, task):
        workers.add(threading.current_thread().name)
        return Generation(prompt)

    met = run(make_rows({"a": 2}), [Model(answer=meet)], new_journal(), concurrency=2)
    assert met["status"].to_list() == ["completed"] * 2
    model = Model(answer=tell)
    model.max_workers = 1
    run(make_rows({"a": 60}), [model], new_journal(), concurrency=5)
    assert len(workers) == 1
    model.max_workers = 0
    with pytest.raises(AdapterError, match="max_workers is 0"):
        run(make_rows(), [model], new_journal())


def test_without_rows_no_call_is_made(rows, Model, journal) -> None:
    summary = generate(rows.clear(), adapters=[Model()], journal=journal, options=GenerateOptions())
    assert summary.counts == {"m": {}}
    assert not summary.interrupted


def test_an_adapter_may_be_replaced_for_the_run(rows, Model, journal) -> None:
    class Chooser(Model):
        def prepare(self, categories):
            assert categories == ["qa"]
            return Model(lambda prompt, task: Generation("chosen"))

    assert run(rows, [Chooser()], journal)["output_text"].unique().to_list() == ["chosen"]


@pytest.mark.parametrize("gives", [None, "other"])
def test_a_hook_that_does_not_give_the_model_is_named(rows, Model, journal, gives) -> None:
    class Wrong(Model):
        def prepare(self, categories):
            return Model(model_id=gives) if gives else 1 / 0

    with pytest.raises(AdapterError, match=r"m: prepare\(\)"):
        run(rows, [Wrong()], journal)
