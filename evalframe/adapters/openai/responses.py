"""The Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.openai import replies, tokens
from evalframe.adapters.openai.chat import called
from evalframe.adapters.openai.settings import RESPONSES, fixed

# what a reply that is not finished says of itself
_UNFINISHED = ("in_progress", "queued", "cancelled")


@dataclass(frozen=True, slots=True)
class Responses:
    """The Responses API: it has no ``stop`` and no penalties."""

    name: str = "responses"

    @property
    def has(self) -> frozenset[str]:
        """The generation settings that this API has."""
        return frozenset({"instructions", *RESPONSES})

    def path(self, model: str) -> str:
        """Where requests go, below the base URL."""
        return "/responses"

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Turn generation settings into keys of the body; no hidden defaults."""
        return fixed(RESPONSES, settings)

    def left_out(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the parts of settings that this API does not have: none, they are written after it."""
        return ()

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Give the body of one request."""
        told = {} if instructions is None else {"instructions": instructions}
        return {"model": model, **told, "input": prompt, **fixed}

    def ask_logprobs(self) -> dict[str, Any]:
        """Ask for the log-probability of each token of the reply."""
        return {"include": ["message.output_text.logprobs"]}

    def read(self, document: Mapping[str, Any]) -> Generation:
        """Read one reply.

        Raises:
            CallFailed: It is an error, unfinished, or no reply of this API.
        """
        if (refused := replies.of_error(document)) is not None:
            return refused
        if (status := document.get("status")) in _UNFINISHED:
            raise CallFailed("bad_reply", f"the reply is not finished: its status is {status}")
        if status == "failed":
            replies.refuse_errors({"message": "its status is failed"})
        if not isinstance(output := document.get("output"), list):
            raise replies.bad("output", output, "a list")
        items = [item for item in output if isinstance(item, Mapping)]
        parts = list(_parts(items))
        text = "".join(part["text"] for part in parts if _has_text(part))
        refusal = "".join(str(part.get("refusal") or "") for part in parts if part.get("type") == "refusal")
        calls = _tool_calls(items)
        nll, count = tokens.total(
            value for part in parts if _has_text(part) for value in tokens.listed(part.get("logprobs")) or [None]
        )
        return Generation(
            text=text or refusal, reasoning=_reasoning(items), tool_calls=calls or None, token_nll=nll,
            token_count=count, finish_reason=_finish_reason(document, refusal=bool(refusal), calls=bool(calls)),
            **replies.about(document),
        )  # fmt: skip

    def filtered(self, status: int, document: Any) -> Generation | None:
        """Give the reply that an error of a content filter stands for, else None."""
        return replies.filtered(status, document)

    def error_words(self, document: Any) -> str:
        """Give the server's own message of an error."""
        return replies.error_words(document)


def _parts(items: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        if item.get("type") != "message":
            continue
        content = item.get("content")
        if isinstance(content, str):  # of servers that take the short way
            yield {"type": "output_text", "text": content}
        elif isinstance(content, list):
            yield from (part for part in content if isinstance(part, Mapping))
        elif content is not None:
            raise replies.bad("output[].content", content, "a list")


def _has_text(part: Mapping[str, Any]) -> bool:
    return part.get("type") in ("output_text", "text") and isinstance(part.get("text"), str)


def _reasoning(items: list[Mapping[str, Any]]) -> str | None:
    """Give the reasoning itself where the server shows it, else its summary."""
    blocks = []
    for item in items:
        if item.get("type") == "reasoning":
            parts = item.get("content") or item.get("summary") or ()
            blocks += [
                part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            ]
    return "\n\n".join(blocks) or None


def _tool_calls(items: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give the calls that are for us to make; what a server's own tools did is in the raw reply."""
    kinds = ("function_call", "custom_tool_call")
    return [called(item.get("call_id") or item.get("id"), item) for item in items if item.get("type") in kinds]


def _finish_reason(document: Mapping[str, Any], *, refusal: bool, calls: bool) -> Any:
    if document.get("status") == "incomplete":
        details = document.get("incomplete_details")
        return replies.finish_reason(details.get("reason") if isinstance(details, Mapping) else None)
    if refusal:
        return "refusal"
    return "tool_calls" if calls else "stop"


RESPONSES_API = Responses()
