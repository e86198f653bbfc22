"""From parsed records to RECORDS: the values at named paths become text columns, the rest stays in ``row``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from evalframe.errors import Fault
from evalframe.fields import MISSING, find
from evalframe.frames import check
from evalframe.jsontext import clean, dumps, text_of
from evalframe.schemas import RECORDS, TEXTS

ROWS_AT_ONCE = 20_000  # parsed values held as Python objects; then they become a frame


def items_of(value: Any) -> list[str] | None:
    """Give the rendered items of a list of scalars, null among them as the empty text; None for anything else.

    >>> items_of(["a", 1, True, None]), items_of([["a"]]), items_of("a")
    (['a', '1', 'true', ''], None, None)
    """
    if not isinstance(value, list) or any(isinstance(item, Mapping | list) for item in value):
        return None
    return [clean(text_of(item)) for item in value]


class RecordColumns:
    """Takes records one by one and gives them as a RECORDS frame; no parsed record is kept.

    Args:
        fields: Paths whose rendered value becomes a column ``field.<path>``.
        items: Paths whose list of scalars becomes a column ``items.<path>``.
    """

    def __init__(self, fields: Iterable[str] = (), items: Iterable[str] = ()) -> None:
        self._fields = tuple(dict.fromkeys(map(clean, fields)))
        self._items = tuple(dict.fromkeys(map(clean, items)))
        self._schema = {
            **RECORDS.dtypes,
            **{f"field.{path}": pl.String for path in self._fields},
            **{f"items.{path}": TEXTS for path in self._items},
        }
        self._full: list[pl.DataFrame] = []
        self._begin()

    def add(self, line_number: int, record: Mapping[str, Any], row: str) -> None:
        """Take one record and its compact JSON text.

        Raises:
            RecursionError: A value at a path is nested too deeply to be written.
            ValueError: It holds a number that JSON has not (NaN, an infinity).
        """
        whole = clean(row)
        values: list[Any] = [line_number, whole]
        mend = clean if whole is not row else None  # what is fine as a whole is fine in its parts
        for path in self._fields:
            value = record[path] if path in record else find(record, path)  # most paths are keys
            if type(value) is not str:
                value = None if value is MISSING or value is None else text_of(value)
            values.append(mend(value) if mend and value is not None else value)
        values.extend(items_of(find(record, path)) for path in self._items)
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        if len(self._values[0]) >= ROWS_AT_ONCE:
            self._flush()

    def frame(self) -> pl.DataFrame:
        """Give the records taken so far as a RECORDS frame."""
        self._flush()
        return check(pl.concat(self._full, rechunk=True), RECORDS)

    def _flush(self) -> None:
        columns = {
            name: _lists(values) if name.startswith("items.") else values
            for name, values in zip(self._schema, self._values, strict=True)
        }
        self._full.append(pl.DataFrame(columns, schema=self._schema, strict=True))
        self._begin()

    def _begin(self) -> None:
        self._values: list[list[Any]] = [[] for _ in self._schema]
        self._appends = [column.append for column in self._values]


def records_of(
    numbered: Iterable[tuple[int, Mapping[str, Any]]], *, fields: Sequence[str] = (), items: Sequence[str] = ()
) -> tuple[pl.DataFrame, list[Fault]]:
    """Make RECORDS of records in memory, each with its line number or 1-based position.

    Frame out: RECORDS.

    Args:
        numbered: Line numbers, ascending, and records; numbers may be ``jsontext.Number`` or plain Python ones.
        fields: Paths to take out as ``field.<path>``.
        items: Paths to take out as ``items.<path>``.

    Returns:
        The frame of the records that can be kept exactly, and a fault for each of the others.
    """
    columns = RecordColumns(fields, items)
    faults = []
    # one record at a time: each has its own types, which no column has
    for line_number, record in numbered:
        try:
            columns.add(line_number, record, dumps(record))
        except RecursionError:
            faults.append(Fault(f"record {line_number}", "too_deep", "is nested too deeply", "flatten it"))
        except (TypeError, ValueError) as error:
            faults.append(Fault(f"record {line_number}", "no_json", f"can not be written as JSON: {error}", "use null"))
    return columns.frame(), faults


def _lists(values: Sequence[list[str] | None]) -> pl.Series:
    """Make a column of lists: a fifth of the time that polars needs to look into Python lists one by one."""
    filled = [texts for texts in values if texts]
    items = {
        "place": [place for place, texts in enumerate(filled) for _ in texts],
        "text": [text for texts in filled for text in texts],
    }
    flat = pl.DataFrame(items, schema={"place": pl.Int64, "text": pl.String})
    lists = flat.group_by("place", maintain_order=True).agg("text")["text"]
    empty, null = len(filled), len(filled) + 1
    places = iter(range(len(filled)))
    gathered = [null if texts is None else next(places) if texts else empty for texts in values]
    return lists.append(pl.Series([[], None], dtype=TEXTS)).gather(gathered)
