"""A network without interfaces, a tree of processes with an end, queues of one's own; and who a worker is.

This file is loaded inside the workers: standard library only, no import of evalframe.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from . import kernel

NOBODY = 65534
_PR_SET_KEEPCAPS = 8
_NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x08000000, 0x10000000, 0x20000000, 0x40000000


def leave(*, processes: bool) -> bool:
    """Leave the machine's network and queues, and with ``processes`` its tree of processes for one's next child.

    Root needs no user namespace for it, and takes none: in there it could not become another user. Where that is not
    allowed (many containers, some distributions), nothing is changed and the answer is False.
    """
    wanted = _NEW_IPC | _NEW_NETWORK | (_NEW_PROCESSES if processes else 0)
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.call("unshare", wanted)
        return True
    except OSError:
        if user == 0:
            return False
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


def can_be_nobody(*, reads_all: bool, read: Iterable[str] = ()) -> bool:
    """Whether this process is root, and could go on as nobody.

    Args:
        reads_all: As for ``become_nobody``.
        read: Files and folders beside the Python installation that have to be read then.
    """
    if os.geteuid() != 0:
        return False
    if reads_all and kernel.has_capability(kernel.CAP_DAC_READ_SEARCH):
        return True
    return all(_nobody_reads(path) for path in (os.__file__, *read))


def become_nobody(*, reads_all: bool) -> None:
    """Give up being root, and every capability.

    Args:
        reads_all: Keep the right to read what root may read, where something else (Landlock) says which files those
            are: an installation in root's home can not be read otherwise. Many containers do not have that right.
    """
    kept = [kernel.CAP_DAC_READ_SEARCH] if reads_all and kernel.has_capability(kernel.CAP_DAC_READ_SEARCH) else []
    with contextlib.suppress(OSError):  # a user namespace that knows no other user
        kernel.prctl(_PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    kernel.prctl(_PR_SET_KEEPCAPS, 0)
    kernel.keep_capabilities(*(kept if os.geteuid() != 0 else []))


def give_up_capabilities() -> None:
    """Keep none, as the user that this process is."""
    kernel.keep_capabilities()


def _nobody_reads(path: str) -> bool:
    """Whether every folder on the way lets others through, and they may read what is there; nothing there is fine."""
    place = os.path.realpath(path)
    if not os.path.exists(place):
        return True
    wanted = 0o005 if os.path.isdir(place) else 0o004
    if os.stat(place).st_mode & wanted != wanted:
        return False
    while (place := os.path.dirname(place)) != "/":
        if not os.stat(place).st_mode & 0o001:
            return False
    return True


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
