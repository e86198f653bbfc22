"""An API that no vendor has, for tests of what all vendors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.api import Vendor


class ToyApi:
    """Says ``{"text": …}``; calls ``max_output_tokens`` ``most``, and has no ``stop``."""

    name = "toy"
    has = frozenset({"instructions", "temperature", "max_output_tokens", "text", "reasoning"})

    def path(self, model: str) -> str:
        return f"/{model}"

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        names = {"max_output_tokens": "most"}
        found = {names.get(name, name): value for name, value in settings.items() if name in ("temperature", *names)}
        for name in ("text", "reasoning"):  # two settings that share one object
            if name in settings:
                found["options"] = {**found.get("options", {}), name: settings[name]}
        return found

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        own = {} if instructions is None else {"system": instructions}
        return {"model": model, "say": prompt, **own, **fixed}

    def read(self, document: Mapping[str, Any]) -> Generation:
        if not isinstance(document.get("text"), str):
            raise CallFailed("bad_reply", "no text")
        return Generation(document["text"], finish_reason="length", token_nll=3.0, token_count=4)

    def filtered(self, status: int, document: Any) -> Generation | None:
        held_back = status == 400 and isinstance(document, Mapping) and document.get("code") == "filter"
        return Generation("", finish_reason="content_filter") if held_back else None

    def error_words(self, document: Any) -> str:
        return str(document.get("error", "")) if isinstance(document, Mapping) else ""

    def ask_logprobs(self) -> dict[str, Any]:
        return {"options": {"logprobs": True}}


class Silent(ToyApi):
    """Gives no log-probabilities."""

    def ask_logprobs(self) -> dict[str, Any]:
        return {}


class Stopping(ToyApi):
    """Has ``stop``, but not with blanks alone."""

    has = ToyApi.has | {"stop"}

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        stop = [text for text in settings.get("stop", ()) if text.strip()]
        return {**super().fixed(settings), **({"stop": stop} if stop else {})}

    def stop_here(self, stop: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in stop if not text.strip())


def login(key: str | None) -> dict[str, str]:
    return {} if key is None else {"X-Key": key}


TOY = Vendor(
    name="toy", base_url=None, key_variables=("TOY_KEY", "TOY_OTHER_KEY"), needs_key=True, headers=login,
    apis={"toy": ToyApi()},
)  # fmt: skip
COMPATIBLE = Vendor(
    name="compatible", base_url=None, key_variables=("TOY_KEY",), needs_key=False, headers=login,
    apis={"toy": ToyApi()}, passes_through=True,
)  # fmt: skip
