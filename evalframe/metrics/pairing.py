"""Pairs of a prediction and a target: each row with each of its targets, as places in one array of token ids.

Memory is bounded by chunks, of rows (``row_chunks``) and of text (``pair_batches``), whatever the frame's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.metrics.interning import Places
from evalframe.metrics.tokens import Tokens, tokenise

CHUNK_ROWS = 1 << 15
SCAN_BYTES = 1 << 20  # text tokenised at once: its arrays fit the cache, and its ids 16 bits
BATCH_BYTES = 1 << 25  # text of pairs compared at once: enough pairs for whole arrays to pay


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of token sequences.

    Attributes:
        ids: Tokens of all texts; equal within a pair if and only if the tokens are.
        first_a, count_a: Of each pair, where the prediction's tokens begin in ``ids``, and how many they are.
        first_b, count_b: The same of the target.
    """

    ids: NDArray[np.uint16] | NDArray[np.uint32]
    first_a: Places
    count_a: Places
    first_b: Places
    count_b: Places


@dataclass(frozen=True, slots=True)
class Targets:
    """Rows and their targets, side by side.

    Attributes:
        predictions, texts: The two columns of text; a row without a target has one empty text.
        rows: Of each target its row, ascending.
        firsts: Of each row its first target.
        has_none: Of each row, whether it has no target.
    """

    predictions: pl.Series
    texts: pl.Series
    rows: Places
    firsts: Places
    has_none: NDArray[np.bool_]


def row_chunks(frame: pl.DataFrame, n_rows: int = CHUNK_ROWS) -> Iterator[Targets]:
    """Cut a frame with ``prediction`` and ``targets`` into chunks of so many rows, targets exploded."""
    for chunk in frame.iter_slices(n_rows):
        counts = chunk["targets"].list.len().to_numpy()
        texts = chunk["targets"].explode(empty_as_null=True)
        texts = texts.fill_null("") if texts.null_count() else texts
        at_least_1 = np.maximum(counts, 1).astype(np.int64)
        ends = np.cumsum(at_least_1)
        rows = np.repeat(np.arange(chunk.height), at_least_1)
        yield Targets(chunk["prediction"], texts, rows, ends - at_least_1, counts == 0)


def pair_batches(targets: Targets) -> Iterator[Pairs]:
    """Tokenise, scan by scan, and give the pairs in order, batch by batch."""
    bytes_p = targets.predictions.str.len_bytes().to_numpy().astype(np.int64)
    bytes_t = targets.texts.str.len_bytes().to_numpy().astype(np.int64)
    leads = np.diff(targets.rows, prepend=-1) > 0  # the first target of a row
    size = np.cumsum(bytes_t + np.where(leads, bytes_p[targets.rows], 0))
    scans = np.flatnonzero(np.diff(size // SCAN_BYTES, prepend=-1))
    batch: list[Pairs] = []
    held = 0
    for start, stop in pairwise([*scans.tolist(), len(size)]):
        batch.append(_scanned(targets, start, stop))
        held += size[stop - 1] - size[start]
        if held > BATCH_BYTES or stop == len(size):
            yield _joined(batch)
            batch, held = [], 0


def _scanned(targets: Targets, start: int, stop: int) -> Pairs:
    """Tokenise some targets with their predictions; a row that is cut has its prediction tokenised in both parts."""
    rows = targets.rows[start:stop]
    first_row, last_row = int(rows[0]), int(rows[-1])
    predictions = targets.predictions[first_row : last_row + 1]
    tokens: Tokens = tokenise(pl.concat([predictions, targets.texts[start:stop].alias(predictions.name)]))
    mine = rows - first_row
    return Pairs(
        tokens.ids,
        tokens.firsts[mine],
        tokens.counts[mine],
        tokens.firsts[len(predictions) :],
        tokens.counts[len(predictions) :],
    )


def _joined(parts: list[Pairs]) -> Pairs:
    shifts = np.cumsum([0, *(part.ids.size for part in parts[:-1])])
    return Pairs(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.first_a + shift for part, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([part.count_a for part in parts]),
        np.concatenate([part.first_b + shift for part, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([part.count_b for part in parts]),
    )
