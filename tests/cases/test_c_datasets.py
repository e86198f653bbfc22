"""Cases from the field, kind c: files that lost rows, digits or columns on the way in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalframe.data.local import read_records
from evalframe.errors import DatasetError
from evalframe.jsontext import Number, loads
from evalframe.manifest.suite import parse_suite
from evalframe.prompts.assemble import needed_paths, suite_rows


@pytest.fixture
def rows_of(tmp_path: Path):
    """A file's bytes and two templates, to ROWS."""

    def rows(content: str | bytes, prompt: str, target: str = "t", *, name: str = "rows.jsonl", **options: Any):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        task = {"id": "t", "type": "qa", "dataset": {"file_id": name}, "metrics": [{"id": "exact_match"}],
                "prompt_template": prompt, "target_template": target}  # fmt: skip
        suite = parse_suite({"tasks": [task]}, metric_names={"exact_match"})
        paths = needed_paths(suite.tasks[0])
        records = read_records(path, fields=paths.fields, items=paths.items)
        return suite_rows(suite.tasks[0], records, **options)

    return rows


def test_C037_a_field_that_appears_late_is_kept(rows_of) -> None:
    lines = [{"id": i} for i in range(110)] + [{"id": i, "hint": f"h{i}"} for i in range(110, 130)]
    rows = rows_of("".join(json.dumps(line) + "\n" for line in lines), "{{id}} {{hint}}")
    assert rows.height == 130
    assert rows["row.hint"].drop_nulls().to_list() == [f"h{i}" for i in range(110, 130)]
    assert rows["prompt"][0] == "0 "
    assert rows["prompt"][129] == "129 h129"


def test_C038_a_nan_token_is_refused_with_its_place(rows_of) -> None:
    with pytest.raises(DatasetError, match=r"rows.jsonl:2:13: NaN is not JSON; write null"):
        rows_of('{"id":1,"w":0.5}\n{"id":2,"w":NaN}\n{"id":3,"w":0.1}\n', "{{w}}")


def test_C039_types_are_kept_row_by_row(rows_of) -> None:
    gold = ["1", '"200"', '[1,"one"]', "1.50", "true"]
    content = "".join(f'{{"id":"{name}","gold":{value}}}\n' for name, value in zip("abcde", gold, strict=True))
    rows = rows_of(content, "{{gold}}", "{{gold}}")
    kept = [loads(row)["gold"] for row in rows["row"]]
    assert [type(value) for value in kept] == [Number, str, list, Number, bool]
    assert rows["row"].to_list() == content.splitlines()
    assert rows["prompt"].to_list() == ["1", "200", '[1,"one"]', "1.50", "true"]
    assert rows["targets"].to_list() == [["1"], ["200"], ["1", "one"], ["1.50"], ["true"]]


def test_C041_large_integers_keep_all_digits(rows_of, tmp_path: Path) -> None:
    content = (
        '{"id":18014398509481985123,"meta":{"ref":9007199254740993}}\n'
        '{"id":18014398509481985124,"meta":{"ref":1180591620717411303424}}\n'
    )
    rows = rows_of(content, "{{meta.ref}}")
    assert rows["sample_id"].to_list() == ["18014398509481985123", "18014398509481985124"]
    assert rows["prompt"].to_list() == ["9007199254740993", "1180591620717411303424"]
    assert rows["row"].to_list() == content.splitlines()
    rows.write_parquet(tmp_path / "rows.parquet")
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(rows)
    texts = rows.select("sample_id", "prompt", "row")
    texts.write_csv(tmp_path / "rows.csv")
    assert pl.read_csv(tmp_path / "rows.csv", infer_schema=False).equals(texts)


def test_C042_csv_cells_are_text(rows_of) -> None:
    content = 'code,question,answer\n"0042",Which depot?,007\n0117,Which gate?,1e3\n'
    rows = rows_of(content, "{{code}} -> {{answer}}", name="rows.csv")
    assert rows["prompt"].to_list() == ["0042 -> 007", "0117 -> 1e3"]


def test_C043_json_in_csv_cells(rows_of) -> None:
    rows = rows_of('id,gold\n1,"{""a"": ""x, y""}"\n', "{{gold}}", name="rows.csv")
    assert rows["prompt"].to_list() == ['{"a": "x, y"}']
    with pytest.raises(DatasetError) as caught:
        rows_of('id,gold\n1,{"a": "x, y"}\n', "{{gold}}", name="rows.csv")
    assert "rows.csv:2:1: row 1 (line 2) has 3 cells for 2 columns" in str(caught.value)
    assert "put a cell that holds a comma, a quote or a line break in double quotes" in str(caught.value)


def test_C044_quoted_line_breaks_are_no_rows(rows_of) -> None:
    content = 'id,passage\r\n1,"first line\r\nsecond, line"\r\n\r\n2,"a ""quoted"" word"\r\n'
    rows = rows_of(content, "{{passage}}", name="rows.csv")
    assert rows["prompt"].to_list() == ["first line\r\nsecond, line", 'a "quoted" word']
    assert rows["sample_id"].to_list() == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("rows.csv", '"id",question\r\n7,Why?\r\n'), ("rows.jsonl", '{"id":7,"question":"Why?"}\n')],
)
def test_C045_a_byte_order_mark_is_no_part_of_a_name(rows_of, name: str, content: str) -> None:
    rows = rows_of(b"\xef\xbb\xbf" + content.encode(), "{{id}}: {{question}}", name=name)
    assert rows["prompt"].to_list() == ["7: Why?"]
    with pytest.raises(DatasetError, match="is UTF-16 text; save it as UTF-8"):
        rows_of(content.encode("utf-16"), "{{id}}", name=name)


def test_C048_clashing_ids_are_refused_before_any_call(rows_of) -> None:
    content = '{"id":"x","q":"1?"}\n{"id":"x","q":"2?"}\n{"id":1,"q":"3?"}\n{"id":"1","q":"4?"}\n'
    with pytest.raises(DatasetError) as caught:
        rows_of(content, "{{q}}")
    assert 'lines 1 and 2: the id "x" stands 2 times' in str(caught.value)
    assert 'lines 3 and 4: the ids 1 and "1" are the same as text' in str(caught.value)
    assert "sample_ids='content'" in str(caught.value)
    assert rows_of(content, "{{q}}", sample_ids="content")["sample_id"].n_unique() == 4


def test_C048_without_ids_every_row_has_one(rows_of) -> None:
    rows = rows_of('{"q":"1?"}\n{"q":"1?"}\n{"q":"2?"}\n', "{{q}}")
    assert rows["sample_id"].n_unique() == 3


def test_C049_cells_of_any_length_and_where_a_quote_was_opened(rows_of) -> None:
    long = "m" * 200_000
    rows = rows_of(f"id,passage\n1,{long}\n", "{{passage}}", name="rows.csv")
    assert rows["prompt"].to_list() == [long]
    with pytest.raises(DatasetError, match=r"rows.csv:3:3: unclosed quote opened on line 3"):
        rows_of(f'id,passage\n1,{long}\n2,"never closed' + "\nmore" * 50, "{{passage}}", name="rows.csv")
