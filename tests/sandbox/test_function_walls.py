"""What generated code could try, tried by a grader: the same walls stop it, and what it needs is still there."""

from __future__ import annotations

import dataclasses
import os
import sys
import textwrap

import pytest

from evalframe.sandbox.functions import Broken, Call, ForeignSource, FunctionPool, Outcome, Raised, Returned
from evalframe.sandbox.launch import layers
from evalframe.sandbox.policy import Policy
from tests.sandbox.attacks import _SYSTEM_CALL, ATTACKS, NOT_SHOWN
from tests.sandbox.test_attacks import NOBODY, places

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are those of Linux")

LONG = 120.0
OTHER_LIMITS = {"open files"}  # graders may have more of them than this attack asks for
MEMORY_BYTES = 512 * 1024 * 1024


def grade(source: str, *arguments: str, **settings: int) -> list[Outcome]:
    code = ForeignSource(source=source, name="grader.py", functions=("grade",))
    with FunctionPool(code, policy=Policy(), n_workers=2, **settings) as functions:
        return list(functions.map(Call((argument,), LONG) for argument in arguments))


@pytest.fixture(scope="module")
def tried() -> dict[str, Outcome]:
    """Try each attack in a call of its own."""
    with places(owner=os.geteuid() or NOBODY) as found:
        source = f"import os\nfrom importlib import import_module as load\n{_SYSTEM_CALL}\nATTACKS = {{}}\n"
        for name, attack in ATTACKS.items():
            body = textwrap.indent(attack.body.format(**dataclasses.asdict(found)), "    ")
            source += f"def attack():\n{body}\nATTACKS[{name!r}] = attack\n"
        source += "def grade(name):\n    ATTACKS[name]()\n    return 'open'\n"
        return dict(zip(ATTACKS, grade(source, *ATTACKS, memory_bytes=MEMORY_BYTES), strict=True))


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in OTHER_LIMITS])
def test_an_attack_of_a_grader_is_stopped(tried, name):
    stopping = ATTACKS[name].layers
    if stopping != NOT_SHOWN and not any(layers()[layer] for layer in stopping):
        pytest.skip(f"this machine has none of {', '.join(stopping)}")
    outcome = tried[name]
    assert isinstance(outcome, Raised) or outcome == Broken("out of memory"), outcome


@pytest.mark.skipif(not layers()["landlock"], reason="needs Landlock")
def test_another_workers_folder_is_closed():
    source = """
import os, time
def grade(x):
    parent = os.path.dirname(os.environ["TMPDIR"])
    try:
        return os.listdir(parent)
    except PermissionError:
        return "closed"
"""
    assert grade(source, "a", "b") == [Returned("closed")] * 2


def test_what_a_grader_needs_is_there():
    source = """
import json, os, tempfile, threading, zoneinfo
import numpy as np
import polars as pl
def grade(x):
    frame = pl.DataFrame({"a": [1, 2, 3]}).lazy().filter(pl.col("a") > 1).collect()
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 100_000)
    seen = []
    threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return [frame["a"].to_list(), float(np.linalg.norm(np.ones(4))), len(seen), os.getcwd() == os.environ["TMPDIR"]]
"""
    assert grade(source, *"abc") == [Returned([[2, 3], 2.0, 20, True])] * 3


def test_memory_is_bounded_also_in_a_library():
    source = "import numpy\ndef grade(x):\n    return 'fine' if x else numpy.ones(10 ** 10).sum()\n"
    first, second = grade(source, "", "x")
    assert isinstance(first, Raised) or first == Broken("out of memory")
    assert second == Returned("fine")
