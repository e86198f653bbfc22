"""Inside a worker: foreign functions, loaded from their source and called with plain values.

Standard library only, no import of evalframe. Nothing here is a wall: the foreign code runs in this process and can
change all of it. It gains other results of its own functions, nothing else; the caller believes no message that does
not fit the call that it waits for.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import sys
import traceback
import types
from collections.abc import Mapping
from typing import Any

from .function_channel import Channel, Context
from .function_values import NotPlain, Printed, as_json, described, message_of

MODULE_NAME = "foreign"
ANY_NUMBER = 255  # of positional arguments
# bound now: foreign code may put others in their places
_text_as_json, _getpid, _exit = json.encoder.encode_basestring_ascii, os.getpid, os._exit


class Unfit(Exception):
    """The source can not be used: the rule, the type of the error, its message and the user's frames."""

    def __init__(self, rule: str, error_type: str, message: str, frames: str) -> None:
        super().__init__(message)
        self.told = [rule, error_type, message, frames]


class Functions:
    """One source: loaded anew for each chunk of calls, so that its globals do not depend on who was called before."""

    def __init__(self, channel: Channel, told: Mapping[str, Any]) -> None:
        self._channel = channel
        self._source, self._name, self._wanted = told["source"], told["name"], told["functions"]
        self._most_bytes: int = told["returned_bytes"]
        self._allow_nan: bool = told["allow_nan"]
        self._code: types.CodeType | None = None
        self.function: Any = None
        self.function_name = ""
        self._by_keyword = False
        self._process = os.getpid()

    def _compiled(self) -> types.CodeType:
        if "random" in self._source:
            import random  # noqa: F401 - so that it is seeded before the source is run
        lines = self._source.splitlines(keepends=True)
        linecache.cache[self._name] = (len(self._source), None, lines, self._name)
        try:
            return compile(self._source, self._name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
            message = message_of(error) or "nested too deeply"
            shown = "".join(traceback.format_exception_only(error))
            raise Unfit("does_not_compile", type(error).__name__, message, shown) from None

    def load(self) -> None:
        """Run the source in a fresh module and find the function.

        Raises:
            Unfit: It does not compile, fails, or has none of the functions.
        """
        module = types.ModuleType(MODULE_NAME)
        module.__file__ = self._name
        sys.modules[MODULE_NAME] = sys.modules["__main__"] = module  # dataclasses and pickle look there
        sys.stdout = Printed()
        self._code = self._code or self._compiled()
        _seed(0)
        try:
            exec(self._code, module.__dict__)
        except BaseException as error:
            raise Unfit("fails_at_load", *described(error, self._name)) from None
        for name in self._wanted:
            if callable(found := module.__dict__.get(name)):
                self.function, self.function_name = found, name
                return
        wanted = " or ".join(f"{name}()" for name in self._wanted)
        raise Unfit("no_function", "NameError", f"it defines no function {wanted}", "")

    def takes(self) -> int:
        """How many positional arguments the function takes, those with a default left out, ``ctx`` counted."""
        try:
            parameters = inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # functions in C do not tell
            return ANY_NUMBER
        kinds = [parameter.kind for parameter in parameters.values()]
        self._by_keyword = "ctx" in parameters and parameters["ctx"].kind is not inspect.Parameter.POSITIONAL_ONLY
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            return ANY_NUMBER
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return sum(
            name == "ctx" or (parameter.kind in positional and parameter.default is inspect.Parameter.empty)
            for name, parameter in parameters.items()
        )

    def run(
        self, number: int, arguments: list[Any], seed: int, with_context: bool, bridged: bool, max_model_calls: int
    ) -> None:
        """Call the function and tell what came of it."""
        printed = Printed()
        sys.stdout = printed
        _seed(seed)
        context = Context(self._channel, number, bridged=bridged, max_model_calls=max_model_calls)
        try:
            try:
                if not with_context:
                    value = self.function(*arguments)
                elif self._by_keyword:
                    value = self.function(*arguments, ctx=context)
                else:
                    value = self.function(*arguments, context)
            finally:
                context._end()
                if _getpid() != self._process:  # it has forked
                    _exit(0)
        except MemoryError:
            self._channel.send(["broken", number, "out of memory", True])
        except BaseException as error:
            self._channel.send(["raised", number, *described(error, self._name)])
        else:
            self._tell(number, value, printed.text())

    def _tell(self, number: int, value: Any, printed: str) -> None:
        try:
            text = as_json(value, allow_nan=self._allow_nan)
        except MemoryError:
            self._channel.send(["broken", number, "out of memory", True])
            return
        except NotPlain as error:
            self._channel.send(["broken", number, f"the returned value is no plain JSON: {error}", False])
            return
        if len(text) > self._most_bytes:
            reason = f"the returned value has {len(text)} bytes as JSON, over the limit of {self._most_bytes}"
            self._channel.send(["broken", number, reason, False])
            return
        self._channel.send_text(f'["returned", {number:d}, {text}, {_text_as_json(printed)}]')


def _seed(seed: int) -> None:
    numpy = sys.modules.get("numpy")  # it loads its part random only when that is asked for
    for module in (sys.modules.get("random"), getattr(numpy, "random", None)):
        if seeding := getattr(module, "seed", None):
            seeding(seed % 2**32)


def cleans(folder: str) -> bool:
    """Go to the working folder and remove what earlier calls left there; tell whether that could be done."""
    try:
        os.chdir(folder)
        with os.scandir(folder) as entries:
            left = list(entries)
        if left:
            import shutil

            for entry in left:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)
    except (OSError, RecursionError):
        return False
    return True


def serve(channel: Channel, folder: str) -> None:
    """Load the source that the caller sends first, then answer its calls until it has gone."""
    told = channel.call()
    if told is None:
        return
    functions = Functions(channel, told[1])
    if not _loads(channel, functions):
        return
    channel.send(["ready", functions.function_name, functions.takes()])
    fresh = True
    while (told := channel.call()) is not None:
        _, number, arguments, (begins, tells, *settings) = told
        if begins and not fresh:
            if not cleans(folder):
                channel.send(["spent"])
                return
            if not _loads(channel, functions):
                return
        if tells:
            channel.send(["began", number])
        fresh = False
        functions.run(number, arguments, *settings)


def _loads(channel: Channel, functions: Functions) -> bool:
    try:
        functions.load()
    except Unfit as unfit:
        channel.send(["unfit", *unfit.told])
        channel.call()  # the caller ends this process
        return False
    return True
