"""All of HumanEval: right solutions pass, empty and forged ones do not."""

from __future__ import annotations

import gzip
import json

import pytest


def humaneval(shared_data):
    with gzip.open(shared_data / "humaneval" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def humaneval_results(records, run_many, body):
    return run_many(
        [
            {"candidate": body or record["canonical_solution"], "tests": (record["test"],), "prompt": record["prompt"],
             "completes_prompt": True, "entry_point": record["entry_point"], "timeout_seconds": 30}
            for record in records
        ]
    )  # fmt: skip


@pytest.fixture
def run_many():
    from evalframe.sandbox.policy import Policy
    from evalframe.sandbox.verdict import CodeTask, run_code

    return lambda tasks: run_code([CodeTask(**task) for task in tasks], policy=Policy(allow_unsandboxed=True))


def test_every_canonical_solution_of_humaneval_passes(shared_data, run_many):
    results = humaneval_results(humaneval(shared_data), run_many, None)
    assert [(r.exit_code, r.score) for r in results] == [("pass", 1.0)] * 164


def test_the_helpers_in_humaneval_s_prompts_are_the_trusted_ones(shared_data, run_many):
    chosen = [record for record in humaneval(shared_data) if record["task_id"].split("/")[1] in ("32", "38", "50")]
    forged = (
        "    return 0\ndef poly(xs, x): return 0\ndef encode_cyclic(s): return 0\ndef encode_shift(s): return 0\n"
        "from math import *\nfabs = lambda x: 0\n"
    )
    assert [r.exit_code for r in humaneval_results(chosen, run_many, forged)] == ["assertion_fail"] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    ["    pass", "    return 0", "    return True", "    return []", "    raise SystemExit",
     "    import os; os._exit(0)", "    class E(int):\n        def __eq__(s, o): return True\n    return E()"],
)  # fmt: skip
def test_no_empty_or_forged_body_passes_humaneval(shared_data, run_many, body):
    results = humaneval_results(humaneval(shared_data), run_many, body)
    assert [r.exit_code for r in results if r.exit_code == "pass"] == []
