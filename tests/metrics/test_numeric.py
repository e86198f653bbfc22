"""numeric_match: exact where floats are not."""

from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.errors import OptionError
from evalframe.extractors import extract
from evalframe.metrics import score
from evalframe.metrics.numeric import NUMERIC_MATCH, numeric_match
from tests.references.plain_metrics import numbers_agree


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


# numbers of all sizes, near each other and near the tolerances, beyond the floats on both ends
digits = st.text("0123456789", min_size=1, max_size=25)
written = st.one_of(
    st.integers(-50, 50).map(str),
    st.builds("{}.{}".format, digits, digits),
    st.builds("-{}".format, digits),
    st.builds("{}e{}".format, digits, st.sampled_from([-5000, -320, -308, -9, 9, 22, 300, 308, 309, 5000])),
    st.builds(lambda n, step: str(Decimal(n) + step * Decimal("1e-9")), st.integers(0, 9), st.integers(-3, 3)),
    st.builds(lambda n, step: str(Decimal(n) + step * Decimal("1e-26")), st.integers(0, 9), st.integers(-3, 3)),
    st.sampled_from(["9007199254740992", "9007199254740993", "none", "", "0.1", "0.100000001", "0.1000000010000001"]),
)
tolerance = st.sampled_from([0.0, 1e-320, 1e-26, 1e-9, 0.01, 0.5, 1.0, 1e300, 1.7e308])


@given(st.lists(st.tuples(written, st.lists(written, max_size=3)), max_size=6), tolerance, tolerance)
def test_columns_equal_the_plain_definition(rows: list[tuple[str, list[str]]], abs_tol: float, rel_tol: float) -> None:
    frame = pl.DataFrame(rows, schema={"prediction": pl.String, "targets": pl.List(pl.String)}, orient="row")
    plain = [
        numbers_agree(read(prediction), [read(target) for target in targets], abs_tol=abs_tol, rel_tol=rel_tol)
        for prediction, targets in rows
    ]
    assert numeric_match(abs_tol=abs_tol, rel_tol=rel_tol).measure(frame)["score"].to_list() == plain


def read(text: str) -> str | None:
    return extract(pl.Series([text]), {"type": "number"})["extracted_output"][0]
