"""What generated code could try, each attack with the layers that stop it; also a program, to be run as another user.

Standard library and the sandbox only: the other user may have no other package. As a program it reads ``Places`` as
JSON and prints the outcomes as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from dataclasses import dataclass

from evalframe.limits import Limits
from evalframe.sandbox.launch import layers, run_jobs
from tests.sandbox.jobs import job


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What is there to be reached from inside, outside of the sandbox.

    Attributes:
        secret: A file that everybody may read.
        own: A file of the user that the executions run as; others may write it too.
        folder: A folder that everybody may write.
        caller: Process id of a process of the caller, whose environment holds a secret.
        tcp, udp: Ports on 127.0.0.1 that listen.
        unix: A socket in the file system that listens.
    """

    secret: str
    own: str
    folder: str
    caller: int
    tcp: int
    udp: int
    unix: str


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        body: Of a function; it succeeded if the function returns. ``{...}`` are names of ``Places``.
        layers: With these left out it succeeds; ``NOT_SHOWN`` where there is none to leave out.
    """

    body: str
    layers: tuple[str, ...]


_SYSTEM_CALL = """
libc = load("ctypes").CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(load("ctypes").get_errno(), name)
"""
NOT_SHOWN = ("not shown",)  # an ordinary user may not do it without walls, or the layer is always there
_FILES, _CALLS, _LIMITS = ("landlock",), ("seccomp",), ("rlimits",)
_SIGNALS = ("seccomp", "landlock")
_TO_THE_WORKER = (*_SIGNALS, "non_root")
_NETWORK = ("seccomp", "namespaces")
_TCP = (*_NETWORK, "landlock")

ATTACKS = {
    # files
    "read /etc/passwd": Attack("open('/etc/passwd').read()", _FILES),
    "read a file of the home": Attack("open({secret!r}).read()", _FILES),
    "list the root folder": Attack("os.listdir('/')", _FILES),
    "read the caller's environment": Attack(
        "assert b'do-not-tell' in open('/proc/{caller}/environ', 'rb').read()", ("landlock", "non_root", "namespaces")
    ),
    "read its own /proc": Attack("open('/proc/self/maps').read()", ("landlock", "private_memory")),
    "read another scratch folder": Attack("open({own!r}).read()", _FILES),
    "write outside": Attack("open({folder!r} + '/written', 'w')", _FILES),
    "write a file of its user": Attack("open({own!r}, 'a').write('x')", _FILES),
    "cut a file of its user": Attack("os.truncate({own!r}, 5)", ("landlock", "seccomp")),
    "cut it by opening it": Attack("os.open({own!r}, os.O_TRUNC | os.O_RDONLY)", ("landlock", "seccomp")),
    "unlock a file of its user": Attack("os.chmod({own!r}, 0o666)", _CALLS),
    "date a file of its user": Attack("os.utime({own!r}, (1, 1))", _CALLS),
    "a link out of the scratch folder": Attack("os.symlink({secret!r}, 'x'); open('x').read()", _FILES),
    "a hard link into the scratch folder": Attack("os.link({own!r}, 'y'); open('y').read()", _FILES),
    "a file moved away": Attack("open('z', 'w').close(); os.rename('z', {folder!r} + '/moved')", _FILES),
    "a device made": Attack("os.mknod('d', 0o020600, os.makedev(1, 3))", NOT_SHOWN),
    # the network
    "TCP to 127.0.0.1": Attack("load('socket').create_connection(('127.0.0.1', {tcp}), 5)", _TCP),
    "TCP to a name": Attack("load('socket').create_connection(('localhost', {tcp}), 5)", _TCP),
    "UDP": Attack("s = load('socket'); s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))", _NETWORK),
    "a socket in the file system": Attack("s = load('socket'); s.socket(s.AF_UNIX).connect({unix!r})", _CALLS),
    "a datagram to a socket file": Attack("s = load('socket'); s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)", _CALLS),
    "a server": Attack("s = load('socket').socket(); s.bind(('127.0.0.1', 0)); s.listen()", _TCP),
    # processes
    "a fork": Attack("os.fork() or os._exit(0)", _CALLS),
    "a fork bomb": Attack("[os.fork() or load('signal').pause() for _ in range(8)]", _CALLS),
    "more processes than the limit": Attack("[os.fork() or load('signal').pause() for _ in range(80)]",
                                            ("seccomp", "rlimits")),
    "a daemon": Attack("(os.fork() and os.wait()) or os.setsid() and (os.fork() or load('signal').pause())", _CALLS),
    "another session": Attack("os.fork() and os._exit(0); os.setsid()", _CALLS),
    "a program": Attack("assert os.posix_spawn('/bin/true', ['true'], {{}}); assert os.wait()[1] == 0", _SIGNALS),
    # with the channel kept open, so that what it prints is seen
    "a program in its place": Attack(
        "for number in range(3, 64):\n"
        "    try: os.set_inheritable(number, True)\n"
        "    except OSError: pass\n"
        "os.execv('/bin/echo', ['echo', 'open'])", _SIGNALS
    ),
    "a signal to its parent": Attack("os.kill(os.getppid(), 0)", _TO_THE_WORKER),
    "a signal to the tests": Attack("os.kill(os.getpid() + 1, 0)", _SIGNALS),
    "a signal to all": Attack("os.kill(-1, 0)", _SIGNALS),
    "a signal by a file": Attack("f = load('fcntl'); f.fcntl(1, f.F_SETOWN, os.getpid() + 1)", _CALLS),
    "ptrace": Attack("call('ptrace', 16, os.getpid() + 1, 0, 0)", (*_SIGNALS, "private_memory")),
    "the limits of the tests": Attack(
        "r = load('resource'); r.prlimit(os.getpid() + 1, r.RLIMIT_CPU, (1, 1))", (*_SIGNALS, "private_memory")
    ),
    "the order of running": Attack("os.setpriority(os.PRIO_USER, 0, 5)", _CALLS),
    # limits
    "memory": Attack("bytearray(1 << 30)", _LIMITS),
    "memory in C code": Attack("load('mmap').mmap(-1, 1 << 30)", _LIMITS),
    "memory in a file of memory": Attack("os.memfd_create('x')", _CALLS),
    "a file of 1 GB": Attack("open('big', 'wb').truncate(1 << 30)", _LIMITS),
    "threads": Attack(
        "t = load('threading')\n[t.Thread(target=t.Event().wait, daemon=True).start() for _ in range(300)]", _LIMITS
    ),
    "open files": Attack("kept = [open('/dev/null') for _ in range(200)]", _LIMITS),
    # the kernel
    "another user namespace": Attack("call('unshare', 0x10000000)", _CALLS),
    "io_uring": Attack("call('syscall', 425, 1, load('ctypes').create_string_buffer(120))", _CALLS),
    "a number that is none yet": Attack(
        "libc.syscall(463, 0); assert load('ctypes').get_errno() != 38", NOT_SHOWN
    ),
    "to be looked into": Attack("call('prctl', 4, 1, 0, 0, 0)", _CALLS),
    "to outlive its parent": Attack("call('prctl', 1, 0, 0, 0, 0)", _CALLS),
    "new rights by a program": Attack("assert libc.prctl(39, 0, 0, 0, 0) == 0", NOT_SHOWN),
    "another user": Attack("os.setresuid(0, 0, 0)", NOT_SHOWN),
}  # fmt: skip


def candidate(attack: Attack, places: Places) -> str:
    """Write the program that tries it and says what came of it."""
    body = textwrap.indent(attack.body.format(**dataclasses.asdict(places)), "    ")
    return (
        f"import os\nfrom importlib import import_module as load\n{_SYSTEM_CALL}\ndef attack():\n{body}\n"
        "try:\n    attack()\nexcept BaseException as error:\n"
        "    print('stopped:', type(error).__name__, error, flush=True)\nelse:\n    print('open', flush=True)\n"
    )


def outcomes(places: Places) -> dict[str, dict[str, str]]:
    """Try every attack, with all walls and without those that stop it; give what each program said."""
    told: dict[str, dict[str, str]] = {name: {} for name in ATTACKS}
    # those that leave out the same layers share a worker
    for without in sorted({attack.layers for attack in ATTACKS.values()} - {NOT_SHOWN} | {()}):
        names = [name for name, attack in ATTACKS.items() if without in ((), attack.layers)]
        programs = [candidate(ATTACKS[name], places) for name in names]
        reports = run_jobs([job(one, "1", seconds=10.0) for one in programs], limits=Limits(), without=without)
        for name, report in zip(names, reports, strict=True):
            said = report.output["stdout"].decode().strip() or f"{report.ended}: {report.output['stderr'].decode()}"
            told[name]["without" if without else "with"] = said
    return told


if __name__ == "__main__":
    print(json.dumps({"layers": layers(), "outcomes": outcomes(Places(**json.load(sys.stdin)))}))
