"""HTTP as our models need it: one POST, one reply, kept-alive connections, and a deadline that holds to the last byte.

A usual client's time-out begins anew with every byte that comes; here each read and write gets what is left until the
deadline, so that a server which trickles headers or body can not hold a call. Proxies and certificates are those of
the environment (``HTTPS_PROXY``, ``NO_PROXY``, ``SSL_CERT_FILE``); TLS is always verified.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import time
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from evalframe import __version__
from evalframe.adapters import CallFailed
from evalframe.errors import AdapterError

MOST_BYTES = 256 * 1024 * 1024  # of one reply
_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("localhost", "::1")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    Attributes:
        status: Of HTTP.
        headers: Names in any case.
        body: As it came, decompressed.
    """

    status: int
    headers: Any
    body: bytes


class _Timed:
    """Lets no single read or write of a socket go beyond one point in time, however many there are."""

    deadline: float | None = None

    def arm(self) -> None:
        """Give the next read or write what is left."""
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self.settimeout(left)  # type: ignore[attr-defined]

    def recv_into(self, *arguments: Any) -> int:
        self.arm()
        return super().recv_into(*arguments)  # type: ignore[misc, no-any-return]

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
        url = _split(base_url)
        self.base_url = base_url.rstrip("/")
        self._tls = url.scheme == "https"
        self._host: str = url.hostname or ""
        self._port: int = url.port or _PORTS[url.scheme]
        self._proxy = _proxy(url)
        self._idle: deque[_TimedSocket | _TimedTLS] = deque()  # the last one used comes first: its peer is awake
        authority = url.netloc
        self._prefix = url.path.rstrip("/")
        if self._proxy is not None and not self._tls:
            self._prefix = f"http://{authority}{self._prefix}"
        self._head = f" HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: evalframe/{__version__}\r\nAccept: */*\r\n"
        if self._proxy is not None and not self._tls:
            self._head += _proxy_login(self._proxy)

    def post(self, path: str, body: bytes, *, headers: Mapping[str, str], deadline: float | None = None) -> Reply:
        """Send one request and read the whole reply; redirects are not followed.

        Args:
            path: Below the base URL, beginning with a slash.
            body: JSON text.
            headers: Beside those of HTTP itself.
            deadline: ``time.monotonic()`` at which it is broken off. None: never.

        Raises:
            CallFailed: ``timeout``: the deadline passed; ``connection``: anything else that is no reply.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {self._prefix}{path}{self._head}{lines}Content-Length: {len(body)}\r\n\r\n"
        connection = None
        try:
            connection = self._take(deadline)
            connection.deadline = deadline
            connection.sendall(head.encode("latin-1") + body)
            reply, keep = _read_reply(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, OSError | http.client.HTTPException | zlib.error):
                raise self._failure(error) from None
            raise
        if keep:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close the connections that are idle; those in use are closed when their call ends without a next one."""
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
        at = self._proxy if self._proxy is not None else None
        host, port = (at.hostname or "", at.port or 80) if at is not None else (self._host, self._port)
        try:
            connection = _dial(host, port, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise _Unreachable(host, port, error) from None
        try:
            if self._tls:
                if at is not None:
                    _tunnel(connection, f"{self._host}:{self._port}", at)
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

    def _failure(self, error: Exception) -> CallFailed:
        if isinstance(error, TimeoutError):
            return CallFailed("timeout", f"no whole reply from {self.base_url} within the time limit")
        if isinstance(error, _Unreachable):
            why = error.cause.strerror or str(error.cause)
            return CallFailed("connection", f"{error.host}:{error.port} can not be reached: {why}", unreachable=True)
        if isinstance(error, ssl.SSLCertVerificationError):
            message = (
                f"{self._host}: its certificate is not trusted: {error.verify_message}; name your authority's "
                "certificates in SSL_CERT_FILE"
            )
            return CallFailed("connection", message, transient=False, unreachable=True)
        words = str(error) or type(error).__name__
        if isinstance(error, http.client.IncompleteRead):
            words = "the reply ended early"
        elif isinstance(error, http.client.HTTPException) and not isinstance(error, ConnectionError):
            words = f"the reply is no HTTP ({type(error).__name__})"
        return CallFailed("connection", f"the connection to {self.base_url} broke: {words}")


class _Unreachable(OSError):
    def __init__(self, host: str, port: int, cause: OSError) -> None:
        super().__init__(str(cause))
        self.host, self.port, self.cause = host, port, cause


def _split(base_url: str) -> SplitResult:
    remedy = "write one such as http://127.0.0.1:8000/v1"
    try:
        url = urlsplit(base_url)
        port = url.port
    except ValueError as error:
        raise AdapterError(f"{base_url!r} is no URL: {error}; {remedy}") from None
    if url.scheme not in _PORTS or not url.hostname or port == 0:
        raise AdapterError(f"{base_url!r} is no http or https URL; {remedy}")
    if url.username or url.password:
        raise AdapterError(f"the URL of {url.hostname} has a user or password in it; keys come from the environment")
    if url.query or url.fragment:
        raise AdapterError(f"{base_url!r} has a query or fragment; {remedy}")
    if any(c.isspace() or not c.isascii() for c in base_url):
        raise AdapterError(f"{base_url!r} has blanks or letters that a URL can not have; {remedy}")
    return url


def _proxy(url: SplitResult) -> SplitResult | None:
    """Find the proxy that the environment names for a server; a server on this machine needs none."""
    host = url.hostname or ""
    if host in _LOOPBACK or host.startswith("127.") or proxy_bypass(host):
        return None
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named:
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise AdapterError(
            f"the proxy of the environment for {url.scheme} is of the kind {proxy.scheme!r}; only http:// proxies are "
            f"supported: mend {url.scheme.upper()}_PROXY, or name {host} in NO_PROXY"
        )
    return proxy


def _proxy_login(proxy: SplitResult) -> str:
    if not proxy.username:
        return ""
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}\r\n"


def _dial(host: str, port: int, deadline: float | None) -> _TimedSocket:
    """Connect to the first address of a host that answers before the deadline."""
    last: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = _TimedSocket(family, kind, protocol)
        connection.deadline = deadline
        try:
            connection.arm()
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError from None
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last


def _tunnel(connection: _TimedSocket, target: str, proxy: SplitResult) -> None:
    """Ask a proxy to pass on what comes to the target."""
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_proxy_login(proxy)}\r\n".encode("latin-1"))
    with http.client.HTTPResponse(connection, method="CONNECT") as response:
        response.begin()
        if response.status != 200:
            raise OSError(f"the proxy {proxy.hostname} refused a tunnel: {response.status} {response.reason}")


def _read_reply(connection: socket.socket) -> tuple[Reply, bool]:
    """Read status, headers and the whole body; the second value says whether the connection may be used again."""
    with http.client.HTTPResponse(connection, method="POST") as response:
        response.begin()
        body = response.read(MOST_BYTES) if response.length is None else response.read()
        keep = not response.will_close
        if response.getheader("Content-Encoding", "identity").lower() in ("gzip", "deflate"):
            body = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, MOST_BYTES)
        return Reply(response.status, response.headers, body), keep


def _is_readable(connection: socket.socket) -> bool:
    try:
        poll = select.poll()
    except AttributeError:  # not on every platform
        return bool(select.select([connection], [], [], 0)[0])
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
