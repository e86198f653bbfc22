"""What two long token sequences share, one pair at a time, in memory that grows with the texts and not their product.

The same integers as ``bitmasks`` gives, which is faster for many pairs and for short ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.unsignedinteger[Any]]


def clipped_matches(a: Ids, b: Ids, orders: int) -> list[int]:
    """Count the n-grams of 1 to ``orders`` tokens that both have, each as often as both have it.

    >>> clipped_matches(np.uint16([5, 6, 5]), np.uint16([6, 5, 5, 5]), 3)
    [3, 1, 0]
    """
    matches = []
    grams_a = grams_b = np.zeros(0, dtype=np.int64)
    for n in range(1, orders + 1):
        if min(a.size, b.size) < n:
            matches.append(0)
            continue
        if n == 1:
            both = np.concatenate([a, b]).astype(np.int64)
        else:  # an n-gram is the number of its first n - 1 tokens and its last token
            last = np.concatenate([a[n - 1 :], b[n - 1 :]]).astype(np.int64)
            both = np.concatenate([grams_a[:-1], grams_b[:-1]]) << 32 | last
        distinct, numbers = np.unique(both, return_inverse=True)
        grams_a, grams_b = np.split(numbers, [a.size - n + 1])
        counts = [np.bincount(grams, minlength=distinct.size) for grams in (grams_a, grams_b)]
        matches.append(int(np.minimum(*counts).sum()))
    return matches


def longest_common(a: Ids, b: Ids) -> int:
    """Find the length of the longest common subsequence.

    >>> longest_common(np.uint16([5, 6, 7]), np.uint16([6, 5, 7]))
    2
    """
    from rapidfuzz.distance import LCSseq

    # rapidfuzz compares by hash; that of a small integer is the integer
    return int(LCSseq.similarity(a.tolist(), b.tolist()))
