"""The command line as a function: its status, stdout and stderr, without the start of a process for each call."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from evalframe.cli import main

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Answer:
    status: int
    stdout: str
    stderr: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """Run one command; an exception that would be a traceback fails the test."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["evalframe", *map(str, arguments)])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int)
        return Answer(left.value.code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the project's folder, where ``fixtures/`` is."""
    monkeypatch.chdir(ROOT)
    return ROOT
