"""Sets of code points: which ones a node of Python's ``re`` takes, and how Rust's engine spells them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from re import _compiler, _parser  # type: ignore[attr-defined]
from re import _constants as node  # type: ignore[attr-defined]
from typing import Any

import numpy as np

Ranges = tuple[tuple[int, int], ...]  # first and last code point of each run, in order

_MEANT = int(re.IGNORECASE | re.DOTALL | re.ASCII | re.UNICODE)  # the flags that one character heeds
_NOTHING = r"[^\x{0}-\x{10FFFF}]"


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
    every = _alphabet(ascii_only)
    return tuple((ord(every[run.start()]), ord(every[run.end() - 1])) for run in runs.finditer(every))


@lru_cache(maxsize=2)
def _alphabet(ascii_only: bool) -> str:
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


def _spans(ranges: Ranges) -> Iterable[str]:
    for lo, hi in ranges:
        yield _code_point(lo) if lo == hi else f"{_code_point(lo)}-{_code_point(hi)}"


def _code_point(code: int) -> str:
    return chr(code) if code < 0x80 and (chr(code).isalnum() or chr(code) == "_") else f"\\x{{{code:X}}}"
