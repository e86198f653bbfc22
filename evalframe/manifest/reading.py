"""From what a caller gives (JSON text, a dict, records) to plain JSON values, with everything lost named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from evalframe.errors import Fault, ManifestError
from evalframe.jsontext import Number, clean
from evalframe.manifest.shape import child, shown

_DEEPEST = 60


class _Object(dict[str, Any]):
    """A parsed JSON object that knows which of its keys stood twice."""

    twice: tuple[str, ...] = ()


def from_text(text: str, where: str) -> Any:
    """Parse JSON text; ``plain`` names the keys that stand twice and the numbers that are none.

    Raises:
        ManifestError: The text is empty or no JSON, with line and column, and what it may be instead.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise _unreadable(where, "empty", "the text is empty", 'write a JSON object: {"tasks": [...]}')
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise _unreadable(place, "bad_json", f"is not JSON: {_plain_words(error.msg)}", _hint(text, error)) from None
    except RecursionError:
        raise _unreadable(
            where, "bad_json", "is nested too deeply", "a manifest is at most a few levels deep"
        ) from None


def plain(value: Any, where: str, *, root: str = "") -> tuple[Any, list[Fault]]:
    """Copy a value into plain dicts, lists, strings, numbers, truth values and None.

    Records become dicts, tuples lists, numpy scalars numbers. What JSON can not hold is left as it is and named.

    Args:
        value: What the caller gave.
        where: The path of the value; empty for a whole manifest.
        root: How the value itself is called where the path is empty.
    """
    faults: list[Fault] = []
    return _plain(value, where, root or where, faults, 0), faults


def _plain(value: Any, where: str, name: str, faults: list[Fault], depth: int) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True)
    elif hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a numpy scalar
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, name, faults)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            faults.append(Fault(name, "not_finite", f"{value} is no JSON number", "write a finite number, or null"))
        return float(value)
    if isinstance(value, Mapping | list | tuple):
        if depth == _DEEPEST:
            faults.append(Fault(name, "too_deep", f"is nested over {_DEEPEST} levels deep", "flatten it"))
            return None
        if isinstance(value, Mapping):
            return _object_of(value, where, name, faults, depth)
        return [_plain(one, child(where, i), child(where, i), faults, depth + 1) for i, one in enumerate(value)]
    kind = type(value).__name__
    faults.append(Fault(name, "bad_type", f"a Python {kind} is no JSON value", "give a string, number, list or dict"))
    return value


def _object_of(value: Mapping[Any, Any], where: str, name: str, faults: list[Fault], depth: int) -> dict[str, Any]:
    twice = "the key stands twice in one object"
    faults += [Fault(child(where, key), "duplicate_key", twice, "keep one") for key in getattr(value, "twice", ())]
    result: dict[str, Any] = {}
    for key, one in value.items():
        if not isinstance(key, str):
            faults.append(Fault(name, "bad_key", f"the key {key!r} is no string", f'write "{key}"'))
            continue
        at = child(where, clean(key))
        result[_text(key, at, faults)] = _plain(one, at, at, faults, depth + 1)
    return result


def _text(value: str, where: str, faults: list[Fault]) -> Any:
    if isinstance(value, Number):
        return _integer(value) if re.fullmatch(r"-?\d+", value) else float(value)
    text = str.__str__(value)  # also of a str subclass whose own __str__ says something else
    if clean(text) != text:
        faults.append(
            Fault(where, "bad_text", f"{shown(text)} holds half of a surrogate pair", "write the whole character")
        )
    return clean(text)


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    result = _Object(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        result.twice = tuple(key for key in result if keys.count(key) > 1)
    return result


def _integer(text: str) -> int | float:
    # Python refuses to read integers of over 4,300 digits; no field takes one, and infinity is named as a fault
    return int(text) if len(text) < 4000 else math.inf


def _hint(text: str, error: json.JSONDecodeError) -> str:
    rest = text[error.pos :].lstrip()
    start = text.lstrip()
    if not start.startswith(("{", "[", '"')):
        if re.match(r"(---|#|- |[\w\"' -]+:(\s|$))", start):
            return "this looks like YAML; write the manifest as JSON"
        if "\n" not in text and re.search(r"\.jsonl?$", start.strip()):
            return "this is a file's name, not JSON text; hand in the text of the file"
        return 'a manifest is a JSON object and begins with {"tasks": ...'
    if rest.startswith("'"):
        return "JSON strings stand in double quotes"
    if rest.startswith(("//", "#", "/*")):
        return "JSON has no comments; leave it out"
    if rest.startswith(("True", "False", "None")):
        return "JSON writes true, false and null"
    if rest.startswith(("]", "}")):
        return "a comma before a closing bracket is not JSON; leave it out"
    return "mend the text at this place"


def _plain_words(message: str) -> str:
    words = {
        "Extra data": "there is more text after the JSON value",
        "Expecting value": "a value is expected here",
        "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
        "Unterminated string starting at": "this string is not closed",
        "Expecting ',' delimiter": "a comma or a closing bracket is expected here",
        "Expecting ':' delimiter": "a colon is expected here",
        "Invalid control character at": "a line break or control character stands in a string; write \\n",
    }
    return words.get(message, message[0].lower() + message[1:])


def _unreadable(where: str, rule: str, detail: str, remedy: str) -> ManifestError:
    error = ManifestError.of([Fault(where, rule, detail, remedy)], what="the manifest can not be read")
    assert isinstance(error, ManifestError)
    return error
