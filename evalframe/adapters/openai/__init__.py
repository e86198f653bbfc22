"""OpenAI, and every server that speaks its APIs: Responses, chat completions, legacy completions, embeddings.

``openai/MODEL`` speaks Responses by default, ``openai-compatible/MODEL@URL`` chat completions; ``"api"`` in the model's
dict chooses another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from evalframe.adapters.api import Api, Vendor
from evalframe.adapters.naming import remote_models
from evalframe.adapters.openai.chat import COMPATIBLE_CHAT_API, OPENAI_CHAT_API
from evalframe.adapters.openai.completions import COMPATIBLE_COMPLETIONS_API, OPENAI_COMPLETIONS_API, Completions
from evalframe.adapters.openai.models import OpenAIModel, ScoringModel
from evalframe.adapters.openai.responses import RESPONSES_API
from evalframe.errors import AdapterError

HOST = "api.openai.com"


def bearer(key: str | None) -> dict[str, str]:
    """Give the header that carries the key; a local server may need none."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


OPENAI = Vendor(
    name="openai",
    base_url=f"https://{HOST}/v1",
    key_variables=("OPENAI_API_KEY",),
    needs_key=True,
    headers=bearer,
    apis={api.name: api for api in (RESPONSES_API, OPENAI_CHAT_API, OPENAI_COMPLETIONS_API)},
)

# OpenAI's key is none of its variables: it is never sent to another server
COMPATIBLE = Vendor(
    name="openai-compatible",
    base_url=None,
    key_variables=("OPENAI_COMPATIBLE_API_KEY",),
    needs_key=False,
    headers=bearer,
    apis={api.name: api for api in (COMPATIBLE_CHAT_API, RESPONSES_API, COMPATIBLE_COMPLETIONS_API)},
    passes_through=True,
)


def openai_by_name(rest: str, options: Mapping[str, Any]) -> list[OpenAIModel]:
    """Give the model that ``openai/<rest>`` names.

    Raises:
        AdapterError: An option is wrong, or the server is not OpenAI's own.
    """
    found = [_built(model) for model in remote_models(OPENAI, rest, options, kind=_kind)]
    for model in found:
        url = urlsplit(model.base_url)
        own = url.scheme == "https" and (url.hostname == HOST or (url.hostname or "").endswith(f".{HOST}"))
        if not own and model.key_variable is None:
            raise AdapterError(
                f"openai/{model.model} at {model.base_url}: OpenAI's key is sent to https://{HOST} only; write "
                f"openai-compatible/{model.model}@{model.base_url}"
            )
    return found


def compatible_by_name(rest: str, options: Mapping[str, Any]) -> list[OpenAIModel]:
    """Give the model that ``openai-compatible/<rest>`` names, ``rest`` being ``MODEL@URL``.

    Raises:
        AdapterError: An option is wrong, or no server is named.
    """
    return [_built(model) for model in remote_models(COMPATIBLE, rest, options, kind=_kind)]


def _kind(api: Api) -> type[OpenAIModel]:
    return ScoringModel if isinstance(api, Completions) else OpenAIModel


def _built(model: Any) -> OpenAIModel:
    assert isinstance(model, OpenAIModel)  # as _kind said
    return model
