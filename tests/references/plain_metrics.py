"""The built-in text metrics by their plain definitions: one row at a time, in Python, with strings and counters.

The oracle of the columnar engine. Both use the same arithmetic, so that equality is exact: whole numbers up to the one
division of ``f1`` and ``rouge_l``; products, two square roots and numpy's exponential in ``bleu_4``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal
from functools import partial

import numpy as np

Tokens = Sequence[str]
ORDERS = (1, 2, 3, 4)

_WORD = re.compile(r"\w+")
# wide enough that a difference of two numbers is never rounded over a tolerance; no trap: underflow is just small
_EXACT = Context(prec=2_000, Emax=999_999_999, Emin=-999_999_999, traps=[])


def tokens(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def f1_of(candidate: Tokens, reference: Tokens) -> float:
    if not candidate and not reference:
        return 1.0
    overlap = sum((Counter(candidate) & Counter(reference)).values())
    return 2 * overlap / (len(candidate) + len(reference))


def rouge_l_of(candidate: Tokens, reference: Tokens, common: Callable[[Tokens, Tokens], int] | None = None) -> float:
    if not candidate and not reference:
        return 1.0
    return 2 * (common or longest_common)(candidate, reference) / (len(candidate) + len(reference))


def longest_common(a: Tokens, b: Tokens) -> int:
    """Hyyrö (2004), one integer for a row of the dynamic program: for texts on which the table takes too long."""
    places: dict[str, int] = {}
    for position, token in enumerate(b):
        places[token] = places.get(token, 0) | 1 << position
    full = (1 << len(b)) - 1
    row = full
    for token in a:
        matched = row & places.get(token, 0)
        row = ((row + matched) | (row - matched)) & full
    return len(b) - row.bit_count()


def longest_common_by_table(a: Tokens, b: Tokens) -> int:
    """The textbook's dynamic program, row by row."""
    before = [0] * (len(b) + 1)
    for x in a:
        row = [0]
        for place, y in enumerate(b):
            row.append(before[place] + 1 if x == y else max(row[place], before[place + 1]))
        before = row
    return before[-1]


def bleu_parts(candidate: Tokens, reference: Tokens) -> list[float]:
    matches, totals = [], []
    for n in ORDERS:
        grams = Counter(_ngrams(candidate, n))
        matches.append(float(sum((grams & Counter(_ngrams(reference, n))).values())))
        totals.append(float(max(len(candidate) - n + 1, 0)))
    return [*matches, *totals, float(len(candidate)), float(len(reference))]


def bleu_of(parts: Sequence[float]) -> float:
    c, r = parts[8:]
    if not c:
        return 0.0
    product = math.prod((m + 1) / (t + 1) for m, t in zip(parts[:4], parts[4:8], strict=True))
    return math.sqrt(math.sqrt(product)) * (1.0 if c >= r else float(np.exp(1 - r / c)))


def _ngrams(words: Tokens, n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(n)), strict=False)


def f1(prediction: str, targets: Sequence[str]) -> float:
    return _best(f1_of, prediction, targets)


def rouge_l(prediction: str, targets: Sequence[str]) -> float:
    return _best(rouge_l_of, prediction, targets)


def rouge_l_by_table(prediction: str, targets: Sequence[str]) -> float:
    return _best(partial(rouge_l_of, common=longest_common_by_table), prediction, targets)


def _best(pair: Callable[[Tokens, Tokens], float], prediction: str, targets: Sequence[str]) -> float:
    candidate = tokens(prediction)
    return max((pair(candidate, tokens(target)) for target in targets), default=0.0)


def bleu_4(prediction: str, targets: Sequence[str]) -> float:
    return bleu_of(corpus_parts(prediction, targets)) if targets else 0.0


def corpus_parts(prediction: str, targets: Sequence[str]) -> list[float]:
    """The parts of the first target that scores best; without a target those of a reference without tokens."""
    candidate = tokens(prediction)
    parts = [bleu_parts(candidate, tokens(target)) for target in targets] or [bleu_parts(candidate, [])]
    return max(parts, key=bleu_of)  # the first of equals


def exact_match(prediction: str, targets: Sequence[str]) -> float:
    return float(any(prediction.strip() == target.strip() for target in targets))


def numbers_agree(prediction: str | None, targets: Sequence[str | None], *, abs_tol: float, rel_tol: float) -> float:
    """numeric_match of numbers that were read already: canonical decimal strings, None where a text holds none."""
    return float(any(
        _agree(Decimal(prediction), Decimal(target), Decimal(repr(abs_tol)), Decimal(repr(rel_tol)))
        for target in targets
        if prediction is not None and target is not None
    ))  # fmt: skip


def _agree(prediction: Decimal, target: Decimal, abs_tol: Decimal, rel_tol: Decimal) -> bool:
    gap = _EXACT.abs(_EXACT.subtract(prediction, target))
    return gap <= abs_tol or gap <= _EXACT.multiply(rel_tol, _EXACT.abs(target))
