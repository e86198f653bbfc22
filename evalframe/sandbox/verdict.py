"""Code tasks and their results: what is run, and what came of it, always in one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from evalframe.errors import Fault, OptionError
from evalframe.limits import Limits
from evalframe.sandbox.launch import run_jobs
from evalframe.sandbox.policy import Policy, require_walls
from evalframe.sandbox.watching import Job, Report

ExitCode = Literal["pass", "assertion_fail", "syntax_error", "timeout", "error"]
Outcome = Literal["passed", "failed", "not_reached"]

EXCERPT_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTask:
    """One candidate and its tests.

    Attributes:
        candidate: The generated code; with ``completes_prompt`` it is run behind the prompt and a newline.
        tests: Python expressions (true passes) or test code (each ``assert`` statement is counted), run in order in
            one name space. They see the candidate's functions by name.
        setup_code: Trusted helper code that only the tests see.
        prompt: What the model was asked; used with ``completes_prompt``, and then its helper functions are trusted.
        completes_prompt: Whether the candidate goes on where the prompt ends.
        entry_point: The name of the function under test; needed where ``check(candidate)`` is defined and not called.
        timeout_seconds: The candidate's clock over all assertions together, over 0; None: the limit's default, 3 s.
    """

    candidate: str
    tests: tuple[str, ...]
    setup_code: str = ""
    prompt: str = ""
    completes_prompt: bool = False
    entry_point: str = ""
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Assertion:
    """One assertion: the ``assert`` statement or expression as text, what became of it, and why."""

    test: str
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """What came of one execution.

    Attributes:
        exit_code: ``pass``: every assertion held; ``assertion_fail``: it ran and one did not; ``syntax_error``: it did
            not compile; ``timeout``: the clock was over; ``error``: anything else.
        score: passed / total for the first two, else 0.
        passed: Assertions that held, also where the score is 0.
        total: Assertions; 0 where the tests have none or can not be used.
        reason: Why it is no pass, in a line; empty for a pass.
        assertions: One by one; after an output overflow all are ``not_reached``.
        stdout, stderr: The beginning of what was printed, tests included, with a note where more was cut off.
        seconds: Of the candidate's clock; 0 where nothing was run.
        verdict: How it was judged: ``split``: tests and candidate in two processes.
    """

    exit_code: ExitCode
    score: float
    passed: int
    total: int
    reason: str
    assertions: tuple[Assertion, ...] = ()
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    verdict: str = "split"


def run_code(tasks: Sequence[CodeTask], *, policy: Policy) -> list[CodeResult]:
    """Run generated code against its tests, each task in fresh processes, as many at once as there are cores.

    Nothing runs in this process. What the tests compare are plain values of exact types that the candidate's process
    sent; a candidate that ends early, prints a verdict or returns always-equal objects does not pass.

    Both processes stand behind the walls that this machine has: they read the Python installation and write a scratch
    folder, have no network and start no process. What is missing (``missing_layers``) is missing for them too.

    Args:
        tasks: Any number.
        policy: Which walls have to stand; ``limits`` has the numbers.

    Returns:
        A result for each task, in their order. Neither the order nor the number of executions at once changes one.

    Raises:
        SandboxError: Before anything runs: the policy asks for walls that are not there, or does not allow to go on
            without them; Windows.
        OptionError: Before anything runs: names every task with a bad clock or entry point.
    """
    if not tasks:
        return []
    require_walls(policy, what="generated code")
    if faults := [fault for place, task in enumerate(tasks) for fault in task_faults(task, f"tasks[{place}]", policy)]:
        raise OptionError.of(faults, what="code tasks")
    limits = policy.limits
    asked = [place for place, task in enumerate(tasks) if task.tests]
    reports = run_jobs([_job(tasks[place], limits) for place in asked], limits=limits)
    seen = dict(zip(asked, reports, strict=True))
    return [
        _result(seen[place], _clock(task, limits), limits) if place in seen else _nothing_to_run()
        for place, task in enumerate(tasks)
    ]


def task_faults(task: CodeTask, where: str, policy: Policy) -> list[Fault]:
    """List what is wrong with the numbers and names of a task."""
    faults = []
    seconds, most = task.timeout_seconds, policy.limits.code_timeout_seconds_max
    if seconds is not None and not 0 < seconds <= most:
        faults.append(Fault(f"{where}.timeout_s", "bad_value", f"{seconds!r} is not over 0 and at most {most:g}"))
    if task.entry_point and not task.entry_point.isidentifier():
        faults.append(Fault(f"{where}.entry_point", "bad_value", f"{task.entry_point!r} is not a function's name"))
    return faults


def _clock(task: CodeTask, limits: Limits) -> float:
    return limits.code_timeout_seconds if task.timeout_seconds is None else task.timeout_seconds


def _job(task: CodeTask, limits: Limits) -> Job:
    candidate = f"{task.prompt}\n{task.candidate}" if task.completes_prompt else task.candidate
    told = {
        "candidate": candidate, "tests": list(task.tests), "setup_code": task.setup_code, "prompt": task.prompt,
        "completes_prompt": task.completes_prompt, "entry_point": task.entry_point,
    }  # fmt: skip
    return Job(told, _clock(task, limits))


def _nothing_to_run() -> CodeResult:
    return CodeResult(exit_code="error", score=0.0, passed=0, total=0, reason="no assertions: the task has no tests")


def _result(report: Report, clock: float, limits: Limits) -> CodeResult:
    every = list(range(len(report.plan)))
    exit_code, reason, counted = {
        "verdict": report.end,
        "timeout": ("timeout", f"over {clock:g} s", every),
        "overflow": ("error", f"output overflow: over {limits.code_output_bytes} bytes", every),
        "gone": ("error", "the tests did not complete: a process of the sandbox was ended from inside", every),
    }[report.ended]
    if report.ended in ("overflow", "gone"):
        report.outcomes.clear()  # how far it came until it was seen is another thing each time
    assertions = tuple(_assertion(report, number, reason) for number in counted)
    passed = sum(assertion.outcome == "passed" for assertion in assertions)
    known = exit_code if exit_code in get_args(ExitCode) else "error"
    if known == "pass" and not 0 < passed == len(assertions):  # never on the word of one side alone
        known, reason = "error", "the verdict does not fit the assertions"
    return CodeResult(
        exit_code=known,  # type: ignore[arg-type]
        score=passed / len(assertions) if known in ("pass", "assertion_fail") and assertions else 0.0,
        passed=passed, total=len(assertions), reason=reason, assertions=assertions,
        stdout=_excerpt(report.output["stdout"]), stderr=_excerpt(report.output["stderr"]), seconds=report.seconds,
    )  # fmt: skip


def _assertion(report: Report, number: int, reason: str) -> Assertion:
    if not 0 <= number < len(report.plan):  # all that was reached held, and then the test code itself ended
        return Assertion("the test code", "failed", reason)
    outcome, why = report.outcomes.get(number, ("", ""))
    known: Outcome = "passed" if outcome == "passed" else "failed" if outcome == "failed" else "not_reached"
    return Assertion(report.plan[number], known, why)


def _excerpt(output: bytearray) -> str:
    text = output.decode(errors="replace")
    return text if len(text) <= EXCERPT_CHARS else f"{text[:EXCERPT_CHARS]}… (cut off here)"
