"""Chat completions: what OpenAI had first, and what nearly every other server speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalframe.adapters import Generation
from evalframe.adapters.openai import replies, tokens
from evalframe.adapters.openai.settings import CHAT, COMPATIBLE_CHAT, MOST_STOPS, Table, fixed, lost
from evalframe.jsontext import dumps


@dataclass(frozen=True, slots=True)
class Chat:
    """The API of chat completions.

    Attributes:
        table: What becomes of each setting.
        parts: The parts that it has of a setting that is an object; a setting that is not here is sent whole.
        most_stops: Texts at which it stops at most; None: any number.
    """

    table: Table
    parts: Mapping[str, tuple[str, ...]]
    most_stops: int | None = None
    name: str = "chat"

    @property
    def has(self) -> frozenset[str]:
        """The generation settings that this API has."""
        return frozenset({"instructions", *self.table})

    def path(self, model: str) -> str:
        """Where requests go, below the base URL."""
        return "/chat/completions"

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Turn generation settings into keys of the body; no hidden defaults."""
        return fixed(self.table, settings)

    def left_out(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the parts of settings that this API does not have."""
        return lost(settings, self.parts)

    def stop_here(self, stop: Sequence[str]) -> tuple[str, ...]:
        """Give the texts of ``stop`` that it refuses."""
        return () if self.most_stops is None else tuple(stop[self.most_stops :])

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Give the body of one request: the prompt is the user's message, instructions the system's."""
        messages = [] if instructions is None else [{"role": "system", "content": instructions}]
        return {"model": model, "messages": [*messages, {"role": "user", "content": prompt}], **fixed}

    def ask_logprobs(self) -> dict[str, Any]:
        """Ask for the log-probability of each token of the reply."""
        return {"logprobs": True}

    def read(self, document: Mapping[str, Any]) -> Generation:
        """Read one reply.

        Raises:
            CallFailed: It is an error, or no reply of this API.
        """
        if (refused := replies.of_error(document)) is not None:
            return refused
        choice = replies.mapping(replies.filled(document.get("choices"), "choices")[0], "choices[0]")
        replies.refuse_broken_off(choice)
        message = replies.mapping(choice.get("message"), "choices[0].message")
        text, reasoning, refusal = said(message)
        calls = tool_calls(message)
        nll, count = tokens.summed(choice.get("logprobs"))
        reason = replies.finish_reason(choice.get("finish_reason"))
        if refusal and reason in ("stop", None):
            reason = "refusal"
        elif calls and reason in ("stop", None):
            reason = "tool_calls"
        return Generation(
            text=text or refusal, reasoning=reasoning, tool_calls=calls or None, finish_reason=reason, token_nll=nll,
            token_count=count, **replies.about(document),
        )  # fmt: skip

    def filtered(self, status: int, document: Any) -> Generation | None:
        """Give the reply that an error of a content filter stands for, else None."""
        return replies.filtered(status, document)

    def error_words(self, document: Any) -> str:
        """Give the server's own message of an error."""
        return replies.error_words(document)


def said(message: Mapping[str, Any]) -> tuple[str, str | None, str]:
    """Take a message apart: its text, the reasoning that stands apart from it, and its refusal."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    text = replies.text_of(content, "choices[0].message.content")
    refusals = [message.get("refusal"), *(part.get("refusal") for part in parts if part.get("type") == "refusal")]
    refusal = "".join(part for part in refusals if isinstance(part, str))
    return text, _reasoning(message, parts), refusal


def _reasoning(message: Mapping[str, Any], parts: list[Mapping[str, Any]]) -> str | None:
    """Find reasoning where servers put it.

    vLLM, llama.cpp and DeepSeek have ``reasoning_content``, others ``reasoning`` or ``reasoning_details``; Mistral has
    parts of the content.
    """
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(value := message.get(key), str) and value:
            return value
    details = message.get("reasoning_details")
    pieces = [part for part in details if isinstance(part, Mapping)] if isinstance(details, list) else []
    texts = [part.get("text") or part.get("summary") for part in pieces]
    texts += [
        replies.text_of(part.get("thinking") or part.get("text"), "choices[0].message.content[].thinking")
        for part in parts
        if part.get("type") in ("thinking", "reasoning")
    ]
    return "".join(text for text in texts if isinstance(text, str)) or None


def tool_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give the calls of tools as ``{"id", "name", "arguments"}``, the arguments as the text that the model wrote."""
    found = []
    for call in message.get("tool_calls") or ():
        call = replies.mapping(call, "choices[0].message.tool_calls[]")
        inner = replies.mapping(call.get("function") or call.get("custom"), "choices[0].message.tool_calls[].function")
        found.append(called(call.get("id"), inner))
    if isinstance(legacy := message.get("function_call"), Mapping):
        found.append(called(None, legacy))
    return found


def called(identifier: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """Give one call of a tool; a custom tool has an ``input`` in place of arguments."""
    arguments = call.get("arguments", call.get("input"))
    text = arguments if isinstance(arguments, str) or arguments is None else dumps(arguments)
    return {"id": identifier, "name": call.get("name"), "arguments": text}


OPENAI_CHAT_API = Chat(CHAT, {"reasoning": ("effort",), "text": ("format", "verbosity")}, MOST_STOPS)
COMPATIBLE_CHAT_API = Chat(COMPATIBLE_CHAT, {"text": ("format", "verbosity")})
