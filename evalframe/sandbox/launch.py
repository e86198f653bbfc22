"""Which walls this machine has, and many executions at once in warm workers."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evalframe.errors import SandboxError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.sandbox.warm import WarmWorker
from evalframe.sandbox.watching import Job, Report

WALLS = ("landlock", "seccomp", "rlimits")  # what ``strict`` asks for
RAISED = ("no_new_privs", "rlimits", "landlock", "seccomp", "namespaces", "non_root")  # by a worker, around itself
_NOBODY = 65534


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def layers() -> dict[str, bool]:
    """Tell which layers hold on this machine, by name; ``strict`` asks for all that are walls.

    The first call in a process starts a worker that raises them and tries each out.
    """
    linux = sys.platform.startswith("linux")
    unix = _can_run()
    raised = _raised() if unix else dict.fromkeys(RAISED, False)
    return {
        "own_processes": unix,
        "split_verdict": unix,
        "empty_environment": unix,
        "output_cap": unix,
        "rlimits": raised["rlimits"],
        "memory_limit": linux,  # macOS takes RLIMIT_AS and does not hold it
        "process_tree": linux,  # elsewhere a process that leaves its session outlives the execution
        "no_new_privs": raised["no_new_privs"],
        "private_memory": linux and raised["non_root"],  # root reads every process
        "non_root": raised["non_root"],
        "landlock": raised["landlock"],
        "seccomp": raised["seccomp"],
        "namespaces": raised["namespaces"],
    }


def missing_layers() -> list[str]:
    """The names of the layers that do not hold here."""
    return [name for name, holds in layers().items() if not holds]


def must_hold(*, without: Collection[str] = ()) -> list[str]:
    """The layers that a worker raises around itself on this machine: one that fails later must not go unseen.

    Args:
        without: Layers that are left out.
    """
    # root stays root where Python is in root's own folders and nothing bounds what else could be read there
    left_out = {*without, "non_root"} if "landlock" in without else set(without)
    return [name for name in RAISED if _raised()[name] and name not in left_out]


def require_platform() -> None:
    """Refuse where no worker can be started.

    Raises:
        SandboxError: On Windows.
    """
    if not _can_run():
        raise SandboxError(
            f"foreign code can not be run on {sys.platform}: process limits (the module resource) and fork are "
            "missing; run it on Linux, in WSL 2 or in a container"
        )


def run_jobs(
    jobs: Sequence[Job], *, limits: Limits, at_once: int | None = None, without: Collection[str] = ()
) -> list[Report]:
    """Run each job in processes of its own, as many at once as there are cores.

    Args:
        jobs: In any number; reports come in their order.
        limits: The ``code_*`` numbers hold.
        at_once: Executions at once; by default ``cores()``.
        without: Layers to leave out, to show what each one stops.
    """
    require_platform()
    n_workers = min(at_once or cores(), max(1, len(jobs)))
    interrupted = threading.Event()
    processes = tasks_of_the_user() + limits.code_processes * n_workers
    must = must_hold(without=without)
    idle: list[WarmWorker] = []

    def run(job: Job) -> Report:
        if interrupted.is_set():
            raise SandboxError("the executions were interrupted")
        try:
            worker = idle.pop()
        except IndexError:
            worker = WarmWorker(limits, processes=processes, must=must, without=without)
        try:
            report = worker.execute(job, interrupted)
        except BaseException:
            worker.close()
            raise
        if worker.is_alive:
            idle.append(worker)
        else:
            worker.close()
        return report

    try:
        with ThreadPoolExecutor(n_workers, thread_name_prefix="evalframe-sandbox") as pool:
            try:
                return list(pool.map(run, jobs))
            except BaseException:
                interrupted.set()
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        for worker in idle:
            worker.close()


@functools.cache
def try_walls() -> dict[str, bool]:
    """Tell which layers a worker has raised, by trying: once in this process, and again where none started.

    Raises:
        SandboxError: No worker starts, with its own words.
    """
    worker = WarmWorker(DEFAULT_LIMITS, processes=tasks_of_the_user() + DEFAULT_LIMITS.code_processes)
    try:
        return worker.probe()
    finally:
        worker.close()


def _raised() -> dict[str, bool]:
    held = dict.fromkeys(RAISED, False)
    with contextlib.suppress(SandboxError, OSError):  # where no worker starts nothing holds, and a run says why
        held |= try_walls()
    return held


def _can_run() -> bool:
    try:
        import resource  # noqa: F401
    except ImportError:
        return False
    return hasattr(os, "fork")


def tasks_of_the_user() -> int:
    """Tasks of the user that executions run as: the kernel counts all of them against the limit of processes."""
    user = os.geteuid() or _NOBODY
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == user:
                count += len(os.listdir(entry / "task"))
    return count or (0 if os.path.isdir("/proc/self") else 4096)  # no /proc: a number that does not hinder
