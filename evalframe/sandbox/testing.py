"""The tests' process: runs the tests of one code task against a candidate that lives in another process.

This file is loaded inside the workers: standard library only, no import of evalframe. The verdict leaves this process
on a socket that the candidate's process never holds.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from .assertions import LEDGER, Ledger, Unit, described
from .protocol import read_message, write_message
from .values import Gone, Peer

_BUILTIN = frozenset(vars(builtins))


class Opaque:
    """An object that stays in the candidate's process: never equal, no truth, no order.

    It can be called, its attributes read, its items counted, taken and iterated; the answers are plain values or
    opaque again. ``x in it`` walks through the items: what the object says of its members itself would be an equality.
    """

    __slots__ = ("_compared", "_peer", "_type_name")

    def __init__(self, peer: Peer, type_name: str, compared: Callable[[str], None]) -> None:
        self._peer = peer
        self._type_name = type_name
        self._compared = compared

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        self._compared(self._type_name)  # the reason says why it was false
        return False

    def __bool__(self) -> bool:
        raise TypeError(f"the candidate gave a {self._type_name}, whose truth the tests can not see")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        answer = self._peer.ask("call", self, list(arguments), named)
        if type(answer) is not tuple or len(answer) != 2 or type(answer[1]) is not dict:
            self._peer.fail("sent what is no answer to a call")
        result, changed = answer
        if result is None:  # as a function that works in place
            for place, value in changed.items():
                _change(arguments[place] if type(place) is int else named[place], value)
        return result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"a {self._type_name} of the candidate has no {name} for the tests")
        return self._peer.ask("attr", self, name)

    def __iter__(self) -> Iterator[Any]:
        iterator = self._peer.ask("iter", self)
        while True:
            try:
                item = self._peer.ask("next", iterator)
            except StopIteration:
                return
            yield item

    def __next__(self) -> Any:
        return self._peer.ask("next", self)

    def __len__(self) -> int:
        return _whole(self._peer.ask("len", self))

    def __getitem__(self, key: Any) -> Any:
        return self._peer.ask("item", self, key)

    def __str__(self) -> str:
        return _text(self._peer.ask("str", self))

    def __repr__(self) -> str:
        return _text(self._peer.ask("repr", self))


def judge(control_in: BinaryIO, control_out: BinaryIO, channel_in: BinaryIO, channel_out: BinaryIO) -> None:
    """Take one task from the control socket, test the candidate, report each assertion and the end."""
    trial = Trial(channel_in, channel_out, lambda *event: write_message(control_out, ["assertion", *event]))
    trial.wait_for_candidate()
    write_message(control_out, ["ready"])
    task = read_message(control_in)
    end = trial.run(task, lambda shown: write_message(control_out, ["plan", shown]))
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    write_message(control_out, ["end", task["nonce"], *end])


def warm_up() -> None:
    """Do once, before the forks, what takes long the first time: the syntax tree's types, regular expressions, JSON."""
    ledger = Ledger(lambda *_: None)
    for target in ("f(1) == [2]", "def check(candidate):\n    assert candidate('x')[0] == 1, 'x'\ncheck(f)\n"):
        space = {LEDGER: ledger, "f": lambda _: [1]}
        exec(Unit(target, ledger).code, space)
    stream = io.BytesIO()
    write_message(stream, ["ask", "0", "call", [["f", (0.5).hex()]]])
    stream.seek(0)
    read_message(stream)


class Trial:
    """One candidate before its tests.

    Args:
        channel_in, channel_out: The channel to the candidate's process.
        tell: Called at each change of an assertion: number, outcome, reason.
    """

    def __init__(self, channel_in: BinaryIO, channel_out: BinaryIO, tell: Callable[[int, str, str], None]) -> None:
        self._peer = Peer(channel_in, channel_out, handle=self._callback, remote=self._stand_in)
        self._ledger = Ledger(tell)
        self._space: dict[str, Any] = {"__name__": "tests", LEDGER: self._ledger}
        self._task: dict[str, Any] = {}

    def wait_for_candidate(self) -> None:
        """Wait until the candidate's process answers: its start is not on the candidate's clock."""
        self._peer.ask("len", [])

    def run(self, task: dict[str, Any], plan: Callable[[list[str]], None]) -> tuple[str, str, list[int]]:
        """Give the exit code, the reason and the numbers of the assertions that count.

        Args:
            task: ``candidate``, ``tests``, ``setup_code``, ``prompt``, ``completes_prompt``, ``entry_point``.
            plan: Called once, before the candidate runs, with the assertions as text.
        """
        self._task, ledger = task, self._ledger
        try:
            units = self._compiled()
            trusted = self._trusted()
        except Exception as error:  # a fault of the task, not of the candidate
            return "error", f"the tests can not be used: {described(error)}", []
        plan(ledger.shown)
        every = list(range(len(ledger.shown)))
        try:
            outcome, detail = self._loaded()
            if outcome == "loaded":
                self._bind(units, trusted)
                self._run(units)
        except Gone:
            pass  # the peer remembers it, also where test code swallowed it with a bare except
        if self._peer.gone:
            return "error", f"the tests did not complete: the candidate {self._peer.gone}", every
        if outcome == "syntax":
            return "syntax_error", detail, every
        if outcome != "loaded":
            return "error", detail, every
        return self._verdict()

    def _verdict(self) -> tuple[str, str, list[int]]:
        ledger = self._ledger
        counted = [
            number for number, outcome in enumerate(ledger.outcomes)
            if ledger.shown[number] and (outcome or ledger.broken)
        ]  # fmt: skip
        failed = [number for number in counted if ledger.outcomes[number] != "passed"]
        if ledger.denied:
            return "error", ledger.denied, counted
        if ledger.broken and not failed:  # all that ran held, and then the test code itself ended
            return "assertion_fail", f"the tests ended by {ledger.broken}", [*counted, -1]
        if not counted:
            return "error", "no assertions: " + self._why_none(), []
        if failed:
            first = failed[0]
            why = ledger.reasons[first] or f"not reached: {ledger.broken}"
            return "assertion_fail", f"{ledger.shown[first]}: {why}", counted
        return "pass", "", counted

    def _why_none(self) -> str:
        if "check" in self._space and not self._task["entry_point"]:
            return "check is defined and never called; call it, or give the name of the function as entry_point"
        return "the tests ran to their end without one"

    def _compiled(self) -> list[Unit]:
        units = [Unit(target, self._ledger) for target in self._task["tests"]]
        entry_point = self._task["entry_point"]
        defined = any(isinstance(node, ast.FunctionDef) and node.name == "check" for u in units for node in u.tree.body)
        called = any(_calls(node, "check") for unit in units for node in ast.walk(unit.tree))
        if defined and not called and entry_point:
            units.append(Unit(f"check({entry_point})", self._ledger))
        return units

    def _trusted(self) -> set[str]:
        """Run the trusted code, in the tests' own name space; give the names that it defines."""
        task = self._task
        texts = [_compilable(task["prompt"])] if task["completes_prompt"] else []
        if "random" in " ".join([*task["tests"], task["setup_code"], *texts]):
            import random

            random.seed(0)  # the same program gets the same score twice
        before = set(self._space)
        for text in [*texts, task["setup_code"]]:
            tree = ast.parse(text)
            # a function of the prompt that has only its docstring is what the candidate is to write
            tree.body = [node for node in tree.body if not _is_stub(node)]
            exec(compile(tree, "setup_code", "exec", dont_inherit=True), self._space)
        return set(self._space) - before

    def _loaded(self) -> tuple[str, str]:
        try:
            answer = self._peer.ask("load", self._task["candidate"])
        except Exception as error:
            return "raised", f"the code raised when it was loaded: {described(error)}"
        if type(answer) is not tuple or len(answer) != 2 or not all(type(part) is str for part in answer):
            self._peer.fail("sent what is no answer")
        return answer[0], answer[1]

    def _bind(self, units: list[Unit], trusted: set[str]) -> None:
        """Give the names that the tests use and the candidate defines; trusted code and built-ins come first."""
        entry_point = self._task["entry_point"]
        wanted = {node.id for unit in units for node in ast.walk(unit.tree) if isinstance(node, ast.Name)}
        found = self._peer.ask("globals", sorted(wanted | ({entry_point} - {""})))
        if type(found) is not dict:
            self._peer.fail("sent what is no answer")
        ours = {name: found[name] for name in wanted if name in found and name not in trusted}
        # a candidate's own sorted() must not judge; but a function to be tested may be called sum
        plain = {name: value for name, value in ours.items() if name not in _BUILTIN}
        self._space |= plain or ours
        if entry_point and entry_point in found:
            self._space[entry_point] = found[entry_point]
            self._space.setdefault("candidate", found[entry_point])
        for name, value in plain.items():
            if type(value) is Opaque and value._type_name == "module":
                del self._space[name]  # the tests get the library itself, not the candidate's view of it
                if name in sys.stdlib_module_names:
                    self._space[name] = __import__(name)

    def _run(self, units: list[Unit]) -> None:
        for unit in units:
            try:
                exec(unit.code, self._space)
            except Gone:
                raise
            except BaseException as error:  # SystemExit of the test code too
                self._ledger.stopped(error)

    def _callback(self, operation: str, operands: list[Any]) -> Any:
        if operation != "callback":
            self._peer.fail("asked what the tests do not answer")
        function, arguments, named = operands
        return function(*arguments, **named)

    def _stand_in(self, type_name: str, handle: int) -> Opaque:
        return Opaque(self._peer, type_name, self._ledger.compared)


def _change(argument: Any, value: Any) -> None:
    if type(argument) is not type(value):
        return
    if type(argument) is list:
        argument[:] = value
    elif type(argument) in (dict, set):
        argument.clear()
        argument.update(value)


def _whole(answer: Any) -> int:
    if type(answer) is int:
        return answer
    raise TypeError("the candidate gave a length that is no whole number")


def _text(answer: Any) -> str:
    if type(answer) is str:
        return answer
    raise TypeError("the candidate gave a text that is none")


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _is_stub(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and all(
        isinstance(inner, ast.Pass) or (isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant))
        for inner in node.body
    )


def _compilable(prompt: str) -> str:
    """The prompt as a program of its own: it may end where the body of a function is to begin."""
    for text in (prompt, prompt.rstrip() + "\n    pass\n"):
        try:
            ast.parse(text)
        except SyntaxError:
            continue
        return text
    return ""
