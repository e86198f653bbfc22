r"""Sets of characters as Python takes them, spelled for Rust's engine, whose ``\w``, ``\s`` and ``(?i)`` are others.

A set is found by asking Python about every code point (``taken_by`` for a node of ``re``, ``letters`` for a method of
``str``); it is ranges, which ``rust_class`` spells. The classes that the extractors are written with (``words()``,
``letters()``, ``BLANKS``) are spelled for the inside of brackets: ``rf"[^{words()}]"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _compiler, _parser  # type: ignore[attr-defined]
from re import _constants as node  # type: ignore[attr-defined]
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.words import WHITE_SPACE

Ranges = tuple[tuple[int, int], ...]  # first and last code point of each run, in order

BLANKS = "".join(f"\\x{{{ord(char):X}}}" for char in WHITE_SPACE)  # \s
# of other scripts, but taken for k, s and i where case does not count, by one of the engines at least
STRANGE_LETTERS = "\u212aſİı"
_HIGHEST_WITH_CASE = 0x20000
_MEANT = int(re.IGNORECASE | re.DOTALL | re.ASCII | re.UNICODE)  # the flags that one character heeds
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


# --- classes that the extractors are written with
@lru_cache(maxsize=1)
def words() -> str:
    r"""Spell ``\w``."""
    word = taken_by(node.IN, [(node.CATEGORY, node.CATEGORY_WORD)], re.UNICODE, ascii_only=False)
    return "".join(_spans(word))


@lru_cache(maxsize=1)
def letters() -> str:
    """Spell what ``str.isalpha`` takes."""
    every = _alphabet(ascii_only=False)
    is_letter = np.fromiter(map(str.isalpha, every), np.bool_, len(every))
    edges = np.flatnonzero(np.diff(is_letter, prepend=False, append=False)).tolist()
    runs = zip(edges[0::2], edges[1::2], strict=True)
    return "".join(_spans((ord(every[start]), ord(every[stop - 1])) for start, stop in runs))


@lru_cache(maxsize=1)
def lowered_otherwise() -> str:
    """Spell the characters that polars, which has a newer Unicode, does not lower as ``str.lower`` does.

    And the one whose small form depends on its neighbours being letters.
    """
    every = pl.Series(list(_alphabet(ascii_only=False)[:_HIGHEST_WITH_CASE]))
    in_python = pl.Series([char.lower() for char in every])
    return "".join(every.filter(every.str.to_lowercase() != in_python)) + "Σ"


def having(texts: pl.Series, one_of: Callable[[], str]) -> pl.Series:
    """Tell which texts of a column have a character of a class outside ASCII; no look into those of ASCII alone.

    Where all are ASCII the class is not asked for: to gather it from Unicode takes longer than to read a small run.
    """
    rows = (texts.str.len_bytes() != texts.str.len_chars()).arg_true()
    if len(rows):
        rows = rows.filter(texts.gather(rows).str.contains(one_of()))
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


# --- sets of code points
def taken_by(op: Any, av: Any, flags: int, *, ascii_only: bool) -> Ranges:
    r"""Give the code points that a node of one character takes: ``re`` compiles it alone and is run over all of them.

    Args:
        op, av: The node: ``LITERAL``, ``NOT_LITERAL``, ``ANY`` or ``IN``.
        flags: Bits of ``re``.
        ascii_only: Of ASCII alone.

    >>> taken_by(node.IN, [(node.CATEGORY, node.CATEGORY_SPACE)], re.UNICODE, ascii_only=True)
    ((9, 13), (28, 32))
    """
    if op is node.LITERAL and not flags & re.IGNORECASE:
        exists = av < 0x80 if ascii_only else not 0xD800 <= av < 0xE000
        return ((av, av),) if exists else ()
    return _scanned(op, tuple(av) if op is node.IN else av, int(flags) & _MEANT, ascii_only)


@lru_cache(maxsize=256)
def _scanned(op: Any, av: Any, flags: int, ascii_only: bool) -> Ranges:
    state = _parser.State()
    state.flags = flags
    one = _parser.SubPattern(state, [(op, list(av) if op is node.IN else av)])
    runs = _compiler.compile(_parser.SubPattern(state, [(node.MAX_REPEAT, (1, node.MAXREPEAT, one))]), flags)
    every = _alphabet(ascii_only=ascii_only)
    return tuple((ord(every[run.start()]), ord(every[run.end() - 1])) for run in runs.finditer(every))


@lru_cache(maxsize=2)
def _alphabet(*, ascii_only: bool) -> str:
    """Give every character that a text may hold, in order; a surrogate is none."""
    codes = np.arange(0x80 if ascii_only else 0x110000, dtype="<u4")
    return codes[(codes < 0xD800) | (codes > 0xDFFF)].tobytes().decode("utf-32-le")


def complement(ranges: Ranges, *, ascii_only: bool) -> Ranges:
    """Give the code points that are not in some ranges."""
    starts = [0, *(hi + 1 for _, hi in ranges)]
    ends = [*(lo - 1 for lo, _ in ranges), 0x7F if ascii_only else 0x10FFFF]
    return tuple((lo, hi) for lo, hi in zip(starts, ends, strict=True) if lo <= hi)


def rust_class(ranges: Ranges) -> str:
    r"""Spell a set of code points for Rust's engine.

    >>> rust_class(((65, 90), (95, 95))), rust_class(((42, 42),))
    ('[A-Z_]', '\\x{2A}')
    """
    if not ranges:
        return _NOTHING
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _code_point(ranges[0][0])
    return f"[{''.join(_spans(ranges))}]"


def _spans(ranges: Iterable[tuple[int, int]]) -> Iterable[str]:
    for lo, hi in ranges:
        yield _code_point(lo) if lo == hi else f"{_code_point(lo)}-{_code_point(hi)}"


def _code_point(code: int) -> str:
    return chr(code) if code < 0x80 and (chr(code).isalnum() or chr(code) == "_") else f"\\x{{{code:X}}}"
