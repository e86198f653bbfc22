"""The columnar engine equals the plain definition on every row: not nearly, but to the last bit."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.metrics import bitmasks, longtexts, pairing
from evalframe.metrics.overlap import shared_scores
from evalframe.metrics.pairing import Pairs
from evalframe.metrics.record import OneOf, sharing_work
from evalframe.registry import METRICS
from tests.references import plain_metrics as plain

Rows = list[tuple[str, list[str]]]
KINDS = ["f1", "bleu_4", "corpus_bleu_4", "rouge_l"]


def as_frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"prediction": pl.String, "targets": pl.List(pl.String)}, orient="row")


def assert_plain(rows: Rows) -> None:
    """Hold all four, in one pass and each alone, to the plain definition: no difference at all."""
    together = shared_scores(as_frame(rows), KINDS)
    for kind in KINDS:
        definition = {"f1": plain.f1, "rouge_l": plain.rouge_l}.get(kind, plain.bleu_4)
        assert together[kind]["score"].to_list() == [definition(*row) for row in rows], kind
        assert shared_scores(as_frame(rows), [kind])[kind].equals(together[kind])
    assert together["corpus_bleu_4"]["parts"].to_list() == [plain.corpus_parts(*row) for row in rows]


# few words, so that n-grams of all orders match, repeat and overlap; scripts and marks; nothing at all
WORDS = ["a", "A", "b", "c", "the", "whales", "internationalisation", "x²", "İ", "ΑΣ", "नदी", "水", "e\u0301", "\u200d",
         "!", "\n", "\x00", "\u2028", "ſ"]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text(max_size=10)
few = st.lists(st.sampled_from("abc"), max_size=40).map(" ".join)
some_rows = st.lists(st.tuples(texts | few, st.lists(texts | few, max_size=4)), max_size=8)


@given(some_rows)
def test_every_row_equals_the_plain_definition(rows: Rows) -> None:
    assert_plain(rows)


@settings(max_examples=40)
@given(some_rows, st.integers(1, 60), st.integers(1, 60), st.integers(1, 4), st.integers(1, 64))
def test_chunks_do_not_matter(rows: Rows, scan: int, batch: int, chunk: int, cells: int) -> None:
    # cut rows between their targets, batches between their scans, blocks between their pairs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairing, "SCAN_BYTES", scan)
        patch.setattr(pairing, "BATCH_BYTES", batch)
        patch.setattr(pairing, "CHUNK_ROWS", chunk)
        patch.setattr(bitmasks, "BLOCK_CELLS", cells)
        assert_plain(rows)


def drawn(seed: int, lengths: Sequence[int], words: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(f"w{draw.randrange(words)}" for _ in range(n)) for n in lengths]


@pytest.mark.parametrize("words", [2, 9, 500])
def test_all_widths_of_masks(words: int) -> None:
    # the edges of 8, 16, 32 and 64 bits and of several words of 64, against shorter, like and longer texts
    edges = [0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 260]
    rows = [(prediction, drawn(seed + 1, edges, words)) for seed, prediction in enumerate(drawn(words, edges, words))]
    assert_plain(rows)


def test_more_words_than_16_bits_in_one_scan() -> None:
    rows = [(" ".join(f"{i:x}" for i in range(n, n + 7_000)), [" ".join(f"{i:x}" for i in range(n + 3_500, n + 9_000))])
            for n in range(0, 90_000, 9_000)]  # fmt: skip
    assert_plain(rows)


def test_texts_of_200_kilobytes() -> None:
    one, two = drawn(1, [40_000, 39_000], 3_000)
    rows = [(one, [two]), ("w1 w2", [two]), ("a " * 20_000, ["a b " * 5_000]), ("x" * 200_000, ["x" * 200_000])]
    assert_plain(rows)


@pytest.mark.parametrize("alone", [False, True])
def test_both_ways_of_comparing_give_the_same(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmasks.Block, "is_cheaper_alone", alone)
    assert_plain([(a, drawn(3, [0, 2, 70, 300], 40)) for a in drawn(4, [0, 1, 3, 65, 130, 400], 40)])


token_lists = st.lists(st.integers(2, 5), max_size=30)


@given(token_lists, token_lists, st.integers(0, 4))
def test_long_texts_are_compared_as_short_ones(a: list[int], b: list[int], orders: int) -> None:
    ids = np.array([*a, *b], dtype=np.uint16)
    pairs = Pairs(ids, *(np.array([n]) for n in (0, len(a), len(a), len(b))))
    shared = bitmasks.compare(pairs, orders=orders, subsequence=True)
    first, second = np.split(ids, [len(a)])
    assert shared.matches[:, 0].tolist() == longtexts.clipped_matches(first, second, orders)
    assert shared.common.tolist() == [longtexts.longest_common(first, second)]
    assert shared.common.tolist() == [plain.longest_common_by_table(list(map(str, a)), list(map(str, b)))]


def test_metrics_that_share_their_work_do_it_once() -> None:
    asked = []

    def counted(frame: pl.DataFrame, kinds: Sequence[str]) -> Mapping[str, pl.DataFrame]:
        asked.append((frame.height, list(kinds)))
        return shared_scores(frame, kinds)

    frames = [as_frame([("a b", ["a"]), ("c", ["c d", "c"])]), as_frame([("a b", ["a", "a b"])])]
    originals = [METRICS.get(name) for name in ("bleu_4", "corpus_bleu_4", "exact_match", "f1")]
    counting = [
        replace(metric, compute=OneOf(counted, metric.name)) if isinstance(metric.compute, OneOf) else metric
        for metric in originals
    ]
    sharing = sharing_work(counting)
    for frame in [*frames, frames[0].clone()]:
        for shared, alone in zip(sharing, originals, strict=True):
            assert shared.measure(frame).equals(alone.measure(frame))
    assert asked == [(2, ["bleu_4", "corpus_bleu_4", "f1"]), (1, ["bleu_4", "corpus_bleu_4", "f1"])]


@pytest.mark.parametrize("most", [9, 300, 70_000])
def test_pairs_are_ordered_by_one_number_then_by_another_whether_or_not_they_fit_16_bits(most: int) -> None:
    first, second = np.random.default_rng(most).integers(0, most, (2, 500))
    order = bitmasks._sorted_by(first, second).tolist()
    assert order == sorted(range(500), key=lambda place: (first[place], second[place]))
