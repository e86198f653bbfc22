"""A network without interfaces, a tree of processes with an end, queues of one's own; and who a worker is.

This file is loaded inside the workers: standard library only, no import of evalframe.
"""

from __future__ import annotations

import contextlib
import os

from . import kernel

NOBODY = 65534
_PR_SET_KEEPCAPS = 8
_NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x08000000, 0x10000000, 0x20000000, 0x40000000


def leave(*, processes: bool) -> bool:
    """Leave the machine's network and queues, and with ``processes`` its tree of processes for one's next child.

    Root needs no user namespace for it. Where another user may have none (many containers, some distributions),
    nothing is changed and the answer is False.
    """
    wanted = _NEW_IPC | _NEW_NETWORK | (_NEW_PROCESSES if processes else 0)
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.call("unshare", wanted)
        return True
    except OSError:
        pass
    try:
        kernel.call("unshare", wanted | _NEW_USER)
    except OSError:
        return False
    with contextlib.suppress(OSError):  # without a map its files belong to nobody, and are read all the same
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    kernel.keep_capabilities()  # it had all of them, in there
    return True


def can_be_nobody(*, reads_all: bool) -> bool:
    """Whether this process is root, and could go on as nobody.

    Args:
        reads_all: As for ``become_nobody``.
    """
    return os.geteuid() == 0 and (reads_all or _nobody_reads(os.__file__))


def become_nobody(*, reads_all: bool) -> bool:
    """Give up being root, and every capability; tell whether this process is no root now.

    Args:
        reads_all: Keep the right to read what root may read, where something else (Landlock) says which files those
            are: an installation in root's home can not be read otherwise.
    """
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):
            kernel.keep_capabilities()
        return True
    if can_be_nobody(reads_all=reads_all):
        try:
            kernel.prctl(_PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            kernel.prctl(_PR_SET_KEEPCAPS, 0)
        except OSError:  # a user namespace that knows no other user
            pass
    with contextlib.suppress(OSError):
        kernel.keep_capabilities(*([kernel.CAP_DAC_READ_SEARCH] if reads_all and os.geteuid() != 0 else []))
    return os.geteuid() != 0


def _nobody_reads(path: str) -> bool:
    """Whether every folder on the way lets others through, and they may read the file."""
    place = os.path.abspath(path)
    if not os.stat(place).st_mode & 0o004:
        return False
    while (place := os.path.dirname(place)) != "/":
        if not os.stat(place).st_mode & 0o001:
            return False
    return True


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
