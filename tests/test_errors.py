"""Errors are messages, frames and builtins at once."""

from __future__ import annotations

import inspect

import pytest

from evalframe import errors
from evalframe.errors import EvalframeError, Fault, ManifestError, TaskFault, TaskFileError, UnknownNameError

ERRORS = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, EvalframeError)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_each_error_is_a_fitting_builtin_too(error: type[EvalframeError]) -> None:
    assert error is EvalframeError or issubclass(error, (ValueError, LookupError, RuntimeError, OSError, ImportError))
    assert str(error("what, where and what to do")) == "what, where and what to do"


def test_faults_are_lines_and_a_frame() -> None:
    error = ManifestError.of(
        [Fault("tasks[0].id", "missing", "is missing", "add it"), Fault("", "empty", "nothing here")], what="suite.json"
    )
    assert str(error) == "suite.json: 2 faults\n  tasks[0].id: is missing -> add it\n  nothing here"
    assert error.faults.columns == ["where", "rule", "detail", "remedy"]
    assert error.faults["where"].to_list() == ["tasks[0].id", ""]
    assert "tasks[0].id" in error._repr_html_()


def test_task_faults_have_their_own_frame() -> None:
    error = TaskFileError.of([TaskFault("t.jsonl", 3, "x", "bad_value", "prompt", "is empty")], what="t.jsonl")
    assert str(error).splitlines()[1] == "  t.jsonl:3 [x] prompt: bad_value: is empty"
    assert error.faults.row(0) == ("t.jsonl", 3, "x", "bad_value", "prompt", "is empty")
    assert TaskFileError("none").faults.columns == ["file", "line_number", "task_id", "rule", "field", "detail"]


def test_a_lookup_error_prints_its_message_and_not_its_repr() -> None:
    assert str(UnknownNameError("there is no 'x'")) == "there is no 'x'"
