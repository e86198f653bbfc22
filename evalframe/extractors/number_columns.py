r"""The extraction type ``number`` by expressions: whole columns of ordinary replies, exactly as the walk reads them.

Three ways to the answer, each by a regular expression that proves what it takes:

* ``_TAIL``: the last number of the text, where no cue has one. Behind it there is no digit, so that no notation can go
  on; what stands before it can not be the beginning of a longer number.
* ``_CUED``: ``The answer is **18**. There were 20.``: a cue, decoration, one number, and then a word or a new line.
* ``_BOXED``: a box of nothing but one number.

All else (fractions, exponents, units with exponents, terms, ...) is left to the walk: ``number_scan`` and ``numbers``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category

import polars as pl

from evalframe.extractors import cues
from evalframe.extractors.characters import BLANKS, STRANGE_LETTERS, any_case, having, in_rust
from evalframe.extractors.number_scan import in_plain_signs
from evalframe.extractors.windows import hides_another, letters_of, stems, wide, windows

_MARKS = (*cues.NUMBER_MARKS, r"(?<!#)####(?!#)")
_STEMS = stems([*cues.ANSWER_NOUNS], [*_MARKS, r"\\[fc]?box(?:ed)?[ ]?\{"])
_BOX = r"\\[fc]?box(?:ed)?[ ]?\{"
_VULGAR = "¼½¾⅐-⅞"

# --- the last number of a text
# at most 30 digits, so that the number is never written with an exponent
_SIGN = r"(-?\$?-?)"
_NUMBER = r"(?:([0-9]{1,3}(?:,[0-9]{3}){1,9}|[0-9]{1,30})(?:\.([0-9]{1,30}))?|\.([0-9]{1,30}))"
# no part of a number, of a power or of a command; no letter right before: "x2"
_SAFE_BEFORE = r"(?:^|[A-WYZa-wyz:=,.;)!?] | \*\*|[:.]\*\* ?|[^\x00-\x7F×·⋅∙√] |>>|[:=]|[A-Za-z ]\()"
_HARMLESS = rf"[^0-9xXbBoO{_VULGAR}\\}}%^<√π⁰¹²³⁴-⁹ ]"
_TAIL = (
    rf"(?m:^)(?:[^\n\\]*?{_SAFE_BEFORE})?{_SIGN}{_NUMBER}(%?)"
    rf"(?:{_HARMLESS}[^0-9{_VULGAR}\\}}]*| (?:{_HARMLESS}[^0-9{_VULGAR}\\}}]*)?)?\z"
)
_OF_SIGNS = frozenset({"Nd", "Sc", "Sm", "Pd", "Po"})  # digits, currencies; and what else a sign of numbers may be
_HIGHEST = 0x20000  # of the code points that are looked at for digits and currencies
_A_DIGIT = rf"[0-9{_VULGAR}]"

# --- a number behind a cue
_LINK = rf"(?:[:=：](?:\*\*)?|(?:is|are|was|would be|should be|must be|will be)[{BLANKS}])"
_OPENING = rf"[{BLANKS}]{{0,5}}(?:\*\*|\(|\"|approximately |about |exactly )?"
_NOUNS = "|".join(map(any_case, sorted(cues.ANSWER_NOUNS, key=len, reverse=True)))
_CLOSING = r"(?:\*\*|[$\")])?[.,;:!?]?(?:\*\*)?"
_NEXT_WORD = r" [A-SU-WYZa-su-wyz][a-z]"  # no " x 10" and no " to 9"
_CUED = (
    rf"^(?:(?:{_NOUNS})[*_`\"')\]}}$]{{0,4}} ?{_LINK}|<{any_case('answer')}>){_OPENING}{_SIGN}{_NUMBER}(%?)"
    rf"{_CLOSING}(?:\n|\z|</|{_NEXT_WORD})"
)
# "#### 2. The next step" is a heading
_HASHED = rf"^####{_OPENING}{_SIGN}{_NUMBER}(%?)(?:\*\*)?(?:\.?(?:\n|\z)|{_NEXT_WORD})"
_BOXED = rf"^{_BOX}(-?(?:\\?\$)?-?){_NUMBER}((?:\\?%)?)\}}"
_UNCASED = "^(?:" + "|".join(re.escape(noun) for noun in cues.ANSWER_NOUNS if not cues.is_cased(noun[0])) + ")"
# no argument of a command can end behind it
_NOTHING_CLOSES, _ONLY_THE_BOX_CLOSES = r"^[^}]*\z", r"^[^{}]*\{[^{}]*\}[^}]*\z"

# --- places that may have an answer at all
_GAP = in_rust(
    rf"(?i:{cues.DECORATION}|approximately|about|around|roughly|exactly|just|only|simply|equal to|equals|therefore"
    r"|thus|a total of|the|\\?[A-Za-z][^\s=]{0,9}\s?=|\\?(?:approx|sim)|[±+])*"
)
_WIDE_CUE = rf"^(?:{wide(cues.ANSWER_NOUNS, _MARKS)}){_GAP}"
_WIDE = rf"{_WIDE_CUE}[^0-9A-Za-z]{{0,6}}(?:{_A_DIGIT}|\\[dtc]?frac)|^{_BOX}"
_WIDE_CUT = rf"{_WIDE_CUE}[^0-9]{{0,24}}\z"  # the number may begin behind the window
_HIDES = hides_another(cues.ANSWER_NOUNS, _STEMS)


def read(texts: pl.Series) -> pl.DataFrame:
    """Read the numbers of a column: ``answer`` and ``rule``; no rule where the walk must read.

    Args:
        texts: String, cleaned, without nulls and blanks.
    """
    text = pl.col("text")
    is_unusual = having(texts, lambda: f"[{''.join(_unusual_signs())}{letters_of(_STEMS)}{STRANGE_LETTERS}]")
    rows = pl.DataFrame({"text": _folded(texts, is_unusual)}).with_row_index("row")
    places, crowded = windows(rows["text"], _STEMS, is_unusual)
    found = _numbers(
        rows.select(
            "row",
            text.str.extract_groups(_TAIL).alias("groups"),
            has_digit=text.str.contains(_A_DIGIT),
            has_arguments=text.str.contains_any(["frac", r"\sqrt"]),
            is_odd=text.str.contains(f"[{STRANGE_LETTERS}]") | crowded,
        ),
        "tail",
    ).join(_marked(places), on="row", how="left", maintain_order="left")
    number = pl.col("has_digit") & ~pl.col("is_odd") & ~pl.col("is_hidden").fill_null(False)
    is_sound = pl.col("is_safe") | ~pl.col("has_arguments")
    return found.select(
        answer=pl.when(number & pl.col("kind").is_null()).then("tail_number")
        .when(number & is_sound).then("mark_number"),
        rule=pl.when(~pl.col("has_digit")).then(pl.lit("no_number"))
        .when(number & pl.col("kind").is_null()).then("last_number" + pl.col("tail_percent"))
        .when(number & is_sound).then(pl.col("kind") + pl.col("mark_percent")),
    )  # fmt: skip


def _marked(places: pl.DataFrame) -> pl.DataFrame:
    """Give, for each text with a place that may have an answer, what is proven to be read at the last one."""
    window, is_cut = pl.col("window"), pl.col("cut")
    is_box = window.str.contains(f"^{_BOX}")
    is_hash = window.str.starts_with("#")
    begins = pl.col("is_free") | window.str.contains(_UNCASED)
    groups = (
        pl.when(is_box).then(window.str.extract_groups(_BOXED))
        .when(is_hash & begins).then(window.str.extract_groups(_HASHED))
        .when(begins).then(window.str.extract_groups(_CUED))
    )  # fmt: skip
    is_alone = (
        pl.when(is_box).then(window.str.contains(_ONLY_THE_BOX_CLOSES)).otherwise(window.str.contains(_NOTHING_CLOSES))
    )
    kind = pl.when(is_box).then(pl.lit("boxed")).when(is_hash).then(pl.lit("hashes")).otherwise(pl.lit("cue"))
    hides = window.str.contains(_HIDES)
    may_have = window.str.contains(_WIDE) | (is_cut & window.str.contains(_WIDE_CUT))
    # "jeans is 5"
    is_part = pl.col("in_word") & window.str.contains("^[A-Za-z]")
    last = places.filter(may_have & ~is_part).group_by("row", maintain_order=True).last()
    read = _numbers(last.select("row", groups=groups, kind=kind, is_safe=is_alone & ~is_cut), "mark")
    hidden = places.filter(hides).select("row", is_hidden=pl.lit(True)).unique("row")
    return read.join(hidden, on="row", how="full", coalesce=True)


def _numbers(found: pl.DataFrame, name: str) -> pl.DataFrame:
    """Make the canonical number of ``groups``, and what the rule says of a percent sign; null where there is none."""
    parts = found.select(
        pl.col("groups").struct.field(str(place)).alias(part)
        for place, part in enumerate(("sign", "whole", "decimals", "decimals_alone", "percent"), 1)
    )
    trimmed = parts.select(
        "percent",
        is_found=pl.any_horizontal(pl.col("whole", "decimals_alone").is_not_null()),
        sign=pl.when(pl.col("sign").str.contains("-", literal=True)).then(pl.lit("-")).otherwise(pl.lit("")),
        digits=pl.col("whole").str.replace_all(",", "", literal=True).str.strip_chars_start("0").fill_null(""),
        decimals=pl.coalesce("decimals", "decimals_alone", pl.lit("")).str.strip_chars_end("0"),
    )
    whole = pl.when(pl.col("digits") == "").then(pl.lit("0")).otherwise("digits")
    point = pl.when(pl.col("decimals") == "").then(pl.lit("")).otherwise(pl.lit("."))
    is_zero = (pl.col("digits") == "") & (pl.col("decimals") == "")
    value = pl.when(is_zero).then(pl.lit("0")).otherwise(pl.col("sign") + whole + point + pl.col("decimals"))
    percent = pl.when(pl.col("percent") == "").then(pl.lit("")).otherwise(pl.lit(" percent"))
    read = trimmed.select(
        pl.when("is_found").then(value).alias(f"{name}_number"),
        pl.when("is_found").then(percent).alias(f"{name}_percent"),
    )
    return pl.concat([found.drop("groups"), read], how="horizontal")


def folded(texts: pl.Series) -> pl.Series:
    """Give the texts in plain signs, as ``number_scan.in_plain_signs`` does."""
    return _folded(texts, having(texts, lambda: f"[{''.join(_unusual_signs())}]"))


def _folded(texts: pl.Series, is_unusual: pl.Series) -> pl.Series:
    rows = is_unusual.arg_true()
    return texts.scatter(rows, texts.gather(rows).str.replace_many(_unusual_signs())) if len(rows) else texts


@lru_cache(maxsize=1)
def _unusual_signs() -> dict[str, str]:
    """Give what ``in_plain_signs`` makes of each sign that it changes; none is higher than ``_HIGHEST``."""
    # those that may change are picked first: to translate each code point takes ten times as long, and its memory
    signs = [char for char in map(chr, range(0x80, _HIGHEST)) if category(char) in _OF_SIGNS]
    return {char: plain for char in signs if (plain := in_plain_signs(char)) != char}
