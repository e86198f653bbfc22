"""The extraction type label_set: which words are labels, and which label is the answer."""

import time

import polars as pl
import pytest

from evalframe.extractors import extract
from evalframe.extractors.labels import compiled, read_label

LETTERS = list("ABCDEFGHIJ")


def label(text: str, labels: list[str], *, case_sensitive: bool = False) -> str | None:
    return read_label(text, compiled(tuple(labels), case_sensitive))[0]


def rule(text: str, labels: list[str]) -> str:
    return read_label(text, compiled(tuple(labels), False))[2]


@pytest.mark.parametrize(
    "decorated",
    ["B", "**B**", "$B$", "`B`", "(B)", "[B]", "_B_", "__B__.", "*B*", '"B"', "“B”", r"\text{B}", r"$\mathbf{B}$",
     r"\(B\)",
     "<b>B</b>", "b", "B.", "B)", "B:", "**B)** because", "Option B", "option (b)", "the letter B", "\n\n  B\n", "Ｂ"],
)  # fmt: skip
@pytest.mark.parametrize(
    "cue",
    ["Answer: ", "ANSWER:", "**Answer:** ", "**Answer**: ", "Final answer is ", "The correct answer is: ",
     "Answer - ", "Answer = ",
     "The answer to the question is ", "Answer (A, B, C or D): ", "Label: ", "Classification: ",
     "The best option would be ",
     "The right one is ", "My choice is ", "I would choose ", r"\boxed{", "<answer>", "#### ", "Antwort: ",
     "Réponse : ", "Ответ: ",
     "Відповідь: ", "答案：", "所以答案是", "La respuesta es "],
)  # fmt: skip
def test_a_label_behind_a_cue_wins_whatever_its_decoration(cue: str, decorated: str) -> None:
    text = f"At first A or (C) look fine.\n{cue}{decorated}"
    assert read_label(text, compiled(("A", "B", "C", "D"), False)) == ("B", "ok", "cue")


@pytest.mark.parametrize("noun", ["Unanswer: B", "my_answer: B", "masterclass: B"])
def test_a_cue_is_a_whole_word(noun: str) -> None:
    assert (label(f"A. {noun}", LETTERS), rule(f"A. {noun}", LETTERS)) == ("A", "first_label")


def test_a_cue_that_is_no_whole_word_hides_no_other() -> None:
    assert (label("B. my_answer choice: C", LETTERS), rule("B. my_answer choice: C", LETTERS)) == ("C", "cue")


@pytest.mark.parametrize("tag", ["b", "i", "em", "strong", "u", "code", "B"])
def test_a_tag_is_no_label(tag: str) -> None:
    assert label(f"Answer: <{tag}>C</{tag}>", LETTERS) == "C"
    assert label(f"It is <{tag}>C</{tag}>", LETTERS) == "C"


def test_the_last_cue_comes_first() -> None:
    assert label("Answer: A. No, wait. Answer: B, not C", LETTERS) == "B"
    assert label("Answer: A. In short, the answer is unclear.", LETTERS) == "A"


def test_without_a_cue_the_first_label_by_position() -> None:
    assert label("(C) rather than B or A.", LETTERS) == "C"
    assert label("neutral, or positive", ["positive", "negative", "neutral"]) == "neutral"


def test_a_text_that_is_nothing_but_the_label() -> None:
    for text in ("b", "B", " *b* ", "(b).", "“B”!", "b,", "$b$"):
        assert read_label(text, compiled(("A", "B"), False)) == ("B", "ok", "whole_text")
    assert label("a", ["A", "B"]) == "A"
    assert label("i", LETTERS) == "I"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A quick sketch shows a slope, so (H).", "H"), ("A hexagon it is", None), ("a cat", None),
        ("It is a cat.", None),
        ("- A hexagon\n1) A square", None), ("**A hexagon**", None), ("A is right", "A"), ("A and B", "A"),
        ("A because", "A"),
        ("Option A fits", "A"), ("It must be A given that", "A"), ("I choose the hexagon", None), ("I think F", "F"),
        ("I'm sure", None), ("So I agree", None), ("Option I fits", "I"), ("It is (I)", "I"), ("It is I.", "I"),
        ("I is right", "I"),
        ("Answer: A hexagon", None), ("Answer: a hexagon", None), ("Answer: A because", "A"),
        ("Answer: A\nbecause", "A"),
        ("Answer: I think so", None), ("Answer: I", "I"), ("the answer is a", "A"), ("the answer is a.", "A"),
        ("answer is b, since", "B"),
        ("Good luck, Doctor. Hard", None), ("Don't", None), ("cannot decide", None),
        ("so b", None), ("so (b)", "B"), ("so b) 42", "B"), ("so b.", "B"), ("so [b]", "B"), ("(a and b)", None),
        ("(see (c) and b)", "C"),
        ("e.g. this, i.e. that", None), ("the U.S. and D.C.", None), ("N/A", None), ("Q&A", None),
        ("C++ and C#", None), ("B+", None),
        ("25 °C", None), ("f(a)", None), ("P(A) = 1", None), ("A(n)", None), ("vitamin-C", None), ("B-52", None),
        ("A-D", None),
        ("D'Artagnan", None), ("C's", None), ("xB", None), ("B2", None), ("A_B", None), ("_B", None), ("É. B", "B"),
    ],
)  # fmt: skip
def test_a_single_letter_counts_only_where_it_is_a_label(text: str, answer: str | None) -> None:
    assert label(text, LETTERS) == answer


@pytest.mark.parametrize(
    ("text", "labels", "answer"),
    [
        ("irrelevant", ["relevant", "irrelevant"], "irrelevant"),
        ("Not spam.", ["spam", "not spam"], "not spam"),
        ("It is not\n spam", ["spam", "not spam"], "not spam"),
        ("NOT SPAM", ["spam", "Not Spam"], "Not Spam"),
        ("positively", ["positive"], None),
        ("positive_1", ["positive"], None),
        ("positive²", ["positive"], None),
        ("naïve", ["na", "ve"], None),
        ("das ist größer", ["größer"], "größer"),
        ("it is >50K", ["<=50K", ">50K"], ">50K"),
        ("Answer: <=50K", ["<=50K", ">50K"], "<=50K"),
        ("we use C++17 and C++", ["C++"], "C++"),
        ("xC++", ["C++"], None),
        ("take(A)x", ["(A)", "(B)"], "(A)"),
        ("axb", ["a.b"], None),
        ("a.b", ["a.b", "a*", "[x"], "a.b"),
        ("it is [x", ["a.b", "a*", "[x"], "[x"),
        ("Answer: correct", ["correct", "incorrect"], "correct"),
        ("हाँ, यह सही है", ["सही", "गलत"], "सही"),
        ("答案是对", ["对", "错"], "对"),
        ("Zuordnung: ja", ["ja", "nein"], "ja"),
        ("yes", [" yes ", "no"], " yes "),
    ],
)
def test_labels_are_whole_words_and_the_longest_wins(text: str, labels: list[str], answer: str | None) -> None:
    assert label(text, labels) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3", "3"), ("3.", "3"), ("(3)", "3"), ("Answer: 3", "3"), ("3/5", "3"), ("1) 3", "1"), ("１", "1"),
        ("3, 4", "3"),
        ("3.5", None), ("about 3.5, so 4", "4"), ("2.3", None), ("0.5", None), (".5", None), ("-1", None),
        ("so −1", None),
        ("10", None), ("1,234", None), ("1st", None), ("10^5", None), ("v3", None), ("...5", "5"), ("Answer:5", "5"),
    ],
)  # fmt: skip
def test_a_digit_label_is_never_a_part_of_a_number(text: str, answer: str | None) -> None:
    assert label(text, list("12345")) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Score -1", "-1"), ("Score: -1", "-1"), ("Score is -1.", "-1"), ("**Score:** **-1**", "-1"),
        ("Score – -1", "-1"), ("Sentiment: −1", "-1"), ("Sentiment −1", "-1"), ("Sentiment: –1", "-1"), ("－１", "-1"),
        ("$-1$", "-1"), ("-1", "-1"), ("so (-1)", "-1"), ("分数是-1", "-1"),
        ("Label: - 1", "1"), ("Answer - 1", "1"), ("Answer-1", "1"), ("5-1=4", "1"), ("f(x)-1", "1"),
        ("Answer: +1", "1"),
        ("-1.5", None), ("-10", None), ("Score -10", None),
    ],
)  # fmt: skip
def test_a_sign_belongs_to_its_digits(text: str, answer: str | None) -> None:
    assert label(text, ["-1", "0", "1"]) == answer


@pytest.mark.parametrize(
    "text",
    ["Score -5", "label: -5", "Answer: - -5", "答案是-5", "Answer: 10^5", "Answer: 10^{5}", "10**5", "so 10 ^ 5",
     "Answer: 10⁵", "Answer: 5^2"],
)  # fmt: skip
def test_a_signed_number_and_a_power_are_no_digit_label(text: str) -> None:
    assert label(text, ["5", "10"]) is None


def test_ranges_are_labels_whatever_their_dash() -> None:
    assert label("Age: 18–24", ["18-24", "25-34"]) == "18-24"
    assert label("Age: 18-24", ["18–24", "25–34"]) == "18–24"


def test_a_group_of_thousands_is_a_part_of_a_number() -> None:
    assert label("1,234", ["234"]) is None
    assert label("7,234 then 234", ["234"]) == "234"


def test_case_counts_where_it_is_asked_for() -> None:
    labels = ["Spam", "spam"]
    assert [label(text, labels, case_sensitive=True) for text in ("spam", "it is Spam", "SPAM")] == [
        "spam",
        "Spam",
        None,
    ]
    assert label("Answer: b", ["B"], case_sensitive=True) is None
    assert label("Answer: b", ["b"], case_sensitive=True) == "b"
    assert label("so (b)", ["b", "B"], case_sensitive=True) == "b"


@pytest.mark.parametrize("text", ["red-ish", "reed", "gren", "bleu", "greeen", "the colour of blood"])
def test_there_is_never_a_guess_at_the_nearest_label(text: str) -> None:
    assert read_label(text.replace("red-ish", "reddish"), compiled(("red", "green", "blue"), False)) == (
        None, "no_match", "no_label",
    )  # fmt: skip


N = 1 << 16
HOSTILE = {
    "letters": "A hexagon. " * N, "cues": "answer: " * N, "cues and blanks": ("answer:" + " " * 99) * 1000,
    "blanks": "answer:" + " " * N,
    "labels": "label: the " * N, "underscores": "_" * N, "emphasis": "_a " * N, "brackets": "(" * N,
    "small": "(a and b) " * N,
    "dots": "e.g. " * N, "pronouns": "I think " * N, "boxes": "\\boxed{" * N, "commands": "\\text" * N,
    "notes": "answer (" * N,
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_is_read_again_and_again(text: str) -> None:
    began = time.process_time()
    assert read_label(text, compiled(("E", "G", "I", "x y"), False)) == (None, "no_match", "no_label")
    assert time.process_time() - began < 30, "hangs"


def test_noise_is_dropped_before() -> None:
    found = extract(pl.Series(["\ufeffb<|eot_id|> Answer: A"]), {"type": "label_set", "labels": ["A", "B"]})
    assert found.row(0) == ("B", "ok", "whole_text")
