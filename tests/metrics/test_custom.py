"""Metrics of the user's own: what is accepted, what is refused at once, who may take a name."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from evalframe.errors import NameTakenError, OptionError, UnknownNameError
from evalframe.metrics import Metric, metric, metric_alias, score
from evalframe.registry import METRICS


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    METRICS.names()  # entry points are read before the copy
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))


def test_two_expressions() -> None:
    @metric("short", range=(0, 1), higher_is_better=True)
    def short(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        """Whether the answer is no longer than the first target."""
        return prediction.str.len_chars() <= targets.list.first().str.len_chars()

    assert isinstance(short, Metric)
    assert METRICS.get("short") is short
    assert short.binary  # it gives booleans
    assert short.description == "Whether the answer is no longer than the first target."
    assert (score("short", "ab", ["abc"]), short("abcd", ["abc"])) == (1.0, 0.0)


@pytest.mark.parametrize("as_what", ["expression", "series", "frame"])
def test_one_frame(as_what: str) -> None:
    def share(frame: pl.DataFrame) -> Any:
        expression = pl.col("prediction").str.len_chars() / 10
        if as_what == "expression":
            return expression
        scores = frame.select(score=expression)
        return scores if as_what == "frame" else scores["score"]

    made = metric("share")(share)
    assert made("abc", ["x"]) == 0.3
    assert not made.binary


def test_a_column_of_the_data() -> None:
    @metric("in_budget", needs=("row.budget", "targets", "row.budget"))
    def in_budget(frame: pl.DataFrame) -> pl.Expr:
        return pl.col("prediction").str.len_chars() <= pl.col("row.budget").cast(pl.Int64)

    assert score("in_budget", "abc", ["x"], **{"row.budget": "3"}) == 1
    assert score("in_budget", "abcd", ["x"], **{"row.budget": "3"}) == 0


@pytest.mark.parametrize(("column", "hint"), [("prompts", "prompt"), ("row.", "row.<name>"), ("subject", "known|mean")])
def test_needs_are_checked_at_registration(column: str, hint: str) -> None:
    with pytest.raises(OptionError, match=rf"rows have no column '{column}'.*({hint})"):
        metric("m", needs=(column,))(lambda prediction, targets: prediction == "")
    assert "m" not in METRICS


def test_needs_is_a_tuple() -> None:
    with pytest.raises(OptionError, match=r"give a tuple: \('prompt',\)"):
        metric("m", needs="prompt")(lambda prediction, targets: prediction == "")


def test_every_fault_of_the_settings_is_named() -> None:
    def wrong(a: Any, b: Any, c: Any, *, d: Any) -> None: ...

    with pytest.raises(OptionError) as caught:
        metric("two words", range=(1, 0), needs=("nope",))(wrong)
    assert [fault.where for fault in caught.value.fault_records] == [
        "function", "function(d)", "name", "range", "needs",
    ]  # fmt: skip


@pytest.mark.parametrize("bad", [(0, float("inf")), (0, 0), (float("nan"), 1), (1,), 3, ("0", "1"), (False, True)])
def test_a_range_is_two_finite_numbers(bad: Any) -> None:
    with pytest.raises(OptionError, match=r"two finite numbers.*worst end"):
        metric("m", range=bad)(lambda prediction, targets: prediction == "")


def a_mean(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
    return (prediction == targets.list.first()).mean()


def a_rank(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
    return prediction.rank() / prediction.len()


def out_of_range(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
    return prediction.str.len_chars() + 5


def nulls(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
    return targets.list.get(5, null_on_oob=True).str.len_chars()


def a_wrong_name(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
    return pl.col("predictions") == ""


def a_number(prediction: pl.Expr, targets: pl.Expr) -> float:
    return 0.5


def fails_on_nothing(frame: pl.DataFrame) -> pl.Series:
    first = frame["prediction"][0]
    return frame["prediction"].str.len_chars() / max(len(first), 1)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (a_mean, "gave 1 scores for 4 rows"), (a_rank, "use aggregate="), (out_of_range, "row 0: 6.0.*from 0 to 1"),
        (nulls, "None for the prediction"), (a_wrong_name, "ColumnNotFoundError"), (a_number, "not float"),
        (fails_on_nothing, "IndexError"),
    ],
)  # fmt: skip
def test_most_mistakes_show_at_registration(function: Any, said: str) -> None:
    with pytest.raises(OptionError, match=f"(?s){said}"):
        metric("m")(function)
    assert "m" not in METRICS


def test_a_row_without_a_target_scores_worst_and_the_function_does_not_see_it() -> None:
    @metric("first_target", higher_is_better=False)
    def first_target(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction != targets.list.get(0)

    frame = pl.DataFrame({"prediction": ["a", "b", "c"], "targets": [[], ["b"], []]})
    assert first_target.measure(frame)["score"].to_list() == [1, 0, 1]
    assert first_target.measure(frame.filter(prediction="a"))["score"].to_list() == [1]


def test_a_metric_that_needs_no_target_sees_all_rows() -> None:
    @metric("brief", needs_target=False)
    def brief(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction.str.len_chars() < 3

    assert brief("ab", []) == 1


def test_parts_and_an_aggregate() -> None:
    @metric("word_share", aggregate=lambda parts: parts[..., 0] / np.maximum(parts[..., 1], 1))
    def word_share(frame: pl.DataFrame) -> pl.DataFrame:
        length = pl.col("prediction").str.len_chars()
        short = length.clip(0, 4)
        return frame.select(score=short / length.clip(1), parts=pl.concat_list(short, length))

    measured = word_share.measure(pl.DataFrame({"prediction": ["abc", "abcdefgh"], "targets": [["x"], ["x"]]}))
    assert measured["parts"].to_list() == [[3, 3], [4, 8]]
    assert word_share.aggregate is not None
    assert word_share.aggregate(np.array([[7.0, 11.0]])) == pytest.approx([7 / 11])


def test_a_taken_name_is_an_error() -> None:
    for name in ("f1", "numeric_match"):
        with pytest.raises(NameTakenError, match="choose another name"):
            metric(name)(lambda prediction, targets: prediction == "")
    metric("mine")(lambda prediction, targets: prediction == "")
    with pytest.raises(NameTakenError, match="mine"):  # two lambdas are two definitions
        metric("mine")(lambda prediction, targets: prediction == "")


def define(answer: str) -> Metric:
    @metric("again")
    def again(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        return prediction == answer

    return again


def test_the_same_definition_run_again_replaces() -> None:
    define("a")
    define("b")
    assert (score("again", "a", ["x"]), score("again", "b", ["x"])) == (0, 1)
    metric_alias("close", "numeric_match", abs_tol=0.5)
    metric_alias("close", "numeric_match", abs_tol=0.1)
    assert METRICS.get("close").parameters == {"abs_tol": 0.1, "rel_tol": 0.0}
    with pytest.raises(NameTakenError):
        metric_alias("close", "f1")


def test_an_alias_sets_parameters_and_keeps_the_rest() -> None:
    close = metric_alias("close", "numeric_match", abs_tol=0.01)
    assert (close.name, close.binary) == ("close", True)
    assert score("close", "3.14", ["3.1416"]) == 1
    assert score("numeric_match", "3.14", ["3.1416"]) == 0
    metric_alias("closer", "close", rel_tol=0.001)
    assert METRICS.get("closer").parameters == {"abs_tol": 0.01, "rel_tol": 0.001}
    assert metric_alias("em", "exact_match")("a", ["a"]) == 1


def test_an_alias_of_the_users_own_metric() -> None:
    @metric("brief")
    def brief(prediction: pl.Expr, targets: pl.Expr, *, most: int = 3) -> pl.Expr:
        return prediction.str.len_chars() <= most

    metric_alias("briefer", "brief", most=1)
    assert [score(name, "ab", ["x"]) for name in ("brief", "briefer")] == [1, 0]
    assert METRICS.get("briefer").binary
    with pytest.raises(OptionError, match="tried on a small frame"):
        metric_alias("broken", "brief", most="many")


def test_an_unknown_parameter_lists_what_there_is() -> None:
    with pytest.raises(
        OptionError, match="abs_tolerance: is no parameter of the metric 'numeric_match' -> did you mean 'abs_tol'"
    ):
        metric_alias("close", "numeric_match", abs_tolerance=0.01)
    with pytest.raises(OptionError, match="f1 has no parameters"):
        metric_alias("f2", "f1", beta=2)
    with pytest.raises(OptionError, match="finite number that is at least 0"):
        metric_alias("close", "numeric_match", abs_tol=-1)
    with pytest.raises(UnknownNameError, match="did you mean 'numeric_match'"):
        metric_alias("close", "numericmatch")


def test_a_package_registers_by_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "other_package_metrics.py").write_text(
        "from evalframe.metrics import metric\n"
        "@metric('theirs')\n"
        "def theirs(prediction, targets):\n"
        "    return prediction == 'yes'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    METRICS._entries["theirs"] = "other_package_metrics:theirs"  # as discovery leaves it
    assert score("theirs", "yes", ["x"]) == 1
