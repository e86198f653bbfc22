"""Models of Hugging Face transformers on this machine: ``transformers/NAME`` or ``transformers/FOLDER``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalframe.errors import AdapterError, Fault, MissingDependencyError
from evalframe.registry import suggestion

if TYPE_CHECKING:
    from evalframe.adapters.huggingface.model import LocalModel

OPTIONS = ("api", "batch_size", "device", "dtype", "model_id", "model_version", "revision", "seed")
APIS = ("chat", "completions")
DTYPES = ("auto", "bfloat16", "float16", "float32")
BATCH_SIZE = 8
INSTALL = "pip install 'evalframe[transformers]'"


def from_name(rest: str, options: Mapping[str, Any]) -> list[LocalModel]:
    """Give the model that ``transformers/<rest>`` names: a folder, or a name on the Hugging Face Hub.

    Options: ``api`` (``chat``: in the model's chat template, the default where it has one; ``completions``: the bare
    prompt), ``batch_size`` (8), ``device`` (``cuda`` or ``mps`` where there is one, else ``cpu``), ``dtype``
    (``auto``: as the weights are stored), ``revision`` of a Hub model, ``seed`` (0) of what is sampled.

    Raises:
        MissingDependencyError: torch or transformers is not installed.
        AdapterError: Every option that is wrong.
    """
    if missing := [name for name in ("torch", "transformers") if find_spec(name) is None]:
        raise MissingDependencyError(f"transformers/{rest} needs {' and '.join(missing)}: {INSTALL}")
    if faults := list(_faults(rest, options)):
        raise AdapterError.of(faults, what=f"transformers/{rest}")
    from evalframe.adapters.huggingface.loading import Source
    from evalframe.adapters.huggingface.model import LocalModel

    # a folder's place on one machine is no name for it
    name = Path(rest).resolve().name if Path(rest).is_dir() else rest
    source = Source(rest, options.get("revision"), options.get("device"), options.get("dtype") or "auto")
    return [
        LocalModel(
            model_id=options.get("model_id") or f"transformers/{name}",
            source=source,
            batch_size=options.get("batch_size") or BATCH_SIZE,
            chosen_api=options.get("api"),
            seed=options.get("seed") or 0,
            given_version=options.get("model_version"),
        )
    ]


def _faults(rest: str, options: Mapping[str, Any]) -> list[Fault]:
    faults = [
        Fault(str(name), "unknown_option", "there is no such option", suggestion(str(name), OPTIONS))
        for name in options
        if name not in OPTIONS
    ]
    if not rest:
        faults.append(Fault("model", "missing", "no model is named", "write transformers/FOLDER or transformers/NAME"))
    for name in ("api", "device", "dtype", "model_id", "model_version", "revision"):
        value = options.get(name)
        if value is not None and (not isinstance(value, str) or not value):
            faults.append(Fault(name, "bad_type", f"{value!r} is no text"))
    for name, known in (("api", APIS), ("dtype", DTYPES)):
        if isinstance(value := options.get(name), str) and value not in known:
            faults.append(Fault(name, "unknown_name", f"{value!r} is not known", f"write one of {', '.join(known)}"))
    for name, least in (("batch_size", 1), ("seed", 0)):
        value = options.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            faults.append(Fault(name, "bad_value", f"{value!r} is no whole number from {least} up"))
    return faults
