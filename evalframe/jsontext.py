"""JSON as text that keeps what was written: numbers digit by digit, key order, any script.

``json`` alone turns ``2.50`` into ``2.5``, ``1e5`` into ``100000.0`` and refuses integers of over 4,300 digits. Here a
number is a ``Number``: a string that remembers that it stood without quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NoReturn


class Number(str):
    """The text of a JSON number, as it was written."""

    __slots__ = ()


class JsonTextError(ValueError):
    """A text is not JSON; ``column`` is 1-based, in characters."""

    def __init__(self, detail: str, column: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.column = column


def loads(text: str) -> Any:
    """Parse JSON strictly, numbers as ``Number``.

    Raises:
        JsonTextError: For what is not JSON (``NaN`` and ``Infinity`` included) and for a key that stands twice in one
            object, because one of the two values would be lost.

    >>> loads('{"a": 2.50, "b": [1e5, true]}')
    {'a': '2.50', 'b': ['1e5', True]}
    """
    try:
        return _DECODER.decode(text)
    except _ConstantFound as found:
        raise JsonTextError(f"{found.name} is not JSON; write null", _column_of_constant(text, found.name)) from None
    except _DuplicateKey as found:
        raise JsonTextError(f"the key {found.key!r} stands twice in one object", _column_of_repeat(text)) from None
    except json.JSONDecodeError as error:
        raise JsonTextError(_plain_words(error), error.pos + 1) from None
    except RecursionError:
        raise JsonTextError("is nested too deeply", 1) from None


def dumps(value: Any) -> str:
    """Write compact JSON: no blanks, non-ASCII kept, key order kept, each ``Number`` as it was written.

    Plain Python numbers are written as ``json.dumps`` has them; NaN and infinities raise ``ValueError``.

    >>> dumps(loads('{"é": [1.50, null, "x"]}'))
    '{"é":[1.50,null,"x"]}'
    """
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is Number:
        return str(value)
    if kind is dict or isinstance(value, Mapping):
        return "{" + ",".join(f"{encode_basestring(str(key))}:{dumps(item)}" for key, item in value.items()) + "}"
    if kind is list or (isinstance(value, Sequence) and not isinstance(value, str)):
        return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def text_of(value: Any) -> str:
    """Render one parsed value as a template does: strings as they are, null as nothing, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):  # Number included: as written
        return str(value)
    return dumps(value)


def clean(text: str) -> str:
    """Replace lone surrogates, which no frame and no UTF-8 file can hold, by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _ConstantFound(Exception):
    def __init__(self, name: str) -> None:
        self.name = name


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantFound(name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        raise _DuplicateKey(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return result


def _column_of_repeat(text: str) -> int:
    """Find the first key that its object has already."""
    objects: list[set[str] | None] = []  # of those that are open; None is a list
    for token in _TOKENS.finditer(text):
        mark = token[0]
        if mark in "{[":
            objects.append(set() if mark == "{" else None)
        elif mark in "}]":
            objects.pop()
        elif token[1] is not None and objects and (keys := objects[-1]) is not None:
            key = json.loads(token[1])
            if key in keys:
                return token.start() + 1
            keys.add(key)
    raise AssertionError("loads found a key that stands twice")


# a string that a colon follows is a key
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*+")(?=[ \t\r\n]*:)|"(?:[^"\\]|\\.)*+"|[{}\[\]]', re.DOTALL)


# made once: json.loads with options makes one a call
_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse_constant, object_pairs_hook=_object
)


def _column_of_constant(text: str, name: str) -> int:
    """Find the constant outside of strings: scan the text once, skipping quoted runs."""
    inside = False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and inside:
            position += 1
        elif char == '"':
            inside = not inside
        elif not inside and text.startswith(name, position):
            return position + 1
        position += 1
    return 1


def _plain_words(error: json.JSONDecodeError) -> str:
    words = {
        "Extra data": "there is more text after the JSON value",
        "Expecting value": "a JSON value is expected here",
        "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
        "Unterminated string starting at": "this string is not closed",
        "Expecting ',' delimiter": "a comma or a closing bracket is expected here",
        "Expecting ':' delimiter": "a colon is expected here",
        "Illegal trailing comma before end of object": "a comma before the closing brace is not JSON",
        "Illegal trailing comma before end of array": "a comma before the closing bracket is not JSON",
    }
    return words.get(error.msg, error.msg[0].lower() + error.msg[1:])
