"""What makes two requests the same: the key of the result cache, and the parts by which a miss is explained."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Any

from evalframe.adapters import ModelAdapter, TaskSpec
from evalframe.errors import AdapterError

KEY_VERSION = 1  # goes up when keys are made in another way: older entries are then never found
# keys of a request's body that hold texts: what is sent beside the prompt is known by its hash
TEXT_KEYS = frozenset(
    {"contents", "input", "instructions", "messages", "prompt", "system", "systemInstruction", "system_instruction"}
)
_WORDS_OF_TEXTS = frozenset({"role", "type"})
# of TaskSpec, where a model sees it; not the deadline. Prompt, settings and repeat have places of their own
_TASK_FIELDS = (
    "task_id", "category", "targets", "metric_name", "post_process", "few_shot_examples", "metadata", "choices",
    "sample_index", "sample_id", "row",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """One request as the result cache knows it.

    Attributes:
        key: BLAKE2b-128 of the prompt, then BLAKE2b-256 over all that can change the answer, as canonical JSON: the
            requests with one prompt are neighbours.
        text: That JSON.
        prompt: The rendered prompt.
        repeat: 0-based number of the repeat.
        identity: What the adapter says of itself and of what it sends.
        asked: Request type, continuations and norm.
    """

    key: bytes
    text: str
    prompt: str
    repeat: int
    identity: Mapping[str, Any]
    asked: Mapping[str, Any]

    def outline(self) -> str:
        """Give the JSON without the prompt; requests with one outline have one configuration."""
        return self.text.replace(encode_basestring(self.prompt)[1:-1], "\0") if self.prompt else self.text

    def configuration(self) -> str:
        """Give all of the request but prompt and repeat, as canonical JSON: texts, and what is long, by their hashes.

        ``adapter``, ``base_url``, ``api``, ``model``, ``model_version``, ``settings``, ``texts``, ``task``,
        ``request``.
        """
        identity = self.identity
        body = identity.get("body", {})
        settings = {**identity.get("settings", {}), **{k: v for k, v in body.items() if k not in TEXT_KEYS}}
        if settings.get("model") == identity.get("model"):
            settings.pop("model", None)
        if applied := identity.get("applied_here"):
            settings["applied_here"] = applied
        task = identity.get("task")
        return canonical(
            {
                **{name: identity.get(name) for name in ("adapter", "base_url", "api", "model", "model_version")},
                "settings": settings,
                "texts": {name: _marked(body[name], self.prompt) for name in sorted(TEXT_KEYS & body.keys())},
                "task": None if task is None else _hash_of(canonical(task)),
                "request": {
                    **self.asked,
                    "continuations": [_hash_of(text) for text in self.asked["continuations"]],
                },
            }
        )


def cache_request(
    adapter: ModelAdapter,
    task: TaskSpec,
    *,
    repeat: int,
    request_type: str = "generate",
    continuations: Sequence[str] = (),
    norm: str | None = None,
) -> CacheRequest | None:
    """Give the request that a call makes; None where its reply must not be kept.

    An adapter with ``identity`` says itself what can change its answer. Another one is known by its class,
    ``model_id``, ``model_version``, the generation settings, the prompt and, where it sees it, the task; without a
    ``model_version`` its replies are never kept. Keys, time-outs and concurrency make no difference, nor do the order
    of keys and the way in which a number is written (1 and 1.0).

    Args:
        adapter: What is called.
        task: What it is told.
        repeat: 0-based number of the repeat.
        request_type: ``generate``, ``loglikelihood``, or another kind of request.
        continuations: Of a log-likelihood request.
        norm: Of a log-likelihood request.

    Raises:
        AdapterError: ``identity`` failed, or what it gives is no JSON.
    """
    identity = _identity_of(adapter, task)
    if identity is None:
        return None
    asked = {"type": request_type, "continuations": list(continuations), "norm": norm}
    try:
        text = canonical({"version": KEY_VERSION, "identity": identity, "repeat": repeat, **asked})
    except (TypeError, ValueError, RecursionError) as error:
        raise AdapterError(
            f"{adapter.model_id}: what identifies a call is no JSON ({error}); identity() gives plain values, and "
            "None where replies must not be kept"
        ) from error
    return CacheRequest(
        key=hash_of_prompt(task.prompt) + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest(),
        text=text,
        prompt=task.prompt,
        repeat=repeat,
        identity=identity,
        asked=asked,
    )


def may_be_kept(adapter: ModelAdapter) -> bool:
    """Whether replies of an adapter may be kept at all: it says what identifies a call, or which version it is."""
    return callable(getattr(adapter, "identity", None)) or _version_of(adapter) is not None


def hash_of_prompt(prompt: str) -> bytes:
    """Give BLAKE2b-128 of a prompt, as ROWS has it in hexadecimal."""
    return blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def canonical(value: Any) -> str:
    """Write JSON in one way only: sorted keys, no blanks, a whole number without a point.

    Raises:
        TypeError, ValueError, RecursionError: The value is no JSON.

    >>> canonical({"b": (1.0, 0.1), "a": None}) == canonical({"a": None, "b": [1, 0.1]})
    True
    """
    text = _dumps(value)
    # the fast way for nearly all; a look at each number only where one is written so, and no address such as 127.0.0.1
    if (".0" in text or "e+" in text) and _WHOLE_WITH_POINT.search(text):
        return _dumps(_with_whole_numbers(value))
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


# made once: json.dumps with options makes one a call
_dumps = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
).encode


_WHOLE_WITH_POINT = re.compile(r"(?:^|[:,\[])-?\d+(?:\.0(?:[,\]}]|$)|(?:\.\d+)?e\+)")


def _with_whole_numbers(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int:  # nearly all
        return value
    if kind is float or isinstance(value, float):
        return int(value) if value.is_integer() else value
    if kind is dict or isinstance(value, Mapping):
        return {key: _with_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_whole_numbers(item) for item in value]
    return value


def _identity_of(adapter: ModelAdapter, task: TaskSpec) -> Mapping[str, Any] | None:
    if callable(identity := getattr(adapter, "identity", None)):
        try:
            found = identity(task.prompt, task)
        except Exception as error:
            raise AdapterError(f"{adapter.model_id}: identity() failed: {type(error).__name__}: {error}") from error
        if found is not None and not isinstance(found, Mapping):
            raise AdapterError(
                f"{adapter.model_id}: identity() gave a {type(found).__name__}; it gives a dict of JSON values, or None"
            )
        return found
    version = _version_of(adapter)
    if version is None:
        return None
    kind = type(adapter)
    return {
        "adapter": f"{kind.__module__}.{kind.__qualname__}",
        "model": adapter.model_id,
        "model_version": version,
        "settings": task.generation,
        "prompt": task.prompt,
        # a function of the prompt alone does not see the task
        "task": {name: getattr(task, name) for name in _TASK_FIELDS} if getattr(adapter, "takes_task", True) else None,
    }


def _version_of(adapter: ModelAdapter) -> str | None:
    version = getattr(adapter, "model_version", None)
    return version if isinstance(version, str) and version.strip() else None


def _marked(value: Any, prompt: str) -> Any:
    """Put hashes in the place of texts, and a mark in that of the prompt: what is left is alike for all prompts."""
    if isinstance(value, str):
        before, found, after = value.partition(prompt) if prompt else (value, "", "")
        if not found:
            return _hash_of(value)
        return f"{_hash_of(before) if before else ''}{{prompt}}{_hash_of(after) if after else ''}"
    if isinstance(value, Mapping):
        return {
            key: item if key in _WORDS_OF_TEXTS and isinstance(item, str) else _marked(item, prompt)
            for key, item in value.items()
        }
    return [_marked(item, prompt) for item in value] if isinstance(value, list | tuple) else value


def _hash_of(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
