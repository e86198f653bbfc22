"""Python text in a manifest: compiled, looked at, never run."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.errors import ManifestError
from evalframe.manifest.suite import parse_suite

GRADE = "def grade(sample, item):\n    return 1.0\n"
BATCH = "def grade_batch(samples):\n    return []\n"


def suite(**fields: Any) -> dict[str, Any]:
    made = {"id": "t", "type": "qa", "dataset": {"file_id": "x"}, "target_template": "{{a}}", "metrics": [{"id": "f1"}]}
    return {"tasks": [{**made, **fields}]}


LEGAL_GRADERS = [
    {"source": GRADE},
    {"source": "def grade(sample, item, ctx): return 1"},
    {"source": "def grade(sample, item=None, *, strict=False): return 1"},
    {"source": "def grade(*args): return 1"},
    {"source": "import json\nx = 1\ngrade = lambda sample, item: 1"},
    {"source": "from module import score as grade"},
    {"source": "from module import *"},
    {"source": "try:\n    import x\n    def grade(s, i): return 1\nexcept ImportError:\n    pass"},
    {"source": "if True:\n    def grade(s, i): return 1"},
    {"source": "@decorated\ndef grade(s): return 1"},
    {"source": "class Grade:\n    def __call__(self, s, i): return 1\ngrade = Grade()"},
    {"source": "def grade(s, i):\n    return '\\d'  # an invalid escape is a warning only"},
    {"source": "def grade(s, i): return 1", "timeout_seconds": 1, "max_model_calls": 0},
    {"source": GRADE, "timeout_seconds": 600, "max_model_calls": 500},
    {"source": GRADE, "timeout_seconds": 1.5, "type": "python"},
    {"source": BATCH, "contract": "batch"},
    {"source": "def grade_batch(samples, ctx): return []", "contract": "batch"},
    {"source": GRADE, "contract": "model_backed"},
    {"source": BATCH, "contract": "model_backed"},
    {"source": BATCH, "contract": "model_backed", "execution": "aggregate"},
    {"file_id": "grader.py"},
]


@pytest.mark.parametrize("grader", LEGAL_GRADERS, ids=str)
def test_legal_graders(grader: dict[str, Any]) -> None:
    assert parse_suite(suite(grader=grader)).tasks[0].grader is not None


WRONG_GRADERS = [
    ({}, "", "one_source", "neither source nor file_id"),
    ({"source": GRADE, "file_id": "x"}, "", "one_source", "both source and file_id"),
    ("def grade(s, i): return 1", "", "bad_type", "an object"),
    ({"file_id": ""}, ".file_id", "empty", "blank"),
    ({"file_id": 5}, ".file_id", "bad_type", "a string"),
    ({"source": ""}, ".source", "empty", "define grade"),
    ({"source": 5}, ".source", "bad_type", "a string"),
    ({"source": GRADE, "type": "javascript"}, ".type", "bad_value", "allowed: python"),
    ({"source": GRADE, "contract": "row"}, ".contract", "bad_value", "allowed: sample, batch, model_backed"),
    ({"source": GRADE, "execution": "aggregate"}, ".execution", "illegal_pair", "per_sample"),
    ({"source": BATCH, "contract": "batch", "execution": "per_sample"}, ".execution", "illegal_pair", "aggregate"),
    ({"source": GRADE, "execution": "all"}, ".execution", "bad_value", "allowed: per_sample, aggregate"),
    ({"source": GRADE, "model_access": "all"}, ".model_access", "bad_value", "allowed: none, mka1"),
    ({"source": GRADE, "metric_id": "a b"}, ".metric_id", "bad_id", "'a_b'"),
    ({"source": GRADE, "metric_id": 1}, ".metric_id", "bad_type", "a string"),
    ({"source": GRADE, "timeout_seconds": 0.5}, ".timeout_seconds", "out_of_range", "from 1 to 600"),
    ({"source": GRADE, "timeout_seconds": 601}, ".timeout_seconds", "out_of_range", "from 1 to 600"),
    ({"source": GRADE, "timeout_seconds": "9"}, ".timeout_seconds", "bad_type", "without quotes"),
    ({"source": GRADE, "timeout_seconds": True}, ".timeout_seconds", "bad_type", "a number"),
    ({"source": GRADE, "max_model_calls": 501}, ".max_model_calls", "out_of_range", "from 0 to 500"),
    ({"source": GRADE, "max_model_calls": -1}, ".max_model_calls", "out_of_range", "from 0 to 500"),
    ({"source": GRADE, "max_model_calls": 1.5}, ".max_model_calls", "bad_type", "an integer"),
    ({"source": GRADE, "sorce": "x"}, ".sorce", "unknown_key", "'source'"),
    ({"source": "x = 1\ndef grade(s, i) return 1"}, ".source", "bad_python", "line 2, column 17"),
    ({"source": "def grade(s, i):\nreturn 1"}, ".source", "bad_python", "line 2"),
    ({"source": "def grade(s, i):\n\tif s:\n        return 1"}, ".source", "bad_python", "line 3"),
    ({"source": GRADE + "return 1"}, ".source", "bad_python", "line 3"),
    ({"source": "def grade(s, i): return 1\x00"}, ".source", "bad_python", "null bytes"),
    ({"source": "x = " + "(" * 300 + ")" * 300}, ".source", "bad_python", "too many nested"),
    ({"source": "x = " + "-" * 100_000 + "1"}, ".source", "bad_python", "compile"),
    ({"source": "def score(s, i): return 1"}, ".source", "missing_function", "functions that it defines: score"),
    ({"source": "def f():\n    def grade(s, i): return 1"}, ".source", "missing_function", "does not define grade"),
    ({"source": BATCH}, ".source", "missing_function", 'set "contract": "batch"'),
    ({"source": GRADE, "contract": "batch"}, ".source", "missing_function", 'set "contract": "sample"'),
    ({"source": BATCH, "contract": "model_backed", "execution": "per_sample"}, ".source", "missing_function", "grade"),
    ({"source": GRADE, "contract": "model_backed", "execution": "aggregate"}, ".source", "missing_function", "grade_b"),
    ({"source": "x = 1", "contract": "model_backed"}, ".source", "missing_function", "define grade"),
    ({"source": "async def grade(s, i): return 1"}, ".source", "bad_function", "is async"),
    ({"source": "def grade(sample): return 1"}, ".source", "bad_function", "takes 1; it is called with 2 or 3"),
    ({"source": "def grade(a, b, c, d): return 1"}, ".source", "bad_function", "takes 4"),
    ({"source": "def grade(a, b, *, c): return 1"}, ".source", "bad_function", "needs the keyword argument c"),
    ({"source": "def grade_batch(): return 1", "contract": "batch"}, ".source", "bad_function", "called with 1 or 2"),
]


@pytest.mark.parametrize(("grader", "path", "rule", "says"), WRONG_GRADERS, ids=lambda value: str(value)[:60])
def test_each_rule_of_a_grader(grader: Any, path: str, rule: str, says: str) -> None:
    assert_one_fault(suite(grader=grader), f"tasks[0].grader{path}", rule, says)


LEGAL_PREPROCESSORS = [
    {"source": "def transform_row(row): return row"},
    {"source": "def transform(row): return row", "type": "python", "contract": "row"},
    {"source": "def process_doc(doc): return doc", "timeout_seconds": 600},
    {"source": "def transform_batch(rows): return rows", "contract": "batch"},
    {"source": "def process_docs(rows): return rows", "contract": "batch"},
    {"source": "def transform(row): return row\ndef transform_batch(rows): return rows"},
    {"file_id": "prepare.py"},
]


@pytest.mark.parametrize("preprocess", LEGAL_PREPROCESSORS, ids=str)
def test_legal_preprocessors(preprocess: dict[str, Any]) -> None:
    assert parse_suite(suite(preprocess=preprocess)).tasks[0].preprocess is not None


ROW = "def transform(row): return row"
WRONG_PREPROCESSORS = [
    ({}, "", "one_source", "neither source nor file_id"),
    ({"source": ROW, "file_id": "x"}, "", "one_source", "both source and file_id"),
    ({"source": ROW, "type": "bash"}, ".type", "bad_value", "allowed: python"),
    ({"source": ROW, "contract": "sample"}, ".contract", "bad_value", "allowed: row, batch"),
    ({"source": ROW, "timeout_seconds": 0}, ".timeout_seconds", "out_of_range", "from 1 to 600"),
    ({"source": ROW, "timeout_seconds": 601}, ".timeout_seconds", "out_of_range", "from 1 to 600"),
    ({"source": ROW, "contrct": "row"}, ".contrct", "unknown_key", "'contract'"),
    ({"source": "def transform(row):"}, ".source", "bad_python", "line 1"),
    (
        {"source": "def clean(row): return row"},
        ".source",
        "missing_function",
        "transform_row, transform or process_doc",
    ),
    ({"source": "def transform_batch(rows): return rows"}, ".source", "missing_function", '"contract": "batch"'),
    ({"source": ROW, "contract": "batch"}, ".source", "missing_function", '"contract": "row"'),
    ({"source": "def transform(row, ctx): return row"}, ".source", "bad_function", "called with 1 positional"),
    ({"source": "def transform(): return 1"}, ".source", "bad_function", "takes 0"),
]


@pytest.mark.parametrize(("preprocess", "path", "rule", "says"), WRONG_PREPROCESSORS, ids=lambda value: str(value)[:60])
def test_each_rule_of_a_preprocessor(preprocess: Any, path: str, rule: str, says: str) -> None:
    assert_one_fault(suite(preprocess=preprocess), f"tasks[0].preprocess{path}", rule, says)


def test_nothing_in_a_manifest_is_run(tmp_path: Any) -> None:
    trace = tmp_path / "trace"
    source = f"open({str(trace)!r}, 'w').write('x')\n{GRADE}"
    parse_suite(suite(grader={"source": source}, preprocess={"source": f"open({str(trace)!r}, 'w')\n{ROW}"}))
    assert not trace.exists()


def assert_one_fault(manifest: Any, where: str, rule: str, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_suite(manifest)
    faults = caught.value.faults
    assert faults.select("where", "rule").rows() == [(where, rule)]
    assert says in faults["detail"][0] + faults["remedy"][0]
    assert faults["remedy"][0]
