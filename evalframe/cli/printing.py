"""What the command line prints: tables and JSON on stdout, remarks and the table of an error's faults on stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from evalframe.cli.wording import in_shell_words

if TYPE_CHECKING:
    from evalframe.errors import Fault, TaskFault

NARROW = 70  # columns of a terminal under which the cells of a fault stand under each other
MOST_ALIKE = 10  # faults that differ in nothing but their place
SHARE_OF_PLACES = 3  # the places take at most this part of the line
Parts = tuple[str, str, str, list[str]]  # of a fault: where, what, what to do, a traceback


def show(text: str) -> None:
    """Print results to stdout."""
    _write(sys.stdout, text)


def say(text: str) -> None:
    """Print a remark to stderr."""
    _write(sys.stderr, text)


def show_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object to stdout, strict; escaped where stdout can not hold its letters."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False)
    show(text)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Give a markdown table; a null is a dash, numbers stand on the right.

    >>> print(markdown(["run", "calls"], [["a|b", 3], [None, None]]))
    | run | calls |
    | :--- | ---: |
    | a\|b | 3 |
    | - | - |
    """
    cells = [list(row) for row in rows]
    right = [
        any(isinstance(row[i], int | float) for row in cells) and not any(isinstance(row[i], str) for row in cells)
        for i in range(len(columns))
    ]
    lines = [columns, ["---:" if number else ":---" for number in right]]
    lines += [[_cell(value) for value in row] for row in cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shortened(text: str | None, most: int = 60) -> str | None:
    """Give one line of a text, cut in the middle where it is long: what an answer begins and ends with counts."""
    if text is None:
        return None
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    head = most // 2
    return f"{line[:head]} … {line[len(line) - (most - head - 3) :]}"


def counted(n: int, what: str) -> str:
    """Give a count and its noun: ``1 task``, ``2 tasks``."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def sized(n_bytes: float) -> str:
    """Give a size as a person reads it, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def error_text(error: Exception, *, width: int | None) -> str:
    """Say what is wrong.

    Args:
        error: What was raised.
        width: Of the terminal: faults are an aligned table. None: no terminal, each fault is one line, so that it
            can be searched for. A traceback stands below its fault.
    """
    every: Sequence[Fault | TaskFault] = getattr(error, "fault_records", ())
    faults, left = _without_floods(every)
    head = f"{type(error).__name__}: {_said(getattr(error, 'message', str(error)))}"
    if not faults:
        return head if width is None else _wrapped(head, width, later="  ")
    if width is None:
        return "\n".join([head, *(line for fault in faults for line in _plain_lines(fault)), *left])
    table = _fault_table([_parts(fault) for fault in faults], width)
    return "\n".join([_wrapped(head, width, later="  "), *table, *(_wrapped(line, width, later="  ") for line in left)])


def say_error(error: Exception) -> None:
    """Print an error to stderr, as a table where that is a terminal."""
    say(error_text(error, width=_width_of(sys.stderr)))


def printable(text: str) -> str:
    """Give a text on one line, without characters that steer a terminal."""
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def printable_lines(text: str) -> str:
    """Give a text of several lines without characters that steer a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def _said(text: str) -> str:
    return printable(in_shell_words(text))


def _without_floods(faults: Sequence[Fault | TaskFault]) -> tuple[list[Fault | TaskFault], list[str]]:
    """Keep the first faults of each kind, so that the remedy is not scrolled away, and count the others."""
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for fault in faults:
        kind = f"{getattr(fault, 'field', '')} {fault.rule}".strip(), fault.detail
        seen[kind] += 1
        if seen[kind] <= MOST_ALIKE:
            kept.append(fault)
    return kept, [
        f"  and {n - MOST_ALIKE} more such faults ({printable(kind)}: {_said(detail)}); --json names them all"
        for (kind, detail), n in seen.items()
        if n > MOST_ALIKE
    ]


def _escaped(character: str) -> str:
    # blanks of other scripts, and marks that join letters, are no control characters
    if unicodedata.category(character) in ("Zs", "Cf"):
        return character if character not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" else ""
    return character.encode("unicode_escape").decode("ascii")


def _parts(fault: Any) -> Parts:
    """Give where, what, what to do, and the lines of a traceback of a fault of either kind."""
    if hasattr(fault, "remedy"):
        what, below = _apart(fault.detail)
        return printable(fault.where), _said(what), _said(fault.remedy), below
    place, _, what = str(fault).partition(f": {fault.rule}: ")
    return printable(place), printable(f"{fault.rule}: {what}"), "", []


def _plain_lines(fault: Fault | TaskFault) -> list[str]:
    what, below = _apart(str(fault))
    return [f"  {_said(what)}", *(f"  {line}" for line in below)]


def _apart(text: str) -> tuple[str, list[str]]:
    """Divide what is said from a traceback below it, whose lines are indented; other line breaks are no lines."""
    what, *below = text.split("\n")
    if all(line.startswith("    ") for line in below):
        return what, [printable(line) for line in below]
    return text, []


def _fault_table(faults: Sequence[Parts], width: int) -> list[str]:
    """Lay out faults for a terminal: places are never broken, so that they can be copied."""
    if width < NARROW:
        return [line for fault in faults for line in _stacked(fault, width)]
    has_remedy = any(remedy for _, _, remedy, _ in faults)
    first = min(max(_cells(where) for where, *_ in faults), width // SHARE_OF_PLACES)
    room = width - 2 - first - 2
    second, third = ((room - 2) * 11 // 20, 0) if has_remedy else (room, 0)
    third = room - 2 - second if has_remedy else 0
    widths = [max(first, len("where")), second, third] if has_remedy else [max(first, len("where")), second]
    lines = [_row(["where", "what", "what to do"][: len(widths)], widths), _row(["-" * n for n in widths], widths)]
    for where, what, remedy, below in faults:
        columns = [_broken(what, second), _broken(remedy, third) if has_remedy else []]
        places = [where]
        if _cells(where) > first:  # a long place has a line of its own
            lines.append(f"  {where}")
            places = []
        for i in range(max(len(places), *(len(column) for column in columns))):
            at = [column[i] if i < len(column) else "" for column in (places, *columns)]
            lines.append(_row(at[: len(widths)], widths))
        lines += below  # as wide as it is, so that code stays code
    return lines


def _stacked(fault: Parts, width: int) -> list[str]:
    where, what, remedy, below = fault
    lines = [f"  {where}"] if where else []
    lines += [f"    {line}" for line in _broken(what, width - 4)]
    return lines + [f"    {line}" for line in (_broken(f"-> {remedy}", width - 4) if remedy else [])] + below


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * max(0, n - _cells(cell)) for cell, n in zip(cells, widths, strict=True)]
    return ("  " + "  ".join(padded)).rstrip()


def _broken(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 10), break_long_words=False, break_on_hyphens=False)


def _wrapped(text: str, width: int, *, later: str) -> str:
    return textwrap.fill(text, width, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)


def _cells(text: str) -> int:
    """Count the cells of a terminal that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def _width_of(stream: TextIO) -> int | None:
    """Give the width of a terminal; None where the stream is none."""
    if not stream.isatty():
        return None
    return shutil.get_terminal_size().columns if "COLUMNS" in os.environ else _asked(stream)


def _asked(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return printable(text).replace("|", "\\|")


def _write(stream: TextIO, text: str) -> None:
    stream.write(text if text.endswith("\n") else text + "\n")
    stream.flush()
