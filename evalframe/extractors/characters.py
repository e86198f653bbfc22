r"""Python's classes of characters, spelled for Rust's engine, whose ``\w``, ``\s`` and ``(?i)`` are others.

Classes are spelled for the inside of brackets: ``rf"[^{words()}]"``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.words import WHITE_SPACE

BLANKS = "".join(f"\\x{{{ord(char):X}}}" for char in WHITE_SPACE)  # \s
# of other scripts, but taken for k, s and i where case does not count, by one of the engines at least
STRANGE_LETTERS = "\u212aſİı"
_HIGHEST_WITH_CASE = 0x20000


@lru_cache(maxsize=1)
def words() -> str:
    r"""Spell ``\w``."""
    return _spelled(re.findall(r"\w+", _every()))


@lru_cache(maxsize=1)
def letters() -> str:
    """Spell what ``str.isalpha`` takes."""
    every = _every()
    runs = groupby(zip(every, map(str.isalpha, every), strict=True), key=lambda pair: pair[1])
    return _spelled(["".join(char for char, _ in run) for is_letter, run in runs if is_letter])


@lru_cache(maxsize=1)
def lowered_otherwise() -> str:
    """Spell the characters that polars, which has a newer Unicode, does not lower as ``str.lower`` does.

    And the one whose small form depends on its neighbours being letters.
    """
    every = pl.Series([char for char in _every() if ord(char) < _HIGHEST_WITH_CASE])
    in_python = pl.Series([char.lower() for char in every])
    return "".join(every.filter(every.str.to_lowercase() != in_python)) + "Σ"


def having(texts: pl.Series, one_of: str) -> pl.Series:
    """Tell which texts of a column have a character of a class outside ASCII; no look into those of ASCII alone."""
    rows = (texts.str.len_bytes() != texts.str.len_chars()).arg_true()
    rows = rows.filter(texts.gather(rows).str.contains(one_of))
    return pl.repeat(False, len(texts), dtype=pl.Boolean, eager=True).scatter(rows, True)


def may_strip(texts: pl.Series, chars: str) -> pl.Series:
    """Tell which texts may begin or end with some characters, by a look at their edges: to strip all is more work.

    Args:
        texts: String; a null gives null.
        chars: Among them all blanks of ASCII; of the others none is taken for the beginning of a longer one.
    """
    beyond = chr(ord(max(chars)) + 1)  # polars compares texts by their bytes, fast
    begins = (texts < "!") | ((texts >= "\x80") & (texts < beyond))
    last = texts.cast(pl.Binary).bin.get(-1, null_on_oob=True)
    return begins | pl.Series(_is_last_byte(chars).take(last.fill_null(0).to_numpy()))


@lru_cache(maxsize=8)
def _is_last_byte(chars: str) -> NDArray[np.bool_]:
    """Tell of each byte whether one of some characters ends with it in UTF-8."""
    return np.isin(np.arange(256), [char.encode()[-1] for char in chars])


def any_case(word: str) -> str:
    r"""Spell a word of small letters so that it is found where ``str.lower`` gives it; but for ``STRANGE_LETTERS``.

    >>> print(any_case("no 1 é"))
    [nN][oO]\ 1\ [éÉ]
    """
    return "".join(f"[{char}{char.upper()}]" if has_capital(char) else re.escape(char) for char in word)


def has_capital(char: str) -> bool:
    """Tell whether a small letter has a capital that is lowered to it."""
    return char.upper() != char and char.upper().lower() == char


def in_rust(pattern: str) -> str:
    r"""Spell out ``\s`` in a pattern, alone or in a class."""
    return pattern.replace(r"\s", f"[{BLANKS}]")


@lru_cache(maxsize=1)
def _every() -> str:
    """Give every character that a text may hold, in order; a surrogate is none."""
    return "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))


def _spelled(runs: list[str]) -> str:
    return "".join(f"\\x{{{ord(run[0]):X}}}-\\x{{{ord(run[-1]):X}}}" for run in runs)
