"""What every test may ask for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from evalframe.sandbox import launch
from tests.servers import ScriptedServer

# the same examples each time, so that a red suite is the change's doing; HYPOTHESIS_PROFILE=explore looks for new ones
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data with known right answers; it is no part of the project, so tests that need it are skipped without."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("needs the shared data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return ROOT / "fixtures"


@pytest.fixture
def no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine one that has no wall but limits of resources, as macOS."""
    held = {"no_new_privs", "rlimits", "non_root"}
    monkeypatch.setattr(launch, "_raised", lambda: {layer: layer in held for layer in launch.RAISED})


@pytest.fixture
def new_threads():
    """Give the threads that were started since the test began and still live.

    Not a difference of counts: a thread of an earlier test that ends in the meantime would hide, or be taken for, one.
    """
    before = set(threading.enumerate())
    return lambda: set(threading.enumerate()) - before


@pytest.fixture(scope="session")
def _scripted_process() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def scripted(_scripted_process: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """Give a real server of models on loopback (``tests/servers``), without a script or a count of another test."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):  # nothing may stand between
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    _scripted_process.reset()
    return _scripted_process


@pytest.fixture
def write_jsonl(tmp_path: Path):
    """Write records (dicts, or lines as text) as a JSONL file and give its path."""

    def write(records: list[Any], name: str = "rows.jsonl") -> Path:
        lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def _own_user_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own folder of runs, files and caches."""
    monkeypatch.setenv("EVALFRAME_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("EVALFRAME_CACHE", raising=False)
