"""The tokenizer is a contract: Python's word characters of the lower-cased text, and one id a token."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.metrics.interning import intern
from evalframe.metrics.tokens import _count_before, scan, tokenise
from tests.references.plain_metrics import tokens

# what other engines lower or split otherwise, and what could break the byte scan
HOSTILE = ["a", "Z", "_", "9", "x²", "½", "e\u0301", "\u0301", "\u200d", "\u200b", "İ", "I\u0307", "ı", "ß", "ẞ", "Σ",
           "ς", "σ", "K", "Å", "Ⱥ", "Ⅷ", "Ⓐ", "ǅ", "ŉ", "\u0345", "नी", "水", "한국", "١", "Ａ", "＿", "𝒳", "𐐀", "👍",
           "\ufeff", "\x00", "\n", "\r\n", "\x1c", "\x85", "\u2028", "\u00a0", "\x7f", "@", "[", "`", "{", "ꟁ",
           "\ua7cb", "\U0010ffff", "\ud7ff", "\ue000", "\uffff", "long_token_of_ascii", "длинноеслово", "水" * 7, "'",
           "-", " "]  # fmt: skip
hostile = st.lists(st.sampled_from(HOSTILE), max_size=9).map("".join) | st.text(max_size=12)


def found(texts: list[str]) -> list[list[str]]:
    """The tokens that the scan finds, as text."""
    scanned = scan(pl.Series(texts, dtype=pl.String))
    every = [
        scanned.text[start : start + length].decode()
        for start, length in zip(scanned.starts, scanned.lengths, strict=True)
    ]
    return [every[first : first + n] for first, n in zip(scanned.firsts, scanned.counts, strict=True)]


def numbered(texts: list[str]) -> list[list[int]]:
    result = tokenise(pl.Series(texts, dtype=pl.String))
    return [result.ids[first : first + n].tolist() for first, n in zip(result.firsts, result.counts, strict=True)]


def assert_one_number_a_token(texts: list[str]) -> None:
    plain = [token for text in texts for token in tokens(text)]
    ids = [number for row in numbered(texts) for number in row]
    assert len(set(zip(plain, ids, strict=True))) == len(set(plain)) == len(set(ids))
    assert min(ids, default=2) >= 2  # 0 and 1 fill up


def test_punctuation_and_line_breaks_separate() -> None:
    assert found(["17\n\nParagraph: the river's_bed"]) == [["17", "paragraph", "the", "river", "s_bed"]]


def test_superscripts_are_word_characters_and_combining_marks_are_not() -> None:
    # these two are where other engines' \w answers otherwise
    assert found(["x² ½", "cafe\u0301"]) == [["x²", "½"], ["cafe"]]


def test_lower_case_is_pythons() -> None:
    assert found(["İSTANBUL ΣΑΣ Straße", "ΑΣ\u0301Α ΑΣ\ua7cbΑ"]) == [
        ["i", "stanbul", "σας", "straße"],
        tokens("ΑΣ\u0301Α ΑΣ\ua7cbΑ"),
    ]


def test_nothing_is_no_token() -> None:
    assert found(["", " \n\u200b\f", "!? …"]) == [[], [], []]
    assert numbered([]) == []


@pytest.mark.parametrize("plane", range(17))
def test_every_code_point_is_lowered_and_placed_as_python_does(plane: int) -> None:
    # alone, in words, beside itself; between cased letters, where the capital sigma is final or not
    patterns = ("{0}A{0}b{0}{0} ", "Σ{0} ", "Σ{0}Σa ") if plane in (0, 1, 14) else ("{0}A{0}b{0}{0} ",)
    chars = [chr(code) for code in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= code < 0xE000]
    for pattern in patterns:
        texts = ["".join(map(pattern.format, chars[start::8])) for start in range(8)]
        assert found(texts) == [tokens(text) for text in texts]


@given(st.lists(hostile, max_size=8))
def test_tokens_are_the_word_runs_of_the_lowered_text(texts: list[str]) -> None:
    assert found(texts) == [re.findall(r"\w+", text.lower()) for text in texts]
    assert_one_number_a_token(texts)


# words that share heads and tails of 8 bytes, of all lengths around the edges of pieces, also in several bytes a letter
alike = st.builds(
    lambda head, middle, tail: head + middle + tail,
    st.sampled_from(["", "aaaaaaaa", "aaaaaaab", "aaaaaaaabbbbbbbb", "水水水", "é" * 4]),
    st.sampled_from(["", "a", "b", "aaaa", "aaaab", "aaaaa", "aaaaaa"]),
    st.integers(0, 40).map(lambda n: "a" * n) | st.sampled_from(["b", "ab", "ba" * 20, "é"]),
)


@given(st.lists(alike, max_size=60))
def test_words_have_one_number_if_and_only_if_they_are_equal(words: list[str]) -> None:
    assert_one_number_a_token([" ".join(words)])


def test_more_different_words_than_16_bits() -> None:
    words = [f"{i:x}" for i in range(70_000)] + [f"{i:030x}" for i in range(70_000)]
    assert_one_number_a_token([" ".join(words), " ".join(words[::-1])])


def test_keys_made_to_meet_in_the_hash_table() -> None:
    inverse = pow(0x9E37_79B9_7F4A_7C15, -1, 2**64)  # of the odd number that keys are multiplied by
    keys = [((5 << 48) + i) * inverse % 2**64 for i in range(500)]  # all begin in slot 5, and walk alike
    ids = intern(np.array(keys * 2, dtype=np.uint64)).tolist()
    assert ids[:500] == ids[500:]
    assert len(set(ids)) == 500


@given(st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 2), max_size=50))
def test_equal_keys_get_the_same_number(keys: list[int]) -> None:
    ids = intern(np.array(keys, dtype=np.uint64)).tolist()
    assert len(set(zip(keys, ids, strict=True))) == len(set(keys)) == len(set(ids))


def test_a_token_of_a_megabyte() -> None:
    long = "水" * 350_000
    ids = numbered([long, long + "水", long, "火" + long[1:]])
    assert ids[0] == ids[2]
    assert len({*ids[0], *ids[1], *ids[3]}) == 3


@given(st.lists(st.booleans(), max_size=200), st.data())
def test_marks_are_counted_before_any_place(marks: list[bool], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(marks)), min_size=1, max_size=8))
    counted = _count_before(np.array(marks, dtype=np.bool_), np.array(places))
    assert counted.tolist() == [sum(marks[:place]) for place in places]
