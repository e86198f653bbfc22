"""Checks of single values that suites and generation settings share: ranges, ids, metadata."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from evalframe.errors import Fault
from evalframe.limits import Limits
from evalframe.manifest.fields import is_number, is_text, is_whole
from evalframe.manifest.shape import child, shown


def range_faults(
    raw: Mapping[str, Any],
    key: str,
    where: str,
    low: float,
    high: float = math.inf,
    *,
    whole: bool = False,
    above: bool = False,
) -> Iterator[Fault]:
    """Check that a number lies in a range; what is no number is left to the types.

    Args:
        raw: The object that holds the number.
        key: Its key.
        where: The path of the object.
        low: The least value allowed.
        high: The greatest value allowed.
        whole: Only integers are checked.
        above: ``low`` itself is not allowed.
    """
    value = raw.get(key)
    if not is_number(value) or (whole and not is_whole(value)) or value != value:
        return
    if low <= value <= high and not (above and value == low):
        return
    allowed = f"from {low:g} to {high:_}".replace("_", ",") if high < math.inf else f"{low:g} or more"
    if above:
        allowed = f"above {low:g}" + (f", up to {high:g}" if high < math.inf else "")
    yield Fault(child(where, key), "out_of_range", f"{shown(value)} is out of range", f"use a number {allowed}")


def id_faults(raw: Mapping[str, Any], key: str, where: str) -> Iterator[Fault]:
    """Check that an id has only the letters that ids may have."""
    value = raw.get(key)
    if not is_text(value) or re.fullmatch(r"[A-Za-z0-9_.-]+", value):
        return
    bad = sorted(set(re.sub(r"[A-Za-z0-9_.-]", "", value)))
    found = f"has {', '.join(map(repr, bad[:5]))}" if bad else "is empty"
    detail = f"{shown(value)} {found}; letters A-Z and a-z, digits, '_', '.' and '-' are allowed"
    near = re.sub(r"[^A-Za-z0-9_.-]+", "_", value).strip("_")[:60]
    yield Fault(child(where, key), "bad_id", detail, f"write {near!r}" if near else "write an id of these letters")


def metadata_faults(raw: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    """Check the sizes of the caller's own keys; a value that is no string counts as its JSON text."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return
    at = child(where, "metadata")
    for key, value in metadata.items():
        if len(key) > limits.metadata_key_chars:
            detail = f"a key has {len(key)} characters; at most {limits.metadata_key_chars} are allowed: {shown(key)}"
            yield Fault(child(at, key), "key_too_long", detail, "shorten the key")
        text = value if is_text(value) else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        if len(text) > limits.metadata_value_chars:
            detail = f"has {len(text)} characters; at most {limits.metadata_value_chars} are allowed"
            yield Fault(child(at, key), "too_long", detail, "shorten it, or keep it in a file of its own")
