"""Small numbers for tokens: two tokens have the same id if and only if they are the same bytes.

Exact by construction, no hash is ever trusted. A piece of up to 8 bytes is one unsigned integer, and ``intern`` numbers
equal integers alike, with a hash table worked by whole arrays. A token of up to 13 bytes is the number of its first
piece and its last bytes in one integer. A longer one is cut into pieces; pieces are numbered, then pairs of these
numbers, then pairs of those, until one number is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Keys = NDArray[np.uint64]

PIECE = 8  # bytes of text in one key
ROOM = b"\0" * PIECE  # what has to follow a text, so that a piece can be read at its last byte

# ids that no token has, to fill up rows with: nothing is equal to them, and they are not equal to each other
FILL_A, FILL_B = 0, 1
_RESERVED = 2

_SLOTS = 1 << 16  # ids below it fit 16 bits: narrow arrays are what makes the comparison of tokens cheap
_ROUNDS = 3
_FEW = 2_048
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiplicative hashing, Knuth volume 3, 6.4
_NO_KEY = np.uint64(0xFFFF_FFFF_FFFF_FFFF)  # 0xFF is no byte of UTF-8, and no number of a piece is that large
# the lowest bytes of the keys of long tokens
_IS_MIDDLING, _IS_LONG = np.uint64(0xFF), np.uint64(0xFE)
_TAIL = 5  # bytes that fit a key beside the number of the first piece, of 16 bits, and the mark
_KEPT_BITS = np.array([(1 << 8 * n) - 1 for n in range(PIECE + 1)], dtype=np.uint64)


def token_ids(text: bytearray, starts: Places, lengths: Places) -> NDArray[np.uint32]:
    """Number the tokens of a text, from 2 on (``FILL_A`` and ``FILL_B`` are left free).

    Args:
        text: UTF-8, with ``ROOM`` behind it.
        starts: The first byte of each token.
        lengths: Its bytes, at least 1.

    Returns:
        The ids; mostly below 65,536, larger where there are too many different tokens for that.
    """
    keys = _pieces(text, starts, lengths)
    long = np.flatnonzero(lengths > PIECE)
    if long.size:
        keys[long] = _long_keys(text, starts[long], lengths[long], intern(keys[long]))
    return intern(keys)


def intern(keys: Keys) -> NDArray[np.uint32]:
    """Number integers: the same number for equal ones, another for different ones.

    A hash table with open addressing, all keys at once: each round, the keys that are not at home look at their next
    slot; a free one is taken by one of them, and all that equal the owner of their slot are at home. Equal keys see the
    same slots in the same order, so they end together. The few that are left after some rounds (many, where keys are
    too many for the table or made to meet each other) are sorted, and get the free slots.

    Args:
        keys: None is 2^64 - 1.

    >>> ids = intern(np.array([7, 9, 7], dtype=np.uint64))
    >>> bool(ids[0] == ids[2] != ids[1])
    True
    """
    if keys.size < _FEW:  # a table is not worth its while
        return np.unique(keys, return_inverse=True)[1].astype(np.uint32) + np.uint32(_RESERVED)
    known = np.append(keys, _NO_KEY)
    owner = np.full(_SLOTS, -1, dtype=np.int32)
    hashed = keys * _MIX
    slots = (hashed >> np.uint64(48)).view(np.int64)
    owner[slots] = np.arange(keys.size, dtype=np.int32)  # the first round: all slots are free
    owner[:_RESERVED] = keys.size
    away = np.flatnonzero(known.take(owner.take(slots)) != keys)
    steps = (hashed.take(away) >> np.uint64(24)).view(np.int64) | 1  # odd: a walk over all slots
    for _ in range(_ROUNDS):
        here = (slots.take(away) + steps) & (_SLOTS - 1)
        slots[away] = here
        free = owner.take(here) < 0
        owner[here[free]] = away[free]
        homeless = known.take(owner.take(here)) != keys.take(away)
        away, steps = away[homeless], steps[homeless]
    if away.size:
        distinct, numbers = np.unique(keys.take(away), return_inverse=True)
        places = np.append(np.flatnonzero(owner < 0), _SLOTS + np.arange(distinct.size))
        slots[away] = places.take(numbers)
    return slots.astype(np.uint32)


def _pieces(text: bytearray, starts: Places, lengths: Places) -> Keys:
    """Read the first 8 bytes of each token as one integer, zero where the token is shorter (NUL is in no token)."""
    windows = np.ndarray((len(text) - PIECE + 1,), dtype="<u8", buffer=text, strides=(1,))
    return windows[starts] & _KEPT_BITS.take(lengths, mode="clip")


def _long_keys(text: bytearray, starts: Places, lengths: Places, heads: NDArray[np.uint32]) -> Keys:
    """Give tokens of over 8 bytes keys that no shorter token has: their lowest byte is none of UTF-8.

    Args:
        text, starts, lengths: As above.
        heads: The numbers of the first pieces.
    """
    keys = _pieces(text, starts + PIECE, np.minimum(lengths - PIECE, _TAIL)) << np.uint64(24)
    keys |= heads.astype(np.uint64) << np.uint64(8) | _IS_MIDDLING
    longer = np.flatnonzero((lengths > PIECE + _TAIL) | (heads >= _SLOTS))
    if longer.size:
        keys[longer] = _folded(text, starts[longer], lengths[longer])
    return keys


def _folded(text: bytearray, starts: Places, lengths: Places) -> Keys:
    """Give a key to each token by joining neighbours, level by level, the last of an odd number alone.

    Tokens of which one number is left at different levels differ, so the level is in the key.
    """
    counts = -(-lengths // PIECE)
    piece = _within(counts)
    ids = intern(_pieces(text, np.repeat(starts, counts) + PIECE * piece, np.repeat(lengths, counts) - PIECE * piece))
    keys = np.empty(starts.size, dtype=np.uint64)
    left = np.arange(starts.size)
    level = 0
    while left.size:
        level += 1
        firsts = np.cumsum(counts) - counts
        halves = (counts + 1) // 2
        nth = 2 * _within(halves)
        place = np.repeat(firsts, halves) + nth
        alone = nth + 1 == np.repeat(counts, halves)
        second = np.where(alone, FILL_A, ids.take(place + 1, mode="clip"))
        ids = intern(ids[place].astype(np.uint64) << np.uint64(32) | second.astype(np.uint64))
        done = halves == 1
        whole = ids[np.repeat(done, halves)].astype(np.uint64)
        keys[left[done]] = whole << np.uint64(16) | np.uint64(level << 8) | _IS_LONG
        ids = ids[np.repeat(~done, halves)]
        left, counts = left[~done], halves[~done]
    return keys


def _within(counts: Places) -> Places:
    """Count up within groups: counts 2, 3 give 0 1 0 1 2."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) - np.repeat(ends - counts, counts)
