"""Local data files: JSONL and CSV, plain or gzip, into RECORDS."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import polars as pl

from evalframe.data.badlines import BadLines
from evalframe.data.columns import RecordColumns
from evalframe.data.csvfile import take_csv
from evalframe.data.jsonl import take_jsonl
from evalframe.errors import DatasetError
from evalframe.jsontext import loads

Format = Literal["jsonl", "csv"]
FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
UTF8_MARK = b"\xef\xbb\xbf"
# the first bytes of what is often handed in by mistake; UTF-32 before UTF-16, whose mark it begins with
OTHER_CONTENT = {
    b"\xff\xfe\x00\x00": "is UTF-32 text; save it as UTF-8",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; save it as CSV or JSONL",
    b"PAR1": "is a Parquet file; save it as JSONL or CSV",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it, or use gzip",
    b"BZh": "is compressed with bzip2; unpack it, or use gzip",
    b"\xfd7zXZ": "is compressed with xz; unpack it, or use gzip",
}


def read_records(
    path: Path, *, format: Format | None = None, fields: Sequence[str] = (), items: Sequence[str] = ()
) -> pl.DataFrame:
    """Read a JSONL or CSV file, plain or gzip, without losing or changing a value.

    Frame out: RECORDS, with a column ``field.<path>`` for each of ``fields`` and ``items.<path>`` for each of
    ``items``. ``line_number`` is the line on which the record begins, blank lines and the header counted.

    Args:
        path: The file.
        format: ``jsonl`` or ``csv``; None: by the name (``.jsonl``, ``.ndjson``, ``.csv``, each also with ``.gz``).
        fields: Paths whose value is taken out as text: an exact top-level key, else dots walk into objects and lists.
        items: Paths whose list of scalars is taken out as a list of texts.

    Nulls:
        A field that is missing or null is null in its column; so is an empty CSV cell. What is no list of scalars is
        null in ``items``.

    Raises:
        DatasetError: The file is missing, empty, no text, or has lines that can not be kept exactly; names the file
            and every bad line with its column (the first 20, and how many more).
    """
    path = Path(path)
    chosen = format or _format_of(path)
    if chosen not in FORMATS.values():
        raise DatasetError(f"{path}: the format {chosen!r} is not known; use 'jsonl' or 'csv'")
    columns, bad = RecordColumns(fields, items), BadLines(path)
    with _opened(path) as stream:
        if chosen == "jsonl":
            take_jsonl(stream, columns, bad)
        else:
            take_csv(stream.read(), columns, bad)
    bad.raise_if_any()
    records = columns.frame()
    if records.is_empty():
        raise DatasetError(f"{path}: the file has no rows; add some, or check that it is the right file")
    return records


def field_names(path: Path, *, sought: Collection[str]) -> list[str]:
    """List the fields of a JSONL or CSV file, as far as it has to be read to see those that are sought.

    Nothing is read where none is sought. Lines that are no object have no fields.

    Raises:
        DatasetError: The file can not be read, or no line is an object.
    """
    path, names = Path(path), dict[str, None]()
    missing = set(sought)
    if missing and _format_of(path) == "csv":
        return list(loads(read_records(path)["row"][0]))  # every row has all of them
    if not missing:
        return []
    with _opened(path) as stream:
        for line in stream:
            try:
                record = loads(line.decode())
            except ValueError:
                continue
            names.update(dict.fromkeys(record if isinstance(record, dict) else ()))
            missing -= names.keys()
            if not missing:
                break
    if not names:
        read_records(path)  # says what is wrong with its lines
    return list(names)


def _format_of(path: Path) -> Format:
    name = path.name.lower().removesuffix(".gz")
    if (suffix := Path(name).suffix) in FORMATS:
        return FORMATS[suffix]
    raise DatasetError(
        f"{path}: the format can not be told from the name; give format='jsonl' or format='csv', "
        f"or let the name end in {', '.join(FORMATS)} (or one of them and .gz)"
    )


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file after its byte order mark, unpacked where it is gzip; what can not be read is a DatasetError."""
    if path.is_dir():
        raise DatasetError(f"{path}: is a folder; name a file in it")
    try:
        with path.open("rb") as file, _unpacked(file) as stream:
            start = stream.peek(1024)[:1024]
            _refuse_other_content(path, start)
            if start.startswith(UTF8_MARK):
                stream.read(len(UTF8_MARK))
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise DatasetError(f"{path}: there is no such file; check the path") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DatasetError(f"{path}: the gzip file is damaged or cut off ({error}); pack it again") from None
    except OSError as error:
        raise DatasetError(f"{path}: can not be read: {error.strerror or error}") from None


@contextmanager
def _unpacked(file: io.BufferedReader) -> Iterator[io.BufferedReader[Any]]:
    # by the content, not the name: no text in UTF-8 begins with these two bytes
    if file.peek(2)[:2] != b"\x1f\x8b":
        yield file
        return
    with gzip.GzipFile(fileobj=file) as packed, io.BufferedReader(packed) as stream:
        yield stream


def _refuse_other_content(path: Path, start: bytes) -> None:
    if not start:
        raise DatasetError(f"{path}: the file is empty; check that it was written to the end")
    for mark, words in OTHER_CONTENT.items():
        if start.startswith(mark):
            raise DatasetError(f"{path}: {words}")
    if b"\x00" in start:
        if not any(start[0:200:2]) or not any(start[1:200:2]):
            raise DatasetError(f"{path}: is UTF-16 text without a byte order mark; save it as UTF-8")
        raise DatasetError(f"{path}: is a binary file, not text; give a JSONL or CSV file in UTF-8")
