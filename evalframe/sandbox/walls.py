"""The walls around foreign code, raised by a worker around itself before it runs any.

This file is loaded inside the workers: standard library only, no import of evalframe. Each layer is probed, raised and
then tried out: what is told to hold was seen to hold. What a layer can not do on this machine is told as False and is
for the caller to judge; a layer that ``must`` hold and does not ends the worker.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from . import kernel, landlock, namespaces, seccomp

LAYERS = ("no_new_privs", "rlimits", "landlock", "seccomp", "namespaces", "non_root")
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_RANDOM = ("/dev/urandom", "/dev/random")
_SIGKILL = 9


class WallError(RuntimeError):
    """A wall that must hold does not."""


def raise_walls(rules: Mapping[str, Any]) -> dict[str, bool]:
    """Raise every wall that this machine has around this process and all that comes of it.

    It is called once, in a process with one thread, before foreign code. What is open stays open: close it before.

    Args:
        rules: Plain JSON values, each with a default:
            ``read``: files and folders to be read beside the Python installation (none).
            ``write``: folders to be written; they are given to the worker's user (none).
            ``rlimits``: name without ``RLIMIT_`` to number (none).
            ``processes``: whether it may fork and send signals (false); where true, its children raise walls of
            their own.
            ``network``: false, nothing else.
            ``parent``: process id of the parent with whose end this process ends; the parent must not have forked
            it from a thread that ends earlier (none).
            ``held``: layers that hold already, because they were raised before the fork (none).
            ``must``: layers that have to hold (none).
            ``without``: layers to leave out, to show what each one stops; also ``private_memory`` (none).

    Returns:
        Each of ``LAYERS``, and whether it holds.

    Raises:
        WallError: A layer of ``must`` does not hold.
        ValueError: ``network`` is asked for.
    """
    if rules.get("network"):
        raise ValueError("foreign code has no network; leave 'network' out")
    without = frozenset(rules.get("without", ()))
    held = dict.fromkeys(LAYERS, False)
    if "rlimits" not in without:
        held["rlimits"] = limit(rules.get("rlimits", {}))
    if kernel.LINUX:
        _raise_on_linux(rules, without, held)
    else:
        held["non_root"] = os.geteuid() != 0
    if missing := [layer for layer in rules.get("must", ()) if not held.get(layer)]:
        raise WallError(f"the sandbox could not raise {', '.join(missing)}")
    return held


def prepare() -> None:
    """Do once what every process that is forked from this one would do again."""
    if kernel.LINUX:
        import _socket  # noqa: F401  (loaded, for trying out)

        landlock.version()
        if seccomp.is_known():
            seccomp.prepared(False)


def limit(limits: Mapping[str, int]) -> bool:
    """Set limits of the system on this process, never over those that it has; tell whether all of them hold."""
    all_hold = True
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        try:
            hard = resource.getrlimit(kind)[1]
            wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (wanted, wanted))
            all_hold = all_hold and resource.getrlimit(kind) == (wanted, wanted)
        except (ValueError, OSError):
            all_hold = all_hold and not kernel.LINUX  # macOS has limits that it does not let one set
    return all_hold


def harden() -> None:
    """Let no process of the same user look in, and no program gain a privilege; orphans come to this process."""
    if not kernel.LINUX:
        return
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def die_with(parent: int) -> None:
    """End when the thread that forked this process ends; at once where it is too late for that."""
    if not kernel.LINUX:
        return
    kernel.prctl(kernel.PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def installation() -> list[str]:
    """The folders of the Python installation and of the system's libraries."""
    prefixes = {sys.base_prefix, sys.base_exec_prefix}
    own = [os.path.dirname(os.path.abspath(os.__file__))]
    own += [os.path.join(prefix, name) for prefix in sorted(prefixes) for name in ("lib", "lib64")]
    return [*own, *_SYSTEM]


def _raise_on_linux(rules: Mapping[str, Any], without: frozenset[str], held: dict[str, bool]) -> None:
    processes = bool(rules.get("processes"))
    held["namespaces"] = "namespaces" in rules.get("held", ())
    if not held["namespaces"] and "namespaces" not in without:
        held["namespaces"] = namespaces.leave(processes=False)
    # before the change of user, which may not find the way to the scratch folder any more
    files = "landlock" not in without and _confine(rules)
    if "non_root" not in without:
        if namespaces.can_be_nobody(reads_all=files, read=rules.get("read", ())):
            _give(rules.get("write", ()))
            namespaces.become_nobody(reads_all=files)
        else:
            namespaces.give_up_capabilities()
    if "no_new_privs" not in without:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, int("private_memory" in without))
    if rules.get("parent"):
        die_with(rules["parent"])  # behind the change of user, which undoes it
    if "seccomp" not in without:
        with contextlib.suppress(OSError):
            seccomp.refuse_system_calls(processes=processes)
    held["landlock"] = files and _folder_is_closed("/")
    held["seccomp"] = "seccomp" not in without and _network_is_closed()
    held["no_new_privs"] = kernel.prctl(kernel.PR_GET_NO_NEW_PRIVS) == 1
    held["non_root"] = os.geteuid() != 0


def _give(folders: Iterable[str]) -> None:
    """Make folders belong to the user that this process will be; they stay private."""
    for folder in folders:
        with contextlib.suppress(OSError):
            os.chown(folder, namespaces.NOBODY, namespaces.NOBODY)


def _confine(rules: Mapping[str, Any]) -> bool:
    read = [*installation(), *_RANDOM, *rules.get("read", ())]
    try:
        landlock.confine(read=read, write=rules.get("write", ()), devices=_DEVICES)
    except OSError:
        return False
    return True


def _folder_is_closed(folder: str) -> bool:
    try:
        os.listdir(folder)
    except PermissionError:
        return True
    return False


def _network_is_closed() -> bool:
    import _socket  # the C module alone: the library socket takes milliseconds to load

    if kernel.prctl(kernel.PR_GET_SECCOMP) != 2:
        return False
    try:
        _socket.socket().close()
    except PermissionError:
        return True
    return False
