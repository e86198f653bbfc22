"""Attacks from inside: with the walls each is stopped, and with the layers that stop it left out it succeeds."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from evalframe.sandbox.launch import layers
from evalframe.sandbox.scratch import remove_folder
from tests.conftest import ROOT
from tests.sandbox.attacks import ATTACKS, NOT_SHOWN, Places, outcomes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are those of Linux")

NOBODY = 65534
ORDINARY = 54321  # a user that owns nothing


@pytest.fixture(scope="module", params=["this user", "an ordinary user"])
def tried(request: pytest.FixtureRequest) -> dict[str, dict]:
    """Try all attacks as the user of the tests, and, where that is root, as another one."""
    root = os.geteuid() == 0
    if request.param == "this user":
        with places(owner=NOBODY if root else os.geteuid()) as found:
            return {"layers": layers(), "outcomes": outcomes(found)}
    if not root:
        pytest.skip("only root can be another user")
    with places(owner=ORDINARY) as found:
        return as_ordinary_user(found)


class places:
    """Make what an attacker could reach, and take it away again."""

    def __init__(self, *, owner: int) -> None:
        self._owner = owner

    def __enter__(self) -> Places:
        self._folder = Path(tempfile.mkdtemp(prefix="evalframe-attacked-", dir="/tmp"))
        self._folder.chmod(0o777)
        secret, own = self._folder / "secret", self._folder / "own"
        secret.write_text("do-not-tell")
        secret.chmod(0o644)
        own.write_text("do-not-tell")
        own.chmod(0o666)
        if os.geteuid() == 0:
            os.chown(own, self._owner, self._owner)
        self._tcp, self._udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(str(self._folder / "socket"))
        self._unix.listen()
        (self._folder / "socket").chmod(0o777)
        identity = {"user": self._owner, "group": self._owner, "extra_groups": []} if os.geteuid() == 0 else {}
        self._caller = subprocess.Popen(
            ["/bin/sh", "-c", "read nothing"], stdin=subprocess.PIPE, env={"TOKEN": "do-not-tell"}, **identity
        )
        return Places(
            secret=str(secret), own=str(own), folder=str(self._folder), caller=self._caller.pid,
            tcp=self._tcp.getsockname()[1], udp=self._udp.getsockname()[1], unix=str(self._folder / "socket"),
        )  # fmt: skip

    def __exit__(self, *error: object) -> None:
        self._caller.communicate(b"\n")
        for one in (self._tcp, self._udp, self._unix):
            one.close()
        remove_folder(self._folder)


def as_ordinary_user(found: Places) -> dict[str, dict]:
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            done = subprocess.run(
                [program, "-B", "-m", "tests.sandbox.attacks"], input=json.dumps(dataclasses.asdict(found)), text=True,
                user=ORDINARY, group=ORDINARY, extra_groups=[], env={"PYTHONPATH": str(ROOT)}, cwd="/",
                capture_output=True,
            )  # fmt: skip
        except OSError:  # it is in a folder of root's, or not there
            continue
        if done.returncode == 0:
            return dict(json.loads(done.stdout))
        if "SyntaxError" not in done.stderr and "ImportError" not in done.stderr and "ModuleNot" not in done.stderr:
            raise AssertionError(done.stderr)
    pytest.skip("no Python 3.11 with this checkout that an ordinary user can read")


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_stopped(tried, name):
    stopping = ATTACKS[name].layers
    if stopping != NOT_SHOWN and not any(tried["layers"][layer] for layer in stopping):
        pytest.skip(f"this machine has none of {', '.join(stopping)}")
    assert tried["outcomes"][name]["with"].startswith("stopped: "), tried["outcomes"][name]


@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if attack.layers != NOT_SHOWN])
def test_without_the_layers_that_stop_it_it_succeeds(tried, name):
    assert tried["outcomes"][name]["without"].startswith("open"), tried["outcomes"][name]
