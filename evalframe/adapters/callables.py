"""A plain function as a model: ``from_callable("mine", fn)``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.errors import AdapterError


@dataclass(frozen=True, slots=True)
class CallableAdapter:
    """A model that is a function.

    Attributes:
        model_id: Its name in every frame.
        function: What answers.
        takes_task: Whether it is called with the task as well.
        model_version: What the caller says of it; with it the replies may be cached.
    """

    model_id: str
    function: Callable[..., Any]
    takes_task: bool = False
    model_version: str | None = None

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Call the function; what it raises is passed on, what is no reply is a failed call."""
        reply = self.function(prompt, task) if self.takes_task else self.function(prompt)
        if isinstance(reply, Generation):
            return reply
        if isinstance(reply, str):
            return Generation(text=str(reply))
        if inspect.iscoroutine(reply):
            reply.close()  # else Python warns that it was never awaited
        raise CallFailed("bad_reply", f"{self.model_id} returned {_named(reply)}, not a str or an evalframe Generation")


def from_callable(name: str, fn: Callable[..., Any], *, model_version: str | None = None) -> CallableAdapter:
    """Make a model of a function ``fn(prompt) -> str`` or ``fn(prompt, task) -> str``.

    The function may give a ``Generation`` in place of a string. It is called from several threads at once unless the
    run is sequential. The task is passed where the function needs two arguments or has one that is called ``task``.

    Args:
        name: The ``model_id``: not empty, no blanks at its ends.
        fn: The function; no coroutine function.
        model_version: A version of the function; without one its replies are never taken from the result cache.

    Raises:
        AdapterError: ``fn`` can not be called so, or is asynchronous.

    >>> echo = from_callable("echo", str.upper)
    >>> echo.generate("hello", TaskSpec("t", "qa", "hello")).text
    'HELLO'
    """
    if not isinstance(name, str) or not name or name != name.strip():
        raise AdapterError(f"from_callable: {name!r} is no model id; give a name without blanks at its ends")
    if not callable(fn):
        raise AdapterError(f"from_callable: {name}: {_named(fn)} can not be called; pass a function of a prompt")
    if _is_async(fn):
        raise AdapterError(
            f"from_callable: {name}: the function is asynchronous, and models are called from threads; "
            "pass a plain function, such as lambda prompt: asyncio.run(fn(prompt))"
        )
    return CallableAdapter(name, fn, _takes_task(name, fn), model_version)


def _takes_task(name: str, fn: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # many functions written in C do not tell
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if keywords or len(needed) > 2 or not (positional or rest):
        raise AdapterError(
            f"from_callable: {name}: the function can not be called as fn(prompt) or fn(prompt, task): "
            f"it takes {inspect.signature(fn)}; bind its other arguments with functools.partial"
        )
    return len(needed) == 2 or (len(positional) > 1 and positional[1].name == "task")


def _is_async(fn: Callable[..., Any]) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    called = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - the method, not a test
    return any(test(called) for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction))


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
