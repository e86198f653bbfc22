"""Writing replies token by token, several at once: each row draws, stops and ends by itself.

The library's own sampler has one stream of random numbers for a batch, and its penalties see the padding; here a row is
the same alone and in any batch, as far as the arithmetic of the device allows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from evalframe.adapters.huggingface.loading import Source
from evalframe.adapters.huggingface.settings import Choosing

_SLACK = 8  # tokens without text of their own that a stop may have among its own


@dataclass(slots=True, eq=False)
class Row:
    """One reply in the making.

    Attributes:
        prompt: Tokens.
        draws: Random numbers of this row alone.
        deadline: ``time.monotonic()`` at which it is given up.
        tokens: Written so far, the end token included.
        logprobs: Of each token, by the model as it is: before temperature, penalty and cuts.
        ended: ``stop``, ``length`` or ``timeout``; empty while it is written.
    """

    prompt: list[int]
    draws: random.Random
    deadline: float | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: str = ""


def write(source: Source, rows: Sequence[Row], choosing: Choosing) -> None:
    """Write the replies of some rows, together."""
    while waiting := [row for row in rows if not row.ended]:
        _Batch(source, waiting, choosing).run()  # again where one row filled the context and others go on


class _Batch:
    """What chooses and what ends, as the library's loop asks for them after each step."""

    def __init__(self, source: Source, rows: list[Row], choosing: Choosing) -> None:
        self.source, self.rows, self.choosing = source, rows, choosing
        self.window = max((len(text.encode()) for text in choosing.stop), default=0) + _SLACK

    def run(self) -> None:
        model = self.source.model
        inputs = padded([row.prompt + row.tokens for row in self.rows], model.device)
        with torch.inference_mode():
            model.generate(
                **inputs,
                max_new_tokens=max(self._room(row) for row in self.rows),
                do_sample=False,  # choose() leaves one token to be the greatest
                pad_token_id=0,
                logits_processor=[self.choose],
                stopping_criteria=[self.end],
            )

    def _room(self, row: Row) -> int:
        """How many tokens a row may still get."""
        context, most = self.source.context, self.choosing.max_new_tokens
        left = [] if context is None else [context - len(row.prompt) - len(row.tokens)]
        left += [] if most is None else [most - len(row.tokens)]
        return max(0, min(left))

    def choose(self, input_ids: Any, scores: Any) -> Any:
        """Choose the next token of each row and leave it alone with a score."""
        scores = scores.float()
        likely = torch.log_softmax(scores, dim=-1)
        chosen = self._drawn(self._penalised(scores))
        values = likely.gather(1, chosen[:, None])[:, 0].tolist()
        for row, token, value in zip(self.rows, chosen.tolist(), values, strict=True):
            if not row.ended:
                row.tokens.append(token)
                row.logprobs.append(value)
        only = torch.full_like(scores, -torch.inf)
        return only.scatter(1, chosen[:, None], 0.0)

    def end(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Say which rows have ended; all are broken off where one has filled the context, so that none goes beyond."""
        full = False
        for row in self.rows:
            if row.ended:
                continue
            row.ended = self._ended(row)
            full = full or self._room(row) == 0
        return torch.tensor([bool(row.ended) or full for row in self.rows], device=input_ids.device)

    def _ended(self, row: Row) -> str:
        if row.tokens[-1] in self.source.ends or self._stopped(row):
            return "stop"
        if self._room(row) == 0:
            return "length"
        return "timeout" if row.deadline is not None and time.monotonic() >= row.deadline else ""

    def _stopped(self, row: Row) -> bool:
        """Whether a stop is there; the last tokens are looked at first, for all of them are read slowly."""
        stop = self.choosing.stop
        if not stop or not any(text in decode(self.source, row.tokens[-self.window :]) for text in stop):
            return False
        return len(row.tokens) <= self.window or any(text in decode(self.source, row.tokens) for text in stop)

    def _penalised(self, scores: Any) -> Any:
        penalty = self.choosing.repetition_penalty
        if penalty is None:
            return scores
        scores = scores.clone()
        for place, row in enumerate(self.rows):
            seen = torch.tensor(sorted({*row.prompt, *row.tokens}), device=scores.device)
            before = scores[place, seen]
            scores[place, seen] = torch.where(before < 0, before * penalty, before / penalty)
        return scores

    def _drawn(self, scores: Any) -> Any:
        if not self.choosing.sample:
            return scores.argmax(dim=-1)
        best = scores.max(dim=-1, keepdim=True).values
        kept = cut((scores - best) / self.choosing.temperature, self.choosing)
        if kept.device.type == "mps":  # it has no doubles
            kept = kept.cpu()
        reached = torch.softmax(kept.double(), dim=-1).cumsum(dim=-1)
        draws = torch.tensor([[row.draws.random()] for row in self.rows], dtype=torch.double, device=reached.device)
        places = torch.searchsorted(reached, draws * reached[:, -1:], right=True)[:, 0]
        return places.clamp(max=reached.shape[-1] - 1).to(scores.device)


def cut(scores: Any, choosing: Choosing) -> Any:
    """Take away the tokens that ``top_k``, ``top_p`` and ``min_p`` leave out, in this order."""
    if choosing.top_k is not None:
        least = scores.topk(min(choosing.top_k, scores.shape[-1]), dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if choosing.top_p is not None:
        ordered, places = torch.softmax(scores, dim=-1).sort(dim=-1, descending=True)
        beyond = ordered.cumsum(dim=-1) - ordered >= choosing.top_p  # what comes before has reached it
        scores = scores.masked_fill(torch.zeros_like(beyond).scatter(1, places, beyond), -torch.inf)
    if choosing.min_p is not None:
        likely = torch.softmax(scores, dim=-1)
        least = choosing.min_p * likely.max(dim=-1, keepdim=True).values
        scores = scores.masked_fill(likely < least, -torch.inf)
    return scores


def padded(rows: Sequence[Sequence[int]], device: Any) -> dict[str, Any]:
    """Give rows of tokens as tensors, filled up at their left, which the mask hides."""
    width = max(len(row) for row in rows)
    ids = [[0] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return {
        "input_ids": torch.tensor(ids, device=device),
        "attention_mask": torch.tensor(mask, device=device),
    }


def decode(source: Source, tokens: Sequence[int]) -> str:
    """Give the text of tokens as it was written, without special ones."""
    text: str = source.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text
