r"""Telling a number in a box (``\boxed{x = 5}``, ``\boxed{10 \text{ m}^2}``) from a term (``\boxed{3x+2}``).

A term is parsed, never evaluated: ``3x+2``, ``12+3i``, ``x^2+1``, ``8 - 3``, ``5 \times 3``, ``2\ln 3``, ``4(a+b)``
are no numbers, whatever the last number in them. A range (``3-9``) is one, and so is what carries a unit (``60 km/h``,
``5m``, ``90^\circ``) or stands behind ``=``.
"""

from __future__ import annotations

import re

AROUND = 80  # characters looked at, so that boxes in boxes do not read the same text again and again
_RELATION = re.compile(r"=|≈|\\approx|\\(?:le|ge|leq|geq)(?![A-Za-z])|[<>≤≥]")
_WORDS = re.compile(r"\\(?:text|math|mbox)[a-z]*\s?\{[^{}]*\}")
_A_WORD = "word"  # in place of "\text{...}"
_OPERATOR = r"[-+/·⋅×÷]|(?<!\*)\*(?!\*)|\\(?:times|cdot|div|pm)(?![A-Za-z])"
_VARIABLE = r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])"
_NAME = r"\\(?:alpha|beta|gamma|delta|epsilon|theta|lambda|mu|phi|omega|ln|log|exp|sin|cos|tan|infty)(?![A-Za-z])"
# an operand and an operator right before the number, or a function, brackets between
_OPERATES_BEFORE = re.compile(rf"(?:(?:[0-9)}}\]]|{_VARIABLE})\s*(?:{_OPERATOR}|\^)|{_NAME})[\s({{$]*\Z")
_OPERATES_BEHIND = re.compile(
    rf"\s*[)}}]?\s*(?:{_OPERATOR})[\s({{$]*(?:[0-9\\(]|{_VARIABLE})"
    # a factor: 3x, but 5m and 5s are read as units
    rf"|[abcijknpqrtuvwxyz](?![A-Za-z])|\s*{_NAME}|\s?\(\s*[-+]?(?:[0-9]+|{_VARIABLE})\s*[-+]"
)


def is_in_a_term(before: str, behind: str) -> bool:
    r"""Tell whether a number is only a part of a sum, product or power, by what stands before and behind it in its box.

    >>> is_in_a_term("3x+", ""), is_in_a_term("x = ", ""), is_in_a_term("", r"^\circ")
    (True, False, False)
    """
    before = _WORDS.sub(_A_WORD, _RELATION.split(before[-AROUND:])[-1])
    behind = _WORDS.sub(_A_WORD, behind[:AROUND])
    return bool(_OPERATES_BEFORE.search(before) or _OPERATES_BEHIND.match(behind))
