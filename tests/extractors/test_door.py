"""The door to all extraction types: nulls, blanks, model noise; and the types that take lines."""

import polars as pl
import pytest

from evalframe.errors import OptionError, UnknownNameError
from evalframe.extractors import EXTRACTED, extract
from evalframe.extractors.cleaning import END_OF_TEXT, NO_INK, cleaned
from evalframe.registry import EXTRACTORS
from evalframe.words import WHITE_SPACE

CONFIGS = {
    "none": {"type": "none"},
    "take_first": {"type": "take_first", "lines": 2},
    "label_set": {"type": "label_set", "labels": ["A", "B", "not spam"]},
    "number": {"type": "number"},
    "regex": {"type": "regex", "pattern": r"(\S+)"},
    "regex_last": {"type": "regex_last", "pattern": r"\S+"},
    "post_process": {"type": "post_process", "rule": "none"},
}
EVERY_TYPE = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
CLEANING = ["none", "take_first", "label_set", "number"]

BLANKS = ["", "   \n", "\t\x1c\u3000", "\u200b\u200d", "\ufeff", " \ufeff\u200b\n", *END_OF_TEXT, "\ufeff</s> A 7"]


def answers(texts: list[str | None], config: dict) -> list[str | None]:
    return extract(pl.Series(texts, dtype=pl.String), config)["extracted_output"].to_list()


def test_every_registered_type_is_tried_here() -> None:
    assert set(CONFIGS) == set(EXTRACTORS.names())


@EVERY_TYPE
def test_no_reply_has_neither_answer_nor_reason(config: dict) -> None:
    assert extract(pl.Series([None, "A 7", None], dtype=pl.String), config).rows()[::2] == [(None, None, None)] * 2
    assert extract(pl.Series([None, None]), config).rows() == [(None, None, None)] * 2


@EVERY_TYPE
def test_a_blank_reply_is_empty_output_under_every_type(config: dict) -> None:
    found = extract(pl.Series(["A 7", *BLANKS, "B 8"]), config)
    assert found.rows()[1:-1] == [(None, "empty_output", "blank")] * len(BLANKS)
    assert found["extraction_status"].to_list()[::len(BLANKS) + 1] == ["ok", "ok"]  # fmt: skip


@pytest.mark.parametrize("rule", ["strip_whitespace", "lower", "extract_letter", "extract_code_block"])
def test_a_blank_reply_is_empty_output_under_every_post_process_rule(rule: str) -> None:
    found = extract(pl.Series(BLANKS), {"type": "post_process", "rule": rule})
    assert found["extraction_status"].unique().to_list() == ["empty_output"]


@EVERY_TYPE
def test_no_texts_give_no_answers(config: dict) -> None:
    found = extract(pl.Series([], dtype=pl.String), config)
    assert found.schema == pl.Schema(EXTRACTED)
    assert found.height == 0


def test_an_unknown_type_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="'regex_last'"):
        extract(pl.Series(["a"]), {"type": "regexlast"})


def test_a_configuration_without_a_type_says_what_to_give() -> None:
    with pytest.raises(OptionError, match="give one, as in"):
        extract(pl.Series(["a"]), {"pattern": "a"})


def test_a_column_of_numbers_is_refused() -> None:
    with pytest.raises(OptionError, match="Int64, not String; cast"):
        extract(pl.Series([1, 2]), {"type": "none"})


@pytest.mark.parametrize("token", END_OF_TEXT)
def test_an_end_of_text_token_and_what_follows_is_dropped(token: str) -> None:
    text = f"\ufeff B 7 \u200b{token}\nQuestion: A 99{token}"
    assert [answers([text], CONFIGS[name])[0] for name in CLEANING] == ["B 7", "B 7", "B", "7"]


def test_regex_and_post_process_see_the_text_as_it_is() -> None:
    text = "\ufeffB</s>\nC 8 "
    assert answers([text], {"type": "regex", "pattern": r"(?s)\A.*\Z"}) == [text]
    assert answers([text], {"type": "regex_last", "pattern": r"\S+"}) == ["8"]
    assert answers([text], {"type": "post_process", "rule": "none"}) == [text]


def test_zero_width_characters_inside_a_text_stay() -> None:
    assert answers(["\u200da\u200db\u200d"], {"type": "none"}) == ["a\u200db"]


def test_white_space_is_what_python_strips() -> None:
    assert set(WHITE_SPACE) == {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert cleaned(pl.Series([NO_INK + "x" + NO_INK])).to_list() == ["x"]


def test_none_is_the_cleaned_text() -> None:
    assert extract(pl.Series(["  two\n\nlines  \n"]), {"type": "none"}).row(0) == ("two\n\nlines", "ok", "whole_text")


@pytest.mark.parametrize(
    ("text", "lines", "answer"),
    [
        ("Lisbon\nMore text", 1, "Lisbon"),
        ("\n \t\n  Lisbon  \nMore", 1, "Lisbon"),
        ("a\n\n\u200b\nb\nc", 2, "a\nb"),
        ("a\r\nb\rc", 2, "a\nb"),
        ("a", 3, "a"),
        ("a\x0cb\u2028c\nd", 1, "a\x0cb\u2028c"),
        ("def f():\n    return 1\nprint", 2, "def f():\n    return 1"),
    ],
)
def test_take_first_takes_the_first_lines_that_are_not_empty(text: str, lines: int, answer: str) -> None:
    assert extract(pl.Series([text]), {"type": "take_first", "lines": lines}).row(0) == (answer, "ok", "first_lines")


def test_take_first_takes_one_line_where_nothing_is_said() -> None:
    assert answers(["a\nb"], {"type": "take_first"}) == ["a"]
