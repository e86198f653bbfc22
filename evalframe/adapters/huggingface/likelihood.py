"""How likely texts are after others, by one pass over both."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from typing import Any

import torch

from evalframe.adapters import CallFailed, ContinuationScore, Generation
from evalframe.adapters.huggingface.decoding import padded
from evalframe.adapters.huggingface.loading import Source


def encoded(source: Source, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Give the tokens of a context and of its continuation, where both are one text.

    As lm-evaluation-harness does it: blanks at the end of the context go to the continuation, the whole is encoded, and
    what goes beyond the tokens of the context alone is the continuation. Other than there, a token that reaches over
    the border counts to the continuation, which would else be left with none and be certain. Before a context without
    a token stands the one with which the model's texts begin.
    """
    trimmed = context.rstrip()
    continuation = context[len(trimmed) :] + continuation
    tokenizer = source.tokenizer
    before = tokenizer(trimmed, add_special_tokens=False)["input_ids"] if trimmed else []
    whole = tokenizer(trimmed + continuation, add_special_tokens=False)["input_ids"]
    border = next((at for at, (one, other) in enumerate(zip(before, whole, strict=False)) if one != other), len(before))
    start = source.start
    if not start and not border:
        start = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None][:1]
    return [*start, *whole[:border]], whole[border:]


def score(
    source: Source, pairs: Sequence[tuple[str, str]], *, batch_size: int, deadline: float | None
) -> list[ContinuationScore]:
    """Give the summed log-probability of each continuation after its context.

    Raises:
        CallFailed: A text is longer than the model's context, there is nothing to begin with, or time is up.
    """
    tokens = [encoded(source, context, continuation) for context, continuation in pairs]
    for context, continuation in tokens:
        if continuation and not context:
            raise CallFailed("bad_request", "the prompt is empty, and the tokenizer has no token to begin with")
        if source.context is not None and (n := len(context) + len(continuation)) > source.context:
            raise CallFailed("bad_request", f"prompt and choice have {n} tokens; the model takes {source.context}")
    found = [ContinuationScore(0.0, 0)] * len(pairs)
    # long ones first and together: little padding, and what does not fit into memory fails at once
    order = sorted((i for i, pair in enumerate(tokens) if pair[1]), key=lambda i: -len(tokens[i][0] + tokens[i][1]))
    for at in range(0, len(order), batch_size):
        if deadline is not None and time.monotonic() >= deadline:
            raise CallFailed("timeout", f"no time was left after {at} of {len(order)} choices")
        chunk = order[at : at + batch_size]
        for place, value in zip(chunk, _sums(source.model, [tokens[i] for i in chunk]), strict=True):
            context, continuation = tokens[place]
            told = Generation("", input_tokens=len(context) + len(continuation), output_tokens=0)
            found[place] = ContinuationScore(value, len(continuation), told)
    return found


def _sums(model: Any, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    longest = max(len(continuation) for _, continuation in pairs)
    inputs = padded([(context + continuation)[:-1] for context, continuation in pairs], model.device)
    takes = inspect.signature(model.forward).parameters
    if "position_ids" in takes:  # a model that counts places must not count the padding
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(dim=-1) - 1).clamp(min=0)
    if "logits_to_keep" in takes:  # the others would fill the memory
        inputs["logits_to_keep"] = longest
    with torch.inference_mode():
        logits = model(**inputs, use_cache=False).logits[:, -longest:]
    sums = []
    for row, (_, continuation) in zip(logits, pairs, strict=True):
        likely = torch.log_softmax(row[-len(continuation) :].float(), dim=-1)
        wanted = torch.tensor(continuation, device=row.device)[:, None]
        sums.append(min(0.0, likely.gather(1, wanted).sum().item()))
    return sums
