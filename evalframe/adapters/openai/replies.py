"""What replies of the three APIs have in common: usage, why a reply ended, errors, and words for wrong shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalframe.adapters import CallFailed, Generation
from evalframe.words import CallError

# usage, by our names: where servers put it, the first that is there
USAGE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "input_tokens": (("prompt_tokens",), ("input_tokens",)),
    "output_tokens": (("completion_tokens",), ("output_tokens",)),
    "cached_tokens": (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
    ),
    "reasoning_tokens": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    ),
}

# why a reply ended, in the words of all servers; a word that is not here is told to the user as it is
FINISH_REASONS: Mapping[str, str] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "max_completion_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "safety", "recitation", "sensitive"), "content_filter"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    "refusal": "refusal",
}

# a reply that ended so is none
_BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "insufficient_system_resource", "network_error"})

_FILTER_CODES = frozenset(
    {
        "content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed",
        "datainspectionfailed", "sensitive_words_detected",
    }
)  # fmt: skip

_ERRORS: Mapping[str, CallError] = {
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "insufficient_quota"), "rate_limited"),
    **dict.fromkeys(("invalid_api_key", "authentication_error", "permission_error"), "unauthorized"),
    **dict.fromkeys(("timeout", "timeout_error"), "timeout"),
    **dict.fromkeys(
        ("invalid_request_error", "invalid_prompt", "context_length_exceeded", "model_not_found", "not_found_error"),
        "bad_request",
    ),
}


def usage_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give the usage by our names; what the server does not tell is None."""
    usage = document.get("usage")
    return {name: _first(usage, paths) for name, paths in USAGE.items()}


def about(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give what every reply says of itself: usage, its id and the model that made it.

    ``model_version`` is ``model`` as the server names it, a dated snapshot for one. The ``system_fingerprint`` stands
    in only where there is no model: it changes from call to call on some servers, which would tear groups apart.
    """
    version = document.get("model") or document.get("system_fingerprint")
    return {**usage_of(document), "response_id": document.get("id"), "model_version": version}


def finish_reason(word: Any) -> Any:
    """Give the word of our vocabulary; an unknown one as it is, so that the engine can say so."""
    return FINISH_REASONS.get(word.lower(), word) if isinstance(word, str) else word


def refuse_broken_off(choice: Mapping[str, Any]) -> None:
    """Raise where a choice is none: it has an error of its own, as OpenRouter's do, or was broken off.

    Raises:
        CallFailed: As ``refuse_errors``.
    """
    word = choice.get("finish_reason")
    if choice.get("error"):
        refuse_errors(choice["error"])
    elif isinstance(word, str) and word.lower() in _BROKEN_OFF:
        refuse_errors({"message": f"broken off with the finish_reason {word}"})


def text_of(content: Any, where: str) -> str:
    """Give the text of a message: null, a string, or parts of which the text ones are joined."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        return "".join(part["text"] for part in parts if _is_text(part))
    raise bad(where, content, "a text")


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Give an object of a reply.

    Raises:
        CallFailed: It is none (``bad_reply``).
    """
    if isinstance(value, Mapping):
        return value
    raise bad(where, value, "an object")


def filled(value: Any, where: str) -> list[Any]:
    """Give a list of a reply that has at least one item.

    Raises:
        CallFailed: It is none, or empty (``bad_reply``).
    """
    if isinstance(value, list) and value:
        return value
    raise bad(where, value, "a list with an item")


def bad(where: str, value: Any, wanted: str) -> CallFailed:
    """Say what was seen in place of a reply, without any of its text."""
    return CallFailed("bad_reply", f"the reply is not in the shape of the API: {where} is {seen(value)}, not {wanted}")


def seen(value: Any) -> str:
    """Name a JSON value by its kind, an object by its keys.

    >>> seen({"detail": "…", "code": 3})
    'an object with detail, code'
    """
    if isinstance(value, Mapping):
        names = [str(key)[:40] for key in value]
        more = ", …" if len(names) > 8 else ""
        return f"an object with {', '.join(names[:8])}{more}" if names else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    kinds = {str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def error_words(document: Any) -> str:
    """Give a server's own message of an error; empty where there is none.

    >>> error_words({"error": {"message": "no such model", "code": 404}})
    'no such model'
    >>> error_words({"detail": [{"loc": ["body", "stop"], "msg": "too many"}]})
    'body.stop: too many'
    """
    if isinstance(document, str):
        return document
    if isinstance(document, list):
        return "; ".join(filter(None, map(error_words, document)))
    if not isinstance(document, Mapping):
        return ""
    if isinstance(place := document.get("loc"), list) and "msg" in document:
        return f"{'.'.join(map(str, place))}: {document['msg']}"
    found = (error_words(document[key]) for key in ("error", "message", "msg", "detail") if document.get(key))
    return next(filter(None, found), "")


def filtered(status: int, document: Any) -> Generation | None:
    """Give the reply that an error of a content filter stands for, else None.

    Azure answers 400 with the code ``content_filter``, OpenRouter 403 with the reasons of its moderation, and OpenAI
    itself ``invalid_prompt`` for a prompt that was flagged.
    """
    error = document.get("error", document) if isinstance(document, Mapping) else None
    if status >= 500 or status == 401 or not isinstance(error, Mapping):
        return None
    inner, metadata = error.get("innererror"), error.get("metadata")
    codes = {str(code).lower() for code in (error.get("code"), error.get("type"), _get(inner, "code")) if code}
    flagged = "invalid_prompt" in codes and "usage policy" in error_words(error).lower()
    moderated = isinstance(metadata, Mapping) and "flagged_input" in metadata
    if not (codes & _FILTER_CODES or flagged or moderated):
        return None
    return Generation(text="", finish_reason="content_filter")


def of_error(document: Mapping[str, Any]) -> Generation | None:
    """Look for an error in a reply of status 200: None where there is none, a reply where a content filter spoke.

    Raises:
        CallFailed: As ``refuse_errors``, and for a document that is no object.
    """
    error = mapping(document, "the document").get("error")
    if not error:
        return None
    if (reply := filtered(200, document)) is None:
        refuse_errors(error)
    return reply


def refuse_errors(error: Any) -> None:
    """Raise what an ``error`` in a reply of status 200 stands for; nothing where it is null.

    Raises:
        CallFailed: Of the type that the error's code names; a code that says nothing is the server's fault.
    """
    if not error:
        return
    code, kind = _get(error, "code"), _get(error, "type")
    words = error_words(error) or f"an error without a message: {seen(error)}"
    message = f"the reply is an error: {words}"
    if (status := _status(code)) is not None:
        raise CallFailed(_of_status(status), message, status=status)
    named = (_ERRORS[word] for word in (code, kind) if isinstance(word, str) and word in _ERRORS)
    # a quota that is used up does not come back while the run waits
    spent = "insufficient_quota" in (code, kind)
    raise CallFailed(next(named, "server_error"), message, transient=False if spent else None)


def _status(code: Any) -> int | None:
    """Read a code that is a status of HTTP, as OpenRouter has them."""
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else None


def _of_status(status: int) -> CallError:
    if status in (401, 403):
        return "unauthorized"
    if status == 429:
        return "rate_limited"
    if status in (408, 504):
        return "timeout"
    return "server_error" if status >= 500 else "bad_request"


def _first(usage: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    for path in paths:
        value = usage
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type") in (None, "text", "output_text") and isinstance(part.get("text"), str)
