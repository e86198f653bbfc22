"""Files that foreign code may read and the folder that it may write, held by the kernel (Landlock, Linux 5.13).

This file is loaded inside the workers: standard library only, no import of evalframe. Newer kernels also refuse to
connect by TCP, to signal processes outside and to reach their abstract sockets; the filter of system calls does the
same on the older ones.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
from collections.abc import Iterable

from . import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # how many bits of rights on files a version knows; since 5: 16
_TCP, _ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11


class _Ruleset(kernel.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(kernel.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@functools.cache
def version() -> int:
    """The version of Landlock that the kernel has; 0 without it."""
    try:
        return kernel.system_call(_CREATE_RULESET, ctypes.c_void_p(None), 0, _VERSION)
    except OSError:
        return 0


def confine(*, read: Iterable[str], write: Iterable[str], devices: Iterable[str] = ()) -> None:
    """Leave this process, and all that comes of it, these files alone; it can not be undone.

    Args:
        read: Files and folders that may be read, with all that is in them. What is not there is left out.
        write: Folders in which everything may be done but making devices and running programs.
        devices: Files that may be read and written, and not replaced.

    Raises:
        OSError: The kernel has no Landlock.
    """
    known = version()
    if not known:
        raise OSError("the kernel has no Landlock")
    every = (1 << _RIGHTS_OF_ABI.get(known, 16)) - 1
    wanted = _Ruleset(every, _TCP if known >= 4 else 0, _ABSTRACT_SOCKETS_AND_SIGNALS if known >= 6 else 0)
    size = 8 if known < 4 else 16 if known < 6 else 24
    ruleset = kernel.system_call(_CREATE_RULESET, ctypes.byref(wanted), size, 0)
    try:
        for path in read:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        for path in devices:
            _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
        for path in write:
            _allow(ruleset, path, every & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE | _EXECUTE | _IOCTL_DEVICE))
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_ONLY
        rule = _Beneath(rights, descriptor)
        kernel.system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)
