"""What each metric is, for a person who looks for one: a list of all that are registered."""

from __future__ import annotations

from typing import Any

from evalframe.errors import EvalframeError
from evalframe.metrics.record import Metric
from evalframe.registry import METRICS


def catalogue() -> list[dict[str, Any]]:
    """Describe the registered metrics, by id; those of other packages (entry point ``evalframe.metrics``) too.

    Returns:
        Plain JSON values: ``id``, ``description``, ``range`` (lowest, highest), ``higher_is_better``,
        ``needs`` (columns of ROWS beside the targets), ``needs_target``, ``aggregate`` (``mean``, or ``corpus`` where
        the task's value is no mean of its scores), ``source``, ``error`` (why one of another package can not be
        loaded, else null).
    """
    return [_described(name) for name in METRICS.names()]


def _described(name: str) -> dict[str, Any]:
    empty = dict.fromkeys(("description", "range", "higher_is_better", "needs", "needs_target", "aggregate", "source"))
    try:
        found = METRICS.get(name)
    except (EvalframeError, ImportError, AttributeError) as error:  # a broken package hides no other metric
        return {"id": name, **empty, "error": f"{type(error).__name__}: {error}"}
    if not isinstance(found, Metric):
        return {"id": name, **empty, "error": f"is a {type(found).__name__}, no Metric; decorate it with @metric"}
    return {
        "id": name,
        "description": found.description or f"defined in {found.origin}",
        "range": list(found.range),
        "higher_is_better": found.higher_is_better,
        "needs": list(found.needs),
        "needs_target": found.needs_target,
        "aggregate": "mean" if found.aggregate is None else "corpus",
        "source": found.source or found.origin,
        "error": None,
    }
