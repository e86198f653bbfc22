"""What this machine has: versions, folders, sandbox layers, names that can be used."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from evalframe import __version__
from evalframe.disk import cache_folder, user_folder
from evalframe.registry import ADAPTERS, EXTRACTORS, METRICS
from evalframe.sandbox.launch import layers
from evalframe.store import is_writable, runs_folder

PACKAGES = ("polars", "numpy", "datasets", "rapidfuzz", "pydantic", "typer", "tqdm", "platformdirs")
# without the first the price of a model is unknown unless it is given; the others run models on this machine
EXTRAS = {"genai-prices": "prices", "torch": "transformers", "transformers": "transformers"}


def examine() -> dict[str, Any]:
    """Look at the machine; nothing is changed.

    Returns:
        Plain JSON values: ``evalframe``, ``python``, ``platform``, ``cores``, ``packages`` (name to version, or what
        is wrong), ``folders`` (path, and whether it can be written), ``sandbox`` (layer to bool), ``metrics``,
        ``extractions``, ``models``.
    """
    return {
        "evalframe": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": {name: _version(name) for name in (*PACKAGES, *EXTRAS)},
        "folders": {
            str(path): "writable" if is_writable(path) else "not writable: set EVALFRAME_HOME to another folder"
            for path in (user_folder(), runs_folder(), cache_folder())
        },
        "sandbox": layers(),
        "metrics": METRICS.names(),
        "extractions": [name for name in EXTRACTORS.names() if name != "post_process"],
        "models": [f"{name}/…" for name in ADAPTERS.names()],
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        extra = EXTRAS.get(name)
        return f"not installed: pip install 'evalframe[{extra}]'" if extra else f"missing: pip install {name}"
