"""Stored outputs as models: found by their key, never guessed, and clear where something is wrong."""

from __future__ import annotations

import polars as pl
import pytest

from evalframe.adapters import CallFailed, TaskSpec
from evalframe.adapters.replay import Replay, replay_adapters
from evalframe.errors import AdapterError


def outputs(**columns) -> pl.DataFrame:
    base = {"task_id": ["t", "t"], "sample_index": [0, 1], "output_text": ["zero", "one"]}
    return pl.DataFrame({name: values for name, values in (base | columns).items() if values is not None})


def task(index: int = 0, *, task_id: str = "t", sample_id: str = "", repeat: int = 0) -> TaskSpec:
    return TaskSpec(task_id, "qa", "p", sample_index=index, sample_id=sample_id, repeat=repeat)


def text(replay: Replay, call: TaskSpec) -> str:
    return replay.generate("p", call).text


def missing(replay: Replay, call: TaskSpec) -> str:
    with pytest.raises(CallFailed) as caught:
        replay.generate("p", call)
    assert caught.value.error_type == "missing_output"
    return caught.value.message


def test_by_position() -> None:
    replay = Replay(outputs(), model_id="m")
    assert [text(replay, task(i)) for i in (1, 0)] == ["one", "zero"]
    assert "sample_index 2" in missing(replay, task(2))
    assert "none is of this task" in missing(replay, task(task_id="u"))


def test_by_id() -> None:
    replay = Replay(outputs(sample_index=None, sample_id=["x", "y"]), model_id="m")
    assert text(replay, task(7, sample_id="y")) == "one"
    assert "sample_id 'z'" in missing(replay, task(0, sample_id="z"))


def test_where_both_name_the_sample_the_id_holds() -> None:
    replay = Replay(outputs(sample_id=["x", "y"]), model_id="m")
    assert text(replay, task(0, sample_id="y")) == "one"
    assert "drop the column sample_id to match by sample_index" in missing(replay, task(0, sample_id="other"))


def test_numbers_as_ids() -> None:
    assert (
        text(Replay(outputs(task_id=[5, 5], sample_id=[10, 11]), model_id="m"), task(task_id="5", sample_id="11"))
        == "one"
    )


def test_one_answer_is_not_copied_to_all_repeats() -> None:
    without = Replay(outputs(), model_id="m")
    assert text(without, task(0)) == "zero"
    assert "no column 'repeat'" in missing(without, task(0, repeat=1))
    repeated = Replay(outputs(sample_index=[0, 0], repeat=[0, 1]), model_id="m")
    assert [text(repeated, task(0, repeat=r)) for r in (0, 1)] == ["zero", "one"]
    assert missing(repeated, task(0, repeat=2)).endswith("repeat 2")


def test_a_null_output_is_missing_and_says_what_was_stored() -> None:
    replay = Replay(
        outputs(output_text=[None, "one"], error_type=["timeout", None], error_message=["120 s", None]), model_id="m"
    )
    assert missing(replay, task(0)) == "the stored output is null (timeout: 120 s)"
    assert missing(Replay(outputs(output_text=[None, "one"]), model_id="m"), task(0)) == "the stored output is null"
    assert text(Replay(outputs(output_text=["", "one"]), model_id="m"), task(0)) == ""


FIGURES = {
    "confidence": [0.5, None], "token_nll": [1.5, None], "token_count": [3, None], "input_tokens": [1, None],
    "output_tokens": [2, None], "cached_tokens": [0, None], "reasoning_tokens": [4, None], "reasoning": ["r", None],
    "finish_reason": ["stop", None], "response_id": ["i", None], "model_version": ["v", None],
}  # fmt: skip


def test_what_else_is_known_comes_along() -> None:
    replay = Replay(
        outputs(**FIGURES, tool_calls=['[{"x":1.50}]', None], choice_logprobs=[[-1, -2], None]), model_id="m"
    )
    reply, other = replay.generate("p", task(0)), replay.generate("p", task(1))
    for name, (value, _) in FIGURES.items():
        assert getattr(reply, name) == value
        assert getattr(other, name) is None
    assert reply.tool_calls == [{"x": "1.50"}]
    assert reply.choice_logprobs == (-1.0, -2.0)
    assert (other.tool_calls, other.choice_logprobs) == (None, None)


def test_numbers_may_be_text_as_csv_has_them() -> None:
    replay = Replay(outputs(sample_index=["0", "1"], confidence=["0.5", None], token_count=["3", "4"]), model_id="m")
    reply = replay.generate("p", task(0))
    assert (reply.confidence, reply.token_count) == (0.5, 3)
    listed = Replay(outputs(choice_logprobs=["[-1,-2.5]", None]), model_id="m")
    assert [listed.generate("p", task(n)).choice_logprobs for n in (0, 1)] == [(-1.0, -2.5), None]
    assert text(Replay(outputs(sample_index=[0.0, 1.0]), model_id="m"), task(1)) == "one"


def test_other_columns_are_not_looked_at() -> None:
    assert text(Replay(outputs(latency_seconds=["no", "number"], mine=[[1], [2]]), model_id="m"), task(1)) == "one"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"task_id": None}, "task_id: the column is missing"),
        ({"output_text": None, "output": ["a", "b"]}, "output_text: the column is missing .* did you mean 'output'"),
        ({"sample_index": None}, "both columns are missing -> add one of the two"),
        ({"output_text": [18, 7]}, "output_text: is Int64, not text -> read it as text"),
        ({"task_id": [1.5, 2.5]}, "task_id: is Float64, not text"),
        ({"sample_index": ["0", "x"]}, "sample_index: row 1: 'x' is not a whole number"),
        ({"sample_index": [0.5, 1.0]}, "sample_index: row 0: 0.5 is not a whole number"),
        ({"confidence": ["high", "0.5"]}, "confidence: row 0: 'high' is not a number"),
        ({"confidence": [[1], [2]]}, r"confidence: is List\(Int64\), not a number"),
        ({"choice_logprobs": ["[-1", None]}, "choice_logprobs: is String, not a list of numbers -> cast it, or drop"),
        ({"reasoning": [1, 2]}, "reasoning: is Int64, not text"),
        ({"task_id": ["t", None]}, "task_id: 1 nulls, the first in row 1"),
        ({"sample_id": ["x", None]}, "sample_id: 1 nulls.*drop the column to match by sample_index"),
        ({"sample_index": [1, 1]}, r"\('t', 1\) stands in more than one row.*column repeat, from 0"),
        (
            {"sample_index": [1, 1], "repeat": [2, 2]},
            r"\('t', 1, 2\) stands in more than one row -> keep one row a call$",
        ),
    ],
)
def test_what_is_wrong_is_said(columns, words) -> None:
    with pytest.raises(AdapterError, match=words) as caught:
        Replay(outputs(**columns), model_id="m")
    assert "stored outputs of m" in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(AdapterError) as caught:
        Replay(pl.DataFrame({"text": ["x"]}), model_id="m")
    assert len(caught.value.fault_records) == 3
    with pytest.raises(AdapterError) as caught:
        Replay(outputs(output_text=[1, 2], confidence=["a", "b"]), model_id="m")
    assert caught.value.faults["where"].to_list() == ["output_text", "confidence"]


def test_one_adapter_a_model_in_the_order_seen() -> None:
    frame = outputs(model_id=["z", "a"], sample_index=[0, 0])
    first, second = replay_adapters(frame)
    assert (first.model_id, second.model_id) == ("z", "a")
    assert (text(first, task(0)), text(second, task(0))) == ("zero", "one")
    assert missing(first, task(1))


def test_the_name_where_there_is_no_model_id() -> None:
    assert [replay.model_id for replay in replay_adapters(outputs())] == ["replay"]
    assert [replay.model_id for replay in replay_adapters(outputs(), model_id="file")] == ["file"]
    assert [replay.model_id for replay in replay_adapters(outputs(model_id=["z", "z"]), model_id="file")] == ["z"]


@pytest.mark.parametrize(("ids", "words"), [(["m", None], "null in row 1"), ([1, 2], "is Int64, not text")])
def test_a_model_id_that_is_none_is_refused(ids, words) -> None:
    with pytest.raises(AdapterError, match=words):
        replay_adapters(outputs(model_id=ids))


def test_no_outputs_at_all() -> None:
    empty = outputs().clear()
    (replay,) = replay_adapters(empty)
    assert missing(replay, task(0))
    assert replay_adapters(empty.with_columns(pl.lit("m").alias("model_id"))) == []
