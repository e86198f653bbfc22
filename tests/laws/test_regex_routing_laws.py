"""What holds for every pattern: Rust's engine, where it is taken, gives what Python's gives; the sieve loses none.

The usual patterns of evaluations, each on many adversarial texts; and patterns drawn by hypothesis, on texts of few
characters. The plain definition is tests/references/regex_rows.py. These laws are what a version of Python has to pass
before it stands in PROVEN_PYTHONS; they run under any version.
"""

import random
import re
import sys
from collections.abc import Iterable, Iterator

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.extractors import patterns, routing
from evalframe.extractors.regex_process import Search
from evalframe.sandbox.regex_worker import WORDS
from tests.references.regex_rows import compiled, found

# (pattern, flags); group 1 where there is one
USUAL: dict[str, tuple[str, str]] = {
    "gsm8k": (r"#### (-?[0-9.,]+)", ""),
    "gsm8k escaped": (r"#### (\-?[0-9\.\,]+)", ""),
    "gsm8k flexible": (r"(-?[$0-9.,]{2,})|(-?[0-9]+)", ""),
    "gsm8k answer": (r"The answer is (\-?[0-9\.\,]*[0-9])", ""),
    "answer is": (r"answer is (\S+)", ""),
    "answer is letter": (r"answer is:?\s*\(?([A-D])\)?", ""),
    "answer is letter, any case": (r"(?i)the (?:correct )?answer is:?\s*\(?([A-J])\)?\b", ""),
    "answer colon": (r"(?i)answer[ \t]*:[ \t]*\$?([A-D])\$?", ""),
    "answer line": (r"(?i)answer\s*:\s*([^\n]+)", ""),
    "answer to the end": (r"Answer:\s*(.+)$", ""),
    "answer line whole": (r"^Answer: (.*)$", "m"),
    "final answer": (r"^\s*(?:\*\*)?Final Answer(?:\*\*)?:\s*(.+?)\s*$", "im"),
    "german": (r"Antwort:\s*([A-D])\b", ""),
    "chinese": (r"答案(?:是|为|：)\s*([A-D])", ""),
    "letter alone": (r"\b([A-E])\b", ""),
    "letter at start": (r"^\s*\(?([A-D])[\).:]", ""),
    "letter in parentheses": (r"(\([A-Z]\))", ""),
    "letter, nothing beside": (r"(?<![A-Za-z])([A-D])(?![A-Za-z])", ""),
    "letter before parenthesis": (r"[A-D](?=\))", ""),
    "letter or end": (r"(?:^|\s)([A-D])(?:[.\s]|$)", ""),
    "boxed": (r"\\boxed{(.*?)}", ""),
    "boxed escaped": (r"\\boxed\{([^{}]*)\}", ""),
    "boxed nested": (r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", ""),
    "boxed or fbox": (r"\\(?:boxed|fbox)\s*\{(-?\d+)\}", ""),
    "tag": (r"<answer>(.*?)</answer>", "s"),
    "tag, any case": (r"<ANSWER>\s*(.*?)\s*</ANSWER>", "is"),
    "behind thoughts": (r"(?s).*</think>\s*(.*)", ""),
    "code fence": (r"```(?:python|py)?\s*\n(.*?)```", "s"),
    "function": (r"^def\s+(\w+)\s*\(", "m"),
    "json string": (r'"answer"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)"', ""),
    "json number": (r'"score"\s*:\s*(-?\d+(?:\.\d+)?)', ""),
    "json object": (r"\{.*\}", "s"),
    "judge rating": (r"\[\[(\d+\.?\d*)\]\]", ""),
    "judge verdict": (r"\[\[([ABC])\]\]", ""),
    "judge out of ten": (r"(\d+)\s*/\s*10", ""),
    "judge label": (r"(?:rating|score)\s*[:=]\s*(\d{1,3})\b", "i"),
    "yes or no": (r"^\W*(yes|no)\b", "i"),
    "true or false": (r"\b(True|False)\b", ""),
    "sentiment": (r"\b(positive|negative|neutral)\b", "i"),
    "last integer": (r"(\d+)\D*$", ""),
    "number": (r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?", ""),
    "money": (r"\$?((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)", ""),
    "percent": (r"(\d+(?:\.\d+)?)\s?%", ""),
    "date": (r"\b(\d{4})-(\d{2})-(\d{2})\b", ""),
    "bold": (r"\*\*(.+?)\*\*", ""),
    "first line": (r"^([^\n]*)", ""),
    "first word": (r"\w+", ""),
    "few words": (r"(\w{1,300})", ""),
    "look-behind": (r"(?<=answer is )\S+", ""),
    "bbh": (r"(?<=the answer is )(.*)(?=.)", ""),
    "question mark": (r"([^.?!]+)\?", ""),
    "option text": (r"Option\s+(?P<letter>[A-D])\s*[-:]\s*(?P<text>.*)", ""),
    "quoted twice": (r"([\"'])(.*?)\1", ""),
    "tempered": (r"Answer:((?:(?!Question:).)*)", "s"),
    "fenced by itself": (r"(`+)[^`]+\1", ""),
}  # fmt: skip

# what goes to Python's engine, with the reason
PYTHONS = {
    ("letter, nothing beside", True): "ASSERT_NOT has no exact spelling",
    ("letter before parenthesis", True): "ASSERT has no exact spelling",
    ("look-behind", True): "ASSERT has no exact spelling",
    ("bbh", True): "the last match of a pattern that can match nothing is Python's own",
    ("first line", True): "the last match of a pattern that can match nothing is Python's own",
    **{("quoted twice", last): "GROUPREF has no exact spelling" for last in (False, True)},
    **{("tempered", last): "ASSERT_NOT has no exact spelling" for last in (False, True)},
    **{("fenced by itself", last): "GROUPREF has no exact spelling" for last in (False, True)},
}

PIECES = [
    "A", "b",
    "C", "(D)", "E.", "answer", "Answer: ", "is ", "12", "1,234.5", "-3", "$", "%", ".", ",", ":", "yes", "No",
    "\n", "\n\n", "\r\n", " ", "\t", "\x1c", "\x85", "\u2028", "\x00",
    "_", "-", "é", "e\u0301", "ſ", "K", "İ", "ı", "ß",
    "½", "²", "٣", "１", "नमस्ते", "\u200d", "ⓐ", "Σ", "ς", "错", "答案是", "𝒳", "👩‍👧", "\U0010ffff",
    "{", "}", "\\", "`",
    '"', "'", "*", "#",
]  # fmt: skip


def texts_for(pattern: str, count: int) -> list[str]:
    """Draw texts, half of them of ASCII, out of pieces of the pattern and of what engines differ in."""
    drawn = random.Random(pattern)
    own = [piece.replace("\\", "") for piece in re.findall(r"[\w ]{2,}|\\?[^\w\s]", pattern)]
    pieces = [*PIECES, *own, *own]
    ascii_pieces = [piece for piece in pieces if piece.isascii()]
    return [
        "".join(drawn.choices(ascii_pieces if number % 2 else pieces, k=drawn.randint(1, 14))) or "x"
        for number in range(count)
    ]


def by_rust(texts: Iterable[str], search: Search) -> Iterator[tuple[bool, list[tuple[str, tuple[str, str | None]]]]]:
    """Search with each spelling the texts that it is for; give which spelling, and texts and results."""
    column = pl.Series("text", texts, dtype=pl.String)
    is_ascii = column.str.len_bytes() == column.str.len_chars()
    for ascii_only in (True, False):
        spelled = routing.program(search.pattern, search.flags, search.group, last=search.last, ascii_only=ascii_only)
        if isinstance(spelled, str):
            continue
        part = (column.filter(is_ascii) if ascii_only else column).to_frame().with_row_index("place")
        part = part.filter(patterns.suits(part["text"], spelled))
        result = patterns._by_rust(part, spelled, last=search.last)
        assert result.schema == pl.Schema({"place": pl.UInt32, "word": pl.UInt8, "answer": pl.String})
        assert result["place"].to_list() == part["place"].to_list()
        yield ascii_only, list(zip(part["text"], named(result), strict=True))


def named(result: pl.DataFrame) -> list[tuple[str, str | None]]:
    return [(WORDS[word], answer) for word, answer in result.select("word", "answer").rows()]


def hold_to_python(texts: list[str], search: Search) -> set[bool]:
    """Compare every spelling with Python's re; give which ones there are."""
    plain = compiled(search.pattern, search.flags)
    spellings = set()
    for ascii_only, results in by_rust(texts, search):
        spellings.add(ascii_only)
        wrong = [
            (text, result, expected)
            for text, result in results
            if result != (expected := found(plain, text, group=search.group, last=search.last))
        ]
        assert not wrong, (search, ascii_only, wrong[:3])
    for ascii_only in (True, False):
        if sifting := routing.sieve(search.pattern, search.flags, ascii_only=ascii_only):
            mine = [text for text in texts if text.isascii() or not ascii_only]
            kept = pl.Series(mine, dtype=pl.String).str.contains(sifting.wide).to_list()
            lost = [text for text, is_kept in zip(mine, kept, strict=True) if not is_kept and plain.search(text)]
            assert not lost, (search, sifting, lost[:3])
    return spellings


@pytest.fixture(autouse=True)
def _under_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PROVEN_PYTHONS", {sys.version_info[:2]})


def usual(name: str, last: bool) -> Search:
    pattern, flags = USUAL[name]
    return Search(pattern=pattern, flags=flags, group=min(1, compiled(pattern, flags).groups), last=last)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("name", USUAL)
def test_a_usual_pattern_gives_the_same(name: str, last: bool) -> None:
    search = usual(name, last)
    spellings = hold_to_python(texts_for(search.pattern, 600), search)
    reason = routing.program(search.pattern, search.flags, search.group, last=last, ascii_only=True)
    assert PYTHONS.get((name, last)) == (reason if isinstance(reason, str) else None)
    assert (True in spellings) == ((name, last) not in PYTHONS)


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("name", USUAL)
def test_a_usual_pattern_gives_the_same_on_very_many_texts(name: str, last: bool) -> None:
    search = usual(name, last)
    hold_to_python(texts_for(search.pattern, 60_000), search)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("name", USUAL)
def test_the_door_gives_the_same_whichever_engine_runs(name: str, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    search = usual(name, last)
    texts = texts_for(search.pattern, 60)
    plain = compiled(search.pattern, search.flags)
    expected = [found(plain, text, group=search.group, last=last) for text in texts]
    assert named(patterns.find(pl.Series(texts), search)) == expected
    monkeypatch.setattr(patterns, "_MANY_TEXTS", 1)
    assert named(patterns.find(pl.Series(texts), search)) == expected


CHARACTERS = [*"aAbkKsSiI12 _-.\n\r", "é", "½", "İ", "ſ", "\u212a", "\u0301", "ß", "\x1c"]
ONE = st.sampled_from(
    [*map(re.escape, CHARACTERS), ".", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", "[a-k]", "[^a]", r"[\d½]", r"[^\w-]",
     r"[_\s]", "[A-S]", "[^İß]"]
)  # fmt: skip
ASSERTION = st.sampled_from([r"\b", r"\B", "^", "$", r"\A", r"\Z"])
QUANTIFIER = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "??", "{0,2}?"])
OPENING = st.sampled_from(["(", "(", "(?:", "(?i:", "(?s:", "(?m:", "(?a:", "(?-i:"])
BEHIND = st.sampled_from(["", "", "", "(?<=a)", r"(?<!\w)", "(?<=a )", r"(?<=\b)", "(?<!½)"])
AHEAD = st.sampled_from(["", "", "", "(?=a)", r"(?!\w)", r"(?=\s*$)", "(?!a)", r"(?=\b)", r"(?!ab)"])
PYTHONS_ALONE = st.sampled_from([r"(a)\1", "(?>a+)", "a++", "(?=a)", r"(?!\d)", "(?<=b)", "(a)?(?(1)b|k)"])


def grouped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    ways = st.lists(st.lists(inner, max_size=3).map("".join), min_size=1, max_size=3).map("|".join)
    return st.builds("{}{}){}".format, OPENING, ways, QUANTIFIER)


PART = st.recursive(st.builds("{}{}".format, ONE, QUANTIFIER) | ASSERTION, grouped, max_leaves=5)
PATTERN = st.builds("{}(?:{}){}".format, BEHIND, st.lists(PART, min_size=1, max_size=4).map("".join), AHEAD) | st.lists(
    PART, min_size=1, max_size=4
).map("".join)
FLAG_LETTERS = st.sets(st.sampled_from("ims"), max_size=3).map(lambda letters: "".join(sorted(letters)))
TEXTS = st.randoms(use_true_random=False).map(
    lambda drawn: [
        "".join(drawn.choices(CHARACTERS[: drawn.choice([3, 6, 12, 99])], k=drawn.randint(1, 7))) for _ in range(40)
    ]
)
DRAWN = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


def hold_all(pattern: str, flags: str, texts: list[str]) -> None:
    """Hold every group, first and last, to Python; a pattern that does not compile has nothing to hold."""
    try:
        groups = compiled(pattern, flags).groups
    except re.error:
        return
    for group in range(groups + 1):
        for last in (False, True):
            hold_to_python(texts, Search(pattern=pattern, flags=flags, group=group, last=last))


@DRAWN
@given(pattern=PATTERN, flags=FLAG_LETTERS, texts=TEXTS)
def test_any_pattern_gives_the_same(pattern: str, flags: str, texts: list[str]) -> None:
    hold_all(pattern, flags, texts)


@DRAWN
@given(pattern=st.builds("{}{}{}".format, PATTERN, PYTHONS_ALONE, PATTERN), flags=FLAG_LETTERS, texts=TEXTS)
def test_a_pattern_that_is_pythons_alone_is_found_where_the_sieve_lets_through(
    pattern: str, flags: str, texts: list[str]
) -> None:
    hold_all(pattern, flags, texts)


@pytest.mark.slow
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(pattern=PATTERN, flags=FLAG_LETTERS, texts=TEXTS)
def test_any_of_very_many_patterns_gives_the_same(pattern: str, flags: str, texts: list[str]) -> None:
    hold_all(pattern, flags, texts)


@DRAWN
@given(one=ONE, flags=st.sampled_from(["", "i", "s", "a", "ai"]))
def test_a_node_of_one_character_takes_what_python_takes(one: str, flags: str) -> None:
    every = [chr(code) for code in (*range(0x3000), 0xFF11, 0x10FFFF, 0x1D7CE)]
    hold_to_python(every, Search(pattern=f"({one})", flags=flags, group=1))
