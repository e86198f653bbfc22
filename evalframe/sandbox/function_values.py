"""Inside a worker: what a foreign function gave, printed or raised, as text.

Standard library only, no import of evalframe.
"""

from __future__ import annotations

import io
import json
import traceback
from typing import Any

PRINTED_CHARS = 64 * 1024
MESSAGE_CHARS = 2_000
_FRAMES_SHOWN = 20


class NotPlain(Exception):
    """A value is no plain JSON; the message says what in it, and where."""


def as_json(value: Any, *, allow_nan: bool = False) -> str:
    """Give a value as JSON in ASCII; numbers of numpy are numbers.

    Raises:
        NotPlain: NaN or an infinity where they are not allowed, a type that JSON does not have, a value that holds
            itself or is nested too deeply.
        MemoryError: There is not enough.
    """
    try:
        return (_encode_with_nan if allow_nan else _encode)(value)
    except MemoryError:
        raise
    except BaseException as error:
        raise NotPlain(_why_not_plain(value, error, allow_nan)) from None


class Printed(io.TextIOBase):
    """Standard output of one call, its beginning kept."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = PRINTED_CHARS
        self._cut = False

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._left > 0:
            self._parts.append(str(text[: self._left]))
        self._cut = self._cut or len(text) > self._left
        self._left = max(0, self._left - len(text))
        return len(text)

    def close(self) -> None:
        """Stay open: the next call may print, too."""

    def text(self) -> str:
        return "".join(self._parts) + ("… (cut off here)" if self._cut else "")


def described(error: BaseException, name: str) -> tuple[str, str, str]:
    """Give the type, the message and the traceback of the user's own frames."""
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _own_frames(told, name, 0)
        lines = "".join(told.format())
    except Exception:  # an error that can not be shown
        lines = ""
    return type.__getattribute__(type(error), "__name__"), message_of(error), lines[-10 * MESSAGE_CHARS :]


def _own_frames(told: traceback.TracebackException, name: str, depth: int) -> None:
    own = [frame for frame in told.stack if frame.filename == name]
    if len(own) > _FRAMES_SHOWN:
        own = own[: _FRAMES_SHOWN // 2] + own[-_FRAMES_SHOWN // 2 :]
    told.stack[:] = own
    for inner in (told.__cause__, told.__context__):
        if inner is not None and depth < 3:
            _own_frames(inner, name, depth + 1)
    if depth == 3:
        told.__cause__ = told.__context__ = None


def message_of(error: BaseException) -> str:
    try:
        return str(str(error)[:MESSAGE_CHARS])
    except Exception:
        return "(its message can not be shown)"


def _number(value: Any) -> Any:
    """Take numbers of numpy, which JSON does not know."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON")


# bound now: foreign code may put others in their places
_encode = json.JSONEncoder(allow_nan=False, default=_number).encode
_encode_with_nan = json.JSONEncoder(default=_number).encode


def _why_not_plain(value: Any, error: BaseException, allow_nan: bool) -> str:
    try:
        found = _unplain(value, "", 0, allow_nan)
    except Exception:  # a container of its own type may do anything
        found = ""
    if not found and isinstance(error, RecursionError):
        found = "it is nested too deeply"
    return found or message_of(error) or type(error).__name__


def _unplain(value: Any, place: str, depth: int, allow_nan: bool) -> str:
    at = f" at {place}" if place else ""
    if value is None or isinstance(value, str | bool | int):
        return ""
    if isinstance(value, float):
        return "" if allow_nan or value - value == 0 else f"{value!r}{at}"
    if depth > 100:
        return "it is nested too deeply, or holds itself"
    if isinstance(value, dict):
        for key, inner in value.items():
            if not (key is None or isinstance(key, str | bool | int | float)):
                return f"a key of type {type(key).__name__}{at}"
            if found := _unplain(inner, f"{place}[{key!r}]"[:200], depth + 1, allow_nan):
                return found
        return ""
    if isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            if found := _unplain(inner, f"{place}[{index}]"[:200], depth + 1, allow_nan):
                return found
        return ""
    try:
        _number(value)
    except TypeError:
        return f"a value of type {type(value).__name__}{at}"
    return ""
