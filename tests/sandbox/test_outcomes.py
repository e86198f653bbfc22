"""Each word of the outcome vocabulary, and one shape for all of them."""

from __future__ import annotations

import pytest

ADD = "def add(a, b):\n    return a + b\n"


def test_all_assertions_held_is_a_pass(run):
    result = run(ADD, "add(2, 2) == 4", "assert add(0, 0) == 0\nassert add(-1, 1) == 0\n")
    assert (result.exit_code, result.score, result.passed, result.total) == ("pass", 1.0, 3, 3)
    assert result.reason == ""
    assert result.verdict == "split"
    assert [a.test for a in result.assertions] == ["add(2, 2) == 4", "add(0, 0) == 0", "add(-1, 1) == 0"]


def test_a_false_assertion_does_not_hide_the_ones_after_it(run):
    result = run(
        ADD, "assert add(1, 1) == 3, 'one and one'\nassert add(1, 1) == 2\nassert nothing(1)\n", "add(2, 2) == 4"
    )
    assert (result.exit_code, result.score) == ("assertion_fail", 0.5)
    assert [a.outcome for a in result.assertions] == ["failed", "passed", "failed", "passed"]
    assert result.assertions[0].reason == "false: one and one"
    assert result.assertions[2].reason == "NameError: name 'nothing' is not defined"
    assert result.reason == "add(1, 1) == 3: false: one and one"


def test_an_exception_of_the_candidate_is_a_failed_assertion(run):
    result = run("def add(a, b):\n    return a / 0\n", "add(2, 2) == 4")
    assert (result.exit_code, result.score) == ("assertion_fail", 0.0)
    assert result.reason == "add(2, 2) == 4: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def add(a, b) return a + b\n", "SyntaxError, line 1: "),
        ("x = 1\n  y = 2\n", "IndentationError, line 2: "),
        ("x = 1\0", "null bytes"),
        ("x = '\ud800'", "UnicodeEncodeError"),
        ("x = " + "(" * 5000 + ")" * 5000, "nested"),
    ],
    ids=["syntax", "indentation", "null byte", "surrogate", "depth"],
)
def test_what_does_not_compile_is_a_syntax_error(run, code, reason):
    result = run(code, "add(2, 2) == 4")
    assert (result.exit_code, result.score, result.passed, result.total) == ("syntax_error", 0.0, 0, 1)
    assert reason in result.reason
    assert [a.outcome for a in result.assertions] == ["not_reached"]


def test_the_clock_is_over_all_assertions_together(run):
    code = "import time\ndef wait(s):\n    time.sleep(s)\n    return True\n"
    result = run(code, "wait(0.0)", "wait(60)", "wait(0.0)", timeout_seconds=0.5)
    assert (result.exit_code, result.score, result.reason) == ("timeout", 0.0, "over 0.5 s")
    assert [a.outcome for a in result.assertions] == ["passed", "not_reached", "not_reached"]
    assert result.passed == 1  # what passed before is told and does not count
    assert result.seconds >= 0.5


def test_an_exception_at_import_is_an_error(run):
    result = run(ADD + "raise ValueError('at import')\n", "add(2, 2) == 4")
    assert (result.exit_code, result.score) == ("error", 0.0)
    assert result.reason == "the code raised when it was loaded: ValueError: at import"


@pytest.mark.parametrize(
    "line",
    ["import socket", "from urllib import request", "import subprocess as s", "from http.client import x",
     "import ctypes.util", "import requests", "from asyncio import subprocess"],
)  # fmt: skip
def test_a_denied_module_is_an_error_with_its_name(run_all, line):
    at_import, at_call = run_all(
        [f"{line}\n{ADD}", f"def add(a, b):\n    {line}\n    return a + b\n"], "add(2, 2) == 4"
    )
    for result in (at_import, at_call):
        assert (result.exit_code, result.score) == ("error", 0.0)
        assert "is denied in the sandbox" in result.reason


def test_the_standard_library_may_import_what_candidates_may_not(run):
    code = "import asyncio, tempfile\nasync def f():\n    return 4\ndef add(a, b):\n    return asyncio.run(f())\n"
    assert run(code, "add(2, 2) == 4").exit_code == "pass"


def test_a_candidate_may_live_without_a_denied_module(run):
    code = f"try:\n    import requests\nexcept ImportError:\n    requests = None\n{ADD}"
    assert run(code, "add(2, 2) == 4").exit_code == "pass"


def test_os_system_raises(run):
    result = run("import os\ndef f():\n    return os.system('true')\n", "f() == 0")
    assert result.reason == "f() == 0: PermissionError: os.system is denied in the sandbox"


def test_tests_without_an_assertion_are_an_error(run):
    for tests in (("x = add(1, 1)\n",), ("def check(candidate):\n    assert candidate(1, 1) == 2\n",), ()):
        result = run(ADD, *tests)
        assert (result.exit_code, result.score, result.passed, result.total) == ("error", 0.0, 0, 0)
        assert result.reason.startswith("no assertions")
    assert "entry_point" in run(ADD, "def check(candidate):\n    assert candidate(1, 1) == 2\n").reason


@pytest.mark.parametrize("tests", ["assert add(1, 1) ==\n", "def check(:\n"])
def test_tests_that_do_not_compile_are_an_error_and_no_fault_of_the_candidate(run, tests):
    result = run(ADD, tests)
    assert (result.exit_code, result.score, result.total) == ("error", 0.0, 0)
    assert result.reason.startswith("the tests can not be used: SyntaxError")


def test_setup_code_that_raises_is_told(run):
    result = run(ADD, "add(1, 1) == 2", setup_code="1 / 0")
    assert result.reason == "the tests can not be used: ZeroDivisionError: division by zero"


def test_stdin_is_empty(run):
    assert "EOFError" in run("input()\n" + ADD, "add(1, 1) == 2").reason


def test_output_is_kept_as_an_excerpt_and_is_no_verdict(run):
    code = "import sys\nprint('out' * 2000)\ndef add(a, b):\n    print('err', file=sys.stderr)\n    return 0\n"
    result = run(code, "print('from the tests')\nassert add(1, 1) == 2\n")
    assert result.exit_code == "assertion_fail"
    assert result.stdout.startswith("outout")
    assert result.stdout.endswith("(cut off here)")
    assert len(result.stdout) < 2100
    assert result.stderr == "err\n"


def test_a_script_s_main_part_is_not_run(run):
    assert run(ADD + "if __name__ == '__main__':\n    raise SystemExit(1)\n", "add(1, 1) == 2").exit_code == "pass"


def test_the_candidate_goes_on_where_the_prompt_ends(run):
    prompt = 'import math\ndef area(r: float) -> float:\n    """Area of a circle."""'
    settings = {"prompt": prompt, "completes_prompt": True}
    assert run("    return math.pi * r ** 2", "area(1) == math.pi", **settings).exit_code == "pass"
    assert run("    return 0", "area(1) == math.pi", **settings).exit_code == "assertion_fail"
    assert run("    return math.pi", "area(1)", prompt=prompt).exit_code == "syntax_error"


def test_equal_results_whatever_the_order_and_the_number_at_once(run_all):
    bodies = ["a + b", "0", "a +", "1 / 0", "{'x', 'y', 'z', str(a)}", "[a] * 10 ** 12", "print('x' * 300000)"]
    codes = [f"def add(a, b):\n    return {body}\n" for body in bodies] + ["raise SystemExit", "import socket"]

    def told(results):
        return [(r.exit_code, r.score, r.passed, r.total, r.reason, r.assertions, r.stdout, r.stderr) for r in results]

    one_by_one = [told(run_all([code], "add(2, 2) == 4", "add(1, 2) == 3"))[0] for code in codes]
    assert told(run_all(codes, "add(2, 2) == 4", "add(1, 2) == 3")) == one_by_one
    assert told(run_all(codes[::-1], "add(2, 2) == 4", "add(1, 2) == 3"))[::-1] == one_by_one
    assert len({r[0] for r in one_by_one}) == 4


def test_the_same_program_walks_its_sets_and_its_random_numbers_the_same_way(run_all):
    code = "import random\nprint(list({'a', 'b', 'c', 'd', 'e'}), random.random())\ndef f():\n    return 1\n"
    assert len({result.stdout for result in run_all([code] * 4, "f() == 1")}) == 1
