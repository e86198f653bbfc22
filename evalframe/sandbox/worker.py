"""Runs as a program of its own: one execution of a code task, in two processes under limits.

Standard library only, no import of evalframe. It is started as a fresh interpreter, starts the tests' process and the
candidate's, knows neither the tests nor the candidate, and waits. When its life line ends it kills every process that
came of it, also those that left their session, and ends.

Arguments: the control socket, the life line, the limits as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 4, 38, 36


def main() -> None:
    """Start both processes, wait for the life line to end, leave nothing behind."""
    _harden()  # first: until then another process of the same user can look in
    control, lifeline, limits = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    package = types.ModuleType("inside")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["inside"] = package
    candidate, testing = importlib.import_module("inside.candidate"), importlib.import_module("inside.testing")
    tests_end, candidate_end = _socket_pair()
    os.environ.clear()
    sys.argv = ["candidate"]

    def run_candidate() -> None:
        _close(control, lifeline, tests_end)
        _limit(limits)
        candidate.answer_questions(os.fdopen(candidate_end, "rb"), os.fdopen(os.dup(candidate_end), "wb"))

    def run_tests() -> None:
        _close(lifeline, candidate_end)
        _limit(limits)
        streams = [
            os.fdopen(fd, mode)
            for fd, mode in ((control, "rb"), (os.dup(control), "wb"), (tests_end, "rb"), (os.dup(tests_end), "wb"))
        ]
        testing.judge(*streams)
        os.read(control, 1)  # the caller has read the verdict and ends everything

    children = [_start(run_candidate), _start(run_tests)]
    _close(control, tests_end, candidate_end)
    os.write(lifeline, json.dumps(children).encode() + b"\n")
    while os.read(lifeline, 1):
        pass
    _end_all(children)


def _start(run: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        run()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(status)


def _limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        try:
            hard = resource.getrlimit(kind)[1]
            wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (wanted, wanted))
        except (ValueError, OSError):  # macOS has limits that it does not let one set
            continue


def _harden() -> None:
    """On Linux: orphans come to this process, no privilege can be gained, no process of the same user looks in."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_DUMPABLE, 0)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
    for name in [name for name in sys.modules if name.split(".")[0] in ("ctypes", "_ctypes")]:
        del sys.modules[name]


def _socket_pair() -> tuple[int, int]:
    import _socket  # the C module alone: the library socket takes milliseconds to load

    one, other = _socket.socketpair()
    return one.detach(), other.detach()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _end_all(children: list[int]) -> None:
    for pid in children:
        _kill(os.killpg, pid)
        _kill(os.kill, pid)
    for _ in range(1000):  # a process that forks while it is killed leaves a child for the next round
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _own_children():
            _kill(os.kill, pid)
        try:
            os.waitpid(-1, 0)  # one was killed: it will come
        except ChildProcessError:
            return


def _own_children() -> list[int]:
    own = str(os.getpid())
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # the name may hold blanks and brackets: the parent is the second field after the last bracket
                parent = file.read().rpartition(b")")[2].split()[1].decode()
        except OSError:  # it has ended
            continue
        if parent == own:
            found.append(int(entry))
    return found


def _kill(send: Any, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
