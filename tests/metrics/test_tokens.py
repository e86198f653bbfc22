"""The tokenizer is a contract: Python's word characters of the lower-cased text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from evalframe.metrics.tokens import tokens


def test_punctuation_and_line_breaks_separate() -> None:
    assert tokens("17\n\nParagraph: the river's_bed") == ["17", "paragraph", "the", "river", "s_bed"]


def test_superscripts_are_word_characters_and_combining_marks_are_not() -> None:
    # these two are where other engines' \w answers otherwise
    assert tokens("x² ½") == ["x²", "½"]
    assert tokens("cafe\u0301") == ["cafe"]


def test_lower_case_is_pythons() -> None:
    assert tokens("İSTANBUL ΣΑΣ Straße") == ["i", "stanbul", "σας", "straße"]


def test_nothing_is_no_token() -> None:
    assert tokens("") == tokens(" \n\u200b\f") == tokens("!? …") == []


@given(st.text())
def test_tokens_are_the_word_runs_of_the_lowered_text(text: str) -> None:
    assert tokens(text) == re.findall(r"\w+", text.lower())
