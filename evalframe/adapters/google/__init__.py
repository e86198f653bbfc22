"""Google's models: ``google/MODEL``, key in ``GOOGLE_API_KEY`` or ``GEMINI_API_KEY``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalframe.adapters.api import Vendor
from evalframe.adapters.google.generate_content import GenerateContent
from evalframe.adapters.naming import key_stays_home, remote_models
from evalframe.adapters.remote import RemoteModel


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"x-goog-api-key": key}  # in a URL it would stand in every log on the way


GOOGLE = Vendor(
    name="google",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    needs_key=True,
    headers=_headers,
    apis={"generate_content": GenerateContent()},
)


def from_name(rest: str, options: Mapping[str, Any]) -> list[RemoteModel]:
    """Give the model that ``google/<rest>`` names; the options are those of ``naming``.

    Raises:
        AdapterError: An option is wrong, or the key would go to another server than the vendor's.
    """
    return key_stays_home(remote_models(GOOGLE, rest, options))
