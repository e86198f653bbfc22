"""Inside a worker: orphans come to the process that started them, and none outlives it.

Standard library only, no import of evalframe.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable


def end_all(children: list[int]) -> None:
    """End these children and all that came of them; for that, orphans must come to this process (``walls.harden``)."""
    for pid in children:
        kill(os.killpg, pid)
        kill(os.kill, pid)
    for _ in range(1000):  # a process that forks while it is killed leaves a child for the next round
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _own_children():
            kill(os.kill, pid)
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


def kill(send: Callable[[int, int], None], pid: int) -> None:
    """Send the signal that nothing can refuse, with ``os.kill`` or ``os.killpg``, to what may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, signal.SIGKILL)
