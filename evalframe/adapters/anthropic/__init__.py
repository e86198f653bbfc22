"""Anthropic's models: ``anthropic/MODEL``, key in ``ANTHROPIC_API_KEY``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.adapters.anthropic.messages import Messages
from evalframe.adapters.api import Vendor
from evalframe.adapters.naming import key_stays_home, remote_models
from evalframe.adapters.remote import RemoteModel

# later versions refuse temperature, top_p and top_k, for models that have them too
VERSION = "2023-06-01"


def _headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({} if key is None else {"x-api-key": key})}


ANTHROPIC = Vendor(
    name="anthropic",
    base_url="https://api.anthropic.com/v1",
    key_variables=("ANTHROPIC_API_KEY",),
    needs_key=True,
    headers=_headers,
    apis={"messages": Messages()},
    required=("max_output_tokens",),
)


def from_name(rest: str, options: Mapping[str, Any]) -> list[RemoteModel]:
    """Give the model that ``anthropic/<rest>`` names; the options are those of ``naming``.

    Raises:
        AdapterError: An option is wrong, or the key would go to another server than the vendor's.
    """
    return key_stays_home(remote_models(ANTHROPIC, rest, options))
