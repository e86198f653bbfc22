"""What holds for every extraction type: one text = a column, any order, any chunks, nulls, blanks, any text at all."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe import extractors
from evalframe.extractors import EXTRACTED, extract
from evalframe.registry import EXTRACTORS
from evalframe.words import ExtractionStatus, PostProcess

CONFIGS: list[dict[str, Any]] = [
    {"type": "none"},
    {"type": "take_first"},
    {"type": "take_first", "lines": 3},
    {"type": "number"},
    {"type": "label_set", "labels": ["A", "B", "C", "I"]},
    {"type": "label_set", "labels": ["a", "é", "1", "12"], "case_sensitive": True},
    {"type": "label_set", "labels": ["spam", "not spam", "C++", "(x)", "½", "错"]},
    {"type": "regex", "pattern": r"(\w+)|(\W)"},
    {"type": "regex_last", "pattern": r"(?s).\b.?", "flags": "i"},
    *({"type": "post_process", "rule": rule} for rule in PostProcess.__args__),
]
EVERY_CONFIG = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: "-".join(map(str, config.values()))[:30])
EXAMPLES = settings(max_examples=30, deadline=None)

PIECES = [
    "A", "b", "(c)", "I", "spam", "not", "C++", "Answer:", "answer is", "\\boxed{", "}", "{", "####", "**", "_", "$",
    "-", "−",
    "12", "1,234", ".5", "3/4", "\\frac{1}{2}", "1e5", "1e999999999", "½", "１２", "٣", "²", "10^", "%", "x", "```",
    "python\n",
    "\n", "\r\n", " ", "\u200b", "\ufeff", "\x00", "\x1c", "\u2028", "İ", "e\u0301", "ß", "नदी", "错", "答案是", "𝒳",
    "👩‍👧", "</s>", "<|im_end|>",
]  # fmt: skip
text = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=20)
some_texts = st.lists(st.none() | text, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def _no_column_is_small() -> Iterator[None]:
    """Read even a column of one short text by expressions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractors, "FEW_BYTES", 0)
        yield


def rows(texts: list[str | None], config: dict[str, Any]) -> list[tuple[str | None, ...]]:
    found = extract(pl.Series(texts, dtype=pl.String), config)
    assert found.schema == pl.Schema(EXTRACTED)
    return found.rows()


def test_every_registered_type_is_held_to_the_laws() -> None:
    assert {config["type"] for config in CONFIGS} == set(EXTRACTORS.names())


@EVERY_CONFIG
@EXAMPLES
@given(texts=some_texts)
def test_one_text_at_a_time_is_the_same_as_a_column(config: dict[str, Any], texts: list[str | None]) -> None:
    assert rows(texts, config) == [rows([one], config)[0] for one in texts]


@EVERY_CONFIG
@EXAMPLES
@given(texts=some_texts, data=st.data())
def test_order_does_not_matter(config: dict[str, Any], texts: list[str | None], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(texts))))
    found = rows(texts, config)
    assert rows([texts[place] for place in order], config) == [found[place] for place in order]


@EVERY_CONFIG
@EXAMPLES
@given(texts=some_texts, cut=st.integers(0, 6))
def test_chunks_do_not_matter(config: dict[str, Any], texts: list[str | None], cut: int) -> None:
    column = pl.concat(
        [pl.Series(texts[:cut], dtype=pl.String), pl.Series(texts[cut:], dtype=pl.String)], rechunk=False
    )
    assert extract(column, config).rows() == rows(texts, config)


@EVERY_CONFIG
@EXAMPLES
@given(texts=some_texts, at_once=st.integers(1, 4), most_bytes=st.integers(1, 40))
def test_parts_do_not_matter(config: dict[str, Any], texts: list[str | None], at_once: int, most_bytes: int) -> None:
    whole = rows(texts, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractors, "ROWS_AT_ONCE", at_once)
        patch.setattr(extractors, "BYTES_AT_ONCE", most_bytes)
        assert rows(texts, config) == whole


@EXAMPLES
@given(
    drawn=st.lists(st.tuples(st.sampled_from(CONFIGS), some_texts), min_size=1, max_size=4),
    at_once=st.integers(1, 5),
)
def test_runs_are_read_as_if_each_were_alone(
    drawn: list[tuple[dict[str, Any], list[str | None]]], at_once: int
) -> None:
    alone = [row for config, texts in drawn for row in rows(texts, config)]
    column = pl.Series([text for _, texts in drawn for text in texts], dtype=pl.String)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractors, "ROWS_AT_ONCE", at_once)
        runs = [(config, len(texts)) for config, texts in drawn]
        assert extractors.extract_runs(column, runs).rows() == alone


@EVERY_CONFIG
@EXAMPLES
@given(texts=some_texts)
def test_an_answer_or_a_reason_and_never_both_or_neither(config: dict[str, Any], texts: list[str | None]) -> None:
    for one, (answer, status, rule) in zip(texts, rows(texts, config), strict=True):
        if one is None:
            assert (answer, status, rule) == (None, None, None)
            continue
        assert status in ExtractionStatus.__args__
        assert rule
        assert (answer is not None) == (status == "ok")
        assert (status == "empty_output") == (rule == "blank")
        if not one.strip():
            assert status == "empty_output"


@EXAMPLES
@given(texts=some_texts)
def test_a_label_is_spelled_as_in_the_set(texts: list[str | None]) -> None:
    labels = ["Spam", "not SPAM", "B", "错"]
    found = rows(texts, {"type": "label_set", "labels": labels})
    assert {answer for answer, _, _ in found} <= {*labels, None}


@EXAMPLES
@given(texts=some_texts)
def test_a_number_is_canonical_and_reads_as_itself(texts: list[str | None]) -> None:
    answers = [answer for answer, _, _ in rows(texts, {"type": "number"}) if answer is not None]
    for answer in answers:
        assert answer.isascii()
        assert not answer.startswith(("+", ".", "-0e", "-."))
        assert answer != "-0"
        assert "." not in answer or answer[-1] != "0" or "e" in answer
    assert [answer for answer, _, _ in rows([*answers], {"type": "number"})] == answers


@EXAMPLES
@given(
    value=st.decimals(allow_nan=False, allow_infinity=False, places=6),
    around=st.sampled_from(["{}", "it is {}.", "**{}**", "({})"]),
)
def test_any_decimal_is_read_back(value: Any, around: str) -> None:
    [(answer, status, _)] = rows([around.format(format(value, "f"))], {"type": "number"})
    assert status == "ok"
    assert type(value)(answer) == value


@EXAMPLES
@given(value=st.integers())
def test_thousands_are_read_back(value: int) -> None:
    assert rows([f"so {value:,} it is"], {"type": "number"})[0][0] == str(value)
