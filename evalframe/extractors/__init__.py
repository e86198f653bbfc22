"""Reading an answer out of a reply: one file a type, whole columns at a time.

An extractor is a function of a column of non-blank texts; ``extract`` is the door that knows nulls and blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from evalframe.registry import EXTRACTORS

EXTRACTED: dict[str, pl.DataType | type[pl.DataType]] = {
    "extracted_output": pl.String,
    "extraction_status": pl.String,
    "extraction_rule": pl.String,
}


@dataclass(frozen=True, slots=True)
class Extractor:
    """An extraction type.

    Attributes:
        name: The ``type`` of the configuration.
        apply: A function of a String column without nulls and blanks and of the whole configuration; gives a frame of
            the same height with the columns of ``EXTRACTED``, no null in the last two. Same text, same result.
        cleans: Whether model noise (end-of-text tokens, BOM, zero-width characters) is dropped from the text before.
    """

    name: str
    apply: Callable[[pl.Series, Mapping[str, Any]], pl.DataFrame]
    cleans: bool = False


def extract(texts: pl.Series, config: Mapping[str, Any]) -> pl.DataFrame:
    """Apply an extraction to a column of replies.

    Args:
        texts: String; null where there was no reply.
        config: ``{"type": ..., ...}``, validated before (``manifest.suite``).

    Returns:
        ``extracted_output`` (null: none), ``extraction_status`` (``ok``, ``no_match``, ``empty_output``, ``timeout``)
        and ``extraction_rule`` (which rule took the answer, or why none did); all null where the text is null.
    """
    extractor: Extractor = EXTRACTORS.get(str(config["type"]))
    raise NotImplementedError(extractor)
