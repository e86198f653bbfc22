"""The candidate's process: runs generated code and answers the tests' questions about it.

This file is loaded inside the workers: standard library only, no import of evalframe. Nothing here is a wall: the
code that runs in this process can change all of it, and gains only other answers to the questions it is asked. The
tests, the expected values and the verdict are in another process.
"""

from __future__ import annotations

import builtins
import contextlib
import operator
import os
import sys
import types
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from .values import Gone, Peer

DENIED = (
    "subprocess", "socket", "shutil", "requests", "urllib.request", "http.client", "ctypes", "asyncio.subprocess",
)  # fmt: skip


class DeniedModule(ImportError):
    """Generated code imported a module that it may not use."""


def answer_questions(channel_in: BinaryIO, channel_out: BinaryIO) -> NoReturn:
    """Serve until the tests' process ends, then end without running exit handlers."""
    candidate = Candidate(channel_in, channel_out)
    with contextlib.suppress(Gone):
        candidate.peer.serve()
    os._exit(0)


class Candidate:
    """Generated code and the operations that the tests have on it."""

    def __init__(self, channel_in: BinaryIO, channel_out: BinaryIO) -> None:
        self.peer = Peer(channel_in, channel_out, handle=self._handle, remote=self._callback)
        self._module = types.ModuleType("candidate")  # not __main__: a script's main part is not what is tested
        self._operations: dict[str, Callable[..., Any]] = {
            "load": self._load, "globals": self._globals, "call": self._call, "attr": getattr,
            "iter": iter, "next": next, "len": len, "item": operator.getitem,
            "str": str, "repr": repr,
        }  # fmt: skip

    def _handle(self, operation: str, operands: list[Any]) -> Any:
        try:
            return self._operations[operation](*operands)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # the candidate may have put anything there, or closed it
                    stream.flush()

    def _load(self, code: str) -> tuple[str, str]:
        try:
            program = compile(code, "candidate", "exec", dont_inherit=True)
        except SyntaxError as error:
            return "syntax", f"{type(error).__name__}, line {error.lineno or 1}: {error.msg}"
        except (ValueError, OverflowError, MemoryError, RecursionError) as error:  # null bytes, surrogates, depth
            return "syntax", f"{type(error).__name__}: {error or 'nested too deeply'}"
        if "random" in code:
            import random

            random.seed(0)  # the same program gets the same score twice
        sys.modules["candidate"] = sys.modules["__main__"] = self._module  # dataclasses and pickle look there
        _deny(self._module)
        exec(program, self._module.__dict__)
        return "loaded", ""

    def _globals(self, names: list[str]) -> dict[str, Any]:
        space = self._module.__dict__
        return {name: space[name] for name in names if name in space}

    def _call(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> tuple[Any, dict[Any, Any]]:
        """Call, and where nothing is returned tell which lists, dicts and sets were changed in place."""
        places: dict[Any, Any] = {**dict(enumerate(arguments)), **named}
        mutable = {place: value for place, value in places.items() if type(value) in (list, dict, set)}
        before = {place: self.peer.encode(value) for place, value in mutable.items()}
        result = function(*arguments, **named)
        if result is not None:
            return result, {}
        changed = {place: value for place, value in mutable.items() if self.peer.encode(value) != before[place]}
        return None, changed

    def _callback(self, type_name: str, handle: int) -> Callable[..., Any]:
        def callback(*arguments: Any, **named: Any) -> Any:
            return self.peer.ask("callback", callback, list(arguments), named)

        return callback


def _deny(module: types.ModuleType) -> None:
    """Refuse imports that generated code writes itself, with a clear message; libraries import what they need."""
    real_import = builtins.__import__

    def guarded(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> types.ModuleType:
        if globals is not None and globals.get("__name__") == module.__name__ and level == 0:
            wanted = [name, *(f"{name}.{part}" for part in fromlist or ())]
            for denied in DENIED:
                if any(one == denied or one.startswith(denied + ".") for one in wanted):
                    raise DeniedModule(f"the module {denied!r} is denied in the sandbox")
        return real_import(name, globals, locals, fromlist, level)

    def system(command: object) -> NoReturn:
        raise PermissionError("os.system is denied in the sandbox")

    builtins.__import__ = guarded
    os.system = system
