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
from evalframe.extractors.cleaning import NO_INK
from evalframe.extractors.regex_process import FOUND, Search, search_all
from evalframe.extractors.routing import Program, disputed, program, sieve
from evalframe.limits import Limits
from evalframe.sandbox.regex_worker import FLAGS


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
        return find(texts, search).select(**_reading(f"{side}_match"))
    long = texts.str.len_chars() > most
    cut = texts.str.tail(most) if last else texts.str.head(most)
    readings = find(texts.zip_with(~long, cut), search).select(**_reading(f"{side}_match"))
    where = pl.when(long).then(pl.lit(f" in the {side} {most} characters")).otherwise(pl.lit(""))
    return readings.with_columns(pl.col("extraction_rule") + where)


def _reading(rule: str) -> dict[str, pl.Expr]:
    """Make the columns of an extractor out of those of ``FOUND``."""
    word, answer = pl.col("word"), pl.col("answer")
    has_ink = (answer.str.strip_chars(NO_INK) != "").fill_null(False)
    reason = pl.when(answer.is_null()).then(word).otherwise(pl.lit("empty_group"))
    no_answer = (
        pl.when(word.is_in(["time_limit", "memory_limit"])).then(pl.lit("timeout")).otherwise(pl.lit("no_match"))
    )
    return {
        "extracted_output": pl.when(has_ink).then(answer),
        "extraction_status": pl.when(has_ink).then(pl.lit("ok")).otherwise(no_answer),
        "extraction_rule": pl.when(has_ink).then(pl.lit(rule)).otherwise(reason),
    }


def find(texts: pl.Series, search: Search) -> pl.DataFrame:
    """Search every text with the engine that is proven for it.

    Args:
        texts: String, without nulls and empty texts.
        search: The pattern compiles and has the group.

    Returns:
        The columns of ``regex_process.FOUND``: the same as ``search_all`` gives, but for what would be over its time
        there.
    """
    every = texts.alias("text").to_frame().with_row_index("place")
    is_ascii = texts.str.len_bytes() == texts.str.len_chars()
    found: list[pl.DataFrame] = []
    for part, ascii_only in ((every.filter(is_ascii), True), (every.filter(~is_ascii), False)):
        if part.is_empty():
            continue
        spelled = program(search.pattern, search.flags, search.group, last=search.last, ascii_only=ascii_only)
        if isinstance(spelled, Program):
            suits = part.select(_suits(spelled)).to_series()
            found.append(_by_rust(part.filter(suits), spelled, last=search.last))
            part = part.filter(~suits)
        if not part.is_empty():
            found += _by_python(part, search, ascii_only=ascii_only)
    if not found:
        return pl.DataFrame(schema=FOUND)
    return (pl.concat(found).sort("place") if len(found) > 1 else found[0]).select(list(FOUND))


def _suits(spelled: Program) -> pl.Expr:
    suits = pl.repeat(True, pl.len())
    if spelled.no_final_newline:
        suits &= ~pl.col("text").str.ends_with("\n")
    if spelled.no_disputed:
        suits &= ~pl.col("text").str.contains(disputed())
    return suits


def _by_rust(part: pl.DataFrame, spelled: Program, *, last: bool) -> pl.DataFrame:
    text = pl.col("text")
    if not last:
        answer, has_match = text.str.extract(spelled.find, spelled.group), text.str.contains(spelled.find)
    elif spelled.walk:
        answer, has_match = text.str.extract(spelled.walk, 1), pl.lit(True)  # the group is in every match
    else:
        part = part.with_columns(match=text.str.extract_all(spelled.find).list.last())
        answer, has_match = pl.col("match"), pl.col("match").is_not_null()
        if spelled.inside:
            answer = answer.str.extract(spelled.inside, 1)
    without = pl.lit("no_match")
    if not spelled.certain:
        without = pl.when(has_match).then(pl.lit("group_unset")).otherwise(without)
    found = part.select("place", answer=answer) if spelled.certain else part.with_columns(answer=answer)
    word = pl.when(pl.col("answer").is_not_null()).then(pl.lit("ok")).otherwise(without)
    return found.select("place", word=word, answer="answer")


def _by_python(part: pl.DataFrame, search: Search, *, ascii_only: bool) -> list[pl.DataFrame]:
    """Search in the worker those texts that may hold a match; of the others it is known that they hold none."""
    found = []
    if wide := sieve(search.pattern, search.flags, ascii_only=ascii_only):
        may_match = part["text"].str.contains(wide)
        found.append(part.filter(~may_match).select("place", word=pl.lit("no_match"), answer=pl.lit(None, pl.String)))
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
