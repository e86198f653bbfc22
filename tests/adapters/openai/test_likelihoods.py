"""Scores of continuations from echoed prompts."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import CallFailed, ContinuationScore
from evalframe.adapters.openai.likelihoods import read_scores, score, scoring_body

WORDS = st.text("ab é日", min_size=1, max_size=12)
PIECES = st.lists(WORDS, min_size=1, max_size=6)


def choice(
    pieces: list[str], values: list[float | None], *, new: str = "!", front: str = "", index: int = 0
) -> dict[str, Any]:
    """Echo tokens of a prompt: with one that opens the text, and the one new token that was asked for."""
    tokens = [*([front] if front else []), *pieces, *([new] if new else [])]
    offsets = [0, *accumulate(map(len, tokens))][:-1]
    listed = [*([None] if front else []), *values, *([-9.0] if new else [])]
    logprobs = {"tokens": tokens, "token_logprobs": listed, "text_offset": offsets, "top_logprobs": None}
    return {"index": index, "text": "".join(pieces) + new, "logprobs": logprobs, "finish_reason": "length"}


@given(PIECES, PIECES, st.sampled_from(["", "!", "ab"]), st.sampled_from(["", "<s>", "<|begin_of_text|>"]))
def test_the_score_is_the_sum_over_the_continuations_own_tokens(
    before: list[str], own: list[str], new: str, front: str
) -> None:
    before = [*before, "x"]  # a context that ends in a blank gives it away: see below
    values = [-float(place + 1) for place in range(len(before) + len(own))]
    found = score(choice([*before, *own], [*values], new=new, front=front), "".join(before), "".join(own))
    assert found == ContinuationScore(sum(values[len(before) :]), len(own))


@given(PIECES, PIECES, st.sampled_from([("!", ""), ("!", "<s>"), ("", "")]))
def test_offsets_say_it_where_tokens_are_written_differently(
    before: list[str], own: list[str], around: tuple[str, str]
) -> None:
    new, front = around  # who counts a token that opens the text also gives the new one
    before = [*before, "x"]
    values = [-float(place + 1) for place in range(len(before) + len(own))]
    echoed = choice([*before, *own], [*values], new=new, front=front)
    echoed["logprobs"]["tokens"] = ["?" * len(token) for token in echoed["logprobs"]["tokens"]]
    assert score(echoed, "".join(before), "".join(own)) == ContinuationScore(sum(values[len(before) :]), len(own))


def test_blanks_at_the_end_of_the_context_belong_to_the_continuation() -> None:
    # the token " 4" begins in the context as it is written, and carries the answer
    echoed = choice(["2+2", "=", " 4"], [None, -1.0, -0.5])
    assert score(echoed, "2+2= ", "4") == ContinuationScore(-0.5, 1)


def test_a_token_that_begins_in_the_context_is_the_contexts() -> None:
    echoed = choice(["The ans", "wer", " is"], [None, -1.0, -0.5])
    assert score(echoed, "The answ", "er is") == ContinuationScore(-0.5, 1)


def test_a_continuation_without_a_token_of_its_own_is_said_and_not_taken_for_certain() -> None:
    with pytest.raises(CallFailed, match=r"no token begins in the continuation '0'.*end the prompt where a word ends"):
        score(choice(["10"], [-1.0]), "1", "0")


def test_the_first_token_of_a_text_has_no_score() -> None:
    with pytest.raises(CallFailed, match="the context is empty"):
        score(choice(["4"], [None]), "", "4")
    assert score(choice(["4"], [-1.0], front="<s>"), "", "4") == ContinuationScore(-1.0, 1)


@pytest.mark.parametrize("odd", [None, float("nan"), float("-inf"), "x", 1.0])
def test_a_score_that_is_no_number_fails(odd: Any) -> None:
    with pytest.raises(CallFailed, match="no finite log-probability"):
        score(choice(["2+2=", " 4", " "], [-2.0, odd, -1.0]), "2+2=", " 4 ")


LLAMA_CPP = {"content": [{"token": "!", "logprob": -0.1}]}
NOT_ECHOED = {"tokens": ["!"], "token_logprobs": [-0.1], "text_offset": [5]}


@pytest.mark.parametrize("logprobs", [None, {}, LLAMA_CPP, NOT_ECHOED, {"tokens": ["!"], "token_logprobs": []}])
def test_a_server_that_ignores_echo_is_told_apart(logprobs: Any) -> None:
    with pytest.raises(CallFailed, match=r"ignores echo, as llama\.cpp does") as caught:
        score({"text": "!", "logprobs": logprobs}, "2+2=", " 4")
    assert caught.value.error_type == "bad_reply"


def test_tokens_that_can_not_be_placed_are_an_error() -> None:
    echoed = choice(["2+2=", " 4"], [-1.0, -0.5])
    echoed["logprobs"] |= {"tokens": ["?", "??", "?"], "text_offset": None}
    with pytest.raises(CallFailed, match="no text_offset says where"):
        score(echoed, "2+2=", " 4")


def test_several_pairs_are_one_request_and_come_back_in_order() -> None:
    contexts, continuations = ["2+2=", "2+2="], [" 4", " 5"]
    body = scoring_body("m", contexts, continuations)
    assert body == {
        "model": "m", "prompt": ["2+2= 4", "2+2= 5"], "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True,
    }  # fmt: skip
    assert scoring_body("m", ["a"], ["b"])["prompt"] == "ab"  # some servers take no lists
    echoed = [choice(["2+2=", " 5"], [None, -3.0], index=1), choice(["2+2=", " 4"], [None, -0.5], index=0)]
    found = read_scores({"choices": echoed}, contexts, continuations)
    assert found == [ContinuationScore(-0.5, 1), ContinuationScore(-3.0, 1)]
    without = [{key: value for key, value in one.items() if key != "index"} for one in reversed(echoed)]
    assert read_scores({"choices": without}, contexts, continuations) == found


def test_a_pair_that_is_missing_is_said() -> None:
    with pytest.raises(CallFailed, match="2 prompts were sent, and 1 scores came back"):
        read_scores({"choices": [choice(["ab"], [-1.0])]}, ["a", "a"], ["b", "c"])
    with pytest.raises(CallFailed, match="boom"):
        read_scores({"error": {"message": "boom"}}, ["a"], ["b"])
