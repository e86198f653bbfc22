"""How likely a continuation is after its context, from the prompt's own log-probabilities of legacy completions.

A server that is asked to ``echo`` gives the log-probability of each token of the prompt. Where the continuation
begins is found as lm-evaluation-harness finds it: blanks at the end of the context belong to the continuation, because
tokens have their blank in front, and a token that begins in the context is the context's, even if it reaches beyond.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from evalframe.adapters import CallFailed, ContinuationScore
from evalframe.adapters.openai import replies
from evalframe.adapters.openai.tokens import is_logprob

NO_ECHO = (
    "the server does not give the log-probabilities of a prompt's own tokens (it ignores echo, as llama.cpp does); "
    "vLLM and SGLang do"
)


def scoring_body(model: str, contexts: Sequence[str], continuations: Sequence[str]) -> dict[str, Any]:
    """Give the body of the request that scores some pairs.

    It asks for one new token, which is thrown away: not every server takes 0.
    """
    prompts = [context + continuation for context, continuation in zip(contexts, continuations, strict=True)]
    return {
        "model": model,
        "prompt": prompts[0] if len(prompts) == 1 else prompts,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 1,
        "echo": True,
    }


def read_scores(
    document: Mapping[str, Any], contexts: Sequence[str], continuations: Sequence[str]
) -> list[ContinuationScore]:
    """Read the scores of the pairs that were asked for, in their order.

    Raises:
        CallFailed: The server ignores ``echo``, left out a pair, or a continuation has no token of its own.
    """
    replies.refuse_errors(replies.mapping(document, "the document").get("error"))
    choices = [replies.mapping(c, "choices[]") for c in replies.filled(document.get("choices"), "choices")]
    indices = [choice.get("index", 0) for choice in choices]
    if len(choices) != len(contexts) or not all(isinstance(index, int) for index in indices):
        raise CallFailed("bad_reply", f"{len(contexts)} prompts were sent, and {len(choices)} scores came back")
    if len(set(indices)) == len(choices):
        choices.sort(key=lambda choice: choice.get("index", 0))
    return [
        score(choice, context, continuation)
        for choice, context, continuation in zip(choices, contexts, continuations, strict=True)
    ]


def score(choice: Mapping[str, Any], context: str, continuation: str) -> ContinuationScore:
    """Score one continuation by the tokens of an echoed prompt.

    Raises:
        CallFailed: As ``read_scores``.

    >>> logprobs = {"tokens": ["2", "+", "2", "=", " 4", "."], "token_logprobs": [None, -3, -2, -1, -0.5, -0.1]}
    >>> score({"text": "2+2= 4.", "logprobs": logprobs}, "2+2=", " 4")
    ContinuationScore(logprob=-0.5, n_tokens=1)
    """
    logprobs = choice.get("logprobs")
    listed = logprobs.get("token_logprobs") if isinstance(logprobs, Mapping) else None
    pieces = logprobs.get("tokens") if isinstance(logprobs, Mapping) else None
    if not isinstance(listed, list) or not isinstance(pieces, list) or len(pieces) != len(listed):
        raise CallFailed("bad_reply", NO_ECHO)
    prompt = context + continuation
    starts, shift = _starts(choice, prompt, pieces, logprobs)  # type: ignore[arg-type]
    begin, end = shift + len(context.rstrip()), shift + len(prompt)
    own = [value for start, value in zip(starts, listed, strict=False) if begin <= start < end]
    if not own:
        words = f"no token begins in the continuation {continuation[:40]!r}: it is one token with what comes before"
        raise CallFailed("bad_reply", f"{words}; end the prompt where a word ends")
    if not all(is_logprob(value) for value in own):
        if listed[0] is None and begin <= starts[0]:
            raise CallFailed("bad_reply", "the first token of a text has no log-probability; the context is empty")
        raise CallFailed("bad_reply", "a token of the continuation has no finite log-probability")
    return ContinuationScore(-abs(math.fsum(own)), len(own))


def _starts(
    choice: Mapping[str, Any], prompt: str, pieces: Sequence[Any], logprobs: Mapping[str, Any]
) -> tuple[Sequence[int], int]:
    """Find where each token begins, and where the prompt does (behind a token that opens the text, for one).

    The tokens' own lengths say it where the tokens together are the text; where they are written differently (bytes,
    marks of a blank) it is ``text_offset``, counted back from its end, since what opens the text may be counted too.
    """
    texts = [piece if isinstance(piece, str) else "" for piece in pieces]
    joined = "".join(texts)
    if (shift := joined.find(prompt)) >= 0:
        return [0, *accumulate(map(len, texts))][:-1], shift
    offsets = logprobs.get("text_offset")
    echoed = choice.get("text")
    if not isinstance(echoed, str) or not echoed.startswith(prompt):
        raise CallFailed("bad_reply", NO_ECHO)
    if not isinstance(offsets, list) or len(offsets) != len(pieces) or not all(isinstance(o, int) for o in offsets):
        raise CallFailed(
            "bad_reply", "the tokens are not the text of the prompt, and no text_offset says where they are"
        )
    if offsets[-1] >= len(prompt):  # the token that we did not need; a server may keep it to itself
        return offsets[:-1], offsets[-1] - len(prompt)
    return offsets, offsets[-1] + len(texts[-1]) - len(prompt)
