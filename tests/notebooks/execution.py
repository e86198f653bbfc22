"""Executing a notebook in a fresh kernel, and what of it is committed: nothing that changes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import polars as pl
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
SECONDS = 300  # for one cell
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def executed(path: Path, *, folder: Path = FOLDER) -> Any:
    """Execute a notebook in a folder, and give it as it would be committed."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute()
    notebook.metadata["polars"] = pl.__version__  # how tables are printed
    return clean(notebook)


def clean(notebook: Any) -> Any:
    """Take out what differs from one execution to the next."""
    notebook.metadata = nbformat.from_dict({**METADATA, "polars": notebook.metadata.get("polars")})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", ()):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = nbformat.from_dict({})
    return notebook


def shown(notebook: Any) -> list[list[Any]]:
    """Give what each cell of code shows, in every form that it has."""
    return [
        [output.text if output.output_type == "stream" else dict(output.data) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def complaints(notebook: Any) -> list[str]:
    """Give what the cells write to standard error: warnings."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [output.text for output in outputs if output.get("name") == "stderr"]
