"""Starts the workers, watches them from outside and ends them: clock, output, whole process tree, scratch folder.

Nothing that runs inside is believed but what comes from the tests' process over its own socket.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evalframe.errors import SandboxError
from evalframe.limits import Limits
from evalframe.sandbox.protocol import MessageBuffer, ProtocolError, write_message
from evalframe.sandbox.scratch import scratch_folder

_WORKER = Path(__file__).with_name("worker.py")
# an isolated interpreter (-I is -E -P -s): -E is left out, because the environment is ours and holds the hash seed
# alone, without which a program that walks through a set has another result each time
_FLAGS = ("-s", "-P", "-S", "-B", "-W", "ignore", "-X", "utf8")
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_START_SECONDS = 120.0  # a machine under load may need long to start an interpreter; it is no candidate's fault
_REPORT_BYTES = 64 * 1024 * 1024
_PIECE = 65536
_TICK_SECONDS = 0.25  # how soon an interrupted caller is noticed


@dataclass(frozen=True, slots=True)
class Job:
    """One execution: what the tests' process is told, and the candidate's clock."""

    task: Mapping[str, Any]
    timeout_seconds: float


@dataclass(slots=True)
class Report:
    """What was seen of one execution from outside.

    Attributes:
        ended: ``verdict``: the tests' process gave one; ``timeout``, ``overflow``; ``gone``: it ended without.
        end: Exit code, reason and the numbers of the assertions that count, for ``verdict``.
        plan: The assertions as text.
        outcomes: Assertion number to outcome and reason, as last told.
        output: Standard output and standard error, each up to the limit.
        seconds: Of the candidate's clock.
    """

    ended: Literal["verdict", "timeout", "overflow", "gone"] = "gone"
    end: tuple[str, str, list[int]] = ("error", "", [])
    plan: list[str] = field(default_factory=list)
    outcomes: dict[int, tuple[str, str]] = field(default_factory=dict)
    output: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    seconds: float = 0.0


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def layers() -> dict[str, bool]:
    """Tell which layers hold on this machine, by name; ``strict`` asks for all that are walls."""
    linux = sys.platform.startswith("linux")
    unix = _can_run()
    return {
        "own_processes": unix,
        "split_verdict": unix,
        "empty_environment": unix,
        "output_cap": unix,
        "rlimits": unix,
        "memory_limit": linux,  # macOS takes RLIMIT_AS and does not hold it
        "process_tree": linux,  # elsewhere a process that leaves its session outlives the execution
        "no_new_privs": linux,
        "private_memory": linux and os.geteuid() != 0,  # root reads every process
        "non_root": unix and os.geteuid() != 0,
        "landlock": False,
        "seccomp": False,
        "namespaces": False,
    }


def missing_layers() -> list[str]:
    """The names of the layers that do not hold here."""
    return [name for name, holds in layers().items() if not holds]


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


def run_jobs(jobs: Sequence[Job], *, limits: Limits, at_once: int | None = None) -> list[Report]:
    """Run each job in processes of its own, as many at once as there are cores.

    Args:
        jobs: In any number; reports come in their order.
        limits: The ``code_*`` numbers hold.
        at_once: Executions at once; by default ``cores()``.
    """
    require_platform()
    workers = min(at_once or cores(), max(1, len(jobs)))
    interrupted = threading.Event()
    processes = _own_tasks() + limits.code_processes * workers

    def run(job: Job) -> Report:
        if interrupted.is_set():
            raise SandboxError("the executions were interrupted")
        return _execute(job, limits, processes, interrupted)

    with ThreadPoolExecutor(workers, thread_name_prefix="evalframe-sandbox") as pool:
        try:
            return list(pool.map(run, jobs))
        except BaseException:
            interrupted.set()
            pool.shutdown(cancel_futures=True)
            raise


def _can_run() -> bool:
    try:
        import resource  # noqa: F401
    except ImportError:
        return False
    return hasattr(os, "fork")


def _own_tasks() -> int:
    """Tasks of this user: the kernel counts all of them against the limit of processes, and root's never."""
    user = os.geteuid()
    if user == 0:
        return 0
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == user:
                count += len(os.listdir(entry / "task"))
    return count or 4096  # no /proc: a number that does not hinder


def _execute(job: Job, limits: Limits, processes: int, interrupted: threading.Event) -> Report:
    with scratch_folder() as folder, _sockets() as (control, their_control), _sockets() as (lifeline, their_lifeline):
        resources = {
            "AS": limits.code_memory_bytes,
            "CPU": math.ceil(job.timeout_seconds) + 2,  # behind the clock: also ends what the clock can not
            "FSIZE": limits.code_file_bytes,
            "NOFILE": limits.code_open_files,
            "CORE": 0,
            "NPROC": processes,
        }
        numbers = (str(their_control.fileno()), str(their_lifeline.fileno()))
        process = subprocess.Popen(
            [sys.executable, *_FLAGS, str(_WORKER), *numbers, json.dumps(resources)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_ENVIRONMENT, cwd=folder,
            pass_fds=(their_control.fileno(), their_lifeline.fileno()), start_new_session=True,
        )  # fmt: skip
        their_control.close()
        their_lifeline.close()
        watch = _Watch(job, process, control, limits.code_output_bytes)
        try:
            watch.until_end(interrupted)
        finally:
            if not _end(process, lifeline):
                watch.report.ended = "gone"  # what it could kill it could also have told
            watch.close()
    return watch.report


class _Watch:
    """Reads what comes from inside until there is a verdict, the clock is over or the output is too much."""

    def __init__(self, job: Job, process: subprocess.Popen[bytes], control: socket.socket, output_bytes: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.report = Report()
        self._job, self._control, self._output_bytes = job, control, output_bytes
        self._nonce = secrets.token_hex(16)
        self._messages = MessageBuffer(max_bytes=_REPORT_BYTES)
        self._started: float | None = None
        self._deadline = time.monotonic() + _START_SECONDS
        self._done = False
        self._pipes = {"stdout": process.stdout, "stderr": process.stderr}
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        for name, pipe in self._pipes.items():
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, name)

    def until_end(self, interrupted: threading.Event) -> None:
        while not self._done:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._finish("timeout")
                break
            if interrupted.is_set():
                raise SandboxError("the execution was interrupted")
            for key, _ in self._selector.select(min(left, _TICK_SECONDS)):
                self._read(key.data)
        if self._started is None:
            raise SandboxError(
                "a sandbox worker did not start: "
                + (self.report.output["stderr"].decode(errors="replace")[-2000:].strip() or "it said nothing")
            )
        self.report.seconds = time.monotonic() - self._started

    def close(self) -> None:
        """Take what is still in the pipes, now that nothing writes to them."""
        for name in self._pipes:
            while self._room() > 0 and self._read_output(name):
                pass
        if self._room() <= 0:
            self.report.ended = "overflow"
        self._selector.close()
        for pipe in self._pipes.values():
            pipe.close()

    def _room(self) -> int:
        """Bytes of output that may still come; one over the limit is read, to know that there is more."""
        return self._output_bytes + 1 - sum(map(len, self.report.output.values()))

    def _read(self, name: str | None) -> None:
        if name is None:
            self._read_control()
        elif self._room() > 0 and self._read_output(name) == 0:
            self._selector.unregister(self._pipes[name])
        if self._room() <= 0:
            self._finish("overflow")

    def _read_output(self, name: str) -> int | None:
        """Give how many bytes came: 0 at the end of the stream, None where there are none now."""
        try:
            piece = os.read(self._pipes[name].fileno(), min(_PIECE, self._room()))
        except BlockingIOError:
            return None
        self.report.output[name] += piece
        return len(piece)

    def _read_control(self) -> None:
        try:
            piece = self._control.recv(_PIECE)
            messages = self._messages.feed(piece)
        except (OSError, ProtocolError):
            piece, messages = b"", []
        for message in messages:
            self._take(message)
        if not piece and not self._done:
            self._finish("gone")

    def _take(self, message: Any) -> None:
        match message:
            case ["ready"] if self._started is None:
                self._send_task()
            case ["plan", list(shown)]:
                self.report.plan = [str(text) for text in shown]
            case ["assertion", int(number), str(outcome), str(reason)]:
                self.report.outcomes[number] = (outcome, reason)
            case ["end", self._nonce, str(exit_code), str(reason), list(counted)]:
                self.report.end = (exit_code, reason, counted)
                self._finish("verdict")
            case _:
                self._finish("gone")

    def _send_task(self) -> None:
        self._started = time.monotonic()
        self._deadline = self._started + self._job.timeout_seconds
        with self._control.makefile("wb") as stream, contextlib.suppress(OSError):
            write_message(stream, {**self._job.task, "nonce": self._nonce})

    def _finish(self, ended: Literal["verdict", "timeout", "overflow", "gone"]) -> None:
        if not self._done:
            self._done, self.report.ended = True, ended


def _end(process: subprocess.Popen[bytes], lifeline: socket.socket) -> bool:
    """Let the worker end all that it started; if it can not any more, end what is known of it, and give False."""
    children: list[int] = []
    told = b""
    lifeline.settimeout(30)
    with contextlib.suppress(OSError):
        lifeline.shutdown(socket.SHUT_WR)
        while piece := lifeline.recv(4096):  # until the worker, the only one that holds the other end, has ended
            told += piece
    with contextlib.suppress(ValueError):
        children = json.loads(told or b"[]")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.wait() == 0:
        return True
    for pid in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    return False


@contextlib.contextmanager
def _sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Sockets and not pipes, because another process can open a pipe anew under /proc."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs
