"""Metrics by the tokens that two texts share: f1, bleu_4, corpus_bleu_4, rouge_l.

One pass for all of them: texts become token ids (``tokens``), rows become pairs of a prediction and a target
(``pairing``), pairs are compared (``bitmasks``), and here the counts become scores, the best over the targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.metrics.bitmasks import compare
from evalframe.metrics.pairing import Targets, pair_batches, row_chunks
from evalframe.metrics.record import Array, Metric, OneOf

ORDERS = 4

Numbers = NDArray[Any]


def f_measure(shared: Numbers, c: Numbers, r: Numbers) -> Array:
    """Give 2PR/(P+R) of P = shared/c and R = shared/r, rounded once; both empty 1, one empty 0.

    >>> f_measure(np.array([2, 0, 0]), np.array([3, 0, 1]), np.array([2, 0, 0])).tolist()
    [0.8, 1.0, 0.0]
    """
    both = c + r
    return np.where(both > 0, 2 * shared / np.maximum(both, 1), 1.0)


def bleu_value(parts: Array) -> Array:
    """Give BLEU of summed parts, shape (..., 10) to (...).

    The parts are the clipped n-gram matches of orders 1 to 4, the candidate's n-grams of these orders, c and r. The
    geometric mean over n of (matches_n + 1) / (total_n + 1), times 1 if c >= r else exp(1 - r/c); 0 where c is 0.
    """
    figures = np.moveaxis(parts, -1, 0)
    return _bleu(figures[:ORDERS], figures[ORDERS : 2 * ORDERS], *figures[2 * ORDERS :])


def _bleu(matches: Numbers, totals: Numbers, c: Numbers, r: Numbers) -> Array:
    # products and square roots are rounded alike on every machine, logarithms are not
    precisions = (matches + 1) / (totals + 1)
    mean = np.sqrt(np.sqrt(precisions[0] * precisions[1] * precisions[2] * precisions[3]))
    brevity = np.exp(np.minimum(0.0, 1 - r / np.maximum(c, 1e-300)))
    return np.where(c > 0, mean * brevity, 0.0)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the scores are made of, a pair each: tokens of prediction and target, and what these share."""

    c: Numbers
    r: Numbers
    matches: Numbers
    common: Numbers

    @property
    def totals(self) -> Numbers:
        """Count the prediction's n-grams of each order."""
        return np.maximum(self.c - np.arange(ORDERS)[:, None], 0)

    @property
    def bleu(self) -> Array:
        return _bleu(self.matches, self.totals, self.c, self.r)


def shared_scores(frame: pl.DataFrame, kinds: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Give the scores of several of these metrics, texts read once.

    Args:
        frame: ``prediction`` and ``targets``.
        kinds: ``f1``, ``bleu_4``, ``corpus_bleu_4`` (which has ``parts``), ``rouge_l``.

    Nulls: a row without a target scores 0; its parts are those of a target without tokens.
    """
    chunks = [_chunk_scores(targets, kinds) for targets in row_chunks(frame)]
    nothing = {kind: pl.DataFrame(schema=_schema(kind)) for kind in kinds}
    return {kind: pl.concat([nothing[kind], *(chunk[kind] for chunk in chunks)]) for kind in kinds}


def _schema(kind: str) -> dict[str, Any]:
    return {"score": pl.Float64} | ({"parts": pl.List(pl.Float64)} if kind == "corpus_bleu_4" else {})


def _chunk_scores(targets: Targets, kinds: Sequence[str]) -> Mapping[str, pl.DataFrame]:
    counts = _counts(targets, kinds)
    scores = {}
    for kind in kinds:
        values = _values(counts, kind)
        best = np.maximum.reduceat(values, targets.firsts)
        columns = {"score": np.where(targets.has_none, 0.0, best)}
        if kind == "corpus_bleu_4":
            columns["parts"] = _parts(counts, _first_best(values, best, targets))
        scores[kind] = pl.DataFrame(columns, schema=_schema(kind))
    return scores


def _counts(targets: Targets, kinds: Sequence[str]) -> Counts:
    orders = ORDERS if {"bleu_4", "corpus_bleu_4"} & set(kinds) else int("f1" in kinds)
    batches = []
    for pairs in pair_batches(targets):
        shared = compare(pairs, orders=orders, subsequence="rouge_l" in kinds)
        batches.append((pairs.count_a, pairs.count_b, shared.matches, shared.common))
    return Counts(*(np.concatenate(figures, axis=-1) for figures in zip(*batches, strict=True)))


def _values(counts: Counts, kind: str) -> Array:
    if kind == "f1":
        return f_measure(counts.matches[0], counts.c, counts.r)
    if kind == "rouge_l":
        return f_measure(counts.common, counts.c, counts.r)
    return counts.bleu


def _first_best(values: Array, best: Array, targets: Targets) -> Numbers:
    """Find each row's first pair that has the best value."""
    good = np.flatnonzero(values == best[targets.rows])
    return good[np.searchsorted(targets.rows[good], np.arange(best.size))]


def _parts(counts: Counts, pairs: Numbers) -> Array:
    figures = [*counts.matches, *counts.totals, counts.c, counts.r]
    return np.stack([figure[pairs] for figure in figures], axis=1).astype(np.float64)


F1 = Metric(
    name="f1",
    compute=OneOf(shared_scores, "f1"),
    description="harmonic mean of token precision and recall, multisets, best over targets",
    source="SQuAD's F1 (Rajpurkar et al. 2016) without its normalisation: articles stay, both empty is 1",
)

BLEU_4 = Metric(
    name="bleu_4",
    compute=OneOf(shared_scores, "bleu_4"),
    description="BLEU of one sample, n = 1..4, add-one on every order, best over targets; flatters short misses",
    source="Papineni et al. (2002) with (clipped + 1)/(total + 1) on every order. An empty candidate is 0. Two words "
    "that both miss still get 0.64: add-one is generous where totals are small; sacrebleu gives 0 there",
)

CORPUS_BLEU_4 = Metric(
    name="corpus_bleu_4",
    compute=OneOf(shared_scores, "corpus_bleu_4"),
    aggregate=bleu_value,
    description="BLEU of all samples together: the parts are summed first; a sample's own score is bleu_4",
    source="Papineni et al. (2002), the parts of the first best-scoring target of each sample, add-one on every order",
)

ROUGE_L = Metric(
    name="rouge_l",
    compute=OneOf(shared_scores, "rouge_l"),
    description="F of the longest common subsequence of tokens, beta 1, best over targets",
    source="Lin (2004), section 3, sentence level; equals rouge-score's rougeL on ASCII text without underscores",
)
