"""How records show themselves: by what is not the default, with long texts cut; and dollars."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

MOST_CHARS = 60


def short(value: Any) -> str:
    """Write a value for a person: its ``repr``, cut in the middle of nowhere but marked.

    >>> short("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"
    """
    text = repr(value)
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS - 1]}…"


def told(name: str, parts: Iterable[tuple[str, Any]]) -> str:
    """Write a record as a call of its class.

    >>> told("Generation", [("text", "four"), ("confidence", 0.5)])
    "Generation(text='four', confidence=0.5)"
    """
    return f"{name}({', '.join(f'{key}={short(value)}' for key, value in parts)})"


def dollars(amount: float) -> str:
    """Write dollars for a person: to the cent, or to two figures where that would be nothing.

    >>> dollars(12.5), dollars(0.00042), dollars(0.0)
    ('$12.50', '$0.00042', '$0.00')
    """
    if amount <= 0 or amount >= 0.095:
        return f"${amount:,.2f}"
    return f"${amount:.{1 - math.floor(math.log10(amount))}f}"


class Telling:
    """A dataclass that shows the fields that differ from their defaults, and those without one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return told(type(self).__name__, changed(self))


def changed(record: Any) -> list[tuple[str, Any]]:
    """Give name and value of the fields of a dataclass that are not their default."""
    parts = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.repr and (default is dataclasses.MISSING or value != default):
            parts.append((field.name, value))
    return parts
