"""Few-shot blocks in the body of a prompt: what starts a line or a sentence, and what does not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.manifest.embedded import embedded_markers

LINE_STARTS = [
    "Q: a", "  Q: a", "\tq: a", "text\nQuestion: a", "text\r\nquestion: a", "text\rEXAMPLE: a", "text\u2028Q: a",
    "> Q: a", "- Q: a", "* Q: a", "• Q: a", "**Question:** a", "## Example: a", '"Q: a"', "“Q: a”", "(q: a)",
]  # fmt: skip
SENTENCE_STARTS = [
    "Compute. Question: a", "Really? Q: a", "Go! Example: a", "And so on… Q: a", "1. Q: a", "Stop.\tQ: a",
    'He said "go." Q: a', "(See above.) Q: a", "Go. **Q:** a", "Done.  \u00a0 Q: a", "計算。Question: a", "はい！q: a",
]  # fmt: skip
NO_STARTS = [
    "FAQ: a", "The next question: a", "For example: a", "yes, Q: a", "a; q: b", "a: q: b", "v1.q: a", "a.Question: b",
    "text - Q: a", "IQ: 100", "2 Q: a", "Question 1: a", "Question : a", "Questions: a", "Ｑ: a", "q", "text Q:",
    "sub_q: a", "x*q: a",
]  # fmt: skip


@pytest.mark.parametrize("text", LINE_STARTS + SENTENCE_STARTS)
def test_a_marker_at_the_start_counts_once(text: str) -> None:
    assert len(embedded_markers(text)) == 1


@pytest.mark.parametrize("text", NO_STARTS)
def test_a_marker_elsewhere_does_not_count(text: str) -> None:
    assert embedded_markers(text) == []


@pytest.mark.parametrize("first", LINE_STARTS + SENTENCE_STARTS)
def test_two_of_any_kind_are_a_block(first: str) -> None:
    assert len(embedded_markers(f"{first}\nanswer\nQuestion: b\nAnswer:")) == 2
    assert len(embedded_markers(f"{first}\nanswer\nthe question: b\nAnswer:")) == 1


def test_the_prompt_of_the_specification_is_legal() -> None:
    assert embedded_markers("Compute the result. Question: 17 + 24\nAnswer:") == ["Question:"]


def test_only_the_letters_of_ascii_are_folded() -> None:
    assert embedded_markers("Que\u017ftion: a") == []


@given(st.text(alphabet="qQ:. \n*a", max_size=60))
def test_the_definition_by_words(text: str) -> None:
    # slow and plain: take what stands before each marker and look at its last line
    count = 0
    for place in range(len(text)):
        if text[place : place + 2].lower() != "q:":
            continue
        before = text[:place]
        line = before.split("\n")[-1]
        bare = line.rstrip(" *")
        sentence = bare.endswith(".") and " " in line[len(bare) :]
        count += not bare or sentence
    assert len(embedded_markers(text, most=1000)) == count


@pytest.mark.parametrize(
    "text", [" " * 10**6 + "q:", "aq:" * 300_000, ". " * 500_000, "\n" * 10**6, ")" * 10**6 + "q:"]
)
def test_a_long_prompt_is_walked_once(text: str) -> None:
    begun = time.monotonic()
    assert len(embedded_markers(text)) < 2
    assert time.monotonic() - begun < 30  # a guard against the square of a million
