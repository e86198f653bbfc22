r"""The extraction type ``label_set``: the label that a reply answers with, in the spelling of ``labels``.

A label behind an explicit cue wins (``Answer: B``, ``\boxed{B}``; ``cues`` has the list), the last such cue first;
without one the first label of the text. A label is a whole word, by the word characters of Python's ``\w``. A single
letter counts only as a capital that stands alone, in label punctuation (``(b)``, ``b)``, ``b.``), behind a cue, or as
the whole text; what else is made of one letter, ``letters`` tells. A label of digits is no part of a number: not the 5
of ``3.5``, ``-5``, ``10^5`` or ``1,235``, nor the 10 of ``10^5``; a hyphen right before digits is a sign, unless a word
ends before it (``Answer-5``) or a blank parts them (``Label: - 5``). There is no guess at the nearest label. (The
hosted service returns the first match whatever the cue.)

Rules: ``whole_text`` (the text is nothing but the label), ``cue``, ``first_label``; ``no_label`` where there is none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from evalframe.extractors import Extractor, Reading, by_expressions, cues, label_columns, letters
from evalframe.extractors.characters import having
from evalframe.extractors.label_expressions import Expressions, expressions
from evalframe.limits import Limits

_CUE = cues.pattern(cues.ANSWER_NOUNS + cues.LABEL_NOUNS, cues.LABEL_MARKS)
# between a cue and its label; bounded, so that many cues in a row do not read the same text again and again
_GAP = re.compile(
    rf"(?:\s++|{cues.DECORATION}|(?:the|most|likely|probably|clearly|definitely|therefore|thus|simply|just|correct|right"
    r"|option|choice|letter|number)\b){0,40}+",
    re.IGNORECASE,
)
_OPENING = " \t\r\n*`$\"'“‘«„([{<|~:"
_CLOSING = " \t\r\n*`$\"'”’»)]}>|~:.,;!?。"
# a word character, but for scripts that set no blanks around a word
_IN_WORD = r"[^\W\u0e00-\u0fff\u2e80-\ud7ff\uf900-\ufaff]"
_BEFORE_A_SIGN = r"(?:[^\w)\]}]|[\u0e00-\u0fff\u2e80-\ud7ff\uf900-\ufaff])"
_EMPHASIS = re.compile(rf"(?<!{_IN_WORD})(_{{1,3}})([^_\n]{{1,80}})\1(?!{_IN_WORD})")
# full-width letters, digits and signs; minus signs and the dash of "18–24"
_PLAIN_SIGNS = {chr(0xFF01 + place): chr(0x21 + place) for place in range(94)} | dict.fromkeys("−﹣–", "-")
_NARROW = str.maketrans(_PLAIN_SIGNS)
_TAG = re.compile(r"</?(?:b|i|u|em|strong|code)>", re.IGNORECASE)
_SIGNED = re.compile(r"[-+]\d")
_SIGN = re.compile(rf"(?<!{_IN_WORD})(?<![)\]}}])-(?=\d)")

_SETUP = 12  # to compile the expressions of one set takes as long as to walk through some 800 short replies


@dataclass(frozen=True, slots=True)
class Labels:
    """A set of labels, compiled.

    Attributes:
        spellings: The labels as they were given, the longest first.
        plain: The same, stripped and in plain signs.
        anywhere: Matches a label as a whole word; the number of the group is that of the label, from 1.
        here: The same where the left is bounded already; digits are still no part of a number.
        single: Whether each label is a single letter with a case.
    """

    spellings: tuple[str, ...]
    plain: tuple[str, ...]
    anywhere: re.Pattern[str]
    here: re.Pattern[str]
    single: tuple[bool, ...]


@lru_cache(maxsize=256)
def compiled(labels: tuple[str, ...], case_sensitive: bool) -> Labels:
    """Compile a set of labels, the longest first where two begin at one place."""
    order = sorted(range(len(labels)), key=lambda index: -len(labels[index]))
    spellings = tuple(labels[index] for index in order)
    plain = tuple(label.strip().translate(_NARROW) for label in spellings)
    flags = re.NOFLAG if case_sensitive else re.IGNORECASE
    words = [r"\s+".join(map(re.escape, label.split())) + _right_bound(label) for label in plain]
    anywhere = "|".join(f"({_left_bound(label)}{word})" for label, word in zip(plain, words, strict=True))
    here = "|".join(f"({_left_bound_here(label)}{word})" for label, word in zip(plain, words, strict=True))
    return Labels(
        spellings,
        plain,
        re.compile(anywhere, flags),
        re.compile(here, flags),
        tuple(len(label) == 1 and cues.is_cased(label) for label in plain),
    )


def _left_bound(label: str) -> str:
    if _SIGNED.match(label):
        return rf"(?<!{_IN_WORD})(?<![)\]}}])"
    if not re.match(r"\w", label):
        return ""
    if not label[0].isdecimal():
        return r"(?<!\w)"
    group = r"(?<!\d,)" if re.match(r"\d{3}(?!\d)", label) else ""
    # not the 5 of 3.5, .5, -5, 10^5, 10^{5}, 10**5 and no 234 of 1,234
    sign, power = rf"(?<!^-)(?<!{_BEFORE_A_SIGN}-)", r"(?<!\^)(?<!\^[ {])(?<!\d\*\*)"
    return rf"(?<!\w)(?<!\d\.)(?<!^\.)(?<![^\w.]\.){sign}{power}{group}"


def _left_bound_here(label: str) -> str:
    return r"(?<![-^\d])" if label[:1].isdecimal() else ""


def _right_bound(label: str) -> str:
    if not re.search(r"\w$", label):
        return ""
    if not label[-1].isdecimal():
        return r"(?!\w)"
    return r"(?!\w)(?!\.\d)(?!,\d{3}(?!\d))(?![ ]?\^)(?!\*\*[-+]?\d)"  # nor the 10 of 10^5 and 10**5


def read_label(text: str, labels: Labels) -> Reading:
    """Read the label that a text answers with.

    >>> read_label("A hexagon has six corners. Hence it is (F), not (E).", compiled(("A", "E", "F"), False))
    ('F', 'ok', 'first_label')
    >>> read_label("It is relevant. Label: **Irrelevant**", compiled(("relevant", "irrelevant"), False))
    ('irrelevant', 'ok', 'cue')
    """
    if not text.isascii():
        text = text.translate(_NARROW)
    if "<" in text:
        text = _TAG.sub(" ", text)
    text = _EMPHASIS.sub(_without_lines, text)
    for whole in (text, text.lstrip(_OPENING).rstrip(_CLOSING)):
        if found := labels.here.fullmatch(whole):
            return _spelled(found, labels), "ok", "whole_text"
    places = list(labels.anywhere.finditer(text))
    starts = [found.start() for found in places]
    for _, end in reversed(cues.ends(_CUE, cues.in_lower_case(text))):
        if found := _behind_cue(text, end, labels, places, starts):
            return _spelled(found, labels), "ok", "cue"
    for found in places:
        if not _is_single(found, labels) or letters.is_label(text, found.start()):
            return _spelled(found, labels), "ok", "first_label"
    return None, "no_match", "no_label"


def _behind_cue(
    text: str, end: int, labels: Labels, places: list[re.Match[str]], starts: list[int]
) -> re.Match[str] | None:
    """Find the label that follows a cue with nothing but decoration between."""
    if _SIGN.match(text, end - 1):  # "Score -1": the link is a sign
        end -= 1
    gap = _GAP.match(text, end)
    last = gap.end() if gap else end
    following = bisect_left(starts, end)
    near = places[following] if following < len(places) and starts[following] <= last else None
    # scripts without blanks between words: the cue itself is the bound on the left
    found = near or labels.here.match(text, last)
    if found and _is_single(found, labels) and not letters.is_label_behind_cue(text, found.start()):
        return None
    return found


def _is_single(found: re.Match[str], labels: Labels) -> bool:
    return labels.single[(found.lastindex or 1) - 1]


def _spelled(found: re.Match[str], labels: Labels) -> str:
    return labels.spellings[(found.lastindex or 1) - 1]


def _without_lines(emphasis: re.Match[str]) -> str:
    """Take the underscores of ``__B__`` for decoration; every character keeps its place."""
    blank = " " * len(emphasis[1])
    return f"{blank}{emphasis[2]}{blank}"


def _label_set(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    case_sensitive = bool(config.get("case_sensitive", False))
    labels = compiled(tuple(config["labels"]), case_sensitive)

    def read(text: str) -> Reading:
        return read_label(text, labels)

    def by_columns(texts: pl.Series) -> pl.DataFrame:
        found_by = expressions(labels.spellings, labels.plain, case_sensitive)
        if found_by is None:  # labels with signs or of other scripts are no expression: the walk reads all
            return pl.DataFrame(schema={"answer": pl.String, "rule": pl.String}).clear(len(texts))
        return express(texts, found_by, case_sensitive=case_sensitive)

    return by_expressions(texts, by_columns, read, setup=_SETUP)


def express(texts: pl.Series, found_by: Expressions, *, case_sensitive: bool) -> pl.DataFrame:
    """Read a column by expressions: ``answer`` and ``rule``, no rule where they can not tell."""
    is_unusual = having(texts, lambda: f"[{''.join(_PLAIN_SIGNS)}{label_columns.LETTERS}]")
    rows = is_unusual.arg_true()
    if len(rows):
        texts = texts.scatter(rows, texts.gather(rows).str.replace_many(_PLAIN_SIGNS))
    tagged = texts.str.contains("<", literal=True).arg_true()
    if len(tagged):
        texts = texts.scatter(tagged, texts.gather(tagged).str.replace_all(f"(?i){_TAG.pattern}", " "))
    return label_columns.read(
        texts, found_by, has_letters=is_unusual, case_sensitive=case_sensitive, opening=_OPENING, closing=_CLOSING
    )


LABEL_SET = Extractor(name="label_set", apply=_label_set, cleans=True)
