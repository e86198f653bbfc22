"""Data in memory as a table that gives RECORDS: by whole columns where they have types, else record by record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evalframe.data.columns import records_of
from evalframe.data.jsoncolumns import at_path, items_of_lists, json_texts, rendered
from evalframe.errors import DatasetError, Fault
from evalframe.frames import check
from evalframe.jsontext import clean, text_of
from evalframe.schemas import RECORDS

MOST_FAULTS = 20
WHAT = "the data (records counted from 1)"


@dataclass(frozen=True)
class FrameTable:
    """Data whose columns have types.

    Attributes:
        frame: A frame whose values JSON can hold.
        height: Its rows, also where it has no column.
    """

    frame: pl.DataFrame
    height: int

    @property
    def names(self) -> list[str]:
        """The fields of the records."""
        return self.frame.columns

    def without(self, names: Sequence[str]) -> FrameTable:
        """Give the table without some of its columns."""
        return FrameTable(self.frame.drop(names), self.height)

    def records(self, fields: Sequence[str] = (), items: Sequence[str] = ()) -> pl.DataFrame:
        """Make the records: what ``data.columns.records_of`` would make of the rows as dicts, by columns.

        Frame out: RECORDS, ``line_number`` the 1-based position.

        Args:
            fields: Paths to take out as ``field.<path>``.
            items: Paths to take out as ``items.<path>``.
        """
        if self.frame.columns:
            row = json_texts(self.frame.to_struct("row"))
        else:
            row = pl.Series(["{}"]).new_from_index(0, self.height)
        lines = pl.int_range(1, self.height + 1, dtype=pl.Int64, eager=True)
        columns = {"line_number": lines, "row": row}
        columns |= {f"field.{path}": self._field(path) for path in fields}
        columns |= {f"items.{path}": items_of_lists(self._at(path)) for path in items}
        return check(pl.DataFrame(columns), RECORDS)

    def texts(self, names: Sequence[str]) -> pl.DataFrame:
        """Give the values of some fields, rendered; null where there is none."""
        return pl.DataFrame([self._field(name).alias(name) for name in names])

    def _field(self, path: str) -> pl.Series:
        return rendered(self._at(path)).cast(pl.String)

    def _at(self, path: str) -> pl.Series:
        if not self.frame.columns:
            return pl.Series([None], dtype=pl.String).new_from_index(0, self.height)
        return at_path(self.frame, path)


@dataclass(frozen=True)
class DictTable:
    """Data in which each record has types of its own.

    Attributes:
        rows: Records of plain JSON values.
    """

    rows: Sequence[Mapping[str, Any]] = field(repr=False)

    @property
    def height(self) -> int:
        """The number of records."""
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        """The fields of the records, in the order in which they are first seen."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def without(self, names: Sequence[str]) -> DictTable:
        """Give the table without some of its fields."""
        dropped = set(names)
        return DictTable([{key: value for key, value in row.items() if key not in dropped} for row in self.rows])

    def records(self, fields: Sequence[str] = (), items: Sequence[str] = ()) -> pl.DataFrame:
        """Make the records.

        Frame out: RECORDS, ``line_number`` the 1-based position.

        Raises:
            DatasetError: A record can not be written.
        """
        records, faults = records_of(enumerate(self.rows, start=1), fields=fields, items=items)
        if faults:
            raise faulty(faults)
        return records

    def texts(self, names: Sequence[str]) -> pl.DataFrame:
        """Give the values of some fields, rendered; null where there is none."""
        rendered = ([_text(row.get(name)) for row in self.rows] for name in names)
        return pl.DataFrame(dict(zip(names, rendered, strict=True)), schema=dict.fromkeys(names, pl.String))


def _text(value: Any) -> str | None:
    return None if value is None else clean(text_of(value))


Table = FrameTable | DictTable


def content_hash(records: pl.DataFrame) -> str:
    """Hash data by its records: BLAKE2b-128 over their JSON texts, one a line, hexadecimal.

    Frame in: RECORDS.
    """
    hasher = hashlib.blake2b(digest_size=16)
    for part in records["row"].to_frame().iter_slices(20_000):
        hasher.update(("\n".join(part["row"].to_list()) + "\n").encode())
    return hasher.hexdigest()


def faulty(faults: Sequence[Fault]) -> DatasetError:
    """Give the error for what is wrong with some data, the first faults of many."""
    more = len(faults) - MOST_FAULTS
    shown = list(faults[:MOST_FAULTS])
    if more > 0:
        shown.append(Fault("", "more", f"and {more} more faults"))
    error = DatasetError.of(shown, what=WHAT)
    assert isinstance(error, DatasetError)
    return error
