"""One worker for foreign functions, seen from outside: started, talked to, watched by a clock, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from evalframe.sandbox.foreign import ForeignSource
from evalframe.sandbox.launch import must_hold
from evalframe.sandbox.scratch import scratch_folder

_WORKER = Path(__file__).with_name("function_worker.py")
# as for generated code: isolated but for the environment, which is ours and holds the hash seed
_FLAGS = ("-s", "-P", "-S", "-B", "-W", "ignore", "-X", "utf8")
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
_PIECE = 256 * 1024
_SLACK_BYTES = 1024 * 1024  # of a message around the returned value: what was printed


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_PLAIN, _WITH_NAN = json.JSONDecoder(parse_constant=_refuse), json.JSONDecoder()
_HEAD_BYTES = 4


class FunctionProcess:
    """A process of foreign code behind a keeper of its own.

    Attributes:
        layers: Which walls hold in it, once it is up.
        state: Whether it ``talks``, has ``ended`` or closed its channel, or sent what is no message (``faulty``).
    """

    def __init__(
        self, source: ForeignSource, *, paths: Sequence[str], rlimits: Mapping[str, int], returned_bytes: int
    ) -> None:
        self._open = contextlib.ExitStack()
        self._most_bytes = max(returned_bytes + _SLACK_BYTES, 32 * 1024 * 1024)
        self._arrived = bytearray()
        self._decode = (_WITH_NAN if source.allow_nan else _PLAIN).decode
        self.state: Literal["talks", "ended", "faulty"] = "talks"
        self._waiting = bytearray()
        self.layers: dict[str, bool] = {}
        try:
            self._start(source.files, paths, rlimits)
        except BaseException:
            self._open.close()
            raise

    def _start(self, files: Mapping[str, Path], paths: Sequence[str], rlimits: Mapping[str, int]) -> None:
        folder = str(self._open.enter_context(scratch_folder()).resolve())
        self._errors = self._open.enter_context(tempfile.TemporaryFile(prefix="evalframe-"))  # noqa: SIM115
        (self.control, theirs), (self._lifeline, their_lifeline) = socket.socketpair(), socket.socketpair()
        for one in (self.control, theirs, self._lifeline, their_lifeline):
            self._open.enter_context(one)
        named = {file_id: str(Path(path).resolve()) for file_id, path in files.items()}
        settings = {
            "rules": {
                "read": [*named.values(), *paths, str(_WORKER.parent)], "write": [folder], "rlimits": dict(rlimits),
                "processes": False, "network": False, "must": must_hold(),
            },
            "paths": list(paths), "folder": folder,
        }  # fmt: skip
        environment = {
            "PYTHONHASHSEED": "0", "HOME": folder, "TMPDIR": folder, "EVALFRAME_FILES": json.dumps(named),
            **dict.fromkeys(_ONE_THREAD, "1"),
        }  # fmt: skip
        numbers = (str(theirs.fileno()), str(their_lifeline.fileno()))
        self._process = subprocess.Popen(
            [sys.executable, *_FLAGS, str(_WORKER), *numbers, json.dumps(settings)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors, env=environment, cwd=folder,
            pass_fds=(theirs.fileno(), their_lifeline.fileno()), start_new_session=True,
        )  # fmt: skip
        theirs.close()
        their_lifeline.close()
        self.control.setblocking(False)

    @property
    def has_more_to_send(self) -> bool:
        return bool(self._waiting)

    def post(self, text: str) -> None:
        """Put one message of JSON in ASCII on its way; ``flush`` sends it."""
        if self.control.fileno() < 0:
            return  # it was ended: an answer came too late
        body = text.encode("ascii")
        self._waiting += len(body).to_bytes(4, "big") + body

    def flush(self) -> None:
        """Send what fits."""
        while self._waiting:
            try:
                sent = self.control.send(memoryview(self._waiting)[:_PIECE])
            except BlockingIOError:
                return
            except OSError:  # it has ended, which reading will tell
                self._waiting.clear()
                return
            del self._waiting[:sent]

    def receive(self) -> list[Any]:
        """Give the messages that are there; sets ``state`` where it has ended or sent what is no message."""
        try:
            piece = self.control.recv(_PIECE)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""
        if not piece:
            self.state = "ended"
        self._arrived += piece
        messages = []
        while self.state != "faulty" and (end := self._message_end()):
            try:
                messages.append(self._decode(self._arrived[_HEAD_BYTES:end].decode("ascii")))
            except (ValueError, RecursionError):
                self.state = "faulty"
            del self._arrived[:end]
        return messages

    def _message_end(self) -> int:
        if len(self._arrived) < _HEAD_BYTES:
            return 0
        size = int.from_bytes(self._arrived[:_HEAD_BYTES], "big")
        if size > self._most_bytes:
            self.state = "faulty"
        return _HEAD_BYTES + size if size <= len(self._arrived) - _HEAD_BYTES else 0

    def end(self, *, by_itself: bool = False) -> str:
        """End it with all that came of it; gives how it had ended, empty where it was still there.

        Args:
            by_itself: It closed its channel: wait a moment for its own end, to be able to say how.
        """
        told = b""
        self._lifeline.settimeout(30)
        with contextlib.suppress(OSError):
            if by_itself:
                self._lifeline.send(b"w")
            self._lifeline.shutdown(socket.SHUT_WR)
            while piece := self._lifeline.recv(4096):  # until the keeper, the only one with the other end, has ended
                told += piece
        seen: dict[str, Any] = {}
        for line in told.splitlines():
            with contextlib.suppress(ValueError):
                seen |= json.loads(line)
        _kill_group(self._process.pid)
        if self._process.wait() != 0 and "pid" in seen:
            _kill_group(seen["pid"])
        self._open.close()
        return str(seen.get("ended", ""))

    def said(self) -> str:
        """What was written to standard error below Python: the end of it, of use where it did not start or crashed."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), 2000, max(0, size - 2000)).decode(errors="replace").strip()


def installed_paths() -> list[str]:
    """The folders of the packages that are installed beside evalframe."""
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [folder for folder in dict.fromkeys(map(os.path.realpath, folders)) if folder in _on_path()]


def _on_path() -> set[str]:
    return {os.path.realpath(folder) for folder in sys.path}


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
