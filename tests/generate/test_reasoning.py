"""Reasoning goes out of the text, tags that are only talked about stay in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.errors import OptionError
from evalframe.generate.reasoning import DEFAULT_TAGS, reasoning_tags, split_reasoning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think>B", ("B", "a")),
        ("\n <think>\na\n</think>\n\nB", ("\n\nB", "a")),
        ("<THINK>a</Think>B", ("B", "a")),
        ("\ufeff<think>a</think>B", ("B", "a")),
        ("<reasoning>a</reasoning>    return x", ("    return x", "a")),
        ("<think></think>B", ("B", None)),
        ("<think>\n\n</think>\n\nB", ("\n\nB", None)),
        ("<think>a</think>", ("", "a")),
        # the server ate the opening tag
        ("first a\n</think>\n\nB", ("\n\nB", "first a")),
        ("2+2=4.</think>4", ("4", "2+2=4.")),
        ("</think>B", ("B", None)),
        ("a</think>b</think>C", ("C", "a\n\nb")),
        # the last of them
        ("<think>a</think><think>b</think>C", ("C", "a\n\nb")),
        ("<think>a</think>\n<reasoning>b</reasoning>C", ("C", "a\n\nb")),
        ("<think>a</think>\nDraft\n<think>b</think>\nC", ("\nC", "a\n\nDraft\n\nb")),
        ("<think>a</think>b</think>C", ("C", "a\n\nb")),
        ("<think>a <think> b</think>c</think>D", ("D", "a <think> b\n\nc")),
        # within a block only its own closing tag ends it, and not a quoted one
        ("<think>a</reasoning>b</think>C", ("C", "a</reasoning>b")),
        ("<think>I end with `</think>`, then B</think>B", ("B", "I end with `</think>`, then B")),
        ("<think>```py\nx = 1\n</think>\n```py\nans\n```", ("\n```py\nans\n```", "```py\nx = 1")),
        ("I think the <think> tag is meant.\n</think>\nB", ("\nB", "I think the <think> tag is meant.")),
    ],
)
def test_reasoning_is_split_off(text: str, expected: tuple[str, str | None]) -> None:
    assert split_reasoning(text) == (*expected, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B",
        "Use <think> to begin.",
        "Models put it into <think> and </think> tags.",
        "The closing tag is `</think>`.",
        'It ends with "</think>" and nothing else.',
        "Write `<think>x</think>` around it",
        "Write `a </think> b` there",
        "Like this:\n```\n<p>a</think>\n```\nDone",
        "an answer <think>that only later thinks",
        "< think >a< /think >b",
    ],
)
def test_a_tag_that_is_only_talked_about_is_text(text: str) -> None:
    assert split_reasoning(text) == (text, None, None)


def test_a_tag_in_the_answer_is_text_too() -> None:
    answer = "Put it into <think> and </think> tags."
    assert split_reasoning(f"<think>a</think>{answer}") == (answer, "a", None)


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("<think>It is A. The answer is A", "It is A. The answer is A"),
        ("<think>", None),
        ("<think>a</think>\n<think>b", "a\n\nb"),
        ("<think>a</reasoning>b", "a</reasoning>b"),
        ("<think>I end with `</think>` and", "I end with `</think>` and"),
    ],
)
def test_a_block_that_never_closes_is_all_reasoning(text: str, thought: str | None) -> None:
    assert split_reasoning(text) == ("", thought, "truncated_reasoning")


def test_own_tags_take_the_place_of_the_usual_ones() -> None:
    tags = reasoning_tags(["thought", ("[THINK]", "[/THINK]")])
    assert split_reasoning("<thought>a</thought>B", tags) == ("B", "a", None)
    assert split_reasoning("[THINK]a[/THINK]B", tags) == ("B", "a", None)
    assert split_reasoning("<think>a</think>B", tags) == ("<think>a</think>B", None, None)
    assert split_reasoning("<think>a</think>B", ()) == ("<think>a</think>B", None, None)
    assert reasoning_tags("think") == reasoning_tags(["<think>"]) == DEFAULT_TAGS[:1]


@pytest.mark.parametrize("tag", ["", "</>", ("a",), ("a", ""), ("x", "x"), ("a", "b", "c")])
def test_what_is_no_tag_is_refused_with_the_two_forms(tag: object) -> None:
    with pytest.raises(OptionError, match=r"reasoning_tags: .*(give a name|give two tags)"):
        reasoning_tags([tag])  # type: ignore[list-item]


PIECES = ["<think>", "</think>", "<reasoning>", "</reasoning>", "a", " ", "\n", "`", '"', "```", "B", "\ufeff"]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_the_text_is_always_an_end_of_the_reply(text: str) -> None:
    said, thought, finish = split_reasoning(text)
    assert text.endswith(said)
    assert finish in (None, "truncated_reasoning")
    if finish:
        assert said == ""
    if thought is None and finish is None and said != text:
        assert not text[: len(text) - len(said)].replace("think", "").replace("reasoning", "").strip('<>/ \n`"\ufeff')


@given(st.text(alphabet="ab <>/\n`", max_size=40))
def test_text_without_tags_is_never_touched(text: str) -> None:
    assert split_reasoning(text) == (text, None, None)


def test_a_reply_full_of_tags_is_read_in_linear_time() -> None:
    # quadratic work on these would take minutes
    for piece in ("</think>", "<think>", "x <think> ", "`</think>", "\n```</think>"):
        text = piece * 100_000
        said, _, _ = split_reasoning(text)
        assert text.endswith(said)
