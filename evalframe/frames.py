"""Declared frames: a schema says what a frame is, ``check`` holds a frame to it. None of our columns are named here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.disk import atomic_path
from evalframe.errors import Fault, SchemaError

DType = pl.DataType | type[pl.DataType]
MOST_LISTED = 5
MOST_COLUMNS = 10  # of a frame that is printed whole in a terminal


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, type and meaning.

    Attributes:
        name: Unique in its schema. In a ``family`` it is a prefix: any number of columns may begin with it.
        dtype: The polars type, compared exactly.
        doc: One line of meaning, with the unit.
        nullable: Whether nulls are legal; the doc says what a null means.
        low, high: Range of the values, both ends allowed; None for no bound. NaN is never legal.
        allowed: The closed vocabulary of a text column; empty for any text.
        family: Whether ``name`` is a prefix.
    """

    name: str
    dtype: DType
    doc: str
    nullable: bool = False
    low: float | None = None
    high: float | None = None
    allowed: tuple[str, ...] = ()
    family: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class FrameSchema:
    """A frame, declared once.

    Attributes:
        name: The word by which the frame is called everywhere, in lower case.
        row: What one row is.
        columns: In the order in which the frame has them; families come last.
        key: Columns that name a row: unique and without nulls.
        ordered: Whether the rows are sorted by the key.
        version: Goes up when a stored frame of an older version can not be read as one of this.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    ordered: bool = True
    version: int = 1

    def __repr__(self) -> str:
        names = ", ".join([*self.names, *(f"{family.name}*" for family in self.families)])
        lines = [f"{self.name}: {self.row}", f"  key: {', '.join(self.key)}", f"  columns: {names}"]
        return "\n".join([*lines, "  .describe() says what each is"])

    def _repr_html_(self) -> str:
        title = f"<p><b>{escape(self.name)}</b>: {escape(self.row)}; key: {escape(', '.join(self.key))}</p>"
        with pl.Config(tbl_rows=-1, fmt_str_lengths=200):
            return title + self.describe()._repr_html_()

    @property
    def fixed(self) -> tuple[Column, ...]:
        """The columns that every frame of this schema has."""
        return tuple(column for column in self.columns if not column.family)

    @property
    def families(self) -> tuple[Column, ...]:
        """The prefixes under which further columns may stand."""
        return tuple(column for column in self.columns if column.family)

    @property
    def names(self) -> list[str]:
        """The names of the fixed columns, in order."""
        return [column.name for column in self.fixed]

    @property
    def dtypes(self) -> dict[str, DType]:
        """Name to type of the fixed columns, as polars takes it."""
        return {column.name: column.dtype for column in self.fixed}

    def family_of(self, name: str) -> Column | None:
        """The family that a column name belongs to, if any."""
        return next((column for column in self.families if name.startswith(column.name)), None)

    def describe(self) -> pl.DataFrame:
        """Give the schema as a frame: ``column``, ``dtype``, ``nullable``, ``key``, ``meaning``."""
        return pl.DataFrame(
            {
                "column": [c.name + ("*" if c.family else "") for c in self.columns],
                "dtype": [str(c.dtype) for c in self.columns],
                "nullable": [c.nullable for c in self.columns],
                "key": [c.name in self.key for c in self.columns],
                "meaning": [c.doc for c in self.columns],
            }
        )


class Noted(pl.DataFrame):
    """A frame with remarks that a reader of its figures should see; what is derived from it is an ordinary frame.

    Printed, one of up to ten columns is shown whole.

    Attributes:
        notes: One sentence each; shown above the table in a notebook and under it in a terminal.
    """

    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pl.DataFrame, notes: Iterable[str]) -> Noted:
        """Put notes on a frame."""
        noted = cls(frame)
        noted.notes = tuple(notes)
        return noted

    def __str__(self) -> str:
        whole = pl.Config(tbl_cols=MOST_COLUMNS) if self.width <= MOST_COLUMNS else nullcontext()
        with whole:
            return "\n".join([super().__str__(), *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self, **options: Any) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return notes + super()._repr_html_(**options)


def listed(texts: Sequence[str | None]) -> str:
    """Name a few things, for a note, and how many more there are; null is ``(none)``."""
    shown = ["(none)" if text is None else text for text in texts[:MOST_LISTED]]
    return ", ".join(shown) + (f" and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else "")


def empty(schema: FrameSchema) -> pl.DataFrame:
    """Give the frame of a schema with no rows."""
    return pl.DataFrame(schema=schema.dtypes)


def from_records(records: Iterable[Mapping[str, Any]], schema: FrameSchema) -> pl.DataFrame:
    """Build a frame from row dicts; a missing key is a null, a key of a family becomes its column.

    The types are those of the schema, never inferred: inference over dicts drops late columns and turns mixed ones
    into text.
    """
    rows = list(records)
    # dict.fromkeys keeps the first-seen order, so that equal input gives equal column order
    extra = dict.fromkeys(name for row in rows for name in row if name not in schema.dtypes)
    families = {name: family.dtype for name in extra if (family := schema.family_of(name))}
    if unknown := [name for name in extra if name not in families]:
        raise SchemaError(f"{schema.name}: no such columns: {', '.join(unknown)}")
    types: dict[str, DType] = {**schema.dtypes, **families}
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in types}, schema=types, strict=True)


def check(frame: pl.DataFrame, schema: FrameSchema, *, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the frame if it is what the schema declares: names, types, nulls, ranges, vocabulary, key, order.

    Args:
        frame: Columns may stand in any order.
        schema: What the frame should be.
        columns: Where a function uses only the key and these, so that a caller need not load the rest (the texts of
            a large run, say); None: all of the schema.

    Raises:
        SchemaError: Names every fault, with the first row at which it is seen.
    """
    if columns is not None:
        wanted = {*schema.key, *columns}
        schema = replace(schema, columns=tuple(c for c in schema.columns if c.name in wanted or c.family))
        check(frame.select(name for name in frame.columns if name in wanted or schema.family_of(name)), schema)
        return frame
    faults = [*_name_faults(frame, schema)]
    if not faults:
        faults = [*_value_faults(frame, schema), *_key_faults(frame, schema)]
    if faults:
        raise SchemaError.of(faults, what=f"this is no {schema.name} frame ({schema.row})")
    return frame


def example(schema: FrameSchema, n: int = 2) -> pl.DataFrame:
    """Give a small legal frame, for tests and docs: every column filled, keys distinct."""
    return pl.DataFrame(
        {c.name: [_example_value(c, i, key=c.name in schema.key) for i in range(n)] for c in schema.fixed},
        schema=schema.dtypes,
    )


def write_parquet(frame: pl.DataFrame, schema: FrameSchema, path: Path) -> Path:
    """Write a checked frame: zstd, schema name and version in the file's metadata, whole or not at all."""
    check(frame, schema)
    ordered = frame.select([*schema.names, *(name for name in frame.columns if name not in schema.dtypes)])
    with atomic_path(path) as temporary:
        ordered.write_parquet(
            temporary,
            compression="zstd",
            metadata={"evalframe.schema": schema.name, "evalframe.schema_version": str(schema.version)},
        )
    return path


def scan_parquet(paths: Path | Sequence[Path], schema: FrameSchema) -> pl.LazyFrame:
    """Open stored frames lazily; a stored file of another schema or version is refused.

    Raises:
        SchemaError: Names the file, what it holds and what was asked for.
    """
    files = [paths] if isinstance(paths, Path) else list(paths)
    if not files:
        return empty(schema).lazy()
    for file in files:
        try:
            found = pl.read_parquet_metadata(file)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise SchemaError(f"{file}: is no Parquet file that can be read ({error})") from None
        name, version = found.get("evalframe.schema"), found.get("evalframe.schema_version")
        if (name, version) != (schema.name, str(schema.version)):
            raise SchemaError(
                f"{file}: holds {name or 'no evalframe frame'} version {version or '?'}, "
                f"not {schema.name} version {schema.version}; it was written by another version or another program"
            )
    return pl.scan_parquet(files)


def read_parquet(path: Path, schema: FrameSchema) -> pl.DataFrame:
    """Read one stored frame and check it."""
    return check(scan_parquet(path, schema).collect(), schema)


def _name_faults(frame: pl.DataFrame, schema: FrameSchema) -> Iterable[Fault]:
    for column in schema.fixed:
        if column.name not in frame.columns:
            yield Fault(column.name, "missing_column", f"the column is missing ({column.doc})", "add it")
        elif frame.schema[column.name] != column.dtype:
            yield _dtype_fault(column.name, frame, column)
    for name in frame.columns:
        if name in schema.dtypes:
            continue
        family = schema.family_of(name)
        if family is None:
            yield Fault(name, "unknown_column", "the schema has no such column", "drop or rename it")
        elif frame.schema[name] != family.dtype:
            yield _dtype_fault(name, frame, family)


def _dtype_fault(name: str, frame: pl.DataFrame, column: Column) -> Fault:
    return Fault(name, "bad_dtype", f"is {frame.schema[name]}, not {column.dtype}", "cast it")


def _value_faults(frame: pl.DataFrame, schema: FrameSchema) -> Iterable[Fault]:
    """Count the bad values of all columns in one pass, then say where the first of each is."""
    tests: dict[tuple[str, str], pl.Expr] = {}
    for name in frame.columns:
        column = next((c for c in schema.fixed if c.name == name), None) or schema.family_of(name)
        assert column is not None  # _name_faults has seen to it
        tests |= {(name, rule): test for rule, test in _value_tests(name, column)}
    if not tests or frame.is_empty():
        return
    counts = frame.select(test.sum().alias(str(i)) for i, test in enumerate(tests.values())).row(0)
    for ((name, rule), test), count in zip(tests.items(), counts, strict=True):
        if count:
            first = frame.select(test.fill_null(False).arg_max()).item()
            seen = frame[name][first]
            yield Fault(name, rule, f"{count} of {frame.height} values, first at row {first}: {seen!r}", _REMEDY[rule])


_REMEDY = {
    "null": "this column has no nulls: give a value or drop the row",
    "nan": "NaN is no value: use null",
    "range": "bring it into the declared range",
    "vocabulary": "use one of the declared words",
}


def _value_tests(name: str, column: Column) -> Iterable[tuple[str, pl.Expr]]:
    value = pl.col(name)
    if not column.nullable:
        yield "null", value.is_null()
    if column.dtype == pl.Float64:
        yield "nan", ~value.is_finite()
    if column.low is not None:
        yield "range", value < column.low
    if column.high is not None:
        yield "range", (value > column.high) | (value < (column.low if column.low is not None else float("-inf")))
    if column.allowed:
        yield "vocabulary", ~value.is_in(list(column.allowed))


def _key_faults(frame: pl.DataFrame, schema: FrameSchema) -> Iterable[Fault]:
    if not schema.key or frame.height < 2:
        return
    if schema.ordered:
        # strictly ascending proves sorted and unique at once, without a sort or a hash of string keys
        place = frame.select((~_after_previous(schema.key)).slice(1).arg_max()).item() + 1
        if frame.select((~_after_previous(schema.key)).slice(1).any()).item():
            seen = dict(zip(schema.key, frame.select(schema.key).row(place), strict=True))
            yield Fault(
                ", ".join(schema.key), "key", f"row {place} {seen} does not come after row {place - 1}",
                "the rows are unique and sorted by these columns",
            )  # fmt: skip
    elif frame.select(pl.struct(schema.key).is_duplicated().any()).item():
        first = frame.filter(pl.struct(schema.key).is_duplicated()).select(schema.key).row(0)
        yield Fault(", ".join(schema.key), "key", f"{first} stands in more than one row", "keep one row a key")


def _after_previous(key: Sequence[str]) -> pl.Expr:
    after = pl.lit(False)
    for name in reversed(key):
        value, previous = pl.col(name), pl.col(name).shift(1)
        after = (value > previous) | ((value == previous) & after)
    return after


def _example_value(column: Column, index: int, *, key: bool) -> Any:
    if column.allowed:
        return column.allowed[index % len(column.allowed)] if key else column.allowed[0]
    dtype = column.dtype
    if dtype == pl.String:
        return f"{column.name}_{index}" if key else column.name
    if dtype == pl.Boolean:
        return True
    if dtype == pl.Int64:
        return index if key else int(column.low or 0)
    if dtype == pl.Float64:
        return float(column.low or 0.0)
    return None if column.nullable else ([] if isinstance(dtype, pl.List) else None)
