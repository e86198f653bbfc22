"""Why calls missed the result cache, where there is no server: models of one's own, and what a run can be."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import UnknownNameError
from evalframe.explaining import MEANINGS, differences, summarise
from evalframe.frames import check
from evalframe.generate.cache import cache_path
from evalframe.schemas import CACHE_MISSES
from evalframe.words import CacheMiss


@pytest.fixture
def run(suite, tmp_path):
    """Run one task with models that are objects; each run in a folder of its own."""

    def once(*models: Any, **options: Any) -> ef.Run:
        return ef.run(suite(), list(models), progress=False, out=False, **options)

    return once


def function(version: str | None = "1", name: str = "f", answer: Any = str.upper) -> Any:
    return ef.from_callable(name, answer, model_version=version)


def reasons(run: ef.Run, *models: Any, **options: Any) -> list[tuple[str, str, str | None, int]]:
    misses = run.cache_misses(models=list(models) or None, **options)
    return list(summarise(misses).select("model_id", "reason", "detail", "n_calls").iter_rows())


def test_each_reason_has_a_meaning() -> None:
    assert set(MEANINGS) == set(CacheMiss.__args__)


def test_models_of_one_s_own_are_kept_where_they_state_a_version(run, Counting) -> None:
    stating, silent = Counting("stating"), Counting("silent")
    stating.model_version = "1"
    for _ in range(2):
        made = run(stating, silent)
    assert (len(stating.seen), len(silent.seen)) == (6, 12)
    assert made.generations.group_by("model_id").agg(pl.col("cached").sum()).sort("model_id").rows() == [
        ("silent", 0), ("stating", 6),
    ]  # fmt: skip
    assert reasons(made, stating, silent) == [("silent", "no_version", None, 6)]
    misses = made.cache_misses(models=[silent])
    assert check(misses, CACHE_MISSES).height == 6
    assert misses.notes[0] == "6 of 12 replies came from the cache"


def test_another_version_is_another_model(run) -> None:
    run(function("1"))
    made = run(function("2"))
    assert not made.generations["cached"].any()
    assert reasons(made, function("2")) == [("f", "other_version", 'model_version: "1" -> "2"', 6)]


def test_a_model_that_sees_the_task_is_asked_anew_for_another_one(run, suite) -> None:
    seeing = function(answer=lambda prompt, task: prompt)
    run(seeing)
    made = ef.run(suite("other"), [seeing], progress=False, out=False)
    assert reasons(made, seeing) == [("f", "other_task", "the sample: differs", 6)]


def test_an_object_that_is_not_handed_in_again_is_told(run) -> None:
    made = run(function())
    ((model_id, reason, detail, n),) = reasons(made)
    assert (model_id, reason, n) == ("f", "model_unknown", 6)
    assert "hand them in again" in detail


def test_mocks_are_never_kept_and_need_no_cache(run) -> None:
    made = run("mock/rule_based")
    assert not cache_path(True).exists()
    assert reasons(made) == [("mock/rule_based", "no_version", None, 6)]
    assert made.cache_misses().notes[1].endswith("replies.sqlite, which is not there")


def test_a_call_that_failed_says_so_and_what_is_near(run, Counting) -> None:
    failing = Counting("m", fails="2")
    failing.model_version = "1"
    run(failing, generation={"temperature": 0})
    again = run(failing, generation={"temperature": 0})
    assert reasons(again, failing) == [("m", "not_kept", "failed (connection)", 1)]
    warmer = run(failing, generation={"temperature": 1})
    assert reasons(warmer, failing) == [
        ("m", "other_settings", "temperature: 0 -> 1", 5), ("m", "not_kept", "failed (connection)", 1),
    ]  # fmt: skip


def test_a_reply_that_was_there_and_was_not_read_is_told(run, suite, tmp_path) -> None:
    model = function()
    run(model)
    made = run(model, cache=tmp_path / "other.sqlite")
    # as if the run had used the user's own file, which had the replies, and could not read it
    made.folder.update_record(options={**made.folder.record()["options"], "cache": True})
    assert reasons(ef.load(made.path), model) == [("f", "not_read", None, 6)]


def test_a_part_of_a_run_can_be_asked_for(run) -> None:
    made = run(function(), function(name="g"))
    models = [function(), function(name="g")]
    assert reasons(made, *models, model_id="g", sample_id="q3") == [("g", "new_prompt", None, 1)]
    assert made.cache_misses(models=models, task_id="sums", sample_id="q3").height == 2
    assert made.cache_misses(models=models, sample_id="q3").notes[0] == "0 of 2 replies came from the cache"
    for name in ({"model_id": "h"}, {"task_id": "sum"}, {"sample_id": "q33"}):
        with pytest.raises(UnknownNameError, match=r"in the run; (did you mean|known)"):
            made.cache_misses(**name)


def test_calls_that_were_never_made_have_no_row(run) -> None:
    made = run(function(), max_samples_per_task=2)
    generations = made.generations.with_columns(
        status=pl.lit("skipped"), started_at=pl.lit(None, pl.Datetime("us", "UTC"))
    )
    made.folder.write("generations", generations, segment=0)
    misses = ef.load(made.path).cache_misses()
    assert misses.is_empty()
    assert summarise(misses).is_empty()


def test_differences_are_named_by_their_weight() -> None:
    one = {"model": "m", "api": "chat", "settings": {"a": 1, "b": {"c": [1]}, "gone": True}, "texts": {"x": "1"}}
    other = {"model": "n", "api": "chat", "settings": {"b": {"c": [2]}, "a": 1, "new": "x" * 100}, "texts": {"x": "2"}}
    assert differences(one, one) == {}
    assert list(differences(one, other).items()) == [
        ("model", '"m" -> "n"'), ("texts.x", "differs"), ("settings.b.c", "[1] -> [2]"),
        ("settings.new", f'none -> "{"x" * 58}…'), ("settings.gone", "true -> none"),
    ]  # fmt: skip


def test_a_model_that_is_a_string_needs_no_key_to_be_explained(suite, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-secret")
    model = "openai-compatible/nobody@http://127.0.0.1:9/v1"  # nothing listens there
    made = ef.run(suite(), [model], progress=False, out=False, generation={"max_retries": 0}, preflight=False)
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY")
    assert reasons(made) == [("openai-compatible/nobody", "not_kept", "failed (connection)", 6)]


def test_a_call_that_can_not_be_identified_is_a_failed_row_and_the_others_go_on(run, Counting) -> None:
    model = Counting("m")

    def identity(prompt: str, task: Any) -> dict[str, Any]:
        if task.sample_index == 2:
            raise KeyError("what")
        return {"prompt": prompt}

    model.identity = identity
    made = run(model)
    failed = made.generations.filter(pl.col("status") != "completed")
    assert failed.select("sample_index", "error_type", "attempts", "cost_usd").rows() == [(2, "adapter_error", 0, None)]
    assert "m: identity() failed: KeyError: 'what'" in failed["error_message"][0]
    assert len(model.seen) == 5
    assert ("m", "not_kept", "m: identity() failed: KeyError: 'what'", 1) in reasons(made, model)
    assert run(model).generations["cached"].sum() == 5
