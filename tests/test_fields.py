"""Fields read from JSON text: by columns or one by one, the answer is the plain definition's."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evalframe.errors import SchemaError
from evalframe.fields import MISSING, find, has_path, known_paths, read_field
from evalframe.jsontext import Number, dumps, loads, text_of

KEYS = st.sampled_from(["a", "b", "c", "a.b", "0", 'b"', "é", 'x,"b', "", "ab"])
TEXTS = st.sampled_from(
    ["", "x", "1", "true", "null", '"b":1', ',"b":', "\\", "\u0001", "[]", "{", "é\n", "\\u0062", '"b"']
)
NUMBERS = st.sampled_from(["0", "-0", "7", "12345678901234567890123", "1e5", "2.50", "1E400", "-1.0e-7", "0.1"]).map(
    Number
)
VALUES = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "é", "", "ab"]), min_size=1, max_size=3).map(".".join)


def plainly(record: dict[str, Any], path: str) -> tuple[Any, ...]:
    """The definition, of one record."""
    value = find(record, path)
    if value is MISSING or value is None:
        return None, None, None
    kinds = {Number: "number", str: "text", bool: "boolean", list: "list", dict: "object"}
    items = [None if item is None else text_of(item) for item in value] if isinstance(value, list) else None
    return text_of(value), kinds[type(value)], items


@given(records=st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=5), path=PATHS, spelled=st.booleans())
@example(records=[{"b": {"a": Number("1")}}], path="a", spelled=False)
@example(records=[{"a": [{"b": "x"}]}], path="a.b", spelled=False)
@example(records=[{"a": {"b": "x"}, "a.b": "y"}], path="a.b", spelled=False)
@example(records=[{"a": ["x", "é", ""]}, {"a": ['"', "1"]}, {"a": [""]}, {"a": [["x"]]}], path="a", spelled=False)
@example(records=[{"a": None, "a.b": None}], path="a.b", spelled=False)
@example(records=[{"x": Number("1E400"), "b": "y"}], path="b", spelled=False)
def test_a_field_is_what_the_record_says(records: list[dict[str, Any]], path: str, spelled: bool) -> None:
    texts = [dumps(record) for record in records]
    if spelled:  # other people's JSON: blanks, and every letter that JSON lets one escape
        texts = [text.replace('":', '" : ').replace('{"b"', '{"\\u0062"') for text in texts]
        records = [loads(text) for text in texts]
    read = read_field(pl.Series(texts, dtype=pl.String), path)
    assert read.rows() == [plainly(record, path) for record in records]
    assert has_path(pl.Series(texts, dtype=pl.String), path) == any(find(r, path) is not MISSING for r in records)


def test_numbers_stay_as_they_were_written() -> None:
    written = ["12345678901234567890123", "1e5", "2.50", "1E400", "-0", "3"]
    rows = pl.Series([f'{{"n":{number},"m":{{"k":{number}}}}}' for number in written])
    assert read_field(rows, "n")["text"].to_list() == written
    assert read_field(rows, "m.k")["text"].to_list() == written
    assert read_field(rows, "n")["kind"].unique().to_list() == ["number"]


def test_a_list_gives_its_items() -> None:
    rows = pl.Series(['{"t":["a",1,null,true,["x"]]}', '{"t":[]}', '{"t":"[\\"a\\"]"}'])
    assert read_field(rows, "t")["items"].to_list() == [["a", "1", None, "true", '["x"]'], [], None]
    assert read_field(rows, "t")["text"].to_list() == ['["a",1,null,true,["x"]]', "[]", '["a"]']


def test_what_is_no_object_is_named_by_its_row() -> None:
    with pytest.raises(SchemaError, match=r"row 1 holds '\[\{\"a\":1\}\]', which is no JSON object"):
        read_field(pl.Series(['{"a":1}', '[{"a":1}]']), "a")
    with pytest.raises(SchemaError, match="row 0 holds '\"a\"oops', which is no JSON: there is more text"):
        read_field(pl.Series(['"a"oops']), "a")


def test_known_paths_enter_objects_but_no_lists() -> None:
    rows = pl.Series([json.dumps({"a": {"b": 1, "c": [{"d": 2}]}}), json.dumps({"e.f": {"g": 1}})])
    assert known_paths(rows) == ["a", "a.b", "a.c", "e.f"]
