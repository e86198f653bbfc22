"""What holds for every adapter of ours."""

from __future__ import annotations

import ast
from pathlib import Path

import polars as pl
import pytest

import evalframe.adapters
from evalframe.adapters import ModelAdapter
from evalframe.adapters.callables import from_callable
from evalframe.adapters.mock import NAMES, from_name
from evalframe.adapters.replay import replay_adapters
from evalframe.registry import ADAPTERS

FOLDER = Path(evalframe.adapters.__file__).parent
MAY_READ_TARGETS = {"mock.py", "replay.py"}


def reads_targets(tree: ast.AST) -> bool:
    """Whether code reads an attribute ``targets``, by name or through getattr and the like."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "targets")
        or (isinstance(node, ast.Constant) and node.value == "targets")
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_mocks_and_replay_read_the_targets(path: Path) -> None:
    if str(path.relative_to(FOLDER)) not in MAY_READ_TARGETS:
        assert not reads_targets(ast.parse(path.read_text())), "a model must not see the answers"


def test_the_test_above_sees_a_reader() -> None:
    assert reads_targets(ast.parse("def generate(self, prompt, task): return task.targets[0]"))
    assert reads_targets(ast.parse("getattr(task, 'targets')"))
    assert reads_targets(ast.parse((FOLDER / "mock.py").read_text()))
    assert not reads_targets(ast.parse("def generate(self, prompt, task): return task.prompt"))


def test_all_are_adapters() -> None:
    outputs = pl.DataFrame({"task_id": ["t"], "sample_index": [0], "output_text": ["x"]})
    mocks = [mock for name in NAMES for mock in from_name(name, {})]
    for adapter in [*mocks, from_callable("f", str), *replay_adapters(outputs)]:
        assert isinstance(adapter, ModelAdapter)
        assert isinstance(adapter.model_id, str)


def test_the_registry_finds_the_mocks() -> None:
    (mock,) = ADAPTERS.get("mock")("noisy", {})
    assert mock.model_id == "mock/noisy"
