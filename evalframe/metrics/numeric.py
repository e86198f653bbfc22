"""The metric numeric_match: do two texts hold the same number?"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import partial

import polars as pl

from evalframe.errors import Fault, OptionError
from evalframe.extractors import extract
from evalframe.metrics.record import Metric
from evalframe.sandbox.policy import Policy

# wide enough that a difference of two numbers is never rounded over a tolerance; no trap: underflow is just small
_EXACT = Context(prec=2_000, Emax=999_999_999, Emin=-999_999_999, traps=[])


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
        compute=partial(_compute, Decimal(repr(abs_tol)), Decimal(repr(rel_tol))),
        binary=True,
        description="1 where the numbers of prediction and target agree within abs_tol or rel_tol, else 0",
        source="the number extraction on both sides; rel_tol is relative to the target, as in numpy.isclose",
        parameters=tolerances,
        remake=numeric_match,
    )


def _compute(abs_tol: Decimal, rel_tol: Decimal, frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    pairs = frame.with_row_index("place").select("place", "prediction", target="targets").explode("target")
    numbers = pairs.select(
        "place", prediction=_numbers(pairs["prediction"]), target=_numbers(pairs["target"])
    ).drop_nulls()
    # in Python, because no column type holds decimals of any size; only pairs whose texts differ come here
    differ = numbers.filter(pl.col("prediction") != pl.col("target"))
    agree = [_agree(Decimal(p), Decimal(t), abs_tol, rel_tol) for _, p, t in differ.iter_rows()]
    right = pl.concat([
        numbers.filter(pl.col("prediction") == pl.col("target"))["place"],
        differ["place"].filter(pl.Series(agree, dtype=pl.Boolean)),
    ])  # fmt: skip
    place = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return pl.DataFrame({"score": place.is_in(right.implode()).cast(pl.Float64)})


def _numbers(texts: pl.Series) -> pl.Series:
    return extract(texts, {"type": "number"})["extracted_output"]


def _agree(prediction: Decimal, target: Decimal, abs_tol: Decimal, rel_tol: Decimal) -> bool:
    gap = _EXACT.abs(_EXACT.subtract(prediction, target))
    return gap <= abs_tol or gap <= _EXACT.multiply(rel_tol, _EXACT.abs(target))


NUMERIC_MATCH = numeric_match()
