"""What is refused before anything runs, and what is said about the walls."""

from __future__ import annotations

import builtins

import pytest

from evalframe.errors import OptionError, SandboxError
from evalframe.sandbox import launch
from evalframe.sandbox.launch import cores, layers, missing_layers
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.verdict import CodeTask, run_code

TASK = CodeTask(candidate="def f(): return 1\n", tests=("f() == 1",))


@pytest.fixture
def nothing_starts(monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("a process was started")

    monkeypatch.setattr(launch.subprocess, "Popen", refuse)


@pytest.mark.usefixtures("nothing_starts")
def test_without_walls_the_caller_has_to_allow_it():
    with pytest.raises(SandboxError, match="allow_unsandboxed=True") as caught:
        run_code([TASK], policy=Policy())
    assert "landlock" in str(caught.value)
    assert run_code([], policy=Policy()) == []


@pytest.mark.usefixtures("nothing_starts")
def test_strict_refuses_while_a_wall_is_missing():
    with pytest.raises(SandboxError, match="landlock, seccomp missing"):
        run_code([TASK], policy=Policy(sandbox="strict", allow_unsandboxed=True))


@pytest.mark.usefixtures("nothing_starts")
def test_where_there_are_no_limits_it_is_refused(monkeypatch):
    real_import = builtins.__import__

    def no_resource(name, *rest):
        if name == "resource":
            raise ImportError(name)
        return real_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_resource)
    with pytest.raises(SandboxError, match="run it on Linux"):
        run_code([TASK], policy=Policy(allow_unsandboxed=True))
    assert not any(holds for name, holds in layers().items() if name in ("rlimits", "own_processes"))


@pytest.mark.usefixtures("nothing_starts")
def test_bad_clocks_and_names_are_told_all_at_once():
    tasks = [
        CodeTask(candidate="", tests=("1",), timeout_seconds=31),
        TASK,
        CodeTask(candidate="", tests=("1",), timeout_seconds=0, entry_point="f()"),
        CodeTask(candidate="", tests=("1",), timeout_seconds=float("nan")),
    ]
    with pytest.raises(OptionError) as caught:
        run_code(tasks, policy=Policy(allow_unsandboxed=True))
    assert caught.value.faults["where"].to_list() == [
        "tasks[0].timeout_s", "tasks[2].timeout_s", "tasks[2].entry_point", "tasks[3].timeout_s",
    ]  # fmt: skip


def test_a_worker_that_does_not_start_is_said_with_its_own_words(monkeypatch, tmp_path):
    broken = tmp_path / "worker.py"
    broken.write_text("raise RuntimeError('no such machine')\n")
    monkeypatch.setattr(launch, "_WORKER", broken)
    with pytest.raises(SandboxError, match="no such machine"):
        run_code([TASK, TASK], policy=Policy(allow_unsandboxed=True))


def test_layers_name_what_holds():
    held = layers()
    assert held["split_verdict"]
    assert held["rlimits"]
    assert not held["landlock"]
    assert set(missing_layers()) == {name for name, holds in held.items() if not holds}
    assert cores() >= 1
