"""Questions and answers between the tests' process and the candidate's, in plain typed values.

This file is loaded inside the workers: standard library only, no import of evalframe.

None, bool, str and small int stand as they are in JSON; other values are lists that begin with a tag: ``i`` int, ``f``
float (both hexadecimal), ``b`` bytes, ``l`` list, ``t`` tuple, ``s`` set, ``d`` dict, ``o`` an object that stays with
its owner (type name, handle), ``r`` an object of the receiver's own. Types are exact: a subclass of int is an ``o``.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NoReturn

# relative, because the workers load this file without the package evalframe
from .protocol import ProtocolError, read_message, write_message

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100
MAX_ITEMS = 2_000_000
_SMALL = 1 << 53  # an int below it is the same in every JSON reader


class Gone(BaseException):
    """The other side ended, or broke the rules: no answer of it counts any more.

    A BaseException, so that ``except Exception`` in test code does not swallow it.
    """


class CandidateError(Exception):
    """An exception of the candidate that is none of the built-in ones, or that must not pass for the tests' own."""


class TooLarge(ValueError):
    """A value is nested too deeply or has too many items to be sent."""


class Peer:
    """One end of the channel.

    Args:
        reader, writer: The channel.
        handle: Answers a question of the other side: operation and decoded operands.
        remote: Makes the stand-in for an object that stays with the other side: type name and handle.
    """

    def __init__(
        self,
        reader: BinaryIO,
        writer: BinaryIO,
        *,
        handle: Callable[[str, list[Any]], Any],
        remote: Callable[[str, int], Any],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._handle, self._remote = handle, remote
        self._exported: list[Any] = []
        self._handles: dict[int, int] = {}
        self._handle_of: dict[int, int] = {}  # id of a stand-in -> handle at the other side
        self._stand_in_of: dict[int, Any] = {}  # keeps the stand-ins alive, so that their ids stay their own
        self.gone = ""

    def ask(self, operation: str, *operands: Any) -> Any:
        """Ask and wait for the answer, serving questions of the other side meanwhile.

        Raises:
            Gone: The other side ended (itself), or answered something that was not asked.
            Exception: What the other side raised, as the built-in class of that name.
        """
        if self.gone:
            raise Gone(self.gone)
        number = os.urandom(8).hex()  # not guessable: an answer written ahead fits no question
        self._send(["ask", number, operation, [self.encode(operand) for operand in operands]])
        while True:
            kind, seen, *rest = self._receive()
            if kind == "ask":
                self._answer(seen, *rest)
            elif seen != number:
                self.fail("answered a question that was not asked")
            elif kind == "ok" and len(rest) == 1:
                return self._decode_all(rest)[0]
            elif kind == "raised" and len(rest) == 2:
                names, arguments = self._decode_all(rest)
                raise rebuilt(names, arguments)
            elif kind == "exit":
                self.fail(f"ended itself ({'SystemExit' if rest == ['SystemExit'] else 'BaseException'})")
            else:
                self.fail("sent what is no answer")

    def serve(self) -> None:
        """Answer questions until the other side ends."""
        while True:
            kind, number, *rest = self._receive()
            if kind != "ask":
                self.fail("sent what is no question")
            self._answer(number, *rest)

    def encode(self, value: Any, depth: int = 0, budget: list[int] | None = None) -> Any:
        """Give the JSON form of a value; what is not plain stays here and gets a handle."""
        budget = [MAX_ITEMS] if budget is None else budget
        budget[0] -= 1
        if depth > MAX_DEPTH or budget[0] < 0:
            raise TooLarge(f"a value is nested over {MAX_DEPTH} levels or has over {MAX_ITEMS} items")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -_SMALL < value < _SMALL else ["i", hex(value)]
        if kind is float:
            return ["f", value.hex()]
        if kind is bytes:
            return ["b", value.hex()]
        if kind is list or kind is tuple or kind is set:
            return [kind.__name__[0], *[self.encode(item, depth + 1, budget) for item in value]]
        if kind is dict:
            pairs = [[self.encode(k, depth + 1, budget), self.encode(v, depth + 1, budget)] for k, v in value.items()]
            return ["d", *pairs]
        if (handle := self._handle_of.get(id(value))) is not None:
            return ["r", handle]
        return ["o", str(kind.__name__), self._export(value)]

    def decode(self, form: Any) -> Any:
        """Give the value of a JSON form; raises for what is none."""
        if form is None or type(form) in (bool, str, int):
            return form
        if type(form) is not list or not form:
            raise ValueError("no value")
        tag, *items = form
        if tag in ("i", "f", "b"):
            (text,) = items
            return int(text, 16) if tag == "i" else float.fromhex(text) if tag == "f" else bytes.fromhex(text)
        if tag in ("l", "t", "s"):
            values = [self.decode(item) for item in items]
            return values if tag == "l" else tuple(values) if tag == "t" else set(values)
        if tag == "d":
            return {self.decode(key): self.decode(value) for key, value in items}
        if tag == "r":
            (handle,) = items
            return self._exported[handle]
        if tag == "o":
            name, handle = items
            if type(name) is str and type(handle) is int:
                if handle not in self._stand_in_of:
                    self._stand_in_of[handle] = stand_in = self._remote(name, handle)
                    self._handle_of[id(stand_in)] = handle
                return self._stand_in_of[handle]
        raise ValueError("no value")

    def _export(self, value: Any) -> int:
        handle = self._handles.setdefault(id(value), len(self._exported))
        if handle == len(self._exported):
            self._exported.append(value)
        return handle

    def _answer(self, number: Any, operation: Any = None, operands: Any = None) -> None:
        if type(operation) is not str or type(operands) is not list:
            self.fail("sent what is no question")
        decoded = self._decode_all(operands)
        answer: list[Any]
        try:
            answer = ["ok", number, self.encode(self._handle(operation, decoded))]
        except Gone:
            raise
        except Exception as error:
            answer = ["raised", number, ["l", *_builtin_names(error)], ["l", *map(_short, error.args)]]
        except BaseException as error:
            answer = ["exit", number, type(error).__name__]
        try:
            self._send(answer)
        except TooLarge as error:
            self._send(["raised", number, ["l", "ValueError"], ["l", str(error)]])

    def _decode_all(self, forms: Sequence[Any]) -> list[Any]:
        try:
            return [self.decode(form) for form in forms]
        except Exception as error:  # whatever a hostile message does to the decoder
            self.fail(f"sent what is no value ({type(error).__name__})")

    def _send(self, message: Any) -> None:
        try:
            write_message(self._writer, message, max_bytes=MAX_MESSAGE_BYTES)
        except ProtocolError as error:
            raise TooLarge(str(error)) from None
        except OSError:
            self.fail("ended early")

    def _receive(self) -> list[Any]:
        try:
            message = read_message(self._reader, max_bytes=MAX_MESSAGE_BYTES)
        except (ProtocolError, OSError):
            self.fail("ended early")
        except RecursionError:
            self.fail("sent what is no message")
        if type(message) is not list or len(message) < 2 or type(message[0]) is not str:
            self.fail("sent what is no message")
        return list(message)

    def fail(self, reason: str) -> NoReturn:
        """Break off for good: ``reason`` says what the other side did."""
        self.gone = reason
        raise Gone(reason)


def rebuilt(names: Any, arguments: Any) -> Exception:
    """Make the exception that the other side raised: the first built-in class of its line, by name.

    SystemExit and AssertionError are no such class: a candidate's are not the tests' own.
    """
    known = [name for name in names if type(name) is str] if type(names) is list else []
    kind: type[Exception] = CandidateError
    for name in known:
        found: Any = getattr(builtins, name, None)
        usable = isinstance(found, type) and issubclass(found, Exception)
        if usable and found not in (Exception, AssertionError):
            kind = found
            break
    values = arguments if type(arguments) is list else []
    try:
        error = kind(*values)
    except Exception:  # some built-in ones take only their own kind of arguments
        error = CandidateError(*values)
    error.__dict__["candidate_type"] = known[0] if known else "Exception"
    return error


def _short(argument: Any) -> Any:
    if type(argument) is int and -_SMALL < argument < _SMALL:
        return argument
    return (argument if type(argument) is str else repr(argument))[:1000]


def _builtin_names(error: BaseException) -> list[str]:
    line = type(error).__mro__
    return [line[0].__name__, *(kind.__name__ for kind in line if kind.__module__ == "builtins")]
