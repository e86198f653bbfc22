"""Metrics by equality of whole texts: exact_match and accuracy."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.extractors.characters import may_strip
from evalframe.metrics.pairing import Targets, row_chunks
from evalframe.metrics.record import Metric
from evalframe.sandbox.policy import Policy
from evalframe.words import WHITE_SPACE

CHUNK_ROWS = 1 << 17  # nothing is held but a mark and a view of each text


def equals_a_target(frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give 1 where the stripped prediction is one of the stripped targets, else 0; without a target 0."""
    chunks = [_equal(targets) for targets in row_chunks(frame, CHUNK_ROWS)]
    return pl.DataFrame({"score": np.concatenate([np.zeros(0), *chunks])})


def _equal(targets: Targets) -> NDArray[np.float64]:
    """Compare the texts as they are, then once more stripped where one of them has something to strip."""
    predictions, texts, rows = targets.predictions, targets.texts, targets.rows
    beside = predictions.gather(rows)
    equal = (beside == texts).to_numpy(writable=True)
    text_has, prediction_has = (may_strip(side, WHITE_SPACE).to_numpy() for side in (texts, predictions))
    in_question = np.flatnonzero((text_has | prediction_has.take(rows)) & ~equal)
    if in_question.size:
        beside, texts = (side.gather(in_question).str.strip_chars(WHITE_SPACE) for side in (beside, texts))
        equal[in_question] = (beside == texts).to_numpy()
    scores = np.zeros(len(predictions))
    scores[rows.take(np.flatnonzero(equal))] = 1.0
    scores[targets.has_none] = 0.0  # their stand-in is an empty text
    return scores


EXACT_MATCH = Metric(
    name="exact_match",
    compute=equals_a_target,
    binary=True,
    description="1 where the stripped prediction equals a stripped target, else 0",
    source="equality of Python strings after str.strip; case, punctuation and inner blanks count",
)

ACCURACY = Metric(
    name="accuracy",
    compute=equals_a_target,
    binary=True,
    description="1 where the stripped label equals a stripped target, else 0",
    source="its mean is scikit-learn's accuracy_score over stripped labels",
)
