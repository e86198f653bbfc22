"""Where the confidence of a call comes from: the option ``confidence`` of a run and its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.errors import Fault
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.extraction import compile_pattern, validate_extraction
from evalframe.registry import suggestion

WORDS = ("adapter", "logprobs", "agreement")
SCALES = ("unit", "percent")
_KEYS = ("pattern", "scale")
_FORM = '{"pattern": r"Confidence: (\\d+)%", "scale": "percent"}'
_FORMS = f"write {', '.join(repr(word) for word in WORDS)}, or for a number that the reply states {_FORM}"


def extraction_of(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Give the extraction that reads a stated confidence: group 1 of the last match, as the reply is."""
    return {"type": "regex_last", "pattern": stated["pattern"], "group": 1, "flags": ""}


def confidence_faults(confidence: Any, *, where: str = "confidence", limits: Limits = DEFAULT_LIMITS) -> list[Fault]:
    """Name every fault of the option.

    Args:
        confidence: None or ``adapter``: the adapter's own; ``logprobs``; ``agreement``; or a mapping with ``pattern``
            (Python's ``re``, with a group) and ``scale`` (``unit``: 0 to 1; ``percent``: 0 to 100).
        where: The path under which faults are named.
        limits: The table of numbers.
    """
    if confidence is None or (isinstance(confidence, str) and confidence in WORDS):
        return []
    if isinstance(confidence, str):
        near = suggestion(confidence, WORDS)
        return [Fault(where, "bad_value", f"{confidence!r} is no source of a confidence", f"{near}; {_FORMS}")]
    if not isinstance(confidence, Mapping):
        return [Fault(where, "bad_type", f"{confidence!r} is no source of a confidence", _FORMS)]
    faults = [
        Fault(f"{where}.{key}", "unknown_key", "there is no such key", suggestion(str(key), _KEYS))
        for key in confidence
        if key not in _KEYS
    ]
    scale = confidence.get("scale")
    if not isinstance(scale, str) or scale not in SCALES:
        seen = f"{scale!r} is no scale" if "scale" in confidence else "is missing: a scale is never guessed"
        remedy = 'write "unit" for 0 to 1, or "percent" for 0 to 100'
        faults.append(Fault(f"{where}.scale", "bad_value" if "scale" in confidence else "missing", seen, remedy))
    return [*faults, *_pattern_faults(confidence, where, limits)]


def _pattern_faults(confidence: Mapping[str, Any], where: str, limits: Limits) -> list[Fault]:
    if not isinstance(pattern := confidence.get("pattern"), str) or not pattern:
        seen = f"{pattern!r} is no pattern" if "pattern" in confidence else "is missing"
        rule = "bad_type" if "pattern" in confidence else "missing"
        return [Fault(f"{where}.pattern", rule, seen, f"write one whose group 1 is the number, as in {_FORM}")]
    _, faults = validate_extraction({"type": "regex_last", "pattern": pattern}, where=where, limits=limits)
    if faults:
        return faults
    if not compile_pattern(pattern).groups:
        remedy = f"put the number in round brackets, as in {_FORM}"
        return [Fault(f"{where}.pattern", "no_group", f"{pattern!r} has no group", remedy)]
    return []
