"""CSV by RFC 4180, kept exactly: every cell is text as written, of any length, with line breaks where it is quoted.

A scanner of our own, because the ``csv`` module bounds cells by a number that the whole process shares, and can not
say where a quote was opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import NamedTuple

from evalframe.data.badlines import BadLines
from evalframe.data.columns import RecordColumns

BLANKS = " \t\r"
QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
PLAIN = re.compile(r"[^,\n]*+")
# a cell with what ends it, where nothing is odd about it
CELL = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",\r\n]*+))(?:(,)|\r?\n|\r?\Z)')
QUOTING = 'put a cell that holds a comma, a quote or a line break in double quotes, and double the quotes in it ("")'
LINE_ENDS = "a carriage return alone ends no line; save the file with \\n or \\r\\n line ends"


class Row(NamedTuple):
    """One row: where it begins and ends, and its cells; None where they can not be told apart."""

    line_number: int
    cells: list[str] | None
    end: int
    last_line: int


def take_csv(content: bytes, columns: RecordColumns, bad: BadLines) -> None:
    """Take the rows of a file; what can not be kept exactly is noted in ``bad``.

    The first row is the header; blanks around its names are dropped, since no template could name them. An empty cell,
    quoted or not, is missing: a null in the record. A line of nothing but blanks is no row, a row of commas is one. A
    carriage return without a line feed is text, quoted or not.

    Args:
        content: The file's bytes, without a byte order mark.
        columns: Takes the records.
        bad: Takes the faults.
    """
    text = _decode(content, bad)
    if text is None:
        return
    rows = scan(text, bad)
    names = _header(next(rows, None), bad)
    if names is None:
        return
    keys = [encode_basestring(name) for name in names]
    for number, row in enumerate(rows, start=1):
        if row.cells is None:
            continue
        if len(row.cells) != len(names):
            _note_width(number, row, names, bad)
            continue
        written = ",".join([
            f"{key}:{encode_basestring(cell)}" if cell else f"{key}:null"
            for key, cell in zip(keys, row.cells, strict=True)
        ])  # fmt: skip
        record = {name: cell or None for name, cell in zip(names, row.cells, strict=True)}
        columns.add(row.line_number, record, f"{{{written}}}")


def scan(text: str, bad: BadLines) -> Iterator[Row]:
    """Give the rows of a CSV text, blank lines left out, header included."""
    position, line_number = 0, 1
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position:end].removesuffix("\r")
        if '"' in line:
            row = _scan_regular(text, position, line_number) or _scan_odd(text, position, line_number, bad)
        else:
            row = Row(line_number, line.split(","), end + 1, line_number)
        if row.cells is None or line.strip(BLANKS):
            yield row
        position, line_number = row.end, row.last_line + 1


def _scan_regular(text: str, start: int, line_number: int) -> Row | None:
    """Scan one row whose cells are quoted whole or hold no quote; None where one is not."""
    cells: list[str] = []
    position, lines = start, 0
    while (found := CELL.match(text, position)) is not None:
        quoted, plain, comma = found.groups()
        if quoted is None:
            cells.append(plain)
        else:
            cells.append(quoted.replace('""', '"'))
            lines += quoted.count("\n")
        position = found.end()
        if comma is None:
            return Row(line_number, cells, position, line_number + lines)
    return None


def _scan_odd(text: str, start: int, line_number: int, bad: BadLines) -> Row:
    """Scan one row that holds a quote, cell by cell; say what is wrong with it."""
    cells: list[str] = []
    position, line = start, line_number
    while True:
        if text.startswith('"', position):
            found = QUOTED.match(text, position)
            if found is None:
                remedy = f"close it with a double quote; {QUOTING}"
                bad.add(line, _column(text, position), "unclosed_quote",
                        f"unclosed quote opened on line {line}: it runs to the end of the file", remedy)  # fmt: skip
                return Row(line_number, None, len(text), line)
            opened = (line, position)
            line += found[1].count("\n")
            cells.append(found[1].replace('""', '"'))
            position = found.end()
            if not _at_cell_end(text, position):
                _note_text_after_quote(text, position, line, opened, bad)
                end = text.find("\n", position)
                return Row(line_number, None, len(text) if end < 0 else end + 1, line)
        else:
            found = PLAIN.match(text, position)
            assert found is not None  # it matches the empty text too
            position = found.end()
            cell = found[0] if text.startswith(",", position) else found[0].removesuffix("\r")
            cells.append(cell)
        if not text.startswith(",", position):
            end = text.find("\n", position)
            return Row(line_number, cells, len(text) if end < 0 else end + 1, line)
        position += 1


def _at_cell_end(text: str, position: int) -> bool:
    rest = text[position : position + 2]
    return rest in ("", "\r") or rest[0] in ",\n" or rest == "\r\n"


def _header(row: Row | None, bad: BadLines) -> list[str] | None:
    if row is None:
        bad.add(1, 1, "no_header", "there is no header", "name the columns in the first line")
        return None
    if row.cells is None:
        return None
    names = [name.strip() for name in row.cells]
    before = bad.count
    for position, name in enumerate(names):
        if "\r" in name:
            bad.add(
                row.line_number, 1, "bare_return", f"the column name {name[:40]!r} holds a carriage return", LINE_ENDS
            )
        elif not name:
            detail = f"column {position + 1} of {len(names)} has no name"
            bad.add(row.line_number, 1, "empty_name", detail, "name it in the header, or remove the column")
        elif (first := names.index(name)) < position:
            detail = f"the header has {name!r} twice, as columns {first + 1} and {position + 1}"
            bad.add(row.line_number, 1, "duplicate_name", detail, "rename one of the two")
    return None if bad.count > before else names


def _note_width(number: int, row: Row, names: list[str], bad: BadLines) -> None:
    cells = row.cells or []
    lines = (
        f"line {row.line_number}" if row.line_number == row.last_line else f"lines {row.line_number}-{row.last_line}"
    )
    detail = f"row {number} ({lines}) has {_n(len(cells), 'cell')} for {_n(len(names), 'column')}"
    remedy = QUOTING
    if any(cell.lstrip().startswith('"') and not cell.startswith('"') for cell in cells[1:]):
        remedy = "an opening quote must follow the comma at once, without a blank; " + remedy
    if len(names) == 1 and (mark := next((mark for mark in ";\t|" if mark in names[0]), None)):
        remedy = f"the header looks separated by {mark!r}; save the file with commas"
    if any("\r" in cell for cell in cells):
        remedy = f"{remedy}; {LINE_ENDS}"
    bad.add(row.line_number, 1, "wrong_width", detail, remedy)


def _note_text_after_quote(text: str, position: int, line: int, opened: tuple[int, int], bad: BadLines) -> None:
    seen = PLAIN.match(text, position)
    shown = (seen[0] if seen else "")[:20] or text[position]
    detail = f"the quoted cell opened on line {opened[0]} is closed here, and {shown!r} follows"
    bad.add(line, _column(text, position), "text_after_quote", detail, f"was an earlier quote not closed? {QUOTING}")


def _column(text: str, position: int) -> int:
    return position - (text.rfind("\n", 0, position) + 1) + 1


def _n(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _decode(content: bytes, bad: BadLines) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line_start = content.rfind(b"\n", 0, error.start) + 1
        column = len(content[line_start : error.start].decode("utf-8")) + 1
        seen = f"the byte 0x{content[error.start]:02X} is not UTF-8"
        bad.add(content.count(b"\n", 0, error.start) + 1, column, "not_utf8", seen, "save the file as UTF-8")
        return None
