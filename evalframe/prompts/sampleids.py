"""What a sample is called: by its own id where every row has one, else by its content, so that runs can be aligned."""

from __future__ import annotations

import hashlib
import warnings
from typing import Literal

import polars as pl

from evalframe.errors import Fault
from evalframe.frames import check
from evalframe.jsontext import dumps, loads
from evalframe.schemas import RECORDS

SampleIds = Literal["auto", "content"]
ID_FIELDS = ("id", "task_id", "question_id")  # the first that every row has
MOST_CLASHES = 20
MOST_LINES = 10
REMEDY = "give every row an id of its own, or name the samples by their content: sample_ids='content'"


class SampleIdWarning(UserWarning):
    """Samples are not called by the id that most of them have."""


def name_samples(records: pl.DataFrame, *, mode: SampleIds = "auto") -> tuple[pl.Series, list[Fault]]:
    """Name the samples of a data set.

    The first of ``id``, ``task_id``, ``question_id`` that every row has as text, number or boolean (an empty text is
    none), as text, as written. Without one, or with ``mode="content"``: BLAKE2b-128 of the record as compact JSON
    text, hexadecimal; later equal records get ``-1``, ``-2``, ... after it.

    Frame in: RECORDS, with the columns ``field.<name>`` of ``ID_FIELDS``.

    Returns:
        The ids, and a fault for each that stands more than once (``1`` and ``"1"`` are the same as text).
    """
    check(records, RECORDS)
    field = next((name for name in ID_FIELDS if _every_row_has(records, name)), None) if mode == "auto" else None
    if field is None:
        return _content_ids(records), []
    ids = records[f"field.{field}"].alias("sample_id")
    return ids, _clashes(records, field) if ids.n_unique() < len(ids) else []


def warn_of_gaps(records: pl.DataFrame, *, mode: SampleIds, what: str) -> None:
    """Warn where some rows have an id and others none: then all are named by content, and no id is found again.

    Args:
        records: RECORDS, with the columns ``field.<name>`` of ``ID_FIELDS``.
        mode: As in ``name_samples``; ``content`` is meant so.
        what: Names the task.
    """
    if mode == "content" or any(_every_row_has(records, name) for name in ID_FIELDS):
        return
    found = {name: (records[f"field.{name}"].fill_null("") != "").sum() for name in ID_FIELDS}
    name = max(ID_FIELDS, key=lambda one: found[one])
    if found[name]:
        lacking = records.filter(pl.col(f"field.{name}").fill_null("") == "")["line_number"]
        seen = f"no {name} on {listed_lines(lacking.to_list())}" if len(lacking) else f"an {name} is no text or number"
        warnings.warn(
            f"{what}: {seen}, so all samples are named by a hash of their content; give every row an {name}, or say "
            "that this is meant: sample_ids='content'",
            SampleIdWarning, stacklevel=3,
        )  # fmt: skip


def blake2b_128(texts: pl.Series) -> list[str]:
    """Hash texts, hexadecimal; one by one, because polars' own hash differs between its versions."""
    return [hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in texts]


def _every_row_has(records: pl.DataFrame, field: str) -> bool:
    values = records[f"field.{field}"]
    if values.null_count() or (values == "").any():
        return False
    # a list or an object renders to text that begins with a bracket; so may a string, hence the look at the record
    maybe_nested = records.filter(values.str.contains(r"^[\[{]"))["row"]
    return not any(isinstance(loads(row).get(field), dict | list) for row in maybe_nested)


def _content_ids(records: pl.DataFrame) -> pl.Series:
    hashed = records.select("row", pl.Series("hash", blake2b_128(records["row"]), dtype=pl.String))
    earlier = pl.int_range(pl.len()).over("row")
    suffix = pl.when(earlier == 0).then(pl.lit("")).otherwise(pl.format("-{}", earlier))
    return hashed.select(pl.concat_str("hash", suffix).alias("sample_id")).to_series()


def _clashes(records: pl.DataFrame, field: str) -> list[Fault]:
    name = f"field.{field}"
    doubled = records.filter(pl.col(name).is_duplicated())
    groups = doubled.group_by(name, maintain_order=True).agg("line_number", "row")
    faults = [_clash(field, lines, rows) for _, lines, rows in groups.head(MOST_CLASHES).iter_rows()]
    if more := groups.height - len(faults):
        faults.append(Fault("", "duplicate_id", f"and {more} more ids that stand more than once", REMEDY))
    return faults


def _clash(field: str, lines: list[int], rows: list[str]) -> Fault:
    written = dict.fromkeys(dumps(loads(row)[field]) for row in rows)
    if len(written) > 1:
        detail = f"the {field}s {' and '.join(written)} are the same as text"
    else:
        detail = f"the {field} {next(iter(written))} stands {len(lines)} times"
    return Fault(listed_lines(lines), "duplicate_id", detail, REMEDY)


def listed_lines(lines: list[int]) -> str:
    """Write line numbers for a message.

    >>> listed_lines([3]), listed_lines([1, 2, 5])
    ('line 3', 'lines 1, 2 and 5')
    """
    shown = list(map(str, lines[:MOST_LINES]))
    if len(lines) > MOST_LINES:
        shown.append(f"{len(lines) - MOST_LINES} more")
    return f"line {shown[0]}" if len(shown) == 1 else f"lines {', '.join(shown[:-1])} and {shown[-1]}"
