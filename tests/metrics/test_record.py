"""The record, its checks, and the scalar door."""

from typing import Any

import polars as pl
import pytest

from evalframe.errors import EvalframeError, OptionError, SchemaError, UnknownNameError
from evalframe.metrics import Metric, score
from evalframe.registry import METRICS


def gives(*values: Any, dtype: Any = None, **settings: Any) -> Metric:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        return pl.DataFrame({"score": pl.Series(values, dtype=dtype, strict=False)})

    return Metric(name="made_up", compute=compute, **settings)


def asked(n: int) -> pl.DataFrame:
    return pl.DataFrame({"prediction": [f"answer {i}" for i in range(n)], "targets": [["t"]] * n})


def test_what_a_metric_leaves_out_is_null() -> None:
    measured = gives(1, 0, 1).measure(asked(3))
    assert measured.schema == {"score": pl.Float64, "parts": pl.List(pl.Float64), "detail": pl.String}
    assert measured.rows() == [(1.0, None, None), (0.0, None, None), (1.0, None, None)]
    assert gives(True, False).measure(asked(2))["score"].to_list() == [1.0, 0.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, 1.5, -0.1])
def test_a_score_that_is_no_score_names_metric_row_and_value(bad: float | None) -> None:
    with pytest.raises(SchemaError) as caught:
        gives(0.5, 1, bad, dtype=pl.Float64).measure(asked(3))
    message = str(caught.value)
    assert "made_up" in message
    assert f'row 2: {bad} for the prediction "answer 2"' in message
    assert "give a number from 0 to 1" in message


def test_the_row_is_named_by_its_keys_where_there_are_any() -> None:
    keys = pl.DataFrame({"task_id": ["a", "b"], "sample_index": [0, 7]})
    with pytest.raises(SchemaError, match=r"task_id=b sample_index=7: 2.0"):
        gives(1, 2).measure(asked(2), keys=keys)


def test_rounding_beyond_the_end_is_cut() -> None:
    assert gives(1 + 1e-12, -1e-12).measure(asked(2))["score"].to_list() == [1.0, 0.0]


def test_another_range_is_held_too() -> None:
    assert gives(-100, 100, range=(-100, 100)).measure(asked(2))["score"].to_list() == [-100, 100]
    with pytest.raises(SchemaError, match="give a number from -100 to 100"):
        gives(-101, 100, range=(-100, 100)).measure(asked(2))


def test_one_score_a_row() -> None:
    with pytest.raises(SchemaError, match=r"gave 1 scores for 3 rows.*aggregates"):
        gives(0.5).measure(asked(3))


def test_scores_are_numbers() -> None:
    with pytest.raises(SchemaError, match=r"type String.*numbers or booleans"):
        gives("1").measure(asked(1))


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "gave None"), ([1.0], "gave a list"), (pl.DataFrame({"f1": [1.0]}), "columns f1"),
        (pl.DataFrame({"score": [1.0], "why": ["x"]}), "columns why"),
        (pl.DataFrame({"score": [1.0], "parts": [[1.0]]}), "nothing adds them up"),
        (pl.DataFrame({"score": [1.0], "parts": [["x"]]}), "no lists of numbers"),
    ],
)  # fmt: skip
def test_a_result_of_another_shape_is_refused(result: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Metric(name="made_up", compute=lambda frame, policy: result).measure(asked(1))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([[1.0], None], "parts are None"), ([[1.0], [float("nan")]], "parts are"),
        ([[1.0], [1.0, 2.0]], r"lengths \[1, 2\]"),
    ],
)  # fmt: skip
def test_parts_are_finite_and_of_one_length(parts: Any, said: str) -> None:
    result = pl.DataFrame({"score": [1.0, 1.0], "parts": parts})
    with pytest.raises(SchemaError, match=said):
        Metric(name="m", compute=lambda frame, policy: result, aggregate=lambda sums: sums[..., 0]).measure(asked(2))


def test_an_exception_of_a_metric_names_the_metric() -> None:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        raise ZeroDivisionError("oh")

    with pytest.raises(EvalframeError, match="the metric 'made_up' raised ZeroDivisionError: oh"):
        Metric(name="made_up", compute=compute).measure(asked(1))


def test_needed_columns_are_handed_on_and_no_others() -> None:
    seen: list[list[str]] = []

    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        seen.append(frame.columns)
        return frame.select(score=pl.lit(1.0).repeat_by(1).list.first() + 0 * pl.col("row.n").cast(pl.Float64))

    metric = Metric(name="made_up", compute=compute, needs=("row.n",))
    metric.measure(asked(2).with_columns(pl.lit("3").alias("row.n"), secret=pl.lit("x")))
    assert seen == [["prediction", "targets", "row.n"]]
    with pytest.raises(SchemaError, match=r"needs the columns row\.n.*name these fields"):
        metric.measure(asked(1))


def test_null_targets_count_as_absent() -> None:
    frame = pl.DataFrame({"prediction": ["a", "a"], "targets": [[None, "a"], [None]]})
    assert METRICS.get("exact_match").measure(frame)["score"].to_list() == [1, 0]


def test_the_worst_score_follows_the_direction() -> None:
    assert gives(range=(2, 5)).worst == 2
    assert gives(range=(2, 5), higher_is_better=False).worst == 5


def test_score_refuses_what_is_no_text_and_says_why() -> None:
    with pytest.raises(OptionError) as caught:
        score("f1", None, "whale")  # type: ignore[arg-type]
    message = str(caught.value)
    assert "prediction: is None, not text" in message
    assert 'targets: is "whale", not a list of texts -> give ["…"]' in message


def test_score_names_unknown_columns_and_metrics() -> None:
    with pytest.raises(OptionError, match="colour are not used"):
        score("f1", "a", ["a"], colour="blue")
    with pytest.raises(UnknownNameError, match="did you mean 'rouge_l'"):
        score("rougel", "a", ["a"])


def test_score_takes_needed_columns_and_fills_json_columns() -> None:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        said = pl.concat_str("category", "metadata", pl.col("row.n").fill_null("-"), separator=" ")
        return frame.select(
            score=pl.lit(1.0) + 0 * said.str.len_chars(), detail=pl.struct(said.alias("s")).struct.json_encode()
        )

    metric = Metric(name="made_up", compute=compute, needs=("category", "metadata", "row.n"))
    assert metric("x", ["x"], category="c") == 1
    assert metric("x", ["x"], category="c", metadata={"timeout_s": 5}, **{"row.n": "3"}) == 1
    with pytest.raises(OptionError, match="category: the metric 'made_up' needs it -> give category=…"):
        metric("x", ["x"])


def test_a_lone_surrogate_is_no_trouble() -> None:
    assert score("exact_match", "a\ud800", ["a\ufffd"]) == 1
