"""The extraction types ``regex`` and ``regex_last``: a group of the first or of the last match.

The dialect is Python's ``re``; the text is seen as it is. For reasoning that ends in the answer use ``regex_last``.
Where ``routing`` proves that Rust's engine gives the same, it runs there, whole columns at a time; every other text
goes to Python's ``re`` in a worker process (``regex_process``), if at all it may hold a match.

Rules: ``first_match``, ``last_match``; without an answer ``no_match``, ``group_unset`` (the pattern matched, the group
took no part in it), ``empty_group`` (the group holds nothing but blanks, which is no answer), ``time_limit``,
``memory_limit`` (both with status ``timeout``, and only where Python's engine runs: Rust's takes linear time). Of a
text over ``Limits.regex_text_chars`` the first or last so many characters are searched, and the rule says so:
``first_match in the first 1048576 characters``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import polars as pl

from evalframe.errors import OptionError
from evalframe.extractors import Extractor
from evalframe.extractors.characters import having
from evalframe.extractors.cleaning import NO_INK
from evalframe.extractors.regex_process import FOUND, Search, search_all
from evalframe.extractors.routing import Program, disputed, program, sieve
from evalframe.limits import Limits
from evalframe.sandbox.regex_worker import FLAGS, GROUP_UNSET, NO_MATCH, OK, WORDS
from evalframe.words import ExtractionStatus

_STATUS: dict[str, ExtractionStatus] = {"time_limit": "timeout", "memory_limit": "timeout"}
_MANY_TEXTS = (
    10_000  # from here on it pays to spell a pattern for all of Unicode, which takes some hundredths of a second
)
_SHORT_CHARS = 400  # a class of few ranges is no slower for all of Unicode


def _regex(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    return _extract(texts, config, limits, last=False)


def _regex_last(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    return _extract(texts, config, limits, last=True)


def _extract(texts: pl.Series, config: Mapping[str, Any], limits: Limits, *, last: bool) -> pl.DataFrame:
    pattern, flags = config["pattern"], config.get("flags") or ""
    group = _group(pattern, flags, config.get("group"))
    search = Search(pattern=pattern, flags=flags, group=group, last=last, seconds=limits.regex_seconds_per_text)
    most = limits.regex_text_chars
    side = "last" if last else "first"
    if (texts.str.len_bytes() <= most).all():  # no text has more characters than bytes
        return _readings(find(texts, search), f"{side}_match")
    long = texts.str.len_chars() > most
    cut = texts.str.tail(most) if last else texts.str.head(most)
    readings = _readings(find(texts.zip_with(~long, cut), search), f"{side}_match")
    where = pl.when(long).then(pl.lit(f" in the {side} {most} characters")).otherwise(pl.lit(""))
    return readings.with_columns(pl.col("extraction_rule") + where)


def _readings(found: pl.DataFrame, rule: str) -> pl.DataFrame:
    """Make the columns of an extractor out of those of ``FOUND``."""
    outcomes: list[tuple[ExtractionStatus, str]] = [(_STATUS.get(word, "no_match"), word) for word in WORDS]
    # behind the words: an answer that holds ink, and one that holds none
    outcomes += [("ok", rule), ("no_match", "empty_group")]
    has_ink = pl.col("has_ink")  # null where there is no answer
    found = found.with_columns(has_ink=_has_ink(found["answer"]))
    outcome = pl.when(has_ink).then(len(WORDS)).when(~has_ink).then(len(WORDS) + 1).otherwise("word")
    read = found.select(pl.when(has_ink).then("answer").alias("extracted_output"), outcome.alias("outcome"))
    status, reason = (
        pl.Series(column, dtype=pl.String).gather(read["outcome"]) for column in zip(*outcomes, strict=True)
    )
    return read.select("extracted_output", extraction_status=status, extraction_rule=reason)


def _has_ink(answers: pl.Series) -> pl.Series:
    """Tell which answers are more than blanks: those that begin with ink of ASCII are not stripped to see it."""
    has_ink = (answers >= "!") & (answers < "\x7f")
    rows = (~has_ink).arg_true()
    return has_ink.scatter(rows, answers.gather(rows).str.strip_chars(NO_INK) != "") if len(rows) else has_ink


def find(texts: pl.Series, search: Search) -> pl.DataFrame:
    """Search every text with the engine that is proven for it.

    Args:
        texts: String, without nulls and empty texts.
        search: The pattern compiles and has the group.

    Returns:
        The columns of ``regex_process.FOUND``: the same as ``search_all`` gives, but for what would be over its time
        there.
    """
    found: list[pl.DataFrame] = []
    for part, ascii_only in _by_spelling(texts.alias("text").to_frame().with_row_index("place"), search):
        spelled = _program(search, ascii_only=ascii_only)
        if isinstance(spelled, Program):
            proven = suits(part["text"], spelled)
            if proven.all():
                found.append(_by_rust(part, spelled, last=search.last))
                continue
            found.append(_by_rust(part.filter(proven), spelled, last=search.last))
            part = part.filter(~proven)
        if not part.is_empty():
            found += _by_python(part, search, ascii_only=ascii_only)
    if not found:
        return pl.DataFrame(schema=FOUND)
    return (pl.concat(found).sort("place") if len(found) > 1 else found[0]).select(list(FOUND))


def _by_spelling(every: pl.DataFrame, search: Search) -> list[tuple[pl.DataFrame, bool]]:
    """Part the texts into those of ASCII and the others; where there are many, one short spelling is faster for all."""
    if every.height >= _MANY_TEXTS:
        spelled = _program(search, ascii_only=False)
        if isinstance(spelled, Program) and len(spelled.find) <= _SHORT_CHARS:
            return [(every, False)]
    is_ascii = pl.col("text").str.len_bytes() == pl.col("text").str.len_chars()
    parts = ((every.filter(is_ascii), True), (every.filter(~is_ascii), False))
    return [(part, ascii_only) for part, ascii_only in parts if not part.is_empty()]


def _program(search: Search, *, ascii_only: bool) -> Program | str:
    return program(search.pattern, search.flags, search.group, last=search.last, ascii_only=ascii_only)


def suits(texts: pl.Series, spelled: Program) -> pl.Series:
    """Tell of which texts the spelling is proven."""
    proven = texts.str.len_bytes() <= spelled.most_bytes
    if spelled.no_final_newline:
        proven &= ~texts.str.ends_with("\n")
    if spelled.no_disputed:
        proven &= ~having(texts, disputed)
    return proven


def _by_rust(part: pl.DataFrame, spelled: Program, *, last: bool) -> pl.DataFrame:
    searched = _last_match(part, spelled) if last else _first_match(part, spelled)
    without = _code(NO_MATCH)
    if not spelled.certain:
        without = pl.when("has_match").then(_code(GROUP_UNSET)).otherwise(without)
    word = pl.when(pl.col("answer").is_not_null()).then(_code(OK)).otherwise(without)
    return searched.select("place", word.alias("word"), "answer")


def _first_match(part: pl.DataFrame, spelled: Program) -> pl.DataFrame:
    part = part.with_columns(answer=pl.col("text").str.extract(spelled.find, spelled.group))
    if spelled.certain:
        return part
    in_question = pl.when(pl.col("answer").is_null()).then("text")  # a null is not searched again
    return part.with_columns(has_match=in_question.str.contains(spelled.find))


def _last_match(part: pl.DataFrame, spelled: Program) -> pl.DataFrame:
    if spelled.walk:
        return part.with_columns(answer=pl.col("text").str.extract(spelled.walk, 1))
    match = pl.col("text").str.extract_all(spelled.find).list.last()
    part = part.with_columns(answer=match).with_columns(has_match=pl.col("answer").is_not_null())
    return part.with_columns(pl.col("answer").str.extract(spelled.inside, 1)) if spelled.inside else part


def _code(number: int) -> pl.Expr:
    return pl.lit(number, dtype=FOUND["word"])


def _by_python(part: pl.DataFrame, search: Search, *, ascii_only: bool) -> list[pl.DataFrame]:
    """Search in the worker those texts that may hold a match; of the others it is known that they hold none."""
    found = []
    if sifting := sieve(search.pattern, search.flags, ascii_only=ascii_only):
        sifted = pl.when(pl.col("text").str.len_bytes() <= sifting.most_bytes).then("text")
        may_match = part.select(sifted.str.contains(sifting.wide).fill_null(True)).to_series()
        found.append(part.filter(~may_match).select("place", word=_code(NO_MATCH), answer=pl.lit(None, pl.String)))
        part = part.filter(may_match)
    return [*found, part.select("place").hstack(search_all(part["text"], search))]


def _group(pattern: str, flags: str, group: int | str | None) -> int | str:
    """Give the group that is taken: the one asked for, else group 1 where there is one, else the whole match.

    Raises:
        OptionError: The pattern does not compile or has no such group, or a flag is unknown.
    """
    if unknown := sorted(set(flags) - set(FLAGS)):
        raise OptionError(f"the flags {flags!r} have {', '.join(unknown)}; use letters of {' '.join(FLAGS)}")
    bits = 0
    for letter in flags:
        bits |= FLAGS[letter]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # meant for the authors of Python code
            compiled = re.compile(pattern, bits)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise OptionError(f"the pattern {pattern!r} does not compile: {error}; mend it (Python's re)") from None
    if group is None:
        return min(compiled.groups, 1)
    if group in compiled.groupindex or (isinstance(group, int) and 0 <= group <= compiled.groups):
        return group
    names = "".join(f", {name!r}" for name in compiled.groupindex)
    raise OptionError(f"the pattern {pattern!r} has no group {group!r}; use one of 0 to {compiled.groups}{names}")


REGEX = Extractor(name="regex", apply=_regex)
REGEX_LAST = Extractor(name="regex_last", apply=_regex_last)
