"""What generation settings mean for a local model; known without the libraries that run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.adapters import Sending

_CUTS = ("top_k", "top_p", "min_p")
_CHAT = ("instructions", "chat_template_kwargs")  # where there is a chat template
_ALWAYS = ("do_sample", "max_output_tokens", "stop", "repetition_penalty")


@dataclass(frozen=True, slots=True)
class Choosing:
    """How the next token is chosen.

    Attributes:
        sample: Draw it; else the likeliest is taken.
        temperature: Over 0, of what is drawn.
        top_k: Only so many of the likeliest; None: all.
        top_p: Only the likeliest that together reach this probability; None: all.
        min_p: Only those of at least this share of the likeliest one's probability; None: all.
        repetition_penalty: By which tokens of prompt and reply become less likely; None: by none.
        max_new_tokens: Of a reply; None: until the model's context is full.
        stop: Texts at which a reply ends.
    """

    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()


def choosing_of(settings: Mapping[str, Any]) -> Choosing:
    """Read how tokens are chosen.

    The likeliest is taken unless ``do_sample`` is true, or, where that is not given, ``temperature`` is over 0, or,
    where that is not given either, there is something to cut by. A ``top_k`` of 0 or -1 cuts nothing.
    """
    temperature, sample = settings.get("temperature"), settings.get("do_sample")
    if sample is None:
        sample = temperature > 0 if temperature is not None else any(name in settings for name in _CUTS)
    top_k = settings.get("top_k")
    return Choosing(
        sample=sample,
        temperature=temperature if temperature is not None else 1.0,
        top_k=top_k if sample and top_k is not None and top_k > 0 else None,
        top_p=settings.get("top_p") if sample else None,
        min_p=settings.get("min_p") if sample else None,
        repetition_penalty=settings.get("repetition_penalty"),
        max_new_tokens=settings.get("max_output_tokens"),
        stop=tuple(settings.get("stop") or ()),
    )


def sending(settings: Mapping[str, Any], *, chat: bool) -> Sending:
    """Say what becomes of settings; the names are those of transformers.

    Args:
        settings: By our names.
        chat: The prompt is put into a chat template.
    """
    choosing = choosing_of(settings)
    used: dict[str, Any] = {"do_sample": choosing.sample}
    if choosing.sample:
        used["temperature"] = choosing.temperature
    for name in (*_CUTS, "repetition_penalty", "max_new_tokens"):
        if (value := getattr(choosing, name)) is not None:
            used[name] = value
    if choosing.stop:
        used["stop_strings"] = list(choosing.stop)
    if chat:
        used |= {name: settings[name] for name in _CHAT if name in settings}
    return Sending(used, tuple(_left_out(settings, choosing.sample, chat)))


def _left_out(settings: Mapping[str, Any], sample: bool, chat: bool) -> Iterator[str]:
    for name, value in settings.items():
        if name == "temperature":
            used = sample or value == 0  # which is to say: the likeliest
        elif name in _CUTS:
            used = sample
        else:
            used = name in _ALWAYS or (chat and name in _CHAT)
        if not used:
            yield name
