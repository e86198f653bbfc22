"""Metrics: each is one frozen record, a function of columns with a direction, a range and an aggregate.

``METRICS`` (``evalframe.registry``) knows them by name; ``@metric`` adds a function, ``metric_alias`` a metric with
other parameters; ``score`` asks one for a single prediction. Built-in metrics live in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalframe.metrics.custom import metric, metric_alias
from evalframe.metrics.record import Array, Metric
from evalframe.registry import METRICS
from evalframe.sandbox.policy import DEFAULT_POLICY, Policy

__all__ = ["Array", "Metric", "metric", "metric_alias", "score"]


def score(
    metric_name: str, prediction: str, targets: Sequence[str], *, policy: Policy = DEFAULT_POLICY, **columns: Any
) -> float:
    """Score one prediction: the scalar door to the columnar code.

    Args:
        metric_name: A registered metric id.
        prediction: The answer's text; blank text is an answer like any other here, only a run calls it ``unparsed``.
        targets: The references; the best one counts. No target: 0 for the built-in metrics.
        policy: What code under test may use.
        **columns: The columns of ROWS that the metric needs (``metadata={"timeout_s": 5}``); ``row`` and ``metadata``
            are ``{}`` where they are not given, a ``row.<field>`` is null.

    Raises:
        UnknownNameError: No metric has this name; lists the nearest.
        OptionError: The prediction or a target is not text, or a needed column is missing.

    >>> score("f1", "the blue whale", ["whale", "blue whale"])
    0.8
    """
    found: Metric = METRICS.get(metric_name)
    return found(prediction, targets, policy=policy, **columns)
