"""The extraction types ``none`` and ``take_first``: the text itself, or its first lines.

Rules: ``whole_text``, ``first_lines``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import polars as pl

from evalframe.extractors import Extractor, Reading, one_by_one
from evalframe.extractors.cleaning import NO_INK
from evalframe.limits import Limits

_LINE = re.compile(r"[^\r\n]+")  # \r\n, \n and \r end a line; no answer is cut at a form feed or U+2028


def _none(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    return pl.DataFrame({"extracted_output": texts}).with_columns(
        extraction_status=pl.lit("ok"), extraction_rule=pl.lit("whole_text")
    )


def _take_first(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    lines = int(config.get("lines", 1))

    def read(text: str) -> Reading:
        return first_lines(text, lines), "ok", "first_lines"

    # a column of lists of lines would cost the memory of all texts again; this stops at the lines that are asked for
    return one_by_one(texts, read)


def first_lines(text: str, lines: int) -> str:
    r"""Give the first ``lines`` lines that are not blank, joined by a newline; all of them where there are fewer.

    Blanks at the end of a line go, and those at both ends of the result; a later line keeps its indentation.

    >>> first_lines("\n  def f():  \n\n      return 1\nnotes", 2)
    'def f():\n      return 1'
    """
    full = (line.group().rstrip(NO_INK) for line in _LINE.finditer(text) if line.group().strip(NO_INK))
    return "\n".join(islice(full, lines)).strip(NO_INK)


NONE = Extractor(name="none", apply=_none, cleans=True)
TAKE_FIRST = Extractor(name="take_first", apply=_take_first, cleans=True)
