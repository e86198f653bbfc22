"""``code_exec``: the share of a code task's assertions that generated code passes, in the sandbox."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from evalframe.errors import Fault, OptionError
from evalframe.frames import check
from evalframe.jsontext import Number, clean, dumps, loads
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.taskrules import python_fault
from evalframe.metrics.record import Metric
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.verdict import CodeResult, CodeTask, run_code
from evalframe.schemas import ROWS

OPTIONS = ("timeout_s", "setup_code", "completes_prompt", "entry_point")
DETAIL_ASSERTIONS = 50  # told one by one in the detail; all count


def code_faults(rows: pl.DataFrame, *, limits: Limits = DEFAULT_LIMITS) -> list[Fault]:
    """List what ``code_exec`` can not use in the rows that ask for it, so that a run can say so before any call.

    Frame in:
        ROWS.

    Args:
        limits: ``code_timeout_seconds_max`` bounds ``timeout_s``.
    """
    check(rows, ROWS)
    ids = pl.col("metrics").list.eval(pl.element().struct.field("id"))
    asked = rows.filter(ids.list.contains("code_exec"))
    faults: list[Fault] = []
    wanted = asked.select("task_id", "sample_index", "row", "metadata", "targets")
    for task_id, sample, row, metadata, targets in wanted.iter_rows():
        where = f"{task_id}[{sample}]"
        code_options(row, metadata, where=where, limits=limits, faults=faults)
        for index, target in enumerate(targets):
            if why := python_fault(target):
                faults.append(Fault(f"{where}.targets[{index}]", "bad_value", f"is no Python: {why}", "mend the tests"))
    return faults


def code_options(row: str, metadata: str, *, where: str, limits: Limits, faults: list[Fault]) -> dict[str, Any]:
    """Read the options of one code task: from the record's field of that name, else from the task's metadata.

    Args:
        row, metadata: JSON objects as text. CSV has only text, so a number or ``true`` in quotes is one too.
        where: Names the record in the faults.
        limits: ``code_timeout_seconds_max`` bounds ``timeout_s``.
        faults: What is wrong is added here.

    Returns:
        Those of ``CodeTask``'s fields that are set.
    """
    first, second = loads(row), loads(metadata)
    given = {name: _given(first, second, name) for name in OPTIONS}
    options: dict[str, Any] = {}
    if (value := given["timeout_s"]) is not None:
        seconds = _number(value)
        if seconds is None or not 0 < seconds <= limits.code_timeout_seconds_max:
            allowed = f"a number of seconds over 0 and at most {limits.code_timeout_seconds_max:g}"
            faults.append(_fault(where, "timeout_s", value, allowed))
        options["timeout_seconds"] = seconds
    if (value := given["completes_prompt"]) is not None:
        options["completes_prompt"] = _truth(value)
        if options["completes_prompt"] is None:
            faults.append(_fault(where, "completes_prompt", value, "true or false"))
    for name in ("setup_code", "entry_point"):
        if (value := given[name]) is not None:
            options[name] = value
            if not isinstance(value, str) or (name == "entry_point" and value and not value.isidentifier()):
                allowed = "Python code as text" if name == "setup_code" else "the name of a function"
                faults.append(_fault(where, name, value, allowed))
    return options


def _compute(frame: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    faults: list[Fault] = []
    # row by row: each is a program of its own, and starts processes
    tasks = [
        CodeTask(
            candidate=prediction,
            tests=tuple(targets),
            prompt=prompt,
            **code_options(row, metadata, where=f"row {place}", limits=policy.limits, faults=faults),
        )
        for place, (prediction, targets, prompt, row, metadata) in enumerate(
            frame.select("prediction", "targets", "prompt", "row", "metadata").iter_rows()
        )
    ]
    if faults:
        raise OptionError.of(faults, what="code_exec")
    results = run_code(tasks, policy=policy)
    return pl.DataFrame(
        {"score": [result.score for result in results], "detail": [detail_text(result) for result in results]},
        schema={"score": pl.Float64, "detail": pl.String},
    )


def detail_text(result: CodeResult) -> str:
    """Write what SCORES keeps of a result, as JSON; without its seconds, which are other ones in each run."""
    kept = [
        {"test": one.test, "outcome": one.outcome} | ({"reason": one.reason} if one.reason else {})
        for one in result.assertions[:DETAIL_ASSERTIONS]
    ]
    detail = {
        "exit_code": result.exit_code, "passed": result.passed, "total": result.total, "reason": result.reason,
        "verdict": result.verdict, "assertions": kept,
    }  # fmt: skip
    return clean(dumps(detail))


def _given(row: Any, metadata: Any, name: str) -> Any:
    for place in (row, metadata):
        if isinstance(place, Mapping) and place.get(name) is not None:
            return place[name]
    return None


def _number(value: Any) -> float | None:
    if not isinstance(value, str):  # a Number is a text too
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _truth(value: Any) -> bool | None:
    if isinstance(value, str) and not isinstance(value, Number):
        return {"true": True, "false": False, "": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _fault(where: str, name: str, value: Any, allowed: str) -> Fault:
    shown = dumps(value)
    return Fault(f"{where}.{name}", "bad_value", f"is {shown[:60]}, not {allowed}", "correct it in the data")


CODE_EXEC = Metric(
    name="code_exec",
    compute=_compute,
    needs=("prompt", "row", "metadata"),
    binary=True,
    description="passed assertions / all assertions of generated code, run in the sandbox",
    source="Chen et al. 2021, Evaluating Large Language Models Trained on Code: functional correctness; here a share",
)
