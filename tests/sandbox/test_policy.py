"""What is refused before anything runs, and what is said about the walls."""

from __future__ import annotations

import builtins

import pytest

import evalframe as ef
from evalframe.advice import SettingWarning
from evalframe.errors import OptionError, SandboxError
from evalframe.sandbox import launch, verdict, warm
from evalframe.sandbox.launch import cores, layers, missing_layers
from evalframe.sandbox.policy import Policy, require_walls
from evalframe.sandbox.verdict import CodeTask, run_code

TASK = CodeTask(candidate="def f(): return 1\n", tests=("f() == 1",))


@pytest.fixture
def nothing_starts(monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("an execution was started")

    monkeypatch.setattr(verdict, "run_jobs", refuse)


@pytest.fixture
def holding(monkeypatch):
    """Make this machine one that has these layers alone."""

    def hold(*names):
        monkeypatch.setattr(launch, "_raised", lambda: {layer: layer in names for layer in launch.RAISED})

    return hold


@pytest.mark.usefixtures("nothing_starts", "no_walls")
def test_without_walls_the_caller_has_to_allow_it():
    with pytest.raises(SandboxError, match="allow_unsandboxed=True") as caught:
        run_code([TASK], policy=Policy())
    said = str(caught.value)
    assert "missing: landlock, seccomp, namespaces" in said
    assert "it could read and write the files of this user; use the network" in said
    assert run_code([], policy=Policy()) == []
    assert require_walls(Policy(allow_unsandboxed=True)) == []


@pytest.mark.usefixtures("nothing_starts", "no_walls")
def test_strict_refuses_while_a_wall_is_missing():
    with pytest.raises(SandboxError, match="landlock, seccomp missing; use a Linux kernel"):
        run_code([TASK], policy=Policy(sandbox="strict", allow_unsandboxed=True))


@pytest.mark.parametrize(
    ("held", "lacks", "could"),
    [
        (("seccomp", "rlimits"), "landlock", "read and write the files of this user"),
        (("landlock", "rlimits"), "seccomp", "use the network, start programs and signal other processes"),
    ],
)
def test_with_one_wall_auto_runs_and_says_what_the_other_would_stop(holding, held, lacks, could):
    holding(*held)
    [said] = require_walls(Policy(), what="this grader")
    assert said.startswith(f"this grader runs with less than all walls: {lacks} missing, so it could {could}; ")
    assert said.endswith("sandbox='strict' refuses that, allow_unsandboxed=True accepts it")
    assert require_walls(Policy(allow_unsandboxed=True)) == []
    with pytest.raises(SandboxError, match=f"refuses to run this grader here: {lacks} missing"):
        require_walls(Policy(sandbox="strict"), what="this grader")


def test_with_all_walls_nothing_is_said_and_strict_is_content(holding):
    holding("landlock", "seccomp", "rlimits")
    assert require_walls(Policy()) == require_walls(Policy(sandbox="strict")) == []
    holding("landlock", "seccomp")
    with pytest.raises(SandboxError, match="rlimits missing"):
        require_walls(Policy(sandbox="strict"))


def test_a_run_says_aloud_which_wall_is_missing(holding, fixtures):
    holding("seccomp", "rlimits")
    tasks = {"progress": False, "task_ids": ["code_001"], "models": "mock/rule_based"}
    with pytest.warns(SettingWarning, match="landlock missing, so it could read and write the files"):
        ef.run(fixtures / "tasks.jsonl", **tasks)


@pytest.mark.parametrize("sandbox", ["auto", "strict"])
def test_with_all_walls_a_run_of_generated_code_has_not_to_be_allowed(fixtures, sandbox):
    if missing := [wall for wall in launch.WALLS if not layers()[wall]]:
        pytest.skip(f"this machine has no {', '.join(missing)}")
    run = ef.run(
        fixtures / "tasks.jsonl", "mock/rule_based", task_ids=["code_001"], sandbox=sandbox, progress=False
    )  # fmt: skip
    assert run.scores["fate"].to_list() == ["scored"]
    assert run.record["sandbox_layers"] == layers()


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
    monkeypatch.setattr(warm, "_WORKER", broken)
    with pytest.raises(SandboxError, match="no such machine"):
        run_code([TASK, TASK], policy=Policy(allow_unsandboxed=True))


def test_a_python_that_can_not_be_started_is_named(monkeypatch):
    monkeypatch.setattr(warm.sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match=r"did not start: .*see that /nowhere/python runs"):
        run_code([TASK], policy=Policy(allow_unsandboxed=True))


def test_a_worker_in_which_a_wall_fails_that_should_hold_does_not_start(monkeypatch):
    monkeypatch.setattr(launch, "must_hold", lambda **_: ["rlimits", "moat"])
    with pytest.raises(SandboxError, match=r"(?s)a sandbox worker did not start: .*could not raise moat"):
        run_code([TASK], policy=Policy(allow_unsandboxed=True))


def test_layers_name_what_holds():
    held = layers()
    assert held["split_verdict"]
    assert held["rlimits"]
    assert set(missing_layers()) == {name for name, holds in held.items() if not holds}
    assert cores() >= 1


def test_where_no_worker_starts_no_wall_holds(monkeypatch, tmp_path):
    broken = tmp_path / "worker.py"
    broken.write_text("raise RuntimeError('no such machine')\n")
    monkeypatch.setattr(warm, "_WORKER", broken)
    launch.try_walls.cache_clear()
    assert not any(layers()[name] for name in launch.RAISED)
    with pytest.raises(SandboxError, match=r"(?s)did not start: .*no such machine"):
        require_walls(Policy())
    monkeypatch.undo()
    assert layers()["rlimits"]  # a worker that did not start once is no answer for good
