"""Faults of the shape of an input: wrong types, missing and unknown keys, in words that a user can act on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from evalframe.errors import Fault
from evalframe.jsontext import clean
from evalframe.manifest.fields import Record, is_number, is_text
from evalframe.registry import nearest, suggestion

_SHOWN_CHARS = 60
_SHOWN_KEY_CHARS = 300  # keys are rarely cut: a path must name one place

# what pydantic found missing, as a user would say it
_NEEDED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def child(where: str, key: str | int) -> str:
    """Go one step down a path.

    >>> child(child("tasks", 3), "grader"), child("metadata", "a b")
    ('tasks[3].grader', 'metadata["a b"]')
    """
    if isinstance(key, int):
        return f"{where}[{key}]"
    if not re.fullmatch(r"[\w-]+", key) or len(key) > _SHOWN_KEY_CHARS:
        return f"{where}[{shown(key, most=_SHOWN_KEY_CHARS)}]"
    return f"{where}.{key}" if where else key


def shown(value: Any, *, most: int = _SHOWN_CHARS) -> str:
    """Give a value as short JSON text, for a message.

    >>> shown({"a": [1, None]})
    '{"a": [1, null]}'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda other: f"<{type(other).__name__}>")
    except (ValueError, TypeError, RecursionError):
        text = f"<{type(value).__name__}>"
    text = clean(text)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def sorted_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Drop faults that say the same of the same place, and order the rest by their path, numbers as numbers."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in faults:
        first.setdefault((fault.where, fault.rule), fault)
    return sorted(first.values(), key=lambda fault: _natural(fault.where))


def faults_of(
    error: ValidationError,
    *,
    where: str,
    root: type[Record] | None,
    models: Mapping[str, type[Record]],
    tag_after: str | None = None,
) -> Iterator[Fault]:
    """Turn the errors of pydantic into faults.

    Args:
        error: What pydantic raised.
        where: The path of the validated value; empty for a whole manifest.
        root: The model of the validated value; None where its type says which.
        models: The models by the key (or tag of a union) under which they stand.
        tag_after: The key of a union of models, after which pydantic puts the tag into its paths; empty for the
            validated value itself.
    """
    for found in error.errors(include_url=False):
        names = ["", *found["loc"]]
        path = [name for i, name in enumerate(names) if i and not (is_text(name) and names[i - 1] == tag_after)]
        at = where
        for name in path:
            at = child(at, name)
        parents = [str(name) for name in names[1:-1] if is_text(name)]
        model = models.get(parents[-1]) if parents else root
        yield _fault(found, at, str(names[-1]), model)


def _fault(found: ErrorDetails, at: str, key: str, model: type[Record] | None) -> Fault:
    kind, value = found["type"], found["input"]
    if kind == "missing":
        field = model.model_fields.get(key) if model else None
        hint = f" ({field.description.rstrip('.')})" if field and field.description else ""
        return Fault(at, "missing", f"is missing{hint}", f"add the key {key!r}")
    if kind == "extra_forbidden":
        return _unknown_key(at, key, model)
    if kind == "literal_error":
        return _not_in_vocabulary(at, key, value, model)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        allowed = re.findall(r"'(\w+)'", found.get("ctx", {}).get("expected_tags", ""))
        return _extraction_type(at, value, allowed)
    needed = found["ctx"]["needed"] if kind == "bad_type" else _NEEDED.get(kind)
    if needed is None:  # a kind that the models do not produce
        return Fault(at, "bad_value", f"{shown(value)} is not legal here", "see the format's description of this field")
    detail = f"{shown(value)} is {_kind_of(value)}; {needed} is needed"
    if needed == "an object" and is_text(value) and re.search(r"\boutput_extraction$|\bmetrics\[\d+\]$", at):
        main = "type" if at.endswith("n") else "id"  # the one key that such an object must have
        return Fault(at, "bad_type", detail, f'write {{"{main}": {shown(value)}}}')
    return Fault(at, "bad_type", detail, _remedy(needed, value))


def _unknown_key(at: str, key: str, model: type[Record] | None) -> Fault:
    if model is None:
        return Fault(at, "unknown_key", f"there is no key {key!r} here", "leave it out")
    if key in model.foreign_keys:
        rule, detail, remedy = model.foreign_keys[key]
        return Fault(at, rule, detail, remedy)
    return Fault(at, "unknown_key", f"there is no key {shown(key)} here", suggestion(clean(key), model.known_keys()))


def _not_in_vocabulary(at: str, key: str, value: Any, model: type[Record] | None) -> Fault:
    if model is not None and is_text(value) and (key, value) in model.foreign_values:
        rule, detail, remedy = model.foreign_values[key, value]
        return Fault(at, rule, detail, remedy)
    field = model.model_fields.get(key) if model else None
    allowed = [str(word) for word in _words(field.annotation)] if field else []
    near = nearest(value, allowed, most=1) if is_text(value) else []
    remedy = (
        f"did you mean {near[0]!r}?" if near else f"write {allowed[0]!r}" if len(allowed) == 1 else "use one of them"
    )
    return Fault(at, "bad_value", f"{shown(value)} is not allowed; allowed: {', '.join(allowed)}", remedy)


def _extraction_type(at: str, value: Any, allowed: list[str]) -> Fault:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind is None:
        return Fault(child(at, "type"), "missing", "is missing (how the answer is read)", 'add "type", as in "none"')
    near = suggestion(clean(kind), allowed) if is_text(kind) and allowed else "use one of them"
    known = ", ".join(allowed)
    return Fault(child(at, "type"), "bad_value", f"{shown(kind)} is not allowed; allowed: {known}", near)


def _remedy(needed: str, value: Any) -> str:
    if needed == "a string" and (is_number(value) or isinstance(value, bool)):
        return f'write "{shown(value)}", in quotes'
    if needed in ("an integer", "a number") and is_text(value) and re.fullmatch(r"-?\d+(\.\d+)?", value.strip()):
        return f"write {value.strip()[:40]}, without quotes"
    if needed == "true or false" and is_text(value) and value.lower() in ("true", "false"):
        return f"write {value.lower()}, without quotes"
    if needed == "a list":
        return "write it in square brackets: [...]"
    if needed == "an object":
        return 'write an object: {"key": ...}'
    return f"give {needed}"


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if is_number(value):
        return "a number"
    if is_text(value):
        return "a string"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a Python {type(value).__name__}"


def _words(annotation: Any) -> Iterator[Any]:
    """All words of the closed vocabularies in an annotation, optional ones included."""
    for part in get_args(annotation):
        if get_args(part):
            yield from _words(part)
        elif part is not type(None) and not isinstance(part, type):
            yield part


def _natural(path: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|\D+", path)
    return [(0, int(part[:15]), part) if part.isdigit() else (1, 0, part) for part in parts]
