r"""Where the cues of a column of texts may be, and what stands behind each: the first step of reading by expressions.

A column is searched once for the *stems* of all cues. Each place is one row of a frame: the byte where the stem begins,
the character before it, and a window on the text from there. What is decided on a window is decided by two expressions:
a wide one, which takes at least every place that the walk takes for a cue with an answer, and a strict one, which takes
only places of which it is proven that the walk takes the same answer there. A text whose last place that the wide one
takes is taken by the strict one is read; any other is left to the walk. Both run in Rust's engine, so that every class
is spelled out: its ``\w``, ``\s`` and ``\b`` are not Python's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

import numpy as np
import polars as pl

from evalframe.extractors import cues
from evalframe.extractors.characters import has_capital, in_rust

WINDOW_BYTES = 512  # longer than any cue with its note in brackets
MOST_PLACES = 200  # a text with more is left to the walk
_MOST_LETTERS = 3  # of a stem outside ASCII: each doubles the stems

_MARK_STEMS = {
    r"<answer>": ("<answer>",), r"<label>": ("<label>",), r"\\[fc]?box(?:ed)?[ ]?\{": (r"\box", r"\fbox", r"\cbox"),
    r"(?<!#)####(?!#)": ("####",),
    r"\bi (?:would |will )?(?:choose|pick|select|go with|opt for)(?!\w)":
        ("i would ", "i will ", "i choose", "i pick", "i select", "i go with", "i opt for"),
    r"选择?": ("选",),
}  # fmt: skip
# what the character before a place is, by its byte
_OTHER, _IN_WORD, _FREE, _NOTHING = range(4)
_KINDS = np.array(
    [_IN_WORD if chr(b).isalnum() else _OTHER if chr(b) in "_#" else _FREE for b in range(0x80)] + [_OTHER] * 0x80
)
_LOOK_AROUND = re.compile(r"\(\?(?:<!#|!#|!\\w)\)|\\b")


def stems(nouns: Iterable[str], marks: Iterable[str]) -> list[str]:
    """Give literals such that each cue begins with one of them, in some case of its ASCII letters; none begins another.

    >>> stems(["answer", "ans", "réponse"], ["<answer>"])
    ['<answer>', 'ans', 'rÉponse', 'réponse']
    """
    found = {stem for mark in marks for stem in _MARK_STEMS[mark]}
    found.update(*map(_spellings, nouns))
    return sorted(stem for stem in found if not any(stem != other and stem.startswith(other) for other in found))


def _spellings(noun: str) -> list[str]:
    letters: list[tuple[str, ...]] = []
    n_cased = 0
    for char in noun:
        cased = not char.isascii() and has_capital(char)
        n_cased += cased
        if n_cased > _MOST_LETTERS:
            break
        letters.append((char, char.upper()) if cased else (char,))
    return list(map("".join, product(*letters)))


def wide(nouns: Iterable[str], marks: Iterable[str]) -> str:
    """Spell ``cues.pattern`` for Rust's engine, without what it can not look at: it takes at least what that takes."""
    links = "|".join(map(re.escape, sorted(cues.LINKS, key=len, reverse=True)))
    seen = "|".join(_LOOK_AROUND.sub("", mark) for mark in marks)
    return f"(?i:(?:{_words(nouns)}){in_rust(cues.BETWEEN)}(?:{links})|{seen})"


def hides_another(nouns: Iterable[str], all_stems: Iterable[str]) -> str:
    """Take a noun whose note in brackets holds another cue, which is then none: ``answer (the answer is 5): 6``."""
    others = "|".join(map(re.escape, all_stems))
    return rf"^(?i:(?:{_words(nouns)})(?: to (?:the|this) question)? ?\([^()\n]{{0,40}}(?:{others}))"


def _words(nouns: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(nouns, key=len, reverse=True)))


def letters_of(all_stems: Iterable[str]) -> str:
    """Give the letters outside ASCII: a text without them has only stems of ASCII."""
    return "".join(sorted({char for stem in all_stems for char in stem if not char.isascii()}))


def windows(texts: pl.Series, all_stems: list[str], has_letters: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Find the stems in a column.

    Args:
        texts: String, without nulls.
        all_stems: As ``stems`` gives them.
        has_letters: Whether a text may have one of ``letters_of(all_stems)``: to look for all stems in each text takes
            three times as long.

    Returns:
        One row for each place, in order: ``row`` of the text, ``in_word`` and ``is_free`` (whether the character before
        is a letter or digit of ASCII, and whether it is none, or one of ASCII that neither goes on in a word nor is
        ``_`` or ``#``), ``window`` and ``cut`` (whether the text goes on behind it); and for each text whether it has
        too many places to look at.
    """
    rows = pl.DataFrame({"text": texts}).with_row_index("row")
    found = _find(rows, [stem for stem in all_stems if stem.isascii()])
    if has_letters.any():
        found = pl.concat([found, _find(rows.filter(has_letters), [stem for stem in all_stems if not stem.isascii()])])
    places, crowded = _in_order(found)
    start, size = places["start"], places["bytes"].bin.size()
    byte = places["bytes"].bin.get(start.cast(pl.Int64) - 1, null_on_oob=True).fill_null(0).to_numpy()
    kind = np.where(start.to_numpy() == 0, _NOTHING, _KINDS.take(byte))
    cut = size > start + WINDOW_BYTES
    seen = places.select(
        "row",
        pl.Series("in_word", kind == _IN_WORD),
        pl.Series("is_free", (kind == _FREE) | (kind == _NOTHING)),
        pl.col("bytes").bin.slice(pl.col("start"), _lengths(places, cut)).cast(pl.String).alias("window"),
        cut.alias("cut"),
    )
    return seen, rows["row"].is_in(crowded.implode())


def _in_order(found: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Give the places text by text, and the texts that have too many, whose places are left out."""
    key = found["row"].to_numpy().astype(np.uint64) << np.uint64(32) | found["start"].to_numpy()
    # nearly in order as they come, which a stable sort of numpy's makes use of
    ordered = found if (key[1:] >= key[:-1]).all() else found[np.argsort(key, kind="stable")]
    row = ordered["row"].to_numpy()
    crowded = pl.Series(np.unique(row[MOST_PLACES:][row[MOST_PLACES:] == row[:-MOST_PLACES]]), dtype=pl.UInt32)
    return (ordered.filter(~pl.col("row").is_in(crowded.implode())) if len(crowded) else ordered), crowded


def _lengths(places: pl.DataFrame, cut: pl.Series) -> pl.Series:
    """Give the bytes of each window; one that is cut ends where a character ends, at most three bytes earlier."""
    lengths = pl.repeat(WINDOW_BYTES, places.height, dtype=pl.UInt32, eager=True)
    rows = cut.arg_true()
    if rows.is_empty():
        return lengths
    end = pl.col("start") + WINDOW_BYTES
    length = pl.lit(WINDOW_BYTES - 3, dtype=pl.UInt32)
    for back in (2, 1, 0):
        following = pl.col("bytes").bin.slice(end - back, 1)
        length = pl.when(_is_inside_a_character(following)).then(length).otherwise(WINDOW_BYTES - back)
    return lengths.scatter(rows, places[rows].select(length.cast(pl.UInt32)).to_series())


def _find(rows: pl.DataFrame, literals: list[str]) -> pl.DataFrame:
    """Give a row for each place, with the bytes of its text; of a text with far too many only so many."""
    places = pl.col("text").str.find_many(literals, ascii_case_insensitive=True, overlapping=True)
    found = rows.select(
        "row", pl.col("text").cast(pl.Binary).alias("bytes"), places.list.head(MOST_PLACES + 1).alias("start")
    )
    return found.filter(pl.col("start").list.len() > 0).explode("start", empty_as_null=True)


def _is_inside_a_character(byte: pl.Expr) -> pl.Expr:
    return (byte >= pl.lit(b"\x80")) & (byte < pl.lit(b"\xc0"))
