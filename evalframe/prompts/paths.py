"""Which paths a data set has: for telling a field that some rows lack from one that is nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any

import polars as pl

from evalframe.frames import check
from evalframe.jsontext import loads
from evalframe.schemas import RECORDS

MOST_ITEMS = 10  # of a list, in a listing of paths


def known_paths(records: pl.DataFrame) -> list[str]:
    """List all paths that occur in the records, nested ones dotted, sorted; of a list the first 10 items.

    Frame in: RECORDS.

    Nulls:
        A path whose value is null is listed. No records give no paths.
    """
    check(records, RECORDS)
    # parsed row by row: this runs once, for the words of a warning, never on the way of the data
    return sorted({path for row in records["row"] for path in _paths(loads(row), MOST_ITEMS)})


def is_known(records: pl.DataFrame, path: str) -> bool:
    """Say whether a path occurs in any record, be its value null.

    Frame in: RECORDS, with a column ``field.<path>``.
    """
    check(records, RECORDS)
    if records[f"field.{path}"].null_count() < records.height:
        return True
    # nulls or nothing: look into those rows alone that have the path's keys in their text
    row = pl.col("row")
    steps = [row.str.contains(_quoted(step), literal=True) for step in path.split(".") if not step.isdigit()]
    keys = pl.all_horizontal(steps) if steps else pl.lit(True)
    maybe = records.filter(keys | row.str.contains(_quoted(path), literal=True))["row"]
    return any(path in _paths(loads(text), None) for text in maybe)


def _quoted(key: str) -> str:
    return encode_basestring(key)


def _paths(record: dict[str, Any], most_items: int | None) -> Iterator[str]:
    for key, value in record.items():
        yield key
        if "." not in key:
            yield from _below(key, value, most_items)


def _below(prefix: str, value: Any, most_items: int | None) -> Iterator[str]:
    if isinstance(value, dict):
        inner = [(key, item) for key, item in value.items() if "." not in key]  # with a dot no path leads to it
    elif isinstance(value, list):
        inner = [(str(index), item) for index, item in enumerate(value[:most_items])]
    else:
        return
    for key, item in inner:
        yield (path := f"{prefix}.{key}")
        yield from _below(path, item, most_items)
