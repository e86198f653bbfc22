"""A server whose every byte a test writes: one function a connection, in a thread of the test's process."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType

LENGTH = re.compile(rb"\r\nContent-Length: *(\d+)")
SECONDS = 30.0  # until a connection that nobody uses fails the test


class Connection:
    """The server's side of one connection."""

    def __init__(self, plain: socket.socket) -> None:
        self.socket = plain
        self._left = b""

    def request(self) -> tuple[str, bytes] | None:
        """Read one request: its head as text, and its body; None where the client has closed the connection."""
        head = self._until(b"\r\n\r\n")
        if head is None:
            return None
        length = next(
            (line.split(b":")[1] for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), b"0"
        )
        while len(self._left) < int(length):
            if not (data := self.socket.recv(65_536)):
                return None
            self._left += data
        body, self._left = self._left[: int(length)], self._left[int(length) :]
        return head.decode("latin-1"), body

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def reply(self, body: bytes = b"{}", *, status: str = "200 OK", headers: str = "") -> None:
        """Send a whole reply."""
        self.send(f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body)

    def reset(self) -> None:
        """Break the connection off: RST, not FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._left:
            if not (data := self.socket.recv(65_536)):
                return None
            self._left += data
        found, _, self._left = self._left.partition(end)
        return found


class RawServer:
    """Serves each connection with a function until that returns, then closes it; a context manager.

    Attributes:
        port: On loopback.
        n_connections: So far.
        ended: Set when the test is over; a function that keeps a client waiting waits for it.
    """

    def __init__(self, serve: Callable[[Connection], None], *, tls: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        self.n_connections = 0
        self.ended = threading.Event()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._listen)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> RawServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        while not self.ended.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.n_connections += 1
            connection.settimeout(SECONDS)
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._one, args=(connection,)))
            self._threads[-1].start()

    def _one(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client went away, or the test is over
            connection = plain
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(plain, server_side=True)
                    self._open.append(connection)
                self._serve(Connection(connection))
            finally:
                connection.close()
                plain.close()
