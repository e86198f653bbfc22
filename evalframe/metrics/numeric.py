"""The metric numeric_match: do two texts hold the same number?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.errors import Fault, OptionError
from evalframe.extractors import extract
from evalframe.metrics.pairing import Targets, row_chunks
from evalframe.metrics.record import Metric
from evalframe.sandbox.policy import Policy

# four times the relative rounding of two numbers, a product and their difference; more than the smallest float
_ROUNDING, _UNDERFLOW = 2.0**-50, 1e-300

# wide enough that a difference of two numbers is never rounded over a tolerance; no trap: underflow is just small
_EXACT = Context(prec=2_000, Emax=999_999_999, Emin=-999_999_999, traps=[])


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far two numbers may be apart, exactly."""

    absolute: Decimal
    relative: Decimal

    def allow(self, prediction: Decimal, target: Decimal) -> bool:
        """Say whether |p - t| <= absolute or |p - t| <= relative * |t|."""
        gap = _EXACT.abs(_EXACT.subtract(prediction, target))
        return gap <= self.absolute or gap <= _EXACT.multiply(self.relative, _EXACT.abs(target))


def numeric_match(*, abs_tol: float = 1e-9, rel_tol: float = 0.0) -> Metric:
    """Build the metric for given tolerances.

    1 where |p - t| <= abs_tol or |p - t| <= rel_tol * |t| for a target t, both numbers read by the ``number``
    extraction; else 0. Decimal arithmetic: 9007199254740993 is not 9007199254740992, and 0.1 + 1e-9 is within 1e-9.

    Args:
        abs_tol: Largest absolute difference, at least 0.
        rel_tol: Largest difference as a share of the target's magnitude, at least 0.

    Nulls: a prediction without a number is 0, a target without one never matches, no target is 0.

    Raises:
        OptionError: A tolerance is negative or not finite.

    >>> numeric_match(rel_tol=0.01)("about 101 km", ["100"])
    1.0
    """
    tolerances = {"abs_tol": abs_tol, "rel_tol": rel_tol}
    faults = [
        Fault(name, "bad_value", f"is {value!r}", "give a finite number that is at least 0")
        for name, value in tolerances.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0
    ]
    if faults:
        raise OptionError.of(faults, what="numeric_match")
    return Metric(
        name="numeric_match",
        compute=partial(_compute, Tolerances(Decimal(repr(abs_tol)), Decimal(repr(rel_tol)))),
        binary=True,
        description="1 where the numbers of prediction and target agree within abs_tol or rel_tol, else 0",
        source="the number extraction on both sides; rel_tol is relative to the target, as in numpy.isclose",
        parameters=tolerances,
        remake=numeric_match,
    )


def _compute(tolerances: Tolerances, frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    chunks = [_matches(tolerances, targets) for targets in row_chunks(frame)]
    return pl.DataFrame({"score": np.concatenate([np.zeros(0), *chunks])})


def _matches(tolerances: Tolerances, targets: Targets) -> NDArray[np.float64]:
    """Give 1 for each row that has a target with the same number; the stand-in of no target holds none."""
    predicted, wanted = _numbers(targets.predictions).gather(targets.rows), _numbers(targets.texts)
    agree = (predicted == wanted).fill_null(False).to_numpy(writable=True)
    differ = np.flatnonzero((predicted != wanted).fill_null(False).to_numpy())
    if differ.size:
        agree[differ] = _agree(tolerances, predicted.gather(differ), wanted.gather(differ))
    scores = np.zeros(len(targets.predictions))
    scores[targets.rows[agree]] = 1.0
    return scores


def _numbers(texts: pl.Series) -> pl.Series:
    return extract(texts, {"type": "number"})["extracted_output"]


def _agree(tolerances: Tolerances, predicted: pl.Series, wanted: pl.Series) -> NDArray[np.bool_]:
    """Compare canonical decimal strings: as floats where their rounding can not matter, else as decimals."""
    p, t = (numbers.cast(pl.Float64, strict=False).to_numpy() for numbers in (predicted, wanted))
    with np.errstate(over="ignore", invalid="ignore"):  # what is no finite float is in doubt
        gap, tolerance = np.abs(p - t), np.maximum(float(tolerances.absolute), float(tolerances.relative) * np.abs(t))
        doubt = (np.abs(p) + np.abs(t) + tolerance) * _ROUNDING + _UNDERFLOW
        agree: NDArray[np.bool_] = gap + doubt < tolerance
        in_doubt = np.flatnonzero(~(agree | (gap - doubt > tolerance)))
    # in Python, because no column type holds decimals of any size; only pairs whose difference is about the tolerance
    # come here, and numbers that no float holds
    for place in in_doubt:
        agree[place] = tolerances.allow(Decimal(predicted[int(place)]), Decimal(wanted[int(place)]))
    return agree


NUMERIC_MATCH = numeric_match()
