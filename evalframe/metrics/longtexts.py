"""What two long token sequences share, one pair at a time, in memory that grows with the texts and not their product.

The same integers as ``bitmasks`` gives, which is faster for many pairs and for short ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalframe.metrics.interning import intern

Ids = NDArray[np.unsignedinteger[Any]]


def clipped_matches(a: Ids, b: Ids, orders: int) -> list[int]:
    """Count the n-grams of 1 to ``orders`` tokens that both have, each as often as both have it.

    >>> clipped_matches(np.uint16([5, 6, 5]), np.uint16([6, 5, 5, 5]), 3)
    [3, 1, 0]
    """
    matches = []
    grams_a, grams_b = a.astype(np.uint64), b.astype(np.uint64)
    for n in range(1, orders + 1):
        if min(a.size, b.size) < n:
            matches.append(0)
            continue
        if n > 1:  # an n-gram is the number of its first n - 1 tokens and its last token
            grams_a = grams_a[:-1] << np.uint64(32) | a[n - 1 :]
            grams_b = grams_b[:-1] << np.uint64(32) | b[n - 1 :]
        numbers = intern(np.concatenate([grams_a, grams_b]))
        counts = [np.bincount(part, minlength=numbers.max() + 1) for part in np.split(numbers, [grams_a.size])]
        matches.append(int(np.minimum(*counts).sum()))
        grams_a, grams_b = np.split(numbers.astype(np.uint64), [grams_a.size])
    return matches


def longest_common(a: Ids, b: Ids) -> int:
    """Find the length of the longest common subsequence.

    Hyyrö's rows (see ``bitmasks``), each in one of Python's integers: these carry over thousands of words at the speed
    of C, so that a step in Python is a small part of the cost.

    >>> longest_common(np.uint16([5, 6, 7]), np.uint16([6, 5, 7]))
    2
    """
    places: dict[int, int] = {}
    for place, token in enumerate(b.tolist()):
        places[token] = places.get(token, 0) | 1 << place
    full = row = (1 << b.size) - 1
    for token in a.tolist():
        if hit := places.get(token):
            matched = row & hit
            row = (row + matched | row ^ matched) & full
    return b.size - row.bit_count()
