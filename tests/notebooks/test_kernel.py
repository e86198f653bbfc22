"""A real kernel: its event loop runs, and an interrupt gives the partial run back."""

from __future__ import annotations

from pathlib import Path
from queue import Empty
from typing import Any

import pytest

pytestmark = [pytest.mark.notebook, pytest.mark.filterwarnings("default")]
pytest.importorskip("ipykernel")

SETUP = """
import signal
import threading
import evalframe as ef

begun = threading.Event()
release = threading.Event()

def slow(prompt):
    print("begun", flush=True)
    release.wait(60)
    return "4"

rows = [{"q": f"{i} + 1", "a": i + 1} for i in range(5)]
data = dict(prompt="{{q}}", targets="{{a}}", extract="number", metrics=["numeric_match"], progress=False, out=False)
"""

# the kernel sets its own handler before each cell
INTERRUPTED = """
def interrupt(number, frame):
    release.set()  # the call in flight ends once the interrupt has come
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
partial = ef.run(rows, ef.from_callable("slow", slow), parallel=False, **data)
"""


@pytest.fixture
def kernel(tmp_path: Path):
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def told(client: Any, asked: str, *, until: str | None = None) -> str:
    """Collect what a cell shows, to its end or until a text appears."""
    shown = ""
    while True:
        try:
            message = client.get_iopub_msg(timeout=120)
        except Empty:
            raise AssertionError(f"the kernel said nothing more after: {shown}") from None
        if message["parent_header"].get("msg_id") != asked:
            continue
        content = message["content"]
        shown += content.get("text") or content.get("data", {}).get("text/plain", "") or content.get("evalue", "")
        ended = message["msg_type"] == "status" and content["execution_state"] == "idle"
        if ended or (until is not None and until in shown):
            return shown


def test_an_interrupt_gives_the_partial_run_back(kernel) -> None:
    manager, client = kernel
    told(client, client.execute(SETUP))
    asked = client.execute(INTERRUPTED)
    told(client, asked, until="begun")
    manager.interrupt_kernel()
    shown = told(client, asked)
    assert "the run is partial; it goes on with" in shown
    assert "KeyboardInterrupt" not in shown
    shown = told(client, client.execute("print(partial.record['status'], partial.generations['status'].to_list())"))
    assert shown.startswith("partial ['completed', 'skipped'")


def test_run_and_arun_work_in_a_cell(kernel) -> None:
    _, client = kernel
    told(client, client.execute(SETUP + "release.set()\n"))
    cell = "(ef.run(rows, ef.from_callable('m', slow), **data).leaderboard()['mean_score'].to_list(), "
    cell += "(await ef.arun(rows, ef.from_callable('m', slow), **data)).leaderboard()['mean_score'].to_list())"
    assert "([0.2], [0.2])" in told(client, client.execute(cell))


def test_what_a_person_meets_in_a_cell_has_no_warning_and_shows_itself(tmp_path: Path, fixtures: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "import evalframe as ef",
        f"run = ef.run({str(fixtures / 'suite.json')!r}, ef.replay({str(fixtures / 'outputs.jsonl')!r}), out=False)",
        "run",
        "run.pairwise()",
        "ef.run('nowhere.json', 'mock/noisy')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True, resources=resources).execute()
    _, bar, run, pairs, error = [cell.outputs for cell in notebook.cells]
    told_by_bar = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in bar)
    assert "40/40" in told_by_bar or "HBox" in told_by_bar  # text, or a widget where ipywidgets are there
    assert "Warning" not in told_by_bar
    assert "<table" in run[0].data["text/html"]
    assert ".failures() (1)" in run[0].data["text/html"]
    assert "note: few common samples" in pairs[0].data["text/plain"]
    assert "few common samples" in pairs[0].data["text/html"]
    assert "nowhere.json" in error[0].evalue
    assert error[0].output_type == "error"
