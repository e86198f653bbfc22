"""What two token sequences share, for many pairs at once: clipped n-gram matches and the longest common subsequence.

The shorter text of a pair is the mask, of one bit a token; the longer is walked, one step a token, for all pairs of a
block together. ``hits[i]`` holds the bits of the mask's tokens that equal the i-th token of the walk. All else is a few
operations on whole arrays a step; both figures are symmetric, so it does not matter which side is which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalframe.metrics.interning import FILL_A, FILL_B, Places
from evalframe.metrics.longtexts import clipped_matches, longest_common
from evalframe.metrics.pairing import Pairs

Bits = NDArray[np.unsignedinteger[Any]]

WORDS = (np.uint8, np.uint16, np.uint32, np.uint64)  # a mask is one of these, or several of the last
WORD_BITS = 64
BLOCK_CELLS = 1 << 18  # pairs times steps: what keeps the arrays of a step in the cache
BLOCK_BYTES = 1 << 22  # of hits


@dataclass(frozen=True, slots=True)
class Shared:
    """What the pairs share.

    Attributes:
        matches: Of each order n from 1 on, the clipped n-gram matches of each pair: the sum over the n-grams of the
            smaller of their two counts. Shape (orders, pairs).
        common: The length of the longest common subsequence of each pair; zeros where it was not asked for.
    """

    matches: Places
    common: Places


@dataclass(frozen=True, slots=True)
class Block:
    """Pairs whose masks are of one width and whose walks are about as long.

    Attributes:
        pairs: Which pairs.
        words: How many words a mask has; ``word``: of which type.
        steps: The longest walk.
    """

    pairs: Places
    word: type[np.unsignedinteger[Any]]
    words: int
    steps: int

    @property
    def is_cheaper_alone(self) -> bool:
        """Whether these few long pairs are better compared one by one; both ways give the same integers.

        By measured microseconds: a step of a block is some calls and a share a pair; one pair alone is some calls, and
        sorts its tokens.
        """
        n = self.pairs.size
        together = self.steps * self.words * (10 + 0.03 * n)
        alone = n * (100 + 0.3 * (self.steps + WORD_BITS * self.words))
        return together > alone


def compare(pairs: Pairs, *, orders: int, subsequence: bool) -> Shared:
    """Count what each pair shares.

    Args:
        pairs: The sequences.
        orders: Count n-grams of 1 to so many tokens.
        subsequence: Whether to find the longest common subsequence.
    """
    swap = pairs.count_b > pairs.count_a
    walk_firsts, walk_counts = np.where(swap, pairs.first_b, pairs.first_a), np.maximum(pairs.count_a, pairs.count_b)
    mask_firsts, mask_counts = np.where(swap, pairs.first_a, pairs.first_b), np.minimum(pairs.count_a, pairs.count_b)
    # room behind the last text, so that a window of any length can be read
    ids = np.append(pairs.ids, np.zeros(walk_counts.max(initial=0) + WORD_BITS, dtype=pairs.ids.dtype))
    shared = Shared(np.zeros((orders, swap.size), dtype=np.int64), np.zeros(swap.size, dtype=np.int64))
    for block in _blocks(walk_counts, mask_counts):
        chosen = block.pairs
        if block.is_cheaper_alone:
            for pair in chosen:
                walk = pairs.ids[walk_firsts[pair] :][: walk_counts[pair]]
                mask = pairs.ids[mask_firsts[pair] :][: mask_counts[pair]]
                shared.matches[:, pair] = clipped_matches(walk, mask, orders)
                if subsequence:
                    shared.common[pair] = longest_common(walk, mask)
            continue
        walks = _matrix(ids, walk_firsts[chosen], walk_counts[chosen], block.steps, FILL_A)
        masks = _matrix(ids, mask_firsts[chosen], mask_counts[chosen], block.words * np.iinfo(block.word).bits, FILL_B)
        hits = _hits(walks, masks, block)
        if orders:
            shared.matches[:, chosen] = _clipped_matches(hits, orders)
        if subsequence:
            shared.common[chosen] = _longest_common(hits)
    return shared


def _blocks(walks: Places, masks: Places) -> Iterator[Block]:
    """Group the pairs that have tokens on both sides by the width of their masks, those of like walks together."""
    bits = [np.iinfo(word).bits for word in WORDS]
    width = np.searchsorted(bits, masks)
    width = np.where(masks > WORD_BITS, len(WORDS) - 2 - (-masks // WORD_BITS), width)
    some = np.flatnonzero(masks)
    order = some[_sorted_by(width[some], walks[some])]
    edges = np.flatnonzero(np.diff(width[order], prepend=-1, append=-1))
    for start, stop in pairwise(edges.tolist()):
        word = WORDS[min(width[order[start]], len(WORDS) - 1)]
        words = max(int(width[order[start]]) - len(WORDS) + 2, 1)
        while start < stop:
            steps = int(walks[order[stop - 1]])  # the last is the longest
            most = min(BLOCK_CELLS // steps, BLOCK_BYTES // (steps * words * np.dtype(word).itemsize))
            cut = max(start, stop - max(most, 1))
            yield Block(order[cut:stop], word, words, steps)
            stop = cut


def _sorted_by(first: Places, second: Places) -> Places:
    """Order by one number, then by another; numpy sorts numbers of 16 bits by their digits, in a fifth of the time."""
    steps = int(second.max(initial=0)) + 1
    if (int(first.max(initial=0)) + 1) * steps > np.iinfo(np.uint16).max:
        return np.lexsort((second, first))
    return np.argsort((first * steps + second).astype(np.uint16), kind="stable")


def _matrix(ids: NDArray[Any], firsts: Places, counts: Places, width: int, fill: int) -> NDArray[Any]:
    """Lay sequences side by side, shape (width, sequences), filled up with an id that no token has."""
    windows = np.lib.stride_tricks.sliding_window_view(ids, width)[firsts]
    matrix = np.ascontiguousarray(windows.T)
    matrix[np.arange(width)[:, None] >= counts] = fill
    return matrix


def _hits(walks: NDArray[Any], masks: NDArray[Any], block: Block) -> Bits:
    """Give the bits of each mask that equal each step of its walk, shape (steps, words, pairs)."""
    planes = np.zeros((len(masks) // 8, *walks.shape), dtype=np.uint8)  # byte by byte
    equal = np.empty(walks.shape, dtype=np.bool_)
    for place in reversed(range(len(masks))):
        plane = planes[place // 8]
        np.add(plane, plane, out=plane)  # the bits of higher places move up; cheaper than a shift
        np.equal(walks, masks[place], out=equal)
        np.bitwise_or(plane, equal.view(np.uint8), out=plane)
    in_words = np.ascontiguousarray(planes.transpose(1, 2, 0)).view(block.word)
    return np.ascontiguousarray(in_words.transpose(0, 2, 1))


def _clipped_matches(hits: Bits, orders: int) -> Places:
    """Count clipped n-gram matches, shape (orders, pairs).

    Backwards over the walk, ``grams[n]`` holds the places of the mask where the n+1 tokens from this step on stand. Of
    these the lowest that is still free is used up: an n-gram is counted as often as both sides have it.
    """
    grams: Bits = np.zeros((orders, *hits.shape[1:]), dtype=hits.dtype)
    used: Bits = np.zeros_like(grams)
    for hit in hits[::-1]:
        grams[1:] = _shifted_down(grams[:-1])
        grams[0] = hit
        grams[1:] &= hit
        used |= _lowest_bit(grams & ~used)
    counts: Places = np.bitwise_count(used).sum(axis=1, dtype=np.int64)
    return counts


def _shifted_down(bits: Bits) -> Bits:
    """Move each bit one place down, over the edges of words."""
    one = bits.dtype.type(1)
    moved = bits >> one
    moved[:, :-1] |= bits[:, 1:] << bits.dtype.type(bits.dtype.itemsize * 8 - 1)
    return moved


def _lowest_bit(bits: Bits) -> Bits:
    """Keep the lowest bit of each mask."""
    lowest = bits & -bits
    if bits.shape[1] > 1:
        found = bits[:, 0] != 0
        for word in range(1, bits.shape[1]):
            lowest[:, word] &= found - bits.dtype.type(1)  # nothing where it was found in a lower word, else all
            found |= bits[:, word] != 0
    return lowest


def _longest_common(hits: Bits) -> Places:
    """Find the length of the longest common subsequence.

    Bit-parallel, a row of the dynamic program in the words of a mask: Hyyrö (2004), "Bit-parallel LCS-length
    computation revisited". A row's zeros are the places where it grows by one.
    """
    row = np.full(hits.shape[1:], np.iinfo(hits.dtype).max, dtype=hits.dtype)
    for hit in hits:
        matched = row & hit
        kept = row - matched
        row = _sum(row, matched) | kept
    lengths: Places = np.bitwise_count(~row).sum(axis=0, dtype=np.int64)
    return lengths


def _sum(a: Bits, b: Bits) -> Bits:
    """Add numbers of several words, the lowest word first."""
    total = a + b
    if len(total) > 1:
        carried = total < a
        for word in range(1, len(total)):
            total[word] += carried[word - 1]
            carried[word] |= (total[word] == 0) & carried[word - 1]
    return total
