"""The walls on machines of other kinds, and the table of system calls against the kernel's own."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evalframe.doctor import examine
from evalframe.sandbox import seccomp
from evalframe.sandbox.launch import layers
from evalframe.sandbox.walls import LAYERS, raise_walls
from tests.conftest import ROOT

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are those of Linux")
# what a container gives its root: no CAP_SYS_ADMIN, no CAP_DAC_READ_SEARCH
CONTAINER = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
PROGRAM = """
import json
from evalframe.limits import Limits
from evalframe.sandbox.launch import layers, run_jobs
from tests.sandbox.jobs import job
code = '''
import os
open('own', 'w').write('fine')
try:
    print(open('/etc/passwd').read())
except PermissionError:
    print('stopped', os.getuid(), open('own').read())
def f(): return 1
'''
[report] = run_jobs([job(code, 'f() == 1')], limits=Limits())
print(json.dumps([layers(), report.end[0], report.output['stdout'].decode()]))
"""


def in_a_container() -> None:
    """Give up, in a child that is to run a program, what a container does not have."""
    libc = ctypes.CDLL(None)
    for number in range(64):
        if number not in CONTAINER:
            libc.prctl(24, number, 0, 0, 0)
    kept = sum(1 << number for number in CONTAINER)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(kept, kept)
    assert libc.capset(header, sets) == 0


@LINUX
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be the root of a container")
@pytest.mark.parametrize("program", [sys.executable, "/usr/bin/python3"])
def test_the_root_of_a_container_has_landlock_and_seccomp_and_no_rights(program):
    done = subprocess.run(
        [program, "-B", "-c", PROGRAM], preexec_fn=in_a_container, env={"PYTHONPATH": str(ROOT)}, cwd="/",
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode and ("No module" in done.stderr or "ImportError" in done.stderr):
        pytest.skip(f"{program} is too old or can not read this checkout")
    assert done.returncode == 0, done.stderr
    held, ended, said = json.loads(done.stdout)
    assert ended == "pass"
    assert not held["namespaces"]
    names = ("rlimits", "no_new_privs", "landlock", "seccomp")
    assert {name: held[name] for name in names} == {name: layers()[name] for name in names}
    if held["landlock"]:  # an installation that only root can read keeps it root, without a capability
        assert said == f"stopped {65534 if held['non_root'] else 0} fine\n"


def test_there_is_no_network_to_be_had():
    with pytest.raises(ValueError, match="foreign code has no network"):
        raise_walls({"network": True})


def test_doctor_tells_what_was_tried():
    assert examine()["sandbox"] == layers()
    assert set(LAYERS) < set(layers())


def tables() -> dict[str, tuple[int, int]]:
    names = ("_REFUSED", "_UNKNOWN", "_NEW_PROCESS", "_TO_A_PROCESS", "_OF_A_PROCESS")
    single = ("clone", "fcntl", "ioctl", "prctl", "socketpair", "open", "openat")
    watched = {name: numbers for table in names for name, numbers in getattr(seccomp, table).items()}
    return watched | {name: getattr(seccomp, f"_{name.upper()}") for name in single}


@pytest.mark.parametrize(
    ("place", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
    ids=["x86_64", "aarch64"],
)
def test_the_numbers_of_system_calls_are_the_kernel_s(place, header):
    if not Path(header).exists():
        pytest.skip("needs the kernel's headers")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
    theirs = {name: int(number) for name, number in found if name != "syscalls"}
    ours = {name: numbers[place] for name, numbers in tables().items() if name in theirs or numbers[place] < 0}
    assert ours == {name: theirs.get(name, -1) for name in ours}
    assert {name for name in tables() if name not in ours} <= {"fchmodat2"}  # newer than some headers
