"""``python -m tests.notebooks``: execute every notebook and write it with the outputs it has now."""

from __future__ import annotations

import nbformat

from tests.notebooks.execution import executed, notebooks

for path in notebooks():  # each in a kernel of its own
    notebook = executed(path)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    print(path)
