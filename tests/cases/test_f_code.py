"""Cases from the field: generated code and its verdict."""

from __future__ import annotations

import json
import os
import resource
import sys
import time

import polars as pl

from evalframe.extractors import extract
from evalframe.limits import Limits
from evalframe.metrics.code import CODE_EXEC
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.verdict import CodeResult, CodeTask, run_code

POLICY = Policy(allow_unsandboxed=True)
TEST = "assert add(2,2)==4\n"


def run(*programs: str, policy: Policy = POLICY, timeout_seconds: float | None = None) -> list[CodeResult]:
    tasks = [CodeTask(candidate=program, tests=(TEST,), timeout_seconds=timeout_seconds) for program in programs]
    return run_code(tasks, policy=policy)


def own_memory() -> int:
    """The most memory that this process has had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def test_C083_ending_itself_before_the_tests_is_no_pass():
    results = run(
        "import sys\ndef add(a,b): return 0\nsys.exit(0)\n",
        "import os\ndef add(a,b): os._exit(0)\n",
        "def add(a,b): raise SystemExit\n",
        "import signal,os\ndef add(a,b): os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert [result.exit_code for result in results] == ["error"] * 4
    assert [result.score for result in results] == [0.0] * 4
    assert all(result.reason.startswith("the tests did not complete") for result in results)


def test_C084_what_runs_inside_c_code_is_ended_from_outside():
    before, started = own_memory(), time.monotonic()
    bomb, loop, power, sleep = run(
        "import itertools\ndef add(a,b): return list(itertools.product(range(99),repeat=9))\n",
        "def add(a,b):\n    while True: pass\n",
        "def add(a,b): return 10**10**9\n",
        "import time\ndef add(a,b): time.sleep(1e6)\n",
    )
    assert bomb.exit_code == "timeout" or "MemoryError" in bomb.reason
    assert [result.exit_code for result in (loop, power, sleep)] == ["timeout"] * 3
    assert {result.score for result in (bomb, loop, power, sleep)} == {0.0}
    assert time.monotonic() - started < 60  # a guard against hanging
    assert own_memory() - before < 50 << 20


def test_C086_endless_printing_is_cut_and_said():
    before = own_memory()
    limits = Limits(code_output_bytes=1_000_000)
    program = "def add(a,b):\n    while True: print('x'*100000)\n"
    [result] = run(program, policy=Policy(allow_unsandboxed=True, limits=limits), timeout_seconds=5)
    assert (result.exit_code, result.score) == ("error", 0.0)
    assert result.reason == "output overflow: over 1000000 bytes"
    assert len(result.stdout) <= 1_000_000
    assert result.stdout.endswith("(cut off here)")
    assert own_memory() - before < 50 << 20


def test_C088_secrets_and_the_caller_are_out_of_reach(monkeypatch):
    # what holds today: an empty environment, processes of its own, an opt-in, a clear word on what is open. Walls
    # around files and the network are not there yet, so they are not tried, and strict refuses (tests/sandbox)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HF_TOKEN", "hf-secret")
    before = (os.getcwd(), dict(os.environ), set(sys.modules))
    secrets = "import os\nk=[v for n,v in os.environ.items() if 'KEY' in n or 'TOKEN' in n]\n"
    leaked, socket, scratch = run(
        secrets + "def add(a,b): return 4 if not k else 0\n",
        secrets + "import socket; s=socket.create_connection(('127.0.0.1',9),1)\ndef add(a,b): return 4\n",
        secrets + "open('pwned.txt','w').write('x')\ndef add(a,b): return 4\n",
    )
    assert leaked.exit_code == "pass"
    assert (socket.exit_code, "is denied in the sandbox" in socket.reason) == ("error", True)
    assert scratch.exit_code == "pass"
    assert not os.path.exists("pwned.txt")
    assert (os.getcwd(), dict(os.environ), set(sys.modules)) == before


def test_C090_standard_input_is_empty():
    [result] = run("n=input('n? ')\ndef add(a,b): return a+b\n")
    assert (result.exit_code, result.score) == ("error", 0.0)
    assert "EOFError" in result.reason


def test_C092_a_small_clock_and_a_busy_machine_do_not_fail_right_programs():
    results = run(*["def add(a,b): return a+b\n"] * 64)
    assert [result.exit_code for result in results] == ["pass"] * 64
    [slow] = run("def add(a,b):\n    while True: pass\n", timeout_seconds=0.3)
    assert slow.exit_code == "timeout"  # an outcome of its own


def test_C093_the_first_closed_fence_is_the_code():
    outputs = [
        "Sure!\n```python\ndef add(a, b):\n    return a + b\n```\nEnjoy.",
        "```\ndef add(a, b):\n    return a + b",
        "def add(a, b):\n    return a + b",
        "```python\nadd(1, 2)\n```\nFull version:\n```python\ndef add(a, b):\n    return a + b\n```",
    ]
    config = {"type": "post_process", "rule": "extract_code_block"}
    answers = extract(pl.Series("output_text", outputs), config)
    assert answers["extracted_output"].is_null().to_list() == [False, True, False, False]
    assert len(set(answers["extraction_rule"][:4])) == 4  # each says which rule applied
    frame = answers.drop_nulls("extracted_output").select(
        prediction="extracted_output", targets=pl.lit(TEST).implode(), prompt=pl.lit(""), row=pl.lit("{}"),
        metadata=pl.lit("{}"), extraction=pl.lit(json.dumps(config)),
    )  # fmt: skip
    assert CODE_EXEC.measure(frame, policy=POLICY)["score"].to_list() == [1.0, 1.0, 0.0]


def test_C094_what_does_not_compile_is_counted_and_explained():
    [result] = run("def add(a,b) return a+b\n")
    assert (result.exit_code, result.score, result.passed, result.total) == ("syntax_error", 0.0, 0, 1)
    assert result.reason.startswith("SyntaxError, line 1")
