r"""JSONL, kept exactly: one object a line, only ``\n`` (with a ``\r`` before it) ends a line, numbers as written."""

from __future__ import annotations

from collections.abc import Iterable

from evalframe.data.badlines import BadLines
from evalframe.data.columns import RecordColumns
from evalframe.jsontext import JsonTextError, dumps, loads

BLANKS = b" \t\r\n"


def take_jsonl(lines: Iterable[bytes], columns: RecordColumns, bad: BadLines) -> None:
    r"""Take the objects of a file's lines; what is no object is noted in ``bad``.

    Args:
        lines: The file's lines with their ``\n``, without a byte order mark.
        columns: Takes the records.
        bad: Takes the faults.
    """
    # parsed once, line by line, in Python, because no columnar reader keeps numbers, types and late keys as written
    for line_number, line in enumerate(lines, start=1):
        if line.strip(BLANKS):
            _take_line(line_number, line, columns, bad)


def _take_line(line_number: int, line: bytes, columns: RecordColumns, bad: BadLines) -> None:
    text = _decode(line_number, line.removesuffix(b"\n").removesuffix(b"\r"), bad)
    if text is None:
        return
    try:
        record = loads(text)
    except JsonTextError as error:
        bad.add(line_number, error.column, "bad_json", error.detail, _remedy(line_number, line))
        return
    if not isinstance(record, dict):
        column = len(text) - len(text.lstrip()) + 1
        remedy = "write one JSON object a line" + (", not one array around them" if isinstance(record, list) else "")
        bad.add(line_number, column, "not_an_object", f"is {_kind(text)}, not an object", remedy)
        return
    try:
        columns.add(line_number, record, dumps(record))
    except RecursionError:
        bad.add(line_number, 1, "too_deep", "is nested too deeply", "flatten it, or keep the inner part as text")


def _decode(line_number: int, line: bytes, bad: BadLines) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8")) + 1
        seen = f"the byte 0x{line[error.start]:02X} is not UTF-8"
        bad.add(line_number, column, "not_utf8", seen, "save the file as UTF-8")
        return None


def _remedy(line_number: int, line: bytes) -> str:
    if line_number == 1 and line.strip(BLANKS) in (b"[", b"{"):
        return "this is JSON over several lines; write each object on one line, without an array around them"
    if b"\r" in line.rstrip(b"\r\n"):
        return "only a line feed ends a line, not a carriage return alone; save the file with \\n line ends"
    if not line.endswith(b"\n"):
        return "this last line has no line end: the file may be cut off; write it again"
    return ""


def _kind(text: str) -> str:
    first = text.lstrip()[0]
    return {"[": "a list", '"': "a string", "t": "a boolean", "f": "a boolean", "n": "null"}.get(first, "a number")
