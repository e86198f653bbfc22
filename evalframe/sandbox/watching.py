"""Watches one execution from outside: the clock, the output, what the tests' process tells, and the end.

Nothing that runs inside is believed but what comes from the tests' process over its own socket.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evalframe.errors import SandboxError
from evalframe.sandbox.protocol import MessageBuffer, ProtocolError, write_message

_START_SECONDS = 120.0  # a machine under load may need long to start a process; it is no candidate's fault
_REPORT_BYTES = 64 * 1024 * 1024
_PIECE = 65536
_TICK_SECONDS = 0.25  # how soon an interrupted caller is noticed

Ended = Literal["verdict", "timeout", "overflow", "gone"]


@dataclass(frozen=True, slots=True)
class Job:
    """One execution: what the tests' process is told, and the candidate's clock."""

    task: Mapping[str, Any]
    timeout_seconds: float


@dataclass(slots=True)
class Report:
    """What was seen of one execution from outside.

    Attributes:
        ended: ``verdict``: the tests' process gave one; ``timeout``, ``overflow``; ``gone``: it ended without.
        end: Exit code, reason and the numbers of the assertions that count, for ``verdict``.
        plan: The assertions as text.
        outcomes: Assertion number to outcome and reason, as last told.
        output: Standard output and standard error, each up to the limit.
        seconds: Of the candidate's clock.
    """

    ended: Ended = "gone"
    end: tuple[str, str, list[int]] = ("error", "", [])
    plan: list[str] = field(default_factory=list)
    outcomes: dict[int, tuple[str, str]] = field(default_factory=dict)
    output: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    seconds: float = 0.0


class Watch:
    """Reads what comes from inside until there is a verdict, the clock is over or the output is too much.

    Args:
        job: What is run.
        control: The socket to the tests' process; the caller closes it.
        pipes: ``stdout`` and ``stderr`` to the descriptors to read them from; ``close`` closes them.
        output_bytes: Of both together; one byte more ends it.
    """

    def __init__(self, job: Job, control: socket.socket, pipes: Mapping[str, int], output_bytes: int) -> None:
        self.report = Report()
        self._job, self._control, self._output_bytes = job, control, output_bytes
        self._nonce = secrets.token_hex(16)
        self._messages = MessageBuffer(max_bytes=_REPORT_BYTES)
        self._started: float | None = None
        self._deadline = time.monotonic() + _START_SECONDS
        self._done = False
        self._pipes = pipes
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        for name, pipe in pipes.items():
            os.set_blocking(pipe, False)
            self._selector.register(pipe, selectors.EVENT_READ, name)

    @property
    def has_started(self) -> bool:
        """Whether both processes were up, so that what came of it is the candidate's doing or the tests'."""
        return self._started is not None

    def until_end(self, interrupted: threading.Event) -> None:
        """Watch until it is over.

        Raises:
            SandboxError: ``interrupted`` was set.
        """
        while not self._done:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._finish("timeout")
                break
            if interrupted.is_set():
                raise SandboxError("the execution was interrupted")
            for key, _ in self._selector.select(min(left, _TICK_SECONDS)):
                self._read(key.data)
        if self._started is not None:
            self.report.seconds = time.monotonic() - self._started

    def close(self) -> None:
        """Take what is still in the pipes, now that nothing writes to them."""
        for name in self._pipes:
            while self._room() > 0 and self._read_output(name):
                pass
        if self._room() <= 0:
            self.report.ended = "overflow"
        self._selector.close()
        for pipe in self._pipes.values():
            os.close(pipe)

    def _room(self) -> int:
        """Bytes of output that may still come; one over the limit is read, to know that there is more."""
        return self._output_bytes + 1 - sum(map(len, self.report.output.values()))

    def _read(self, name: str | None) -> None:
        if name is None:
            self._read_control()
        elif self._room() > 0 and self._read_output(name) == 0:
            self._selector.unregister(self._pipes[name])
        if self._room() <= 0:
            self._finish("overflow")

    def _read_output(self, name: str) -> int | None:
        """Give how many bytes came: 0 at the end of the stream, None where there are none now."""
        try:
            piece = os.read(self._pipes[name], min(_PIECE, self._room()))
        except BlockingIOError:
            return None
        self.report.output[name] += piece
        return len(piece)

    def _read_control(self) -> None:
        try:
            piece = self._control.recv(_PIECE)
            messages = self._messages.feed(piece)
        except (OSError, ProtocolError):
            piece, messages = b"", []
        for message in messages:
            self._take(message)
        if not piece and not self._done:
            self._finish("gone")

    def _take(self, message: Any) -> None:
        match message:
            case ["ready"] if self._started is None:
                self._send_task()
            case ["plan", list(shown)]:
                self.report.plan = [str(text) for text in shown]
            case ["assertion", int(number), str(outcome), str(reason)]:
                self.report.outcomes[number] = (outcome, reason)
            case ["end", self._nonce, str(exit_code), str(reason), list(counted)]:
                self.report.end = (exit_code, reason, counted)
                self._finish("verdict")
            case _:
                self._finish("gone")

    def _send_task(self) -> None:
        self._started = time.monotonic()
        self._deadline = self._started + self._job.timeout_seconds
        with self._control.makefile("wb") as stream, contextlib.suppress(OSError):
            write_message(stream, {**self._job.task, "nonce": self._nonce})

    def _finish(self, ended: Ended) -> None:
        if not self._done:
            self._done, self.report.ended = True, ended
