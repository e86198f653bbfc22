"""Google's generateContent API: what is sent for our settings, and what its replies say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.lenient import inside, number, objects, total, word
from evalframe.adapters.toolshapes import called, declared, named
from evalframe.reprs import short
from evalframe.words import CallError, FinishReason

# settings that are one key of generationConfig
_NAMES = {
    "temperature": "temperature", "top_p": "topP", "top_k": "topK", "max_output_tokens": "maxOutputTokens",
    "stop": "stopSequences", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty",
}  # fmt: skip
_OUTSIDE = ("tools", "toolConfig", "serviceTier")  # keys of the body beside generationConfig
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
_BUDGETS = ("thinkingBudget", "budget_tokens", "max_tokens")
_OWN_THINKING = ("thinkingLevel", "thinkingBudget", "includeThoughts")
_TIERS = {"default": "standard", "flex": "flex", "priority": "priority"}
_CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}

_FINISH: Mapping[str, FinishReason] = {
    "STOP": "stop",
    **dict.fromkeys(("MAX_TOKENS", "CONTINUATION"), "length"),
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION",
            "PUP_LIMITED_DISABLED", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
        ),
        "content_filter",
    ),
}  # fmt: skip
_ERRORS: Mapping[str, CallError] = {
    "UNAUTHENTICATED": "unauthorized", "PERMISSION_DENIED": "unauthorized", "RESOURCE_EXHAUSTED": "rate_limited",
    "INTERNAL": "server_error", "UNAVAILABLE": "server_error", "DEADLINE_EXCEEDED": "server_error",
}  # fmt: skip
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class GenerateContent:
    """``POST /models/MODEL:generateContent``; pure functions, no network."""

    name = "generate_content"
    has = frozenset({"instructions", "tools", "tool_choice", "reasoning", "text", "service_tier", *_NAMES})

    def path(self, model: str) -> str:
        """Give the path below the base URL; ``tunedModels/…`` is taken as it is."""
        known = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return f"/{quote(known, safe='/@.-_~')}:generateContent"

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Turn settings into keys of ``generationConfig``, and of the body beside it; ``body`` puts them in place.

        ``reasoning`` is an effort, a budget (``budget_tokens``, 0 and the effort ``none`` for no thinking), or
        ``thinkingConfig`` as the API takes it; with ``summary`` the thoughts come back.
        """
        flat = {api: settings[ours] for ours, api in _NAMES.items() if settings.get(ours) is not None}
        if thinking := _thinking(settings.get("reasoning") or {}):
            flat["thinkingConfig"] = thinking
        flat |= _form(settings.get("text") or {})
        if tools := settings.get("tools"):
            flat["tools"] = list(_tools(tools))
        if choice := _tool_choice(settings.get("tool_choice")):
            flat["toolConfig"] = choice
        if tier := _TIERS.get(settings.get("service_tier", "")):
            flat["serviceTier"] = tier
        return flat

    def left_out(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the parts of settings that the API does not have: ``text.verbosity``."""
        return tuple(_left_out(settings))

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Give the body of one request; the model is in the path."""
        body: dict[str, Any] = (
            {} if instructions is None else {"systemInstruction": {"parts": [{"text": instructions}]}}
        )
        body["contents"] = [{"role": "user", "parts": [{"text": prompt}]}]
        body |= {key: value for key, value in fixed.items() if key in _OUTSIDE}
        if config := {key: value for key, value in fixed.items() if key not in _OUTSIDE}:
            body["generationConfig"] = config
        return body

    def read(self, document: Mapping[str, Any]) -> Generation:
        """Read a reply; a prompt that was blocked is a reply without text.

        Raises:
            CallFailed: It is an error, or has no candidate.
        """
        if "error" in document:
            words = self.error_words(document) or "an error of no words"
            raise CallFailed(self.error_type(200, document) or "bad_reply", words)
        candidates = objects(document.get("candidates"))
        if not candidates and not inside(document, "promptFeedback", "blockReason"):
            raise CallFailed("bad_reply", f"the reply has no candidate: {short(dict(document))}")
        usage = document.get("usageMetadata")
        reply = _candidate(candidates[0], usage) if candidates else Generation(text="", finish_reason="content_filter")
        return replace(
            reply,
            **_usage(usage),
            response_id=document.get("responseId"),
            model_version=document.get("modelVersion"),
        )

    def filtered(self, status: int, document: Any) -> Generation | None:
        """Give nothing: this API tells of its filters in replies, not in errors."""
        return None

    def error_type(self, status: int, document: Any) -> CallError | None:
        """Say what kind of failure an error document is; None: as its status says.

        A wrong key is a 400 here, told apart by a detail alone.
        """
        if any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(document)):
            return "unauthorized"
        return _ERRORS.get(word(inside(_unwrapped(document), "error", "status")))

    def error_words(self, document: Any) -> str:
        """Give the server's message."""
        return word(inside(_unwrapped(document), "error", "message"))

    def retry_after(self, document: Any) -> float | None:
        """Give the seconds that an error asks to wait: it says so in a detail, not in a header."""
        for detail in _details(document):
            if seconds := _SECONDS.fullmatch(word(detail.get("retryDelay"))):
                return float(seconds[1])
        return None

    def ask_logprobs(self) -> dict[str, Any]:
        """Give what asks for the log-probability of each token of the reply; for ``fixed``."""
        return {"responseLogprobs": True}


def _candidate(candidate: Mapping[str, Any], usage: Any) -> Generation:
    parts = objects(inside(candidate, "content", "parts"))
    asked = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), Mapping)]
    reason = candidate.get("finishReason")
    finish = _FINISH.get(word(reason), reason)
    token_nll, token_count = _likelihood(candidate, usage)
    return Generation(
        text="".join(_texts(parts, thought=False)),
        reasoning="\n\n".join(_texts(parts, thought=True)) or None,
        tool_calls=[called(call.get("id"), call.get("name"), call.get("args", {})) for call in asked] or None,
        finish_reason="tool_calls" if asked and finish == "stop" else finish,
        token_nll=token_nll,
        token_count=token_count,
    )


def _texts(parts: Sequence[Mapping[str, Any]], *, thought: bool) -> Iterator[str]:
    for part in parts:
        if bool(part.get("thought")) == thought and (text := word(part.get("text"))):
            yield text


def _likelihood(candidate: Mapping[str, Any], usage: Any) -> tuple[float | None, int | None]:
    """Give the summed negative log-probability of the tokens and their number: one by one, else by the average."""
    chosen = inside(candidate, "logprobsResult", "chosenCandidates")
    if isinstance(chosen, list) and chosen:
        values = [number(inside(token, "logProbability")) for token in chosen]
        known = [value for value in values if value is not None]
        return (0.0 - sum(known), len(known)) if len(known) == len(values) else (None, None)
    average = number(candidate.get("avgLogprobs"))
    count = total(candidate.get("tokenCount", inside(usage, "candidatesTokenCount")))
    return (0.0 - average * count, count) if average is not None and count else (None, None)


def _usage(usage: Any) -> dict[str, Any]:
    """Give token counts: thoughts are output, results of tools are input; a count of 0 is left out by the API."""
    told = inside(usage, "promptTokenCount") is not None or inside(usage, "totalTokenCount") is not None
    zero = 0 if told else None
    thoughts = inside(usage, "thoughtsTokenCount")
    return {
        "input_tokens": total(inside(usage, "promptTokenCount"), inside(usage, "toolUsePromptTokenCount"), zero),
        "output_tokens": total(inside(usage, "candidatesTokenCount"), thoughts, zero),
        "cached_tokens": inside(usage, "cachedContentTokenCount"),
        "reasoning_tokens": thoughts,
    }


def _tools(tools: Sequence[Any]) -> Iterator[Any]:
    """Give tools as the API takes them: functions together in one, others as they are."""
    functions = [function for tool in tools if (function := declared(tool)) is not None]
    if functions:
        yield {"functionDeclarations": [_declaration(function) for function in functions]}
    yield from (tool for tool in tools if declared(tool) is None)


def _declaration(function: Mapping[str, Any]) -> dict[str, Any]:
    declaration = {key: function[key] for key in ("name", "description") if key in function}
    if "parameters" in function:
        declaration["parametersJsonSchema"] = function["parameters"]
    return declaration


def _tool_choice(choice: Any) -> dict[str, Any] | None:
    if name := named(choice):
        return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}
    if isinstance(choice, str):
        return {"functionCallingConfig": {"mode": _CHOICES.get(choice, choice)}}
    if isinstance(choice, Mapping):  # in the API's own shape
        return dict(choice) if "functionCallingConfig" in choice else {"functionCallingConfig": dict(choice)}
    return None


def _thinking(reasoning: Mapping[str, Any]) -> dict[str, Any]:
    thinking = {key: reasoning[key] for key in _OWN_THINKING if key in reasoning}
    effort = reasoning.get("effort")
    if effort == "none":
        thinking.setdefault("thinkingBudget", 0)
    elif effort in _EFFORTS:
        thinking.setdefault("thinkingLevel", effort.upper())
    if (budget := next((reasoning[key] for key in _BUDGETS if key in reasoning), None)) is not None:
        thinking["thinkingBudget"] = budget
    if reasoning.get("summary"):
        thinking.setdefault("includeThoughts", True)
    return thinking


def _form(text: Mapping[str, Any]) -> dict[str, Any]:
    """Give the form of the reply: JSON, and its schema where there is one."""
    form = text.get("format")
    if inside(form, "type") not in ("json_object", "json_schema"):
        return {}
    schema = inside(form, "schema") or inside(form, "json_schema", "schema")
    return {"responseMimeType": "application/json", **({"responseJsonSchema": schema} if schema else {})}


def _left_out(settings: Mapping[str, Any]) -> Iterator[str]:
    reasoning, text = settings.get("reasoning") or {}, settings.get("text") or {}
    if reasoning.get("effort") not in (None, "none", *_EFFORTS):
        yield "reasoning.effort"
    known = ("effort", "summary", *_BUDGETS, *_OWN_THINKING)
    yield from (f"reasoning.{key}" for key in reasoning if key not in known)
    if "verbosity" in text:
        yield "text.verbosity"
    if inside(text, "format", "type") not in (None, "text") and not _form(text):
        yield "text.format"
    if settings.get("service_tier") not in (None, *_TIERS):
        yield "service_tier"


def _unwrapped(document: Any) -> Any:
    """Give an error document; some ways of asking put it into a list."""
    return document[0] if isinstance(document, list) and document else document


def _details(document: Any) -> list[Mapping[str, Any]]:
    return objects(inside(_unwrapped(document), "error", "details"))
