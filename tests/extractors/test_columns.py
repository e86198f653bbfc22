"""What is read by expressions is what the walk through each text reads, on every text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe import extractors
from evalframe.extractors import characters, cues, extract, label_expressions, labels, number_columns, windows
from evalframe.extractors.cleaning import cleaned
from evalframe.extractors.label_expressions import expressions
from evalframe.extractors.number_scan import in_plain_signs
from tests.references import replies
from tests.references.plain_extraction import reader

LABEL_SETS = [
    list("ABCD"), list("ABCDEFGHIJ"), ["positive", "negative", "neutral", "not sure"], ["spam", "not spam"],
    list("12345"), ["-1", "0", "1"], ["yes", "no", "maybe"], ["relevant", "irrelevant"],
    ["A", "B", "None of the above"], ["Class 1", "Class 2"], ["5", "10", "15"], ["18-24", "25-34"],
    ["3D", "2D"], ["a", "b"], ["I", "II", "III"], ["correct", "incorrect"], ["100", "1,000"], ["True", "False"],
    ["0", "1"], ["option a", "option b"], ["the", "B"],
    ["A-level", "A"], ["b", "i", "em"], ["5", "5.0"], ["da", "größer"], ["对", "错"], ["C++", "C"], ["is B", "B"],
]  # fmt: skip
CONFIGS: list[dict[str, Any]] = [
    {"type": "none"}, {"type": "take_first"}, {"type": "take_first", "lines": 2}, {"type": "number"},
    *({"type": "label_set", "labels": names} for names in LABEL_SETS),
    *({"type": "label_set", "labels": names, "case_sensitive": True} for names in LABEL_SETS[:4]),
    *({"type": "post_process", "rule": rule} for rule in ("lower", "extract_letter", "extract_code_block")),
]  # fmt: skip
EVERY_CONFIG = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: json.dumps(config)[1:60])


@pytest.fixture(autouse=True, scope="module")
def _no_column_is_small() -> Iterator[None]:
    """Read even a column of one short text by expressions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractors, "FEW_BYTES", 0)
        yield


def answers_of(config: dict[str, Any]) -> list[str]:
    named: list[str] = config.get("labels", replies.HARD_NUMBERS)
    return named


def differing(texts: list[str], config: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = extract(pl.Series(texts, dtype=pl.String), config).rows()
    read = reader(config)
    return [(text, ours, read(text)) for text, ours in zip(texts, found, strict=True) if ours != read(text)]


@EVERY_CONFIG
def test_hostile_texts_are_read_as_the_walk_reads_them(config: dict[str, Any]) -> None:
    assert differing(replies.hostile(700, answers_of(config), seed=11), config) == []


@EVERY_CONFIG
def test_ordinary_texts_are_read_as_the_walk_reads_them(config: dict[str, Any]) -> None:
    assert differing([*replies.short(500), *replies.reasoned(50)], config) == []


@pytest.mark.parametrize(
    "text",
    ["-0xA", "0b1", "so 0x", "5x", "2 x 10", "is 5\\%", "10 ^", "5 %", "5½", "½ 5", "-$$5", "$-5", "-$-5", "--5",
     "...5", "No.5", "is .5.6", "\\frac{1}{\n2} = 4", "\\sqrt{\n4} so 3", "\\frac{answer is 5.\n}{2}", "Answer is ** 5",
     "Answer: ** 5", "#### 2. Next", "#### 2.\n", "answer (the answer is 5): 6", "\\frac{1}{\\boxed{4}}",
     "jeans is 4, so 5"],
)  # fmt: skip
def test_a_number_at_the_edge_of_a_proof(text: str) -> None:
    assert differing([text, f"{text} or", f"First 7, {text}."], {"type": "number"}) == []


@pytest.mark.slow
@EVERY_CONFIG
@pytest.mark.parametrize("seed", range(4))
def test_many_hostile_texts_are_read_as_the_walk_reads_them(config: dict[str, Any], seed: int) -> None:
    count = 50_000 if config["type"] == "number" else 10_000
    assert differing(replies.hostile(count, answers_of(config), seed=seed), config) == []


@pytest.mark.slow
@EVERY_CONFIG
def test_many_ordinary_texts_are_read_as_the_walk_reads_them(config: dict[str, Any]) -> None:
    assert differing([*replies.short(20_000), *replies.reasoned(2_000)], config) == []


PIECES = [
    *replies.CUES,
    *replies.LINKS,
    *replies.NEIGHBOURS,
    *replies.HARD_NUMBERS,
    *"ABI",
    "positive",
    "not sure",
    "-1",
]
drawn_texts = st.lists(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join), max_size=20)


@settings(max_examples=100)
@given(drawn_texts, st.sampled_from(CONFIGS))
def test_drawn_texts_are_read_as_the_walk_reads_them(texts: list[str], config: dict[str, Any]) -> None:
    assert differing(texts, config) == []


@pytest.mark.parametrize("config", CONFIGS[3:6], ids=lambda config: json.dumps(config)[1:60])
def test_gsm8k_is_read_as_the_walk_reads_it(shared_data: Path, config: dict[str, Any]) -> None:
    lines = (shared_data / "gsm8k" / "example_model_solutions.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [one["solution"] for line in lines for one in json.loads(line).values() if isinstance(one, dict)]
    assert len(texts) == 4 * 1_319
    assert differing(texts if config["type"] == "number" else texts[::4], config) == []


def left_to_the_walk(config: dict[str, Any], texts: list[str]) -> float:
    """The share of texts that the expressions of a configuration can not tell."""
    column = cleaned(pl.Series(texts))
    if config["type"] == "number":
        found = number_columns.read(column)
    else:
        found_by = expressions_of(config["labels"])
        assert found_by is not None
        found = labels.express(column, found_by, case_sensitive=False)
    return found["rule"].is_null().sum() / len(texts)


@pytest.mark.parametrize("config", [CONFIGS[3], *CONFIGS[4:7], CONFIGS[8]], ids=lambda config: json.dumps(config)[1:60])
def test_hardly_an_ordinary_text_is_left_to_the_walk(config: dict[str, Any]) -> None:
    assert left_to_the_walk(config, replies.reasoned(1_000)) < 0.03


def expressions_of(names: list[str]) -> label_expressions.Expressions | None:
    compiled = labels.compiled(tuple(names), False)
    return expressions(compiled.spellings, compiled.plain, False)


@pytest.mark.parametrize("names", [["(A)", "(B)"], ["对", "错"], ["größer"], ["C++"], ["5", "5.0"], ["is B"],
                                   ["class: a"], ["a b"], ["x" * 101], [""]])  # fmt: skip
def test_sets_that_no_expression_is_proven_for_are_left_to_the_walk(names: list[str]) -> None:
    assert expressions_of(names) is None


# --- what the proofs rest on


def test_no_cue_hides_in_another_but_at_its_end() -> None:
    nouns = [*cues.ANSWER_NOUNS, *cues.LABEL_NOUNS]
    for noun in nouns:
        for other in nouns:
            assert other not in noun[1:] or noun.endswith(other), (noun, other)
        assert not any(noun in link for link in cues.LINKS)


def test_every_cue_begins_with_a_stem_in_any_case() -> None:
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    spelled_as: dict[str, list[str]] = {}
    for char in every:
        spelled_as.setdefault(char.lower(), []).append(char)
    stems = windows.stems([*cues.ANSWER_NOUNS, *cues.LABEL_NOUNS], cues.LABEL_MARKS)
    for noun in (*cues.ANSWER_NOUNS, *cues.LABEL_NOUNS):
        for change in (str, str.upper, str.title):
            if change(noun).lower() == noun:
                assert windows.windows(pl.Series([change(noun)]), stems, pl.Series([True]))[0].height, noun
        for char in noun:
            spelled = {*spelled_as[char]} - {char, char.upper()}
            assert spelled <= {*characters.STRANGE_LETTERS}, (noun, char, spelled)


def test_windows_end_where_characters_end() -> None:
    for filler in ("a", "é", "答", "😀"):
        for shift in range(6):
            text = "x" * shift + "Answer: " + filler * 400
            places, crowded = windows.windows(pl.Series([text]), ["answer"], pl.Series([False]))
            [(row, in_word, is_free, window, cut)] = places.rows()
            is_cut = len(text.encode()) - shift > windows.WINDOW_BYTES
            assert (row, in_word, is_free, cut) == (0, shift > 0, shift == 0, is_cut)
            assert text[shift:].startswith(window)
            assert len(window.encode()) > windows.WINDOW_BYTES - 4 or not cut
            assert not crowded.any()


def test_what_stands_before_a_place_is_known_for_every_character() -> None:
    chars = ["", *(chr(code) for code in range(0x250) if chr(code).lower() not in "answer")]
    places, _ = windows.windows(pl.Series([f"{char}answer" for char in chars]), ["answer"], pl.Series([False]))
    assert places["row"].to_list() == list(range(len(chars)))
    assert places["in_word"].to_list() == [bool(re.fullmatch("[0-9A-Za-z]", char)) for char in chars]
    assert places["is_free"].to_list() == [char.isascii() and not re.fullmatch("[0-9A-Za-z_#]", char) for char in chars]


def test_a_text_of_cues_alone_is_left_to_the_walk() -> None:
    texts = pl.Series(["answer " * 201, "answer", "réponse " * 300])
    places, crowded = windows.windows(texts, ["answer", "réponse"], pl.Series([False, False, True]))
    assert crowded.to_list() == [True, False, True]
    assert places["row"].to_list() == [1]


def test_the_classes_of_characters_are_those_of_python() -> None:
    every = pl.Series([chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000])
    chars = every.to_list()
    assert every.filter(every.str.contains(f"[{characters.letters()}]")).to_list() == [c for c in chars if c.isalpha()]
    is_word = every.str.contains(f"[{characters.words()}]")
    assert every.filter(is_word).to_list() == [c for c in chars if c.isalnum() or c == "_"]
    assert every.filter(every.str.contains(f"[{characters.BLANKS}]")).to_list() == [c for c in chars if c.isspace()]
    same = every.filter(~every.str.contains(f"[{characters.lowered_otherwise()}]"))
    assert same.str.to_lowercase().to_list() == [c.lower() for c in same.to_list()]


def test_signs_are_folded_as_the_walk_folds_them() -> None:
    chars = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert number_columns.folded(pl.Series(chars)).to_list() == [in_plain_signs(char) for char in chars]
