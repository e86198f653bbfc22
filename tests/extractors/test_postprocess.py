"""The post-process rules of task files: what each takes, why, and that a column gives what its rows give."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe import extractors
from evalframe.errors import UnknownNameError
from evalframe.extractors.postprocess import LINE_ENDS, POST_PROCESS, RULES, apply, post_process
from evalframe.limits import DEFAULT_LIMITS
from evalframe.schemas import ANSWERS
from evalframe.words import WHITE_SPACE

FENCED = "Sure!\n```python\ndef add(a, b):\n    return a + b\n```\nEnjoy."
ADD = "def add(a, b):\n    return a + b"

# rule, text, answer, how it was come by
EXAMPLES: list[tuple[str, str, str | None, str]] = [
    ("none", " As it is.\n", " As it is.\n", "none"),
    ("strip_whitespace", "\n 41 \t", "41", "strip_whitespace"),
    ("strip_whitespace", "\x1c\x85\u3000a\u200b\u2029", "a\u200b", "strip_whitespace"),
    ("lower", "Positive ÉΑΣ İ", "positive éας i̇", "lower"),
    ("lower", "ẞ ß ǅ", "ß ß ǆ", "lower"),
    ("extract_letter", "C", "C", "stands_alone"),
    ("extract_letter", "The answer is (C).", "C", "stands_alone"),
    ("extract_letter", "**B**) because A", "B", "stands_alone"),
    ("extract_letter", "Answer: D", "D", "stands_alone"),
    ("extract_letter", "A1 or B", "A", "stands_alone"),
    ("extract_letter", "_A_", "A", "stands_alone"),
    ("extract_letter", "ABBA Era C", "C", "stands_alone"),
    ("extract_letter", "éA Bß 答C D", "D", "stands_alone"),
    ("extract_letter", "F G ABC", "A", "anywhere"),
    ("extract_letter", "Because", "B", "anywhere"),
    ("extract_letter", "Éa Ωc Bß", "B", "anywhere"),
    ("extract_letter", "c, I think", None, "no_letter"),
    ("extract_letter", "А of another script", None, "no_letter"),
    ("extract_code_block", FENCED, ADD, "fence"),
    ("extract_code_block", ADD, ADD, "no_fence"),
    ("extract_code_block", "  " + ADD + "\n", "  " + ADD + "\n", "no_fence"),
    ("extract_code_block", "```\n" + ADD, None, "unclosed_fence"),
    ("extract_code_block", "```\na\n```\nb\n```\nc\n```", "a", "first_of_2_fences"),
    ("extract_code_block", "```\na\n```\nb\n```\nc", "a", "first_of_2_fences"),
    ("extract_code_block", "```py\na\n```\n" * 3, "a", "first_of_3_fences"),
    ("extract_code_block", "```\n```", "", "fence"),
    ("extract_code_block", "```\n\na\n\n```", "\na\n", "fence"),
    ("extract_code_block", "```\r\na\r\nb\r\n```\r\n", "a\r\nb", "fence"),
    ("extract_code_block", "```\ra\r```", "a", "fence"),
    ("extract_code_block", "``` python title='x'\na\n```", "a", "fence"),
    ("extract_code_block", "````\n```\na\n```\n````", "```\na\n```", "fence"),
    ("extract_code_block", "````\na\n```", None, "unclosed_fence"),
    ("extract_code_block", "```\na\n`````  \t\nb", "a", "fence"),
    ("extract_code_block", "```\na\n``` b\n```", "a\n``` b", "fence"),
    ("extract_code_block", "  ```\n  a\n    b\n c\n  ```", "a\n  b\nc", "fence"),
    ("extract_code_block", "```\na\n    ```\n```", "a\n    ```", "fence"),
    ("extract_code_block", "    ```\n    a\n    ```", "    ```\n    a\n    ```", "no_fence"),
    ("extract_code_block", "use ```add``` here", "use ```add``` here", "no_fence"),
    ("extract_code_block", "```add```", "```add```", "no_fence"),
    ("extract_code_block", "Here it is: ```python\na\n```", "a", "fence_in_prose"),
    ("extract_code_block", "```python\na\nb```", "a\nb", "fence_in_prose"),
    ("extract_code_block", "So: ```\na\nb```\nDone.", "a\nb", "fence_in_prose"),
    ("extract_code_block", "So: ```py\na", None, "unclosed_fence"),
    ("extract_code_block", "I like ```add``` and ```sub```\nboth", "I like ```add``` and ```sub```\nboth", "no_fence"),
    ("extract_code_block", "``\na\n``", "``\na\n``", "no_fence"),
    ("extract_code_block", "~~~\na\n~~~", "~~~\na\n~~~", "no_fence"),
    ("extract_code_block", "```\ns = 'a\u2028```\u2028b'\x0c\n```", "s = 'a\u2028```\u2028b'\x0c", "fence"),
    ("extract_first_line", "\n \n  81 jars \nbecause", "81 jars", "extract_first_line"),
    ("extract_first_line", "a\rb", "a", "extract_first_line"),
    ("extract_first_line", "\u2028\x1f a \x85b", "a", "extract_first_line"),
    ("extract_first_line", "one", "one", "extract_first_line"),
    ("extract_first_line", " \n\t\x1d", None, "no_line"),
]


@pytest.fixture(autouse=True, scope="module")
def _no_column_is_small() -> Iterator[None]:
    """Read even a column of one short text by expressions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractors, "FEW_BYTES", 0)
        yield


@pytest.mark.parametrize(("rule", "text", "answer", "reason"), EXAMPLES)
def test_one_text(rule: str, text: str, answer: str | None, reason: str) -> None:
    assert post_process(text, rule) == answer
    taken = apply(pl.Series([text]), {"type": "post_process", "rule": rule})
    assert taken.row(0) == (answer, "no_match" if answer is None else "ok", reason)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_examples_with_and_without_ascii(rule: str) -> None:
    texts = [text for name, text, _, _ in EXAMPLES if name == rule]
    assert texts
    assert rule == "none" or any(not text.isascii() for text in texts)


@pytest.mark.parametrize("rule", RULES)
def test_a_column_is_its_rows_in_order(rule: str) -> None:
    texts = [text for _, text, _, _ in EXAMPLES] * 3
    taken = POST_PROCESS.apply(pl.Series(texts), {"type": "post_process", "rule": rule}, DEFAULT_LIMITS)
    assert taken["extracted_output"].to_list() == [post_process(text, rule) for text in texts]
    assert taken.columns == ["extracted_output", "extraction_status", "extraction_rule"]
    assert set(taken.dtypes) == {pl.String}
    assert taken["extraction_status"].to_list() == [
        "no_match" if post_process(text, rule) is None else "ok" for text in texts
    ]
    allowed = next(column.allowed for column in ANSWERS.columns if column.name == "extraction_status")
    assert set(taken["extraction_status"]) <= set(allowed)


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_column(rule: str) -> None:
    taken = apply(pl.Series([], dtype=pl.String), {"rule": rule})
    assert taken.height == 0
    assert set(taken.dtypes) == {pl.String}


def test_C093_fences_and_prose_around_the_code() -> None:
    outputs = [FENCED, "```\n" + ADD, ADD, "```python\nadd(1, 2)\n```\nFull version:\n```python\n" + ADD + "\n```"]
    taken = apply(pl.Series(outputs), {"rule": "extract_code_block"})
    passed = [code is not None and passes(code) for code in taken["extracted_output"]]
    assert passed == [True, False, True, False]
    assert taken["extraction_rule"].to_list() == ["fence", "unclosed_fence", "no_fence", "first_of_2_fences"]


def passes(code: str) -> bool:
    names: dict[str, object] = {}
    try:
        exec(code + "\n", names)
        return eval("add(2, 2) == 4", names) is True
    except NameError:
        return False


def test_an_indented_fence_gives_code_that_runs() -> None:
    text = "1. Like this:\n   ```python\n   def add(a, b):\n       return a + b\n   ```"
    assert passes(post_process(text, "extract_code_block") or "")


def test_an_unknown_rule_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'extract_letter'"):
        post_process("A", "extract_letters")
    with pytest.raises(UnknownNameError, match="did you mean 'lower'"):
        apply(pl.Series(["A"]), {"rule": "lowercase"})


def test_the_sets_are_those_of_python() -> None:
    chars = [chr(code) for code in range(sys.maxunicode + 1)]
    assert "".join(char for char in chars if char.isspace()) == WHITE_SPACE
    assert set(LINE_ENDS) == {char for char in chars if len(f"a{char}b".splitlines()) == 2}


@pytest.mark.parametrize("rule", ["lower", "extract_letter", "strip_whitespace", "extract_first_line"])
def test_every_character_there_is(rule: str) -> None:
    # the Unicode tables of polars and of Python are of different versions
    chars = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) != "Cs"]
    texts = [f"{char}A{char}" for char in chars]
    taken = apply(pl.Series(texts), {"rule": rule})["extracted_output"].to_list()
    assert taken == [post_process(text, rule) for text in texts]


# few letters, so that fences, line ends and neighbours of letters happen often
PIECES = ["A", "E", "F", "b", "é", "ß", "Σ", "İ", "\u0301", "²", "_", "1", " ", "   ", "\t", "`", "```", "````", "py",
          *LINE_ENDS, "\r\n", "\u3000", "\x1f", "\u200b", "\ufeff", "答", "😀"]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@given(st.lists(TEXTS, max_size=6), st.sampled_from(sorted(RULES)))
def test_a_column_equals_its_rows(texts: list[str], rule: str) -> None:
    taken = apply(pl.Series(texts, dtype=pl.String), {"rule": rule})
    plain = [RULES[rule].one(text) for text in texts]
    assert taken["extracted_output"].to_list() == [value for value, _ in plain]
    assert taken["extraction_rule"].to_list() == [reason for _, reason in plain]


@given(TEXTS)
def test_the_rules_by_their_words(text: str) -> None:
    assert post_process(text, "none") == text
    assert post_process(text, "strip_whitespace") == text.strip()
    assert post_process(text, "lower") == text.lower()
    alone = [c for i, c in enumerate(text) if c in "ABCDE" and not neighbours_of(text, i)]
    anywhere = [c for c in text if c in "ABCDE"]
    assert post_process(text, "extract_letter") == next(iter([*alone, *anywhere]), None)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert post_process(text, "extract_first_line") == next(iter(lines), None)


def neighbours_of(text: str, place: int) -> str:
    beside = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
    return "".join(char for char in beside if unicodedata.category(char).startswith("L"))


@given(
    TEXTS.filter(lambda text: "`" not in text and not text.endswith("\r")),
    st.integers(3, 6),
    st.integers(0, 3),
    st.text("py+", max_size=4),
)
def test_what_stands_in_a_fence_comes_out(body: str, ticks: int, more: int, tag: str) -> None:
    fence = "`" * ticks
    text = f"Prose.\n{fence}{tag}\n{body}\n{fence}{'`' * more}\nMore."
    assert post_process(text, "extract_code_block") == body


@pytest.mark.parametrize("rule", RULES)
def test_a_long_text_takes_one_walk(rule: str) -> None:
    for text in (
        "é" + "A" * 10**6,
        "`" * 10**6,
        "```\n" + "`\n" * 300_000,
        " " * 10**6 + "x",
        "\n" * 10**6 + "A",
        "A\x1c" * 10**5,
        "So: ```\n" + "x" * 10**6,
        "x" * 10**6 + "\n```",
        "x " * 10**5 + "`\n```\n" + "x " * 10**5 + "`",
    ):
        assert apply(pl.Series([text]), {"rule": rule}).height == 1
