r"""Which regular expressions run in polars' Rust engine, whole columns at a time: those proven to mean the same there.

The dialect is Python's ``re``, and the two engines read the same text of a pattern differently. So a pattern is never
handed over: its parse tree, the one that ``re`` itself compiles, is walked against an allow-list, and a Rust pattern is
written from it. A node that is not on the list sends the pattern to Python. Why the answers are the same:

* **One character.** A literal, a class, ``.``, each with its flags, is compiled alone by ``re`` and run over every code
  point; the ranges that it takes are what is written. There is nothing to prove about ``\w``, ``\s`` or ignoring case.
* **Choice.** Both engines give the leftmost match and, of those that begin there, the first in the order of a
  backtracking search (Rust finds that one in linear time). Loops whose body can match nothing are not on the list.
* **Groups.** Only the group that is asked for is written as one; inside a loop it is not on the list.
* **Assertions.** ``\A``, ``\Z`` and the lines' ``^`` and ``$`` have exact spellings. ``$`` is written as the very end,
  for texts that do not end in a newline. ``\b`` is Rust's, for texts without a character on whose being a word
  character the two disagree (``½``, combining marks). Other texts go to Python.
* **Looking around.** For the first match a look-behind at the front or a look-ahead at the end is written as text that
  is consumed: what is left of the match and right of it is not searched again.
* **The last match.** A pattern that can match nothing is not on the list: Python also finds an empty match right behind
  another. The group is read out of the text of the last match alone, which must match as a whole: the first way, in
  the order of the search, that covers exactly that text is the one that was taken. Where an assertion inside could tell
  the match from the text around it, one pattern walks through all matches to the last instead.

Rust's engine takes time in proportion to the text times the unrolled pattern, at the worst; where that is too long to
wait for (a long text and a loop such as ``{1,300}``) the text goes to Python, which gives up on it in time.

There are two spellings of each pattern. One is for texts of ASCII, which most are; its classes are short and its
automata small. A spelling that is too large for the engine is none, and its texts go to Python.

The proof is of the parse trees and the matching of the Pythons in ``PROVEN_PYTHONS``, where the law tests ran. Under
any other version everything goes to Python, slower and the same. To add a version, install the package with its test
extra there and run ``pytest -m "slow or not slow" tests/laws/test_regex_routing_laws.py`` and ``tests/extractors``: the
laws are of the Python that runs them, whether it is listed or not. They fail where a node of the parse tree has another
name or another meaning (a new node is on no allow-list, so it goes to Python). If all hold, put the version here.
"""

from __future__ import annotations

import re
import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache
from re import _constants as node  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import polars as pl

from evalframe.extractors.characters import rust_class, taken_by
from evalframe.extractors.spelling import Unproven, Writer, asserts_at_edge
from evalframe.sandbox.regex_worker import FLAGS

PROVEN_PYTHONS = frozenset({(3, 11), (3, 12), (3, 13)})

# bytes of a text times characters of the pattern, at the worst a step each: a second, or little more
_MOST_STEPS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    r"""A pattern in Rust's dialect, and the texts on which it is proven.

    Attributes:
        find: Finds the matches.
        group: Of ``find``, for the first match: 1 or 0.
        inside: For the last match: reads group 1 out of the text of the match alone; empty: the answer is the match.
        walk: For the last match: goes from the first match to the last, group 1 is the last one's; empty: not needed.
        certain: No match is without the group.
        no_final_newline: Only for texts that do not end in ``\n``.
        no_disputed: Only for texts without a ``disputed()`` character.
        most_bytes: Only for texts of no more bytes.
    """

    find: str
    group: int
    inside: str = ""
    walk: str = ""
    certain: bool
    no_final_newline: bool
    no_disputed: bool
    most_bytes: int


def program(pattern: str, flags: str, group: int | str, *, last: bool, ascii_only: bool) -> Program | str:
    r"""Write a pattern for Rust; else say why not.

    Args:
        pattern: Compiles in Python's ``re``.
        flags: Letters of ``imsxua``.
        group: An index or a name that the pattern has.
        last: For the last match, not the first.
        ascii_only: For texts of ASCII alone; else for all.

    >>> program(r"is ([a-c]\d?)$", "", 1, last=False, ascii_only=True).find
    'is\\x{20}([a-c](?:[0-9]){0,1})\\z'
    >>> program(r"(\w)\1", "", 1, last=False, ascii_only=True)
    'GROUPREF has no exact spelling'
    """
    if sys.version_info[:2] not in PROVEN_PYTHONS:
        return f"the proof is not made for Python {sys.version_info[0]}.{sys.version_info[1]}"
    return _written(pattern, flags, group, last, ascii_only)


@lru_cache(maxsize=256)
def _written(pattern: str, flags: str, group: int | str, last: bool, ascii_only: bool) -> Program | str:
    try:
        tree = _parse(pattern, flags)
        written = _last(tree, group, ascii_only) if last else _first(tree, group, ascii_only)
    except Unproven as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    if not all(map(_compiles, filter(None, (written.find, written.inside, written.walk)))):
        return "it is too large for the engine"
    return written


@dataclass(frozen=True, slots=True)
class Sieve:
    """A Rust pattern that is found in every text in which the pattern matches, and in few others.

    Attributes:
        wide: The pattern.
        most_bytes: Not for texts of more bytes.
    """

    wide: str
    most_bytes: int


def sieve(pattern: str, flags: str, *, ascii_only: bool) -> Sieve | None:
    r"""Write a sieve: what has no exact spelling is left out or widened. None where nothing is known of the texts.

    >>> sieve(r"(?<=is )(\w)\1", "", ascii_only=True).wide
    '(?:is\\x{20})(?:[0-9A-Z_a-z])(?:[\\x{0}-\\x{7F}]){0,}'
    """
    return _widened(pattern, flags, ascii_only) if sys.version_info[:2] in PROVEN_PYTHONS else None


@lru_cache(maxsize=256)
def _widened(pattern: str, flags: str, ascii_only: bool) -> Sieve | None:
    try:
        tree = _parse(pattern, flags)
        writer = Writer(ascii_only, 0, widened=True)
        before, items, after = writer.edges(list(tree), tree.state.flags)
        wide = before + writer.sequence(items, tree.state.flags) + after
    except (Unproven, RecursionError):
        return None
    if not _compiles(wide) or pl.Series([""]).str.contains(wide)[0]:
        return None
    return Sieve(wide, _MOST_STEPS // max(writer.size, 1))


@lru_cache(maxsize=1)
def disputed() -> str:
    """Give the Rust class of the characters that are word characters in one of the two engines only."""
    word = taken_by(node.IN, [(node.CATEGORY, node.CATEGORY_WORD)], re.UNICODE, ascii_only=False)
    return rf"[\w~~{rust_class(word)}]"


def _parse(pattern: str, flags: str) -> Any:
    bits = 0
    for letter in flags:
        bits |= FLAGS[letter]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # meant for the authors of Python code
        return _parser.parse(pattern, bits)


def _first(tree: Any, group: int | str, ascii_only: bool) -> Program:
    writer = Writer(ascii_only, _index(tree, group))
    before, items, after = writer.edges(list(tree), tree.state.flags)
    find = writer.sequence(items, tree.state.flags)
    if writer.wanted == 0 and (before or after):
        find = f"({find})"
    return Program(
        find=before + find + after,
        group=int(writer.wanted != 0 or bool(before or after)),
        certain=writer.certain,
        no_final_newline=writer.has_end,
        no_disputed=writer.has_boundary and not ascii_only,
        most_bytes=_MOST_STEPS // max(writer.size, 1),
    )


def _last(tree: Any, group: int | str, ascii_only: bool) -> Program:
    wanted, items, flags = _index(tree, group), list(tree), tree.state.flags
    if tree.getwidth()[0] == 0:
        raise Unproven("the last match of a pattern that can match nothing is Python's own")
    writer = Writer(ascii_only, wanted)
    find = writer.sequence(items, flags)
    inside = walk = ""
    is_whole = len(items) == 1 and items[0][0] is node.SUBPATTERN and items[0][1][0] == wanted
    if wanted and not is_whole:
        core = items
        while core and core[0][0] is node.AT:
            core = core[1:]
        while core and core[-1][0] is node.AT:
            core = core[:-1]
        if not asserts_at_edge(core, at_start=True, at_end=True):
            inside = rf"\A(?:{Writer(ascii_only, wanted).sequence(core, flags)})\z"
        elif writer.certain:
            walk = rf"\A(?:{writer.anything()}{{0,}}?{find})+"
        else:
            raise Unproven("an assertion inside, and a group that need not take part")
    return Program(
        find=find,
        group=0,
        inside=inside,
        walk=walk,
        certain=writer.certain,
        no_final_newline=writer.has_end,
        no_disputed=writer.has_boundary and not ascii_only,
        most_bytes=_MOST_STEPS // max(writer.size, 1),
    )


def _index(tree: Any, group: int | str) -> int:
    return group if isinstance(group, int) else int(tree.state.groupdict[group])


def _compiles(rust: str) -> bool:
    try:
        pl.Series([], dtype=pl.String).str.contains(rust)
    except pl.exceptions.ComputeError:  # over the engine's size limit
        return False
    return True
