"""A plain function is a model."""

from __future__ import annotations

import functools
import re

import pytest

from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.adapters.callables import from_callable
from evalframe.errors import AdapterError

TASK = TaskSpec("t", "qa", "p", sample_index=3)


class Text(str):
    pass


class Model:
    def __call__(self, prompt: str) -> str:
        return prompt * 2

    def method(self, prompt: str, task: TaskSpec) -> str:
        return f"{prompt}{task.sample_index}"

    async def later(self, prompt: str) -> str:
        return prompt


class Later:
    async def __call__(self, prompt: str) -> str:
        return prompt


async def later(prompt: str) -> str:
    return prompt


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda prompt: prompt + "!", "p!"),
        (lambda prompt, task: f"{prompt}{task.sample_index}", "p3"),
        (lambda prompt, task=None: f"{prompt}{task.sample_index}", "p3"),
        (lambda prompt, temperature=0.5: f"{prompt}{temperature}", "p0.5"),
        (lambda *args: "".join(args), "p"),
        (lambda prompt, *, seed=1: f"{prompt}{seed}", "p1"),
        (lambda prompt: Generation("own", confidence=0.5), "own"),
        (lambda prompt: Text("sub"), "sub"),
        (functools.partial(lambda model, prompt: model + prompt, "m"), "mp"),
        (str.upper, "P"),
        (Model(), "pp"),
        (Model().method, "p3"),
    ],
)
def test_functions_that_answer(fn, text) -> None:
    reply = from_callable("mine", fn).generate("p", TASK)
    assert isinstance(reply, Generation)
    assert reply.text == text
    assert type(reply.text) is str


@pytest.mark.parametrize(
    ("reply", "named"), [(None, "None"), (3, "a int"), (b"x", "a bytes"), (["x"], "a list"), (("x", 0.5), "a tuple")]
)
def test_what_is_no_reply_is_a_failed_call_that_says_its_type(reply, named) -> None:
    with pytest.raises(CallFailed, match=f"mine returned {named}, not a str") as caught:
        from_callable("mine", lambda prompt: reply).generate("p", TASK)
    assert caught.value.error_type == "bad_reply"


def test_a_coroutine_that_comes_back_all_the_same_is_closed_and_told() -> None:
    with pytest.raises(CallFailed, match="a coroutine"):
        from_callable("mine", lambda prompt: later(prompt)).generate("p", TASK)


def test_what_a_function_raises_is_passed_on() -> None:
    with pytest.raises(ZeroDivisionError):
        from_callable("mine", lambda prompt: 1 / 0).generate("p", TASK)


@pytest.mark.parametrize("fn", [later, functools.partial(later), Model().later, Later()])
def test_asynchronous_functions_are_refused_with_a_way_out(fn) -> None:
    with pytest.raises(AdapterError, match=re.escape("asyncio.run(fn(prompt))")):
        from_callable("mine", fn)


@pytest.mark.parametrize(
    "fn", [lambda: "x", lambda a, b, c: "x", lambda prompt, *, needed: "x", lambda *, prompt: "x", lambda **kw: "x"]
)
def test_functions_that_can_not_be_called_so_are_refused(fn) -> None:
    with pytest.raises(AdapterError, match=r"fn\(prompt\) or fn\(prompt, task\).*functools\.partial"):
        from_callable("mine", fn)


@pytest.mark.parametrize("name", ["", " mine", "mine\n", None, 3])
def test_a_name_is_needed(name) -> None:
    with pytest.raises(AdapterError, match="is no model id"):
        from_callable(name, str.upper)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(AdapterError, match="a str can not be called"):
        from_callable("mine", "gpt")  # type: ignore[arg-type]


def test_the_version_is_kept() -> None:
    assert from_callable("mine", str.upper, model_version="2").model_version == "2"
    assert from_callable("mine", str.upper).model_version is None
