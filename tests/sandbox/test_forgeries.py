"""Ways to pass without being right. Each must fail, and each right program beside them must pass."""

from __future__ import annotations

import pytest

from evalframe.limits import Limits
from evalframe.sandbox.launch import run_jobs
from tests.sandbox.jobs import job

TESTS = ("assert add(2, 2) == 4\n", "add(20, 22) == 42")

FORGERIES = {
    "exit at import": "import sys\ndef add(a, b): return 0\nsys.exit(0)\n",
    "exit in the function": "import sys\ndef add(a, b): sys.exit(0)\n",
    "SystemExit in the function": "def add(a, b): raise SystemExit\n",
    "SystemExit at exit": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b): raise SystemExit\n",
    "KeyboardInterrupt": "def add(a, b): raise KeyboardInterrupt\n",
    "os._exit": "import os\ndef add(a, b): os._exit(0)\n",
    "os._exit at import": "import os\nos._exit(0)\n",
    "SIGKILL to itself": "import os, signal\ndef add(a, b): os.kill(os.getpid(), signal.SIGKILL)\n",
    "always equal": "class E:\n    def __eq__(self, o): return True\n    def __bool__(self): return True\n"
                    "def add(a, b): return E()\n",
    "always equal class": "class M(type):\n    def __eq__(self, o): return True\n    __hash__ = type.__hash__\n"
                          "class E(metaclass=M): pass\ndef add(a, b): return E\n",
    "int subclass": "class I(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
                    "def add(a, b): return I(7)\n",
    "int subclass in a list": "class L(list):\n    def __eq__(self, o): return True\ndef add(a, b): return L()\n",
    "printed verdict": "import sys\ndef add(a, b):\n    for s in (sys.stdout, sys.stderr):\n"
                       "        print('[\"end\", \"pass\"]\\npassed\\nOK', file=s)\n    return 0\n",
    "patched json": "import json\njson.dumps = lambda *a, **k: '[\"ok\", 1, 4]'\njson.loads = lambda *a, **k: 4\n"
                    "def add(a, b): return 0\n",
    "patched builtins": "import builtins\nbuiltins.AssertionError = ValueError\nbuiltins.bool = lambda x: True\n"
                        "builtins.type = lambda x: int\n"
                        "builtins.isinstance = lambda *a: True\ndef add(a, b): return 0\n",
    "patched sys.modules": "import sys\nsys.modules.clear()\ndef add(a, b): return 0\n",
    "closed stdout": "import sys\nsys.stdout = None\nsys.stderr.close()\ndef add(a, b): return 0\n",
    "AssertionError": "def add(a, b): raise AssertionError\n",
    "own names of the ledger": "class __evalframe__:\n    open = staticmethod(lambda n: False)\n"
                               "__evalframe_error__ = None\ndef add(a, b): return 0\n",
    "own check": "def check(c): pass\ndef add(a, b): return 0\n",
    "true": "def add(a, b): return True\n",
    "float nan": "def add(a, b): return float('nan')\n",
    "nothing": "",
    "import of the internals": "import inside.testing, inside.assertions\n"
                               "inside.assertions.Ledger.failed = inside.assertions.Ledger.held\n"
                               "inside.testing.Opaque.__eq__ = lambda s, o: True\ndef add(a, b): return object()\n",
    "a forked child answers": "import os\ndef add(a, b):\n    if os.fork(): os._exit(0)\n    return 0\n",
    "closed descriptors": "import os\ndef add(a, b):\n    os.closerange(0, 64)\n    return 4\n",
    "open sockets written": "import os\nfor fd in range(3, 64):\n"
                            "    try: os.write(fd, b'\\0\\0\\0\\x10[\"end\",\"\",\"pass\"]')\n"
                            "    except OSError: pass\ndef add(a, b): return a + b\n",
    "end of the supervisor": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\ndef add(a, b): return a + b\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def forged():
    from evalframe.sandbox.policy import Policy
    from evalframe.sandbox.verdict import CodeTask, run_code

    tasks = [CodeTask(candidate=code, tests=TESTS, timeout_seconds=2) for code in FORGERIES.values()]
    return dict(zip(FORGERIES, run_code(tasks, policy=Policy(allow_unsandboxed=True)), strict=True))


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_does_not_pass(forged, name):
    result = forged[name]
    assert result.exit_code in ("assertion_fail", "error")
    assert result.score == 0.0


@pytest.mark.parametrize(
    "name",
    ["exit at import", "exit in the function", "SystemExit in the function", "SystemExit at exit", "KeyboardInterrupt",
     "os._exit", "os._exit at import", "SIGKILL to itself", "closed descriptors", "open sockets written"],
)  # fmt: skip
def test_ending_early_is_told_as_such(forged, name):
    assert forged[name].exit_code == "error"
    assert forged[name].reason.startswith("the tests did not complete: ")


def test_the_worker_can_not_be_ended_from_inside_and_without_walls_its_end_is_no_pass(forged):
    name = "end of the supervisor"
    assert "PermissionError" in forged[name].reason
    walls = ("seccomp", "landlock", "namespaces", "non_root")
    jobs = [job(FORGERIES[name], *TESTS), job("def add(a, b): return a + b\n", *TESTS)]
    ended, replaced = run_jobs(jobs, limits=Limits(), at_once=1, without=walls)
    assert ended.ended == "gone"
    assert replaced.end[0] == "pass"


def test_an_answer_written_ahead_fits_no_question(run):
    code = """
import gc, json, struct
def add(a, b):
    for found in gc.get_objects():
        if type(found).__name__ == "Peer":
            for number in range(100):
                body = json.dumps(["ok", number, ["t", 4, ["d"]]]).encode()
                found._writer.write(struct.pack(">I", len(body)) + body)
            found._writer.flush()
    return 0
"""
    result = run(code, *TESTS)
    assert result.exit_code == "error"
    assert result.reason.endswith("the candidate answered a question that was not asked")


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, "nonsense", '["ok"]', '{"ok": 1}', "NaN", '["ask", 1, "callback", [["r", 0]]]',
     '["ask", 1, "eval", ["1"]]', '["raised", "x", 1, 2]', '["ok", "x", ["i", "zz"]]'],
    ids=["depth", "no JSON", "short", "object", "NaN", "unknown callback", "unknown operation", "raised", "bad int"],
)  # fmt: skip
def test_hostile_messages_end_the_execution_with_an_error(run, body):
    code = f"""
import gc, struct
def add(a, b):
    body = {body!r}.encode()
    for found in gc.get_objects():
        if type(found).__name__ == "Peer":
            found._writer.write(struct.pack(">I", len(body)) + body)
            found._writer.flush()
    return a + b
"""
    result = run(code, *TESTS)
    assert (result.exit_code, result.score) == ("error", 0.0)


def test_the_expected_values_are_nowhere_in_the_candidate_s_process(run):
    code = """
import gc, sys
def seen():
    texts = [repr(o) for o in gc.get_objects() if isinstance(o, (str, bytes, list, dict, tuple, set))]
    frame = sys._getframe()
    while frame:
        texts.append(repr(frame.f_locals) + repr(frame.f_globals))
        frame = frame.f_back
    return any("".join(["needle", "_7351"]) in text for text in texts)
def secret():
    return ""
"""
    result = run(code, "secret() != 'needle_7351'", "seen() == False")
    assert result.exit_code == "pass"


def test_a_helper_of_the_tests_can_not_be_redefined(run):
    code = "def encode(s): return s\ndef sorted(x): return [1, 2]\ndef decode(s): return s\ndef f(): return [9, 9]\n"
    setup = "def encode(s):\n    return s[::-1]\n"
    assert run(code, "decode(encode('ab')) == 'ab'", setup_code=setup).exit_code == "assertion_fail"
    assert run(code, "sorted(f()) == [1, 2]").exit_code == "assertion_fail"
    prompt = setup + "def decode(s):\n    '''Undo encode.'''\n"
    settings = {"prompt": prompt, "completes_prompt": True}
    forged = "    return s\ndef encode(s): return s\n"
    assert run(forged, "decode(encode('ab')) == 'ab'", **settings).exit_code == "assertion_fail"
    assert run("    return s[::-1]\n", "decode(encode('ab')) == 'ab'", **settings).exit_code == "pass"


def test_a_library_that_the_candidate_patched_is_not_the_tests_library(run):
    code = "import math\nmath.isclose = lambda *a: True\ndef f(): return 7.0\n"
    assert run(code, "math.isclose(f(), 1.0)").exit_code == "assertion_fail"
    assert run(code, "math.isclose(f(), 7.0)").exit_code == "pass"


def test_a_bare_except_in_the_tests_does_not_hide_an_early_end(run):
    tests = "try:\n    add(1, 1)\nexcept:\n    pass\nassert True\n"
    result = run("def add(a, b): raise SystemExit\n", tests)
    assert (result.exit_code, result.score) == ("error", 0.0)
    result = run("import os\ndef add(a, b): os._exit(0)\n", tests)
    assert (result.exit_code, result.score) == ("error", 0.0)


def test_no_object_of_the_candidate_is_true_equal_or_ordered(run):
    code = """
class Any:
    def __eq__(self, o): return True
    def __ne__(self, o): return False
    def __lt__(self, o): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __bool__(self): return True
    def __contains__(self, o): return Any()
    def __len__(self): return Any()
    def __str__(self): return 'x'
def f(): return Any()
"""
    tests = ["f()", "f() == 4", "f() == f()", "f() < 4", "f() >= 4", "4 in f()", "len(f()) > 0", "f() in [1, 2]",
             "not (f() != 4)", "f() is None", "isinstance(f(), int)"]  # fmt: skip
    result = run(code, *tests)
    assert {a.test: a.outcome for a in result.assertions if a.outcome != "failed"} == {}
