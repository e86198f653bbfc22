"""Every notebook runs from top to bottom, and shows what is committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

# the kernel's libraries are not under test; a warning of theirs at start must not fail a notebook
pytestmark = [pytest.mark.notebook, pytest.mark.filterwarnings("default")]
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from tests.notebooks.execution import FOLDER, clean, complaints, executed, notebooks, shown  # noqa: E402

ROOT = FOLDER.parent


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
@pytest.mark.parametrize("folder", [FOLDER, ROOT], ids=["beside", "at the top"])
def test_a_notebook_shows_what_is_committed(path: Path, folder: Path) -> None:
    import nbformat

    committed = nbformat.read(path, as_version=4)
    found = executed(path, folder=folder)
    assert not complaints(found)
    assert any(shown(found))
    if found.metadata["polars"] != committed.metadata["polars"]:  # it prints tables in another way
        pytest.skip("the outputs were written with another polars: make notebooks writes them as they are now")
    assert shown(found) == shown(committed), "write it as it is now: make notebooks"


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_committed_notebook_is_clean(path: Path) -> None:
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    text = path.read_text("utf-8")
    assert json.loads(text) == json.loads(nbformat.writes(clean(notebook)))
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    for unwanted in ("/tmp/", f"{Path.home()}/", "Traceback", "Warning"):
        assert unwanted not in text
