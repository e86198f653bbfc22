"""Reading an answer out of a reply: one file a type, whole columns at a time.

An extractor is a function of a column of non-blank texts; ``extract`` is the door that knows nulls and blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.errors import OptionError
from evalframe.extractors.cleaning import cleaned
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.registry import EXTRACTORS
from evalframe.words import ExtractionStatus

EXTRACTED: dict[str, pl.DataType | type[pl.DataType]] = {
    "extracted_output": pl.String,
    "extraction_status": pl.String,
    "extraction_rule": pl.String,
}
BLANK = "blank"  # the rule of a text without ink, under every type

ROWS_AT_ONCE, BYTES_AT_ONCE = 65_536, 8 * 1024 * 1024  # bounds what is held on the way
FEW_BYTES = 8 * 1024  # of a column that a walk reads sooner than most expressions are set up

Reading = tuple[str | None, ExtractionStatus, str]


@dataclass(frozen=True, slots=True)
class Extractor:
    """An extraction type.

    Attributes:
        name: The ``type`` of the configuration.
        apply: A function of a String column without nulls and blanks, of the whole configuration and of the limits;
            gives a frame of the same height with the columns of ``EXTRACTED``, no null in the last two. Same text,
            same result.
        cleans: Whether model noise (end-of-text tokens, BOM, zero-width characters) is dropped from the text before.
    """

    name: str
    apply: Callable[[pl.Series, Mapping[str, Any], Limits], pl.DataFrame]
    cleans: bool = False


def extract(texts: pl.Series, config: Mapping[str, Any], *, limits: Limits = DEFAULT_LIMITS) -> pl.DataFrame:
    """Apply an extraction to a column of replies.

    Args:
        texts: String; null where there was no reply.
        config: ``{"type": ..., ...}``, validated before (``manifest.suite``).
        limits: The table of numbers: time and length of regular expressions.

    Returns:
        ``extracted_output`` (null: none), ``extraction_status`` (``ok``, ``no_match``, ``empty_output``, ``timeout``)
        and ``extraction_rule`` (which rule took the answer, or why none did); all null where the text is null.

    Nulls:
        A null text gives nulls. A text that is blank, or blank once it is cleaned, gives null, ``empty_output`` and
        the rule ``blank`` under every type.

    Raises:
        UnknownNameError: There is no such extraction type; the message lists the nearest.
        OptionError: ``texts`` is no column of text, or the configuration can not be used.

    >>> extract(pl.Series(["The total is $1,234.50.", " "]), {"type": "number"}).rows()
    [('1234.5', 'ok', 'last_number'), (None, 'empty_output', 'blank')]
    """
    return extract_runs(texts, [(config, len(texts))], limits=limits)


def extract_runs(
    texts: pl.Series, runs: Sequence[tuple[Mapping[str, Any], int]], *, limits: Limits = DEFAULT_LIMITS
) -> pl.DataFrame:
    """Apply several extractions to a column: each to so many texts, one run behind the other.

    The same as ``extract`` of each run, but what has nothing to do with the extraction is done for all at once.

    Args:
        texts: String, as in ``extract``.
        runs: An extraction and the number of its texts, which add up to all; one at least.
        limits: The table of numbers.
    """
    if texts.dtype == pl.Null:
        texts = texts.cast(pl.String)
    if texts.dtype != pl.String:
        raise OptionError(f"the texts are {texts.dtype}, not String; cast the column before")
    used = [run for run in runs if run[1]] or runs[:1]
    asked = [(_extractor(config), config) for config, _ in used]
    edges = np.cumsum([0, *(count for _, count in used)])
    read, start = [], 0
    for part in parts_of(texts):
        stop = start + len(part)
        first = int(np.searchsorted(edges[1:-1], start, side="right"))
        last = int(np.searchsorted(edges[1:-1], stop, side="left"))
        inside = np.clip(edges[first : last + 2], start, stop) - start
        read.append(_read(part, asked[first : last + 1], inside, limits))
        start = stop
    return pl.concat(read)


def _extractor(config: Mapping[str, Any]) -> Extractor:
    if "type" not in config:
        raise OptionError("the extraction has no type; give one, as in {'type': 'number'}")
    found: Extractor = EXTRACTORS.get(str(config["type"]))
    return found


def _read(
    texts: pl.Series, asked: Sequence[tuple[Extractor, Mapping[str, Any]]], edges: NDArray[np.int64], limits: Limits
) -> pl.DataFrame:
    """Read one part of a column, nulls and blanks included; each extraction is for the texts between two edges."""
    clean = cleaned(texts)
    has_ink = (clean != "").fill_null(False)
    as_it_is, clean = texts.filter(has_ink), clean.filter(has_ink)
    places = np.append(0, has_ink.cum_sum().to_numpy())[edges].tolist()  # of the edges, among the texts with ink
    found = pl.concat(
        extractor.apply((clean if extractor.cleans else as_it_is)[start:stop], config, limits).select(list(EXTRACTED))
        for (extractor, config), (start, stop) in zip(asked, pairwise(places), strict=True)
    )
    if has_ink.all():
        return found
    blank = pl.select(pl.when(texts.is_not_null() & ~has_ink).then(pl.lit(BLANK)).alias("extraction_rule")).to_series()
    # the n-th text with ink has the n-th reading; a null position gathers a null
    place = pl.select(pl.when(has_ink).then(has_ink.cum_sum() - 1)).to_series()
    readings = found.select(pl.col(list(EXTRACTED)).gather(place))
    return readings.with_columns(
        pl.col("extraction_status").fill_null(blank.replace_strict({BLANK: "empty_output"}, default=None)),
        pl.col("extraction_rule").fill_null(blank),
    )


def by_expressions(
    texts: pl.Series,
    express: Callable[[pl.Series], pl.DataFrame],
    read: Callable[[str], Reading],
    *,
    setup: int = 1,
) -> pl.DataFrame:
    """Read a column by expressions, and each text that they leave alone by a walk in Python.

    Args:
        texts: String, without nulls.
        express: Gives ``answer`` and ``rule`` of a column, exactly as the walk would; no rule where it can not tell.
        read: The walk, which is the definition.
        setup: A column of less than so many times ``FEW_BYTES`` is read by the walk alone: the engine takes its time
            to compile expressions, and there may be a thousand tasks with labels of their own.
    """
    if texts.str.len_bytes().sum() < setup * FEW_BYTES:
        return one_by_one(texts, read)
    found = express(texts).select(pl.col("answer").alias("extracted_output"), pl.col("rule").alias("extraction_rule"))
    left = found["extraction_rule"].is_null()
    status = pl.when(pl.col("extracted_output").is_null()).then(pl.lit("no_match")).otherwise(pl.lit("ok"))
    readings = found.select("extracted_output", status.alias("extraction_status"), "extraction_rule")
    if not left.any():
        return readings
    walked = one_by_one(texts.filter(left), read)
    # behind those found: the n-th text left alone has the n-th walked reading
    place = pl.select(
        pl.when(left).then(left.cum_sum() - 1 + len(texts)).otherwise(pl.int_range(len(texts)))
    ).to_series()
    return pl.concat([readings, walked])[place]


def parts_of(texts: pl.Series) -> Iterator[pl.Series]:
    """Cut a column into parts of bounded size, in order, so that what is made on the way is; into one at least."""
    ends = texts.str.len_bytes().fill_null(0).cast(pl.Int64).cum_sum().to_numpy()
    start = 0
    while start < len(texts) or start == 0:
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + BYTES_AT_ONCE, side="right"))
        stop = min(max(fitting, start + 1), start + ROWS_AT_ONCE)
        yield texts[start:stop]
        start = stop


def one_by_one(texts: pl.Series, read: Callable[[str], Reading]) -> pl.DataFrame:
    """Read each text alone, in Python: for those whose definition is a walk through the text, not an expression."""
    return as_frame(read(text) for text in texts.to_list())


def as_frame(readings: Iterable[Reading]) -> pl.DataFrame:
    """Make the frame of an extractor out of (answer, status, rule), one a text."""
    return pl.DataFrame(list(readings), schema=EXTRACTED, orient="row")
