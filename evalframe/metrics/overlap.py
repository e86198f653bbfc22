"""Metrics by the tokens that two texts share: f1, bleu_4, corpus_bleu_4, rouge_l.

Here stands the plain definition, row by row in Python; the columnar engine takes its place and is held to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl

from evalframe.metrics.record import Array, Metric
from evalframe.metrics.tokens import tokens
from evalframe.sandbox.policy import Policy

Tokens = Sequence[str]
ORDERS = (1, 2, 3, 4)


def f1_of(candidate: Tokens, reference: Tokens) -> float:
    """Give 2PR/(P+R) of the token multisets, P = overlap/c, R = overlap/r; both empty 1, one empty 0."""
    if not candidate and not reference:
        return 1.0
    overlap = sum((Counter(candidate) & Counter(reference)).values())
    return 2 * overlap / (len(candidate) + len(reference))  # 2PR/(P+R), rounded once


def rouge_l_of(candidate: Tokens, reference: Tokens) -> float:
    """Give the F measure, beta 1, of P = lcs/c and R = lcs/r; both empty 1, one empty 0."""
    if not candidate and not reference:
        return 1.0
    return 2 * longest_common(candidate, reference) / (len(candidate) + len(reference))


def longest_common(a: Tokens, b: Tokens) -> int:
    """Give the length of the longest common subsequence.

    Bit-parallel, one integer for a row of the dynamic program: Hyyrö (2004), "Bit-parallel LCS-length computation
    revisited".

    >>> longest_common("a x b y c".split(), "a b c d".split())
    3
    """
    places: dict[str, int] = {}
    for position, token in enumerate(b):
        places[token] = places.get(token, 0) | 1 << position
    full = (1 << len(b)) - 1
    row = full
    for token in a:
        matched = row & places.get(token, 0)
        row = ((row + matched) | (row - matched)) & full
    return len(b) - row.bit_count()


def bleu_parts(candidate: Tokens, reference: Tokens) -> list[float]:
    """Give the sufficient statistics: clipped n-gram matches of orders 1 to 4, candidate n-grams, c and r."""
    matches, totals = [], []
    for n in ORDERS:
        grams = Counter(_ngrams(candidate, n))
        matches.append(float(sum((grams & Counter(_ngrams(reference, n))).values())))
        totals.append(float(max(len(candidate) - n + 1, 0)))
    return [*matches, *totals, float(len(candidate)), float(len(reference))]


def bleu_value(parts: Array) -> Array:
    """Give BLEU of summed parts, shape (..., 10) to (...).

    The geometric mean over n of (matches_n + 1) / (total_n + 1), times 1 if c >= r else exp(1 - r/c); 0 where c is 0.
    """
    matches, totals, c, r = parts[..., 0:4], parts[..., 4:8], parts[..., 8], parts[..., 9]
    precision = np.exp(np.log((matches + 1) / (totals + 1)).mean(axis=-1))
    brevity = np.exp(np.minimum(0.0, 1 - r / np.maximum(c, 1e-300)))
    return np.where(c > 0, precision * brevity, 0.0)


def _ngrams(words: Tokens, n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(n)), strict=False)


def _best_of(pair: Callable[[Tokens, Tokens], float]) -> Callable[[pl.DataFrame, Policy], pl.DataFrame]:
    """Make the column function of a function of two token lists: the best over the targets, without any 0."""

    def compute(frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
        scores = [
            max((pair(candidate, tokens(target)) for target in targets), default=0.0)
            for candidate, targets in _pairs(frame)
        ]
        return pl.DataFrame({"score": scores}, schema={"score": pl.Float64})

    return compute


def _best_bleu(frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the best BLEU over the targets, and the parts of the first target that has it.

    A sample without a target counts as one whose reference has no tokens.
    """
    best = [_first_best(candidate, targets) for candidate, targets in _pairs(frame)]
    return pl.DataFrame(
        {"score": [score for score, _ in best], "parts": [parts for _, parts in best]},
        schema={"score": pl.Float64, "parts": pl.List(pl.Float64)},
    )


def _first_best(candidate: Tokens, targets: Sequence[str]) -> tuple[float, list[float]]:
    if not targets:
        return 0.0, bleu_parts(candidate, [])
    parts = [bleu_parts(candidate, tokens(target)) for target in targets]
    values = bleu_value(np.array(parts))
    first = int(np.argmax(values))
    return float(values[first]), parts[first]


def _pairs(frame: pl.DataFrame) -> Iterator[tuple[Tokens, list[str]]]:
    for prediction, targets in zip(frame["prediction"].to_list(), frame["targets"].to_list(), strict=True):
        yield tokens(prediction), targets


def _bleu_score(frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    return _best_bleu(frame, policy).select("score")


F1 = Metric(
    name="f1",
    compute=_best_of(f1_of),
    description="harmonic mean of token precision and recall, multisets, best over targets",
    source="SQuAD's F1 (Rajpurkar et al. 2016) without its normalisation: articles stay, both empty is 1",
)

BLEU_4 = Metric(
    name="bleu_4",
    compute=_bleu_score,
    description="BLEU of one sample, n = 1..4, add-one on every order, best over targets; flatters short misses",
    source="Papineni et al. (2002) with (clipped + 1)/(total + 1) on every order. An empty candidate is 0. Two words "
    "that both miss still get 0.64: add-one is generous where totals are small; sacrebleu gives 0 there",
)

CORPUS_BLEU_4 = Metric(
    name="corpus_bleu_4",
    compute=_best_bleu,
    aggregate=bleu_value,
    description="BLEU of all samples together: the parts are summed first; a sample's own score is bleu_4",
    source="Papineni et al. (2002), the parts of the first best-scoring target of each sample, add-one on every order",
)

ROUGE_L = Metric(
    name="rouge_l",
    compute=_best_of(rouge_l_of),
    description="F of the longest common subsequence of tokens, beta 1, best over targets",
    source="Lin (2004), section 3, sentence level; equals rouge-score's rougeL on ASCII text without underscores",
)
