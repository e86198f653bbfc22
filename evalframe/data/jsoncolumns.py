"""Columns of a frame as the JSON text of their values, exactly: whole columns at a time.

Nested columns are taken apart and joined again. Numbers are written as Python's ``json`` writes them (a decimal with
its digits, a 32-bit float with its own shortest digits), times as ISO 8601 text, categories as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import polars as pl

from evalframe.schemas import TEXTS

ENTRY = ("key", "value")


def json_texts(values: pl.Series) -> pl.Series:
    """Write each value as compact JSON.

    Args:
        values: Of a type without a fault (``type_faults``), its floats finite (``not_finite``).

    Nulls:
        A null is written ``null``.
    """
    return _written(values).fill_null("null")


def rendered(values: pl.Series) -> pl.Series:
    """Write each value as a template does: texts as they are, the rest as JSON; null stays null."""
    if values.dtype in (pl.List, pl.Array, pl.Struct, pl.Map):
        return _written(values)
    return _scalars(values)[0]


def items_of_lists(values: pl.Series) -> pl.Series:
    """Give the rendered items of each list of scalars, a null among them as the empty text; null for anything else."""
    if not isinstance(values.dtype, pl.List | pl.Array):
        return pl.Series(values.name, [None], dtype=TEXTS).new_from_index(0, len(values))
    values = _as_list(values)
    flat, places = _flat(values)
    texts = pl.DataFrame({"place": places, "text": rendered(flat).fill_null("")})
    nested = flat.is_not_null() & (flat.dtype in (pl.List, pl.Array, pl.Struct, pl.Map))
    lists = texts.with_columns(nested=nested).group_by("place", maintain_order=True).agg("text", pl.col("nested").any())
    found = _spread(lists, len(values))
    items = pl.when(found["nested"].fill_null(False)).then(None).otherwise(found["text"].fill_null([]))
    return pl.select(pl.when(values.is_not_null()).then(items).cast(TEXTS).alias(values.name)).to_series()


def at_path(frame: pl.DataFrame, path: str) -> pl.Series:
    """Give the value at a path of each row, as ``fields.find`` does: an exact column wins, else dots walk inside.

    Nulls:
        Null where there is nothing at the path.
    """
    if path in frame.columns:
        return frame[path]
    first, *steps = path.split(".")
    nothing = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
    values = frame[first] if steps and first in frame.columns else nothing
    for step in steps:
        found = _inside(values, step)
        if found is None:
            return nothing
        values = found
    return values


def type_faults(dtype: Any) -> Iterator[tuple[str, str]]:
    """Say what of a column's type JSON can not hold: (what it is, what to do)."""
    if isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            yield from type_faults(field.dtype)
    elif isinstance(dtype, pl.List | pl.Array):
        yield from type_faults(dtype.inner)
    elif isinstance(dtype, pl.Map):
        if dtype.key != pl.String:
            yield f"is a map with keys of type {dtype.key}", "cast the keys to text"
        yield from type_faults(dtype.value)
    elif dtype == pl.Binary:
        yield "holds bytes", "drop the column, or write the bytes as text (base64)"
    elif not (dtype.is_numeric() or dtype.is_temporal() or dtype in _PLAIN):
        yield f"is of type {dtype}", "drop the column, or make it text, numbers, times, lists or structs of these"


def not_finite(values: pl.Series) -> pl.Series | None:
    """Say of each value whether a float in it is NaN or infinite; None where its type has no float."""
    dtype = values.dtype
    if dtype.is_float():
        return (~values.is_finite()).fill_null(False)
    if isinstance(dtype, pl.Struct):
        inside = [not_finite(values.struct.field(field.name)) for field in dtype.fields]
        found = [one for one in inside if one is not None]
        return pl.select(pl.any_horizontal(found)).to_series() if found else None
    values = _as_list(values)
    if values.dtype != pl.List:
        return None
    flat, places = _flat(values)
    bad = not_finite(flat)
    if bad is None:
        return None
    marked = np.zeros(len(values), dtype=bool)
    marked[places.filter(bad).to_numpy()] = True
    return pl.Series(marked)


_PLAIN = (pl.String, pl.Boolean, pl.Null, pl.Categorical, pl.Enum)


def _written(values: pl.Series) -> pl.Series:
    """Write each value as JSON; null stays null."""
    dtype = values.dtype
    if isinstance(dtype, pl.Struct):
        return _objects(values, dtype)
    if isinstance(dtype, pl.Map):
        return _maps(values)
    values = _as_list(values)
    if values.dtype == pl.List:
        flat, places = _flat(values)
        return _joined(json_texts(flat), places, values, "[", "]")
    texts, quoted = _scalars(values)
    return _quoted(texts) if quoted else texts


def _quoted(texts: pl.Series) -> pl.Series:
    # polars escapes exactly what json.dumps(ensure_ascii=False) escapes
    encoded = texts.alias("v").to_frame().to_struct("v").struct.json_encode()
    inner = encoded.str.strip_prefix('{"v":').str.strip_suffix("}")
    return pl.select(pl.when(texts.is_not_null()).then(inner)).to_series()


def _objects(values: pl.Series, dtype: pl.Struct) -> pl.Series:
    parts: list[Any] = []
    for field in dtype.fields:
        parts.append(pl.lit(("," if parts else "{") + encode_basestring(field.name) + ":"))
        parts.append(json_texts(values.struct.field(field.name)))
    whole = pl.concat_str([*parts, pl.lit("}")]) if parts else pl.lit("{}")
    return pl.select(pl.when(values.is_not_null()).then(whole)).to_series()


def _maps(values: pl.Series) -> pl.Series:
    entries = _entries(values)
    flat, places = _flat(entries)
    key, value = (json_texts(flat.struct.field(name)) for name in ENTRY)
    return _joined(pl.select(pl.concat_str(key, pl.lit(":"), value)).to_series(), places, entries, "{", "}")


def _joined(texts: pl.Series, places: pl.Series, lists: pl.Series, opening: str, closing: str) -> pl.Series:
    """Join the texts of each list's items, with a bracket at either end; a null list stays null."""
    items = pl.DataFrame({"place": places, "text": texts})
    inner = items.group_by("place", maintain_order=True).agg(pl.col("text").str.join(","))
    found = _spread(inner, len(lists))["text"].fill_null("")
    whole = pl.concat_str(pl.lit(opening), found, pl.lit(closing))
    return pl.select(pl.when(lists.is_not_null()).then(whole)).to_series()


def _scalars(values: pl.Series) -> tuple[pl.Series, bool]:
    """Write scalars without quotes, and say whether JSON has them in quotes; null stays null."""
    dtype = values.dtype
    if dtype.is_float():
        return _floats(values), False
    if dtype in (pl.Boolean, pl.Null) or dtype.is_integer() or dtype.is_decimal():
        return values.cast(pl.String), False
    if dtype.is_temporal():
        return _times(values), True
    return values.cast(pl.String), True


def _floats(values: pl.Series) -> pl.Series:
    if values.dtype != pl.Float64:  # by its own shortest digits: 0.1 is not 0.10000000149011612
        values = values.cast(pl.String).cast(pl.Float64)
    small = ((values.abs() < 1e-4) & (values != 0)).fill_null(False)
    texts = values.cast(pl.String)
    if not small.any():
        return texts
    # polars writes these as Python does not (0.00001, 2.5e-7): few, and one by one
    return texts.scatter(small.arg_true(), list(map(repr, values.filter(small).to_list())))


def _times(values: pl.Series) -> pl.Series:
    dtype = values.dtype
    if dtype == pl.Date:
        return values.dt.strftime("%Y-%m-%d")
    if dtype == pl.Duration:
        whole = values.dt.cast_time_unit("us")
        exact = whole.dt.cast_time_unit("ns") == values.dt.cast_time_unit("ns")
        fine, coarse = values.dt.to_string("iso"), whole.dt.to_string("iso")
        return pl.select(pl.when(exact).then(coarse).otherwise(fine)).to_series()
    date = "%Y-%m-%dT" if isinstance(dtype, pl.Datetime) else ""
    zone = "%:z" if isinstance(dtype, pl.Datetime) and dtype.time_zone else ""
    # as Python's isoformat has it: no fraction, or six digits; nine where they are needed
    n = values.dt.nanosecond()
    digits = pl.when(n == 0).then(pl.lit("")).when(n % 1000 == 0).then(values.dt.strftime("%.6f"))
    fraction = digits.otherwise(values.dt.strftime("%.9f"))
    head = values.dt.strftime(date + "%H:%M:%S")
    tail = values.dt.strftime(zone) if zone else pl.lit("")
    return pl.select(pl.concat_str(head, fraction, tail)).to_series()


def _as_list(values: pl.Series) -> pl.Series:
    """Give arrays and maps as lists (a map's of entries); the rest as it is."""
    if isinstance(values.dtype, pl.Array):
        return values.arr.to_list()
    return _entries(values) if isinstance(values.dtype, pl.Map) else values


def _entries(values: pl.Series) -> pl.Series:
    dtype = values.dtype
    assert isinstance(dtype, pl.Map)
    return values.cast(pl.List(pl.Struct(dict(zip(ENTRY, (dtype.key, dtype.value), strict=True)))))


def _flat(lists: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Give the items of all lists in one column, and the place of the list that each is from."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    places = pl.Series("place", np.repeat(np.arange(len(lists), dtype=np.int64), lengths))
    return lists.explode(empty_as_null=False, keep_nulls=False), places


def _spread(found: pl.DataFrame, height: int) -> pl.DataFrame:
    """Give the row of each place; nulls where there is none."""
    places = pl.select(place=pl.int_range(height, dtype=pl.Int64))
    return places.join(found, on="place", how="left", maintain_order="left")


def _inside(values: pl.Series, step: str) -> pl.Series | None:
    dtype = values.dtype
    if isinstance(dtype, pl.Struct):
        return values.struct.field(step) if step in {field.name for field in dtype.fields} else None
    if isinstance(dtype, pl.Map):
        entry = pl.element()
        value = entry.filter(entry.struct.field("key") == step).struct.field("value")
        return _entries(values).list.eval(value).list.last()
    if isinstance(dtype, pl.List | pl.Array) and step.isascii() and step.isdigit() and str(int(step[:10])) == step:
        return _as_list(values).list.get(int(step), null_on_oob=True)
    return None
