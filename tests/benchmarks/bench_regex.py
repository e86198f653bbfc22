"""The regex router: Rust's engine and the worker process against Python's re, a text at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import polars as pl

from evalframe.extractors import as_frame, patterns, regex_process
from evalframe.extractors.patterns import find
from evalframe.extractors.regex_process import Search, search_all
from evalframe.limits import DEFAULT_LIMITS
from tests.benchmarks.harness import Ratio, cpu_pair, cpu_seconds
from tests.references.regex_rows import compiled, found, reading

ROOM = "regex"
WORDS = [
    "so",
    "we",
    "then",
    "find",
    "value",
    "naive",
    "total",
    "of",
    "the",
    "answer",
    "is",
    "not",
    "12",
    "and",
    "7",
    "(b)",
]
PATTERNS = {
    "tag": r"<answer>(.*?)</answer>",
    "answer is": r"(?:answer is|Answer:)\s*(\S+)",
    "number": r"(-?[0-9.,]*[0-9])",
    "letter": r"\(([A-E])\)|\b([A-E])\b",
    "any case": r"(?i)the answer is:?\s*\(?([A-J])\)?",
}
PYTHONS = {"look-ahead": r"is (?=\d)(\d+)", "back-reference": r"(\d)\1"}


def replies(count: int, *, words: int, wide: bool) -> list[str]:
    """Make replies that reason and then answer, nine in ten; one in three with other than ASCII where ``wide``."""
    drawn = random.Random(7)

    def one() -> str:
        body = " ".join(drawn.choices(WORDS, k=drawn.randint(words // 2, words)))
        letter, number = drawn.choice("ABCDE"), drawn.randint(1, 9999)
        ends = [f"<answer>{number}</answer>", f"The answer is {number}.", f"Answer: ({letter})", "I can not tell."]
        said = body + "\n" + drawn.choice(ends) if drawn.random() < 0.9 else body
        return said + drawn.choice(["", "", " — voilà"]) if wide else said

    return [one() for _ in range(count)]


def ratios() -> Iterator[Ratio]:
    texts = replies(40_000, words=60, wide=True)
    yield from _columns(texts, pl.Series(texts), last=False, target=9.6)
    yield from _columns(texts, pl.Series(texts), last=True, target=5.9)
    yield from _worker(texts, pl.Series(texts))


def _columns(texts: list[str], column: pl.Series, *, last: bool, target: float) -> Iterator[Ratio]:
    """Answer, status and rule of each text, as a frame: the extraction against its plain definition."""
    extractor, which = (patterns.REGEX_LAST, "last") if last else (patterns.REGEX, "first")
    ours, theirs = 0.0, 0.0
    for name, pattern in PATTERNS.items():
        extractor.apply(column, {"pattern": pattern}, DEFAULT_LIMITS)  # compiles
        by_column, by_row = cpu_pair(
            partial(extractor.apply, column, {"pattern": pattern}, DEFAULT_LIMITS),
            partial(_by_row, texts, pattern, last=last),
            times=3,
        )
        yield Ratio(ROOM, f"{which} group, {name} / per-row Python", by_column, by_row)
        ours, theirs = ours + by_column, theirs + by_row
    yield Ratio(ROOM, f"{which} group, all of these / per-row Python", ours, theirs, target)


def _by_row(texts: list[str], pattern: str, *, last: bool) -> pl.DataFrame:
    plain = compiled(pattern)
    return as_frame(reading(plain, text, group=1, last=last) for text in texts)


def _worker(texts: list[str], column: pl.Series) -> Iterator[Ratio]:
    """What only Python's engine understands: in the worker process, and behind the sieve, against in this process."""
    for name, pattern in PYTHONS.items():
        search, plain = Search(pattern=pattern, group=1), compiled(pattern)
        here = cpu_seconds(lambda: [found(plain, text, group=1, last=False) for text in texts])  # noqa: B023
        yield Ratio(
            ROOM, f"{name}, worker process / re in this process", _with_worker(search_all, column, search), here
        )
        yield Ratio(ROOM, f"{name}, sieve and worker / re in this process", _with_worker(find, column, search), here)


def _with_worker(work: Callable[[pl.Series, Search], pl.DataFrame], column: pl.Series, search: Search) -> float:
    """Measure with a worker of its own, so that its processor time is counted when it has ended."""
    regex_process.close()

    def once() -> None:
        work(column, search)
        regex_process.close()

    started = cpu_seconds(lambda: (search_all(column[:1], search), regex_process.close()))
    return max(cpu_seconds(once) - started, 1e-3)
