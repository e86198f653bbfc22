"""Inside a worker: the channel to the caller, and ``ctx``, through which foreign functions reach models.

Standard library only, no import of evalframe.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

_REQUEST_CHARS = 16 * 1024 * 1024
# bound now: foreign code may put others in their places
_encode, _decode = json.JSONEncoder(allow_nan=False).encode, json.JSONDecoder().decode


class Channel:
    """Messages to and from the caller; several threads of the foreign code may wait for answers at once."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._writing, self._arrived = threading.Lock(), threading.Condition()
        self._calls: list[Any] = []
        self._answers: dict[int, Any] = {}
        self._reads = False
        self._ended = False

    def send(self, message: list[Any]) -> None:
        self.send_text(_encode(message))

    def send_text(self, text: str) -> None:
        body = text.encode("ascii")
        with self._writing:
            self._sink.write(len(body).to_bytes(4, "big") + body)
            self._sink.flush()

    def call(self) -> Any:
        """Give the next message that is no answer; None when the caller has gone."""
        return self._wait(lambda: self._calls.pop(0) if self._calls else None)

    def answer(self, request: int) -> Any:
        """Give the answer to a request; None when the caller has gone."""
        return self._wait(lambda: self._answers.pop(request, None))

    def _wait(self, found: Callable[[], Any]) -> Any:
        # the first that waits reads for all
        with self._arrived:
            while (message := found()) is None and not self._ended:
                if self._reads:
                    self._arrived.wait()
                    continue
                self._reads = True
                self._arrived.release()
                try:
                    arrived = self._read()
                finally:
                    self._arrived.acquire()
                    self._reads = False
                    self._arrived.notify_all()
                self._keep(arrived)
            return message

    def _read(self) -> Any:
        try:
            head = self._source.read(4)
            body = self._source.read(int.from_bytes(head, "big"))
            return _decode(body.decode("ascii")) if body else None
        except (OSError, ValueError):
            return None

    def _keep(self, message: Any) -> None:
        if message is None:
            self._ended = True
        elif message[0] == "answer":
            self._answers[message[1]] = message[2]
        else:
            self._calls.append(message)


class Context:
    """``ctx``: the way of one call of a foreign function to the models of the run."""

    def __init__(self, channel: Channel, number: int, *, bridged: bool, max_model_calls: int) -> None:
        self._channel, self._number = channel, number
        self._bridged, self._most = bridged, max_model_calls
        self._lock, self._count, self._over = threading.Lock(), 0, False

    def responses_create(
        self, model: str = "auto", input: Any = None, instructions: str | None = None, **generation: Any
    ) -> Any:
        """Ask a model of the run; gives a dict in the shape of an OpenAI Responses reply, with ``output_text``."""
        told = {"model": model, "input": input, "instructions": instructions, **generation}
        return self._ask("responses_create", {name: value for name, value in told.items() if value is not None})

    def embeddings_create(self, model: str = "auto", input: Any = None, **settings: Any) -> Any:
        """Ask for embeddings; gives a dict in the shape of an OpenAI Embeddings reply."""
        told = {"model": model, "input": input, **settings}
        return self._ask("embeddings_create", {name: value for name, value in told.items() if value is not None})

    def _ask(self, kind: str, told: dict[str, Any]) -> Any:
        if "input" not in told:
            raise TypeError(f"ctx.{kind}: 'input' is missing")
        if not self._bridged:
            raise RuntimeError(f"ctx.{kind}: no model can be called here, as nothing gives access to one")
        with self._lock:
            if self._over:
                raise RuntimeError(f"ctx.{kind}: the call that ctx was given to is over")
            if self._count >= self._most:
                raise RuntimeError(f"ctx.{kind}: over {self._most} model calls in one call (max_model_calls)")
            self._count += 1
            request = self._number * 1_000_000 + self._count
        text = _encode(["ask", self._number, request, kind, told])
        if len(text) > _REQUEST_CHARS:
            raise RuntimeError(f"ctx.{kind}: a request of {len(text)} bytes is over {_REQUEST_CHARS}")
        self._channel.send_text(text)
        answer = self._channel.answer(request)
        if answer is None:
            raise RuntimeError(f"ctx.{kind}: the run has ended")
        if "error" in answer:
            raise RuntimeError(f"ctx.{kind}: {answer['error']}")
        return answer["reply"]

    def _end(self) -> None:
        with self._lock:
            self._over = True
