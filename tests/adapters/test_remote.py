"""A model behind an API, whatever the vendor: requests to a real server, and why there is no reply in our words."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.adapters.remote import RemoteModel
from evalframe.errors import AdapterError
from tests.adapters.toy import COMPATIBLE, TOY, Silent, ToyApi
from tests.servers.raw import Connection, RawServer

KEY = "toy-key-0123456789"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "TOY_OTHER_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("TOY_KEY", KEY)


class Answers:
    """A server that gives one answer to all requests; remembers them."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = "200 OK", "", b'{"text": "hello"}'
        self.heads: list[str] = []
        self.bodies: list[Any] = []

    def __call__(self, connection: Connection) -> None:
        while (request := connection.request()) is not None:
            self.heads.append(request[0])
            self.bodies.append(json.loads(request[1]))
            connection.reply(self.body, status=self.status, headers=self.headers)

    def give(self, status: str, body: Any = b"", headers: str = "") -> None:
        self.status, self.headers = status, headers
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def build(answers: Answers) -> Iterator[Callable[..., RemoteModel]]:
    with RawServer(answers) as server:
        built: list[RemoteModel] = []

        def make(*, vendor: Any = TOY, api: Any = None, url: str = server.url, **options: Any) -> RemoteModel:
            model = RemoteModel(
                model_id="toy/m", vendor=vendor, api=api or ToyApi(), model="m", base_url=url, **options
            )  # fmt: skip
            built.append(model)
            return model

        yield make
        for model in built:
            model.close()


def task(prompt: str = "Say hello.", **generation: Any) -> TaskSpec:
    return TaskSpec("t", "qa", prompt, targets=("secret target",), generation=generation)


def call(model: RemoteModel, **generation: Any) -> Generation:
    one = task(**generation)
    return model.generate(one.prompt, one)


def failure(model: RemoteModel) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        call(model)
    return caught.value


# a call


def test_a_call(build, answers) -> None:
    reply = call(build(), temperature=0.5, instructions="Be short.", max_output_tokens=9)
    assert reply.text == "hello"
    assert reply.raw == answers.body
    assert answers.heads[0].startswith("POST /v1/m HTTP/1.1\r\n")
    assert f"\r\nX-Key: {KEY}" in answers.heads[0]
    assert "\r\nContent-Type: application/json" in answers.heads[0]
    assert answers.bodies == [
        {"model": "m", "say": "Say hello.", "system": "Be short.", "temperature": 0.5, "most": 9},
    ]  # fmt: skip


def test_a_text_that_is_no_unicode_is_sent_as_far_as_it_is(build, answers) -> None:
    one = task("caf\u00e9 \U0001f600 \ud800")
    build().generate(one.prompt, one)
    assert answers.bodies[0]["say"] == "caf\u00e9 \U0001f600 ?"


def test_drop_rename_and_what_a_compatible_server_gets_too(build, answers) -> None:
    model = build(vendor=COMPATIBLE, drop=("temperature",), rename={"most": "max_new_tokens"})
    settings = {"temperature": 1, "max_output_tokens": 5, "top_k": 3, "extra_body": {"guided": 1, "stream": True}}
    call(model, **settings)
    assert answers.bodies == [{"model": "m", "say": "Say hello.", "max_new_tokens": 5, "top_k": 3, "guided": 1}]
    sending = model.sending(settings)
    assert sending.sent == {"max_new_tokens": 5, "top_k": 3, "guided": 1}
    assert set(sending.left_out) == {"temperature", "extra_body.stream"}


def test_a_stop_is_applied_here_and_the_raw_reply_stays_whole(build, answers) -> None:
    answers.give("200 OK", {"text": "one\ntwo"})
    model = build()
    reply = call(model, stop=["\n"])
    assert (reply.text, reply.finish_reason) == ("one", "stop")
    assert b"two" in reply.raw
    assert answers.bodies == [{"model": "m", "say": "Say hello."}]
    assert model.sending({"stop": ["\n"]}).applied_here == ("stop",)


def test_log_probabilities_are_asked_for_where_the_api_has_them(build, answers) -> None:
    model = build().with_logprobs()
    call(model, text="short")
    model.close()
    assert answers.bodies[0]["options"] == {"text": "short", "logprobs": True}
    with pytest.raises(AdapterError, match="'toy' gives no log-probabilities"):
        build(api=Silent()).with_logprobs()


def test_settings_that_change_are_worked_out_anew(build, answers) -> None:
    model = build()
    for temperature in (0, 1, 0):
        call(model, temperature=temperature)
    assert [body["temperature"] for body in answers.bodies] == [0, 1, 0]


# what identifies it


def test_the_identity_is_the_server_and_the_very_body(build, answers) -> None:
    model = build(model_version="2026-01")
    one = task(temperature=0.5, stop=["\n"])
    identity = model.identity(one.prompt, one)
    model.generate(one.prompt, one)
    assert identity == {
        "adapter": "toy", "base_url": model.base_url, "api": "toy", "model": "m", "model_version": "2026-01",
        "applied_here": {"stop": ["\n"]}, "body": answers.bodies[0],
    }  # fmt: skip
    assert KEY not in json.dumps(identity)
    assert json.loads(json.dumps(identity)) == identity


@pytest.mark.parametrize(
    "other",
    [
        {"drop": ("temperature",)}, {"rename": {"temperature": "heat"}}, {"model_version": "2"}, {"logprobs": True},
        {"url": "http://127.0.0.1:1/v2"}, {"vendor": COMPATIBLE},
    ],
)  # fmt: skip
def test_what_may_change_the_answer_changes_it(build, other) -> None:
    one = task(temperature=1)
    assert build(**other).identity("p", one) != build().identity("p", one)


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"stop": ["x"]}, {"instructions": "x"}, {"text": "x"}])
def test_so_does_each_setting(build, settings) -> None:
    model = build()
    assert model.identity("p", task(**settings)) != model.identity("p", task())


def test_a_key_and_a_deadline_do_not(build, monkeypatch) -> None:
    before = build().identity("p", task())
    monkeypatch.setenv("TOY_KEY", "another-key-altogether")
    assert build().identity("p", TaskSpec("t", "qa", "p", deadline=9.0)) == before


# whether it can be called


def test_check_makes_no_call(build, answers) -> None:
    build().check({"temperature": 1})
    assert answers.heads == []


def test_without_a_key_the_variables_are_named(build, monkeypatch) -> None:
    monkeypatch.delenv("TOY_KEY")
    with pytest.raises(AdapterError, match="toy/m: no key: set TOY_KEY or TOY_OTHER_KEY in the environment"):
        build().check({})
    build(vendor=COMPATIBLE).check({})  # a server of one's own may need none
    with pytest.raises(AdapterError, match="set GATEWAY_KEY in the environment"):
        build(vendor=COMPATIBLE, key_variable="GATEWAY_KEY").check({})
    monkeypatch.setenv("TOY_OTHER_KEY", KEY)
    build().check({})


@pytest.mark.parametrize("key", ["two words", "caf\u00e9-0123456", "line\r\nX: y", "bell\x07bell"])
def test_a_key_that_no_header_can_have_is_refused_and_not_shown(build, monkeypatch, key) -> None:
    monkeypatch.setenv("TOY_KEY", key)
    with pytest.raises(AdapterError, match="set it again") as caught:
        build().check({})
    assert key not in str(caught.value)


def test_blanks_around_a_key_are_not_sent(build, answers, monkeypatch) -> None:
    monkeypatch.setenv("TOY_KEY", f" {KEY}\n")
    call(build())
    assert f"\r\nX-Key: {KEY}\r\n" in answers.heads[0]


# no reply


@pytest.mark.parametrize(
    ("status", "error_type", "transient"),
    [
        (400, "bad_request", False), (401, "unauthorized", False), (402, "bad_request", False),
        (403, "unauthorized", False), (404, "bad_request", False), (405, "bad_request", False),
        (408, "timeout", True), (409, "server_error", True), (413, "bad_request", False), (422, "bad_request", False),
        (429, "rate_limited", True), (500, "server_error", True), (501, "server_error", False),
        (502, "server_error", True), (503, "server_error", True), (504, "server_error", True),
        (529, "server_error", True), (301, "bad_request", False), (307, "bad_request", False),
    ],
)  # fmt: skip
def test_a_status_has_a_word(build, answers, status, error_type, transient) -> None:
    answers.give(f"{status} Status", {"error": "these are its words"})
    found = failure(build())
    assert (found.error_type, found.transient, found.status) == (error_type, transient, status)
    assert found.retry_after_seconds is None
    if status >= 400:
        said, _, asked = str(found).partition(" (")
        assert said == f"HTTP {status}: these are its words"
        assert bool(asked) == (status in (401, 403, 404))  # what of the request may be wrong


def test_a_redirect_says_where_to(build, answers) -> None:
    answers.give("308 Moved", headers="Location: https://models.test/v1/m\r\n")
    assert "it redirects to https://models.test/v1/m; name that URL" in str(failure(build()))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "HTTP 500: no message"),
        (b"<html>\n <b>Bad   Gateway</b></html>", "HTTP 500: <html> <b>Bad Gateway</b></html>"),
        (b"\xff\xfe", "HTTP 500: \ufffd\ufffd"),
        (b"x" * 10_000, "HTTP 500: " + "x" * 200 + "…"),
        (b'{"error": "' + b"x" * 10_000 + b'"}', "HTTP 500: " + "x" * 490),
        (b"[" * 100_000, "HTTP 500: " + "[" * 200 + "…"),
    ],
)
def test_an_error_without_words_of_the_api(build, answers, body, words) -> None:
    answers.give("500 Error", body)
    assert str(failure(build())) == words


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the reply is no JSON"),
        (b"<html>Welcome</html>", "the reply is no JSON: <html>Welcome</html>"),
        (b'{"text": "hel', "the reply is no JSON"),
        (b"[" * 100_000, "the reply is no JSON"),
        (b'["text"]', "the reply is JSON, but no object: ['text']"),
        (b"null", "no object: None"),
        (b'{"text": 5}', "no text"),
    ],
)
def test_a_reply_of_status_200_that_is_none(build, answers, body, words) -> None:
    answers.give("200 OK", body)
    found = failure(build())
    assert (found.error_type, found.transient) == ("bad_reply", False)
    assert words in str(found)


def test_an_error_of_the_filter_is_a_reply(build, answers) -> None:
    answers.give("400 Bad Request", {"code": "filter"})
    reply = call(build())
    assert (reply.text, reply.finish_reason, reply.raw) == ("", "content_filter", answers.body)


# how long to wait


def date(seconds: float, *, of: datetime | None = None) -> str:
    return format_datetime((of or datetime.now(UTC)) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ("Retry-After: 2\r\n", 2.0),
        ("retry-after: 0.5\r\n", 0.5),
        ("Retry-After: 0\r\n", 0.0),
        ("Retry-After: 86400\r\n", 86_400.0),
        ("retry-after-ms: 1500\r\nRetry-After: 2\r\n", 1.5),
        ("", None),
        ("Retry-After: soon\r\n", None),
        ("Retry-After: -5\r\n", None),
        ("Retry-After: inf\r\n", None),
        ("Retry-After: nan\r\n", None),
        ("Retry-After: Tue, 99 Foo 2026 00:00:00 GMT\r\n", None),
        # a date counts from the server's own clock
        ("Date: Tue, 01 Dec 2026 10:00:00 GMT\r\nRetry-After: Tue, 01 Dec 2026 10:00:03 GMT\r\n", 3.0),
        ("Date: Tue, 01 Dec 2026 10:00:09 GMT\r\nRetry-After: Tue, 01 Dec 2026 10:00:03 GMT\r\n", 0.0),
        ("Date: nonsense\r\nRetry-After: Tue, 01 Dec 2020 10:00:03 GMT\r\n", 0.0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_what_the_server_asks_to_wait(build, answers, headers, seconds, status) -> None:
    answers.give(f"{status} Status", headers=headers)
    assert failure(build()).retry_after_seconds == seconds


def test_a_date_without_the_server_s_own_counts_from_ours(build, answers) -> None:
    answers.give("429 Slow Down", headers=f"Retry-After: {date(100)}\r\n")
    assert 50 < failure(build()).retry_after_seconds <= 101


def test_a_quota_that_is_used_up_does_not_come_back_soon(build, answers) -> None:
    answers.give("429 Too Many Requests", {"error": "You exceeded your quota", "type": "insufficient_quota"})
    found = failure(build())
    assert (found.error_type, found.transient) == ("rate_limited", False)


# secrets


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "500 Error"])
def test_a_key_that_the_server_repeats_is_blotted_out(build, answers, status, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    answers.give(status, {"text": f"your key is {KEY}", "error": f"bad key {KEY}"}, headers=f"X-Key: {KEY}\r\n")
    model = build()
    try:
        reply = call(model)
        shown = f"{reply!r} {reply.raw!r}"
    except CallFailed as error:
        shown = f"{error} {error!r}"
    assert "[key]" in shown
    for text in (shown, repr(model), caplog.text):
        assert KEY not in text


def test_so_is_one_in_the_address_of_a_redirect(build, answers) -> None:
    answers.give("302 Found", headers=f"Location: https://models.test/?key={KEY}\r\n")
    assert KEY not in str(failure(build()))


def test_a_placeholder_for_a_key_is_a_word_like_others(build, answers, monkeypatch) -> None:
    monkeypatch.setenv("TOY_KEY", "EMPTY")
    answers.give("200 OK", {"text": "The set is EMPTY."})
    assert call(build()).text == "The set is EMPTY."


def test_the_endpoint_is_the_server(build) -> None:
    model = build(url="http://127.0.0.1:9/v1/")
    assert model.endpoint == "http://127.0.0.1:9/v1"


def test_a_deadline_reaches_the_socket(build, answers) -> None:
    model = build()
    with pytest.raises(CallFailed) as caught:
        model.generate("p", TaskSpec("t", "qa", "p", deadline=-1.0))
    assert caught.value.error_type == "timeout"
    assert answers.heads == []
