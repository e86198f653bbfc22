"""A schema says what a frame is, and ``check`` holds a frame to it."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from evalframe import frames, schemas
from evalframe.errors import SchemaError
from evalframe.frames import Column, FrameSchema, check

PETS = FrameSchema(
    "pets",
    "one animal",
    (
        Column("owner", pl.String, "who has it"),
        Column("number", pl.Int64, "0-based", low=0),
        Column("kind", pl.String, "what it is", allowed=("cat", "dog")),
        Column("tame", pl.Float64, "share of days without a bite; null: not watched", nullable=True, low=0.0, high=1.0),
        Column("note.", pl.String, "a remark", nullable=True, family=True),
    ),
    key=("owner", "number"),
)


def pets(**columns: object) -> pl.DataFrame:
    values = {"owner": ["a", "a", "b"], "number": [0, 1, 0], "kind": ["cat", "dog", "cat"], "tame": [0.5, None, 1.0]}
    return pl.DataFrame(
        {**values, **columns},
        schema_overrides={
            "number": pl.Int64,
            "tame": pl.Float64,
            **{n: pl.String for n in columns if n[:5] == "note."},
        },
        strict=False,
    )


def rules(frame: pl.DataFrame, schema: FrameSchema = PETS) -> set[tuple[str, str]]:
    with pytest.raises(SchemaError) as caught:
        check(frame, schema)
    return set(caught.value.faults.select("where", "rule").iter_rows())


@pytest.mark.parametrize("schema", schemas.ALL, ids=lambda schema: schema.name)
def test_every_schema_has_a_legal_example_and_a_legal_empty_frame(schema: FrameSchema) -> None:
    assert check(frames.example(schema, 3), schema).height == 3
    assert check(frames.empty(schema), schema).height == 0
    assert schema.describe()["meaning"].str.len_chars().min() > 0
    assert set(schema.key) <= set(schema.names)
    assert len(set(schema.names)) == len(schema.names)


def test_columns_in_any_order_and_families_pass() -> None:
    frame = pets(**{"note.diet": ["fish", None, "meat"]})
    assert check(frame.select(sorted(frame.columns)), PETS) is not None


def test_all_faults_of_one_frame_are_named_at_once() -> None:
    frame = pets(tame=[0.5, math.nan, 1.5], kind=["cat", "cow", None], number=[0, -1, 0])
    assert rules(frame) == {
        ("tame", "nan"), ("tame", "range"), ("kind", "vocabulary"), ("kind", "null"), ("number", "range"),
        ("owner, number", "key"),
    }  # fmt: skip


def test_missing_unknown_and_mistyped_columns() -> None:
    frame = pets(owner=[1, 2, 3]).drop("kind").with_columns(colour=pl.lit("red"))
    assert rules(frame) == {("kind", "missing_column"), ("colour", "unknown_column"), ("owner", "bad_dtype")}


def test_a_fault_names_the_first_row_and_value() -> None:
    with pytest.raises(SchemaError, match=r"tame: 1 of 3 values, first at row 2: 7.0 -> bring it into the declared"):
        check(pets(tame=[0.5, None, 7.0]), PETS)


@pytest.mark.parametrize("owners", [["a", "a", "a"], ["b", "a", "c"], ["a", "b", "a"]])
def test_the_key_is_unique_and_sorted(owners: list[str]) -> None:
    assert rules(pets(owner=owners)) == {("owner, number", "key")}


def test_an_unordered_schema_still_wants_a_unique_key() -> None:
    loose = FrameSchema("pets", "one animal", PETS.columns, PETS.key, ordered=False)
    check(pets(owner=["b", "a", "c"]), loose)
    assert rules(pets(owner=["a", "b", "a"]), loose) == {("owner, number", "key")}


def test_only_the_columns_that_a_function_uses_need_be_there() -> None:
    few = pets().drop("kind")
    assert check(few, PETS, columns=["tame"]) is few
    with pytest.raises(SchemaError, match="tame"):
        check(few.drop("tame"), PETS, columns=["tame"])


def test_records_never_infer_types() -> None:
    late = [{"owner": f"o{i:03}", "number": 0, "kind": "cat"} for i in range(150)]
    frame = frames.from_records([*late, {"owner": "p", "number": 0, "kind": "dog", "note.x": "1"}], PETS)
    assert frame["note.x"].to_list()[-1] == "1"
    assert frame.schema["tame"] == pl.Float64
    with pytest.raises(SchemaError, match="colour"):
        frames.from_records([{"colour": "red"}], PETS)


def test_parquet_round_trip_names_its_schema(tmp_path: Path) -> None:
    path = frames.write_parquet(pets(), PETS, tmp_path / "new" / "pets.parquet")
    assert frames.read_parquet(path, PETS).equals(pets())
    assert [p.name for p in path.parent.iterdir()] == ["pets.parquet"]
    other = FrameSchema("dogs", "one dog", PETS.columns, PETS.key)
    with pytest.raises(SchemaError, match=r"holds pets version 1, not dogs version 1"):
        frames.scan_parquet(path, other)


def test_a_faulty_frame_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        frames.write_parquet(pets(kind=["cow"] * 3), PETS, tmp_path / "pets.parquet")
    assert list(tmp_path.iterdir()) == []


def test_notes_are_shown_and_do_not_change_the_frame() -> None:
    noted = frames.Noted.of(pets(), ["<b> is not a tag here"])
    assert noted.equals(pets())
    assert check(noted, PETS) is noted
    assert repr(noted).endswith("note: <b> is not a tag here")
    assert noted._repr_html_().startswith("<p>&lt;b&gt; is not a tag here</p>")
    assert type(noted.sort("owner")) is pl.DataFrame


def test_a_noted_frame_of_ten_columns_is_printed_whole_and_a_wider_one_is_not() -> None:
    for n, whole in ((10, True), (11, False)):
        shown = repr(frames.Noted.of(pl.DataFrame({f"c{i}": [i] for i in range(n)}), []))
        assert ("c4" in shown) is whole
        assert ("…" in shown) is not whole
