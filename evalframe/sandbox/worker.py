"""Runs as a program of its own: a warm worker that starts the two processes of one execution after the other.

Standard library only, no import of evalframe. It is started as a fresh interpreter, loads what executions need, and
forks the tests' process and the candidate's for each. It knows neither tests nor candidates. After each execution, and
when its line to the caller ends, it kills every process that came of it, also those that left their session.

Where the machine lets it, it is the first process of a namespace of its own: nothing in there can end it, and with it
ends all that is in there.

Arguments: the line to the caller, settings as JSON (``without``, ``must``: see ``walls.raise_walls``).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import types
from array import array
from collections.abc import Callable, Mapping
from typing import Any

# what most candidates import; loaded once here and not in each of them
_USUAL = (
    "bisect",
    "collections",
    "copy",
    "functools",
    "heapq",
    "itertools",
    "math",
    "random",
    "re",
    "string",
    "typing",
)
_REQUEST_BYTES = 65536
_N_DESCRIPTORS = 3  # with a request: the control socket, standard output, standard error
_STANDARD = 3


def main() -> None:
    """Load, enter a namespace, serve until the line to the caller ends, leave nothing behind."""
    line, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    package = types.ModuleType("inside")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["inside"] = package
    worker = _Worker(line, settings)
    for name in _USUAL:
        importlib.import_module(name)
    importlib.import_module("inside.walls").prepare()
    importlib.import_module("inside.testing").warm_up()
    os.environ.clear()
    sys.argv = ["candidate"]
    worker.enter_namespace()
    gc.freeze()  # what is loaded by now stays as it is: a fork shares it
    worker.serve()


class _Worker:
    def __init__(self, line: int, settings: Mapping[str, Any]) -> None:
        import _socket  # the C module alone: the library socket takes milliseconds to load

        self._socket = _socket
        self._walls, self._reaping = importlib.import_module("inside.walls"), importlib.import_module("inside.reaping")
        self._candidate = importlib.import_module("inside.candidate")
        self._testing = importlib.import_module("inside.testing")
        self._line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, line)
        self._without = settings.get("without", [])
        self._must = settings.get("must", [])
        self._received = b""
        self._held: list[str] = []

    def enter_namespace(self) -> None:
        """Go on as the first process of a new namespace, where there may be one."""
        namespaces = importlib.import_module("inside.namespaces")
        separate = "namespaces" not in self._without and namespaces.leave(processes=True)
        self._walls.harden()  # here: the maps of a namespace can be written only before it
        if not separate:
            return
        if first := os.fork():
            self._line.close()
            status = os.waitpid(first, 0)[1]
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        self._walls.die_with(0)  # the parent is outside, and has no number here
        self._walls.harden()
        if os.getpid() == 1:  # and only then are all that it can see its own
            self._held = ["namespaces"]

    def serve(self) -> None:
        """Answer requests, one after the other."""
        while request := self._receive():
            told, descriptors = request
            children = self._start(json.loads(told), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            # in a namespace their numbers mean nothing outside, and nobody else need end them
            self._send({"children": [] if self._held else children})
            ended = self._receive()
            self._end_all(children)
            if not ended:
                return
            self._send({"done": True})

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> list[int]:
        control, *standard = descriptors
        rules = {
            "write": [request["folder"]], "rlimits": request["rlimits"], "parent": os.getpid(), "held": self._held,
            "must": self._must, "without": self._without,
        }  # fmt: skip
        if request.get("probe"):
            return [self._fork(lambda: self._tell_layers(control, rules), request["folder"], standard, [control])]
        one, other = self._socket.socketpair()
        tests_end, candidate_end = one.detach(), other.detach()
        children = [
            self._fork(lambda: self._run_candidate(candidate_end, rules), request["folder"], standard, [candidate_end]),
            self._fork(
                lambda: self._run_tests(control, tests_end, rules), request["folder"], standard, [control, tests_end]
            ),
        ]
        os.close(tests_end)
        os.close(candidate_end)
        return children

    def _run_candidate(self, channel: int, rules: Mapping[str, Any]) -> None:
        streams = os.fdopen(channel, "rb"), os.fdopen(os.dup(channel), "wb")
        self._walls.raise_walls(rules)
        self._candidate.answer_questions(*streams)

    def _run_tests(self, control: int, channel: int, rules: Mapping[str, Any]) -> None:
        streams = [
            os.fdopen(fd, mode)
            for fd, mode in ((control, "rb"), (os.dup(control), "wb"), (channel, "rb"), (os.dup(channel), "wb"))
        ]
        self._walls.raise_walls(rules)
        self._testing.judge(*streams)
        os.read(control, 1)  # the caller has read the verdict and ends everything

    def _tell_layers(self, control: int, rules: Mapping[str, Any]) -> None:
        os.write(control, json.dumps(self._walls.raise_walls(rules)).encode() + b"\n")

    def _fork(self, run: Callable[[], None], folder: str, standard: list[int], keep: list[int]) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.setsid()
            for number, descriptor in enumerate(standard, start=1):
                os.dup2(descriptor, number)
            _close_all_but(keep)
            os.chdir(folder)
            run()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        finally:
            os._exit(status)

    def _receive(self) -> tuple[bytes, list[int]] | None:
        """Wait for one line of the caller; None when it has closed its end."""
        descriptors = array("i")
        while b"\n" not in self._received:
            try:
                piece, extra, _, _ = self._line.recvmsg(
                    _REQUEST_BYTES, self._socket.CMSG_LEN(_N_DESCRIPTORS * descriptors.itemsize)
                )
            except OSError:
                return None
            if not piece:
                return None
            for level, kind, content in extra:
                if level == self._socket.SOL_SOCKET and kind == self._socket.SCM_RIGHTS:
                    descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
            self._received += piece
        told, _, self._received = self._received.partition(b"\n")
        return told, descriptors.tolist()

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the caller has ended, and the next read says so
            self._line.sendall(json.dumps(message).encode() + b"\n")

    def _end_all(self, children: list[int]) -> None:
        if self._held:
            self._reaping.kill(os.kill, -1)  # all that this process can see, without itself
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitpid(-1, 0)
            return
        self._reaping.end_all(children)


def _close_all_but(keep: list[int]) -> None:
    """Close every descriptor over the standard ones but a few: none of the worker's own is for foreign code."""
    first = _STANDARD
    for descriptor in sorted(keep):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, max(256, first))


if __name__ == "__main__":
    main()
