"""The rooms of the house: who may import whom, held as data."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "evalframe"

# room -> storey; a room imports from storeys below it
STOREYS = {
    "errors": 0, "limits": 0, "words": 0, "reprs": 0,
    "jsontext": 1, "disk": 1, "frames": 1, "registry": 1, "stats": 1, "sandbox": 1,
    "schemas": 2, "manifest": 2, "fields": 2,
    "adapters": 3, "metrics": 3, "extractors": 3, "readers": 3,
    "data": 4, "prompts": 4, "generate": 4, "preprocessing": 4, "extracting": 4, "grading": 4, "scoring": 4,
    "summarising": 4,
    "headlines": 4, "units": 4, "standings": 4, "remarks": 4, "pairs": 4, "calibrating": 4, "slicing": 4, "passing": 4,
    "confiding": 4, "groups": 4, "designs": 4, "matrices": 4, "tallies": 4, "comparing": 4, "spending": 4,
    "runner": 5, "result": 5, "store": 5, "export": 5, "shards": 5, "models": 5, "sources": 5, "options": 5,
    "planning": 5, "loading": 5, "advice": 5, "execution": 5, "recording": 5, "assembling": 5, "joining": 5,
    "doctor": 5,
    "demonstration": 5, "datasource": 5, "evaluating": 5, "versions": 5, "choosing": 5, "deriving": 5,
    "rescoring": 5, "regrading": 5, "graders": 5, "inlining": 5,
    "extending": 5, "uniting": 5, "facing": 5, "presenting": 5,
    "report": 5, "engines": 5,
    "shelf": 5, "previewing": 5, "estimating": 5, "feasibility": 5, "explaining": 5, "judging": 5,
    "calling": 5,
    "cli": 6, "__init__": 6, "__main__": 6,
}  # fmt: skip

# within a storey: room -> rooms of the same storey that it may import
NEIGHBOURS = {
    "limits": {"errors", "reprs"},
    "frames": {"disk"},
    "metrics": {"extractors"},
    "preprocessing": {"data"},
    "units": {"headlines"},
    "remarks": {"units"},
    "designs": {"groups", "headlines", "units"},
    "matrices": {"headlines", "units"},
    "tallies": {"calibrating"},
    "standings": {"headlines", "units", "matrices", "tallies", "remarks", "designs"},
    "pairs": {"headlines", "units", "matrices", "remarks", "designs"},
    "calibrating": {"headlines"},
    "scoring": {"summarising"},
    "slicing": {"groups", "headlines", "standings", "designs"},
    "passing": {"headlines", "standings", "units"},
    "comparing": {"headlines", "pairs", "standings"},
    "spending": {"headlines"},
    "schemas": set(),
}
WIRING = {name for name, storey in STOREYS.items() if storey >= 5}
THREAD_ROOMS = {"generate", "sandbox"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "evalframe":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {a.name for a in node.names if a.name != "__version__"}
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("evalframe.")}
    return {room for room in rooms if room in STOREYS} | {f"?{room}" for room in rooms if room not in STOREYS}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_below(path: Path) -> None:
    room = room_of(path)
    assert room in STOREYS, f"the room {room} is not in the table"
    for other in imported_rooms(path) - {room}:
        if room in WIRING and STOREYS.get(other, 9) <= STOREYS[room]:
            continue
        allowed = STOREYS.get(other, 9) < STOREYS[room] or other in NEIGHBOURS.get(room, set())
        assert allowed, f"{room} (storey {STOREYS[room]}) imports {other}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_fits_in_the_head(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350
    assert path.stem not in {"utils", "common", "helpers", "base", "core"}
    if path.name != "__init__.py" or path.parent != PACKAGE:
        assert ast.get_docstring(ast.parse(path.read_text())), "a module says on its first line what it is for"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_threads_live_in_two_rooms(path: Path) -> None:
    if room_of(path) in THREAD_ROOMS:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        makers = ("Thread", "ThreadPoolExecutor", "ProcessPoolExecutor", "Pool")
        assert name.rpartition(".")[2] not in makers, f"{path}: {name}"


def in_fresh_process(code: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


HEAVY = {"polars", "numpy", "datasets", "pandas", "pyarrow", "pydantic", "rapidfuzz", "typer", "rich", "tqdm", "altair"}


def test_import_loads_nothing_heavy() -> None:
    code = "import evalframe, sys, json; print(json.dumps({'loaded': sorted(m.split('.')[0] for m in sys.modules)}))"
    assert not HEAVY & set(in_fresh_process(code)["loaded"])  # type: ignore[arg-type]


def test_no_module_has_the_name_of_a_public_function() -> None:
    # importing evalframe.run would put the module in the place of the function
    import evalframe

    modules_at_top = {path.stem for path in PACKAGE.glob("*.py")} | {p.name for p in PACKAGE.iterdir() if p.is_dir()}
    assert not modules_at_top & set(evalframe.__all__)
    assert set(evalframe.__all__) == set(evalframe._HOMES)
    for name in evalframe.__all__:
        assert getattr(evalframe, name) is not None
