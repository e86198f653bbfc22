"""Looking into JSON whose shape a server chose: what is not of the shape that is looked for is as good as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def inside(value: Any, *keys: str) -> Any:
    """Give what objects within objects hold under some keys; None where there is none.

    >>> inside({"error": {"message": "no"}}, "error", "message")
    'no'
    >>> inside({"error": "no"}, "error", "message")
    """
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Give the objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def word(value: Any) -> str:
    """Give a text as it is, anything else as the empty one."""
    return value if isinstance(value, str) else ""


def total(*values: Any) -> int | None:
    """Add the whole numbers among some values; None where there is none.

    >>> total(3, None, 4)
    7
    """
    counts = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return sum(counts) if counts else None


def number(value: Any) -> float | None:
    """Give a number as a float, anything else as None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
