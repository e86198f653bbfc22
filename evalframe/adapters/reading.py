"""Reading one HTTP reply from a socket: status, headers, and the body however its end is told; bounded in size.

The standard library's reader takes headers for e-mail, which costs more than all else that a call needs.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from evalframe.adapters import CallFailed

MOST_BYTES = 256 * 1024 * 1024  # of one reply
MOST_HEAD_BYTES = 256 * 1024
_AT_ONCE = 65_536
_NO_BODY = {204, 304}
_TOO_LONG = f"the headers of the reply are longer than {MOST_HEAD_BYTES:,} bytes"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    Attributes:
        status: Of HTTP.
        headers: By their names in lower case; what came several times is joined by commas.
        body: As it came, decompressed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoReply(OSError):
    """The connection ended, or what came over it is no HTTP."""


def read_reply(connection: socket.socket) -> tuple[Reply, bool]:
    """Read status, headers and the whole body; the second value says whether the connection may be used again.

    Raises:
        NoReply: It ended early, or is no HTTP.
        CallFailed: ``bad_reply``: it is too long, or not compressed as it says.
        OSError: Of the socket.
    """
    incoming = _Incoming(connection)
    status, keep = 100, True
    headers: dict[str, str] = {}
    while status < 200 and status != 101:  # 100 Continue, 103 Early Hints: the reply is still to come
        status, keep, headers = incoming.head()
    if status in _NO_BODY:
        body = b""
    elif coding := headers.get("transfer-encoding"):
        if coding.lower().rpartition(",")[2].strip() != "chunked":
            raise NoReply(f"the reply is no HTTP: Transfer-Encoding: {coding[:80]}")
        body = incoming.chunks()
    elif (length := headers.get("content-length")) is not None:
        body = incoming.exactly(_length(length))
    else:
        body, keep = incoming.rest(), False
    if coding := headers.get("content-encoding"):
        body = _decompressed(body, coding.strip().lower())
    return Reply(status, headers, body), keep and not incoming.left


def read_head(connection: socket.socket) -> tuple[int, dict[str, str]]:
    """Read status and headers of a reply whose body is of no interest; raises as ``read_reply``."""
    status, _, headers = _Incoming(connection).head()
    return status, headers


class _Incoming:
    """What comes over a connection, taken piece by piece."""

    def __init__(self, connection: socket.socket) -> None:
        self.left = bytearray()  # it came, and is not taken yet
        self._connection = connection

    def _more(self, what: str) -> bytes:
        data = self._connection.recv(_AT_ONCE)
        if not data:
            raise NoReply(what)
        return data

    def head(self) -> tuple[int, bool, dict[str, str]]:
        """Take status and headers; the second value says whether the connection stays open after the reply."""
        data = bytes(self.left) or self._more("the server closed it without a reply")
        while (end := data.find(b"\r\n\r\n")) < 0 and (other := data.find(b"\n\n")) < 0:
            if not b"HTTP/1.".startswith(data[:7]):
                raise NoReply(_no_http(data))
            if len(data) > MOST_HEAD_BYTES:
                raise NoReply(_TOO_LONG)
            data += self._more("the reply ended within its headers")
        if max(end, other if end < 0 else 0) > MOST_HEAD_BYTES:  # its end came with the piece that was too much
            raise NoReply(_TOO_LONG)
        if end < 0:
            end, self.left = other, bytearray(data[other + 2 :])
        else:
            self.left = bytearray(data[end + 4 :])
        first, *lines = data[:end].decode("latin-1").replace("\r\n", "\n").split("\n")
        version, _, rest = first.partition(" ")
        digits = rest.lstrip()[:3]
        if not version.startswith("HTTP/1.") or not (digits.isascii() and digits.isdigit() and len(digits) == 3):
            raise NoReply(_no_http(data))
        headers: dict[str, str] = {}
        name = ""
        for line in lines:
            if line[:1] in (" ", "\t") and name:  # an old way to write a long one
                headers[name] += " " + line.strip()
                continue
            name, colon, value = line.partition(":")
            if not colon:
                raise NoReply(f"the reply is no HTTP: a header without a colon: {line[:80]!r}")
            name = name.strip().lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        says = headers.get("connection", "").lower()
        return int(digits), "close" not in says and (version != "HTTP/1.0" or "keep-alive" in says), headers

    def exactly(self, length: int) -> bytes:
        """Take so many bytes."""
        _refuse_long(length)
        missing = length - len(self.left)
        if missing <= 0:
            return self._taken(length)
        parts = [self._taken(len(self.left))]
        while missing > 0:
            data = self._connection.recv(min(missing, _AT_ONCE))
            if not data:
                raise NoReply("the reply ended early")
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def chunks(self) -> bytes:
        """Take a body that comes in chunks, and what follows the last of them."""
        parts: list[bytes] = []
        total = 0
        while True:
            digits = self._line().split(b";", 1)[0].strip()
            try:
                size = int(digits, 16)
            except ValueError:
                size = -1
            if size < 0:
                raise NoReply(f"the reply is no HTTP: a chunk of the size {digits[:20]!r}")
            if size == 0:
                break
            total += size
            _refuse_long(total)
            parts.append(self.exactly(size))
            if self._line().strip():
                raise NoReply("the reply is no HTTP: a chunk is longer than it says")
        while self._line().strip():
            pass
        return b"".join(parts)

    def rest(self) -> bytes:
        """Take all until the server closes the connection."""
        total = len(self.left)
        parts = [self._taken(total)]
        while data := self._connection.recv(_AT_ONCE):
            parts.append(data)
            total += len(data)
            _refuse_long(total)
        return b"".join(parts)

    def _line(self) -> bytes:
        while (end := self.left.find(b"\n")) < 0:
            if len(self.left) > MOST_HEAD_BYTES:
                raise NoReply("the reply is no HTTP: a line without end")
            self.left += self._more("the reply ended early")
        return self._taken(end + 1)

    def _taken(self, length: int) -> bytes:
        taken = bytes(self.left[:length])
        del self.left[:length]
        return taken


def _length(value: str) -> int:
    said = {part.strip() for part in value.split(",")}
    length = said.pop()
    if said or not (length.isascii() and length.isdigit() and len(length) < 20):
        raise NoReply(f"the reply is no HTTP: Content-Length: {value[:80]}")
    return int(length)


def _refuse_long(length: int) -> None:
    if length > MOST_BYTES:
        raise CallFailed("bad_reply", f"the reply is longer than {MOST_BYTES:,} bytes")


def _no_http(data: bytes) -> str:
    alert = " (the server wants https)" if data[:2] == b"\x15\x03" else ""  # how TLS says what it did not understand
    return f"the reply is no HTTP: {data[:40]!r}{alert}"


def _decompressed(body: bytes, coding: str) -> bytes:
    if coding not in ("gzip", "x-gzip", "deflate"):
        if coding in ("", "identity"):
            return body
        raise CallFailed("bad_reply", f"the reply is compressed in a way that was not asked for: {coding[:80]}")
    if not body:
        return body
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        whole = unpacking.decompress(body, MOST_BYTES)
    except zlib.error as error:
        raise CallFailed("bad_reply", f"the reply is no {coding} as it says: {error}") from None
    if unpacking.unconsumed_tail:
        _refuse_long(MOST_BYTES + 1)
    if not unpacking.eof:
        raise CallFailed("bad_reply", f"the reply's {coding} ended early")
    return whole
