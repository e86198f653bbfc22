"""Runs as a program of its own: foreign functions, in a process under limits and walls.

Standard library only, no import of evalframe. The program is a fresh interpreter that starts the process of the foreign
code, knows nothing of the code, and waits. When its life line ends it kills every process that came of it, also those
that left their session, and ends.

Arguments: the control socket, the life line, the settings as JSON: ``rules`` of the walls, ``paths`` of installed
packages, ``folder`` to work in.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import types
from typing import Any

_ENDING_SECONDS = 2.0  # how long a process that closed its channel may take to end


def main() -> None:
    """Start the process of the foreign code, wait for the life line to end, leave nothing behind."""
    control, lifeline, settings = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    package = types.ModuleType("inside")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["inside"] = package
    walls, reaping = importlib.import_module("inside.walls"), importlib.import_module("inside.reaping")
    walls.harden()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when it is over
    settings["rules"]["parent"] = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(lifeline)
        run_foreign(control, settings)
    os.close(control)
    os.write(lifeline, json.dumps({"pid": pid}).encode() + b"\n")
    how = b""
    while piece := os.read(lifeline, 1):
        how = piece
    os.write(lifeline, json.dumps({"ended": _ending(pid, wait=how == b"w")}).encode() + b"\n")
    reaping.end_all([pid])


def run_foreign(control: int, settings: dict[str, Any]) -> None:
    """Raise the walls, then serve; never returns."""
    status = 1
    try:
        os.setsid()
        calls, walls = importlib.import_module("inside.function_calls"), importlib.import_module("inside.walls")
        sys.argv = ["foreign"]
        channel = calls.Channel(os.fdopen(control, "rb"), os.fdopen(os.dup(control), "wb"))
        channel.send(["up", walls.raise_walls(settings["rules"])])
        sys.path += settings["paths"]
        calls.serve(channel, settings["folder"])
        status = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(status)


def _ending(pid: int, *, wait: bool) -> str:
    """How the process ended by itself; empty where it is still there."""
    moment = time.monotonic() + (_ENDING_SECONDS if wait else 0.0)
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            if os.WIFSIGNALED(status):
                return signal.Signals(os.WTERMSIG(status)).name
            return f"exit {os.waitstatus_to_exitcode(status)}"
        if time.monotonic() >= moment:
            return ""
        time.sleep(0.005)


if __name__ == "__main__":
    main()
