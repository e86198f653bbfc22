r"""The extraction type ``label_set`` by expressions: whole columns of ordinary replies, exactly as the walk reads them.

In the order of the walk: the text is nothing but a label; a label behind the last cue that may have one; the first
label of the text. What is proven in no way (a small letter before a bracket, a letter beside a hyphen, ...), and
sets of labels of other than ASCII words and numbers, are left to the walk: ``labels`` and ``letters``. The
expressions are in ``label_expressions``.
"""

from __future__ import annotations

import re

import polars as pl

from evalframe.extractors import cues
from evalframe.extractors.characters import BLANKS
from evalframe.extractors.label_expressions import NOUNS, Expressions
from evalframe.extractors.windows import hides_another, letters_of, stems, windows

_STEMS = stems(NOUNS, cues.LABEL_MARKS)
LETTERS = letters_of(_STEMS)
_HIDES = hides_another(NOUNS, _STEMS)
_UNCASED = r"^(?:[<\\]|" + "|".join(re.escape(noun) for noun in NOUNS if not cues.is_cased(noun[0])) + ")"


def read(
    texts: pl.Series, labels: Expressions, *, has_letters: pl.Series, case_sensitive: bool, opening: str, closing: str
) -> pl.DataFrame:
    """Read the labels of a column: ``answer`` and ``rule``; no rule where the walk must read.

    Args:
        texts: String, cleaned, in plain signs, without nulls and blanks.
        labels: The expressions of the set.
        has_letters: Whether a text may have one of ``LETTERS``, those of the cues that are not of ASCII.
        case_sensitive: Whether case counts.
        opening, closing: Decoration around a text that is nothing but a label.
    """
    text = pl.col("text")
    rows = pl.DataFrame({"text": texts}).with_row_index("row")
    places, crowded = windows(texts, _STEMS, has_letters)
    bare = text.str.strip_chars_start(opening).str.strip_chars_end(closing)
    found = rows.with_columns(
        whole=bare.str.extract(labels.whole),
        is_odd=text.str.contains(labels.odd) | crowded,
    ).join(_marked(places, labels), on="row", how="left", maintain_order="left")
    is_whole, is_marked = pl.col("whole").is_not_null(), pl.col("is_marked").fill_null(False)
    is_plain = ~pl.col("is_odd") & ~pl.col("is_hidden").fill_null(False)
    first = _first(found.filter(is_plain & ~is_whole & ~is_marked).select("row", "text"), labels)
    found = found.join(first, on="row", how="left", maintain_order="left")
    taken = pl.when(is_plain).then(pl.coalesce("whole", "marked", "first"))
    answer = pl.when(taken.is_not_null()).then(_spelled(taken, labels, case_sensitive))
    return found.select(answer.alias("answer"), rule=(
        pl.when(~is_plain).then(None)
        .when(is_whole).then(pl.lit("whole_text"))
        .when(pl.col("marked").is_not_null()).then(pl.lit("cue"))
        .when(is_marked).then(None)
        .when(pl.col("first").is_not_null()).then(pl.lit("first_label"))
        .when(pl.col("has_none")).then(pl.lit("no_label"))
    ))  # fmt: skip


def _marked(places: pl.DataFrame, labels: Expressions) -> pl.DataFrame:
    """Give, for each text with a cue that a label may follow, the label that is proven to follow the last one."""
    window = pl.col("window")
    may_follow = window.str.contains(labels.may_follow) | (pl.col("cut") & window.str.contains(labels.may_be_cut))
    # "masterclass: B"
    is_part = pl.col("in_word") & window.str.contains("^[A-Za-z]")
    last = places.filter(may_follow & ~is_part).group_by("row", maintain_order=True).last()
    begins = pl.col("is_free") | window.str.contains(_UNCASED)
    follows = pl.when(begins).then(window.str.extract_groups(labels.follows))
    marked = last.select("row", _any_group(follows).alias("marked"), is_marked=pl.lit(True))
    hidden = places.filter(window.str.contains(_HIDES)).select("row", is_hidden=pl.lit(True)).unique("row")
    return marked.join(hidden, on="row", how="full", coalesce=True)


def _first(rows: pl.DataFrame, labels: Expressions) -> pl.DataFrame:
    """Give the first label of each text where it is proven, and whether there is none."""
    text = pl.col("text")
    taken = rows.select("row", "text", _any_group(text.str.extract_groups(labels.is_first)).alias("first"))
    if labels.may_be == labels.is_first:
        return taken.select("row", "first", pl.col("first").is_null().alias("has_none"))
    may_be, is_first = text.str.find(labels.may_be), text.str.find(labels.is_first)
    return taken.select(
        "row", pl.when(may_be == is_first).then("first").alias("first"), may_be.is_null().alias("has_none")
    )


def _any_group(groups: pl.Expr) -> pl.Expr:
    return pl.coalesce(groups.struct.field("*"))


def _spelled(taken: pl.Expr, labels: Expressions, case_sensitive: bool) -> pl.Expr:
    """Give the label as it is spelled in the set."""
    key = taken.str.replace_all(f"[{BLANKS}]+", " ")
    key = key if case_sensitive else key.str.to_lowercase()
    return key.replace_strict(labels.spellings, default=None, return_dtype=pl.String)
