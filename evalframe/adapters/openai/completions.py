"""Legacy completions: the prompt is text that the model goes on with, and its own tokens can be scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalframe.adapters import Generation
from evalframe.adapters.openai import replies, tokens
from evalframe.adapters.openai.settings import COMPATIBLE_COMPLETIONS, COMPLETIONS, MOST_STOPS, Table, fixed


@dataclass(frozen=True, slots=True)
class Completions:
    """The API of legacy completions: it has no instructions, tools, reasoning or formats.

    Attributes:
        table: What becomes of each setting.
        most_stops: Texts at which it stops at most; None: any number.
    """

    table: Table
    most_stops: int | None = None
    name: str = "completions"

    @property
    def has(self) -> frozenset[str]:
        """The generation settings that this API has."""
        return frozenset(self.table)

    def path(self, model: str) -> str:
        """Where requests go, below the base URL."""
        return "/completions"

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Turn generation settings into keys of the body; no hidden defaults."""
        return fixed(self.table, settings)

    def left_out(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the parts of settings that this API does not have: none, it has no setting that is an object."""
        return ()

    def stop_here(self, stop: Sequence[str]) -> tuple[str, ...]:
        """Give the texts of ``stop`` that it refuses."""
        return () if self.most_stops is None else tuple(stop[self.most_stops :])

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Give the body of one request; there is no place for instructions."""
        return {"model": model, "prompt": prompt, **fixed}

    def ask_logprobs(self) -> dict[str, Any]:
        """Ask for the log-probability of each token of the reply; 0 would mean none to llama.cpp."""
        return {"logprobs": 1}

    def read(self, document: Mapping[str, Any]) -> Generation:
        """Read one reply.

        Raises:
            CallFailed: It is an error, or no reply of this API.
        """
        if (refused := replies.of_error(document)) is not None:
            return refused
        choice = replies.mapping(replies.filled(document.get("choices"), "choices")[0], "choices[0]")
        replies.refuse_broken_off(choice)
        if not isinstance(text := choice.get("text"), str):
            raise replies.bad("choices[0].text", text, "a text")
        nll, count = tokens.summed(choice.get("logprobs"))
        reason = replies.finish_reason(choice.get("finish_reason"))
        return Generation(
            text=text, finish_reason=reason, token_nll=nll, token_count=count, **replies.about(document)
        )  # fmt: skip

    def filtered(self, status: int, document: Any) -> Generation | None:
        """Give the reply that an error of a content filter stands for, else None."""
        return replies.filtered(status, document)

    def error_words(self, document: Any) -> str:
        """Give the server's own message of an error."""
        return replies.error_words(document)


OPENAI_COMPLETIONS_API = Completions(COMPLETIONS, MOST_STOPS)
COMPATIBLE_COMPLETIONS_API = Completions(COMPATIBLE_COMPLETIONS)
