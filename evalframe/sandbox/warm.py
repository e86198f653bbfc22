"""A warm worker, seen from outside: started once, given one execution after the other, ended with all that it started.

The worker is a program of its own (``worker.py``), started by ``Popen`` and never forked from this process, which may
have used polars.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from evalframe.errors import SandboxError
from evalframe.limits import Limits
from evalframe.sandbox.scratch import scratch_folder
from evalframe.sandbox.watching import Job, Report, Watch

_WORKER = Path(__file__).with_name("worker.py")
# an isolated interpreter (-I is -E -P -s): -E is left out, because the environment is ours and holds the hash seed
# alone, without which a program that walks through a set has another result each time
_FLAGS = ("-s", "-P", "-S", "-B", "-W", "ignore", "-X", "utf8")
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_END_SECONDS = 30.0
_START_SECONDS = 120.0
_PIECE = 65536


class WarmWorker:
    """One worker; not to be used by two threads at once.

    Args:
        limits: The ``code_*`` numbers hold for each execution.
        processes: How many tasks the user of the executions may have.
        must: Layers that have to hold in each process, or it does not start.
        without: Layers to leave out.

    Raises:
        SandboxError: Python can not be started.
    """

    def __init__(
        self, limits: Limits, *, processes: int, must: Collection[str] = (), without: Collection[str] = ()
    ) -> None:
        self._limits, self._processes = limits, processes
        self._line, theirs = socket.socketpair()
        self._received = b""
        settings = json.dumps({"must": list(must), "without": list(without)})
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, *_FLAGS, str(_WORKER), str(theirs.fileno()), settings], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_ENVIRONMENT, cwd="/",
                    pass_fds=(theirs.fileno(),), start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self._line.close()
                raise SandboxError(
                    f"a sandbox worker did not start: {error}; see that {sys.executable} runs, and that this user may "
                    "start more processes"
                ) from error
        self.is_alive = True

    def execute(self, job: Job, interrupted: threading.Event) -> Report:
        """Run one job in a scratch folder of its own.

        A worker that can not end an execution any more is ended, and ``is_alive`` is False.

        Raises:
            SandboxError: It did not start, with its own words; or ``interrupted`` was set.
        """
        with scratch_folder() as folder, _sockets() as (control, their_control):
            (out, their_out), (err, their_err) = os.pipe(), os.pipe()
            watch = Watch(job, control, {"stdout": out, "stderr": err}, self._limits.code_output_bytes)
            children: list[int] = []
            try:
                request = {"folder": str(folder), "rlimits": self._resources(job.timeout_seconds)}
                self._give(request, [their_control.fileno(), their_out, their_err])
            finally:
                their_control.close()
                os.close(their_out)
                os.close(their_err)
            try:
                children = self._answer(_START_SECONDS).get("children", [])
                watch.until_end(interrupted)
            finally:
                if not self._end_execution(children):
                    watch.report.ended = "gone"  # what it could kill it could also have told
                watch.close()
            if not watch.has_started:
                raise self._not_started(watch.report.output["stderr"])
        return watch.report

    def probe(self) -> dict[str, bool]:
        """Raise the walls in a process of the worker, and tell which hold.

        Raises:
            SandboxError: It did not start, with its own words.
        """
        with scratch_folder() as folder, _sockets() as (control, theirs), open(os.devnull, "wb") as null:
            request = {"probe": True, "folder": str(folder), "rlimits": self._resources(1.0)}
            self._give(request, [theirs.fileno(), null.fileno(), null.fileno()])
            theirs.close()
            self._answer(_START_SECONDS)
            control.settimeout(_START_SECONDS)
            told = b""
            with contextlib.suppress(OSError):
                while piece := control.recv(_PIECE):
                    told += piece
            self._end_execution([])
        if not told:
            raise self._not_started(b"")
        return {str(layer): bool(holds) for layer, holds in json.loads(told).items()}

    def close(self) -> None:
        """End the worker and all that it started."""
        self.is_alive = False
        self._line.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()

    def _resources(self, timeout_seconds: float) -> dict[str, int]:
        limits = self._limits
        return {
            "AS": limits.code_memory_bytes,
            "CPU": math.ceil(timeout_seconds) + 2,  # behind the clock: also ends what the clock can not
            "FSIZE": limits.code_file_bytes,
            "NOFILE": limits.code_open_files,
            "CORE": 0,
            "NPROC": self._processes,
        }

    def _give(self, request: dict[str, Any], descriptors: list[int]) -> None:
        with contextlib.suppress(OSError):  # it has ended: there will be no answer
            socket.send_fds(self._line, [json.dumps(request).encode() + b"\n"], descriptors)

    def _answer(self, seconds: float) -> dict[str, Any]:
        """Wait for one line; nothing where the worker has ended or says no more."""
        self._line.settimeout(seconds)
        with contextlib.suppress(OSError):
            while b"\n" not in self._received:
                piece = self._line.recv(_PIECE)
                if not piece:
                    break
                self._received += piece
        told, found, self._received = self._received.partition(b"\n")
        return dict(json.loads(told)) if found else {}

    def _end_execution(self, children: list[int]) -> bool:
        """Let the worker end what it started; if it can not any more, end what is known of it, and give False."""
        with contextlib.suppress(OSError):
            self._line.sendall(b"end\n")
        if self._answer(_END_SECONDS).get("done"):
            return True
        self.is_alive = False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        return False

    def _not_started(self, told: bytes | bytearray) -> SandboxError:
        said = bytes(told)
        if not self.is_alive and self._process.stderr:
            self._process.wait()
            os.set_blocking(self._process.stderr.fileno(), False)
            said += self._process.stderr.read() or b""
        words = said.decode(errors="replace")[-2000:].strip() or "it said nothing"
        return SandboxError(f"a sandbox worker did not start: {words}")


@contextlib.contextmanager
def _sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Sockets and not pipes, because another process can open a pipe anew under /proc."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs
