"""``python -m tests.servers.scripted``: a loopback server that speaks six APIs and does what it is told.

Standard library only, one process, one thread: it shares two cores with the client that is measured. It ends when its
standard input does, so that none outlives a test that was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import socket
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from tests.servers.behaviour import Script
from tests.servers.wire import Answer, api_of, default_text, default_usage, filtered, model_of, scored

LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
CLOSE = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)
KEY = re.compile(rb"\r\n(?:authorization:\s*bearer|x-api-key:|x-goog-api-key:)\s*([^\r]*)", re.IGNORECASE)
REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
CONTROL = "/_control/"
RECORDED = 20_000  # requests that are kept at most
FILLER_CHARS = 1 << 20


def _filler() -> str:
    """A long text that hardly compresses, as replies of models do not."""
    return random.Random(0).randbytes(FILLER_CHARS // 2).hex()


class Reply:
    """What goes over the wire, in the parts at which it can be broken off."""

    __slots__ = ("body", "chunked", "close", "headers", "reset", "status", "trickle_body", "trickle_headers")

    def __init__(self, status: int, body: bytes, step: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers
        self.reset = step.get("reset")
        self.trickle_headers = step.get("trickle_headers")
        self.trickle_body = step.get("trickle_body")
        self.close = step.get("close")
        self.chunked = step.get("chunked", False)

    def head(self) -> bytes:
        """Write the status line and the headers."""
        length = "Transfer-Encoding: chunked" if self.chunked else f"Content-Length: {len(self.body)}"
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Other')}", length]
        if not any(name.lower() == "content-type" for name in self.headers):
            lines.append("Content-Type: application/json")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.close is True:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def content(self) -> bytes:
        """Write the body, in two chunks where it is to be chunked."""
        if not self.chunked:
            return self.body
        half = len(self.body) // 2
        parts = [part for part in (self.body[:half], self.body[half:]) if part]
        return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


class Server:
    """The script and the counts; what the connections share."""

    def __init__(self) -> None:
        self.reset()
        self.open_connections = 0
        self.filler = ""

    def reset(self) -> None:
        """Forget the script and the counts."""
        self.script = Script()
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.by_path: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.recorded: list[tuple[Any, ...]] = []
        self.in_flight = self.peak_in_flight = self.connections = 0
        self.window: tuple[int, int] = (0, 0)  # its number, and the requests that it had
        self.generation = getattr(self, "generation", 0) + 1  # replies of requests before a reset are not counted

    def control(self, path: str, body: bytes) -> tuple[int, Any]:
        """Answer a request of the test itself."""
        verb = path.removeprefix(CONTROL)
        if verb == "script":
            try:
                self.script = Script.of(json.loads(body))
            except (ValueError, TypeError, KeyError, re.error) as error:
                return 400, {"error": f"{type(error).__name__}: {error}"}
            self.seen = Counter({key: n for key, n in self.seen.items() if len(key) == 2})
            return 200, {}
        if verb == "reset":
            self.reset()
            return 200, {}
        if verb == "stats":
            return 200, self.stats()
        if verb == "recorded":
            return 200, [_record(*one) for one in self.recorded]
        return 404, {"error": f"no such verb: {verb}"}

    def stats(self) -> dict[str, Any]:
        """Count what was seen and sent."""
        by_prompt: Counter[str] = Counter()
        for key, n in self.seen.items():
            if len(key) == 2:
                by_prompt[key[1]] += n
        return {
            "requests": sum(self.by_path.values()),
            "by_path": self.by_path,
            "by_prompt": by_prompt,
            "sent": self.sent,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
            "connections": self.connections,
            "open_connections": self.open_connections,
            "cpu_seconds": time.process_time(),
        }

    def answer(self, method: str, path: str, head: bytes, raw: bytes, connection: int) -> tuple[float, Reply]:
        """Give the reply to a request and the seconds until it is sent."""
        self.by_path[path] += 1
        api = api_of(path)
        arrived = asyncio.get_running_loop().time()
        prompt = model = ""
        attempt = 0
        script = self.script
        try:
            if api is None or method != "POST":
                return 0.0, self._error(None, 404, f"no route {method} {path}")
            try:
                body = json.loads(raw)
                prompt, model = api.prompt(body), model_of(path, body)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                return 0.0, self._error(api, 400, f"bad request: {type(error).__name__}: {error}")
            if script.rate is not None and (throttled := self._throttled(api, arrived)) is not None:
                return 0.0, throttled
            step, attempt = script.step(prompt, model, path, self.seen)
            if (refused := self._refused(api, head, body, model)) is not None:
                return script.delay(prompt, {}), refused
            return script.delay(prompt, step), self._reply(api, body, prompt, step, head)
        finally:
            if script.record and len(self.recorded) < RECORDED:
                self.recorded.append((method, path, head, raw, prompt, model, attempt, arrived, connection))

    def _throttled(self, api: Any, arrived: float) -> Reply | None:
        assert self.script.rate is not None
        seconds = self.script.rate["seconds"]
        number = int(arrived / seconds)
        self.window = number, self.window[1] + 1 if self.window[0] == number else 1
        if self.window[1] <= self.script.rate["requests"]:
            return None
        until = (number + 1) * seconds - arrived
        body = json.dumps(api.error(429, "too many requests in this window", "rate_limit_exceeded")).encode()
        return Reply(429, body, {}, {"retry-after-ms": f"{until * 1000:.0f}"})

    def _refused(self, api: Any, head: bytes, body: Mapping[str, Any], model: str) -> Reply | None:
        script = self.script
        if script.require_key is not None and _key(head) != script.require_key:
            return self._error(api, 401, f"Incorrect API key provided: {_key(head)}", code="invalid_api_key")
        if script.models is not None and model not in script.models:
            return self._error(api, 404, f"The model '{model}' does not exist", code="model_not_found")
        for name in script.refuse:
            if name in body or name in (body.get("generationConfig") or {}):
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                return self._error(api, 400, message, code="unsupported_parameter")
        return None

    def _error(self, api: Any, status: int, message: str, *, step: Any = None, code: str | None = None) -> Reply:
        wrong = {"error": {"message": message}} if api is None else api.error(status, message, code)
        return Reply(status, json.dumps(wrong).encode(), step or {}, {})

    def _reply(self, api: Any, body: Mapping[str, Any], prompt: str, step: Mapping[str, Any], head: bytes) -> Reply:
        headers = dict(step.get("headers", {}))
        if "retry_after" in step:
            headers["Retry-After"] = str(step["retry_after"])
        if "retry_after_date" in step:
            headers["Retry-After"] = formatdate(time.time() + step["retry_after_date"], usegmt=True)
        status = step.get("status", 200)
        if step.get("filter") == 400:
            written = filtered(api)
            return Reply(200 if "promptFeedback" in written else 400, json.dumps(written).encode(), step, headers)
        if "body" in step:
            given = step["body"]
            text = given if isinstance(given, str) else json.dumps(given)
            return Reply(status, text.replace("{key}", _key(head)).encode(), step, headers)
        if status >= 400:
            message = str(step.get("message", f"scripted {status}")).replace("{key}", _key(head))
            written = api.error(status, message, step.get("code"))
            return Reply(status, json.dumps(written).encode(), step, headers)
        # most requests do not ask for them, and they are the dearest part of a reply
        scoring = not body.keys().isdisjoint({"logprobs", "include", "generationConfig"})
        reply = api.reply(body, self._answered(prompt, step, scoring=scoring))
        written = json.dumps(reply)
        if "{key}" in step.get("text", ""):
            written = written.replace("{key}", json.dumps(_key(head))[1:-1])
        return Reply(status, written.encode(), step, headers)

    def _answered(self, prompt: str, step: Mapping[str, Any], *, scoring: bool) -> Answer:
        logprobs = step.get("logprobs", ...)
        text = step.get("text")
        if text is None and step.get("filter") == 200:
            text = ""
        if text is None and (chars := step.get("text_chars")):
            text = self._long_text(prompt, chars)
        if text is None and logprobs is not ... and logprobs is not None:
            text = "".join(token for token, _ in logprobs)
        if text is None:
            text = "" if step.get("tool_calls") or step.get("refusal") is not None else default_text(prompt)
        if logprobs is ...:
            logprobs = scored(text, prompt) if scoring else None
        usage = step.get("usage", ...)
        return Answer(
            text=text,
            finish_reason="content_filter" if step.get("filter") == 200 else step.get("finish_reason"),
            usage=default_usage(prompt, text) if usage is ... else usage,
            reasoning=step.get("reasoning"),
            reasoning_field=step.get("reasoning_field", "reasoning_content"),
            tool_calls=tuple(step.get("tool_calls") or ()),
            refusal=step.get("refusal"),
            logprobs=None if logprobs is None else tuple((token, value) for token, value in logprobs),
            identity=f"reply-{zlib.crc32(prompt.encode()):08x}",
        )

    def _long_text(self, prompt: str, chars: int) -> str:
        self.filler = self.filler or _filler()
        start = zlib.crc32(prompt.encode()) % (FILLER_CHARS - chars)
        return self.filler[start : start + chars]


def _key(head: bytes) -> str:
    found = KEY.search(head)
    return found[1].decode("latin-1") if found else ""


def _record(
    method: str,
    path: str,
    head: bytes,
    raw: bytes,
    prompt: str,
    model: str,
    attempt: int,
    arrived: float,
    connection: int,
) -> dict[str, Any]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        body = json.loads(raw)
    except ValueError:
        body = raw.decode("latin-1")
    return {
        "method": method, "path": path, "headers": headers, "body": body, "prompt": prompt, "model": model,
        "attempt": attempt, "arrived": arrived, "connection": connection,
    }  # fmt: skip


class Connection(asyncio.Protocol):
    """One connection: requests come one after the other, each has its reply before the next."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = b""
        self.number = 0  # among the connections that made a request of a model
        self.pending: asyncio.TimerHandle | None = None
        self.generation = 0
        self.close_after = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.number:
            self.server.open_connections -= 1
        if self.pending is not None:
            self.pending.cancel()
            self._ended("lost")

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        if self.pending is None:
            self._next()

    def _next(self) -> None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head, start = self.buffer[:end], end + 4
        if found := LENGTH.search(head):
            stop = start + int(found[1])
            if len(self.buffer) < stop:
                return
            body = self.buffer[start:stop]
        elif CHUNKED.search(head):
            last = self.buffer.find(b"0\r\n\r\n", start)
            if last < 0:
                return
            stop, body = last + 5, _unchunked(self.buffer[start:last])
        else:
            stop, body = start, b""
        self.buffer = self.buffer[stop:]
        self._request(head, body)

    def _request(self, head: bytes, body: bytes) -> None:
        method, target = head.split(b" ", 2)[:2]
        path = target.split(b"?", 1)[0].decode("latin-1")
        self.close_after = bool(CLOSE.search(head))
        if path.startswith(CONTROL):
            status, answer = self.server.control(path, body)
            reply = Reply(status, json.dumps(answer).encode(), {}, {})
            self.transport.write(reply.head() + reply.content())
            self.transport.close()
            return
        server = self.server
        if not self.number:
            server.connections += 1
            server.open_connections += 1
            self.number = server.connections
        server.in_flight += 1
        server.peak_in_flight = max(server.peak_in_flight, server.in_flight)
        self.generation = server.generation
        delay, reply = server.answer(method.decode(), path, head, body, self.number)
        loop = asyncio.get_running_loop()
        if delay > 0:
            self.pending = loop.call_later(delay, self._send, reply)
        else:
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.pending = None
        if self.transport.is_closing():
            return
        if reply.reset == "before":
            self._reset()
        elif reply.reset == "hang_up":
            self._ended("hang_up")
            self.transport.close()
        elif reply.reset == "headers":
            self.transport.write(reply.head()[:20])
            self._later(self._reset)
        elif reply.reset == "body":
            self.transport.write(reply.head() + reply.content()[: max(1, len(reply.body) // 2)])
            self._later(self._reset)
        elif reply.trickle_headers or reply.trickle_body:
            head, content = reply.head(), reply.content()
            if not reply.trickle_headers:
                self.transport.write(head)
                head = b""
            self._trickle(head, content, reply, 0)
        else:
            self.transport.write(reply.head() + reply.content())
            self._sent(reply)

    def _later(self, act: Any) -> None:
        """Do something once what was written has had time to go out."""
        self.pending = asyncio.get_running_loop().call_later(0.01, act)

    def _reset(self) -> None:
        self.pending = None
        self._ended("reset")
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST, not FIN
        self.transport.abort()

    def _trickle(self, head: bytes, content: bytes, reply: Reply, sent: int) -> None:
        self.pending = None
        seconds = reply.trickle_headers if sent < len(head) else reply.trickle_body
        whole = head + content
        if not seconds:
            self.transport.write(whole[sent:])
            sent = len(whole)
        else:
            self.transport.write(whole[sent : sent + 1])
            sent += 1
        if sent >= len(whole):
            self._sent(reply)
        else:
            loop = asyncio.get_running_loop()
            self.pending = loop.call_later(seconds or 0.0, self._trickle, head, content, reply, sent)

    def _sent(self, reply: Reply) -> None:
        self._ended(str(reply.status))
        if reply.close or self.close_after:
            self.transport.close()
        elif self.buffer:
            self._next()

    def _ended(self, how: str) -> None:
        if self.generation == self.server.generation:
            self.server.in_flight -= 1
            self.server.sent[how] += 1


def _unchunked(data: bytes) -> bytes:
    whole, place = b"", 0
    while place < len(data):
        line = data.index(b"\r\n", place)
        size = int(data[place:line], 16)
        whole += data[line + 2 : line + 2 + size]
        place = line + 4 + size
    return whole


async def serve(port: int, script: Mapping[str, Any]) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = Server()
    server.script = Script.of(script)
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", port, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    listening.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--port", type=int, default=0, help="0: any that is free; it is the first line that is printed"
    )
    arguments.add_argument("--script", type=json.loads, default={}, help="as JSON, what the control path takes")
    given = arguments.parse_args()
    asyncio.run(serve(given.port, given.script))


if __name__ == "__main__":
    main()
