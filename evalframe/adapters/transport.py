"""HTTP as our models need it: one POST, one reply, kept-alive connections, and a deadline that holds to the last byte.

A usual client's time-out begins anew with every byte that comes; here each read and write gets what is left until the
deadline, so that a server which trickles headers or body can not hold a call. Only the look-up of a name is left to
the system, which bounds it itself. Proxies and certificates are those of the environment (``HTTPS_PROXY``,
``NO_PROXY``, ``SSL_CERT_FILE``); TLS is always verified.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult

from evalframe import __version__
from evalframe.adapters import CallFailed
from evalframe.adapters.addresses import PORTS, proxy_login, proxy_of, split_url
from evalframe.adapters.reading import Reply, read_head, read_reply

__all__ = ["Reply", "Transport"]


class _Timed:
    """Lets no single read or write of a socket go beyond one point in time, however many there are."""

    deadline: float | None = None

    def arm(self) -> None:
        """Give the next read or write what is left."""
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self.settimeout(left)  # type: ignore[attr-defined]

    def recv(self, *arguments: Any) -> bytes:
        self.arm()
        return super().recv(*arguments)  # type: ignore[misc, no-any-return]

    def send(self, *arguments: Any) -> int:
        self.arm()
        return super().send(*arguments)  # type: ignore[misc, no-any-return]


class _TimedSocket(_Timed, socket.socket):
    def sendall(self, *arguments: Any) -> None:
        self.arm()  # Python counts a time-out of sendall over the whole of it
        super().sendall(*arguments)


class _TimedTLS(_Timed, ssl.SSLSocket):
    """Its ``sendall`` is made of ``send``."""


class Transport:
    """The connections to one server. Safe to use from several threads: a connection serves one call at a time.

    Args:
        base_url: ``http`` or ``https``, host, optional port and path; without user, query and fragment.

    Raises:
        AdapterError: The URL is none of these, or a proxy of the environment is of a kind that is not supported.
    """

    def __init__(self, base_url: str) -> None:
        url = split_url(base_url)
        self.base_url = base_url.rstrip("/")
        self._tls = url.scheme == "https"
        self._host: str = url.hostname or ""
        self._port: int = url.port or PORTS[url.scheme]
        self._proxy = proxy_of(url)
        self._idle: deque[_TimedSocket | _TimedTLS] = deque()  # the last one used comes first: its peer is awake
        self._closed = False
        self._prefix = url.path.rstrip("/")
        self._head = f" HTTP/1.1\r\nHost: {url.netloc}\r\nUser-Agent: evalframe/{__version__}\r\nAccept: */*\r\n"
        if self._proxy is not None and not self._tls:
            self._prefix = f"http://{url.netloc}{self._prefix}"
            self._head += proxy_login(self._proxy)

    def post(self, path: str, body: bytes, *, headers: Mapping[str, str], deadline: float | None = None) -> Reply:
        """Send one request and read the whole reply; redirects are not followed.

        Args:
            path: Below the base URL, beginning with a slash.
            body: JSON text.
            headers: Beside those of HTTP itself.
            deadline: ``time.monotonic()`` at which it is broken off. None: never.

        Raises:
            CallFailed: ``timeout``: the deadline passed; ``connection``: anything else that is no reply;
                ``bad_reply``: it is too long, or not compressed as it says.
        """
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"POST {self._prefix}{path}{self._head}{lines}Content-Length: {len(body)}\r\n\r\n"
        connection = None
        try:
            connection = self._take(deadline)
            connection.deadline = deadline
            connection.sendall(head.encode("latin-1") + body)
            reply, keep = read_reply(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, OSError):
                raise self._failure(error) from None
            raise
        if keep and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close the connections that are idle; one in use is closed when its call ends."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take(self, deadline: float | None) -> _TimedSocket | _TimedTLS:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect(deadline)
            if not _is_readable(connection):
                return connection
            connection.close()  # an idle connection has something to say only when the server has closed it

    def _connect(self, deadline: float | None) -> _TimedSocket | _TimedTLS:
        at = self._proxy
        host, port = (self._host, self._port) if at is None else (at.hostname or "", at.port or 80)
        try:
            connection = _dial(host, port, deadline)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that can be none of a host
            raise _Unreachable(host, port, error) from None
        try:
            if self._tls:
                if at is not None:
                    _tunnel(connection, self._host, self._port, at)
                connection.arm()
                return self._context.wrap_socket(connection, server_hostname=self._host)  # type: ignore[return-value]
        except BaseException:
            connection.close()
            raise
        return connection

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.sslsocket_class = _TimedTLS
        return context

    def _failure(self, error: OSError) -> CallFailed:
        if isinstance(error, _Unreachable):
            where = f"{error.host}:{error.port}"
            if isinstance(error.cause, TimeoutError):
                return CallFailed("timeout", f"no connection to {where} within the time limit", unreachable=True)
            why = getattr(error.cause, "strerror", None) or str(error.cause)
            return CallFailed("connection", f"{where} can not be reached: {why}", unreachable=True)
        if isinstance(error, TimeoutError):
            return CallFailed("timeout", f"no whole reply from {self.base_url} within the time limit")
        if isinstance(error, _TunnelRefused):
            transient = error.status >= 500
            return CallFailed("connection", str(error), status=error.status, transient=transient, unreachable=True)
        if isinstance(error, ssl.SSLCertVerificationError):
            message = (
                f"{self._host}: its certificate is not trusted: {error.verify_message}; name your authority's "
                "certificates in SSL_CERT_FILE"
            )
            return CallFailed("connection", message, transient=False, unreachable=True)
        if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            message = f"{self._host}:{self._port} speaks no TLS; should the URL begin with http://?"
            return CallFailed("connection", message, transient=False, unreachable=True)
        words = str(error) or type(error).__name__
        return CallFailed("connection", f"the connection to {self.base_url} broke: {words}")


class _Unreachable(OSError):
    def __init__(self, host: str, port: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.host, self.port, self.cause = host, port, cause


class _TunnelRefused(OSError):
    def __init__(self, proxy: SplitResult, status: int) -> None:
        remedy = "; put the login into the proxy's URL: http://USER:PASSWORD@HOST:PORT" if status == 407 else ""
        super().__init__(f"the proxy {proxy.hostname} refused a tunnel: HTTP {status}{remedy}")
        self.status = status


def _dial(host: str, port: int, deadline: float | None) -> _TimedSocket:
    """Connect to the first address of a host that answers; each is given an even share of the time that is left."""
    last: OSError = OSError(f"{host} has no address")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for place, (family, kind, protocol, _, address) in enumerate(found):
        connection = _TimedSocket(family, kind, protocol)
        try:
            if deadline is not None:
                now = time.monotonic()
                connection.deadline = now + (deadline - now) / (len(found) - place)
            connection.arm()
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.deadline = deadline
        except OSError as error:
            connection.close()
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last


def _tunnel(connection: _TimedSocket, host: str, port: int, proxy: SplitResult) -> None:
    """Ask a proxy to pass on what comes to the target."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proxy_login(proxy)}\r\n".encode("latin-1"))
    status, _ = read_head(connection)
    if not 200 <= status < 300:
        raise _TunnelRefused(proxy, status)


def _is_readable(connection: socket.socket) -> bool:
    try:
        poll = select.poll()
    except AttributeError:  # not on every platform
        return bool(select.select([connection], [], [], 0)[0])
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
