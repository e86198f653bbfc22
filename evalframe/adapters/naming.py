"""From a model's name and the options of its dict to a model behind an API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from evalframe.adapters import ENGINE_SETTINGS
from evalframe.adapters.api import Api, Vendor
from evalframe.adapters.remote import RemoteModel
from evalframe.errors import AdapterError, Fault
from evalframe.registry import suggestion

_URL = re.compile(r"@[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPTIONS = ("api", "api_key_env", "base_url", "drop", "logprobs", "model_id", "model_version", "rename")


def remote_models(
    vendor: Vendor, rest: str, options: Mapping[str, Any], *, kind: Callable[[Api], type[RemoteModel]] | None = None
) -> list[RemoteModel]:
    """Build the model that ``<vendor>/<rest>`` names, where ``rest`` is ``model`` or ``model@URL``.

    Args:
        vendor: Whose.
        rest: What follows the vendor's name.
        options: Of the model's dict: ``OPTIONS``.
        kind: The class for an API; None: ``RemoteModel``.

    Raises:
        AdapterError: Every option that is wrong, an API that the vendor does not have, no URL.
    """
    model, url = _split(rest)
    name = f"{vendor.name}/{rest}"
    faults = list(_option_faults(vendor, options))
    base_url = options.get("base_url") or url or vendor.base_url
    if not model:
        faults.append(Fault("model", "missing", "no model is named", f"write {vendor.name}/MODEL"))
    if url and options.get("base_url"):
        faults.append(Fault("base_url", "conflict", "the name has a URL as well", "keep one of the two"))
    if not base_url:
        remedy = f"write {vendor.name}/{model.partition('@')[0] or 'MODEL'}@http://127.0.0.1:8000/v1"
        faults.append(Fault("base_url", "missing", "no server is named", remedy))
    if faults:
        raise AdapterError.of(faults, what=name)
    api = vendor.apis[options.get("api") or next(iter(vendor.apis))]
    built = RemoteModel if kind is None else kind(api)
    found = built(
        model_id=options.get("model_id") or f"{vendor.name}/{model}",
        vendor=vendor,
        api=api,
        model=model,
        base_url=base_url or "",
        key_variable=options.get("api_key_env"),
        drop=tuple(options.get("drop") or ()),
        rename=dict(options.get("rename") or {}),
        model_version=options.get("model_version"),
    )
    return [found.with_logprobs() if options.get("logprobs") else found]


def _split(rest: str) -> tuple[str, str]:
    """Take ``model@URL`` apart; a model's own name may have an ``@`` too."""
    found = _URL.search(rest)
    return (rest, "") if found is None else (rest[: found.start()], rest[found.start() + 1 :])


def key_stays_home(models: Sequence[RemoteModel]) -> list[RemoteModel]:
    """Give the models as they are, unless a vendor's key would go to a server that is not the vendor's.

    Raises:
        AdapterError: Another server is named, but no variable with a key for it.
    """
    for model in models:
        home, server = (urlsplit(url or "") for url in (model.vendor.base_url, model.base_url))
        if model.key_variable is None and (server.scheme, server.hostname) != (home.scheme, home.hostname):
            raise AdapterError(
                f"{model.model_id} at {model.base_url}: the key in {model.vendor.key_variables[0]} is sent to "
                f"{home.scheme}://{home.hostname} only; name the variable that holds a key for this server: "
                f'{{"model": …, "api_key_env": "GATEWAY_KEY"}}'
            )
    return list(models)


def _option_faults(vendor: Vendor, options: Mapping[str, Any]) -> list[Fault]:
    faults = [
        Fault(str(name), "unknown_option", "there is no such option", _meant(str(name)))
        for name in options
        if name not in OPTIONS
    ]
    for name in ("api", "api_key_env", "base_url", "model_id", "model_version"):
        value = options.get(name)
        if value is not None and (not isinstance(value, str) or not value):
            faults.append(Fault(name, "bad_type", f"{value!r} is no text"))
    variable = options.get("api_key_env")
    if isinstance(variable, str) and variable and not _VARIABLE.fullmatch(variable):
        remedy = 'write the name of the variable that holds the key, as in "GATEWAY_KEY"'
        detail = "names no variable of the environment (it is not shown, should it be a key)"
        faults.append(Fault("api_key_env", "bad_value", detail, remedy))
    if isinstance(api := options.get("api"), str) and api not in vendor.apis:
        faults.append(Fault("api", "unknown_name", f"{vendor.name} has no API {api!r}", suggestion(api, vendor.apis)))
    drop, rename, logprobs = (options.get(name) for name in ("drop", "rename", "logprobs"))
    if drop is not None and (isinstance(drop, str) or not isinstance(drop, Sequence) or not _texts(drop)):
        faults.append(Fault("drop", "bad_type", f"{drop!r} is no list of names", 'write ["stop"]'))
    if rename is not None and (not isinstance(rename, Mapping) or not _texts([*rename, *rename.values()])):
        remedy = 'write {"max_tokens": "max_completion_tokens"}'
        faults.append(Fault("rename", "bad_type", f"{rename!r} is no mapping of names", remedy))
    if logprobs is not None and not isinstance(logprobs, bool):
        faults.append(Fault("logprobs", "bad_type", f"{logprobs!r} is not True or False"))
    return faults


def _meant(name: str) -> str:
    """Say where an option of a model's dict may belong."""
    from evalframe.manifest.generation import GenerationSettings  # only for a mistake

    if name in GenerationSettings.model_fields or name in GenerationSettings.foreign_keys:
        return f'how a model is asked goes into one option: "generation": {{"{name}": …}}'
    return suggestion(name, (*OPTIONS, *ENGINE_SETTINGS))


def _texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)
