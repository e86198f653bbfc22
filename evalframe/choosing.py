"""``extract=`` and ``metrics=`` as people write them become what a manifest would say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalframe.errors import Fault
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.suite import MetricChoice, validate_extraction
from evalframe.metrics import Metric
from evalframe.registry import EXTRACTORS, METRICS, suggestion

EXTRACT_FORMS = 'a type, as in "number", or a config, as in {"type": "regex_last", "pattern": "answer is (\\\\S+)"}'
METRIC_FORMS = 'metric ids, as in ["exact_match"], entries of a manifest, or metrics of your own'

_LOWER = {"higher_is_better": False}


def extraction_of(
    given: Any, *, where: str = "extract", limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, Any], list[Fault]]:
    """Read an extraction: a type name, a config, or None for ``none``.

    Args:
        given: What the user wrote.
        where: How it is called in faults.
        limits: The table of numbers.

    Returns:
        The config with its defaults filled in, and all its faults; empty where there are faults.

    >>> extraction_of("number")
    ({'type': 'number'}, [])
    """
    if given is None:
        given = "none"
    if isinstance(given, str):
        if given not in EXTRACTORS or given == "post_process":
            known = [name for name in EXTRACTORS.names() if name != "post_process"]
            return {}, [Fault(where, "unknown_type", f"there is no extraction {given!r}", suggestion(given, known))]
        given = {"type": given}
    if not isinstance(given, Mapping):
        return {}, [Fault(where, "bad_type", f"{given!r} is no extraction", f"give {EXTRACT_FORMS}")]
    return validate_extraction(given, where=where, limits=limits)


def metrics_of(given: Any, *, where: str = "metrics") -> tuple[list[dict[str, Any]], list[Fault]]:
    """Read a list of metrics: ids, entries as a manifest has them, or ``Metric`` records; one alone is a list of one.

    Args:
        given: What the user wrote.
        where: How it is called in faults.

    Returns:
        Entries of a manifest, and the faults of those that are none; whether entries are right in themselves is left
        to the manifest.

    >>> metrics_of(["exact_match", {"id": "f1", "aggregation": "none"}])
    ([{'id': 'exact_match'}, {'id': 'f1', 'aggregation': 'none'}], [])
    """
    if isinstance(given, str | Mapping | Metric | MetricChoice) or callable(given):
        given = [given]
    if given is None:
        detail = "is missing: nothing says how replies are scored"
        return [], [Fault(where, "missing", detail, f"give {METRIC_FORMS}; there are {', '.join(METRICS.names())}")]
    if not isinstance(given, Sequence) or not given:
        seen = "the list is empty" if isinstance(given, Sequence) else f"{given!r} is no list"
        return [], [Fault(where, "bad_type", seen, f"give {METRIC_FORMS}; there are {', '.join(METRICS.names())}")]
    entries: list[dict[str, Any]] = []
    faults: list[Fault] = []
    for index, one in enumerate(given):
        at = f"{where}[{index}]"
        if isinstance(one, MetricChoice):
            one = one.model_dump(exclude_none=True)
        name = one.name if isinstance(one, Metric) else one.get("id") if isinstance(one, Mapping) else one
        if not isinstance(name, str):
            seen = f"the function {one.__name__}" if hasattr(one, "__name__") else repr(one)
            own = '; a function becomes one by @evalframe.metric("name")' if callable(one) else ""
            faults.append(Fault(at, "bad_type", f"{seen} is no metric", f"give {METRIC_FORMS}{own}"))
        elif name not in METRICS:
            known = suggestion(name, METRICS.names())
            faults.append(Fault(at, "unknown_metric", f"there is no metric {name!r}", known))
        elif isinstance(one, Metric) and METRICS.get(name) is not one:
            detail = f"is not the metric that is registered as {name!r}"
            faults.append(Fault(at, "unknown_metric", detail, f"give the id, [{name!r}], or register it anew"))
        elif isinstance(one, Mapping):
            entries.append(dict(one))
        else:  # a manifest says true where it says nothing
            entries.append({"id": name} if METRICS.get(name).higher_is_better else {"id": name, **_LOWER})
    return entries, faults
