r"""The extraction type ``number``: the number that a reply answers with, as a canonical decimal string.

Which one: the last explicit answer that holds a number, else the last number of the text. What is a number:
``number_scan``; how it is written: ``decimals``. Most texts are read by expressions (``number_columns``), which give
what the walk here gives.

Rules, of what took the answer: ``boxed`` (``\boxed{42}``), ``hashes`` (``#### 42``), ``cue`` (``the answer is 42``,
``Answer: 42``, in the languages of ``cues.ANSWER_NOUNS``), ``last_number``; each with `` percent`` where a percent sign
follows the number, whose face value is taken (``50%`` gives ``50``). Without an answer: ``no_number``, the text holds
none; ``boxed_no_number``, the only explicit answer is a box of something else (``\boxed{2\pi}``, ``\boxed{3x+2}``), and
another number of the text would be an answer by accident.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from evalframe.extractors import Extractor, Reading, by_expressions, cues, number_columns
from evalframe.extractors.algebra import AROUND, is_in_a_term
from evalframe.extractors.latex import boxes, braces
from evalframe.extractors.number_scan import Found, in_plain_signs, scan
from evalframe.limits import Limits

_CUE = cues.pattern(cues.ANSWER_NOUNS, cues.NUMBER_MARKS)
_HASHES = re.compile(r"(?<!#)####(?!#)")
_HEADING = re.compile(r"[.):][ \t]+\S")  # "#### 2. The next step" is a heading, "#### 2." an answer
# between a cue and its number: decoration, "x =", and words that change no number
_GAP = re.compile(
    rf"(?:{cues.DECORATION}|(?:approximately|about|around|roughly|exactly|just|only|simply|equal to|equals|therefore"
    r"|thus|a total of|the)\b|\\?[A-Za-z]\w{0,9}\s?=|\\?(?:approx|sim)\b|[±+])*+",
    re.IGNORECASE,
)
_SUM = re.compile(r"(?:(?:[-0-9+*/×÷·⋅−–().,%$<>{}^ \t]|\bx\b|\\(?:times|cdot|div|,))++[=≈])++")

_SETUP = 2  # as long as to walk through some 150 short replies


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark of an explicit answer: its place, its rule, and where the answer stands."""

    place: int
    rule: Literal["boxed", "hashes", "cue"]
    start: int
    end: int


def read_number(text: str) -> Reading:
    r"""Read the number that a text answers with.

    >>> read_number("2 apples and 3 pears. The answer is **5**, of 10 fruits.")
    ('5', 'ok', 'cue')
    >>> read_number(r"So $\boxed{\dfrac{-1}{4}}$ or -25%")
    ('-0.25', 'ok', 'boxed')
    """
    text = in_plain_signs(text)
    closing = braces(text)
    numbers = scan(text, closing)
    if not numbers:
        return None, "no_match", "no_number"
    places = [number.digits for number in numbers]
    marks = sorted(_marks(text, closing), key=lambda mark: mark.place, reverse=True)
    for mark in marks:
        if found := _marked(text, mark, numbers, places):
            return _taken(found, mark.rule)
    if any(mark.rule == "boxed" and text[mark.start : mark.end].strip() for mark in marks):
        return None, "no_match", "boxed_no_number"
    return _taken(numbers[-1], "last_number")


def _taken(number: Found, rule: str) -> Reading:
    return number.value, "ok", f"{rule} percent" if number.percent else rule


def _marks(text: str, closing: dict[int, int]) -> Iterator[Mark]:
    for place, start, end in boxes(text, closing):
        yield Mark(place, "boxed", start, end)
    for hashes in _HASHES.finditer(text):
        yield Mark(hashes.start(), "hashes", hashes.end(), len(text))
    for place, end in cues.ends(_CUE, cues.in_lower_case(text)):
        yield Mark(place, "cue", end, len(text))


def _marked(text: str, mark: Mark, numbers: list[Found], places: list[int]) -> Found | None:
    """Find the number that a mark points at: the last one in a box, the first one right behind anything else."""
    if mark.rule == "boxed":
        last = bisect_left(places, mark.end) - 1
        if last < 0 or places[last] < mark.start:
            return None
        boxed = numbers[last]
        before = text[max(mark.start, boxed.start - AROUND) : boxed.start]
        return None if is_in_a_term(before, text[boxed.end : min(mark.end, boxed.end + AROUND)]) else boxed
    found = _next_to(text, mark.start, numbers, places)
    if found is None or (mark.rule == "hashes" and _HEADING.match(text, found.end)):
        return None
    if worked := _SUM.match(text, found.start):  # "Answer: 3 + 5 = 8"
        return _next_to(text, worked.end(), numbers, places) or found
    return found


def _next_to(text: str, end: int, numbers: list[Found], places: list[int]) -> Found | None:
    """Find the number that begins here, or behind nothing but decoration."""
    following = bisect_left(places, end)
    if following == len(numbers):
        return None
    found = numbers[following]
    return found if found.start <= end or _GAP.fullmatch(text, end, found.start) else None


def _number(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    # the walk is for fractions, terms and the like: they are balanced and placed, which no column expression is
    return by_expressions(texts, number_columns.read, read_number, setup=_SETUP)


NUMBER = Extractor(name="number", apply=_number, cleans=True)
