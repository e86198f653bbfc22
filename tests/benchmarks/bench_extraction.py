"""Extraction by expressions against the plain definitions, a text at a time in Python."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl

from evalframe.extractors import extract
from tests.benchmarks.harness import Ratio, cpu_pair, peak_megabytes
from tests.references import replies
from tests.references.plain_extraction import reader

ROOM = "extraction"
LABELS = {"type": "label_set", "labels": replies.LABELS}
LETTERS = {"type": "label_set", "labels": list("ABCDE")}
RATINGS = {"type": "label_set", "labels": list("12345")}
NUMBER = {"type": "number"}
FIRST_LINE = {"type": "take_first"}

# name, configuration, target
SHORT: list[tuple[str, dict[str, Any], float]] = [
    ("labels ignoring case", LABELS, 28.0),
    ("single letters", LETTERS, 12.0),
    ("fenced code", {"type": "post_process", "rule": "extract_code_block"}, 8.0),
    ("first line", FIRST_LINE, 1.5),  # faster than Python, with a margin
    ("whole text", {"type": "none"}, 0.0),
    ("post-process extract_letter", {"type": "post_process", "rule": "extract_letter"}, 0.0),
    ("post-process extract_first_line", {"type": "post_process", "rule": "extract_first_line"}, 0.0),
    ("post-process lower", {"type": "post_process", "rule": "lower"}, 0.0),
]
NUMBERS: list[tuple[str, dict[str, Any], float]] = [
    ("number, most of them odd", NUMBER, 5.0),
    ("ratings", RATINGS, 0.0),
]
REASONED: list[tuple[str, dict[str, Any], float]] = [
    ("labels ignoring case", LABELS, 28.0),
    ("single letters", LETTERS, 12.0),
    ("number", NUMBER, 5.0),
    ("first line", FIRST_LINE, 1.5),
]
MEMORY = """
import polars as pl
from evalframe.extractors import extract
from tests.references import replies
texts = pl.concat([pl.Series(replies.short(30_000, seed)) for seed in range(10)])
{work}
"""


def ratios() -> Iterator[Ratio]:
    yield from _ratios("100,000 short", replies.short(100_000), SHORT)
    yield from _ratios("20,000 short", replies.short(20_000), NUMBERS)
    yield from _ratios("5,000 reasoned", replies.reasoned(5_000), REASONED)
    without, with_work = (
        peak_megabytes(MEMORY.format(work=work))
        for work in ("", f"extract(texts, {NUMBER}); extract(texts, {LETTERS})")
    )
    yield Ratio(ROOM, "300,000 short, number and letters: peak / of the texts alone", with_work, without, unit="MB")


def _ratios(where: str, texts: list[str], what: list[tuple[str, dict[str, Any], float]]) -> Iterator[Ratio]:
    column = pl.Series(texts)
    for name, config, target in what:
        extract(column.head(100), config)  # compiles
        sample = texts[: len(texts) // 10]
        ours, theirs = cpu_pair(partial(extract, column, config), partial(_by_row, sample, config), share=0.1)
        yield Ratio(ROOM, f"{where}, {name} / per-row Python", ours, theirs, target)


def _by_row(texts: list[str], config: dict[str, Any]) -> list[Any]:
    read = reader(config)
    return [read(text) for text in texts]
