"""Which engine a pattern and a text go to, and what is written for Rust; that the answers agree is held by the laws."""

import re
import sys

import polars as pl
import pytest

from evalframe.extractors import characters, extract, patterns, regex_process, routing
from evalframe.extractors.regex_process import Search
from evalframe.extractors.routing import Program, program, sieve


def rust(
    pattern: str, flags: str = "", group: int | str = 0, *, last: bool = False, ascii_only: bool = True
) -> Program:
    spelled = program(pattern, flags, group, last=last, ascii_only=ascii_only)
    assert isinstance(spelled, Program), spelled
    return spelled


def reason(pattern: str, flags: str = "", group: int | str = 0, *, last: bool = False, ascii_only: bool = True) -> str:
    spelled = program(pattern, flags, group, last=last, ascii_only=ascii_only)
    assert isinstance(spelled, str), spelled
    return spelled


@pytest.fixture(autouse=True)
def _under_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PROVEN_PYTHONS", {sys.version_info[:2]})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that went to the worker."""
    texts: list[str] = []

    def search_all(column: pl.Series, search: Search) -> pl.DataFrame:
        texts.extend(column.to_list())
        return regex_process.search_all(column, search)

    monkeypatch.setattr(patterns, "search_all", search_all)
    return texts


def answers(texts: list[str], pattern: str, kind: str = "regex", **config: object) -> list[str | None]:
    return extract(pl.Series(texts), {"type": kind, "pattern": pattern, **config})["extracted_output"].to_list()


@pytest.mark.parametrize(
    ("pattern", "flags", "spelled"),
    [
        ("a.b", "", r"a[\x{0}-\x{9}\x{B}-\x{7F}]b"),
        ("a.b", "s", r"a[\x{0}-\x{7F}]b"),
        (r"\<\&\é{", "", r"\x{3C}\x{26}[^\x{0}-\x{10FFFF}]\x{7B}"),
        ("[a&&b][[][^[]", "", r"[\x{26}a-b]\x{5B}[\x{0}-Z\x{5C}-\x{7F}]"),
        (r"\w\d\s", "", r"[0-9A-Z_a-z][0-9][\x{9}-\x{D}\x{1C}-\x{20}]"),
        ("(?i:Is)k", "", "(?:[Ii][Ss])k"),
        ("a*b+?c?d{2}e{,3}f{2,}", "", "(?:a){0,}(?:b){1,}?(?:c){0,1}(?:d){2,2}(?:e){0,3}(?:f){2,}"),
        ("a b # c", "x", "ab"),
        ("^a$", "m", "(?m:^)a(?m:$)"),
        (r"^a\Z|\Ab", "", r"(?:\Aa\z|\Ab)"),
        (r"\bx", "a", r"(?-u:\b)x"),
        ("(a)(?P<b>c)", "", "(?:a)(?:c)"),
        (r"\101\u0041\N{DIGIT ONE}(?#note)", "", "AA1"),
    ],
)
def test_the_rust_pattern_is_written_out(pattern: str, flags: str, spelled: str) -> None:
    assert rust(pattern, flags).find == spelled


def test_classes_are_those_of_all_of_unicode_where_the_text_is() -> None:
    word = rust(r"\w", ascii_only=False).find
    assert word.count("-") > 600
    assert rust("k", "i", ascii_only=False).find == r"[Kk\x{212A}]"
    assert rust("k", "ia", ascii_only=False).find == "[Kk]"
    assert rust("é", "i", ascii_only=False).find == r"[\x{C9}\x{E9}]"
    assert rust("[^a]", ascii_only=False).find == r"[\x{0}-\x{60}b-\x{10FFFF}]"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "GROUPREF has"), ("(?P<n>a)(?P=n)", "GROUPREF has"), ("(a)?(?(1)b|c)", "GROUPREF_EXISTS"),
        ("(?>a+)b", "ATOMIC_GROUP"), ("a++b", "POSSESSIVE_REPEAT"), ("(?=a)b", "ASSERT has"), ("(?!a)b", "ASSERT_NOT"),
        ("a(?<=b)c", "ASSERT has"), (r"a(?!bc)", "ASSERT_NOT"),
        ("(a*)*", "a loop around what can match nothing"), ("(?:a|b?)+", "a loop around"), ("a{0}", "a loop around"),
        (r"(?a:\B)", "AT_NON_BOUNDARY"),
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_says_why(pattern: str, why: str) -> None:
    assert reason(pattern).startswith(why)


def test_a_group_in_a_loop_is_pythons_and_a_loop_beside_the_group_is_not() -> None:
    assert reason("(?:(a)|b)+", group=1) == "the group stands in a loop"
    assert rust("(?:(a)|b)+(c)?", group=2).find == "(?:(?:(?:a)|b)){1,}(?:(c)){0,1}"


def test_the_last_match_that_can_be_empty_is_pythons() -> None:
    assert reason(r"\d*", last=True).startswith("the last match of a pattern that can match nothing")
    assert answers(["12 x"], r"\d*", "regex_last", group=0) == [None]
    assert answers(["12 x"], r"\d*") == ["12"]


def test_another_python_proves_nothing(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> None:
    monkeypatch.setattr(routing, "PROVEN_PYTHONS", frozenset({(2, 7)}))
    assert reason("a") == f"the proof is not made for Python {sys.version_info[0]}.{sys.version_info[1]}"
    assert sieve("abc", "", ascii_only=True) is None
    assert answers(["xa", "b"], "(a)") == ["a", None]
    assert sent == ["xa", "b"]


def test_a_spelling_that_is_too_large_is_none() -> None:
    assert rust(r"\w{1,300}").find
    assert reason(r"\w{1,300}", ascii_only=False) == "it is too large for the engine"
    assert sieve(r"\w{1,300}", "", ascii_only=False) is None
    assert answers(["abc", "é" * 400], r"\w{1,300}") == ["abc", "é" * 300]


def test_texts_that_end_in_a_newline_go_to_python_where_the_end_is_meant(sent: list[str]) -> None:
    texts = ["is 42", "is 42\n", "42\n\n", "é 42", "é 42\n"]
    assert answers(texts, r"(\d+)$") == ["42", "42", None, "42", "42"]
    assert sent == ["is 42\n", "42\n\n", "é 42\n"]


def test_texts_with_disputed_characters_go_to_python_where_a_words_edge_is_meant(sent: list[str]) -> None:
    texts = ["is A", "A² or B", "A\u0301 or B", "é, A", "ⓐA"]
    assert answers(texts, r"\b([A-E])\b") == ["A", "B", "A", "A", "A"]
    assert sent == ["A² or B", "A\u0301 or B", "ⓐA"]


def test_the_disputed_characters_are_those_on_which_the_engines_differ() -> None:
    every = pl.Series([*map(chr, range(0x3000)), "\U0001d7ce", "\U0001f150"])
    told = every.str.contains(routing.disputed()).to_list()
    by_rust = every.str.contains(r"^\w$").to_list()
    by_python = [re.fullmatch(r"\w", one) is not None for one in every]
    assert told == [ours != theirs for ours, theirs in zip(by_rust, by_python, strict=True)]
    assert 100 < sum(told) < 3_000


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        (r"(?<=is )\S+", "what is is 5", "is"), (r"(?<!\d)\d\d(?!\d)", "123 45 6", "45"),
        ("[A-D](?=\\))", "A B) C)", "B"),
        (r"(?<!a)b", "bab", "b"), (r"a(?!.)", "ab\nac", None), (r"\d+(?=\s*$)", "1 2 ", "2"), ("(?=b)", "ab", None),
    ],
)  # fmt: skip
def test_a_look_around_at_the_edge_is_read_as_text(pattern: str, text: str, answer: str | None) -> None:
    assert rust(pattern).group == 1
    assert answers([text, f"{text}é"[:-1]], pattern) == [answer, answer]


def test_the_group_of_the_last_match_is_read_from_its_own_text_where_that_is_enough() -> None:
    assert rust(r"\bis (\d+)$", group=1, last=True).inside == r"\A(?:is\x{20}((?:[0-9]){1,}))\z"
    assert rust(r"(\d+)", group=1, last=True).inside == ""  # the group is the match
    walk = rust(r"(?:^|\s)(\d)", group=1, last=True)
    assert walk.walk == r"\A(?:[\x{0}-\x{7F}]{0,}?(?:\A|[\x{9}-\x{D}\x{1C}-\x{20}])([0-9]))+"
    assert walk.inside == ""
    assert answers(["1 2 x3"], r"(?:^|\s)(\d)", "regex_last") == ["2"]
    assert reason(r"(?:^|\s)(\d)?x", group=1, last=True) == "an assertion inside, and a group that need not take part"


def test_the_sieve_keeps_a_text_that_holds_no_match_from_the_worker(sent: list[str]) -> None:
    texts = ["no", "xx 1", "is 5", "is 55", "é", "é is 66"]
    assert answers(texts, r"is (\d)\1") == [None, None, None, "5", None, "6"]
    assert sent == ["is 5", "is 55", "é is 66"]
    sifting = sieve(r"(?=a{,9})(?=b)c", "", ascii_only=True)
    assert sifting is not None
    assert (sifting.wide, sifting.most_bytes) == ("c", 50_000_000)
    assert sieve(r"(a)?\1*", "", ascii_only=True) is None  # true of every text


def test_nothing_goes_to_the_worker_without_need(sent: list[str]) -> None:
    assert answers(["is 5", "é is 6", ""], r"is (\d)") == ["5", "6", None]
    assert answers([], r"(a)\1") == []
    assert sent == []


def test_rusts_engine_takes_linear_time(sent: list[str]) -> None:
    assert answers(["a" * 60 + "!"], r"(?:a+)+$") == [None]
    assert sent == []


def test_a_long_text_goes_to_python_where_the_unrolled_pattern_is_long(sent: list[str]) -> None:
    longest = rust("a(?:bc){,99}x").most_bytes
    assert longest == 50_000_000 // 200
    texts = ["-" * (longest - 4) + "abcx", "-" * (longest - 3) + "abcx"]
    assert answers(texts, "a(?:bc){,99}x") == ["abcx", "abcx"]
    assert sent == texts[1:]
    assert rust(r"(?i)the answer is:?\s*\(?([A-J])\)?", group=1).most_bytes > 1024 * 1024


def test_a_lone_surrogate_in_a_pattern_is_in_no_text() -> None:
    assert answers(["a", "é"], "\\ud83d|é") == [None, "é"]


def test_sets_of_code_points_are_spelled_exactly() -> None:
    assert characters.complement((), ascii_only=True) == ((0, 0x7F),)
    assert characters.complement(((0, 0x7F),), ascii_only=True) == ()
    assert characters.complement(((65, 90), (97, 97)), ascii_only=False) == ((0, 64), (91, 96), (98, 0x10FFFF))
    assert characters.rust_class(((45, 45), (92, 94))) == r"[\x{2D}\x{5C}-\x{5E}]"
