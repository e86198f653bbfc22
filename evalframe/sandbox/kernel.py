"""Calls of the Linux kernel that Python has no name for: ``prctl``, capabilities, raw system calls.

This file is loaded inside the workers: standard library only, no import of evalframe. Numbers are those of the
kernel's headers; system calls are named by number only where the C library may lack the function.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Any

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_SECCOMP, PR_SET_SECCOMP = 1, 4, 21, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 36, 38, 39
PR_GET_DUMPABLE = 3
CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x20080522

LINUX = sys.platform.startswith("linux")
MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
_libc = ctypes.CDLL(None, use_errno=True) if LINUX else None


class Structure(ctypes.Structure):
    """Plain fields; a name for the type checker."""


class CapabilityHeader(Structure):
    """Whose capabilities: the version of the call and a process, 0 for oneself."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class CapabilitySet(Structure):
    """Thirty-two capabilities, as bits."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def system_call(number: int, *arguments: Any) -> int:
    """Call the kernel by number.

    Raises:
        OSError: What the kernel answered.
    """
    return call("syscall", ctypes.c_long(number), *arguments)


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library that gives a negative number when it fails.

    Raises:
        OSError: It failed, or this is not Linux.
    """
    if _libc is None:
        raise OSError(f"{name} is a call of Linux")
    found = getattr(_libc, name)
    result: int = found(*[ctypes.c_ulong(one) if type(one) is int else one for one in arguments])
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, value: Any = 0) -> int:
    """Set or ask one property of this process."""
    return call("prctl", option, value, 0, 0, 0)


def has_capability(number: int) -> bool:
    """Whether this process has a capability (a number under 32) now."""
    header, sets = CapabilityHeader(_CAPABILITY_VERSION_3, 0), (CapabilitySet * 2)()
    call("capget", ctypes.byref(header), sets)
    return bool(sets[0].effective >> number & 1)


def keep_capabilities(*numbers: int) -> None:
    """Give up every capability but these (numbers under 32)."""
    kept = sum(1 << number for number in numbers)
    header = CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    sets = (CapabilitySet * 2)(CapabilitySet(kept, kept, 0), CapabilitySet(0, 0, 0))
    call("capset", ctypes.byref(header), sets)
