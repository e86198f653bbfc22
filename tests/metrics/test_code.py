"""``code_exec``: where its options come from, what it gives, what it refuses."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from evalframe.errors import OptionError, SandboxError
from evalframe.frames import example
from evalframe.limits import Limits
from evalframe.metrics.code import CODE_EXEC, code_faults, code_options
from evalframe.registry import METRICS
from evalframe.sandbox.policy import Policy
from evalframe.schemas import METRIC_CHOICES, ROWS

POLICY = Policy(allow_unsandboxed=True)
ADD = "def add(a, b):\n    return a + b\n"


def frame(*samples: dict[str, Any]) -> pl.DataFrame:
    defaults = {"prediction": ADD, "targets": ["add(1, 2) == 3"], "prompt": "", "row": "{}", "metadata": "{}"}
    types = dict.fromkeys(defaults, pl.String) | {"targets": pl.List(pl.String)}
    return pl.DataFrame([defaults | sample for sample in samples], schema=types)


def measured(*samples: dict[str, Any], policy: Policy = POLICY) -> list[tuple[float, dict[str, Any]]]:
    result = CODE_EXEC.measure(frame(*samples), policy=policy)
    return [(score, json.loads(detail)) for score, detail in result.select("score", "detail").iter_rows()]


def test_it_is_registered_and_only_a_full_pass_is_correct():
    assert METRICS.get("code_exec") is CODE_EXEC
    assert CODE_EXEC.binary
    assert CODE_EXEC.needs_target
    assert CODE_EXEC.range == (0.0, 1.0)


def test_the_score_is_passed_over_all_and_the_detail_says_why():
    tests = ["add(1, 2) == 3", "assert add(1, 1) == 3\nassert add(0, 0) == 0\nassert add(2, 2) == 4\n"]
    [(score, detail)] = measured({"targets": tests})
    assert score == 0.75
    assert detail == {
        "exit_code": "assertion_fail", "passed": 3, "total": 4, "reason": "add(1, 1) == 3: false", "verdict": "split",
        "assertions": [
            {"test": "add(1, 2) == 3", "outcome": "passed"},
            {"test": "add(1, 1) == 3", "outcome": "failed", "reason": "false"},
            {"test": "add(0, 0) == 0", "outcome": "passed"},
            {"test": "add(2, 2) == 4", "outcome": "passed"},
        ],
    }  # fmt: skip


def test_no_target_is_zero_and_no_sample_is_no_run():
    [(score, detail)] = measured({"targets": []})
    assert (score, detail["reason"]) == (0.0, "no assertions: the task has no tests")
    empty = CODE_EXEC.measure(frame(), policy=Policy())  # nothing to run, nothing to allow
    assert empty.height == 0


def test_each_sample_gets_its_own_result_in_order():
    codes = [ADD, "def add(a, b): return 0\n", "def add(a, b) return\n", "raise SystemExit", ADD]
    results = measured(*({"prediction": code} for code in codes))
    assert [score for score, _ in results] == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert [d["exit_code"] for _, d in results] == ["pass", "assertion_fail", "syntax_error", "error", "pass"]
    assert results == measured(*({"prediction": code} for code in codes))


def test_options_come_from_the_row_first_then_from_the_task():
    where = {"where": "t[0]", "limits": Limits()}
    faults: list[Any] = []
    row = '{"timeout_s": 1.50, "completes_prompt": null, "setup_code": "x = 1", "other": [1]}'
    metadata = '{"timeout_s": 9, "completes_prompt": true, "setup_code": "y", "entry_point": "f", "solution": "s"}'
    assert code_options(row, metadata, faults=faults, **where) == {
        "timeout_seconds": 1.5, "completes_prompt": True, "setup_code": "x = 1", "entry_point": "f",
    }  # fmt: skip
    assert code_options("{}", "{}", faults=faults, **where) == {}
    csv = '{"timeout_s": "2.5", "completes_prompt": "True"}'
    assert code_options(csv, "{}", faults=faults, **where) == {"timeout_seconds": 2.5, "completes_prompt": True}
    assert faults == []


def test_options_are_used():
    prompt = "def add(a: int, b: int) -> int:\n"
    results = measured(
        {"prediction": "    return a + b", "prompt": prompt, "metadata": '{"completes_prompt": true}'},
        {"prediction": "    return a + b", "prompt": prompt, "row": '{"completes_prompt": false}'},
        {"targets": ["add(1, 2) == three()"], "metadata": json.dumps({"setup_code": "def three(): return 3\n"})},
        {"targets": ["def check(candidate):\n    assert candidate(1, 2) == 3\n"], "row": '{"entry_point": "add"}'},
        {"prediction": "while True: pass", "row": '{"timeout_s": 0.25}'},
    )
    assert [detail["exit_code"] for _, detail in results] == ["pass", "syntax_error", "pass", "pass", "timeout"]
    assert results[-1][1]["reason"] == "over 0.25 s"


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"timeout_s": 31}, "timeout_s"), ({"timeout_s": 0}, "timeout_s"), ({"timeout_s": True}, "timeout_s"),
        ({"timeout_s": "soon"}, "timeout_s"), ({"timeout_s": "nan"}, "timeout_s"), ({"timeout_s": [3]}, "timeout_s"),
        ({"completes_prompt": "perhaps"}, "completes_prompt"), ({"completes_prompt": 1}, "completes_prompt"),
        ({"setup_code": ["x"]}, "setup_code"), ({"entry_point": "f(x)"}, "entry_point"),
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_before_anything_runs(row, field):
    with pytest.raises(OptionError) as caught:
        measured({}, {"row": json.dumps(row)})
    assert caught.value.faults["where"].to_list() == [f"row 1.{field}"]
    assert "correct it in the data" in str(caught.value)


def test_bad_options_of_a_whole_run_are_found_before_its_first_call():
    choices = [{"id": "code_exec", "aggregation": "mean", "higher_is_better": True}]
    rows = example(ROWS, 3).with_columns(
        row=pl.Series(['{"timeout_s": 99}', '{"timeout_s": 3, "completes_prompt": "x"}', '{"timeout_s": 99}']),
        metadata=pl.lit("{}"),
        metrics=pl.Series([choices, choices, []], dtype=METRIC_CHOICES),
    )
    assert [fault.where for fault in code_faults(rows)] == ["task_id_0[0].timeout_s", "task_id_1[1].completes_prompt"]
    wide = code_faults(rows, limits=Limits(code_timeout_seconds_max=100))
    assert [fault.where for fault in wide] == ["task_id_1[1].completes_prompt"]


@pytest.mark.usefixtures("no_walls")
def test_without_walls_it_has_to_be_allowed():
    with pytest.raises(SandboxError, match="allow_unsandboxed=True"):
        measured({}, policy=Policy())


def test_hostile_texts_make_no_broken_detail():
    code = "def add(a, b):\n    raise ValueError('\\ud800' + chr(0) + 'x' * 10000)\n"
    [(score, detail)] = measured({"prediction": code})
    assert score == 0.0
    assert len(detail["reason"]) < 400


def test_many_assertions_are_counted_and_the_first_are_told():
    [(score, detail)] = measured({"targets": ["add(1, 2) == 3"] * 60})
    assert (score, detail["passed"], detail["total"], len(detail["assertions"])) == (1.0, 60, 60, 50)
