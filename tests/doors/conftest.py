"""The command line as a function: its status, stdout and stderr, without the start of a process for each call."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from evalframe.cli import main

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Answer:
    status: int
    stdout: str
    stderr: str


def answer_of(*arguments: object) -> Answer:
    """Run one command; an exception that would be a traceback fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["evalframe", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as left,
    ):
        main()
    assert isinstance(left.value.code, int)
    return Answer(left.value.code, out.getvalue(), err.getvalue())


@pytest.fixture
def command() -> Callable[..., Answer]:
    return answer_of


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the project's folder, where ``fixtures/`` is."""
    monkeypatch.chdir(ROOT)
    return ROOT
