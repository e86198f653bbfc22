"""Data that is in memory already, or in Parquet: frames and lists of dicts become a table, every value exactly.

Frames of other libraries are known by where their types come from, so that none of these libraries is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.data.jsoncolumns import json_texts, not_finite, type_faults
from evalframe.data.local import FORMATS, read_records
from evalframe.data.pyvalues import NoValueError, plain
from evalframe.data.tables import DictTable, FrameTable, Table, faulty
from evalframe.errors import DatasetError, Fault, OptionError
from evalframe.jsontext import loads

DATA_FORMS = (
    "data (a polars or pandas frame, a pyarrow table, a datasets.Dataset, a list of dicts, a .jsonl, .csv or .parquet "
    "file)"
)


def is_data(source: Any) -> bool:
    """Say whether a source can only be data: it is no form of a suite or of task records."""
    if isinstance(source, str | os.PathLike):
        name = Path(source).name.lower()
        return name.removesuffix(".gz").endswith(".csv") or name.endswith((".parquet", ".pq"))
    if isinstance(source, Sequence):
        return bool(source) and all(isinstance(one, Mapping) and "task_id" not in one for one in source)
    return isinstance(source, pl.DataFrame | pl.LazyFrame) or _library(source) is not None


def is_text_file(source: Any) -> bool:
    """Say whether a source is the path of a file that the exact readers read (JSONL, CSV)."""
    if not isinstance(source, str | os.PathLike):
        return False
    return Path(Path(source).name.lower().removesuffix(".gz")).suffix in FORMATS


def read_table(source: Any) -> Table:
    """Read data of any form into a table that keeps each value.

    Args:
        source: A polars DataFrame or LazyFrame (collected here), a pandas frame (without its index), a pyarrow
            table, a ``datasets.Dataset``, a list of dicts, the path of a JSONL, CSV or Parquet file.

    Nulls:
        NaN, NaT and NA are pandas' nulls, NaN is a ``Dataset``'s; elsewhere NaN is refused. Null stays null.

    Raises:
        OptionError: The source is none of these.
        DatasetError: There are no rows, or values that JSON can not hold; names record and column.
    """
    table = _read(source)
    if not table.height or not table.names:
        lack = "rows" if not table.height else "columns"
        raise DatasetError(f"the data has no {lack}; check where it comes from, and that no filter took them all")
    return table


def _read(source: Any) -> Table:
    if isinstance(source, pl.LazyFrame):
        source = source.collect(engine="in-memory")
    if isinstance(source, pl.DataFrame):
        return _checked(source)
    if isinstance(source, str | os.PathLike):
        return _read_path(Path(source))
    library = _library(source)
    if library == "pandas":
        return _from_pandas(source)
    if library == "datasets":
        return _from_datasets(source)
    if library == "pyarrow":
        return _checked(_named(pl.from_arrow(source), list(source.schema.names)))
    if isinstance(source, Sequence) and all(isinstance(one, Mapping) for one in source):
        return _from_dicts(source)
    raise OptionError(f"{type(source).__name__} is no data: give {DATA_FORMS}{_hint(source)}")


def _hint(source: Any) -> str:
    if isinstance(source, pl.Series) or type(source).__name__ == "Series":
        return "; a column becomes a frame by to_frame()"
    if isinstance(source, Mapping):
        return "; one record is [record], a dict of columns is polars.DataFrame(columns)"
    return ""


def _read_path(path: Path) -> Table:
    if path.suffix.lower() not in (".parquet", ".pq"):
        if not is_text_file(path):
            raise OptionError(
                f"{path}: its name is of no kind of data: give {DATA_FORMS}; read any other into a frame first"
            )
        return DictTable([loads(row) for row in read_records(path)["row"]])
    if path.is_dir() or not path.is_file():
        raise DatasetError(f"{path}: {'is a folder' if path.is_dir() else 'there is no such file'}; name a file")
    try:
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DatasetError(f"{path}: is no Parquet file that can be read ({error}); write it again") from None
    return _checked(frame)


def _library(source: Any) -> str | None:
    """Name the library whose frame this is, without importing it."""
    kinds = {(kind.__module__.split(".")[0], kind.__name__) for kind in type(source).__mro__}
    known = {
        ("pandas", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"), ("datasets", "Dataset"),
        ("datasets", "IterableDataset"), ("datasets", "DatasetDict"), ("datasets", "IterableDatasetDict"),
    }  # fmt: skip
    return next((library for library, _ in kinds & known), None)


def _checked(frame: pl.DataFrame) -> FrameTable:
    """Refuse a frame with values that JSON can not hold; every column that has some is named."""
    faults = [
        Fault(f"column {name!r}", "no_json", detail, remedy)
        for name, dtype in frame.schema.items()
        for detail, remedy in type_faults(dtype)
    ]
    for name, dtype in frame.schema.items():
        bad = None if any(type_faults(dtype)) else not_finite(frame[name])
        if bad is not None and bad.any():
            faults += _not_finite_faults(frame[name], bad)
    if faults:
        raise faulty(faults)
    return FrameTable(frame, frame.height)


def _not_finite_faults(values: pl.Series, bad: pl.Series) -> list[Fault]:
    n, place = int(bad.sum()), int(bad.arg_true()[0])
    seen = values[place] if values.dtype.is_float() else "a NaN or an infinity"
    count = f", and {n - 1} more in this column" if n > 1 else ""
    remedy = "make it null where the value is missing (fill_nan(None)), or give a number"
    return [Fault(f"record {place + 1}, column {values.name!r}", "not_finite", f"{seen} is no JSON{count}", remedy)]


def _named(frame: Any, names: Sequence[Any]) -> pl.DataFrame:
    if faults := _name_faults(names):
        raise faulty(faults)
    whole: pl.DataFrame = frame
    return whole


def _name_faults(names: Sequence[Any]) -> list[Fault]:
    faults = [
        Fault(f"column {name!r}", "bad_name", "has a name that is no text", f"rename it, as in {str(name)!r}")
        for name in names
        if not isinstance(name, str)
    ]
    twice = dict.fromkeys(name for name in names if isinstance(name, str) and list(names).count(name) > 1)
    return faults + [Fault(f"column {name!r}", "duplicate", "stands twice", "rename one of the two") for name in twice]


def _from_datasets(source: Any) -> FrameTable:
    kind = type(source).__name__
    if kind in ("DatasetDict", "IterableDatasetDict"):
        splits = ", ".join(map(repr, source))
        one = "test" if "test" in source else next(iter(source), "test")
        raise OptionError(f"a {kind} is several data sets; give one of its splits ({splits}), as in data[{one!r}]")
    if kind == "IterableDataset":
        raise OptionError("an IterableDataset has no end that is known; give its first rows: list(data.take(1000))")
    frame: pl.DataFrame = source.with_format("polars")[:]
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    return _checked(frame.with_columns(pl.col(floats).fill_nan(None)))


def _from_dicts(source: Sequence[Mapping[Any, Any]], *, nan_is_null: bool = False) -> Table:
    if (columns := _typed_columns(source)) is not None:
        frame = pl.DataFrame(columns)
        floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
        return _checked(frame.with_columns(pl.col(floats).fill_nan(None)) if nan_is_null else frame)
    rows, faults = [], []
    # one record at a time: each has its own types, which no column has
    for number, record in enumerate(source, start=1):
        row: dict[str, Any] = {}
        for name, value in record.items():
            try:
                if not isinstance(name, str):
                    raise NoValueError("its name is no text", f"write {str(name)!r}")
                row[name] = plain(value, nan_is_null=nan_is_null)
            except NoValueError as error:
                faults.append(Fault(f"record {number}, column {name!r}", error.rule, error.detail, error.remedy))
        rows.append(row)
    if faults:
        raise faulty(faults)
    return DictTable(rows)


def _typed_columns(source: Sequence[Mapping[Any, Any]]) -> list[pl.Series] | None:
    """Give the columns of dicts that are alike: the same keys in the same order, one type a key. None: they are not."""
    names = list(source[0]) if source else []
    if not names or not all(type(name) is str for name in names):
        return None
    if not all(type(row) is dict and list(row) == names for row in source):
        return None
    columns = []
    for name in names:
        values = [row[name] for row in source]
        flat, dtype = values, _type_of(values)
        if dtype is None and set(map(type, values)) <= {list, type(None)}:
            flat = [item for value in values if value for item in value]
            inner = _type_of(flat)
            dtype = None if inner is None else pl.List(inner)
        if dtype is None:
            return None
        try:
            columns.append(pl.Series(name, values, dtype=dtype))
        except UnicodeEncodeError:  # a lone surrogate
            return None
    return columns


def _type_of(values: Sequence[Any]) -> Any:
    """Give the one type of column that holds some values exactly; None: there is none."""
    kinds = frozenset(map(type, values)) - {type(None)}
    if kinds == {int} and not all(value is None or -_INT64 <= value < _INT64 for value in values):
        return None
    return _COLUMNS.get(kinds)


_INT64 = 2**63
_COLUMNS: Mapping[frozenset[type], Any] = {
    frozenset({str}): pl.String,
    frozenset({int}): pl.Int64,
    frozenset({float}): pl.Float64,
    frozenset({bool}): pl.Boolean,
    frozenset(): pl.Null,
}


def _from_pandas(source: Any) -> Table:
    names = list(source.columns)
    faults = _name_faults(names)
    columns: dict[str, pl.Series | list[Any]] = {}
    if not faults:
        for place, name in enumerate(names):
            try:
                columns[name] = _pandas_column(name, source.iloc[:, place])
            except NoValueError as error:
                faults.append(Fault(f"column {name!r}", error.rule, error.detail, error.remedy))
    if faults:
        raise faulty(faults)
    typed = {name: column for name, column in columns.items() if isinstance(column, pl.Series)}
    table = _checked(pl.DataFrame(typed)) if typed else FrameTable(pl.DataFrame(), len(source))
    if len(typed) == len(columns):
        return table
    # a column of objects has no type: its values go record by record, and all others with them
    values = {name: _plain_values(columns[name]) for name in names}
    return _from_dicts([dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)],
                       nan_is_null=True)  # fmt: skip


def _pandas_column(name: str, column: Any) -> pl.Series | list[Any]:
    """Give a column of one type as a Series, one of objects (and categories) as a list, missing values as None."""
    if str(column.dtype) in ("object", "category"):
        missing = column.isna().tolist()
        values = [None if lost else value for value, lost in zip(column.tolist(), missing, strict=True)]
        if not all(value is None or type(value) is str for value in values):
            return values
        try:
            return pl.Series(name, values, dtype=pl.String)
        except UnicodeEncodeError:  # a lone surrogate
            return values
    try:
        found: Any = pl.from_pandas(column, nan_to_null=True)  # a Series of theirs becomes one of ours
    except Exception as error:  # pyarrow and pandas raise many kinds for what they can not convert
        raise NoValueError(f"is of the pandas type {column.dtype} ({error})", "make it text: .astype(str)") from None
    series: pl.Series = found.alias(name)
    return series


def _plain_values(column: pl.Series | list[Any]) -> list[Any]:
    if isinstance(column, list):
        return column
    if column.dtype in (pl.String, pl.Boolean) or column.dtype.is_integer():
        return column.to_list()
    return [loads(text) for text in json_texts(column)]
