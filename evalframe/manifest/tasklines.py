"""The numbered lines of a task file, streamed; what is no text file is refused with what to do about it."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from evalframe.errors import TaskFileError
from evalframe.registry import nearest

_BOM = b"\xef\xbb\xbf"

# first bytes of files that are no UTF-8 text -> what they are
_NOT_TEXT = {
    b"\xff\xfe\x00\x00": "is UTF-32, not UTF-8; save it as UTF-8",
    b"\x00\x00\xfe\xff": "is UTF-32, not UTF-8; save it as UTF-8",
    b"\xff\xfe": "is UTF-16, not UTF-8; save it as UTF-8",
    b"\xfe\xff": "is UTF-16, not UTF-8; save it as UTF-8",
    b"\x1f\x8b": "is gzip-compressed; give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "is zstd-compressed; unpack it, or compress it with gzip",
    b"BZh": "is bzip2-compressed; unpack it, or compress it with gzip",
    b"PAR1": "is a Parquet file, not JSONL; write it as JSONL, one task a line",
    b"PK\x03\x04": "is a zip archive (a spreadsheet?), not JSONL; unpack it, or save it as JSONL",
}


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Give the 1-based number and the bytes of each line that is not blank.

    Only ``\n`` ends a line; a ``\r`` before it and a UTF-8 byte order mark at the start of the file are dropped. A
    name that ends in ``.gz`` is unpacked on the way. One line is held at a time.

    Raises:
        TaskFileError: The file is missing, a folder, not readable, not UTF-8 (UTF-16, UTF-32), binary or damaged;
            the message says what to do. An empty file has no lines and raises nothing.
    """
    try:
        with _open(path) as stream:
            _refuse_what_is_no_text(path, stream.peek(4096)[:4096])  # a peek, so that a pipe can be read too
            for number, line in enumerate(stream, start=1):
                text = line.removeprefix(_BOM) if number == 1 else line
                if text.strip():
                    yield number, text.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TaskFileError(f"{path}: is no whole gzip file ({error}); write it again") from None
    except OSError as error:
        raise TaskFileError(f"{path}: can not be read: {error.strerror or error}") from error


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    if path.is_dir():
        raise TaskFileError(f"{path}: is a folder; name the task files in it ({path / '*.jsonl'})")
    if not path.exists():
        raise TaskFileError(f"{path}: there is no such file; {_what_is_there(path)}")
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _what_is_there(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} is missing too"
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    if near := nearest(path.name, names):
        return f"did you mean {' or '.join(repr(str(folder / name)) for name in near)}?"
    return "give the path of a JSONL file, one task a line"


def _refuse_what_is_no_text(path: Path, head: bytes) -> None:
    for start, words in _NOT_TEXT.items():
        if head.startswith(start):
            raise TaskFileError(f"{path}: {words}")
    if b"\x00" in head:
        # UTF-16 without its mark: every other byte of ASCII text is zero
        halves = head[0::2].count(0), head[1::2].count(0)
        if max(halves) > 4 * (min(halves) + 1):
            raise TaskFileError(f"{path}: is UTF-16, not UTF-8; save it as UTF-8")
        raise TaskFileError(f"{path}: is a binary file; a task file is JSONL text in UTF-8, one task a line")
