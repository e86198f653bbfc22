"""Framed messages between evalframe and its worker processes: four bytes of length, then JSON in UTF-8.

This file is also loaded inside the workers: standard library only, no import of evalframe.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")


class ProtocolError(Exception):
    """The other side ended, or sent what is no message."""


def write_message(stream: BinaryIO, message: Any, *, max_bytes: int = 0xFFFFFFFF) -> None:
    """Send one JSON value.

    Raises:
        ProtocolError: The message is over ``max_bytes``; nothing was sent.
    """
    body = json.dumps(message, ensure_ascii=True, allow_nan=False).encode("ascii")
    if len(body) > max_bytes:
        raise ProtocolError(f"a message of {len(body)} bytes is over the limit of {max_bytes}")
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def read_message(stream: BinaryIO, *, max_bytes: int = 64 * 1024 * 1024) -> Any:
    """Receive one JSON value.

    Raises:
        ProtocolError: The stream ended, the length is over ``max_bytes``, or the body is not JSON.
    """
    head = _read_exactly(stream, _LENGTH.size)
    (length,) = _LENGTH.unpack(head)
    if length > max_bytes:
        raise ProtocolError(f"a message of {length} bytes is over the limit of {max_bytes}")
    try:
        return json.loads(_read_exactly(stream, length))
    except ValueError as error:
        raise ProtocolError(f"a message is not JSON: {error}") from None


class MessageBuffer:
    """Messages out of bytes that come in pieces, for a reader that waits on several streams at once."""

    def __init__(self, *, max_bytes: int) -> None:
        self._bytes = bytearray()
        self._max_bytes = max_bytes

    def feed(self, piece: bytes) -> list[Any]:
        """Take a piece and give the messages that are now whole.

        Raises:
            ProtocolError: As ``read_message``.
        """
        self._bytes += piece
        messages = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > self._max_bytes:
                raise ProtocolError(f"a message of {length} bytes is over the limit of {self._max_bytes}")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            try:
                messages.append(json.loads(self._bytes[_LENGTH.size : end]))
            except (ValueError, RecursionError) as error:
                raise ProtocolError(f"a message is not JSON: {error}") from None
            del self._bytes[:end]
        return messages


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    chunks = []
    while size:
        chunk = stream.read(size)
        if not chunk:
            raise ProtocolError("the stream ended in the middle of a message")
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
