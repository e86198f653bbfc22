"""The test models: right, mostly wrong, right in one category; the same for the same call always."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import TaskSpec
from evalframe.adapters.mock import NAMES, from_name, wrong_answer
from evalframe.errors import AdapterError, UnknownNameError


def mock(name: str, **options):
    (model,) = from_name(name, options)
    return model


def answer(model, task: TaskSpec):
    return model.generate(task.prompt, task)


ARITHMETIC = TaskSpec("arith", "arithmetic", "1 + 40", targets=("41",), metric_name="exact_match")
MCQ = TaskSpec("mcq", "mcq", "Which?", targets=("B",), metric_name="exact_match", post_process="extract_letter")
CODE = TaskSpec(
    "code", "code_exec", "def f():", targets=("f() == 1",), metric_name="code_exec",
    metadata={"solution": "def f():\n    return 1"},
)  # fmt: skip
LABEL = TaskSpec("label", "classification", "Good?", targets=("Positive",), metric_name="accuracy")
SUMMARY = TaskSpec("sum", "summary", "Sum up.", targets=("the cat sat", "a cat"), metric_name="rouge_l")
TASKS = [ARITHMETIC, MCQ, CODE, LABEL, SUMMARY]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task_id)
def test_rule_based_is_right(task) -> None:
    reply = answer(mock("rule_based"), task)
    assert reply.text == (task.metadata["solution"] if task is CODE else task.targets[0])
    assert reply.confidence == 0.92


def test_the_solution_of_a_suite_is_a_field_of_the_row() -> None:
    task = replace(CODE, category="custom", row=json.dumps({"solution": "x = 2"}))
    assert answer(mock("rule_based"), task).text == "x = 2"
    assert answer(mock("rule_based"), replace(task, row='{"solution": null}')).text == CODE.metadata["solution"]
    assert answer(mock("rule_based"), replace(task, row="{}", metadata={})).text == "f() == 1"
    # a field of that name means nothing where no code is asked for
    assert answer(mock("rule_based"), replace(ARITHMETIC, row='{"solution": "no"}')).text == "41"


def test_without_a_target_the_prompt_comes_back() -> None:
    task = TaskSpec("t", "qa", "Read:\nwhat it says\n\n")
    assert answer(mock("rule_based"), task).text == "what it says"
    assert answer(mock("rule_based"), replace(task, prompt="")).text == ""


def test_noisy_is_wrong_three_times_in_four_and_sure_of_it() -> None:
    replies = [answer(mock("noisy"), replace(ARITHMETIC, sample_index=i)) for i in range(2_000)]
    wrong = sum(reply.text != "41" for reply in replies)
    assert 0.72 < wrong / 2_000 < 0.78  # three standard errors
    assert {reply.confidence for reply in replies} == {0.85}


def test_biased_is_right_in_one_category() -> None:
    model = mock("biased")
    for task in TASKS:
        reply = answer(model, task)
        assert (reply.text == "41") == (task is ARITHMETIC)
        assert reply.confidence == (0.9 if task is ARITHMETIC else 0.4)


@pytest.mark.parametrize(
    ("categories", "knows"),
    [(["mcq", "arithmetic"], "arithmetic"), (["mcq", "summary"], "mcq"), ([], "arithmetic"), (["qa"], "qa")],
)
def test_which_category_biased_knows(categories, knows) -> None:
    model = mock("biased")
    ready = model.prepare(categories)
    assert ready.model_id == "mock/biased"
    assert answer(ready, replace(ARITHMETIC, category=knows)).confidence == 0.9
    assert answer(ready, replace(ARITHMETIC, category="other")).confidence == 0.4
    assert answer(model, ARITHMETIC).confidence == 0.9  # the one that was prepared is another one


def test_the_category_can_be_chosen() -> None:
    ready = mock("biased", category="mcq").prepare(["arithmetic", "mcq"])
    assert answer(ready, MCQ).text == "B"
    assert answer(ready, ARITHMETIC).text != "41"


DRAWS = [i / 20 for i in range(20)]


@pytest.mark.parametrize("target", ["A", "B", "E", "b", "(C)"])
def test_a_wrong_letter_is_a_letter(target) -> None:
    found = {wrong_answer("", replace(MCQ, targets=(target,)), draw) for draw in DRAWS}
    assert len(found) == 4
    assert target not in found
    for text in found:
        assert len(text) == len(target)
        assert text.isupper() == target.isupper()
        assert text.strip("()").upper() in "ABCDE"


@pytest.mark.parametrize("target", ["41", "0", "-3", "2.50", "1,234.5", "$7", "50%", "1e5", "٣٤", "9" * 5_000, ".5"])
def test_a_wrong_number_is_a_number_well_off(target) -> None:
    for draw in DRAWS:
        text = wrong_answer("", replace(ARITHMETIC, targets=(target,)), draw)
        assert text != target
        assert len(text) == len(target)
        assert any(c.isdigit() for c in text)


def test_wrong_answers_of_other_kinds() -> None:
    assert {wrong_answer("", LABEL, draw) for draw in DRAWS} == {"Negative"}
    choices = replace(MCQ, targets=("red",), choices=("red", "green", "blue"))
    assert {wrong_answer("", choices, draw) for draw in DRAWS} == {"green", "blue"}
    letters = replace(MCQ, choices=("first", "second", "third"))
    assert {wrong_answer("", letters, draw) for draw in DRAWS} == {"A", "C"}
    with pytest.raises(SyntaxError):
        ast.parse(wrong_answer("", CODE, 0.5))
    with pytest.raises(SyntaxError):  # also where it completes a prompt
        ast.parse('def f(x):\n    """Do."""\n' + wrong_answer("", CODE, 0.5))
    words = set(wrong_answer("", SUMMARY, 0.5).split())
    assert len(words) > 4
    assert not words & {"the", "cat", "sat", "a"}


TARGET = st.one_of(
    st.text(max_size=12), st.sampled_from(["A", "b", "yes", "41", "-1.5", "blorp"]), st.integers().map(str)
)


@given(
    targets=st.lists(TARGET, max_size=4).map(tuple),
    choices=st.lists(TARGET, max_size=4).map(tuple),
    category=st.sampled_from(["mcq", "arithmetic", "code_exec", "qa"]),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_a_wrong_answer_is_no_target(targets, choices, category, draw) -> None:
    task = TaskSpec("t", category, "p", targets=targets, choices=choices)
    text = wrong_answer("p", task, draw)
    assert text.strip()
    assert text.strip().lower() not in {target.strip().lower() for target in targets}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_call_gives_the_same_reply(name) -> None:
    calls = [replace(task, sample_index=i, repeat=r) for task in TASKS for i in range(5) for r in range(3)]
    forward = [answer(mock(name), task) for task in calls]
    backward = [answer(mock(name), task) for task in reversed(calls)]
    assert forward == backward[::-1]
    assert len({reply.token_nll for reply in forward}) > len(calls) // 2  # repeats are calls of their own


def test_replies_do_not_depend_on_the_process() -> None:
    code = (
        "from evalframe.adapters.mock import from_name; from evalframe.adapters import TaskSpec\n"
        "m, = from_name('noisy', {})\n"
        "t = lambda i: TaskSpec('t', 'qa', 'p', targets=('5',), sample_index=i)\n"
        "print([(r.text, r.token_nll) for i in range(20) for r in [m.generate('p', t(i))]])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task_id)
def test_token_figures_are_legal(name, task) -> None:
    reply = answer(mock(name), task)
    assert reply.token_count is not None
    assert reply.token_count > 0
    assert reply.token_nll is not None
    assert 0 < reply.token_nll < math.inf
    # tokens are about as likely as the model is confident
    assert 0.5 <= reply.token_nll / reply.token_count / -math.log(reply.confidence) <= 1.5


def test_unknown_mocks_and_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'mock/noisy'"):
        from_name("nosy", {})
    with pytest.raises(UnknownNameError, match=r"mock/biased.*mock/noisy.*mock/rule_based"):
        from_name("", {})
    with pytest.raises(AdapterError, match="no option 'category'"):
        from_name("noisy", {"category": "mcq"})
    with pytest.raises(AdapterError, match="not the name of a category"):
        from_name("biased", {"category": 3})
    assert from_name("noisy", {"generation": {"temperature": 1}, "drop": ["stop"]})
