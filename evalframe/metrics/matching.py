"""Metrics by equality of whole texts: exact_match and accuracy."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.metrics.pairing import Targets, row_chunks
from evalframe.metrics.record import Metric
from evalframe.sandbox.policy import Policy

# what Python's str.strip() takes off; the default of polars leaves U+001C to U+001F
WHITE_SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def equals_a_target(frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give 1 where the stripped prediction is one of the stripped targets, else 0; without a target 0."""
    chunks = [_equal(targets) for targets in row_chunks(frame)]
    return pl.DataFrame({"score": np.concatenate([np.zeros(0), *chunks])})


def _equal(targets: Targets) -> NDArray[np.float64]:
    predictions = targets.predictions.str.strip_chars(WHITE_SPACE).gather(targets.rows)
    equal = predictions == targets.texts.str.strip_chars(WHITE_SPACE)
    scores = np.zeros(len(targets.predictions))
    scores[targets.rows[equal.to_numpy()]] = 1.0
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
