r"""The one tokenizer of f1, bleu_4, rouge_l: the runs of ``\w`` of the lower-cased text, as Python's ``re`` has them.

A contract, not a knob: other tokenizers come as other metrics. Line breaks and punctuation separate; marks that are no
word characters to Python (Devanagari vowel signs) do too, on both sides alike; a script without blanks is one token a
run. No token becomes a string: whole chunks of text are scanned as bytes, and tokens become numbers (``interning``).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.metrics.interning import ROOM, Places, token_ids

# each byte's lower case, 0 where it is no word character; characters beyond ASCII are looked at as a whole
_WORD_BYTES = bytes(
    code if code >= 0x80 else ord(chr(code).lower()) if re.match(r"\w", chr(code)) else 0 for code in range(256)
)
# what the table of lower cases says of characters that are no word characters, and of odd ones
_BLANK, _ODD = 0, 0xFFFF_FFFF
# UTF-8: bytes of a character, the bits of its first byte that mark it, and those that belong to the character
_FORMS = ((2, 0b1100_0000, 0b0001_1111), (3, 0b1110_0000, 0b0000_1111), (4, 0b1111_0000, 0b0000_0111))


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of several texts, one after the other.

    Attributes:
        ids: A number a token; equal within these texts if and only if the tokens are equal. 16 bits, where they fit.
        firsts: Of each text, the place of its first token in ``ids``.
        counts: Of each text, how many tokens it has.
    """

    ids: NDArray[np.uint16] | NDArray[np.uint32]
    firsts: Places
    counts: Places


def tokenise(texts: pl.Series) -> Tokens:
    """Give the tokens of each text.

    Args:
        texts: String, no nulls; of bounded size, about 20 bytes of memory a byte of text are used.

    Nulls: the empty text, and one without word characters, has no tokens.

    >>> tokenise(pl.Series(["Don't!", "don't", ""])).counts.tolist()
    [2, 2, 0]
    """
    scanned = scan(texts)
    ids = token_ids(scanned.text, scanned.starts, scanned.lengths)
    narrow = not ids.size or ids.max() <= np.iinfo(np.uint16).max
    return Tokens(ids.astype(np.uint16) if narrow else ids, scanned.firsts, scanned.counts)


@dataclass(frozen=True, slots=True)
class Scanned:
    """Where the tokens of several texts are.

    Attributes:
        text: The texts in one, lower-cased, NUL for what is no word character, with ``ROOM`` behind.
        starts, lengths: Of each token, its first byte in ``text`` and its bytes.
        firsts, counts: Of each text, the place of its first token and how many it has.
    """

    text: bytearray
    starts: Places
    lengths: Places
    firsts: Places
    counts: Places


def scan(texts: pl.Series) -> Scanned:
    """Find the tokens of each text as runs of word bytes."""
    text, offsets, odd = _lowered(texts)
    home = np.arange(len(texts))
    if odd.size:  # these texts stand once more behind the others, lowered by Python one by one
        again = np.unique(np.searchsorted(offsets, odd) - 1)
        home[again] = len(texts) + np.arange(again.size)
        more, more_offsets, _ = _lowered(pl.Series([text.lower() for text in texts.gather(again)], dtype=pl.String))
        offsets = np.concatenate([offsets, more_offsets + len(text)])
        text += more
    offsets = np.append(offsets, len(text))
    text += b"\0" + ROOM
    is_word = np.frombuffer(text, dtype=np.uint8) != 0
    edges = np.flatnonzero(is_word[1:] != is_word[:-1]) + 1
    starts, stops = edges[0::2], edges[1::2]
    bounds = _count_before(is_word[1:] & ~is_word[:-1], offsets)
    return Scanned(text, starts, stops - starts, bounds[home], np.diff(bounds)[home])


def _count_before(marks: NDArray[np.bool_], places: Places) -> Places:
    """Count the marks before each place: a sum over words of 64 marks, and the bits below it in its own word.

    A search among the places of the marks takes three times as long.
    """
    in_bytes = np.packbits(marks, bitorder="little")
    words = np.append(in_bytes, np.zeros(8 + -in_bytes.size % 8, dtype=np.uint8)).view("<u8")
    before = np.cumsum(np.append(0, np.bitwise_count(words)), dtype=np.int64)
    word, bit = places >> 6, (places & 63).astype(np.uint64)
    own = words.take(word) & ((np.uint64(1) << bit) - np.uint64(1))
    counts: Places = before.take(word) + np.bitwise_count(own)
    return counts


def _lowered(texts: pl.Series) -> tuple[bytearray, Places, Places]:
    """Join the texts, one byte before each, and lower-case them; NUL is put for what is no word character.

    Returns:
        The text; the place of the byte before each; those of the odd letters, which are as they were.
    """
    ends = np.cumsum(texts.str.len_bytes().to_numpy(), dtype=np.int64)
    offsets = np.arange(len(texts))
    offsets[1:] += ends[:-1]
    joined: bytes = texts.str.join("\n").cast(pl.Binary).item()
    text = bytearray((b"\n%b" % joined).translate(_WORD_BYTES))
    odd = np.zeros(0, dtype=np.int64) if joined.isascii() else _lower_in_place(np.frombuffer(text, dtype=np.uint8))
    return text, offsets, odd


def _lower_in_place(scanned: NDArray[np.uint8]) -> Places:
    """Lower-case the letters beyond ASCII where they stand, and put NUL over what is no word character.

    Returns:
        Where the odd letters stand, whose lower case is longer or shorter, or depends on their neighbours.
    """
    firsts = np.flatnonzero(scanned >= 0b1100_0000)
    marks = scanned[firsts]
    odd = []
    for width, mark, own_bits in _FORMS:
        places = firsts[(marks & ~np.uint8(own_bits)) == mark]
        codes = scanned[places].astype(np.uint32) & own_bits
        for nth in range(1, width):
            codes = codes << np.uint32(6) | scanned[places + nth] & np.uint8(0b0011_1111)
        lowered = _lower_cases().take(codes)
        odd.append(places[lowered == _ODD])
        blank = places[lowered == _BLANK]
        for nth in range(width):
            scanned[blank + nth] = 0
        changed = (lowered != codes) & (lowered != _BLANK) & (lowered != _ODD)
        places, codes = places[changed], lowered[changed]
        for nth in range(width - 1, 0, -1):
            scanned[places + nth] = codes & np.uint32(0b0011_1111) | np.uint32(0b1000_0000)
            codes = codes >> np.uint32(6)
        scanned[places] = codes | np.uint32(mark)
    return np.concatenate(odd)


@cache
def _lower_cases() -> NDArray[np.uint32]:
    """Give the lower case of each code point, by Python's own ``str.lower`` and ``re``; see ``_BLANK`` and ``_ODD``.

    By Python's, because polars knows a newer Unicode: 55 code points have another lower case there, and 13,000 are word
    characters to one of the two only.
    """
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    # the lower case of one is two characters, of the other it depends on the neighbours
    lower = every.replace("İ", ".").replace("Σ", ".").lower().encode("utf-32-le", "surrogatepass")
    codes, cases = np.arange(len(every)), np.frombuffer(lower, dtype="<u4").copy()
    cases[_utf8_width(cases) != _utf8_width(codes)] = _ODD
    cases[[ord("İ"), ord("Σ")]] = _ODD
    for run in re.finditer(r"\W+", every):
        cases[run.start() : run.end()] = _BLANK
    return cases


def _utf8_width(codes: NDArray[np.integer]) -> NDArray[np.integer]:
    return np.searchsorted([0x80, 0x800, 0x1_0000], codes, side="right")
