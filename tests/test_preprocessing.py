"""Preprocessors: what they may return, in what order it comes, and how each way to fail is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.data.columns import records_of
from evalframe.errors import PreprocessError
from evalframe.jsontext import dumps
from evalframe.limits import Limits
from evalframe.manifest.records import Preprocess
from evalframe.preprocessing import FEWSHOT_ROWS, MOST_FAILED, Preprocessor
from evalframe.sandbox.foreign import CHUNK_CALLS
from evalframe.sandbox.policy import Policy

Transform = Callable[..., list[Any]]
NAME = "tasks[0].preprocess.source"


def records(rows: list[Any], **paths: Any) -> pl.DataFrame:
    """RECORDS of dicts, or of JSON texts exactly as they are."""
    if all(isinstance(row, dict) for row in rows):
        found, faults = records_of(enumerate(rows, 1), **paths)
        assert not faults
        return found
    return pl.DataFrame({"line_number": range(1, len(rows) + 1), "row": rows}, schema_overrides={"row": pl.String})


@pytest.fixture
def transformed() -> Transform:
    """Rows through a preprocessor, as parsed JSON."""

    def run(text: str, rows: list[Any], *, files: Any = None, limits: Limits | None = None, **fields: Any) -> list[Any]:
        return [json.loads(row) for row in texts(text, rows, files=files, limits=limits, **fields)]

    return run


def texts(
    text: str, rows: list[Any], *, files: Any = None, limits: Limits | None = None, what: str = "rows", **fields: Any
) -> list[str]:
    policy = Policy(allow_unsandboxed=True, limits=limits or Limits())
    preprocess = Preprocess(source=text, **fields)
    with Preprocessor(preprocess, text=text, name=NAME, files=files or {}, policy=policy) as preprocessor:
        return preprocessor.records(records(rows), what=what)["row"].to_list()


def failed(text: str, rows: list[Any] | None = None, **more: Any) -> pl.DataFrame:
    with pytest.raises(PreprocessError) as caught:
        texts(text, [{"n": n} for n in range(3)] if rows is None else rows, **more)
    return caught.value.faults


THREE = [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return row", THREE),
        ("row['n'] += 1\n    return row", [{"n": 1}, {"n": 2}, {"n": 3}]),
        ("return None", None),
        ("return row if row['n'] != 1 else None", [{"n": 0}, {"n": 2}]),
        ("return [row] * row['n']", [{"n": 1}, {"n": 2}, {"n": 2}]),
        ("return ({'m': 1}, {'k': 2})", [{"m": 1}, {"k": 2}] * 3),
        ("return [] if row['n'] else [{}]", [{}]),
    ],
    ids=range(7),
)
def test_a_row_becomes_no_one_or_many_rows(transformed: Transform, body: str, expected: list[Any] | None) -> None:
    text = f"def transform_row(row):\n    {body}\n"
    if expected is None:
        assert failed(text)["rule"].to_list() == ["no_rows"]
    else:
        assert transformed(text, THREE) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return rows", THREE),
        ("return rows[::-1]", THREE[::-1]),
        ("return {'n': sum(row['n'] for row in rows)}", [{"n": 3}]),
        ("return [row for row in rows for _ in 'ab'][:4]", [{"n": 0}, {"n": 0}, {"n": 1}, {"n": 1}]),
    ],
    ids=range(4),
)
def test_a_batch_sees_all_rows_at_once(transformed: Transform, body: str, expected: list[Any]) -> None:
    assert transformed(f"def process_docs(rows):\n    {body}\n", THREE, contract="batch") == expected


@pytest.mark.parametrize(
    ("contract", "names"),
    [("row", ["transform_row", "transform", "process_doc"]), ("batch", ["transform_batch", "process_docs"])],
)
def test_the_first_of_the_accepted_names_wins(transformed: Transform, contract: str, names: list[str]) -> None:
    for first in range(len(names)):
        there = names[first:]
        text = "".join(f"def {name}(rows): return {{'by': {name!r}}}\n" for name in reversed(there))
        assert transformed(text, [{}], contract=contract) == [{"by": names[first]}]


def test_rows_keep_their_order_over_many_chunks_and_workers(transformed: Transform) -> None:
    n = 5 * CHUNK_CALLS + 3
    found = transformed("def transform(row):\n    return [row, {'copy': row['n']}]\n", [{"n": i} for i in range(n)])
    assert found == [row for i in range(n) for row in ({"n": i}, {"copy": i})]


def test_equal_data_gives_equal_rows_where_chance_and_globals_play(transformed: Transform) -> None:
    text = (
        "import random\nseen = 0\n"
        "def transform(row):\n    global seen\n    seen += 1\n"
        "    random.shuffle(row['choices'])\n    return {**row, 'seen': seen}\n"
    )
    rows = [{"n": n, "choices": list("ABCDEFGH")} for n in range(2 * CHUNK_CALLS + 5)]
    first, second = transformed(text, rows), transformed(text, rows)
    assert first == second
    assert len({"".join(row["choices"]) for row in first}) > CHUNK_CALLS  # not one shuffle for all
    assert [row["seen"] for row in first] == [1 + n % CHUNK_CALLS for n in range(len(rows))]


def test_numbers_are_written_as_python_writes_them() -> None:
    row = '{"a":2.50,"b":1e5,"c":123456789012345678901234567890,"d":1e-7,"e":-0.0,"f":1E22,"g":true,"h":null}'
    assert texts("def transform(row): return row", [row]) == [
        '{"a":2.5,"b":100000.0,"c":123456789012345678901234567890,"d":1e-07,"e":-0.0,"f":1e+22,"g":true,"h":null}'
    ]


def test_texts_and_nesting_come_back_as_they_are(transformed: Transform) -> None:
    row = {"é": "日本 \"'\\\n\u2028\U0001f600", "deep": {"list": [1, [2, {"x": None}]], "": ""}, "b": [True, 1, 1.0]}
    assert transformed("def transform(row): return row", [row]) == [row]
    surrogate = texts("def transform(row): return {'t': '\\ud800!'}", [{}])
    assert surrogate == ['{"t":"�!"}']


@pytest.mark.parametrize("number", ["1E400", "-1e999", "9" * 5_000])
@pytest.mark.parametrize("contract", ["row", "batch"])
def test_a_number_that_python_can_not_hold_is_refused(number: str, contract: str) -> None:
    name = "transform" if contract == "row" else "process_docs"
    faults = failed(f"def {name}(x): return x", ['{"a":1}', f'{{"a":[{number}]}}'], contract=contract)
    assert faults["where"].to_list() == ["rows[1] (line 2)"]
    assert faults["remedy"].to_list() == ["write this as text"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def untouched() -> Iterator[Preprocessor]:
    text = "def transform(row): return row"
    policy = Policy(allow_unsandboxed=True)
    with Preprocessor(Preprocess(source=text), text=text, name=NAME, files={}, policy=policy) as preprocessor:
        yield preprocessor


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), min_size=1, max_size=5))
def test_what_is_not_touched_is_what_python_makes_of_it(untouched: Preprocessor, rows: list[dict[str, Any]]) -> None:
    given_rows = records(rows)
    expected = [dumps(json.loads(row)) for row in given_rows["row"]]
    assert untouched.records(given_rows)["row"].to_list() == expected


@pytest.mark.parametrize("depth", [50, 600, 20_000])
def test_deep_values_arrive_or_are_refused(depth: int) -> None:
    deep = f"value = 1\n    for _ in range({depth}): value = [value]"
    text = f"def transform(row):\n    {deep}\n    return {{'v': value}}\n"
    if depth < 100:
        assert texts(text, [{}]) == [f'{{"v":{"[" * depth}1{"]" * depth}}}']
    else:
        assert "nested too deeply" in failed(text, [{}])["detail"][0]


def test_columns_are_taken_out_of_the_new_rows() -> None:
    text = "def transform(row): return {'q': row['a'] + 1, 'tags': ['x', row['a']]}"
    with Preprocessor(
        Preprocess(source=text), text=text, name=NAME, files={}, policy=Policy(allow_unsandboxed=True)
    ) as preprocessor:
        found = preprocessor.records(records([{"a": 1}, {"a": 2}]), fields=["q", "a"], items=["tags"])
    assert found.to_dict(as_series=False) == {
        "line_number": [1, 2],
        "row": ['{"q":2,"tags":["x",1]}', '{"q":3,"tags":["x",2]}'],
        "field.q": ["2", "3"],
        "field.a": [None, None],
        "items.tags": [["x", "1"], ["x", "2"]],
    }


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("'abc'", "returned text ('abc')"), ("7", "returned a number (7)"), ("True", "returned a boolean (True)"),
        ("[row, 'x']", "returned a list whose item 1 is text ('x')"), ("[None]", "a list whose item 0 is None"),
        ("[[row]]", "item 0 is a list"),
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused_with_its_place(value: str, says: str) -> None:
    faults = failed(f"def transform(row): return {value} if row['n'] == 1 else row")
    assert faults["where"].to_list() == ["rows[1] (line 2)"]
    assert says in faults["detail"][0]
    assert faults["remedy"][0].startswith("return a dict (one row), a list of dicts")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{'x': float('nan')}", "nan"), ("{'x': {1, 2}}", "a value of type set"), ("{'x': b'b'}", "type bytes"),
        ("{'x': object()}", "a value of type object"), ("[row] * 1_000_000", "over the limit"),
        ("row.update(row=row) or row", "holds itself"),
    ],
)  # fmt: skip
def test_what_is_no_json_or_too_much_is_refused(value: str, says: str) -> None:
    faults = failed(f"def transform(row): return {value}", [{"n": 1, "m": 2}] * 3)
    assert faults["where"].to_list() == ["rows[0] (line 1)"]
    assert says in faults["detail"][0]
    assert faults["remedy"].to_list() == ["return plain JSON values, of one call up to 10,000,000 bytes of them"]


def test_an_exception_is_told_with_the_users_own_frames() -> None:
    faults = failed("def look(row):\n    return row['answer']\n\ndef transform(row):\n    return look(row)\n")
    assert faults["where"].to_list() == [f"rows[{n}] (line {n + 1})" for n in range(3)]
    first, *others = faults["detail"].to_list()
    assert first.startswith("KeyError: 'answer'\n    Traceback (most recent call last):\n")
    assert f'File "{NAME}", line 5, in transform\n' in first
    assert f'File "{NAME}", line 2, in look\n' in first
    assert first.count("File ") == 2
    assert others == ["KeyError: 'answer'"] * 2  # of many alike one traceback is enough


def test_after_some_failed_rows_the_rest_is_left() -> None:
    faults = failed("def transform(row): return row['x']", [{"n": n} for n in range(1_000)])
    assert faults.height == MOST_FAILED
    only_one = failed("def transform(row): return 1 / (row['n'] - 70) and row", [{"n": n} for n in range(100)])
    assert only_one["where"].to_list() == ["rows[70] (line 71)"]
    assert only_one["detail"][0].startswith("ZeroDivisionError")


def test_a_call_over_its_time_ends_the_task() -> None:
    faults = failed("def transform(row):\n    while row['n'] == 1: pass\n    return row\n", timeout_seconds=1)
    assert faults.select("where", "rule").rows() == [("rows[1] (line 2)", "timeout")]
    assert "within 1 s" in faults["detail"][0]
    assert "preprocess.timeout_seconds" in faults["remedy"][0]


def test_a_process_that_ends_itself_is_told() -> None:
    faults = failed("import os\ndef transform(row): os._exit(0)")
    assert faults.select("where", "rule").rows() == [("rows[0] (line 1)", "broken")]
    assert "ended" in faults["detail"][0]


@pytest.mark.parametrize("body", ["return transform(row)", "raise SystemExit(0)", "raise KeyboardInterrupt"])
def test_recursion_and_leaving_are_exceptions_like_others(body: str) -> None:
    faults = failed(f"def transform(row):\n    {body}\n")
    assert set(faults["rule"]) == {"raised"}
    assert faults["detail"][0].split("\n")[0].split(":")[0] in ("RecursionError", "SystemExit", "KeyboardInterrupt")


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        ("import none_such\ndef transform(row): return row", "fails_at_load", "ModuleNotFoundError"),
        ("1 / 0\ndef transform(row): return row", "fails_at_load", "ZeroDivisionError"),
        ("transform = 5", "no_function", "defines no function"),
        ("def transform(row) return row", "bad_python", "line 1"),
        ("def prepare(row): return row", "missing_function", "functions that it defines: prepare"),
        ("def process_docs(rows): return rows", "missing_function", "does not define transform_row"),
    ],
)
def test_a_text_that_can_not_be_used_is_told_by_its_name(text: str, rule: str, says: str) -> None:
    faults = failed(text)
    assert faults.select("where", "rule").rows() == [(NAME, rule)]
    assert says in faults["detail"][0]
    assert faults["remedy"][0]


def test_what_comes_back_is_bounded() -> None:
    rows = [{"n": n} for n in range(10)]
    faults = failed("def transform(row): return [row] * 4", rows, limits=Limits(preprocess_rows=10))
    assert faults["where"].to_list() == ["rows[2] (line 3)"]
    assert "over 10 rows" in faults["detail"][0]
    assert "limits=Limits(preprocess_rows=" in faults["remedy"][0]
    assert len(texts("def transform(row): return row", rows, limits=Limits(preprocess_rows=10))) == 10
    faults = failed("def transform(row): return {'t': 'x' * 60}", rows, limits=Limits(preprocess_chars=200))
    assert faults["where"].to_list() == ["rows[2] (line 3)"]
    assert "over 200 characters" in faults["detail"][0]
    many = failed(
        "def process_docs(rows): return rows * 101", rows, contract="batch", limits=Limits(preprocess_rows=1000)
    )
    assert many["where"].to_list() == ["rows"]
    assert "over 1,000 rows" in many["detail"][0]


def test_a_batch_may_be_larger_than_one_row_may(transformed: Transform) -> None:
    rows = [{"t": "x" * 1_000_000} for _ in range(12)]
    assert transformed("def process_docs(rows): return rows", rows, contract="batch") == rows


def test_fewshot_rows_are_named_as_such() -> None:
    faults = failed("def transform(row): return 1", what=FEWSHOT_ROWS)
    assert faults["where"][0] == "fewshot rows[0] (line 1)"


def test_the_named_files_can_be_read(transformed: Transform, tmp_path: Path) -> None:
    table = tmp_path / "capitals.json"
    table.write_text('{"fr": "Paris"}')
    text = (
        "import json, os\n"
        "PATHS = json.loads(os.environ['EVALFRAME_FILES'])\n"
        "with open(PATHS['capitals']) as file: CAPITALS = json.load(file)\n"
        "def transform(row): return {**row, 'capital': CAPITALS[row['land']]}\n"
    )
    assert transformed(text, [{"land": "fr"}], files={"capitals": table}) == [{"land": "fr", "capital": "Paris"}]


def test_what_is_installed_beside_us_can_be_imported(transformed: Transform) -> None:
    text = "import numpy as np\ndef transform(row): return {'mean': np.mean(row['x']), 'n': np.int64(len(row['x']))}"
    assert transformed(text, [{"x": [1, 2, 3]}]) == [{"mean": 2.0, "n": 3}]


def test_printing_harms_nobody(transformed: Transform) -> None:
    text = "import sys\ndef transform(row):\n    print('x' * 1000)\n    sys.stderr.write('y')\n    return row\n"
    assert transformed(text, THREE) == THREE


def test_no_process_is_left_behind(transformed: Transform, new_threads: Callable[[], Any]) -> None:
    before = set(children())
    transformed("def transform(row): return row", THREE)
    failed("def transform(row):\n    while True: pass\n", timeout_seconds=1)
    assert set(children()) <= before
    assert not new_threads()


def children() -> Iterator[int]:
    import os

    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            yield int(entry.name)


@pytest.mark.parametrize(("name", "contract"), [("transform", "row"), ("process_docs", "batch")])
def test_rows_that_are_through_are_counted(name: str, contract: str) -> None:
    text, steps = f"def {name}(x): return x", list[int]()
    preprocess = Preprocess(source=text, contract=contract)
    policy = Policy(allow_unsandboxed=True)
    with Preprocessor(preprocess, text=text, name=NAME, files={}, policy=policy) as preprocessor:
        preprocessor.records(records(THREE), step=steps.append)
    assert sum(steps) == 3


def test_no_rows_are_no_call(transformed: Transform) -> None:
    empty = pl.DataFrame(schema={"line_number": pl.Int64, "row": pl.String})
    text = "def transform(row): return row"
    with Preprocessor(
        Preprocess(source=text), text=text, name=NAME, files={}, policy=Policy(allow_unsandboxed=True)
    ) as preprocessor:
        assert preprocessor.records(empty, fields=["a"]).columns == ["line_number", "row", "field.a"]
