"""What a vendor's API is to us: one wire format as pure functions without network, and whose it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evalframe.adapters import Generation


class Api(Protocol):
    """One wire format.

    It may also have

    * ``left_out(settings) -> tuple[str, ...]``: the parts of settings that it does not have (``reasoning.summary``);
    * ``error_type(status, document) -> CallError | None``: what failed, where a status alone does not say it;
    * ``retry_after(document) -> float | None``: seconds to wait, where an error says so in its body;
    * ``stop_here(stop) -> tuple[str, ...]``: texts at which the server refuses to stop; replies are cut there here.
    """

    @property
    def name(self) -> str:
        """The name by which a model's dict chooses it."""
        ...

    @property
    def has(self) -> frozenset[str]:
        """The generation settings that it has, by our names."""
        ...

    def path(self, model: str) -> str:
        """Give the path below the base URL."""
        ...

    def fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Turn settings, only such as it has, into keys of the body; adds no defaults."""
        ...

    def body(self, model: str, prompt: str, *, instructions: str | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Give the body of one request."""
        ...

    def read(self, document: Mapping[str, Any]) -> Generation:
        """Read an answer; raise ``CallFailed`` where it is none."""
        ...

    def filtered(self, status: int, document: Any) -> Generation | None:
        """Read an error that means "the content filter held this back" as a reply; None: it means something else."""
        ...

    def error_words(self, document: Any) -> str:
        """Give the server's own words about a failure; empty where there are none."""
        ...

    def ask_logprobs(self) -> dict[str, Any]:
        """Give the keys of the body that ask for log-probabilities; empty where it can not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """Whose API it is.

    Attributes:
        name: The prefix of model names.
        base_url: Where it is; None: the model's name or dict says so.
        key_variables: Variables of the environment that may hold the key; the first that is set counts.
        needs_key: Without a key no call is made.
        headers: From the key, or None, to the headers of a request.
        apis: By name; the first one is the default.
        passes_through: A server of any make: it is sent settings that only some servers have, and ``extra_body``.
        required: Generation settings without which the API refuses every call.
    """

    name: str
    base_url: str | None
    key_variables: tuple[str, ...]
    needs_key: bool
    headers: Callable[[str | None], dict[str, str]]
    apis: Mapping[str, Api]
    passes_through: bool = False
    required: tuple[str, ...] = ()
