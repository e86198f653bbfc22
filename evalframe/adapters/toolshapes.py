"""Tools as users write them, in OpenAI's two shapes, read for APIs that have a shape of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.jsontext import dumps


def declared(tool: Any) -> dict[str, Any] | None:
    """Give ``name``, ``description``, ``parameters`` and ``strict`` of a function; None for a tool of another shape.

    >>> declared({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}})
    {'name': 'add', 'parameters': {'type': 'object'}}
    >>> declared({"type": "function", "name": "add"})
    {'name': 'add'}
    """
    inner = _inner(tool)
    if inner is None:
        return None
    return {key: inner[key] for key in ("name", "description", "parameters", "strict") if inner.get(key) is not None}


def named(choice: Any) -> str | None:
    """Give the name of the function that a ``tool_choice`` asks for; None where it asks for none by name.

    >>> named({"type": "function", "function": {"name": "add"}})
    'add'
    >>> named("required")
    """
    inner = _inner(choice)
    return None if inner is None else str(inner["name"])


def called(identifier: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """Give one call of a tool as it stands in a reply: the arguments as JSON text, whatever the API.

    >>> called("a1", "add", {"x": 1})
    {'id': 'a1', 'name': 'add', 'arguments': '{"x":1}'}
    """
    text = arguments if isinstance(arguments, str) or arguments is None else dumps(arguments)
    return {"id": identifier, "name": name, "arguments": text}


def _inner(tool: Any) -> Mapping[str, Any] | None:
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        return None
    inner = tool.get("function", tool)
    return inner if isinstance(inner, Mapping) and isinstance(inner.get("name"), str) else None
