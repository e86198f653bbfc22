"""numeric_match: exact where floats are not."""

import polars as pl
import pytest

from evalframe.errors import OptionError
from evalframe.metrics import score
from evalframe.metrics.numeric import NUMERIC_MATCH, numeric_match


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        ("The answer is 42.", "42"), ("42.0", "42"), ("1,234.50", "1234.5"), ("$1,234", "1234"), ("−3", "-3"),
        ("3/4", "0.75"), ("1e5", "100000"), ("0", "-0.0"), ("0.1000000009", "0.1"), ("#### 18", "so 18"),
        ("9007199254740993", "9007199254740993"),
    ],
)  # fmt: skip
def test_the_same_number(prediction: str, target: str) -> None:
    assert score("numeric_match", prediction, [target]) == 1
    assert score("numeric_match", target, [prediction]) == 1


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        ("9007199254740993", "9007199254740992"), ("1" * 400, "1" * 399 + "2"), ("0.1000000011", "0.1"), ("41", "42"),
        ("-42", "42"), ("no idea", "42"), ("42", "forty-two"), ("none", "none"), ("", ""), ("1e-5", "1e-6"),
    ],
)  # fmt: skip
def test_not_the_same_number(prediction: str, target: str) -> None:
    assert score("numeric_match", prediction, [target]) == 0


def test_a_difference_of_just_the_tolerance_agrees() -> None:
    # in floats 0.1 + 1e-9 - 0.1 is over 1e-9
    assert score("numeric_match", "0.100000001", ["0.1"]) == 1


def test_any_target_will_do_and_those_without_a_number_do_no_harm() -> None:
    assert score("numeric_match", "7", ["seven", "6", "7"]) == 1
    assert score("numeric_match", "7", []) == 0


def test_tolerances_are_relative_to_the_target_and_absolute() -> None:
    assert numeric_match(rel_tol=0.1)("90", ["100"]) == 1
    assert numeric_match(rel_tol=0.1)("100", ["90"]) == 0  # 10 is over a tenth of 90
    assert numeric_match(rel_tol=0.1)("-90", ["-100"]) == 1
    assert numeric_match(abs_tol=0)("0.1", ["0.10000000000000000001"]) == 0
    assert numeric_match(abs_tol=2)("9007199254740993", ["9007199254740995"]) == 1
    assert numeric_match(abs_tol=2)("9007199254740993", ["9007199254740996"]) == 0


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), True, "0.1"])
def test_a_tolerance_is_a_number_from_0_up(bad: object) -> None:
    with pytest.raises(OptionError, match="finite number that is at least 0"):
        numeric_match(abs_tol=bad)  # type: ignore[arg-type]


def test_rows_keep_their_own_targets() -> None:
    frame = pl.DataFrame({"prediction": ["1", "x", "3", "4"], "targets": [["2", "1"], ["1"], [], ["3", "5"]]})
    assert NUMERIC_MATCH.measure(frame)["score"].to_list() == [1, 0, 0, 0]
