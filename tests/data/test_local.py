"""Which files can be read at all, and what is said of the others."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from evalframe.data.columns import records_of
from evalframe.data.local import read_records
from evalframe.errors import DatasetError
from evalframe.fields import MISSING, find
from evalframe.frames import check
from evalframe.schemas import RECORDS


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "A.JSONL", "a.jsonl.gz", "a.b.ndjson"])
def test_the_name_tells_the_format(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'{"x": 1}\n')
    assert read_records(tmp_path / name)["row"].to_list() == ['{"x":1}']


def test_another_name_needs_a_format(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_bytes(b'{"x": 1}\n')
    with pytest.raises(DatasetError, match="give format='jsonl' or format='csv'"):
        read_records(path)
    assert read_records(path, format="jsonl").height == 1
    with pytest.raises(DatasetError, match="'tsv' is not known; use 'jsonl' or 'csv'"):
        read_records(path, format="tsv")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (b"\n \n", "has no rows"),
        ('{"a": 1}\n'.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        ('{"a": 1}\n'.encode("utf-16-le"), "UTF-16 text without a byte order mark; save it as UTF-8"),
        ('{"a": 1}\n'.encode("utf-16-be"), "UTF-16 text without a byte order mark; save it as UTF-8"),
        ('{"a": 1}\n'.encode("utf-32"), "is UTF-32 text; save it as UTF-8"),
        (b"PAR1\x15\x04", "is a Parquet file"),
        (b"PK\x03\x04\x14\x00", "a zip archive or a spreadsheet; save it as CSV or JSONL"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x03", "is a binary file"),
        (gzip.compress(b'{"a": 1}\n' * 999, mtime=0)[:-20], "the gzip file is damaged or cut off"),
        (gzip.compress(b'{"a": 1}\n' * 999, mtime=0)[:4] + b"nonsense" * 9, "the gzip file is damaged or cut off"),
    ],
)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_what_is_no_text_is_explained(tmp_path: Path, content: bytes, words: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    if (words, name) == ("has no rows", "rows.csv"):
        words = "there is no header"
    with pytest.raises(DatasetError, match=words) as caught:
        read_records(path)
    assert str(path) in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no such file; check the path"):
        read_records(tmp_path / "gone.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(DatasetError, match="is a folder; name a file in it"):
        read_records(tmp_path / "folder.jsonl")


def test_a_field_named_twice_is_one_column(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"x": ["1"]}\n')
    records = read_records(tmp_path / "a.jsonl", fields=["x", "x"], items=["x", "x"])
    assert records.columns == ["line_number", "row", "field.x", "items.x"]


def test_missing_is_not_null() -> None:
    assert find({"a": None}, "a") is None
    assert find({"a": None}, "b") is MISSING
    assert find({"a": None}, "a.b") is MISSING


def test_records_of_memory() -> None:
    deep: dict[str, object] = {}
    for _ in range(3_000):
        deep = {"a": deep}
    given = [(1, {"a": 1, "b": 2.5}), (2, {"a": float("nan")}), (3, {"a": {1, 2}}), (4, deep), (5, {"b": "x"})]
    records, faults = records_of(given, fields=["b"])
    assert check(records, RECORDS)["line_number"].to_list() == [1, 5]
    assert records["field.b"].to_list() == ["2.5", "x"]
    assert [fault.where for fault in faults] == ["record 2", "record 3", "record 4"]
    assert "nested too deeply" in faults[2].detail
