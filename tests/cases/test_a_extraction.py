"""Cases from the field, kind a: what was read as the answer and was none, or the other way round."""

import string
from typing import Any

import polars as pl
import pytest

from evalframe.extractors import extract
from evalframe.metrics import score


def read(texts: list[str | None], kind: str, **config: Any) -> list[str | None]:
    answers: list[str | None] = extract(pl.Series(texts, dtype=pl.String), {"type": kind, **config})[
        "extracted_output"
    ].to_list()
    return answers


def letters(last: str) -> list[str]:
    return list(string.ascii_uppercase[: string.ascii_uppercase.index(last) + 1])


def test_C001_the_first_letter_of_a_translated_cue_is_no_label() -> None:
    text = "Zuerst die Rechnung, dann das Ergebnis.\n\nAntwort:\n\nAntwort: C"
    assert read([text], "label_set", labels=letters("D")) == ["C"]
    assert read([text], "regex_last", pattern=r"Antwort:\s*([A-D])\b") == ["C"]
    assert read(["Auswahl\n\nAntwort:\n\n\n  C"], "label_set", labels=letters("D")) == ["C"]


def test_C003_capitals_inside_words_and_the_article_are_no_labels() -> None:
    texts = [
        "Option C fits. Good luck with the rest.",
        "A quick sketch shows the slope is flat, so (H).",
        "Every option has a flaw. Hard to say. Done.",
    ]
    assert read(texts, "label_set", labels=letters("J")) == ["C", "H", None]


def test_C004_a_letter_of_the_next_word_is_no_label() -> None:
    text = "The total is nine panels.\n\nAnswer seems to be P.\n\nAnswer: P"
    assert read([text], "label_set", labels=list("PQRS")) == ["P"]


def test_C005_markdown_and_latex_are_decoration() -> None:
    texts = ["ANSWER: $B$", "ANSWER: **B**", "**ANSWER:** B", "ANSWER: (B)", "ANSWER: `B`",
             "ANSWER: \\boxed{\\text{B}}", "Answer: __B__."]  # fmt: skip
    assert read(texts, "label_set", labels=letters("D")) == ["B"] * 7


def test_C006_a_refusal_behind_a_cue_is_no_answer() -> None:
    texts = ["ANSWER: cannot decide", "ANSWER: Don't pick any"]
    found = extract(pl.Series(texts), {"type": "label_set", "labels": letters("D")})
    assert found.rows() == [(None, "no_match", "no_label")] * 2


def test_C007_a_cue_outranks_earlier_mentions() -> None:
    texts = ["At first (A) looks fine, but it breaks rule two. Final answer: D.", "The right one is d."]
    assert read(texts, "label_set", labels=letters("D"), case_sensitive=False) == ["D", "D"]


@pytest.mark.parametrize(
    ("labels", "text", "answer"),
    [
        (["relevant", "irrelevant"], "irrelevant", "irrelevant"),
        (["relevant", "irrelevant"], "Label: irrelevant\nExplanation: a more relevant page would name the river.",
         "irrelevant"),
        (["spam", "not spam"], "Not spam.", "not spam"),
    ],
)  # fmt: skip
def test_C010_longest_label_first(labels: list[str], text: str, answer: str) -> None:
    assert read([text], "label_set", labels=labels) == [answer]


def test_C011_currency_full_stops_and_trailing_zeros() -> None:
    texts = ["Her bill comes to $31.50.", "so it costs £48.00.", "about 1,204 seats"]
    assert read(texts, "number") == ["31.5", "48", "1204"]
    for text, target in zip(texts, ["31.5", "48", "1204"], strict=True):
        assert score("numeric_match", text, [target]) == 1


def test_C012_a_comma_behind_a_number_is_prose() -> None:
    texts = ["The tank holds 56, all told, which is plenty.", "56 litres, more or less, altogether.",
             "12, 15, and finally 18, as asked,"]  # fmt: skip
    assert read(texts, "number") == ["56", "56", "18"]


def test_C014_a_percentage_is_the_answer_at_face_value() -> None:
    text = "We asked 100 shops; 4 of every 25 closed, that is 16%."
    assert extract(pl.Series([text]), {"type": "number"}).row(0) == ("16", "ok", "last_number percent")
    assert score("numeric_match", text, ["16"]) == 1


def test_C015_punctuation_around_a_number_is_no_part_of_it() -> None:
    texts = ["Total = (37).", "37!", "[37]", "It is 37:", "**Answer:** 37.", "*37*"]
    assert read(texts, "number") == ["37"] * 6


def test_C018_braces_are_balanced_and_the_last_box_is_final() -> None:
    texts = ["\\boxed{\\frac{3}{8}}", "\\boxed{\\frac{3}{5}}", "Answer: 3/8", "so $\\boxed{\\dfrac{-1}{4}}$",
             "first \\boxed{2}, corrected: \\boxed{5}"]  # fmt: skip
    assert read(texts, "number") == ["0.375", "0.6", "0.375", "-0.25", "5"]


def test_C019_only_what_follows_the_reasoning_is_read() -> None:
    # as the engine hands it on once the reasoning is split off; a block that is never closed leaves no text
    assert read(["\nB", ""], "label_set", labels=letters("D")) == ["B", None]
    assert read(["\n\nLisbon\nMore text"], "take_first", lines=1) == ["Lisbon"]
    assert (
        extract(pl.Series([""]), {"type": "label_set", "labels": letters("D")})["extraction_status"][0]
        == "empty_output"
    )


def test_C021_the_first_and_the_last_match_mean_what_they_say() -> None:
    text = "As in the sample, 4*3 gives #### 12\nNow ours: 9*5 = 45\n#### 45"
    assert read([text], "regex", pattern="#### (-?[0-9.,]+)") == ["12"]
    assert read([text], "regex_last", pattern="#### (-?[0-9.,]+)") == ["45"]
    assert read([text], "number") == ["45"]


def test_C023_the_opener_of_a_chain_of_thought_is_no_answer() -> None:
    text = "Answer: Let us reason carefully. A hexagon has six corners. Hence it is (F)."
    assert read([text], "label_set", labels=letters("P")) == ["F"]


def test_C024_no_text_no_answer() -> None:
    found = extract(pl.Series(["", "   \n", None]), {"type": "label_set", "labels": ["red", "green", "blue"]})
    assert found["extracted_output"].to_list() == [None] * 3
    assert found["extraction_status"].to_list() == ["empty_output", "empty_output", None]
