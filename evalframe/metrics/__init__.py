"""Metrics: each is one frozen record, a function of columns with a direction, a range and an aggregate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.sandbox.policy import Policy

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric.

    Attributes:
        name: The metric id.
        compute: A function of a frame with the columns ``prediction`` (String, no nulls), ``targets`` (List(String),
            may be empty) and those of ``needs``, and of the sandbox policy (for metrics that run code). Gives a frame
            of the same height: ``score`` (Float64, no null, no NaN), and where it has them ``parts`` (List(Float64))
            and ``detail`` (JSON text).
        needs: Columns of ROWS beyond ``targets``.
        range: Lowest and highest score.
        higher_is_better: The direction.
        binary: Scores are 0 or 1, or only a full 1 counts as correct; else a score from 0.5 up counts as correct.
        needs_target: Whether a task without a target can not use it.
        aggregate: A function of summed parts, shape (..., k), to values, shape (...); None: the mean of the scores.
        description: One line.
        source: The paper and equation, or the implementation that it equals.
    """

    name: str
    compute: Callable[[pl.DataFrame, Policy], pl.DataFrame]
    needs: tuple[str, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    binary: bool = False
    needs_target: bool = True
    aggregate: Callable[[Array], Array] | None = None
    description: str = ""
    source: str = ""

    @property
    def worst(self) -> float:
        """The score of a completed sample without an answer."""
        return self.range[0] if self.higher_is_better else self.range[1]


def score(metric_name: str, prediction: str, targets: list[str], **columns: Any) -> float:
    """Score one prediction: the scalar door to the columnar code."""
    raise NotImplementedError
