"""Parts of a parse tree of Python's ``re``, written in the dialect of Rust's engine; ``routing`` tells the proof."""

from __future__ import annotations

import re
from collections.abc import Sequence
from re import _constants as node  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from evalframe.extractors.characters import Ranges, complement, rust_class, taken_by

Items = Sequence[tuple[Any, Any]]

_ONE_CHARACTER = {node.LITERAL, node.NOT_LITERAL, node.ANY, node.IN}
_LOOKS = {node.ASSERT, node.ASSERT_NOT}
_LOOPS = {node.MAX_REPEAT: "", node.MIN_REPEAT: "?"}


class Unproven(Exception):
    """The pattern is not proven to mean the same in Rust; the message says which part of it."""


class Writer:
    r"""Writes parts of one tree in Rust's dialect, and keeps what was met on the way.

    Attributes:
        wanted: The index of the one group that is written as a group; 0: none.
        certain: No match is without it.
        has_end, has_boundary: A ``$`` that is not a line's, a ``\b`` of all of Unicode was written.
        size: How many characters were written, each as often as the loops around it unroll it.
    """

    def __init__(self, ascii_only: bool, wanted: int, *, widened: bool = False) -> None:
        self.wanted = wanted
        self.certain = wanted == 0
        self.has_end = self.has_boundary = False
        self.size = 0
        self._unrolled = 1
        self._ascii_only = ascii_only
        self._widened = widened

    def sequence(self, items: Items, flags: int, *, certain: bool = True, looped: bool = False) -> str:
        """Write nodes that follow each other; ``certain``: no match goes around them."""
        return "".join(self._node(op, av, flags, certain, looped) for op, av in items)

    def anything(self) -> str:
        """Write a class that takes every character."""
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
        self.size += self._unrolled
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
        times = max(least, 1) if most is node.MAXREPEAT else most
        self._unrolled *= times
        inner = self.sequence(body, flags, certain=certain and least > 0, looped=looped or most > 1)
        self._unrolled //= times
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


def asserts_at_edge(items: Items, *, at_start: bool, at_end: bool) -> bool:
    """Tell whether an assertion among the nodes may stand at the first or the last place of a match."""
    nullable = [_parser.SubPattern(_parser.State(), [item]).getwidth()[0] == 0 for item in items]
    for place, (op, av) in enumerate(items):
        starts = at_start and all(nullable[:place])
        ends = at_end and all(nullable[place + 1 :])
        if op is node.AT and (starts or ends):
            return True
        bodies = [av[-1]] if op is node.SUBPATTERN or op in _LOOPS else av[1] if op is node.BRANCH else []
        if any(asserts_at_edge(body, at_start=starts, at_end=ends) for body in bodies):
            return True
    return False
