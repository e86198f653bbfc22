"""Inside a worker: orphans come to the process that started them, and none outlives it.

Standard library only, no import of evalframe.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from typing import Any

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 4, 38, 36


def harden() -> None:
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


def end_all(children: list[int]) -> None:
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


def limit(limits: dict[str, int]) -> None:
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
