"""What counts as an assertion, and what the tests can see of the candidate."""

from __future__ import annotations

import pytest

from evalframe.sandbox.assertions import Ledger, Unit

LIAR = "def f(x):\n    return 0\n"


def outcomes(result):
    return [(a.test, a.outcome) for a in result.assertions]


def test_a_statement_in_a_loop_is_one_assertion_and_has_to_hold_each_time(run):
    tests = "for x in range(5):\n    assert f(x) == x\nassert f(0) == 0\n"
    assert run("def f(x):\n    return x\n", tests).total == 2
    result = run(LIAR, tests)
    assert outcomes(result) == [("f(x) == x", "failed"), ("f(0) == 0", "passed")]


def test_check_is_called_with_the_entry_point_unless_the_tests_do(run):
    check = "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1) == 1\n    assert candidate(0) == 0\n"
    for tests, settings in (
        ((check,), {"entry_point": "f"}),
        ((check + "check(f)\n",), {}),
        ((check, "check(f)"), {}),
        ((check + "check(f)\n",), {"entry_point": "f"}),
    ):
        result = run(LIAR, *tests, **settings)
        assert outcomes(result) == [("candidate(1) == 1", "failed"), ("candidate(0) == 0", "passed")]
        assert run("def f(x):\n    return x\n", *tests, **settings).exit_code == "pass"


def test_the_entry_point_is_candidate_for_tests_that_call_it_so(run):
    assert run("def f(x):\n    return x\n", "candidate(3) == 3", entry_point="f").exit_code == "pass"


def test_test_code_that_ends_early_leaves_its_assertions_not_reached(run):
    tests = "x = f(1)\nassert x == 0\ny = x / 0\nassert y == 0\n"
    result = run(LIAR, tests, "f(2) == 0")
    assert outcomes(result) == [("x == 0", "passed"), ("y == 0", "not_reached"), ("f(2) == 0", "passed")]
    assert result.exit_code == "assertion_fail"
    assert result.reason == "y == 0: not reached: ZeroDivisionError: division by zero"


def test_an_exception_after_the_last_assertion_is_no_pass(run):
    result = run(LIAR, "assert f(1) == 0\nf(1) / 0\n")
    assert (result.exit_code, result.score, result.passed, result.total) == ("assertion_fail", 0.5, 1, 2)
    assert run(LIAR, "assert f(1) == 0\nraise SystemExit(0)\n").exit_code == "assertion_fail"


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ("try:\n    g(1)\n    assert False, 'must raise'\nexcept ValueError:\n    assert True\n", "pass"),
        ("try:\n    assert f(1) == 5\nexcept AssertionError:\n    assert f(1) == 0\n", "pass"),
        ("import contextlib\nwith contextlib.suppress(ValueError):\n    assert g(1) == 3\nassert f(1) == 0\n", "pass"),
        ("try:\n    f(1)\n    assert False, 'must raise'\nexcept ValueError:\n    assert True\n", "assertion_fail"),
        ("with open('/dev/null'):\n    assert f(1) == 5\nassert f(1) == 0\n", "assertion_fail"),
        ("def same(x):\n    assert f(x) == 0\n    return True\nassert same(3)\n", "pass"),
        ("def same(x):\n    assert f(x) == 5\n    return True\nassert same(3)\n", "assertion_fail"),
        ("def no(x):\n    assert f(x) == 5\ntry:\n    no(1)\nexcept AssertionError:\n    y = 1\nassert 1\n", "pass"),
        ("try:\n    g(1)\nexcept ValueError as error:\n    assert str(error) == 'bad'\n", "pass"),
        ("try:\n    h(1)\nexcept LookupError as error:\n    assert 'own' in str(error)\n", "pass"),
        ("class Case:\n    def both(self):\n        assert f(1) == 0\nCase().both()\n", "pass"),
    ],
)  # fmt: skip
def test_a_full_pass_is_what_python_itself_would_pass(run, tests, expected):
    code = (
        "class Own(KeyError): pass\ndef f(x): return 0\n"
        "def g(x): raise ValueError('bad')\ndef h(x): raise Own('own one')\n"
    )
    space: dict[str, object] = {}
    try:
        exec(code + tests, space)
        python = "pass"
    except AssertionError:
        python = "assertion_fail"
    assert python == expected
    assert run(code, tests).exit_code == expected


def test_an_assertion_error_of_the_candidate_is_not_the_tests_own(run):
    code = "def f(x):\n    raise AssertionError('mine')\n"
    tests = "try:\n    f(1)\nexcept AssertionError:\n    assert True\n"
    assert run(code, tests).exit_code == "assertion_fail"  # it went through the except clause, unseen
    assert run(code, "f(1) == 1").reason == "f(1) == 1: AssertionError: mine"


def test_values_arrive_exactly(run):
    values = [
        None, True, False, 0, -7, 2**53, -(2**200), 0.1, -0.0, 1e308, float("inf"), "é\n\0", b"\0\xff", [], (), set(),
        {}, [1, [2, (3, {4}, {"a": [b"x"]})]], {(1, "k"): None, 2.5: {frozenset: 1}.keys() and [1]}, "\ud800",
    ]  # fmt: skip
    code = f"VALUES = {values!r}\ndef f(i):\n    return VALUES[i]\ndef echo(x):\n    return x\n"
    code = code.replace("inf", "float('inf')")
    tests = [f"VALUE = {value!r}".replace("inf", "float('inf')") + f"\nassert f({i}) == VALUE\n"
             f"assert type(f({i})) is type(VALUE)\nassert repr(echo(VALUE)) == repr(VALUE)\n"
             for i, value in enumerate(values)]  # fmt: skip
    result = run(code, *tests)
    assert result.exit_code == "pass", result.reason


def test_nan_is_nan(run):
    assert run("def f():\n    return float('nan')\n", "f() != f()", "str(f()) == 'nan'").exit_code == "pass"


def test_what_is_no_plain_value_is_named_in_the_reason(run):
    code = "from collections import defaultdict\ndef f():\n    return defaultdict(int, a=1)\n"
    result = run(code, "f() == {'a': 1}", "dict(f().items()) == {'a': 1}")
    assert [a.outcome for a in result.assertions] == ["failed", "passed"]
    assert "the candidate gave a defaultdict; only plain values are equal" in result.reason


def test_too_large_and_cyclic_values_fail_their_assertion_only(run):
    code = (
        "def loop():\n    x = []\n    x.append(x)\n    return x\ndef wide():\n    x = []\n    for _ in range(60):\n"
        "        x = [x, x]\n    return x\ndef long():\n    return 'x' * (17 << 20)\ndef one():\n    return 1\n"
    )
    result = run(code, "loop() == 1", "wide() == 1", "long() == 1", "one() == 1", timeout_seconds=30)
    assert [a.outcome for a in result.assertions] == ["failed", "failed", "failed", "passed"]


def test_functions_of_the_tests_are_called_back(run):
    code = "def apply(g, xs):\n    return [g(x) for x in xs]\ndef same(g):\n    return g\n"
    tests = (
        "calls = []\ndef g(x):\n    calls.append(x)\n    return x + one()\ndef one():\n    return 1\n"
        "assert apply(g, [1, 2]) == [2, 3]\nassert calls == [1, 2]\nassert same(g) is g\n"
        "assert apply(lambda x: apply(g, [x]), [5]) == [[6]]\n"
        "def bad(x):\n    raise ValueError('from the tests')\n"
        "try:\n    apply(bad, [1])\nexcept ValueError as error:\n    assert str(error) == 'from the tests'\n"
    )
    result = run(code, tests)
    assert (result.exit_code, result.total) == ("pass", 5), result.reason


def test_objects_are_used_by_their_methods_items_and_attributes(run):
    code = """
class Stack:
    kind = "stack"
    def __init__(self, items=()):
        self.items = list(items)
    def push(self, x):
        self.items.append(x)
        return self
    def pop(self):
        return self.items.pop()
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)
    def __getitem__(self, i):
        return self.items[i]
    def __str__(self):
        return f"Stack{self.items}"
def count(n):
    yield from range(n)
def size(stack):
    return len(stack.items)
"""
    tests = (
        "s = Stack(items=[1])\ns.push(2).push(3)\nassert s.pop() == 3\nassert len(s) == 2\nassert list(s) == [1, 2]\n"
        "assert s[1] == 2\nassert 2 in s\nassert s.items == [1, 2]\nassert Stack.kind == 'stack'\n"
        "assert str(s) == 'Stack[1, 2]'\nassert size(s) == 2\nassert sum(count(4)) == 6\n"
        "try:\n    s[9]\nexcept IndexError:\n    assert True\n"
        "try:\n    s.nothing\nexcept AttributeError:\n    assert True\n"
    )
    result = run(code, tests)
    assert (result.exit_code, result.total) == ("pass", 12), result.reason


def test_what_a_function_changes_in_place_is_seen_where_it_returns_nothing(run):
    code = (
        "def order(xs, d, s=None):\n    xs.sort()\n    d['n'] = len(xs)\n    s and s.add(9)\n"
        "def wipe(xs):\n    xs.clear()\n    return []\n"
    )
    tests = (
        "xs, d, s = [3, 1, 2], {}, {1}\norder(xs, d, s=s)\nassert xs == [1, 2, 3]\nassert d == {'n': 3}\n"
        "assert s == {1, 9}\n"
    )
    assert run(code, tests).exit_code == "pass"
    # a function that returns something can not take the test's own input away
    assert run(code, "ys = [2, 1]\nassert wipe(ys) == sorted(ys)\n").exit_code == "assertion_fail"


def test_a_function_under_test_may_have_the_name_of_a_builtin(run):
    code = "def sum(a, b):\n    return a * b\n"
    assert run(code, "sum(3, 4) == 12").exit_code == "pass"
    assert run(code + "def f():\n    return 1\n", "sum(3, 4) == 12 and f()", entry_point="sum").exit_code == "pass"


def test_targets_share_their_names_and_see_the_setup_code(run):
    code = "def f(x):\n    return helper(x)\ndef helper(x):\n    return x\n"
    result = run(code, "y = 3\n", "    assert f(y) == twice(y) - 3\n", setup_code="def twice(x):\n    return 2 * x\n")
    assert result.exit_code == "pass", result.reason
    assert run("def f(x):\n    return twice(x)\n", "f(1) == 2", setup_code="def twice(x): return 2 * x").score == 0


def test_assertions_are_counted_without_the_interpreter_s_own():
    told: list[tuple[int, str, str]] = []
    ledger = Ledger(lambda *event: told.append(event))
    unit = Unit("def check(x):\n    assert x == 1\n    assert x == 2, 'two'\ncheck(1)\n", ledger)
    assert "assert" not in unit.code.co_names
    exec(unit.code, {"__evalframe__": ledger})
    assert ledger.outcomes == ["passed", "failed"]
    assert told == [(0, "passed", ""), (1, "failed", "false: two")]
