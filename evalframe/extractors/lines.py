"""The extraction types ``none`` and ``take_first``: the text itself, or its first lines.

Rules: ``whole_text``, ``first_lines``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from evalframe.extractors import Extractor
from evalframe.extractors.cleaning import NO_INK
from evalframe.limits import Limits

_NO_INK = "".join(f"\\x{{{ord(char):X}}}" for char in NO_INK)
# the blanks at the end of a line, its break, and blank lines that follow; the next line keeps its indentation
_BREAK = rf"[{_NO_INK}]*[\r\n]"


def _none(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    return pl.DataFrame({"extracted_output": texts}).with_columns(
        extraction_status=pl.lit("ok"), extraction_rule=pl.lit("whole_text")
    )


def _take_first(texts: pl.Series, config: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    r"""Give the first ``lines`` lines that are not blank, joined by a newline; all of them where there are fewer.

    ``\r\n``, ``\n`` and ``\r`` end a line: no answer is cut at a form feed or U+2028. Blanks at the end of a line go; a
    later line keeps its indentation. The texts are clean: they begin and end with ink.
    """
    lines = int(config.get("lines", 1))
    text = pl.col("text")
    if lines == 1:  # what is behind the first line is never looked at
        for end in "\n\r":
            text = text.str.splitn(end, 2).struct.field("field_0")
        first = text.str.strip_chars_end(NO_INK)
    else:
        first = text.str.replace_all(_BREAK, "\n").str.split("\n").list.head(lines).list.join("\n")
    return (
        texts.to_frame("text")
        .select(first.alias("extracted_output"))
        .with_columns(extraction_status=pl.lit("ok"), extraction_rule=pl.lit("first_lines"))
    )


NONE = Extractor(name="none", apply=_none, cleans=True)
TAKE_FIRST = Extractor(name="take_first", apply=_take_first, cleans=True)
