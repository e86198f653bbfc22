"""Data in memory and in Parquet: every value exactly, the same records whatever the form."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.data.columns import records_of
from evalframe.data.frames_in import read_table
from evalframe.data.tables import DictTable, FrameTable, content_hash
from evalframe.errors import DatasetError, OptionError
from evalframe.frames import check
from evalframe.jsontext import clean, loads
from evalframe.schemas import RECORDS

ROWS: list[dict[str, Any]] = [
    {"id": f"q{i}", "text": f'é "{i}"\n', "share": i / 7, "n": i, "ok": i % 2 == 0, "tags": ["a", str(i)],
     "day": dt.date(2026, 1, 1 + i), "at": dt.datetime(2026, 1, 1, 0, i), "lasts": dt.timedelta(seconds=i),
     "nothing": None}
    for i in range(5)
]  # fmt: skip


def texts_of(source: Any) -> list[str]:
    return read_table(source).records()["row"].to_list()


def refused(source: Any) -> dict[str, str]:
    """Give where and remedy of each fault."""
    with pytest.raises(DatasetError) as caught:
        read_table(source)
    return dict(caught.value.faults.select("where", "remedy").iter_rows())


def test_equal_data_is_equal_records_in_every_form(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(tmp_path / "ours.parquet")
    pd.DataFrame(ROWS).to_parquet(tmp_path / "theirs.parquet")
    forms = [
        ROWS, tuple(ROWS), frame, frame.lazy(), frame.to_arrow(), pd.DataFrame(ROWS),
        pd.read_parquet(tmp_path / "theirs.parquet"), tmp_path / "ours.parquet", str(tmp_path / "theirs.parquet"),
    ]  # fmt: skip
    fields, items = ["text", "share", "tags.1", "day", "nowhere"], ["tags", "text"]
    expected = read_table(ROWS).records(fields, items)
    assert expected.row(1) == (
        2,
        '{"id":"q1","text":"é \\"1\\"\\n","share":0.14285714285714285,"n":1,"ok":false,"tags":["a","1"],'
        '"day":"2026-01-02","at":"2026-01-01T00:01:00","lasts":"PT1S","nothing":null}',
        'é "1"\n', "0.14285714285714285", "1", "2026-01-02", None, ["a", "1"], None,
    )  # fmt: skip
    for form in forms:
        records = read_table(form).records(fields, items)
        assert check(records, RECORDS).equals(expected), type(form)
        assert content_hash(records) == content_hash(expected)


def test_a_dataset_of_the_hub_library_honours_its_selection_and_has_nulls_for_nan() -> None:
    import datasets  # over a second: here alone

    whole = datasets.Dataset.from_list([{"q": str(i), "x": float(i), "tags": ["a"]} for i in range(5)])
    assert texts_of(whole.select([3, 1])) == [
        '{"q":"3","x":3.0,"tags":["a"]}', '{"q":"1","x":1.0,"tags":["a"]}',
    ]  # fmt: skip
    assert texts_of(datasets.Dataset.from_dict({"x": [1.0, float("nan")]})) == ['{"x":1.0}', '{"x":null}']
    both = datasets.DatasetDict({"train": whole, "test": whole})
    with pytest.raises(OptionError, match=r"one of its splits \('train', 'test'\), as in data\['test'\]"):
        read_table(both)
    with pytest.raises(OptionError, match=r"one of its splits \('train'\), as in data\['train'\]"):
        read_table(datasets.DatasetDict({"train": whole}))
    with pytest.raises(OptionError, match=r"give its first rows: list\(data.take\(1000\)\)"):
        read_table(whole.to_iterable_dataset())
    assert texts_of(list(whole.to_iterable_dataset().take(1))) == ['{"q":"0","x":0.0,"tags":["a"]}']


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([0.1, 1e-05, 2.5e-07, 1e16, -0.0, 5e-324], pl.Float64, ["0.1", "1e-05", "2.5e-07", "1e+16", "-0.0", "5e-324"]),
        ([0.1, 1e-7, None], pl.Float32, ["0.1", "1e-07", "null"]),
        ([2**100, -1], pl.Int128, ["1267650600228229401496703205376", "-1"]),
        ([2**64 - 1], pl.UInt64, ["18446744073709551615"]),
        ([Decimal("2.50"), Decimal("-0.07")], pl.Decimal(10, 2), ["2.50", "-0.07"]),
        ([dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 1, 2, 3, 45)], pl.Datetime("us"),
         ['"2026-01-01T00:00:00"', '"2026-01-01T01:02:03.000045"']),
        ([dt.datetime(2026, 1, 1)], pl.Datetime("us", "UTC"), ['"2026-01-01T00:00:00+00:00"']),
        ([dt.datetime(2026, 1, 1)], pl.Datetime("ms"), ['"2026-01-01T00:00:00"']),
        ([dt.time(1, 2, 3), dt.time(1, 2, 3, 4)], pl.Time, ['"01:02:03"', '"01:02:03.000004"']),
        ([dt.timedelta(days=1, microseconds=5), dt.timedelta(-1)], pl.Duration("us"), ['"P1DT0.000005S"', '"-P1D"']),
        (["a", None], pl.Categorical, ['"a"', "null"]), (["a"], pl.Enum(["b", "a"]), ['"a"']),
        ([[1, 2], None], pl.Array(pl.Int8, 2), ["[1,2]", "null"]),
        ([[0.1, None], [], None], pl.List(pl.Float32), ["[0.1,null]", "[]", "null"]),
        ([{"a b": [{"x": 1e-9}]}, None], pl.Struct({"a b": pl.List(pl.Struct({"x": pl.Float64}))}),
         ['{"a b":[{"x":1e-09}]}', "null"]),
        ([{}, None], pl.Struct({}), ["{}", "null"]),
        ([{"k": 1.5}, {}, None], pl.Map(pl.String, pl.Float64), ['{"k":1.5}', "{}", "null"]),
        ([True, None], pl.Boolean, ["true", "null"]), ([None], pl.Null, ["null"]),
        (["\x00\x1f\x7f \u2028 😀 \\ / \""], pl.String, ['"\\u0000\\u001f\x7f \u2028 😀 \\\\ / \\""']),
    ],
)  # fmt: skip
def test_each_type_of_column_is_written_exactly(values: list[Any], dtype: Any, expected: list[str]) -> None:
    frame = pl.DataFrame({"v": pl.Series(values, dtype=dtype)})
    assert texts_of(frame) == [f'{{"v":{text}}}' for text in expected]


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    pl.String: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.Float64: st.floats(allow_nan=False, allow_infinity=False),
    pl.Boolean: st.booleans(),
}


def column(dtype: Any) -> st.SearchStrategy[Any]:
    if isinstance(dtype, pl.List):
        return st.none() | st.lists(column(dtype.inner), max_size=3)
    if isinstance(dtype, pl.Struct):
        names = [field.name for field in dtype.fields]
        values = st.tuples(*(column(field.dtype) for field in dtype.fields))
        return st.none() | values.map(lambda found: dict(zip(names, found, strict=True)))
    return st.none() | SCALARS[dtype]


KEYS = st.sampled_from(["a", 'é"', "0"])
DTYPES = st.recursive(
    st.sampled_from(list(SCALARS)),
    lambda inner: inner.map(pl.List) | st.dictionaries(KEYS, inner, min_size=1).map(pl.Struct),
    max_leaves=4,
)
NAMES = st.sampled_from(["a", "b", "a.a", 'q "x"', "0"])


@given(data=st.data(), schema=st.dictionaries(NAMES, DTYPES, min_size=1, max_size=3), height=st.integers(1, 4))
def test_law_the_columns_of_a_frame_are_what_json_dumps_writes_of_its_rows(
    data: st.DataObject, schema: dict[str, Any], height: int
) -> None:
    rows = [{name: data.draw(column(dtype)) for name, dtype in schema.items()} for _ in range(height)]
    frame = pl.DataFrame({name: pl.Series([row[name] for row in rows], dtype=t) for name, t in schema.items()})
    paths = ["a", "b", "a.a", "a.0", "a.0.a", "b.a.0", "0.0", "b.00", "nowhere"]
    table = read_table(frame)
    assert isinstance(table, FrameTable)
    records = table.records(paths, paths)
    assert records["row"].to_list() == [json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows]
    plain, faults = records_of(enumerate(rows, start=1), fields=paths, items=paths)
    assert not faults
    assert records.equals(plain)
    assert read_table(rows).records(paths, paths).equals(plain)
    assert table.texts(paths[:2]).equals(DictTable(rows).texts(paths[:2]))


TYPED: dict[Any, st.SearchStrategy[Any]] = {
    pl.Date: st.dates(),
    pl.Datetime("us"): st.datetimes(min_value=dt.datetime(1000, 1, 1)),
    pl.Time: st.times(),
    pl.Duration("us"): st.timedeltas(dt.timedelta(-20_000), dt.timedelta(20_000)),
    pl.Decimal(20, 3): st.decimals(-(10**9), 10**9, places=3),
    pl.Int128: st.integers(-(2**100), 2**100),
    pl.Float64: SCALARS[pl.Float64],
}


@given(data=st.data(), dtype=st.sampled_from(list(TYPED)), nested=st.booleans())
def test_law_typed_columns_are_what_their_python_values_are(data: st.DataObject, dtype: Any, nested: bool) -> None:
    value = st.none() | TYPED[dtype]
    values = data.draw(st.lists(st.none() | st.lists(value, max_size=3) if nested else value, min_size=1, max_size=4))
    frame = pl.DataFrame({"v": pl.Series(values, dtype=pl.List(dtype) if nested else dtype)})
    odd = [{"v": one, "odd": [place, "x"]} for place, one in enumerate(values)]  # no column has such items
    table = read_table(odd)
    assert isinstance(table, DictTable)
    assert table.without(["odd"]).records(["v"], ["v"]).equals(read_table(frame).records(["v"], ["v"]))


def test_records_have_types_of_their_own() -> None:
    class Colour(Enum):
        RED = "red"

    record = {
        "big": 10**5000, "decimal": Decimal("1E+2"), "half": np.float32(0.1), "array": np.array([[1, 2]]),
        "day": np.datetime64("2026-01-01"), "stamp": pd.Timestamp("2026-01-01T00:00:00.000000001"), "pair": (1, None),
        "enum": Colour.RED, "deep": {"a": [{"b": np.int8(3), "c": np.bool_(True)}]}, "lasts": dt.timedelta(days=2),
        "series": pl.Series([1, 2]), "lone": "\ud83d",
    }  # fmt: skip
    (text,) = texts_of([record])
    assert loads(text) == {
        "big": "1" + "0" * 5000, "decimal": "100", "half": "0.1", "array": [["1", "2"]], "day": "2026-01-01",
        "stamp": "2026-01-01T00:00:00.000000001", "pair": ["1", None], "enum": "red",
        "deep": {"a": [{"b": "3", "c": True}]}, "lasts": "P2D", "series": ["1", "2"], "lone": "\ufffd",
    }  # fmt: skip
    for odd in (
        [{"a": 2**70}, {"a": 1}],
        [{"a": "\ud83d"}, {"a": "x"}],
        [{"a": True}, {"a": 1}],
        [{"a": 1}, {"a": 1.0}],
    ):
        expected = [clean(json.dumps(row, ensure_ascii=False, separators=(",", ":"))) for row in odd]
        assert texts_of(odd) == expected
    assert texts_of([{"a": 1}, {"b": "x", "a": "1"}]) == ['{"a":1}', '{"b":"x","a":"1"}']


def test_missing_values_of_pandas_are_null_and_objects_keep_their_types() -> None:
    frame = pd.DataFrame({
        "mixed": [1, "x", None], "float": [1.5, None, 2], "category": pd.Categorical(["a", None, "b"]),
        "stamp": pd.to_datetime(["2026-01-01", None, "2026-01-02"], utc=True),
        "whole": pd.array([1, None, 3], dtype="Int64"), "deep": [{"a": [np.nan, 1]}, pd.NA, {"a": pd.NaT}],
        "decimal": [Decimal("1.50"), None, Decimal("2")],
    })  # fmt: skip
    before = frame.copy(deep=True)
    assert texts_of(frame) == [
        '{"mixed":1,"float":1.5,"category":"a","stamp":"2026-01-01T00:00:00+00:00","whole":1,"deep":{"a":[null,1]},'
        '"decimal":1.50}',
        '{"mixed":"x","float":null,"category":null,"stamp":null,"whole":null,"deep":null,"decimal":null}',
        '{"mixed":null,"float":2.0,"category":"b","stamp":"2026-01-02T00:00:00+00:00","whole":3,"deep":{"a":null},'
        '"decimal":2}',
    ]
    pd.testing.assert_frame_equal(frame, before)
    assert texts_of(pd.DataFrame({"a": ["\ud83d", "x"]}, dtype=object)) == ['{"a":"\ufffd"}', '{"a":"x"}']


def test_what_json_can_not_hold_is_named_with_record_and_column() -> None:
    nan = float("nan")
    fill = "make it null where the value is missing (fill_nan(None)), or give a number"
    text = "drop the column, or write the bytes as text (base64)"
    assert refused(pl.DataFrame({"a": [1.0, nan, nan], "l": [[1.0], [], [float("inf")]], "b": [b"x", b"y", None]})) == {
        "column 'b'": text, "record 2, column 'a'": fill, "record 3, column 'l'": fill,
    }  # fmt: skip
    with pytest.raises(DatasetError, match=r"record 2, column 'a': nan is no JSON, and 1 more in this column"):
        read_table(pl.DataFrame({"a": [1.0, nan, nan]}))
    assert refused(pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)})) == {
        "column 'o'": "drop the column, or make it text, numbers, times, lists or structs of these"
    }
    assert refused(pl.DataFrame({"m": pl.Series([{1: 2}], dtype=pl.Map(pl.Int64, pl.Int64))})) == {
        "column 'm'": "cast the keys to text"
    }
    assert refused([{"a": nan}, {"a": b"x"}, {3: 1}, {"a": {1: 2}}, {"a": [{1}]}, {"a": Decimal("inf")}]) == {
        "record 1, column 'a'": "use null where the value is missing, or give a number",
        "record 2, column 'a'": text,
        "record 3, column 3": "write '3'",
        "record 4, column 'a'": "write '1'",
        "record 5, column 'a'": "write it as text, a number, a list or a dict",
        "record 6, column 'a'": "use null where the value is missing, or give a number",
    }
    many = refused([{"a": nan}, {"b": nan}] * 25)
    assert len(many) == 21
    assert "" in many


def test_names_of_pandas_that_no_frame_can_have() -> None:
    assert refused(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"])) == {"column 'a'": "rename one of the two"}
    assert refused(pd.DataFrame([[1]])) == {"column 0": "rename it, as in '0'"}
    assert list(refused(pd.DataFrame({"c": [1j]}))) == ["column 'c'"]
    assert list(refused(pd.DataFrame({"p": pd.period_range("2020", periods=2, freq="D")}))) == ["column 'p'"]
    assert list(refused(pd.DataFrame({"f": [float("inf")]}))) == ["record 1, column 'f'"]


def test_records_that_are_nested_without_end() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert refused([{"a": deep}]) == {"record 1, column 'a'": "flatten it"}


@pytest.mark.parametrize(
    "source", [[], pl.DataFrame(), pl.DataFrame({"a": []}), pd.DataFrame({"a": []}), [{}, {}]], ids=repr
)
def test_no_data_is_an_error(source: Any) -> None:
    with pytest.raises(DatasetError, match=r"the data has no (rows|columns); check where it comes from"):
        read_table(source)


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        (pl.Series([1]), "a column becomes a frame by to_frame()"), (pd.Series([1]), "becomes a frame by to_frame"),
        ({"a": [1]}, r"a dict of columns is polars.DataFrame\(columns\)"), (5, "give data"), (["a"], "a list of dicts"),
        (None, "give data"),
    ],
)  # fmt: skip
def test_what_is_no_data_says_what_is(source: Any, remedy: str) -> None:
    with pytest.raises(OptionError, match=remedy):
        read_table(source)


def test_files(tmp_path: Path, write_jsonl: Callable[..., Path]) -> None:
    assert texts_of(write_jsonl(['{"a": 2.50, "b": 1e5}'])) == ['{"a":2.50,"b":1e5}']
    (tmp_path / "t.csv").write_text("a,b\n007,\n")
    assert texts_of(tmp_path / "t.csv") == ['{"a":"007","b":null}']
    with pytest.raises(OptionError, match=r"its name is of no kind of data: give data.*read any other into a frame"):
        read_table(tmp_path / "book.xlsx")
    (tmp_path / "no.parquet").write_text("nothing of the kind")
    with pytest.raises(DatasetError, match="is no Parquet file that can be read"):
        read_table(tmp_path / "no.parquet")
    for path, words in [(tmp_path / "gone.parquet", "there is no such file"), (tmp_path / "d.parquet", "is a folder")]:
        if "d." in path.name:
            path.mkdir()
        with pytest.raises(DatasetError, match=words):
            read_table(path)
