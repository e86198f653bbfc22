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

There are two spellings of each pattern. One is for texts of ASCII, which most are; its classes are short and its
automata small. A spelling that is too large for the engine is none, and its texts go to Python.

The proof is of the parse trees and the matching of the Pythons in ``PROVEN_PYTHONS``, where the law tests ran. Under
any other version everything goes to Python.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from re import _constants as node  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import polars as pl

from evalframe.extractors.codepoints import Ranges, complement, rust_class, taken_by
from evalframe.sandbox.regex_worker import FLAGS

PROVEN_PYTHONS = frozenset({(3, 11)})

Items = Sequence[tuple[Any, Any]]

_ONE_CHARACTER = {node.LITERAL, node.NOT_LITERAL, node.ANY, node.IN}
_LOOKS = {node.ASSERT, node.ASSERT_NOT}
_LOOPS = {node.MAX_REPEAT: "", node.MIN_REPEAT: "?"}


class Unproven(Exception):
    """The pattern is not proven to mean the same in Rust; the message says which part of it."""


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
    """

    find: str
    group: int
    inside: str = ""
    walk: str = ""
    certain: bool
    no_final_newline: bool
    no_disputed: bool


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
    if not all(map(_compiles, (written.find, written.inside, written.walk))):
        return "it is too large for the engine"
    return written


def sieve(pattern: str, flags: str, *, ascii_only: bool) -> str | None:
    r"""Write a Rust pattern that is found in every text in which the pattern matches, and in few others.

    What has no exact spelling is left out or widened. None where nothing is known of the texts.

    >>> sieve(r"(?<=is )(\w)\1", "", ascii_only=True)
    '(?:is\\x{20})(?:[0-9A-Z_a-z])(?:[\\x{0}-\\x{7F}]){0,}'
    """
    return _widened(pattern, flags, ascii_only) if sys.version_info[:2] in PROVEN_PYTHONS else None


@lru_cache(maxsize=256)
def _widened(pattern: str, flags: str, ascii_only: bool) -> str | None:
    try:
        tree = _parse(pattern, flags)
        writer = _Writer(ascii_only, 0, widened=True)
        before, items, after = writer.edges(list(tree), tree.state.flags)
        wide = before + writer.sequence(items, tree.state.flags) + after
    except (Unproven, RecursionError):
        return None
    if not _compiles(wide) or pl.Series([""]).str.contains(wide)[0]:
        return None
    return wide


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
    writer = _Writer(ascii_only, _index(tree, group))
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
    )


def _last(tree: Any, group: int | str, ascii_only: bool) -> Program:
    wanted, items, flags = _index(tree, group), list(tree), tree.state.flags
    if tree.getwidth()[0] == 0:
        raise Unproven("the last match of a pattern that can match nothing is Python's own")
    writer = _Writer(ascii_only, wanted)
    find = writer.sequence(items, flags)
    inside = walk = ""
    is_whole = len(items) == 1 and items[0][0] is node.SUBPATTERN and items[0][1][0] == wanted
    if wanted and not is_whole:
        core = items
        while core and core[0][0] is node.AT:
            core = core[1:]
        while core and core[-1][0] is node.AT:
            core = core[:-1]
        if not _asserts_at_edge(core, at_start=True, at_end=True):
            inside = rf"\A(?:{_Writer(ascii_only, wanted).sequence(core, flags)})\z"
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
    )


def _index(tree: Any, group: int | str) -> int:
    return group if isinstance(group, int) else int(tree.state.groupdict[group])


class _Writer:
    r"""Writes parts of one tree in Rust's dialect, and keeps what was met on the way.

    Attributes:
        wanted: The index of the one group that is written as a group; 0: none.
        certain: No match is without it.
        has_end, has_boundary: A ``$`` that is not a line's, a ``\b`` of all of Unicode was written.
    """

    def __init__(self, ascii_only: bool, wanted: int, *, widened: bool = False) -> None:
        self.wanted = wanted
        self.certain = wanted == 0
        self.has_end = self.has_boundary = False
        self._ascii_only = ascii_only
        self._widened = widened

    def sequence(self, items: Items, flags: int, *, certain: bool = True, looped: bool = False) -> str:
        """Write nodes that follow each other; ``certain``: no match goes around them."""
        return "".join(self._node(op, av, flags, certain, looped) for op, av in items)

    def anything(self) -> str:
        return self._character(node.ANY, None, re.DOTALL)

    def edges(self, items: list[tuple[Any, Any]], flags: int) -> tuple[str, list[tuple[Any, Any]], str]:
        """Take a look-behind off the front and a look-ahead off the end, written as text that is consumed."""
        before = after = ""
        if items and items[0][0] in _LOOKS and items[0][1][0] == -1:
            before, items = self._look(*items[0], flags), items[1:]
        if items and items[-1][0] in _LOOKS and items[-1][1][0] == 1:
            after, items = self._look(*items[-1], flags), items[:-1]
        return before, items, after

    def _look(self, op: Any, av: Any, flags: int) -> str:
        direction, body = av
        if op is node.ASSERT:
            return f"(?:{self.sequence(body, flags)})"
        if len(body) != 1 or body[0][0] not in _ONE_CHARACTER:
            return self._unproven(op)
        [(one, of)] = body
        taken = self._ranges(one, of, flags)
        rest = rust_class(complement(taken, ascii_only=self._ascii_only))
        return rf"(?:\A|{rest})" if direction == -1 else rf"(?:{rest}|\z)"

    def _node(self, op: Any, av: Any, flags: int, certain: bool, looped: bool) -> str:
        if op in _ONE_CHARACTER:
            return self._character(op, av, flags)
        if op is node.AT:
            return self._assertion(av, flags)
        if op is node.SUBPATTERN:
            return self._group(av, flags, certain, looped)
        if op is node.BRANCH:
            ways = [self.sequence(way, flags, certain=False, looped=looped) for way in av[1]]
            return f"(?:{'|'.join(ways)})"
        if op in _LOOPS:
            return self._loop(op, av, flags, certain, looped)
        return self._wide(op, av, flags) if self._widened else self._unproven(op)

    def _character(self, op: Any, av: Any, flags: int) -> str:
        return rust_class(self._ranges(op, av, flags))

    def _ranges(self, op: Any, av: Any, flags: int) -> Ranges:
        return taken_by(op, av, flags, ascii_only=self._ascii_only)

    def _group(self, av: Any, flags: int, certain: bool, looped: bool) -> str:
        index, added, dropped, body = av
        if added & _parser.TYPE_FLAGS:
            flags &= ~_parser.TYPE_FLAGS
        inner = self.sequence(body, (flags | added) & ~dropped, certain=certain, looped=looped)
        if not index or index != self.wanted:
            return f"(?:{inner})"
        if looped:
            raise Unproven("the group stands in a loop")
        self.certain = certain
        return f"({inner})"

    def _loop(self, op: Any, av: Any, flags: int, certain: bool, looped: bool) -> str:
        least, most, body = av
        if most == 0 or (most > 1 and body.getwidth()[0] == 0 and not self._widened):
            raise Unproven("a loop around what can match nothing")
        inner = self.sequence(body, flags, certain=certain and least > 0, looped=looped or most > 1)
        return f"(?:{inner}){{{least},{'' if most is node.MAXREPEAT else most}}}{_LOOPS.get(op, '')}"

    def _assertion(self, at: Any, flags: int) -> str:
        lines = flags & re.MULTILINE
        if at is node.AT_BEGINNING_STRING or (at is node.AT_BEGINNING and not lines):
            return r"\A"
        if at is node.AT_END_STRING:
            return r"\z"
        if at is node.AT_BEGINNING:
            return "(?m:^)"
        if at is node.AT_END and (lines or self._widened):
            return "(?m:$)"
        if at is node.AT_END:
            self.has_end = True
            return r"\z"
        if self._widened:
            return ""
        if flags & re.ASCII:
            return r"(?-u:\b)" if at is node.AT_BOUNDARY else self._unproven(at)
        self.has_boundary = True
        return r"\b" if at is node.AT_BOUNDARY else r"\B"

    def _wide(self, op: Any, av: Any, flags: int) -> str:
        """Write what takes at least all that the node takes."""
        if op in _LOOKS:
            return ""
        if op is node.GROUPREF:
            return f"(?:{self.anything()}){{0,}}"
        if op is node.GROUPREF_EXISTS:
            return f"(?:{self.sequence(av[1], flags)}|{self.sequence(av[2] or (), flags)})"
        if op is node.ATOMIC_GROUP:
            return f"(?:{self.sequence(av, flags)})"
        if op is node.POSSESSIVE_REPEAT:
            return self._loop(op, av, flags, True, False)
        return self._unproven(op)

    def _unproven(self, op: Any) -> str:
        if self._widened and op in _LOOKS:
            return ""
        raise Unproven(f"{op} has no exact spelling")


def _asserts_at_edge(items: Items, *, at_start: bool, at_end: bool) -> bool:
    """Tell whether an assertion among the nodes may stand at the first or the last place of a match."""
    nullable = [_parser.SubPattern(_parser.State(), [item]).getwidth()[0] == 0 for item in items]
    for place, (op, av) in enumerate(items):
        starts = at_start and all(nullable[:place])
        ends = at_end and all(nullable[place + 1 :])
        if op is node.AT and (starts or ends):
            return True
        bodies = [av[-1]] if op is node.SUBPATTERN or op in _LOOPS else av[1] if op is node.BRANCH else []
        if any(_asserts_at_edge(body, at_start=starts, at_end=ends) for body in bodies):
            return True
    return False


def _compiles(rust: str) -> bool:
    try:
        pl.Series([], dtype=pl.String).str.contains(rust)
    except pl.exceptions.ComputeError:  # over the engine's size limit
        return False
    return True
