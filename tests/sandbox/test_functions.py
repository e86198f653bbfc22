"""Foreign functions: what they give, what they break, what the caller sees; nothing is left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalframe.sandbox.foreign import CHUNK_CALLS
from evalframe.sandbox.functions import (
    BridgeError,
    Broken,
    Call,
    ForeignSource,
    FunctionPool,
    Outcome,
    Raised,
    Returned,
    SourceError,
    TimedOut,
)
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.scratch import remove_folder

POLICY = Policy(allow_unsandboxed=True)
LONG = 120.0  # seconds; no call of these tests needs it


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch) -> Iterator[None]:
    """No process, thread, descriptor or folder outlives a pool."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    threads, descriptors, children = set(threading.enumerate()), set(os.listdir("/dev/fd")), own_children()
    yield
    assert set(threading.enumerate()) <= threads
    assert set(os.listdir("/dev/fd")) <= descriptors
    assert os.listdir(folder) == []
    assert own_children() <= children  # one that ended and was not waited for is still among them


def own_children() -> set[str]:
    """The processes that this one started and has not seen the end of; other tests keep some of theirs."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for task in tasks for pid in task.read_text().split()}


def pool(source: str, *functions: str, n_workers: int = 2, files: Any = None, **settings: Any) -> FunctionPool:
    code = ForeignSource(source=source, name="grader.py", functions=functions or ("grade",), files=files or {})
    return FunctionPool(code, policy=POLICY, n_workers=n_workers, **settings)


def outcomes(source: str, *arguments: Any, seconds: float = LONG, **settings: Any) -> list[Outcome]:
    """Call ``grade`` with one argument each."""
    with pool(source, **settings) as functions:
        return list(functions.map(Call((argument,), seconds) for argument in arguments))


def one(body: str, argument: Any = None, **settings: Any) -> Outcome:
    """Give the outcome of a body of ``grade(x)`` between two calls that must go well."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    source = f"def grade(x):\n    if x != 'plain':\n{lines}\n    return 'fine'\n"
    before, outcome, after = outcomes(source, "plain", argument, "plain", **settings)
    assert before == after == Returned("fine")
    return outcome


def asked(source: str, bridge: Any, *arguments: Any, calls: int = 10, n_workers: int = 2, seconds: float = LONG) -> Any:
    with pool(source, n_workers=n_workers) as functions:
        return list(functions.map(Call((a,), seconds, True, calls, bridge) for a in arguments))


def echo(kind: str, keywords: Any) -> dict[str, Any]:
    return {"output_text": f"{kind} {json.dumps(keywords, sort_keys=True)}"}


# values


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(10**40), 0.1, 1e-300, "", "ü\u2028😀", "\ud800", [], {}, [[1], {"a": [None]}], {"k": "v" * 100}],
    ids=repr,
)
def test_plain_values_go_in_and_come_out_exactly(value):
    assert outcomes("def grade(x):\n    return [x, type(x).__name__]\n", value) == [
        Returned([value, type(value).__name__])
    ]


def test_outcomes_are_in_the_order_of_the_calls_whatever_the_workers_take():
    source = "import time\ndef grade(x):\n    time.sleep(0.02 if x % 64 == 0 else 0)\n    print(x)\n    return x * 2\n"
    for n_workers in (1, 3):
        found = outcomes(source, *range(500), n_workers=n_workers)
        assert found == [Returned(2 * number, f"{number}\n") for number in range(500)]


def test_ten_thousand_calls_are_one_compilation_a_worker_and_one_message_each():
    assert outcomes("def grade(x):\n    return x\n", *range(10_000)) == [Returned(n) for n in range(10_000)]


def test_large_arguments_and_values_pass():
    text = "x" * 3_000_000
    assert outcomes("def grade(x):\n    return x\n", *[text] * 5, {"a": text}) == [
        *[Returned(text)] * 5,
        Returned({"a": text}),
    ]


def test_numbers_of_numpy_are_numbers():
    source = (
        "import numpy as np\ndef grade(x):\n    return [np.float32(0.5), np.int64(3), np.bool_(1), np.mean([1, 2])]\n"
    )
    assert outcomes(source, 1) == [Returned([0.5, 3, True, 1.5])]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return float('nan')", "the returned value is no plain JSON: nan"),
        ("return {'scores': {'f1': float('-inf')}}", "the returned value is no plain JSON: -inf at ['scores']['f1']"),
        ("return [1, {2}]", "the returned value is no plain JSON: a value of type set at [1]"),
        ("return {(1, 2): 3}", "the returned value is no plain JSON: a key of type tuple"),
        ("return grade", "the returned value is no plain JSON: a value of type function"),
        ("a = []; a.append(a); return a", "the returned value is no plain JSON: it is nested too deeply, or holds"),
        ("a = []\nfor _ in range(100_000): a = [a]\nreturn a", "the returned value is no plain JSON: it is nested too"),
        ("return 'x' * 10_000_000", "the returned value has 10000002 bytes as JSON, over the limit of 10000000"),
        ("return bytearray(10 ** 11)", "out of memory"),
        ("return 10 ** 5000", "the returned value is no plain JSON: Exceeds the limit"),
    ],
)  # fmt: skip
def test_what_is_no_plain_value_is_broken_and_the_reason_says_where(body, reason):
    outcome = one(body)
    assert isinstance(outcome, Broken)
    assert outcome.reason.startswith(reason)


def test_nan_arrives_where_it_is_allowed():
    source = (
        "def grade(x):\n    return [float('nan'), {'a': float('-inf')}, {x}] if x else [float('nan'), float('-inf')]\n"
    )
    code = ForeignSource(source=source, name="grader.py", functions=("grade",), allow_nan=True)
    with FunctionPool(code, policy=POLICY, n_workers=1) as functions:
        given, broken = functions.map([Call((0,), LONG), Call((1,), LONG)])
    assert repr(given) == "Returned(value=[nan, -inf], stdout='')"
    assert broken == Broken("the returned value is no plain JSON: a value of type set at [2]")


def test_ten_megabytes_are_just_allowed():
    [outcome] = outcomes("def grade(x):\n    return 'x' * (10_000_000 - 2)\n", 1)
    assert isinstance(outcome, Returned)
    assert len(outcome.value) == 9_999_998


# exceptions


def test_an_exception_has_the_frames_of_the_user_alone():
    source = "import json\ndef inner(x):\n    return json.loads(x)\n\ndef grade(x):\n    return inner(x)\n"
    [outcome] = outcomes(source, "{")
    assert isinstance(outcome, Raised)
    assert (outcome.error_type, outcome.message[:9]) == ("JSONDecodeError", "Expecting")
    assert "return inner(x)" in outcome.traceback
    assert [line.strip() for line in outcome.traceback.splitlines() if "File" in line] == [
        'File "grader.py", line 6, in grade',
        'File "grader.py", line 3, in inner',
    ]


@pytest.mark.parametrize(
    ("body", "error_type", "message"),
    [
        ("raise SystemExit(3)", "SystemExit", "3"), ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit", "GeneratorExit", ""), ("input()", "EOFError", "EOF when reading a line"),
        ("return grade(x)", "RecursionError", "maximum recursion depth exceeded"),
        ("raise ValueError('y' * 10 ** 6)", "ValueError", "y" * 2000),
        ("class E(Exception):\n    def __str__(self): raise self\nraise E", "E", "(its message can not be shown)"),
        ("raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", "g (1 sub-exception)"),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_whatever_is_raised_is_an_outcome(body, error_type, message):
    outcome = one(body)
    assert isinstance(outcome, Raised)
    assert (outcome.error_type, outcome.message[: len(message)]) == (error_type, message)
    assert len(outcome.message) <= 2_000
    assert len(outcome.traceback) <= 20_000


# time


@pytest.mark.parametrize(
    "body",
    ["while True: pass", "import time; time.sleep(1e6)", "return 10 ** 10 ** 9", "while True: print('x' * 1000)",
     "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "import os\nwhile True: os.write(1, b'x' * 1000)",
     "import re; return re.match('(a+)+$', 'a' * 64 + 'b')",
     "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
     "import threading; threading.Event().wait()"],
)  # fmt: skip
def test_a_call_over_its_time_costs_itself_only(body):
    source = "def grade(x):\n    if x == 'plain': return 'fine'\n" + "\n".join(f"    {s}" for s in body.splitlines())
    with pool(source, n_workers=1) as functions:
        calls = [Call(("plain",), LONG), Call((1,), 0.3), *[Call(("plain",), LONG)] * 3]
        assert list(functions.map(calls)) == [Returned("fine"), TimedOut(0.3), *[Returned("fine")] * 3]


def test_no_clock_runs_while_the_outcomes_are_not_asked_for(monkeypatch):
    source = "def grade(x):\n    return x\n"
    with pool(source, n_workers=1) as functions:
        found = functions.map([Call((number,), 60.0) for number in range(3 * CHUNK_CALLS)])
        assert next(found) == Returned(0)
        real = __import__("time").monotonic
        monkeypatch.setattr("evalframe.sandbox.functions.time.monotonic", lambda: real() + 3600)
        assert [outcome.value for outcome in found] == list(range(1, 3 * CHUNK_CALLS))  # type: ignore[union-attr]


# processes that end


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import os; os._exit(0)", "its process ended (exit 0)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process ended (SIGKILL)"),
        ("import ctypes; ctypes.string_at(0)", "its process ended (SIGSEGV)"),
        ("import os; os.closerange(0, 256)", "its process ended (exit 1)"),
        ("import builtins\nbuiltins.len = builtins.isinstance = None", "its process ended (exit 1): TypeError"),
    ],
)  # fmt: skip
def test_a_process_that_ends_costs_one_call(body, reason):
    outcome = one(body)
    assert isinstance(outcome, Broken)
    assert outcome.reason.startswith(reason)


def test_what_is_written_to_the_channel_gains_nothing():
    source = """
import os, struct
def grade(x):
    if x == 'plain': return 'fine'
    for number in range(3, 20):
        try:
            os.write(number, struct.pack('>I', len(x)) + x.encode())
        except OSError:
            pass
    return 'returned'
"""
    forged = ['["returned", 2, "forged", ""]', '["returned", 0, "forged", ""]', "[", "null", '["began", 1]',
              '["ask", 1, 1, "responses_create", {"input": 1}]', '["up", {}]', '["broken", 1, 2, 3]',
              "[" * 100_000]  # fmt: skip
    arguments = [argument for text in forged for argument in ("plain", text)]
    found = outcomes(source, *arguments, "plain", n_workers=1)
    assert found[0::2] == [Returned("fine")] * (len(forged) + 1)
    assert isinstance(found[1], Broken)
    assert not any("forged" in str(outcome) for outcome in found)


def test_a_call_that_forks_does_not_answer_twice():
    source = "import os\ndef grade(x):\n    try:\n        os.fork()\n    except OSError:\n        pass\n    return x\n"
    assert outcomes(source, *range(5), n_workers=1) == [Returned(number) for number in range(5)]


# state


def test_globals_begin_anew_in_each_chunk_for_any_number_of_workers():
    source = "import random\nseen = []\ndef grade(x):\n    seen.append(x)\n    return len(seen)\n"
    found = [outcomes(source, *range(3 * CHUNK_CALLS), n_workers=n) for n in (1, 2, 4)]
    assert found[0] == found[1] == found[2]
    assert found[0] == [Returned(1 + number % CHUNK_CALLS) for number in range(3 * CHUNK_CALLS)]


def test_files_begin_anew_in_each_chunk_also_those_that_are_hard_to_remove():
    source = """
import os
def grade(x):
    os.makedirs(f"deep/{x}")
    os.mkdir(f"deep/{x}/er", 0)
    os.symlink("/", f"deep/{x}/root")
    if x % 32 == 5:
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(os.environ["TMPDIR"])
    return len(os.listdir("deep")) + len(os.listdir("."))
"""
    found = [outcome.value for outcome in outcomes(source, *range(3 * CHUNK_CALLS), n_workers=1)]  # type: ignore[union-attr]
    assert found == [2 + number % CHUNK_CALLS + (number % CHUNK_CALLS >= 5) for number in range(3 * CHUNK_CALLS)]


def test_random_is_seeded_by_the_call():
    source = "import random, numpy\ndef grade(x):\n    return [random.random(), float(numpy.random.rand())]\n"
    with pool(source) as functions:
        found = list(functions.map(Call((1,), LONG, seed=number % 2) for number in range(8)))
    assert found[0::2] == [found[0]] * 4
    assert found[1::2] == [found[1]] * 4
    assert found[0] != found[1]


def test_patches_do_not_harm_the_answers():
    source = """
import json, sys, builtins
json.dumps = json.loads = lambda *a, **k: "patched"
json.JSONEncoder = None
sys.stdout = sys.stderr = None
builtins.print = lambda *a: None
sys.modules["json"] = sys.modules["struct"] = None
def grade(x):
    sys.modules.clear()
    return {"x": x}
"""
    assert outcomes(source, 1, 2) == [Returned({"x": 1}), Returned({"x": 2})]


def test_what_is_printed_is_kept_up_to_a_limit():
    [outcome] = outcomes(
        "import sys\ndef grade(x):\n    print('x' * 100_000)\n    sys.stdout.close()\n    return x\n", 1
    )
    assert isinstance(outcome, Returned)
    assert outcome.stdout == "x" * 65_536 + "… (cut off here)"


def test_limits_of_the_system_are_set():
    source = """
import resource
def grade(x):
    return [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in x]
"""
    [outcome] = outcomes(source, ["AS", "FSIZE", "NOFILE", "CORE", "NPROC"], memory_bytes=10**9)
    assert isinstance(outcome, Returned)
    *sizes, processes = outcome.value
    assert sizes == [[10**9] * 2, [POLICY.limits.code_file_bytes] * 2, [256] * 2, [0, 0]]
    assert 512 <= processes[0] == processes[1] < 10**6


def test_the_environment_names_the_files_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "do-not-tell")
    words = tmp_path / "words.txt"
    words.write_text("one two")
    source = """
import json, os
def grade(x):
    files = json.loads(os.environ["EVALFRAME_FILES"])
    return [open(files["file_words"]).read(), sorted(files), "SECRET_TOKEN" in str(dict(os.environ)), os.listdir()]
"""
    assert outcomes(source, 1, files={"file_words": words}) == [Returned(["one two", ["file_words"], False, []])]


# the source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def grade(sample, item): pass", ("grade", 2)), ("def grade(sample, item, ctx): pass", ("grade", 3)),
        ("def grade(sample, item, ctx=None): pass", ("grade", 3)),
        ("def grade(sample, item, *, ctx): pass", ("grade", 3)),
        ("def grade(sample, item, weight=2): pass", ("grade", 2)), ("def grade(*all): pass", ("grade", 255)),
        ("grade = len", ("grade", 1)), ("def other(a): pass\ndef grade(a, b): pass", ("grade", 2)),
        ("def other(a): pass\ngrade = 3", ("other", 1)),
        ("class G:\n    def __call__(self, sample, item): pass\ngrade = G()", ("grade", 2)),
    ],
)  # fmt: skip
def test_the_signature(source, expected):
    with pool(source, "grade", "other") as functions:
        assert functions.signature() == functions.signature() == expected


@pytest.mark.parametrize(
    "header",
    ["sample, ctx", "sample, ctx=None", "sample, *, ctx", "sample, weight=1, ctx=None", "*all", "sample, context"],
)
def test_the_context_is_passed_by_name_or_last(header):
    name = "all[1]" if header == "*all" else "context" if "context" in header else "ctx"
    source = f"def grade({header}):\n    return {name}.responses_create(input='hi')['output_text']\n"
    assert asked(source, echo, 1) == [Returned('responses_create {"input": "hi", "model": "auto"}')]


@pytest.mark.parametrize(
    ("source", "rule", "shown"),
    [
        ("def grade(:\n", "does_not_compile", "SyntaxError: invalid syntax (grader.py, line 1) -> correct the source"),
        ("x = '\0'", "does_not_compile", "null bytes"), ("(" * 5000 + ")" * 5000, "does_not_compile", "-> correct the"),
        ("def other(): pass", "no_function", "it defines no function grade() -> define it at the top level"),
        ("grade = 1", "no_function", "it defines no function grade()"),
        ("import no_such_module", "fails_at_load", "ModuleNotFoundError: No module named 'no_such_module' -> what st"),
        ("raise SystemExit", "fails_at_load", "SystemExit"),
        ("import os; os._exit(3)", "fails_at_load", "its process ended (exit 3)"),
        ("while True: pass", "fails_at_load", "running it took over 0.5 s"),
        ("import os\ntold = b'[\"unfit\", \"other\", \"E\", \"\", \"\"]'\nfor n in range(3, 20):\n"
         "    try: os.write(n, len(told).to_bytes(4, 'big') + told)\n    except OSError: pass",
         "fails_at_load", "no answer"),
        ("import os\nfor n in range(20):\n    try: os.write(n, b'\\0\\0\\0\\1x')\n    except OSError: pass",
         "fails_at_load", "no answer"),
    ],
)  # fmt: skip
def test_a_source_that_can_not_be_used_says_why_in_signature_and_in_map(source, rule, shown):
    for use in (FunctionPool.signature, lambda functions: list(functions.map([Call((1,), LONG)]))):
        load_seconds = 0.5 if "while" in source else LONG
        with pool(source, load_seconds=load_seconds) as functions, pytest.raises(SourceError) as caught:
            use(functions)
        assert caught.value.rule == rule
        assert shown in str(caught.value)
        assert "grader.py" in str(caught.value)


def test_the_traceback_of_a_source_that_fails_is_shown():
    with pool("def inner():\n    return 1 / 0\nx = inner()\n") as functions, pytest.raises(SourceError) as caught:
        functions.signature()
    assert 'File "grader.py", line 2, in inner' in str(caught.value)
    assert "function_calls" not in str(caught.value)


def test_a_source_that_fails_only_later_costs_the_calls_it_was_for(tmp_path):
    # it is run anew for each chunk; the first run of each process goes well
    source = (
        "import sys\nif hasattr(sys, 'seen'): raise ValueError('second time')\nsys.seen = 1\ndef grade(x): return x\n"
    )
    found = outcomes(source, *range(2 * CHUNK_CALLS), n_workers=1)
    assert [n for n, outcome in enumerate(found) if outcome != Returned(n)] == [CHUNK_CALLS]
    assert isinstance(failed := found[CHUNK_CALLS], Raised)
    assert (failed.error_type, failed.message) == ("ValueError", "second time")


# the bridge


def test_many_workers_ask_at_once():
    barrier = threading.Barrier(8)

    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        barrier.wait(LONG)
        return {"output_text": keywords["input"]}

    source = "def grade(x, ctx):\n    return ctx.responses_create(input=x)['output_text']\n"
    assert asked(source, bridge, *"abcdefgh", n_workers=8) == [Returned(letter) for letter in "abcdefgh"]


def test_threads_of_one_call_ask_at_once():
    barrier = threading.Barrier(8)

    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        barrier.wait(LONG)
        return {"output_text": keywords["input"] * 2}

    source = """
from concurrent.futures import ThreadPoolExecutor
def grade(x, ctx):
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda n: ctx.responses_create(input=n)["output_text"], range(16)))
"""
    assert asked(source, bridge, 1, calls=16) == [Returned([2 * number for number in range(16)])]


def test_all_keywords_arrive_and_both_verbs():
    source = """
def grade(x, ctx):
    return [ctx.responses_create("m", input=[{"role": "user"}], instructions="be", temperature=0.5)["output_text"],
            ctx.embeddings_create(input=["a", "b"])["output_text"]]
"""
    assert asked(source, echo, 1) == [
        Returned([
            'responses_create {"input": [{"role": "user"}], "instructions": "be", "model": "m", "temperature": 0.5}',
            'embeddings_create {"input": ["a", "b"], "model": "auto"}',
        ])
    ]  # fmt: skip


def test_the_clock_stops_while_the_bridge_is_waited_for():
    asked_first, may_answer = threading.Event(), threading.Event()

    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        if keywords["input"] == "slow":
            asked_first.set()
            assert may_answer.wait(LONG)
        else:  # the other call has been over its time by then
            assert asked_first.wait(LONG)
        return {}

    source = """
def grade(x, ctx):
    ctx.responses_create(input=x)
    while x == "endless": pass
    return x
"""
    with pool(source) as functions:
        found = functions.map([Call(("endless",), 1.0, True, 1, bridge), Call(("slow",), 1.0, True, 1, bridge)])
        assert next(found) == TimedOut(1.0)
        may_answer.set()
        assert next(found) == Returned("slow")


def test_one_model_call_too_many_raises_inside_and_is_not_made():
    made: list[Any] = []

    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        made.append(keywords)
        return {}

    source = "def grade(x, ctx):\n    for n in range(501): ctx.responses_create(input=n)\n"
    [outcome] = asked(source, bridge, 1, calls=500)
    assert isinstance(outcome, Raised)
    assert (outcome.error_type, outcome.message) == (
        "RuntimeError", "ctx.responses_create: over 500 model calls in one call (max_model_calls)",
    )  # fmt: skip
    assert len(made) == 500


def test_a_call_around_the_limit_is_not_made_either():
    made: list[Any] = []

    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        made.append(keywords)
        return {}

    source = "def grade(x, ctx):\n    ctx._most = 10 ** 9\n    for n in range(9): ctx.responses_create(input=n)\n"
    assert asked(source, bridge, 1, calls=3) == [Broken("its process sent what is no answer to the call")]
    assert len(made) == 3


def test_without_a_bridge_a_call_raises_and_says_why():
    source = "def grade(x, ctx):\n    return ctx.embeddings_create(input='a')\n"
    [outcome] = asked(source, None, 1)
    assert isinstance(outcome, Raised)
    assert (outcome.error_type, outcome.message) == (
        "RuntimeError", "ctx.embeddings_create: no model can be called here, as nothing gives access to one",
    )  # fmt: skip


def test_an_error_of_the_bridge_is_raised_inside_and_can_be_caught():
    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        raise BridgeError("the judge is down")

    source = """
def grade(x, ctx):
    try:
        ctx.responses_create(input=1)
    except RuntimeError as error:
        return str(error)
"""
    assert asked(source, bridge, 1, 2) == [Returned("ctx.responses_create: the judge is down")] * 2


def test_a_mistake_in_the_bridge_is_the_callers():
    def bridge(kind: str, keywords: Any) -> dict[str, Any]:
        raise LookupError("a mistake")

    with pytest.raises(LookupError, match="a mistake"):
        asked("def grade(x, ctx):\n    ctx.responses_create(input=1)\n", bridge, 1)


def test_a_thread_that_outlives_its_call_asks_in_vain():
    source = """
import threading, queue
errors = queue.Queue()
def late(ctx, begin):
    begin.wait()
    try:
        ctx.responses_create(input=1)
    except RuntimeError as error:
        errors.put(str(error))
def grade(x, ctx):
    begin = threading.Event()
    thread = threading.Thread(target=late, args=(ctx, begin))
    thread.start()
    ctx._end()
    begin.set()
    return errors.get()
"""
    assert asked(source, echo, 1) == [Returned("ctx.responses_create: the call that ctx was given to is over")]


# the caller


def test_an_interrupt_of_the_caller_ends_everything():
    def calls() -> Iterator[Call]:
        yield from [Call((number,), LONG) for number in range(4 * CHUNK_CALLS)]
        raise KeyboardInterrupt

    with pool("import time\ndef grade(x):\n    time.sleep(0.001)\n    return x\n") as functions:
        with pytest.raises(KeyboardInterrupt):
            list(functions.map(calls()))
        assert list(functions.map([Call((7,), LONG)])) == [Returned(7)]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_caller_that_is_ended_leaves_no_process(number):
    program = """
from evalframe.sandbox.functions import Call, ForeignSource, FunctionPool
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.scratch import remove_folder
source = "import os\\ndef grade(x):\\n    while x: pass\\n    return [os.getpid(), os.getppid()]\\n"
code = ForeignSource(source=source, name="grader.py", functions=("grade",))
with FunctionPool(code, policy=Policy(allow_unsandboxed=True), n_workers=1) as functions:
    for outcome in functions.map([Call((0,), 120.0), Call((1,), 120.0)]):
        print(*outcome.value, flush=True)
"""
    caller = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
    )  # fmt: skip
    with caller:
        assert caller.stdout is not None
        handles = [os.pidfd_open(int(pid)) for pid in caller.stdout.readline().split()]
        caller.send_signal(number)
        assert caller.wait(LONG) != 0
    for handle in handles:
        assert select.select([handle], [], [], LONG)[0], "a process goes on"
        os.close(handle)
    if number != signal.SIGINT:  # nobody is there to remove it
        remove_folder(next(Path(tempfile.gettempdir()).glob("evalframe-*")))


def test_outcomes_that_nobody_reads_end_their_workers():
    source = "def grade(x):\n    while x: pass\n    return x\n"
    with pool(source) as functions:
        found = functions.map([Call((0,), LONG), *[Call((1,), LONG)] * CHUNK_CALLS])
        assert next(found) == Returned(0)
        with pytest.raises(RuntimeError, match="in use"):
            next(functions.map([Call((0,), LONG)]))
        found.close()  # type: ignore[attr-defined]
        assert list(functions.map([Call((0,), LONG)])) == [Returned(0)]


def test_arguments_that_are_no_json_are_the_callers_mistake():
    calls = [Call((1,), LONG), Call(({2},), LONG)]
    with pool("def grade(x):\n    return x\n") as functions, pytest.raises(TypeError, match="call 1 are no plain JSON"):
        list(functions.map(calls))


def test_no_calls_start_no_worker():
    with pool("this is no Python") as functions:
        assert list(functions.map([])) == []


def test_processes_that_leave_their_session_are_ended(tmp_path):
    told = tmp_path / "told"
    told.touch(0o666)
    source = """
import os, signal
def grade(path):
    try:
        if os.fork() == 0:
            os.setsid()
            while True: signal.pause()
    except OSError as error:
        return "refused"
    return "left"
"""
    assert outcomes(source, str(told)) in ([Returned("left")], [Returned("refused")])


def test_the_paths_of_installed_packages_are_there_and_nothing_of_the_caller():
    [outcome] = outcomes("import sys, polars\ndef grade(x):\n    return sys.path\n", 1)
    assert isinstance(outcome, Returned)
    assert str(Path(__file__).parent) not in outcome.value
    assert "" not in outcome.value
