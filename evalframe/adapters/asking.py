"""What generation settings become with one model: sent by the API's name, applied to the reply here, or left out.

Nothing is sent that nobody asked for, and what is left out is told, so that results say what was really sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evalframe.adapters import Generation
from evalframe.adapters.api import Api

# what a server of any make is sent as it stands, beside what the API has
PASSED_THROUGH = (
    "top_k", "min_p", "repetition_penalty", "do_sample", "chat_template_kwargs", "prefill_think", "use_cache",
)  # fmt: skip
# keys of extra_body that would change the request's target or shape, or hold a secret
FORBIDDEN = frozenset(
    {
        "model", "messages", "input", "prompt", "contents", "system", "stream", "stream_options", "n", "best_of",
        "echo", "api_key", "key", "authorization", "headers", "extra_headers", "base_url", "url", "background",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """What generation settings become for one model, worked out once."""

    generation: Mapping[str, Any]
    instructions: str | None
    fixed: Mapping[str, Any]
    stop: tuple[str, ...]
    left_out: tuple[str, ...]


def work_out(
    generation: Mapping[str, Any],
    *,
    api: Api,
    passes_through: bool,
    drop: tuple[str, ...] = (),
    rename: Mapping[str, str] | None = None,
    logprobs: bool = False,
) -> Asked:
    """Say what generation settings become.

    Args:
        generation: The settings that were given, by our names.
        api: The wire format.
        passes_through: The server is sent ``PASSED_THROUGH`` and ``extra_body`` too.
        drop: Settings, by our name or the API's, that are not sent.
        rename: Names of the body, or our names, to others.
        logprobs: Ask for log-probabilities.
    """
    parts_left_out = getattr(api, "left_out", lambda settings: ())
    left_out: list[str] = []
    fixed: dict[str, Any] = {}
    called: dict[str, list[str]] = {}  # our name -> the keys of the body that it became
    for name, value in generation.items():
        if name in drop:
            left_out.append(name)
        elif name in api.has and name != "instructions":
            keys = api.fixed({name: value})
            left_out += parts_left_out({name: value})
            called[name] = list(keys)
            fixed = _merged(fixed, keys)
        elif passes_through and name in PASSED_THROUGH:
            called[name] = [name]
            fixed[name] = value
        elif name not in ("instructions", "extra_body") or (name == "extra_body" and not passes_through):
            left_out.append(name)
    if logprobs:
        fixed = _merged(fixed, api.ask_logprobs())
    extra = (generation.get("extra_body") or {}) if passes_through and "extra_body" not in drop else {}
    for name, value in extra.items():
        if name.lower().replace("-", "_") in FORBIDDEN:
            left_out.append(f"extra_body.{name}")
        else:
            fixed[name] = value
    for name in drop:
        if name in fixed:
            del fixed[name]
            left_out.append(next((ours for ours, keys in called.items() if name in keys), name))
    for old, new in (rename or {}).items():
        key = called[old][0] if len(called.get(old, ())) == 1 else old
        if key in fixed:
            fixed[new] = fixed.pop(key)
    instructions = generation.get("instructions")
    if instructions is not None and ("instructions" in drop or "instructions" not in api.has):
        left_out += [] if "instructions" in left_out else ["instructions"]
        instructions = None
    stop = tuple(generation.get("stop") or ())
    if "stop" not in left_out:
        stop = api.stop_here(stop) if hasattr(api, "stop_here") else ()
    return Asked(
        generation=generation,
        instructions=instructions,
        fixed=fixed,
        stop=stop,
        left_out=tuple(dict.fromkeys(name for name in left_out if not (name == "stop" and stop))),
    )


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Join two bodies; where both have an object under one key, its keys are joined too."""
    joined = dict(one)
    for key, value in other.items():
        before = joined.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        joined[key] = _merged(before, value) if both else value  # type: ignore[arg-type]
    return joined


def stopped(reply: Generation, stop: tuple[str, ...]) -> Generation:
    """Cut a reply where the first of some texts begins, as an API that has ``stop`` would have."""
    places = [place for text in stop if (place := reply.text.find(text)) >= 0]
    if not places:
        return reply
    # what the tokens after the cut were worth is not known apart
    return replace(reply, text=reply.text[: min(places)], finish_reason="stop", token_nll=None, token_count=None)
