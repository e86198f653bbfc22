"""The value at one path of many JSON objects, as columns: read from the text, each number as it was written.

A path is an exact key of the object, else dots walk into objects and, by index, into lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from evalframe.errors import SchemaError
from evalframe.jsontext import JsonTextError, Number, clean, loads, text_of

FIELD: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "text": pl.String,
    "kind": pl.String,
    "items": pl.List(pl.String),
}
# what a value is by its first character; digits and the minus are numbers
KINDS = {'"': "text", "[": "list", "t": "boolean", "f": "boolean"}
PLAIN_TEXT = r'"[^"\\]*"'  # without escapes: what is between the marks is what it says
TOKEN = rf"{PLAIN_TEXT}|-?[0-9][-+.0-9eE]*|true|false|null|\[{PLAIN_TEXT}(?:,{PLAIN_TEXT})*\]"
PLAIN_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Missing:
    """The type of ``MISSING``: there is nothing at a path, which is not the same as null."""


MISSING: Final = Missing()


def find(record: Mapping[str, Any], path: str) -> Any:
    """Give the value at a path: an exact key wins, else dots walk into objects and, by index, into lists.

    Nulls:
        A null on the way, a missing key and an index that is out of range give ``MISSING``.

    >>> find({"a.b": 1, "a": {"b": 2}}, "a.b"), find({"a": [{"b": 3}]}, "a.0.b")
    (1, 3)
    """
    if path in record:
        return record[path]
    value: Any = record
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def read_field(objects: pl.Series, path: str) -> pl.DataFrame:
    """Read the value at a path of each object.

    By columns where the text proves the answer: compact JSON in which the path's last key stands once, with a scalar
    or a list of plain texts. Else the object is parsed in Python, because polars' JSON paths rewrite numbers
    (``2.50``, ``1e5``, 23 digits) and give nothing at all for an object that holds ``1E400``.

    Args:
        objects: JSON objects as text; no null.
        path: The path.

    Returns:
        ``text``: the value as a template renders it; ``kind``: ``text``, ``number``, ``boolean``, ``list`` or
        ``object``; ``items``: of a list, each item as a template renders it, a null among them null.

    Nulls: null, and nothing at the path, are null in all three columns.

    Raises:
        SchemaError: A text that had to be parsed is no JSON object; names its row.
    """
    steps = path.split(".")
    if not all(map(PLAIN_STEP.fullmatch, steps)):
        return _parsed(objects, path)
    read = _by_columns(objects.alias("object").to_frame().with_row_index("place"), steps)
    sure = read.filter("sure").select("place", *FIELD)
    unsure = read.filter(~pl.col("sure"))
    parsed = _parsed(unsure["object"], path, unsure["place"]).insert_column(0, unsure["place"])
    return pl.concat([sure, parsed]).sort("place").drop("place")


def has_path(objects: pl.Series, path: str) -> bool:
    """Say whether any object has the path, be its value null."""
    # only those objects can that have the end of the last key in their text, plainly or with escapes
    step = path.rpartition(".")[2]
    if PLAIN_STEP.fullmatch(step):
        objects = objects.filter(_contains(objects, f'{step}"') | _contains(objects, "\\u"))
    return any(find(_record(text, place), path) is not MISSING for place, text in enumerate(objects))


def known_paths(objects: pl.Series) -> list[str]:
    """List the paths of some objects, nested ones dotted, lists not entered; sorted. Parses each: for a message."""
    return sorted({path for place, text in enumerate(objects) for path in _paths(_record(text, place))})


def _by_columns(objects: pl.DataFrame, steps: list[str]) -> pl.DataFrame:
    """Give the columns of ``FIELD`` for a path of plain keys, and ``sure``: the text proves them.

    A quote within a JSON string stands behind a backslash. So ``{"key":`` and ``,"key":`` are a key in its place, and
    where ``"key"`` stands nowhere else in the text, what follows is the one value of that key. It is the path's where
    no brace but the first opens before it, or else where a JSON path finds anything. Where ``"key"`` stands nowhere,
    there is nothing.
    """
    key, text, token = steps[-1], pl.col("object"), pl.col("token")
    plain = ~text.str.contains("\\u", literal=True)  # a key may be spelled with escapes
    if len(steps) > 1:
        plain &= ~text.str.contains(f'"{".".join(steps)}"', literal=True)  # an exact key wins
    seen = objects.with_columns(
        plain=plain,
        times=text.str.count_matches(f'"{key}"', literal=True),
        token=text.str.extract(f'[{{,]"{key}":({TOKEN})[,}}]'),
        outermost=text.str.contains(rf'^\{{(?:[^{{]*,)?"{key}":') if len(steps) == 1 else pl.lit(False),
    ).with_columns(once=(pl.col("times") == 1) & token.is_not_null())
    nothing = (pl.col("times") == 0) | (pl.col("once") & (token == "null"))
    elsewhere = pl.when(pl.col("once") & ~pl.col("outermost")).then(text)
    there = pl.col("once") & (pl.col("outermost") | elsewhere.str.json_path_match("$." + ".".join(steps)).is_not_null())
    seen = seen.select("place", "object", "plain", "token", nothing=nothing, there=there & (token != "null"))
    kind = token.str.head(1).replace_strict(KINDS, default="number", return_dtype=pl.String)
    is_list = kind == "list"
    return seen.select(
        "place",
        "object",
        text=pl.when("there").then(pl.when(is_list).then(token).otherwise(token.str.strip_chars('"'))),
        kind=pl.when("there").then(kind),
        items=pl.when(pl.col("there") & is_list).then(
            token.str.strip_prefix('["').str.strip_suffix('"]').str.split('","')
        ),
        sure=(pl.col("plain") & (pl.col("nothing") | pl.col("there"))).fill_null(False),
    )


def _parsed(objects: pl.Series, path: str, places: pl.Series | None = None) -> pl.DataFrame:
    """Read the field object by object."""
    columns: dict[str, list[Any]] = {name: [] for name in FIELD}
    for place, text in zip(range(len(objects)) if places is None else places, objects, strict=True):
        value = find(_record(text, place), path)
        there = value is not MISSING and value is not None
        columns["text"].append(clean(text_of(value)) if there else None)
        columns["kind"].append(_kind(value) if there else None)
        columns["items"].append(
            [None if item is None else clean(text_of(item)) for item in value] if isinstance(value, list) else None
        )
    return pl.DataFrame(columns, schema=FIELD)


def _record(text: str, place: int) -> dict[str, Any]:
    try:
        record = loads(text)
    except JsonTextError as error:
        raise SchemaError(f"row {place} holds {text[:60]!r}, which is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise SchemaError(f"row {place} holds {text[:60]!r}, which is no JSON object")
    return record


def _kind(value: Any) -> str:
    if isinstance(value, Number):
        return "number"
    if isinstance(value, str):
        return "text"
    return "boolean" if isinstance(value, bool) else "list" if isinstance(value, list) else "object"


def _contains(texts: pl.Series, literal: str) -> pl.Series:
    return texts.str.contains(literal, literal=True)


def _paths(record: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in record.items():
        yield prefix + key
        if isinstance(value, dict) and "." not in key:
            yield from _paths(value, f"{prefix}{key}.")


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10 and (step == "0" or step[0] != "0")
