"""The six APIs that the scripted server speaks: where a request has its prompt, and how an answer looks. Pure."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

SUM = re.compile(r"(-?\d+)\s*\+\s*(-?\d+)")
WORD = re.compile(r"\s*\S+|\s+$")
DIMENSIONS = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says, before it is written in the words of an API.

    Attributes:
        text: The reply.
        finish_reason: In the words of chat completions; None: what fits the rest.
        usage: ``input_tokens``, ``output_tokens``, ``cached_tokens``, ``reasoning_tokens``; None: none is told.
        reasoning, tool_calls, refusal: As a step gives them; tool calls are ``{"name": …, "arguments": {…}}``.
        logprobs: Pairs of token and log-probability, told where they are asked for; None: never told.
        identity: Of the reply.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = None
    reasoning: str | None = None
    reasoning_field: str = "reasoning_content"
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    refusal: str | None = None
    logprobs: tuple[tuple[str, float], ...] | None = None
    identity: str = "reply-1"

    @property
    def reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


def default_text(prompt: str) -> str:
    """Answer the last ``a + b``, wrong by one in one sum of five; else with a text that only depends on the prompt."""
    if not (sums := SUM.findall(prompt)):
        return f"reply {hashlib.blake2b(prompt.encode(), digest_size=4).hexdigest()}"
    a, b = map(int, sums[-1])
    return str(a + b + (zlib.crc32(f"{a}+{b}".encode()) % 5 == 0))


def default_usage(prompt: str, text: str) -> dict[str, int]:
    return {"input_tokens": len(prompt) // 4 + 1, "output_tokens": len(text) // 3 + 1}


def tokens_of(text: str) -> list[str]:
    """Cut a text into words, each with the blanks before it."""
    return WORD.findall(text) or [text]


def token_logprob(token: str, before: str = "") -> float:
    """The log-probability of a token: near 0 for the sum of the last ``a + b`` before it, else from -3 to -1."""
    if (known := SUM.findall(before)) and token.strip() == str(sum(map(int, known[-1]))):
        return -0.05
    return -1.0 - zlib.crc32(token.encode()) % 2000 / 1000


def scored(text: str, before: str = "") -> tuple[tuple[str, float], ...]:
    """Give the tokens of a text with their log-probabilities."""
    pairs = []
    for token in tokens_of(text):
        pairs.append((token, token_logprob(token, before)))
        before += token
    return tuple(pairs)


def embedding(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A unit vector that only depends on the words: texts with common words are near each other."""
    vector = [1e-6] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.blake2b(word.encode(), digest_size=dimensions).digest()
        vector = [old + (byte - 127.5) / 127.5 for old, byte in zip(vector, digest, strict=True)]
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


class Chat:
    """``/chat/completions``."""

    @staticmethod
    def prompt(body: Mapping[str, Any]) -> str:
        return "\n".join(_flat(m.get("content")) for m in body["messages"] if m.get("role") == "user")

    @staticmethod
    def reply(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": answer.refusal}
        if answer.reasoning is not None:
            message[answer.reasoning_field] = answer.reasoning
        if answer.tool_calls or answer.refusal is not None:
            message["content"] = answer.text or None
        if answer.tool_calls:
            message["tool_calls"] = [
                {"id": f"call_{i}", "type": "function", "function": _as_text(call)}
                for i, call in enumerate(answer.tool_calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": answer.reason, "logprobs": None}
        if body.get("logprobs") and answer.logprobs is not None:
            choice["logprobs"] = {"content": _chat_logprobs(answer, body.get("top_logprobs") or 0), "refusal": None}
        reply = {
            "id": answer.identity, "object": "chat.completion", "created": 1_764_547_200,
            "model": body.get("model"), "choices": [choice],
        }  # fmt: skip
        return _with_usage(reply, answer, "prompt_tokens", "completion_tokens")

    error = staticmethod(lambda status, message, code: _openai_error(status, message, code))


class Completions:
    """``/completions``, with ``echo`` and ``logprobs``: then the prompt's tokens have log-probabilities too."""

    @staticmethod
    def prompt(body: Mapping[str, Any]) -> str:
        return "\n".join(_prompts(body))

    @staticmethod
    def reply(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        prompts = _prompts(body)
        choices = [
            _completion(i, prompt, answer if len(prompts) == 1 else None, body) for i, prompt in enumerate(prompts)
        ]
        reply = {
            "id": answer.identity, "object": "text_completion", "created": 1_764_547_200, "model": body.get("model"),
            "choices": choices,
        }  # fmt: skip
        return _with_usage(reply, answer, "prompt_tokens", "completion_tokens")

    error = staticmethod(lambda status, message, code: _openai_error(status, message, code))


class Responses:
    """``/responses``."""

    @staticmethod
    def prompt(body: Mapping[str, Any]) -> str:
        given = body["input"]
        if isinstance(given, str):
            return given
        return "\n".join(_flat(item.get("content")) for item in given if item.get("role") == "user")

    @staticmethod
    def reply(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if answer.reasoning is not None:
            summary = [{"type": "summary_text", "text": answer.reasoning}]
            output.append({"type": "reasoning", "id": "rs_1", "summary": summary})
        if answer.refusal is not None:
            output.append(_response_message([{"type": "refusal", "refusal": answer.refusal}]))
        elif answer.text or not answer.tool_calls:
            asked = "message.output_text.logprobs" in (body.get("include") or ())
            told = _chat_logprobs(answer, 0) if asked and answer.logprobs is not None else []
            part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": told}
            output.append(_response_message([part]))
        for i, call in enumerate(answer.tool_calls):
            call_id = {"id": f"fc_{i}", "call_id": f"call_{i}", "status": "completed"}
            output.append({"type": "function_call", **call_id, **_as_text(call)})
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.reason)
        reply: dict[str, Any] = {
            "id": answer.identity, "object": "response", "created_at": 1_764_547_200, "model": body.get("model"),
            "status": "incomplete" if reason else "completed", "error": None,
            "incomplete_details": {"reason": reason} if reason else None, "output": output,
        }  # fmt: skip
        return _with_usage(reply, answer, "input_tokens", "output_tokens")

    error = staticmethod(lambda status, message, code: _openai_error(status, message, code))


class Messages:
    """Anthropic's ``/messages``."""

    REASONS: ClassVar = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "content_filter": "refusal",
    }
    ERRORS: ClassVar = {
        400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
        413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
    }  # fmt: skip

    prompt = staticmethod(Chat.prompt)

    @classmethod
    def reply(cls, body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.reasoning is not None:
            content.append({"type": "thinking", "thinking": answer.reasoning, "signature": "c2lnbmVk"})
        if answer.text:
            content.append({"type": "text", "text": answer.text})
        content += [
            {"type": "tool_use", "id": f"toolu_{i}", "name": call["name"], "input": call["arguments"]}
            for i, call in enumerate(answer.tool_calls)
        ]
        reason = "refusal" if answer.refusal is not None else cls.REASONS.get(answer.reason, answer.reason)
        reply = {
            "id": answer.identity, "type": "message", "role": "assistant", "model": body.get("model"),
            "content": content, "stop_reason": reason, "stop_sequence": None,
        }  # fmt: skip
        if (usage := answer.usage) is not None:
            cached = usage.get("cached_tokens", 0)  # Anthropic counts them apart from the others
            reply["usage"] = {
                "input_tokens": usage.get("input_tokens", 0) - cached, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": cached, "output_tokens": usage.get("output_tokens", 0),
            }  # fmt: skip
        return reply

    @classmethod
    def error(cls, status: int, message: str, code: str | None) -> dict[str, Any]:
        kind = cls.ERRORS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


class GenerateContent:
    """Google's ``/models/X:generateContent``."""

    REASONS: ClassVar = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "content_filter": "SAFETY"}
    ERRORS: ClassVar = {
        400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
    }  # fmt: skip

    @staticmethod
    def prompt(body: Mapping[str, Any]) -> str:
        turns = [turn for turn in body["contents"] if turn.get("role", "user") == "user"]
        return "\n".join("".join(part.get("text", "") for part in turn["parts"]) for turn in turns)

    @classmethod
    def reply(cls, body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        if answer.reasoning is not None:
            parts.append({"text": answer.reasoning, "thought": True})
        if answer.text:
            parts.append({"text": answer.text})
        parts += [{"functionCall": {"name": call["name"], "args": call["arguments"]}} for call in answer.tool_calls]
        reason = "SAFETY" if answer.refusal is not None else cls.REASONS.get(answer.reason, answer.reason)
        candidate: dict[str, Any] = {"finishReason": reason, "index": 0}
        if parts:
            candidate["content"] = {"role": "model", "parts": parts}
        if (body.get("generationConfig") or {}).get("responseLogprobs") and answer.logprobs is not None:
            chosen = [
                {"token": token, "tokenId": i, "logProbability": p} for i, (token, p) in enumerate(answer.logprobs)
            ]
            candidate["logprobsResult"] = {"chosenCandidates": chosen, "topCandidates": []}
        reply = {"candidates": [candidate], "modelVersion": body.get("model"), "responseId": answer.identity}
        if (usage := answer.usage) is not None:
            inputs, thoughts = usage.get("input_tokens", 0), usage.get("reasoning_tokens", 0)
            outputs = usage.get("output_tokens", 0) - thoughts  # Google counts thoughts apart from the others
            told = {"promptTokenCount": inputs, "candidatesTokenCount": outputs}
            told |= {"thoughtsTokenCount": thoughts} if thoughts else {}
            told |= {"cachedContentTokenCount": usage["cached_tokens"]} if usage.get("cached_tokens") else {}
            reply["usageMetadata"] = {**told, "totalTokenCount": inputs + outputs + thoughts}
        return reply

    @classmethod
    def error(cls, status: int, message: str, code: str | None) -> dict[str, Any]:
        return {"error": {"code": status, "message": message, "status": cls.ERRORS.get(status, "UNKNOWN")}}


class Embeddings:
    """``/embeddings``."""

    @staticmethod
    def prompt(body: Mapping[str, Any]) -> str:
        return "\n".join(_texts(body["input"]))

    @staticmethod
    def reply(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
        texts = _texts(body["input"])
        data = [
            {"object": "embedding", "index": i, "embedding": embedding(text, body.get("dimensions") or DIMENSIONS)}
            for i, text in enumerate(texts)
        ]
        n = sum(len(text) // 4 + 1 for text in texts)
        usage = {"prompt_tokens": n, "total_tokens": n}
        return {"object": "list", "data": data, "model": body.get("model"), "usage": usage}

    error = staticmethod(lambda status, message, code: _openai_error(status, message, code))


def api_of(path: str) -> Any:
    """Find the API of a path, whatever stands before it; None: there is none."""
    for end, api in (
        ("/chat/completions", Chat),
        ("/responses", Responses),
        ("/completions", Completions),
        ("/embeddings", Embeddings),
        ("/messages", Messages),
        (":generateContent", GenerateContent),
    ):
        if path.endswith(end):
            return api
    return None


def model_of(path: str, body: Mapping[str, Any]) -> str:
    """Name the model of a request: Google has it in the path."""
    if path.endswith(":generateContent"):
        return path.rsplit("/", 1)[-1].removesuffix(":generateContent")
    return str(body.get("model"))


def filtered(api: Any) -> dict[str, Any]:
    """The body of a 400 that is a content filter, as Azure's OpenAI, Anthropic and Google write it."""
    if api is Messages:
        return Messages.error(400, "Output blocked by content filtering policy", None)
    if api is GenerateContent:
        return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    reply = _openai_error(
        400, "The response was filtered due to the prompt triggering a content policy", "content_filter"
    )
    reply["error"]["innererror"] = {"code": "ResponsibleAIPolicyViolation"}
    return reply


def _openai_error(status: int, message: str, code: str | None) -> dict[str, Any]:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status)
    kind = kind or ("invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def _texts(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else [str(text) for text in given]


def _prompts(body: Mapping[str, Any]) -> list[str]:
    return _texts(body["prompt"])


def _as_text(call: Mapping[str, Any]) -> dict[str, str]:
    arguments = call["arguments"]
    return {"name": call["name"], "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}


def _response_message(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}


def _chat_logprobs(answer: Answer, n_top: int) -> list[dict[str, Any]]:
    told = []
    for token, logprob in answer.logprobs or ():
        one = {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        others = [{"token": f"~{i}", "logprob": logprob - 1.0 - i, "bytes": None} for i in range(1, n_top)]
        told.append({**one, "top_logprobs": [one, *others] if n_top else []})
    return told


def _completion(index: int, prompt: str, answer: Answer | None, body: Mapping[str, Any]) -> dict[str, Any]:
    text = answer.text if answer else default_text(prompt)
    own = answer.logprobs if answer else scored(text, prompt)
    if body.get("max_tokens") == 0:
        text, own = "", ()
    pairs: list[tuple[str, float | None]] = list(own or ())
    choice: dict[str, Any] = {"index": index, "finish_reason": answer.reason if answer else "stop", "logprobs": None}
    if body.get("echo"):
        echoed: list[tuple[str, float | None]] = list(scored(prompt))
        echoed[0] = (echoed[0][0], None)  # nothing stands before the first token
        text, pairs = prompt + text, [*echoed, *pairs]
    choice["text"] = text
    if body.get("logprobs") is not None and own is not None:
        offsets, place = [], 0
        for token, _ in pairs:
            offsets.append(place)
            place += len(token)
        choice["logprobs"] = {
            "tokens": [token for token, _ in pairs], "token_logprobs": [p for _, p in pairs], "text_offset": offsets,
            "top_logprobs": [None if p is None else {token: p} for token, p in pairs],
        }  # fmt: skip
    return choice


def _with_usage(reply: dict[str, Any], answer: Answer, inputs: str, outputs: str) -> dict[str, Any]:
    if (usage := answer.usage) is None:
        return reply
    n_in, n_out = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    told: dict[str, Any] = {inputs: n_in, outputs: n_out, "total_tokens": n_in + n_out}
    if "cached_tokens" in usage:
        told[f"{inputs}_details"] = {"cached_tokens": usage["cached_tokens"]}
    if "reasoning_tokens" in usage:
        told[f"{outputs}_details"] = {"reasoning_tokens": usage["reasoning_tokens"]}
    return {**reply, "usage": told}
