"""HTTP on real sockets: what comes over them, byte by byte, becomes one reply or one failure in our words."""

from __future__ import annotations

import base64
import contextlib
import gc
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from evalframe.adapters import CallFailed, reading
from evalframe.adapters.transport import Reply, Transport
from evalframe.errors import AdapterError
from tests.servers.raw import Connection, RawServer

GUARD = 20.0  # seconds; far more than a deadline here, far less than what a server here would take
TRICKLE = 0.05


@pytest.fixture(autouse=True)
def _nothing_between_or_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    yield
    gc.collect(1)  # a socket that was left open is a ResourceWarning, and that is an error


@pytest.fixture
def serve() -> Iterator[Callable[..., SimpleNamespace]]:
    """Serve connections with a function; gives the server and a transport to it."""
    with contextlib.ExitStack() as stack:

        def start(function: Callable[[Connection], None], *, tls: ssl.SSLContext | None = None) -> SimpleNamespace:
            server = stack.enter_context(RawServer(function, tls=tls))
            transport = Transport(server.url)
            stack.callback(transport.close)
            return SimpleNamespace(server=server, transport=transport, url=server.url, port=server.port)

        yield start


def answering(data: bytes, *, then: Callable[[Connection], None] | None = None) -> Callable[[Connection], None]:
    """Answer each request with the same bytes; then close the connection where ``then`` says so."""

    def function(connection: Connection) -> None:
        while connection.request() is not None:
            connection.send(data)
            if then is not None:
                return then(connection)
        return None

    return function


def closes(connection: Connection) -> None:
    """The server closes the connection."""


def post(transport: Transport, body: bytes = b"{}", *, seconds: float | None = GUARD, **headers: str) -> Reply:
    deadline = None if seconds is None else time.monotonic() + seconds
    return transport.post("/chat", body, headers=headers, deadline=deadline)


def failure(transport: Transport, *, seconds: float | None = GUARD) -> CallFailed:
    began = time.monotonic()
    with pytest.raises(CallFailed) as caught:
        post(transport, seconds=seconds)
    assert time.monotonic() - began < GUARD
    return caught.value


# a request and its reply


def test_what_is_sent_and_what_comes_back(serve) -> None:
    seen = []

    def function(connection: Connection) -> None:
        while (request := connection.request()) is not None:
            seen.append(request)
            connection.reply(b'{"a": 1}', headers="X-One: 1\r\nx-two:  b \r\nX-ONE: 2\r\n")

    at = serve(function)
    reply = post(at.transport, "{é}".encode(), Authorization="Bearer k")
    assert (reply.status, reply.body) == (200, b'{"a": 1}')
    assert reply.headers["x-one"] == "1, 2"
    assert reply.headers["x-two"] == "b"
    head, body = seen[0]
    lines = head.split("\r\n")
    assert lines[0] == "POST /v1/chat HTTP/1.1"
    assert f"Host: 127.0.0.1:{at.port}" in lines
    assert "Authorization: Bearer k" in lines
    assert "Content-Length: 4" in lines
    assert body.decode() == "{é}"


def test_a_connection_is_used_again(serve) -> None:
    at = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    for _ in range(50):
        assert post(at.transport).body == b"ok"
    assert at.server.n_connections == 1


@pytest.mark.parametrize(
    ("head", "again"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", True),
    ],
)
def test_whether_a_connection_stays_open_is_the_server_s_choice(serve, head, again) -> None:
    at = serve(answering(head + b"Content-Length: 2\r\n\r\nok"))
    post(at.transport)
    post(at.transport)
    assert at.server.n_connections == (1 if again else 2)


def test_a_connection_that_the_server_closed_meanwhile_is_not_used(serve) -> None:
    closed = threading.Event()

    def function(connection: Connection) -> None:
        connection.request()
        connection.reply(b"ok")
        connection.socket.shutdown(socket.SHUT_RDWR)
        closed.set()

    at = serve(function)
    for _ in range(5):
        closed.clear()
        assert post(at.transport).body == b"ok"
        assert closed.wait(GUARD)
    assert at.server.n_connections == 5


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200\r\ncontent-length:5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX-Long: a\r\n b\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        CHUNKED + b"2\r\nhe\r\n3;name=x\r\nllo\r\n0\r\n\r\n",
        CHUNKED + b"5\r\nhello\r\n0\r\nX-Trailer: a\r\nX-Other: b\r\n\r\n",
        CHUNKED.replace(b"OK\r\n", b"OK\r\nContent-Length: 99\r\n") + b"05\r\nhello\r\n00\r\n\r\n",
    ],
)
@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_ways_to_tell_the_end_of_a_body(serve, data, pieces) -> None:
    def function(connection: Connection) -> None:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.request() is not None:
            step = -(-len(data) // pieces)
            for start in range(0, len(data), step):
                connection.send(data[start : start + step])

    at = serve(function)
    assert [post(at.transport).body for _ in range(3)] == [b"hello"] * 3
    assert at.server.n_connections == 1


def test_a_body_that_ends_with_the_connection(serve) -> None:
    at = serve(answering(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 300_000, then=closes))
    assert len(post(at.transport).body) == 300_000
    assert len(post(at.transport).body) == 300_000
    assert at.server.n_connections == 2


@pytest.mark.parametrize("status", [204, 304])
def test_replies_without_a_body(serve, status) -> None:
    at = serve(answering(f"HTTP/1.1 {status} None\r\n\r\n".encode()))
    for _ in range(2):
        assert post(at.transport) == Reply(status, {}, b"")
    assert at.server.n_connections == 1


def test_a_redirect_is_not_followed(serve) -> None:
    at = serve(answering(b"HTTP/1.1 301 Moved\r\nLocation: https://else.where/\r\nContent-Length: 0\r\n\r\n"))
    reply = post(at.transport)
    assert (reply.status, reply.headers["location"]) == (301, "https://else.where/")


def test_bytes_after_a_reply_are_no_reply_to_the_next_request(serve) -> None:
    at = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * 2))
    post(at.transport)
    post(at.transport)
    assert at.server.n_connections == 2


def test_a_long_request_and_a_long_reply(serve) -> None:
    def function(connection: Connection) -> None:
        while (request := connection.request()) is not None:
            connection.reply(request[1])

    body = bytes(range(256)) * 40_000
    assert post(serve(function).transport, body).body == body


# compressed bodies


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("GZip", gzip.compress), ("deflate", zlib.compress)]
)
def test_compressed_bodies(serve, coding, pack) -> None:
    packed = pack(b"hello" * 1_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    assert post(serve(answering(head.encode() + packed)).transport).body == b"hello" * 1_000


@pytest.mark.parametrize(
    ("coding", "packed", "words"),
    [
        ("gzip", b"not compressed", "no gzip as it says"),
        ("gzip", gzip.compress(b"hello" * 1_000, mtime=0)[:-10], "ended early"),
        ("br", b"\x0b\x02\x80", "not asked for: br"),
        ("gzip", gzip.compress(bytes(3_000_000)), "longer than"),
    ],
)
def test_bodies_that_are_not_what_they_say(serve, monkeypatch, coding, packed, words) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    found = failure(serve(answering(head.encode() + packed)).transport)
    assert found.error_type == "bad_reply"
    assert words in str(found)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
        CHUNKED + b"f4241\r\n",
        CHUNKED + b"ffffffffffffffffffff\r\n",
        CHUNKED + b"40000\r\n" + b"x" * 0x40000 + b"\r\nf0000\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_001,
    ],
)
def test_a_body_without_measure_is_refused_and_not_held(serve, monkeypatch, data) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 1_000_000)
    found = failure(serve(answering(data)).transport)
    assert (found.error_type, found.transient) == ("bad_reply", False)
    assert "longer than 1,000,000 bytes" in str(found)


# what is no reply


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "without a reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "within its headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "ended early"),
        (CHUNKED + b"5\r\nhel", "ended early"),
        (CHUNKED + b"5\r\nhello\r\n", "ended early"),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", "ended early"),
        (CHUNKED + b"5\r\nhello-you\r\n0\r\n\r\n", "longer than it says"),
        (CHUNKED + b"five\r\nhello\r\n", "chunk of the size"),
        (CHUNKED + b"-5\r\nhello\r\n", "chunk of the size"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "is no HTTP: b'SSH-2.0"),
        (b"HTTP/2 200\r\n\r\n", "is no HTTP"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "is no HTTP"),
        (b"HTTP/1.1 20\r\n\r\n", "is no HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the server wants https"),
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "without a colon"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n", "Content-Length: ten"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length: -1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length: 1, 2"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding: gzip"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", "headers of the reply are longer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000 + b"\r\n", "headers of the reply are longer"),
    ],
)
def test_what_is_no_whole_reply_is_a_broken_connection(serve, data, words) -> None:
    found = failure(serve(answering(data, then=closes)).transport)
    assert (found.error_type, found.transient, found.unreachable) == ("connection", True, False)
    assert words in str(found)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nCont", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel"])
def test_a_reset_before_in_headers_and_in_the_body(serve, data) -> None:
    at = serve(answering(data, then=Connection.reset))
    found = failure(at.transport)
    assert found.error_type == "connection"
    assert at.url in str(found)
    failure(at.transport)
    assert at.server.n_connections == 2  # none of them is used again


# deadlines


def trickling(data: bytes, first: int) -> Callable[[Connection], None]:
    """Send so many bytes at once and the others one by one, without end."""

    def function(connection: Connection) -> None:
        connection.request()
        connection.send(data[:first])
        for byte in data[first:] + b" " * 100_000:
            time.sleep(TRICKLE)
            connection.send(bytes([byte]))

    return function


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (LONG, 0),
        (LONG, 20),
        (LONG, len(LONG)),
        (CHUNKED + b"ffff\r\n", len(CHUNKED) + 6),
        (b"HTTP/1.1 200 OK\r\n\r\n", 19),
    ],
)
def test_a_deadline_holds_however_the_bytes_trickle(serve, data, first) -> None:
    found = failure(serve(trickling(data, first)).transport, seconds=4 * TRICKLE)
    assert (found.error_type, found.transient, found.unreachable) == ("timeout", True, False)
    assert "within the time limit" in str(found)


def test_a_deadline_holds_while_nothing_comes_and_the_connection_is_not_used_again(serve) -> None:
    def function(connection: Connection) -> None:
        while (request := connection.request()) is not None:
            if request[1] == b"{}":
                at.server.ended.wait(GUARD)
            connection.reply(request[1])

    at = serve(function)
    assert failure(at.transport, seconds=0.1).error_type == "timeout"
    assert post(at.transport, b"other").body == b"other"  # not the late reply to the first


def test_a_deadline_holds_while_a_request_is_not_taken(serve) -> None:
    at = serve(lambda connection: at.server.ended.wait(GUARD))
    began = time.monotonic()
    with pytest.raises(CallFailed, match="time limit"):
        post(at.transport, b"x" * 64_000_000, seconds=0.3)
    assert time.monotonic() - began < GUARD


def test_a_deadline_that_has_passed_sends_nothing(serve) -> None:
    at = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    post(at.transport)
    assert failure(at.transport, seconds=-1).error_type == "timeout"


def test_a_deadline_of_one_call_is_none_of_the_next(serve) -> None:
    at = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    post(at.transport, seconds=5)
    post(at.transport, seconds=None)
    assert at.server.n_connections == 1


# nothing there


def test_an_address_where_nothing_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = failure(Transport(f"http://127.0.0.1:{port}/v1"))
    assert (found.error_type, found.unreachable) == ("connection", True)
    assert str(found) == f"127.0.0.1:{port} can not be reached: Connection refused"


def test_a_name_that_no_host_has(monkeypatch) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    found = failure(Transport("http://no.such.host.test/v1"))
    assert (found.error_type, found.unreachable) == ("connection", True)
    assert "no.such.host.test:80 can not be reached: Name or service not known" in str(found)


def test_a_name_that_no_host_can_have() -> None:
    assert failure(Transport(f"http://{'a' * 70}.test/v1")).unreachable


def test_the_second_address_of_a_host_is_tried_where_the_first_is_silent(serve, monkeypatch) -> None:
    at = serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    with socket.socket() as silent:  # its queue is full: who connects waits
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(silent.getsockname())
        places = [silent.getsockname(), ("127.0.0.1", at.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert post(at.transport, seconds=2).body == b"ok"
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found[:1])
        other = Transport("http://127.0.0.1:9/v1")
        lost = failure(other, seconds=0.2)
        assert (lost.error_type, lost.unreachable) == ("timeout", True)
        for one in waiting:
            one.close()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/v1", "127.0.0.1:8000/v1", "http://", "http:///v1", "http://127.0.0.1:0/v1",
        "http://127.0.0.1:99999/v1", "http://127.0.0.1:port/v1", "http://[::1/v1", "http://a b/v1", "http://a/v 1",
        "http://h\u00f6st/v1", "http://host/v1\r\nX: y", "http://host/v1\x00", "http://host/v1?a=b", "http://host/v1#a",
        "",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_at_once(url) -> None:
    with pytest.raises(AdapterError, match="write one such as http://"):
        Transport(url)


@pytest.mark.parametrize("url", ["http://user:topsecret@host/v1", "http://topsecret@host/v1", "ftp://a:topsecret@h"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(url) -> None:
    with pytest.raises(AdapterError, match="keys come from the environment") as caught:
        Transport(url)
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://user:topsecret@host:port/v1", "http://host/v1?key=topsecret"])
def test_nor_is_one_in_an_address_that_is_none(url) -> None:
    with pytest.raises(AdapterError) as caught:
        Transport(url)
    assert "topsecret" not in str(caught.value)


# many threads, and closing


def test_many_threads_get_their_own_replies(serve) -> None:
    def function(connection: Connection) -> None:
        while (request := connection.request()) is not None:
            connection.reply(request[1])

    at = serve(function)
    wrong = []

    def work(number: int) -> None:
        for turn in range(30):
            body = f"{number} {turn}".encode()
            if post(at.transport, body).body != body:
                wrong.append(body)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert at.server.n_connections <= 16


def test_a_connection_that_is_in_use_when_all_are_closed_is_closed_after_its_call(serve) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def function(connection: Connection) -> None:
        while connection.request() is not None:
            inside.set()
            go_on.wait(GUARD)
            connection.reply(b"ok")

    at = serve(function)
    replies = []
    caller = threading.Thread(target=lambda: replies.append(post(at.transport)))
    caller.start()
    assert inside.wait(GUARD)
    at.transport.close()
    go_on.set()
    caller.join()
    assert replies[0].body == b"ok"
    assert not at.transport._idle
    assert post(at.transport).body == b"ok"  # it can be used still; connections are no longer kept


# TLS


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A certificate of its own authority for 127.0.0.1 and models.test, and one for another host."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("needs the command openssl, to make a certificate")
    folder = tmp_path_factory.mktemp("tls")

    def make(name: str, hosts: str) -> tuple[str, ssl.SSLContext]:
        path, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
        command = [
            openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-addext", f"subjectAltName={hosts}", "-keyout", key, "-out", path,
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, key)
        return path, context

    path, context = make("right", "IP:127.0.0.1,DNS:models.test")
    other_path, other = make("other", "DNS:other.test")
    return SimpleNamespace(path=path, context=context, other_path=other_path, other=other)


OK = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def test_a_certificate_that_nobody_vouches_for_is_refused_with_what_to_do(serve, certificate) -> None:
    found = failure(serve(OK, tls=certificate.context).transport)
    assert (found.error_type, found.transient, found.unreachable) == ("connection", False, True)
    assert "self-signed certificate" in str(found).replace("self signed", "self-signed")
    assert "SSL_CERT_FILE" in str(found)


def test_it_is_taken_where_the_environment_names_it(serve, certificate, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate.path)
    at = serve(OK, tls=certificate.context)
    for _ in range(3):
        assert post(at.transport).body == b"ok"
    assert at.server.n_connections == 1


def test_a_certificate_of_another_host_is_refused(serve, certificate, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate.other_path)
    found = failure(serve(OK, tls=certificate.other).transport)
    assert "127.0.0.1" in str(found)
    assert not found.transient


@pytest.mark.parametrize("first", [0, len(LONG)])
def test_a_deadline_holds_under_tls(serve, certificate, monkeypatch, first) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate.path)
    at = serve(trickling(LONG, first), tls=certificate.context)
    assert failure(at.transport, seconds=0.5).error_type == "timeout"


def test_a_deadline_holds_within_the_handshake(serve) -> None:
    at = serve(lambda connection: at.server.ended.wait(GUARD))
    assert failure(Transport(at.url.replace("http:", "https:")), seconds=0.2).error_type == "timeout"


def test_https_to_a_server_without_tls_says_so(serve) -> None:
    at = serve(answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))

    def function(connection: Connection) -> None:
        connection.socket.recv(10)
        connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    at = serve(function)
    found = failure(Transport(at.url.replace("http:", "https:")))
    assert (found.transient, found.unreachable) == (False, True)
    assert "speaks no TLS; should the URL begin with http://" in str(found)


def test_a_long_reply_under_tls(serve, certificate, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate.path)

    def function(connection: Connection) -> None:
        while (request := connection.request()) is not None:
            connection.reply(request[1])

    body = bytes(range(256)) * 8_000
    at = serve(function, tls=certificate.context)
    assert post(at.transport, body).body == body


# proxies


@pytest.fixture
def proxy(serve) -> Callable[..., SimpleNamespace]:
    """A proxy that passes everything on to one server, whatever its name; remembers the heads of requests to it."""

    def start(upstream: int, *, login: str | None = None, refuses: str | None = None) -> SimpleNamespace:
        heads: list[str] = []

        def pump(one: socket.socket, other: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := one.recv(65_536):
                    other.sendall(data)
                other.shutdown(socket.SHUT_RDWR)

        def function(connection: Connection) -> None:
            while (request := connection.request()) is not None:
                head, body = request
                heads.append(head)
                if login is not None and f"Proxy-Authorization: Basic {login}" not in head:
                    return connection.reply(status="407 Proxy Authentication Required")
                if refuses is not None:
                    return connection.reply(status=refuses)
                with socket.create_connection(("127.0.0.1", upstream), timeout=GUARD) as behind:
                    if head.startswith("CONNECT "):
                        connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        back = threading.Thread(target=pump, args=(behind, connection.socket))
                        back.start()
                        pump(connection.socket, behind)
                        return back.join()
                    behind.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
                    answer = b"".join(iter(lambda: behind.recv(65_536), b""))
                    connection.send(answer)
            return None

        at = serve(function)
        return SimpleNamespace(url=f"http://127.0.0.1:{at.port}", port=at.port, heads=heads, server=at.server)

    return start


ONCE = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", then=closes)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_http_through_a_proxy(serve, proxy, monkeypatch, variable) -> None:
    between = proxy(serve(ONCE).port)
    monkeypatch.setenv(variable, between.url)
    transport = Transport("http://models.test:8080/v1")
    assert post(transport).body == b"ok"
    assert post(transport).body == b"ok"
    assert between.heads[0].split("\r\n")[:2] == [
        "POST http://models.test:8080/v1/chat HTTP/1.1",
        "Host: models.test:8080",
    ]
    assert between.server.n_connections == 1
    transport.close()


def test_https_through_a_tunnel(serve, proxy, certificate, monkeypatch) -> None:
    between = proxy(serve(OK, tls=certificate.context).port)
    monkeypatch.setenv("HTTPS_PROXY", between.url)
    monkeypatch.setenv("SSL_CERT_FILE", certificate.path)
    transport = Transport("https://models.test/v1")
    assert [post(transport, Authorization="Bearer k").body for _ in range(3)] == [b"ok"] * 3
    transport.close()
    (head,) = between.heads  # one tunnel, and nothing of the call is seen in it
    assert head.split("\r\n")[0] == "CONNECT models.test:443 HTTP/1.1"
    assert "Bearer" not in head


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_login_to_a_proxy(serve, proxy, certificate, monkeypatch, scheme) -> None:
    login = base64.b64encode(b"me:p@ss").decode()
    at = serve(OK, tls=certificate.context) if scheme == "https" else serve(ONCE)
    between = proxy(at.port, login=login)
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", between.url.replace("http://", "http://me:p%40ss@"))
    monkeypatch.setenv("SSL_CERT_FILE", certificate.path)
    transport = Transport(f"{scheme}://models.test/v1")
    assert post(transport).body == b"ok"
    transport.close()


@pytest.mark.parametrize(
    ("refuses", "transient", "words"),
    [
        ("407 Proxy Authentication Required", False, "refused a tunnel: HTTP 407; put the login into the proxy's URL"),
        ("403 Forbidden", False, "refused a tunnel: HTTP 403"),
        ("502 Bad Gateway", True, "refused a tunnel: HTTP 502"),
    ],
)
def test_a_proxy_that_refuses(proxy, monkeypatch, refuses, transient, words) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy(1, refuses=refuses).url)
    found = failure(Transport("https://models.test/v1"))
    assert (found.error_type, found.transient, found.unreachable) == ("connection", transient, True)
    assert words in str(found)


def test_a_proxy_that_is_not_there(monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    found = failure(Transport("https://models.test/v1"))
    assert found.unreachable
    assert f"127.0.0.1:{port} can not be reached" in str(found)


def test_a_deadline_holds_while_a_proxy_is_silent(serve, monkeypatch) -> None:
    at = serve(lambda connection: at.server.ended.wait(GUARD))
    monkeypatch.setenv("HTTPS_PROXY", at.url.removesuffix("/v1"))
    assert failure(Transport("https://models.test/v1"), seconds=0.2).error_type == "timeout"


@pytest.mark.parametrize("named", ["models.test", ".test", "*", "other.test, models.test", "models.test:8080"])
def test_hosts_for_which_no_proxy_is_used(proxy, monkeypatch, named) -> None:
    between = proxy(1)
    monkeypatch.setenv("HTTP_PROXY", between.url)
    monkeypatch.setenv("NO_PROXY", named)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    assert failure(Transport("http://models.test:8080/v1")).unreachable
    assert between.heads == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_needs_no_proxy(serve, proxy, monkeypatch, host) -> None:
    at = serve(OK)
    between = proxy(1)
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, between.url)
    transport = Transport(f"http://{host}:{at.port}/v1")
    assert post(transport).body == b"ok"
    assert between.heads == []
    transport.close()


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("https://proxy.test:8443", "of the kind 'https'; only http:// proxies are supported"),
        ("socks5://topsecret@proxy.test", "of the kind 'socks5'"),
        ("http://user:topsecret@proxy.test:port", "no legal address"),
        ("http://", "no legal address"),
    ],
)
def test_a_proxy_of_another_kind_is_refused_with_what_to_do(monkeypatch, named, words) -> None:
    monkeypatch.setenv("HTTPS_PROXY", named)
    with pytest.raises(AdapterError) as caught:
        Transport("https://models.test/v1")
    assert words in str(caught.value)
    assert "mend HTTPS_PROXY, or name models.test in NO_PROXY" in str(caught.value)
    assert "topsecret" not in str(caught.value)
