"""JSONL is kept exactly, or refused with the line and the column."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.data.local import read_records
from evalframe.errors import DatasetError


@pytest.fixture
def read(tmp_path: Path):
    def read(content: bytes, name: str = "rows.jsonl", **options: Any):
        path = tmp_path / name
        path.write_bytes(content)
        return read_records(path, **options)

    return read


def test_numbers_stay_as_written(read) -> None:
    digits = "9" * 5_000
    records = read(f'{{"a": 2.50, "b": [1e5, -0.0], "c": {digits}}}\n'.encode(), fields=["a", "b", "b.1", "c"])
    assert records["row"].to_list() == [f'{{"a":2.50,"b":[1e5,-0.0],"c":{digits}}}']
    assert records.row(0)[2:] == ("2.50", "[1e5,-0.0]", "-0.0", digits)


def test_values_render_as_in_templates(read) -> None:
    content = '{"s": " é ", "t": true, "n": null, "o": {"k": [1, "ä"]}, "e": []}\n'.encode()
    records = read(content, fields=["s", "t", "n", "o", "e", "gone"])
    assert records.row(0)[2:] == (" é ", "true", None, '{"k":[1,"ä"]}', "[]", None)


def test_paths(read) -> None:
    content = b'{"a.b": 1, "a": {"b": 2, "c": [10, {"d": 3}], "0": 4}, "x": [[5]]}\n'
    paths = [
        "a.b",
        "a.c.0",
        "a.c.1.d",
        "a.0",
        "x.0.0",
        "x.1",
        "x.-1",
        "x.00",
        "a.b.c",
        "a.c.²",
        "x.99999999999999999999",
    ]
    records = read(content, fields=paths)
    assert records.row(0)[2:] == ("1", "10", "3", "4", "5", None, None, None, None, None, None)


def test_items_are_lists_of_scalars(read) -> None:
    lines = ['{"v": ["a", 1.50, true, null]}', '{"v": []}', '{"v": [["a"]]}', '{"v": "a"}', '{"w": 1}', '{"v": [{}]}']
    records = read("\n".join(lines).encode(), items=["v"])
    assert records["items.v"].to_list() == [["a", "1.50", "true", ""], [], None, None, None, None]


def test_only_a_line_feed_ends_a_line(read) -> None:
    records = read('{"a": "x\u2028y\u0085z\x1c"}\r\n{"a": "2"}'.replace("\x1c", "\\u001c").encode(), fields=["a"])
    assert records["field.a"].to_list() == ["x\u2028y\u0085z\x1c", "2"]


def test_blank_lines_are_skipped_and_counted(read) -> None:
    assert read(b'\n{"a": 1}\r\n \t\r\n\n{"a": 2}\n\n')["line_number"].to_list() == [2, 5]


def test_byte_order_mark_and_gzip(read) -> None:
    content = b'\xef\xbb\xbf{"id": 7}\n'
    assert read(content, fields=["id"])["field.id"].to_list() == ["7"]
    assert read(gzip.compress(content), "rows.ndjson.gz", fields=["id"])["field.id"].to_list() == ["7"]


def test_a_lone_surrogate_becomes_the_replacement_character(read) -> None:
    records = read(b'{"a": "x\\ud800", "b": ["\\udfff"]}\n', fields=["a"], items=["b"])
    assert records.row(0)[1:] == ('{"a":"x\ufffd","b":["\ufffd"]}', "x\ufffd", ["\ufffd"])


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        (b'{"a": NaN}', 7, "NaN is not JSON"),
        (b'{"a": -Infinity}', 7, "Infinity is not JSON"),
        (b"[1]", 1, "a list, not an object -> write one JSON object a line, not one array"),
        (b"  null", 3, "null, not an object"),
        (b'"x"', 1, "a string, not an object"),
        (b"12", 1, "a number, not an object"),
        (b"false", 1, "a boolean, not an object"),
        (b'{"a": 1} {"a": 2}', 10, "more text after"),
        (b'{"a": 1}\r{"a": 2}', 10, "only a line feed ends a line"),
        ('{"é": "'.encode() + b'\xff"}', 8, "0xFF is not UTF-8 -> save the file as UTF-8"),
        (b'{"a": 1, "a": 2}', 10, "'a' stands twice"),
        (b'{"a": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", 1, "nested too deeply"),
        (b'{"a": ' + b"[" * 700 + b"]" * 700 + b"}", 1, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named(read, line: bytes, column: int, words: str) -> None:
    with pytest.raises(DatasetError) as caught:
        read(b'{"a": 0}\n' + line + b"\n")
    assert f"rows.jsonl:2:{column}: " in str(caught.value)
    assert words in str(caught.value)


def test_a_cut_off_file_is_said_to_be_one(read) -> None:
    with pytest.raises(DatasetError, match=r"rows.jsonl:2:7: .*the file may be cut off; write it again"):
        read(b'{"a": 1}\n{"a": ')


def test_an_array_over_several_lines_is_explained(read) -> None:
    with pytest.raises(DatasetError, match="JSON over several lines; write each object on one line"):
        read(b'[\n  {"a": 1},\n  {"a": 2}\n]\n')


def test_bad_lines_are_collected_up_to_a_number(read) -> None:
    with pytest.raises(DatasetError) as caught:
        read(b'{"ok": 1}\n' + b"nope\n" * 25)
    assert "25 faults, the first 20 of them here and 5 more; mend the file" in str(caught.value)
    assert caught.value.faults["where"].to_list() == [f"rows.jsonl:{n}:1" for n in range(2, 22)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(rows=st.lists(st.dictionaries(st.text(max_size=4), json_values, max_size=4), min_size=1, max_size=4))
def test_every_value_comes_back(read, rows: list[dict[str, Any]]) -> None:
    written = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    assert read("\n".join(written).encode())["row"].to_list() == written


def test_many_rows_are_read_in_slices(read) -> None:
    lines = b"".join(b'{"id": %d, "late": %d}\n' % (i, i) if i > 40_000 else b'{"id": %d}\n' % i for i in range(40_010))
    records = read(lines, fields=["id", "late"])
    assert records.height == 40_010
    assert records["field.id"].to_list() == [str(i) for i in range(40_010)]
    assert records["field.late"].drop_nulls().len() == 9
