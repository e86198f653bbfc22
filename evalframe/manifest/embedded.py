"""Finding few-shot examples that stand in the body of a prompt instead of in ``few_shot_examples``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evalframe.manifest.taskvocabulary import MARKERS

# IGNORECASE of ASCII letters only: without ASCII, U+017F (long s) would pass for an s
_MARKER = re.compile("|".join(map(re.escape, sorted(MARKERS, key=len, reverse=True))), re.IGNORECASE | re.ASCII)

_LINE_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")  # as str.splitlines has them
_DECORATION = frozenset("#>*_-+•\"'“‘«([")  # what Markdown and quotation put before the first word
_CLOSERS = frozenset("\"'”’»)]*_")
_SENTENCE_ENDS = frozenset(".!?…")
_FULL_WIDTH_ENDS = frozenset("。！？")  # nothing need stand between these and the next sentence


def embedded_markers(prompt: str, *, most: int = 2) -> list[str]:
    r"""Give the first markers (``question:``, ``q:``, ``example:``) that start a line or a sentence of a prompt.

    Capitals do not matter. A marker starts a line where only blanks and decoration (``**Q:**``, ``> Q:``, ``- Q:``,
    ``"Q:``) stand before it in its line; a line ends as ``str.splitlines`` has it. It starts a sentence where blanks
    part it from a ``.``, ``!``, ``?`` or ``…`` (closing quotes and brackets may follow that), or where it follows
    ``。``, ``！`` or ``？``. So ``FAQ:``, ``the next question:``, ``a; q:`` and ``v1.q:`` are none, ``1. Q:`` is one.

    >>> embedded_markers("Compute the result. Question: 17 + 24\nAnswer:")
    ['Question:']
    >>> embedded_markers("Q: 1 + 1\nA: 2\nQ: 2 + 2\nA:")
    ['Q:', 'Q:']
    """
    found: list[str] = []
    for marker in _markers(prompt):
        found.append(marker)
        if len(found) == most:
            break
    return found


def _markers(prompt: str) -> Iterator[str]:
    return (match[0] for match in _MARKER.finditer(prompt) if _starts_line_or_sentence(prompt, match.start()))


def _starts_line_or_sentence(text: str, at: int) -> bool:
    place = at
    blanks = False
    # each run of blanks and decoration is walked for the one marker behind it, so a text is walked once in all
    while place and text[place - 1] not in _LINE_ENDS and (text[place - 1].isspace() or text[place - 1] in _DECORATION):
        place -= 1
        blanks = blanks or text[place].isspace()
    if place == 0 or text[place - 1] in _LINE_ENDS:
        return True
    while place and text[place - 1] in _CLOSERS:
        place -= 1
    if not place:
        return False
    return text[place - 1] in _FULL_WIDTH_ENDS or (blanks and text[place - 1] in _SENTENCE_ENDS)
