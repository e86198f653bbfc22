"""Telling a letter that is a label from a letter that is a word or a part of one.

Words are the article *A*, the pronoun *I*, and what is written with single letters: ``I'm``, ``B-52``, ``A-D``,
``e.g.``, ``U.S.``, ``f(a)``, ``P(A)``, ``C++``, ``C#``, ``B+``, ``N/A``, ``Q&A``, ``25 °C``.
"""

from __future__ import annotations

import re

# all look at a few characters only, so that a long text costs no more than its length
_AROUND = 24

_PART_BEFORE = re.compile(
    r"\w['’]\Z"  # O'B
    r"|\w[-‑–]\Z"  # vitamin-C
    r"|\w[./&]\Z"  # e.g, N/A, Q&A
    r"|(?<![^\W_])[^\W\d_]{1,3}\(\Z"  # f(a), P(A)
    r"|[°\\]\Z"
)
_PART_BEHIND = re.compile(r"['’]\w|[-‑–]\w|[.&]\w|[+#]|\(")
_PART_BEHIND_CUE = re.compile(r"['’]\w|[-‑–]\w|[+#]|&\w|\.\w\.")
_STOP = re.compile(r"\.(?:[\s*_`$\"'”’)\]}]|$)")
# words that follow a label and no article or pronoun
_GOES_ON = re.compile(
    r"[\s*_`$]+(?:is|was|isn['’]t|wasn['’]t|and|or|but|because|since|as|seems|appears|fits|works|matches|holds|follows"
    r"|has|would|should)(?![-\w])",
    re.IGNORECASE,
)
_IS = re.compile(r"[\s*_`$]+is(?!\w)")
_WORD = re.compile(r"[ \t\u00a0]+[*_`\"“]*[^\W\d_]")
_SMALL_WORD = re.compile(r"[ \t\u00a0]+[*_`]*(?P<first>[^\W\d_])")
_SENTENCE = re.compile(r"(?:^|[\n.!?:;—>)•-])[\s*_`\"“(]*\Z")
_NAMED = re.compile(r"\b(?:option|choice|letter|label|answer|statement|item)s?\s*[*_`(\"]*\Z", re.IGNORECASE)


def is_label(text: str, place: int) -> bool:
    """Tell whether the letter at a place, which has no word character on either side, is a label by itself."""
    before, letter = text[max(0, place - _AROUND) : place], text[place]
    if _PART_BEFORE.search(before) or _PART_BEHIND.match(text, place + 1):
        return False
    if not letter.isupper():
        return _is_punctuated(text, place)
    if letter == "I":
        return not _WORD.match(text, place + 1) or bool(_IS.match(text, place + 1) or _NAMED.search(before))
    if letter == "A" and _WORD.match(text, place + 1) and not _GOES_ON.match(text, place + 1):
        # in the middle of a sentence the article is small
        begins = _SENTENCE.search(text, max(0, place - _AROUND), place)
        return not begins or bool(_NAMED.search(before))
    return True


def is_label_behind_cue(text: str, place: int) -> bool:
    """Tell whether the letter at a place right behind a cue is a label: not so in ``Answer: A hexagon``."""
    if _PART_BEHIND_CUE.match(text, place + 1):
        return False
    if text[place] in "aAiI" and (word := _SMALL_WORD.match(text, place + 1)):
        goes_on = bool(_GOES_ON.match(text, place + 1))
        return goes_on or (text[place] == "A" and word["first"].isupper())
    return True


def _is_punctuated(text: str, place: int) -> bool:
    """Tell ``(b)``, ``[b]``, ``b)`` and ``b.`` from a small letter in running text."""
    before, behind = text[place - 1 : place], text[place + 1 : place + 2]
    if before + behind in ("()", "[]"):
        return True
    if behind == ")":
        return not _is_in_brackets(text[max(0, place - 80) : place].rpartition("\n")[2])  # not "(a and b)"
    return bool(_STOP.match(text, place + 1))


def _is_in_brackets(before: str) -> bool:
    depth = 0
    for char in reversed(before):
        if char == ")":
            depth += 1
        elif char == "(":
            if not depth:
                return True
            depth -= 1
    return False
