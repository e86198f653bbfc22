"""What becomes of our generation settings in the three APIs: one table each, and the shapes in which they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Turn = Callable[[Any], dict[str, Any]]
Table = Mapping[str, Turn]

MOST_STOPS = 4  # at OpenAI itself

_NESTED = ("function", "custom")  # kinds of tool that chat completions nest under their kind
_FORMAT = ("name", "description", "schema", "strict")  # of a JSON schema that a reply follows


def fixed(table: Table, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn settings into keys of a request's body, in the order given; what the table lacks is not sent."""
    body: dict[str, Any] = {}
    for name, value in settings.items():
        if name in table:
            body |= table[name](value)
    return body


def under(key: str, turn: Callable[[Any], Any] = lambda value: value) -> Turn:
    """Make a setting one key of the body."""
    return lambda value: {key: turn(value)}


def first_stops(stop: Sequence[str]) -> list[str]:
    """Give the texts at which OpenAI stops; it refuses more."""
    return list(stop[:MOST_STOPS])


def nested(tool: Any) -> Any:
    """Give a tool, or the choice of one, as chat completions take it.

    >>> nested({"type": "function", "name": "add"})
    {'type': 'function', 'function': {'name': 'add'}}
    """
    if not isinstance(tool, Mapping):
        return tool
    kind = tool.get("type")
    if kind == "allowed_tools" and "allowed_tools" not in tool:
        allowed = {key: nested_all(value) if key == "tools" else value for key, value in tool.items() if key != "type"}
        return {"type": kind, "allowed_tools": allowed}
    if kind not in _NESTED or kind in tool:
        return tool
    return {"type": kind, kind: {key: value for key, value in tool.items() if key != "type"}}


def flat(tool: Any) -> Any:
    """Give a tool, or the choice of one, as the Responses API takes it.

    >>> flat({"type": "function", "function": {"name": "add"}})
    {'type': 'function', 'name': 'add'}
    """
    if not isinstance(tool, Mapping):
        return tool
    kind = tool.get("type")
    inner = tool.get(kind) if kind in (*_NESTED, "allowed_tools") else None
    if not isinstance(inner, Mapping):
        return tool
    parts = {key: flat_all(value) if key == "tools" else value for key, value in inner.items()}
    return {"type": kind, **parts, **{key: value for key, value in tool.items() if key not in ("type", kind)}}


def nested_all(tools: Sequence[Any]) -> list[Any]:
    """Give tools as chat completions take them."""
    return [nested(tool) for tool in tools]


def flat_all(tools: Sequence[Any]) -> list[Any]:
    """Give tools as the Responses API takes them."""
    return [flat(tool) for tool in tools]


def chat_text(text: Mapping[str, Any]) -> dict[str, Any]:
    """Give the setting ``text`` as chat completions take it: ``response_format`` and ``verbosity``."""
    body: dict[str, Any] = {}
    form = text.get("format")
    if isinstance(form, Mapping):
        if form.get("type") == "json_schema" and "json_schema" not in form:
            form = {"type": "json_schema", "json_schema": {key: form[key] for key in _FORMAT if key in form}}
        body["response_format"] = dict(form)
    if "verbosity" in text:
        body["verbosity"] = text["verbosity"]
    return body


def responses_text(text: Mapping[str, Any]) -> dict[str, Any]:
    """Give the setting ``text`` as the Responses API takes it: a schema is not nested there."""
    form = text.get("format")
    if isinstance(form, Mapping) and isinstance(schema := form.get("json_schema"), Mapping):
        return {"text": {**text, "format": {"type": "json_schema", **schema}}}
    return {"text": dict(text)}


def effort(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    """Give the setting ``reasoning`` as OpenAI's chat completions take it: they have the effort alone."""
    return {"reasoning_effort": reasoning["effort"]} if "effort" in reasoning else {}


def effort_or_object(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    """Give the setting ``reasoning`` as compatible servers take it.

    Most have OpenAI's ``reasoning_effort``; who asks for more than an effort has a server with the whole object.
    """
    return effort(reasoning) if set(reasoning) == {"effort"} else {"reasoning": dict(reasoning)}


def lost(settings: Mapping[str, Any], parts: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Name the parts of settings that an API does not have (``reasoning.summary``), given those that it has."""
    return tuple(
        f"{name}.{key}"
        for name, known in parts.items()
        if isinstance(value := settings.get(name), Mapping)
        for key in value
        if key not in known
    )


_PLAIN = {name: under(name) for name in ("temperature", "top_p")}
_PENALTIES = {name: under(name) for name in ("presence_penalty", "frequency_penalty")}

RESPONSES: Table = {
    **_PLAIN,
    **{
        name: under(name)
        for name in (
            "max_output_tokens", "parallel_tool_calls", "max_tool_calls", "reasoning", "truncation", "service_tier",
        )
    },
    "tools": under("tools", flat_all),
    "tool_choice": under("tool_choice", flat),
    "text": responses_text,
}  # fmt: skip

# of OpenAI itself, where max_tokens is refused by models that reason
CHAT: Table = {
    **_PLAIN,
    **_PENALTIES,
    **{name: under(name) for name in ("parallel_tool_calls", "service_tier")},
    "stop": under("stop", first_stops),
    "max_output_tokens": under("max_completion_tokens"),
    "tools": under("tools", nested_all),
    "tool_choice": under("tool_choice", nested),
    "reasoning": effort,
    "text": chat_text,
}

# of compatible servers, some of which do not know max_completion_tokens
COMPATIBLE_CHAT: Table = {
    **CHAT,
    "stop": under("stop"),
    "max_output_tokens": under("max_tokens"),
    "reasoning": effort_or_object,
}

COMPATIBLE_COMPLETIONS: Table = {
    **_PLAIN, **_PENALTIES, "stop": under("stop"), "max_output_tokens": under("max_tokens"),
}  # fmt: skip

COMPLETIONS: Table = {**COMPATIBLE_COMPLETIONS, "stop": under("stop", first_stops)}
