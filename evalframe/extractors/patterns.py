"""The extraction types ``regex`` and ``regex_last``: a group of the first or of the last match.

The dialect is Python's ``re``; the text is seen as it is. For reasoning that ends in the answer use ``regex_last``.

Rules: ``first_match``, ``last_match``; without an answer ``no_match``, ``group_unset`` (the pattern matched, the group
took no part in it), ``empty_group`` (the group holds nothing but blanks, which is no answer), ``time_limit``,
``memory_limit`` (both with status ``timeout``). Of a text over ``Limits.regex_text_chars`` the first or last so many
characters are searched, and the rule says so: ``first_match in the first 1048576 characters``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import polars as pl

from evalframe.errors import OptionError
from evalframe.extractors import Extractor, Reading, as_frame
from evalframe.extractors.cleaning import NO_INK
from evalframe.limits import Limits
from evalframe.sandbox.regex_worker import FLAGS
from evalframe.words import ExtractionStatus

_STATUS: dict[str, ExtractionStatus] = {"time_limit": "timeout", "memory_limit": "timeout"}


def _regex(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    return _search(texts, config, limits, last=False)


def _regex_last(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    return _search(texts, config, limits, last=True)


def _search(texts: pl.Series, config: Mapping[str, Any], limits: Limits, *, last: bool) -> pl.DataFrame:
    from evalframe.extractors.regex_process import Search, search_all

    pattern, flags = config["pattern"], config.get("flags") or ""
    group = _group(pattern, flags, config.get("group"))
    search = Search(pattern=pattern, flags=flags, group=group, last=last, seconds=limits.regex_seconds_per_text)
    most = limits.regex_text_chars
    side = "last" if last else "first"
    long = texts.str.len_bytes() > most  # no text has more characters than bytes
    if long.any():
        long = texts.str.len_chars() > most
        cut = texts.str.tail(most) if last else texts.str.head(most)
        texts = texts.zip_with(~long, cut)
    # every match is made by Python's re in the worker: polars' engine has another dialect
    found = search_all(texts.to_list(), search)
    return as_frame(
        _reading(word, answer, f"{side}_match", f" in the {side} {most} characters" if is_cut else "")
        for (word, answer), is_cut in zip(found, long.to_list(), strict=True)
    )


def _reading(word: str, answer: str | None, rule: str, where: str) -> Reading:
    if word != "ok" or answer is None:
        return None, _STATUS.get(word, "no_match"), word + where
    if not answer.strip(NO_INK):
        return None, "no_match", "empty_group" + where
    return answer, "ok", rule + where


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
