"""What results are sliced by -> text columns beside the samples, or beside the calls where a column of calls is named.

A group is a text, as a template renders a value; a list counts its row in each of its values; nothing is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evalframe.errors import EvalframeError, Fault, OptionError, SchemaError
from evalframe.fields import has_path, known_paths, read_field
from evalframe.frames import listed
from evalframe.registry import suggestion
from evalframe.schemas import CALL_KEY, ROWS, SAMPLES, TEXTS

By = str | pl.Expr | Sequence[str | pl.Expr]
SAMPLE_KEY = ROWS.key
FIELDS = ("row.", "metadata.")
ROWS_FOR_NAMES = 200  # looked into for the nearest field, where one is in no row


@dataclass(frozen=True, slots=True)
class Slicer:
    """One thing to slice by.

    Attributes:
        name: Of the group's column, after ``by.``.
        columns: What it is made of.
        expression: How; None: it is the one column itself, whose JSON lists are lists.
    """

    name: str
    columns: tuple[str, ...]
    expression: pl.Expr | None = None

    @property
    def label(self) -> str:
        """The group's column."""
        return f"by.{self.name}"


@dataclass(frozen=True, slots=True)
class Grouped:
    """The group values of samples or calls.

    Attributes:
        key: ``SAMPLE_KEY`` or ``CALL_KEY``.
        values: The key, and a text column for each slicer; a row for each group that the sample or call is in.
        notes: What a reader should know: texts that stand for several kinds of value, groups that overlap.
    """

    key: tuple[str, ...]
    values: pl.DataFrame
    notes: tuple[str, ...] = field(default=())


def slicers_of(by: By, *, option: str = "by") -> list[Slicer]:
    """Read what a caller slices by; ``option`` is what the caller calls it.

    Raises:
        OptionError: Nothing is given, something that is neither text nor expression, an expression that gives several
            columns, or two things of one name.
    """
    given: list[object] = [by] if isinstance(by, str | pl.Expr) or not isinstance(by, Sequence) else list(by)
    slicers, faults = [], []
    for place, one in enumerate(given):
        where = f"{option}[{place}]"
        if isinstance(one, str):
            slicers.append(Slicer(one, (one,)))
        elif not isinstance(one, pl.Expr):
            remedy = "name a column, or give a polars expression"
            faults.append(Fault(where, "bad_type", f"is of type {type(one).__name__}", remedy))
        elif one.meta.has_multiple_outputs():
            faults.append(Fault(where, "bad_value", f"{one} gives several columns", "give them one by one, in a list"))
        else:
            slicers.append(Slicer(one.meta.output_name(), tuple(one.meta.root_names()), one))
    names = [slicer.name for slicer in slicers]
    faults += [
        Fault(option, "duplicate", f"{name!r} stands twice", "name an expression by .alias(…)")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    if not given:
        faults.append(Fault(option, "missing", "is empty", 'name a column: by="row.subject"'))
    if faults:
        raise OptionError.of(faults, what=option)
    return slicers


def sample_values(option: str, given: str | pl.Expr, *, rows: pl.DataFrame) -> tuple[str, pl.Series]:
    """Compute one value a sample, as text, of what an option names: anything that samples can be sliced by.

    Args:
        option: Stands in the messages.
        given: A column of ROWS, ``row.<path>``, ``metadata.<key>`` or an expression over these.
        rows: The samples.

    Returns:
        Its name, and the values in the order of ``rows``; null where there is none.

    Raises:
        OptionError: It is no such thing, it is known only of calls, or it is a list.
    """
    if not isinstance(given, str | pl.Expr):
        raise _refused(option, "bad_type", f"is of type {type(given).__name__}", "name one column, or one expression")
    (slicer,) = slicers_of(given, option=option)
    of_rows = [name for name in slicer.columns if not _is_field(name)]
    for name in of_rows:
        if name not in rows.columns and name in SAMPLES.names and name not in ROWS.names:
            raise _refused(option, "bad_value", f"{name!r} is of calls", "name a column that samples have, row.<field>")
    for name in (name for name in slicer.columns if _is_field(name)):
        source = name.partition(".")[0]
        if name not in rows.columns and source not in rows.columns:
            raise _refused(option, "missing_column", f"{name!r} is read from {source!r}", f"give rows with {source!r}")
    read, faults = _read_fields([slicer], rows, option)
    faults += [_unknown(name, rows, option) for name in of_rows if name not in rows.columns]
    if faults:
        raise OptionError.of(faults, what=option)
    values = rows.with_columns(table["text"].alias(name) for name, table in read.items())
    if slicer.expression is None and slicer.name in read:
        values = values.with_columns(_tags(read[slicer.name]).alias(slicer.label))
    found = _labelled([slicer], values, option)[slicer.label]
    if found.dtype == TEXTS:
        remedy = "a sample has one; take one of the list: pl.col(…).list.first()"
        raise _refused(option, "bad_type", f"{slicer.name!r} is a list in some rows", remedy)
    return slicer.name, found


def _refused(option: str, rule: str, detail: str, remedy: str) -> EvalframeError:
    return OptionError.of([Fault(option, rule, detail, remedy)], what=option)


def columns_of_calls(slicers: Sequence[Slicer], rows: pl.DataFrame) -> list[str]:
    """Give the columns of the slicers that are not known of a sample."""
    names = dict.fromkeys(name for slicer in slicers for name in slicer.columns)
    return [name for name in names if name not in rows.columns and name not in ROWS.names and not _is_field(name)]


def group_values(
    slicers: Sequence[Slicer], *, rows: pl.DataFrame, calls: pl.DataFrame, sources: Sequence[pl.DataFrame]
) -> Grouped:
    """Compute the group values: of samples where all slicers are known of a sample, else of calls.

    Args:
        slicers: One or more.
        rows: The samples; ``row.<path>`` and ``metadata.<key>`` that are no columns are read from their JSON text.
        calls: The keys of all calls.
        sources: Frames by call that have the columns of calls; of several that have one, the first gives it.

    Raises:
        OptionError: A column is nowhere, a field is in no row (the nearest are named), or an expression fails.
        SchemaError: A source lacks calls.
    """
    wanted = columns_of_calls(slicers, rows)
    placed = {name: source for source in reversed(sources) for name in wanted if name in source.columns}
    read, faults = _read_fields(slicers, rows)
    faults += [_unknown(name, rows) for name in wanted if name not in placed and name not in CALL_KEY]
    of_rows = dict.fromkeys(name for s in slicers for name in s.columns if name not in wanted and not _is_field(name))
    faults += [_unknown(name, rows) for name in of_rows if name not in rows.columns]
    if faults:
        raise OptionError.of(faults, what="by")
    values = rows.select(*SAMPLE_KEY, *(name for name in of_rows if name not in SAMPLE_KEY)).with_columns(
        *(table["text"].alias(name) for name, table in read.items()),
        *(_tags(read[s.name]).alias(s.label) for s in slicers if s.expression is None and s.name in read),
    )
    key = SAMPLE_KEY
    if wanted:
        key, values = CALL_KEY, calls.join(values, on=SAMPLE_KEY, how="left", maintain_order="left")
        for name in (name for name in wanted if name not in CALL_KEY):
            values = values.join(_column(name, placed[name], calls), on=CALL_KEY, how="left", maintain_order="left")
    labelled = _labelled(slicers, values).select(*key, *(slicer.label for slicer in slicers))
    notes = [*_kind_notes(slicers, read), *_overlap_notes(slicers, labelled, "calls" if wanted else "samples")]
    for slicer in slicers:
        if labelled.schema[slicer.label] == TEXTS:
            labelled = labelled.explode(slicer.label)
    return Grouped(key, labelled, tuple(notes))


def check_by(by: By, *, rows: pl.DataFrame) -> None:
    """Refuse what results can not be sliced by, while there are only rows: before a call is made and paid for.

    Raises:
        OptionError: A field is in no row, or a name is no column that results will have.
    """
    slicers = slicers_of(by)
    _, faults = _read_fields(slicers, rows)
    later = [name for name in columns_of_calls(slicers, rows) if name not in SAMPLES.names and name not in CALL_KEY]
    faults += [_unknown(name, rows) for name in later if SAMPLES.family_of(name) is None]
    if faults:
        raise OptionError.of(faults, what="by")


def _is_field(name: str) -> bool:
    return name.startswith(FIELDS)


def _read_fields(
    slicers: Sequence[Slicer], rows: pl.DataFrame, option: str = "by"
) -> tuple[dict[str, pl.DataFrame], list[Fault]]:
    """Read each named field of all rows: ``text``, ``kind``, ``items``."""
    found, faults = {}, []
    for name in dict.fromkeys(name for slicer in slicers for name in slicer.columns if _is_field(name)):
        source, _, path = name.partition(".")
        if source not in rows.columns:
            found[name] = rows.select(text=name, kind=pl.lit(None, pl.String), items=pl.lit(None, TEXTS))
            continue
        objects = rows.select(pl.col(source).alias("object"))
        distinct = objects.unique(maintain_order=True)  # all samples of a task share its metadata
        fields = distinct.hstack(read_field(distinct["object"], path))
        table = objects.join(fields, on="object", how="left", maintain_order="left").drop("object")
        if name in rows.columns:
            # a column of that name counts, be it another's; the record says what kind of value it renders
            same = pl.col("text").eq_missing(rows[name])
            table = table.with_columns(rows[name].alias("text"), pl.when(same).then(pl.col("kind", "items")))
        elif rows.height and table["text"].null_count() == rows.height and not has_path(distinct["object"], path):
            faults.append(_unknown(name, rows, option))
        found[name] = table
    return found, faults


def _unknown(name: str, rows: pl.DataFrame, option: str = "by") -> Fault:
    if option == "by" and (name in SAMPLES.names or (SAMPLES.family_of(name) and not _is_field(name))):
        return Fault("by", "missing_column", f"{name!r} is in none of the frames", "give samples=run.samples")
    fields = [
        f"{source}.{path}"
        for source in ("row", "metadata")
        if source in rows.columns
        for path in known_paths(rows[source].unique(maintain_order=True).head(ROWS_FOR_NAMES))
    ]
    known = dict.fromkeys([*SAMPLES.names, *(column for column in rows.columns if column != name), *fields])
    detail = f"{name!r} is in no row" if _is_field(name) else f"there is no column {name!r}"
    return Fault(option, "unknown_column", detail, suggestion(name, fields if _is_field(name) and fields else known))


def _tags(field: pl.DataFrame) -> pl.Series:
    """Give the values of a field: a list where any record has one, else the text."""
    if field["items"].null_count() == field.height:
        return field["text"]
    return field.select(pl.when(pl.col("items").is_null()).then(pl.concat_list("text")).otherwise("items")).to_series()


def _column(name: str, source: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    lacking = calls.join(source, on=CALL_KEY, how="anti")
    if lacking.height:
        seen = " ".join(f"{key}={value}" for key, value in lacking.sort(CALL_KEY).row(0, named=True).items())
        raise SchemaError(
            f"the frame that has {name!r} lacks {lacking.height} calls of the scores, first {seen}; give all calls"
        )
    return source.select(*CALL_KEY, name)


def _labelled(slicers: Sequence[Slicer], values: pl.DataFrame, option: str = "by") -> pl.DataFrame:
    """Add each slicer's values: text, or where they are lists, distinct texts, an empty list being one null."""
    for slicer in slicers:
        label = slicer.label
        try:
            if label not in values.columns:
                made = pl.col(slicer.name) if slicer.expression is None else slicer.expression
                values = values.with_columns(made.alias(label))
            values = values.with_columns(_as_text(pl.col(label), values.schema[label]))
        except pl.exceptions.PolarsError as error:
            raise OptionError(f"{option} {slicer.name!r} can not be computed: {error}") from error
    return values


def _as_text(value: pl.Expr, dtype: Any) -> pl.Expr:
    if isinstance(dtype, pl.Array):
        return _as_text(value.arr.to_list(), pl.List(dtype.inner))
    if isinstance(dtype, pl.List):
        if isinstance(dtype.inner, pl.List | pl.Array):
            raise OptionError("slices: lists of lists are no groups; flatten them, by .list.eval(…) or .list.explode()")
        texts = value.list.eval(_as_text(pl.element(), dtype.inner)).list.unique(maintain_order=True)
        nothing = pl.lit([None], dtype=TEXTS)
        return pl.when(texts.list.len() > 0).then(texts).otherwise(nothing)
    if isinstance(dtype, pl.Struct):
        return value.struct.json_encode()
    if dtype in (pl.Float32, pl.Float64):
        value = value.fill_nan(None)
    return value.cast(pl.String)


def _kind_notes(slicers: Sequence[Slicer], read: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    for name in (slicer.name for slicer in slicers if slicer.expression is None and slicer.name in read):
        scalars = read[name].filter(pl.col("items").is_null())
        kinds = scalars.group_by("text").agg(pl.col("kind").drop_nulls().n_unique())
        mixed = kinds.filter(pl.col("kind") > 1)["text"].sort().to_list()
        if mixed:
            yield (
                f"{name}: {listed(mixed)} {'stands' if len(mixed) == 1 else 'stand'} both in quotes and without, "
                "which is one group"
            )


def _overlap_notes(slicers: Sequence[Slicer], labelled: pl.DataFrame, what: str) -> Iterator[str]:
    for slicer in (slicer for slicer in slicers if labelled.schema[slicer.label] == TEXTS):
        several = (labelled[slicer.label].list.len() > 1).sum()
        if several:
            yield f"{slicer.name}: {several} of {labelled.height} {what} have several values and count in each"
