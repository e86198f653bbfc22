"""The tests' assertions: each ``assert`` statement is counted, and the ones after a failed one still run.

This file is loaded inside the workers: standard library only, no import of evalframe.

An assertion is an ``assert`` statement of the tests, however often it runs, or a target that is an expression. It has
passed if it held each time. Statements are rewritten to calls of a ``Ledger``, so that Python's ``-O`` loses none.
In plain test code (module level, and functions called ``check`` or ``test...``) a failed assertion is noted and the
code goes on; in the body of a ``try`` or ``with`` and in other functions it raises, as there the test code itself may
expect it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

LEDGER = "__evalframe__"
_ERROR = "__evalframe_error__"
_SHOWN_CHARS = 100


class Unit:
    """One target, compiled.

    Attributes:
        tree: As written; for an expression a module of one expression.
        code: With counted assertions.
    """

    def __init__(self, target: str, ledger: Ledger) -> None:
        text = textwrap.dedent(target).strip()
        try:
            expression = ast.parse(text, mode="eval").body
        except SyntaxError:
            self.tree = ast.parse(textwrap.dedent(target))
            counted: ast.Module = _Counting(ledger).visit(ast.parse(textwrap.dedent(target)))
        else:
            self.tree = ast.Module([ast.Expr(expression)], [])
            counted = ast.Module(_judged(expression, ledger), [])
        self.code: CodeType = compile(ast.fix_missing_locations(counted), "tests", "exec", dont_inherit=True)


class Ledger:
    """What became of each assertion. The rewritten tests call ``open``, ``held``, ``failed``, ``raised``, ``judge``.

    Args:
        tell: Called at each change with the assertion's number, its outcome and the reason.
    """

    def __init__(self, tell: Callable[[int, str, str], None]) -> None:
        self.shown: list[str] = []
        self.outcomes: list[str] = []  # "", "passed" or "failed"
        self.reasons: list[str] = []
        self.broken = ""  # how the test code ended early
        self.denied = ""  # a denied module that the candidate asked for
        self._tell = tell
        self._raised: dict[int, tuple[BaseException, int]] = {}
        self._ran = 0
        self._opaque = ""

    def add(self, test: ast.expr) -> int:
        """Take one more assertion and give its number."""
        text = ast.unparse(test)
        self.shown.append(text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…")
        self.outcomes.append("")
        self.reasons.append("")
        return len(self.shown) - 1

    def open(self, number: int) -> bool:
        """Whether it can still pass; a failed one is not evaluated again."""
        self._ran += 1
        self._opaque = ""
        return self.outcomes[number] != "failed"

    def held(self, number: int) -> None:
        """Note that it held this time."""
        self._ran += 1
        if not self.outcomes[number]:
            self._set(number, "passed", "")

    def failed(self, number: int, message: Any = None) -> None:
        """Note that it was false."""
        said = f": {message[:200]}" if type(message) is str and message else ""
        opaque = f" (the candidate gave a {self._opaque}; only plain values are equal)" if self._opaque else ""
        self._set(number, "failed", f"false{opaque}{said}")

    def raised(self, number: int, error: Exception) -> None:
        """Note that its evaluation raised; where another assertion's failure came through, that one failed too."""
        self._own_failure(error)
        self._set(number, "failed", described(error))
        if candidate_type(error) == "DeniedModule":
            self.denied = str(error)

    def failure(self, number: int, message: Any = None) -> AssertionError:
        """Give the error for an assertion that raises; it has failed only if the test code does not catch it."""
        error = AssertionError(*([] if message is None else [message]))
        self._raised[id(error)] = (error, number)  # kept alive: the id stays its own
        return error

    def judge(self, number: int, thunk: Callable[[], Any]) -> None:
        """Evaluate a target that is an expression: true passes, a call that only ran assertions is none itself."""
        before, self._opaque = self._ran, ""
        try:
            value = thunk()
            if value is None and self._ran > before:
                self.shown[number] = ""
            elif value:
                self.held(number)
            else:
                self.failed(number)
        except Exception as error:
            if self._ran > before:  # it ran assertions, and those after the error were not reached
                self.stopped(error)
            self.raised(number, error)

    def compared(self, type_name: str) -> None:
        """Note that an object of the candidate was compared, which is false."""
        self._opaque = type_name

    def stopped(self, error: BaseException) -> None:
        """Note that test code ended by an exception."""
        if not self._own_failure(error):
            self.broken = self.broken or described(error)
            if candidate_type(error) == "DeniedModule":
                self.denied = str(error)
        self.broken = self.broken or "an assertion failed"

    def _own_failure(self, error: BaseException) -> bool:
        found = self._raised.get(id(error))
        if found:
            self._set(found[1], "failed", described(error) if str(error) else "false")
        return bool(found)

    def _set(self, number: int, outcome: str, reason: str) -> None:
        if self.outcomes[number] != "failed":
            self.outcomes[number], self.reasons[number] = outcome, reason
            self._tell(number, outcome, reason)


def candidate_type(error: BaseException) -> str:
    """The name that an exception has at the candidate's side."""
    return str(getattr(error, "candidate_type", type(error).__name__))


def described(error: BaseException) -> str:
    """Say in one short line what was raised."""
    message = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", str(error)[:1000])  # an address is another one each time
    return f"{candidate_type(error)}: {message[:200]}" if message else candidate_type(error)


def _call(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(LEDGER, ast.Load()), method, ast.Load()), list(arguments), [])


def _judged(expression: ast.expr, ledger: Ledger) -> list[ast.stmt]:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    number = ast.Constant(ledger.add(expression))
    return [ast.Expr(_call("judge", number, ast.Lambda(nothing, expression)))]


class _Counting(ast.NodeTransformer):
    """Rewrites the ``assert`` statements of a tree and enters them in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._raises = False

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        number = ast.Constant(self._ledger.add(node.test))
        message = [node.msg] if node.msg else []
        held = ast.Expr(_call("held", number))
        if self._raises:
            raising = ast.Raise(_call("failure", number, *message))
            new: list[ast.stmt] = [ast.If(ast.UnaryOp(ast.Not(), node.test), [raising], []), held]
        else:
            failed = ast.Expr(_call("failed", number, *message))
            noted = ast.Expr(_call("raised", number, ast.Name(_ERROR, ast.Load())))
            judging = ast.Try(
                [ast.If(node.test, [held], [failed])],
                [ast.ExceptHandler(ast.Name("Exception", ast.Load()), _ERROR, [noted])], [], [],
            )  # fmt: skip
            new = [ast.If(_call("open", number), [judging], [])]
        return [ast.copy_location(statement, node) for statement in new]

    def visit_Try(self, node: ast.Try) -> ast.Try:
        if node.handlers:
            node.body = self._within(node.body)
        else:
            node.body = self._all(node.body)
        node.handlers = [self.visit(handler) for handler in node.handlers]
        node.orelse, node.finalbody = self._all(node.orelse), self._all(node.finalbody)
        return node

    def visit_TryStar(self, node: ast.TryStar) -> ast.TryStar:
        node.body = self._within(node.body)
        return node

    def visit_With(self, node: ast.With) -> ast.With:
        node.body = self._within(node.body)
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AsyncWith:
        node.body = self._within(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        plain = not self._raises and (node.name == "check" or node.name.startswith("test"))
        node.body = self._all(node.body) if plain else self._within(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        node.body = self._within(node.body)
        return node

    def _within(self, body: list[ast.stmt]) -> list[ast.stmt]:
        outer, self._raises = self._raises, True
        try:
            return self._all(body)
        finally:
            self._raises = outer

    def _all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        for statement in body:
            seen = self.visit(statement)
            new += seen if isinstance(seen, list) else [seen]
        return new
