"""A model behind an API: one request, one reply, whatever the vendor; why there is none, in the engine's words."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from evalframe.adapters import CallFailed, Generation, Sending, TaskSpec
from evalframe.adapters.api import Api, Vendor
from evalframe.adapters.asking import Asked, stopped, work_out
from evalframe.adapters.secrets import Secret
from evalframe.adapters.transport import Reply, Transport
from evalframe.errors import AdapterError
from evalframe.words import CallError

MESSAGE_CHARS = 500  # of what a server says about a failure
_ERRORS: dict[int, CallError] = {401: "unauthorized", 403: "unauthorized", 408: "timeout", 429: "rate_limited"}
_NO_SUCH = 404
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # json.dumps makes one a call
_SERVER_ERRORS = {409, 500, 502, 503, 504, 529}  # that another attempt may mend


@dataclass(eq=False, repr=False, slots=True, kw_only=True)
class RemoteModel:
    """A model behind an API.

    Attributes:
        model_id: Its name in every frame.
        vendor: Whose.
        api: Which wire format.
        model: Its name at the vendor.
        base_url: Of the server.
        key_variable: A variable of the environment that holds the key; None: the vendor's.
        drop: Settings, by our name or the API's, that are not sent.
        rename: Names of the body to others.
        logprobs: Ask for log-probabilities.
        model_version: What the user says of it.
    """

    model_id: str
    vendor: Vendor
    api: Api
    model: str
    base_url: str
    key_variable: str | None = None
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    logprobs: bool = False
    model_version: str | None = None
    transport: Transport = field(init=False)
    _asked: Asked | None = field(init=False, default=None)
    _login: tuple[Secret, dict[str, str]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.transport = Transport(self.base_url)
        self.base_url = self.transport.base_url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_id!r}, {self.api.name} at {self.base_url})"

    @property
    def endpoint(self) -> str:
        """The server, for limits that all its models share."""
        return self.base_url

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Make one request; raise ``CallFailed`` where it gives no reply."""
        asked = self.asked(task.generation)
        reply = self.send(self.api.path(self.model), self._body(prompt, asked), deadline=task.deadline)
        document, failure = self._document(reply)
        if failure is not None:
            filtered = self.api.filtered(reply.status, document) if document is not None else None
            if filtered is None:
                raise failure
            generation = filtered
        elif isinstance(document, Mapping):
            generation = self.api.read(document)
        else:
            raise CallFailed("bad_reply", f"the reply is JSON, but no object: {_short(document)}")
        return replace(stopped(generation, asked.stop) if asked.stop else generation, raw=reply.body)

    def identity(self, prompt: str, task: TaskSpec) -> dict[str, Any]:
        """Give all that can change the answer: the server and the very body that is sent."""
        asked = self.asked(task.generation)
        return {
            "adapter": self.vendor.name,
            "base_url": self.base_url,
            "api": self.api.name,
            "model": self.model,
            "model_version": self.model_version,
            "applied_here": {"stop": list(asked.stop)} if asked.stop else {},
            "body": self._body(prompt, asked),
        }

    def sending(self, settings: Mapping[str, Any]) -> Sending:
        """Say what becomes of generation settings."""
        asked = self.asked(settings)
        own = {} if asked.instructions is None else {"instructions": asked.instructions}
        return Sending({**own, **asked.fixed}, asked.left_out, ("stop",) if asked.stop else ())

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse to begin without a key, or without a setting that the API demands.

        Raises:
            AdapterError: Names the variable of the environment, or the setting.
        """
        key, variables = self._key(), self._variables()
        if key is None and (self.vendor.needs_key or self.key_variable):
            if self.key_variable and not self.key_variable.isupper():  # it may be the key itself
                raise AdapterError(f"{self.model_id}: no key: api_key_env names no variable of the environment (it is "
                                   "not shown, should it be a key); give the name of the variable")  # fmt: skip
            raise AdapterError(f"{self.model_id}: no key: set {' or '.join(variables)} in the environment")
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise AdapterError(f"{self.model_id}: the key in {' or '.join(variables)} has blanks, line ends or letters "
                               "that no header can have; set it again")  # fmt: skip
        asked = self.asked(settings)
        for name in self.vendor.required:
            if name not in settings or name in asked.left_out:
                raise AdapterError(f"{self.model_id}: this API refuses calls without {name}; give it in generation")

    def with_logprobs(self) -> RemoteModel:
        """Give a model that asks for log-probabilities as well.

        Raises:
            AdapterError: The API has none.
        """
        if not self.api.ask_logprobs():
            raise AdapterError(f"{self.model_id}: the API {self.api.name!r} gives no log-probabilities")
        return replace(self, logprobs=True)

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def send(self, path: str, body: Mapping[str, Any], *, deadline: float | None) -> Reply:
        """Send one body and give what came back, the key blotted out should the server have repeated it."""
        secret, headers = self._credentials()
        data = _dumps(body).encode("utf-8", "replace")
        reply = self.transport.post(path, data, headers=headers, deadline=deadline)
        body_without = secret.blot(reply.body)
        return reply if body_without is reply.body else Reply(reply.status, reply.headers, body_without)

    def ask(self, path: str, body: Mapping[str, Any], *, deadline: float | None) -> Mapping[str, Any]:
        """Send one body and give the answer, which is an object; raise ``CallFailed`` for anything else."""
        return self.opened(self.send(path, body, deadline=deadline))

    def opened(self, reply: Reply) -> Mapping[str, Any]:
        """Give the object that a reply is; raise ``CallFailed`` for anything else."""
        document, failure = self._document(reply)
        if failure is not None:
            raise failure
        if not isinstance(document, Mapping):
            raise CallFailed("bad_reply", f"the reply is JSON, but no object: {_short(document)}")
        return document

    def asked(self, generation: Mapping[str, Any]) -> Asked:
        """Work out what becomes of generation settings; of the same ones only once."""
        known = self._asked
        if known is None or (known.generation is not generation and known.generation != generation):
            known = self._asked = work_out(
                generation, api=self.api, passes_through=self.vendor.passes_through, drop=self.drop,
                rename=self.rename, logprobs=self.logprobs,
            )  # fmt: skip
        return known

    def _body(self, prompt: str, asked: Asked) -> dict[str, Any]:
        return self.api.body(self.model, prompt, instructions=asked.instructions, fixed=asked.fixed)

    def _variables(self) -> tuple[str, ...]:
        return (self.key_variable,) if self.key_variable else self.vendor.key_variables

    def _key(self) -> str | None:
        return next((key for name in self._variables() if (key := os.environ.get(name, "").strip())), None)

    def _credentials(self) -> tuple[Secret, dict[str, str]]:
        """Give the key, by which it is found in replies, and the headers that hold it."""
        if self._login is None:
            key = self._key()
            self._login = Secret(key), {"Content-Type": "application/json", **self.vendor.headers(key)}
        return self._login

    def _document(self, reply: Reply) -> tuple[Any, CallFailed | None]:
        """Read the JSON of a reply; beside it why it is no answer, if it is none."""
        try:
            document = json.loads(reply.body)
        except (ValueError, RecursionError):
            document = None
            if 200 <= reply.status < 300:
                raise CallFailed("bad_reply", f"the reply is no JSON: {_short(reply.body) or 'it is empty'}") from None
        if 200 <= reply.status < 300:
            return document, None
        return document, self._failure(reply, document)

    def _failure(self, reply: Reply, document: Any) -> CallFailed:
        words = self.api.error_words(document) if document is not None else ""
        if 300 <= reply.status < 400:
            words = f"it redirects to {reply.headers.get('location', 'nowhere')}; name that URL in the model's dict"
        # headers may repeat the key too
        message = self._credentials()[0].blot_text(
            f"HTTP {reply.status}: {words or _short(reply.body) or 'no message'}"
        )
        message = message[:MESSAGE_CHARS] + self._what_was_sent(reply.status)
        error_type = _ERRORS.get(reply.status, "server_error" if reply.status >= 500 else "bad_request")
        if reply.status in _SERVER_ERRORS:
            error_type = "server_error"
        if (more := getattr(self.api, "error_type", None)) is not None:
            error_type = more(reply.status, document) or error_type
        hint = _retry_after(reply)
        if hint is None and (more := getattr(self.api, "retry_after", None)) is not None:
            hint = more(document)
        # a quota that is used up does not come back while the run waits
        spent = reply.status == 429 and b"insufficient_quota" in reply.body
        return CallFailed(
            error_type,
            message,
            status=reply.status,
            retry_after_seconds=hint,
            transient=reply.status in (408, 429, *_SERVER_ERRORS) and not spent,
        )

    def _what_was_sent(self, status: int) -> str:
        """Say what of a request may be wrong, where a status puts it down to key or address."""
        if status == _NO_SUCH:
            return f" (asked for the model {self.model!r} at {self.base_url})"
        if status not in (401, 403):
            return ""
        variable = next((name for name in self._variables() if os.environ.get(name, "").strip()), None)
        if variable is None:
            return f" (no key was sent; it would be taken from {' or '.join(self._variables())})"
        return f" (the key in {variable} was sent)"


def _retry_after(reply: Reply) -> float | None:
    """How long the server asks to wait, in seconds; a date counts from the server's own clock where it tells it."""
    if (milliseconds := _number(reply.headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = reply.headers.get("retry-after")
    if value is None or (seconds := _number(value)) is not None:
        return seconds if value is not None else None
    until, now = _date(value), _date(reply.headers.get("date")) or datetime.now(UTC)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _short(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:200] + "…"
