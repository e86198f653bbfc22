"""As much LaTeX as answers are written in: balanced braces, arguments, boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BOX = re.compile(r"\\[fc]?box(?:ed)?[ ]?\{")
_GAP = re.compile(r"[ ]?")


def braces(text: str) -> dict[int, int]:
    r"""Map each opening brace to its closing one; escaped braces (``\{``) are text, unbalanced ones are left out.

    >>> braces("{a{b}} {")
    {2: 4, 0: 5}
    """
    if "{" not in text:
        return {}
    closing: dict[int, int] = {}
    opened: list[int] = []
    for found in _BRACE.finditer(text):
        if found.group() == "{":
            opened.append(found.start())
        elif found.group() == "}" and opened:
            closing[opened.pop()] = found.start()
    return closing


def boxes(text: str, closing: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    r"""Give each ``\boxed{...}``: where it begins, and where its content begins and ends.

    A box that is never closed (a reply cut short) ends with its line.

    >>> list(boxes(r"\boxed{\frac{1}{2}}", braces(r"\boxed{\frac{1}{2}}")))
    [(0, 7, 18)]
    """
    for found in _BOX.finditer(text):
        start = found.end()
        end = closing.get(start - 1)
        if end is None:
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
        yield found.start(), start, end


def argument(text: str, position: int, closing: dict[int, int]) -> tuple[str, int] | None:
    r"""Give the argument of a command that begins here, and where it ends: ``{...}``, or one digit (``\frac12``)."""
    gap = _GAP.match(text, position)
    start = gap.end() if gap else position
    if start < len(text) and text[start] in "0123456789":
        return text[start], start + 1
    end = closing.get(start)
    return None if end is None else (text[start + 1 : end], end + 1)
