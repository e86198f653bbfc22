"""Anthropic's Messages API: what is sent for our settings, and what its replies say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.lenient import inside, objects, total, word
from evalframe.adapters.toolshapes import called, declared, named
from evalframe.reprs import short
from evalframe.words import CallError, FinishReason

# settings that are one key of the body
_NAMES = {
    "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_output_tokens": "max_tokens",
}  # fmt: skip
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_TIERS = {"auto": "auto", "default": "standard_only"}
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_BUDGETS = ("budget_tokens", "max_tokens")  # what reasoning calls its tokens here, and where several APIs meet

# "pause_turn" is a long turn that the server broke off, to be gone on with: not a whole reply
_FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
    "pause_turn": "length", "tool_use": "tool_calls", "refusal": "refusal",
}  # fmt: skip
_ERRORS: Mapping[str, CallError] = {
    "authentication_error": "unauthorized", "permission_error": "unauthorized", "rate_limit_error": "rate_limited",
    "overloaded_error": "server_error", "api_error": "server_error", "timeout_error": "server_error",
}  # fmt: skip
_FILTERED = re.compile(r"content filtering policy", re.IGNORECASE)
# models of late 2026 answer 400 to settings that earlier ones take
_REFUSED = re.compile(r"`(temperature|top_p|top_k)`.*(deprecated|not supported|unsupported)", re.IGNORECASE)


class Messages:
    """``POST /messages``; pure functions, no network."""

    name = "messages"
    has = frozenset(
        {
            "instructions",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "reasoning",
            "text",
            "service_tier",
            "stop",
            *_NAMES,
        }
    )

    def path(self, model: str) -> str:
        """Give the path below the base URL."""
        return "/messages"

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Turn settings into keys of the body.

        ``reasoning`` is an effort (sent with adaptive thinking), a budget (``budget_tokens``), or ``thinking`` as the
        API takes it (with a ``type``).
        """
        body = {api: settings[ours] for ours, api in _NAMES.items() if settings.get(ours) is not None}
        if stop := [text for text in settings.get("stop") or () if text.strip()]:  # see stop_here
            body["stop_sequences"] = stop
        if tools := settings.get("tools"):
            body["tools"] = [_tool(tool) for tool in tools]
        if choice := _tool_choice(settings):
            body["tool_choice"] = choice
        body |= _thinking(settings.get("reasoning") or {})
        if schema := _schema(settings.get("text") or {}):
            form = {"format": {"type": "json_schema", "schema": schema}}
            body["output_config"] = {**body.get("output_config", {}), **form}
        if tier := _TIERS.get(settings.get("service_tier", "")):
            body["service_tier"] = tier
        return body

    def left_out(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the parts of settings that the API does not have: ``reasoning.effort`` where it has no such effort."""
        return tuple(_left_out(settings))

    def stop_here(self, stop: Sequence[str]) -> tuple[str, ...]:
        """Give the texts at which the API refuses to stop, blanks alone: replies are cut there here."""
        return tuple(text for text in stop if not text.strip())

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Give the body of one request."""
        system = {} if instructions is None else {"system": instructions}
        body = {"model": model, **system, "messages": [{"role": "user", "content": prompt}], **fixed}
        if "tool_choice" in fixed:  # what was chosen, and whether one at a time, are two settings
            body["tool_choice"] = {"type": "auto", **fixed["tool_choice"]}
        return body

    def read(self, document: Mapping[str, Any]) -> Generation:
        """Read a reply.

        Raises:
            CallFailed: It is an error, or has no content.
        """
        if document.get("type") == "error":
            raise CallFailed(_error_type(document) or "bad_reply", self.error_words(document) or "an error of no words")
        if not isinstance(document.get("content"), list):
            raise CallFailed("bad_reply", f"the reply has no list of content: {short(dict(document))}")
        blocks = objects(document["content"])
        calls = [
            called(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        usage = document.get("usage")
        cached = inside(usage, "cache_read_input_tokens")
        reason = document.get("stop_reason")
        return Generation(
            text="".join(_texts(blocks, "text")),
            reasoning="\n\n".join(_texts(blocks, "thinking")) or None,
            tool_calls=calls or None,
            finish_reason=_FINISH.get(word(reason), reason),
            # what was read from a cache, or put there, is counted apart from the other input
            input_tokens=total(inside(usage, "input_tokens"), cached, inside(usage, "cache_creation_input_tokens")),
            output_tokens=inside(usage, "output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=inside(usage, "output_tokens_details", "thinking_tokens"),
            response_id=document.get("id"),
            model_version=document.get("model"),
        )

    def filtered(self, status: int, document: Any) -> Generation | None:
        """Give the reply where an error answer says that a filter stopped it."""
        if status == 400 and _FILTERED.search(_message(document)):
            return Generation(text="", finish_reason="content_filter")
        return None

    def error_type(self, status: int, document: Any) -> CallError | None:
        """Say what kind of failure an error document is; None: as its status says."""
        return _error_type(document)

    def error_words(self, document: Any) -> str:
        """Give the server's message, and what to do where a model refuses a setting."""
        message = _message(document)
        if refused := _REFUSED.search(message):
            message += f' -> leave it out for this model: {{"model": …, "drop": ["{refused[1]}"]}}'
        return message

    def ask_logprobs(self) -> dict[str, Any]:
        """Give nothing: the API has no log-probabilities."""
        return {}


def _texts(blocks: Sequence[Mapping[str, Any]], kind: str) -> Iterator[str]:
    for block in blocks:
        if block.get("type") == kind and (text := word(block.get(kind))):
            yield text


def _tool(tool: Any) -> Any:
    function = declared(tool)
    if function is None:
        return tool  # in the API's own shape
    schema = function.pop("parameters", {"type": "object", "properties": {}})
    return {**function, "input_schema": schema}


def _tool_choice(settings: Mapping[str, Any]) -> dict[str, Any]:
    given, parallel = settings.get("tool_choice"), settings.get("parallel_tool_calls")
    choice: dict[str, Any] = {}
    if name := named(given):
        choice = {"type": "tool", "name": name}
    elif isinstance(given, str):
        choice = {"type": _CHOICES.get(given, given)}
    elif isinstance(given, Mapping):
        choice = dict(given)
    if parallel is not None:
        choice["disable_parallel_tool_use"] = not parallel
    return choice


def _thinking(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    effort, budget = reasoning.get("effort"), next((reasoning[key] for key in _BUDGETS if key in reasoning), None)
    thinking = {key: value for key, value in reasoning.items() if key not in ("effort", "summary", "max_tokens")}
    body: dict[str, Any] = {}
    if effort == "none":
        thinking = {"type": "disabled"}
    elif budget is not None:
        thinking = {"type": "enabled", **thinking, "budget_tokens": budget}
    elif effort in _EFFORTS or "summary" in reasoning:
        thinking = {"type": "adaptive", **thinking}
    if "type" in thinking:
        if reasoning.get("summary") and thinking["type"] != "disabled":
            thinking.setdefault("display", "summarized")
        body["thinking"] = thinking
    if effort in _EFFORTS:
        body["output_config"] = {"effort": effort}
    return body


def _schema(text: Mapping[str, Any]) -> Any:
    form = text.get("format")
    if inside(form, "type") != "json_schema":
        return None
    return inside(form, "schema") or inside(form, "json_schema", "schema")


def _left_out(settings: Mapping[str, Any]) -> Iterator[str]:
    reasoning, text = settings.get("reasoning") or {}, settings.get("text") or {}
    if reasoning.get("effort") not in (None, "none", *_EFFORTS):
        yield "reasoning.effort"
    if "verbosity" in text:
        yield "text.verbosity"
    if inside(text, "format", "type") not in (None, "text") and not _schema(text):
        yield "text.format"
    if settings.get("service_tier") not in (None, *_TIERS):
        yield "service_tier"


def _error_type(document: Any) -> CallError | None:
    return _ERRORS.get(word(inside(document, "error", "type")))


def _message(document: Any) -> str:
    return word(inside(document, "error", "message"))
