"""Equality of stripped texts, where stripping is Python's."""

import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.metrics import score
from evalframe.metrics.matching import ACCURACY, EXACT_MATCH
from evalframe.words import WHITE_SPACE
from tests.references.plain_metrics import exact_match


def test_white_space_is_all_that_python_strips() -> None:
    assert sorted(WHITE_SPACE) == [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]


@pytest.mark.parametrize("name", ["exact_match", "accuracy"])
def test_inner_blanks_case_and_punctuation_count(name: str) -> None:
    assert score(name, "\x1c New York\u3000", ["New York"]) == 1
    for other in ("new york", "New  York", "New York."):
        assert score(name, other, ["New York"]) == 0


def test_each_row_is_compared_with_its_own_targets() -> None:
    frame = pl.DataFrame({"prediction": ["a", "b", "c", "d"], "targets": [["b", " a"], ["a"], [], ["c", "d "]]})
    for metric in (EXACT_MATCH, ACCURACY):
        assert metric.measure(frame)["score"].to_list() == [1, 0, 0, 1]


blanks = st.text(alphabet=WHITE_SPACE + "ab\u200b\x00\u0301é\u3001\u2fff水", max_size=6)


@given(st.lists(st.tuples(blanks, st.lists(blanks, max_size=3)), max_size=6))
def test_columns_equal_the_plain_definition(pairs: list[tuple[str, list[str]]]) -> None:
    frame = pl.DataFrame(pairs, schema={"prediction": pl.String, "targets": pl.List(pl.String)}, orient="row")
    plain = [exact_match(prediction, targets) for prediction, targets in pairs]
    assert EXACT_MATCH.measure(frame)["score"].to_list() == plain
