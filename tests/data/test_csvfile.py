"""CSV is text as written, or refused with the line and what to do."""

from __future__ import annotations

import csv
import gzip
import io
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
    def read(content: str | bytes, **options: Any) -> list[dict[str, Any]]:
        path = tmp_path / "rows.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return [json.loads(row) for row in read_records(path, **options)["row"]]

    return read


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_cells_are_text(read, end: str) -> None:
    assert read(f"a,b{end}007,1e3{end} x , true") == [{"a": "007", "b": "1e3"}, {"a": " x ", "b": " true"}]


def test_empty_cells_are_missing_quoted_or_not(read) -> None:
    assert read('a,b\n,x\n"",\n') == [{"a": None, "b": "x"}, {"a": None, "b": None}]


def test_a_blank_line_is_no_row_and_a_row_of_commas_is_one(read) -> None:
    assert read("\na,b\n\n  \n1,2\n,\n\r\n") == [{"a": "1", "b": "2"}, {"a": None, "b": None}]


def test_a_carriage_return_alone_is_text(read) -> None:
    assert read('a,b\nx\ry,"\r"\n\r,"z"\r\n1,2\r') == [
        {"a": "x\ry", "b": "\r"}, {"a": "\r", "b": "z"}, {"a": "1", "b": "2"},
    ]  # fmt: skip


def test_one_column_with_a_quoted_empty_cell(read) -> None:
    assert read('a\n""\nx\n\n') == [{"a": None}, {"a": "x"}]


def test_quotes(read) -> None:
    content = 'a,b\n"x, ""y""\n\n z","\r\n"\n5" pipe,{"k": 1}\n'
    assert read(content) == [{"a": 'x, "y"\n\n z', "b": "\r\n"}, {"a": '5" pipe', "b": '{"k": 1}'}]


def test_line_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'a,b\n\n1,"x\ny\nz"\n2,w\n')
    assert read_records(path)["line_number"].to_list() == [3, 6]


def test_header_names_are_without_blanks_and_may_be_quoted(read) -> None:
    assert read(b'\xef\xbb\xbf"id", "the q"\n'.replace(b' "the q"', b" the q ") + b"7,Why?\n") == [
        {"id": "7", "the q": "Why?"}
    ]


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n"))
    assert read_records(path, fields=["a"])["field.a"].to_list() == ["1"]


@pytest.mark.parametrize(
    ("content", "where", "words"),
    [
        ("a,b\n1,2,3\n", "2:1", "row 1 (line 2) has 3 cells for 2 columns -> put a cell that holds a comma"),
        ('a,b\n"1\n2"\n', "2:1", "row 1 (lines 2-3) has 1 cell for 2 columns"),
        ('a,b\n1, "x, y"\n', "2:1", "an opening quote must follow the comma at once"),
        ("a;b\n1;2,3\n", "2:1", "looks separated by ';'; save the file with commas"),
        ("a,a\n1,2\n", "1:1", "the header has 'a' twice, as columns 1 and 2 -> rename one"),
        ("a, a\n1,2\n", "1:1", "twice"),
        (",a\n1,2\n", "1:1", "column 1 of 2 has no name -> name it in the header"),
        ('a,b\n1,"x\n2,y\n', "2:3", "unclosed quote opened on line 2: it runs to the end of the file -> close it"),
        ('a,b\n1,"x"y,z\n', "2:6", "the quoted cell opened on line 2 is closed here, and 'y' follows"),
        ('a,b\n1,"x\n2,"y"\n', "3:4", "opened on line 2 is closed here, and 'y\"' follows -> was an earlier quote"),
        (
            "a,b\r1,2\r",
            "1:1",
            "the column name 'b\\r1' holds a carriage return -> a carriage return alone ends no line",
        ),
        ("a,b\n1,x\r2,y\r", "2:1", "save the file with \\n or \\r\\n line ends"),
        (b"a,b\n\xc3\xa9,x\xff\n", "2:4", "the byte 0xFF is not UTF-8 -> save the file as UTF-8"),
        ("\n\n", "1:1", "there is no header -> name the columns in the first line"),
    ],
)
def test_what_can_not_be_kept_is_named(read, content: str | bytes, where: str, words: str) -> None:
    with pytest.raises(DatasetError) as caught:
        read(content)
    assert f"rows.csv:{where}: " in str(caught.value)
    assert words in str(caught.value)


def test_all_bad_rows_are_named_and_the_count_goes_on(read) -> None:
    with pytest.raises(DatasetError) as caught:
        read('a,b\n1,2\n1\n"x"y,z\n1,2\n1,2,3\n')
    assert caught.value.faults["where"].to_list() == ["rows.csv:3:1", "rows.csv:4:4", "rows.csv:6:1"]
    assert "row 5 (line 6)" in caught.value.faults["detail"][2]


def test_a_header_alone_has_no_rows(read) -> None:
    with pytest.raises(DatasetError, match="has no rows; add some"):
        read("a,b\n")


def test_the_process_wide_limit_of_the_csv_module_is_left_alone(read) -> None:
    before = csv.field_size_limit()
    assert len(read("a\n" + "m" * 300_000 + '\n"' + "q" * 300_000 + '"\n')[1]["a"]) == 300_000
    assert csv.field_size_limit() == before


cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00") | st.sampled_from('",\r\n '), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_the_csv_module_writes_comes_back(read, rows: list[list[str]], end: str, quoting: Any) -> None:
    if (end, quoting) == (
        "\n",
        csv.QUOTE_MINIMAL,
    ):  # then the module leaves a last return bare, which is \r\n on reading
        rows = [[a, b.rstrip("\r")] for a, b in rows]
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end, quoting=quoting).writerows([["a", "b"], *rows])
    assert read(out.getvalue()) == [{"a": a or None, "b": b or None} for a, b in rows]
