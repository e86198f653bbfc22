"""The scripted server itself, by plain ``http.client``: what it says is what tests of models rely on."""

from __future__ import annotations

import email.utils
import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.servers import ScriptedServer
from tests.servers.behaviour import FAULTS, Share
from tests.servers.wire import default_text, embedding

Reply = tuple[int, dict[str, str], Any]


def ask(server: ScriptedServer, path: str, body: Any, *, connection: Any = None, **headers: str) -> Reply:
    """Make one request; the body of the reply is JSON, or bytes where it is none."""
    own = connection or http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        own.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)
        reply = own.getresponse()
        raw = reply.read()
    finally:
        if connection is None:
            own.close()
    try:
        document = json.loads(raw)
    except ValueError:
        document = raw
    return reply.status, {name.lower(): value for name, value in reply.headers.items()}, document


def chat(server: ScriptedServer, prompt: str, *, connection: Any = None, model: str = "m", **body: Any) -> Reply:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": prompt}]
    return ask(server, "/v1/chat/completions", {"model": model, "messages": messages, **body}, connection=connection)


def text_of(reply: Reply) -> str:
    text: str = reply[2]["choices"][0]["message"]["content"]
    return text


def test_a_sum_is_right_four_times_in_five_and_any_other_reply_depends_on_the_prompt_alone(scripted) -> None:
    wrong = sum(default_text(f"What is {a} + {b}?") != str(a + b) for a in range(40) for b in range(25))
    assert 150 <= wrong <= 250
    assert default_text("1 + 1? 2. And -7 + 9?") in {"2", "3"}
    assert text_of(chat(scripted, "What is 20 + 22?")) == default_text("20 + 22")
    first, again, other = (text_of(chat(scripted, prompt)) for prompt in ("Hello", "Hello", "Hallo"))
    assert first == again != other


def test_chat_completions(scripted) -> None:
    status, headers, reply = chat(scripted, "2 + 2 and so", logprobs=True, top_logprobs=2)
    assert (status, headers["content-type"]) == (200, "application/json")
    choice = reply["choices"][0]
    assert (choice["message"]["role"], choice["finish_reason"], reply["model"]) == ("assistant", "stop", "m")
    assert reply["usage"] == {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}
    (token,) = choice["logprobs"]["content"]
    assert token["token"] == choice["message"]["content"]
    assert token["logprob"] <= 0
    assert [one["token"] for one in token["top_logprobs"]] == [token["token"], "~1"]
    assert chat(scripted, "2 + 2")[2]["choices"][0]["logprobs"] is None  # not asked for


def test_responses(scripted) -> None:
    scripted.script(rules=[{"match": "think", "steps": [{"text": "so", "reasoning": "hm", "finish_reason": "length"}]}])
    reply = ask(scripted, "/v1/responses", {"model": "m", "input": "3 + 4"})[2]
    assert reply["output"][0]["content"][0]["text"] == default_text("3 + 4")
    assert reply["status"] == "completed"
    turns = [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "input_text", "text": "think"}]}]
    reply = ask(scripted, "/v1/responses", {"model": "m", "input": turns, "include": ["message.output_text.logprobs"]})[
        2
    ]
    assert [item["type"] for item in reply["output"]] == ["reasoning", "message"]
    assert reply["output"][1]["content"][0]["logprobs"][0]["token"] == "so"
    assert (reply["status"], reply["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert set(reply["usage"]) == {"input_tokens", "output_tokens", "total_tokens"}


def test_completions_echo_the_prompt_with_its_log_probabilities(scripted) -> None:
    prompts = ["3 + 4 = 7", "3 + 4 = 9"]
    body = {"model": "m", "prompt": prompts, "echo": True, "max_tokens": 0, "logprobs": 1}
    choices = ask(scripted, "/v1/completions", body)[2]["choices"]
    assert [choice["text"] for choice in choices] == prompts
    right, wrong = (choice["logprobs"] for choice in choices)
    assert right["tokens"] == ["3", " +", " 4", " =", " 7"]
    assert right["text_offset"] == [0, 1, 3, 5, 7]
    assert right["token_logprobs"][0] is None
    assert right["token_logprobs"][-1] > wrong["token_logprobs"][-1]
    reply = ask(scripted, "/v1/completions", {"model": "m", "prompt": "3 + 4 ="})[2]
    assert reply["choices"][0]["text"] == default_text("3 + 4")


def test_embeddings_of_texts_with_common_words_are_near(scripted) -> None:
    texts = ["the cat sat", "the cat sat down", "quarks"]
    data = ask(scripted, "/v1/embeddings", {"model": "e", "input": texts})[2]["data"]
    assert [one["index"] for one in data] == [0, 1, 2]
    a, b, c = (one["embedding"] for one in data)
    assert a == embedding("the cat sat")
    assert sum(x * y for x, y in zip(a, b, strict=True)) > sum(x * y for x, y in zip(a, c, strict=True))
    assert sum(x * x for x in a) == pytest.approx(1.0)


def test_anthropic_and_google_speak_their_own(scripted) -> None:
    step = {
        "text": "B", "reasoning": "hm",
        "usage": {"input_tokens": 10, "output_tokens": 7, "cached_tokens": 4, "reasoning_tokens": 5},
    }  # fmt: skip
    scripted.script(default=step)
    turns = [{"role": "user", "content": "A or B?"}]
    reply = ask(scripted, "/v1/messages", {"model": "claude", "max_tokens": 9, "messages": turns})[2]
    assert [part["type"] for part in reply["content"]] == ["thinking", "text"]
    assert reply["stop_reason"] == "end_turn"
    assert (reply["usage"]["input_tokens"], reply["usage"]["cache_read_input_tokens"]) == (6, 4)
    turns = [{"role": "user", "parts": [{"text": "A or "}, {"text": "B?"}]}]
    reply = ask(scripted, "/v1beta/models/gemini:generateContent", {"contents": turns})[2]
    thought, said = reply["candidates"][0]["content"]["parts"]
    assert thought["thought"]
    assert said == {"text": "B"}
    told = reply["usageMetadata"]
    assert (told["candidatesTokenCount"], told["thoughtsTokenCount"], told["totalTokenCount"]) == (2, 5, 17)
    assert scripted.stats()["by_prompt"] == {"A or B?": 2}
    assert [one["model"] for one in scripted.recorded()] == ["claude", "gemini"]


def test_tool_calls_refusals_and_filters(scripted) -> None:
    call = {"name": "add", "arguments": {"a": 1}}
    scripted.script(
        rules=[
            {"match": "tool", "steps": [{"tool_calls": [call]}]},
            {"match": "bad", "steps": [{"refusal": "I will not"}]},
            {"match": "filtered", "steps": [{"filter": 200}, {"filter": 400}]},
        ]
    )
    choice = chat(scripted, "use a tool")[2]["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    message = chat(scripted, "do bad")[2]["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "I will not")
    assert chat(scripted, "filtered")[2]["choices"][0]["finish_reason"] == "content_filter"
    status, _, reply = chat(scripted, "filtered")
    assert (status, reply["error"]["code"]) == (400, "content_filter")
    used = ask(scripted, "/v1/messages", {"model": "c", "messages": [{"role": "user", "content": "tool"}]})[2]
    assert (used["stop_reason"], used["content"][0]["input"]) == ("tool_use", {"a": 1})


def test_the_nth_request_of_a_prompt_gets_the_nth_step(scripted) -> None:
    steps = [{"status": 429, "retry_after": 2}, {"status": 500, "message": "boom"}, {"text": "fine"}]
    scripted.script(rules=[{"match": "^7", "model": "^m$", "steps": steps}])
    status, headers, reply = chat(scripted, "7 + 1")
    assert (status, headers["retry-after"], reply["error"]["type"]) == (429, "2", "rate_limit_error")
    assert chat(scripted, "7 + 2")[0] == 429  # another prompt has a count of its own
    assert chat(scripted, "7 + 1", model="other")[0] == 200
    status, _, reply = chat(scripted, "7 + 1")
    assert (status, reply["error"]["message"]) == (500, "boom")
    assert [text_of(chat(scripted, "7 + 1")) for _ in range(2)] == ["fine", "fine"]
    stats = scripted.stats()
    assert stats["by_prompt"] == {"7 + 1": 5, "7 + 2": 1}
    assert stats["sent"] == {"429": 2, "500": 1, "200": 3}
    assert [one["attempt"] for one in scripted.recorded() if one["prompt"] == "7 + 1"] == [1, 1, 2, 3, 4]


def test_after_the_last_step_may_come_the_default(scripted) -> None:
    scripted.script(rules=[{"match": "x", "steps": [{"status": 503}], "then": "default"}], default={"text": "d"})
    assert [chat(scripted, "x")[0] for _ in range(3)] == [503, 200, 200]
    assert text_of(chat(scripted, "x")) == "d"


def test_errors_have_the_shape_of_the_api(scripted) -> None:
    scripted.script(default={"status": 529, "message": "too busy"})
    reply = ask(scripted, "/v1/messages", {"model": "c", "messages": []})[2]
    assert reply["error"] == {"type": "overloaded_error", "message": "too busy"}
    reply = ask(scripted, "/v1beta/models/g:generateContent", {"contents": []})[2]
    assert (reply["error"]["code"], reply["error"]["message"]) == (529, "too busy")
    assert ask(scripted, "/v1/nothing", {})[0] == 404
    assert ask(scripted, "/v1/responses", b"{no json")[0] == 400


def test_a_retry_after_may_be_a_date(scripted) -> None:
    scripted.script(default={"status": 429, "retry_after_date": 100})
    hint = email.utils.parsedate_to_datetime(chat(scripted, "x")[1]["retry-after"]).timestamp()
    assert 90 < hint - time.time() < 110


@pytest.mark.parametrize(
    ("reset", "error"),
    [
        ("before", ConnectionResetError), ("hang_up", http.client.RemoteDisconnected),
        ("headers", ConnectionResetError), ("body", (ConnectionResetError, http.client.IncompleteRead)),
    ],
)  # fmt: skip
def test_a_connection_can_break_anywhere(scripted, reset: str, error: Any) -> None:
    scripted.script(default={"reset": reset})
    with pytest.raises(error):
        chat(scripted, "x")
    assert scripted.stats()["sent"] == {"hang_up" if reset == "hang_up" else "reset": 1}


@pytest.mark.parametrize("where", ["trickle_headers", "trickle_body"])
def test_bytes_may_come_one_by_one(scripted, where: str) -> None:
    scripted.script(default={where: 0.0001, "body": "{}"})
    assert chat(scripted, "x")[2] == {}
    scripted.script(default={where: 3600, "body": "{}"})
    connection = http.client.HTTPConnection("127.0.0.1", scripted.port, timeout=0.2)
    with pytest.raises(TimeoutError):
        chat(scripted, "x", connection=connection)
    connection.close()
    until = time.monotonic() + 30
    while scripted.stats()["in_flight"]:
        assert time.monotonic() < until
    assert scripted.stats()["sent"] == {"200": 1, "lost": 1}


def test_replies_may_be_chunked_and_connections_kept_or_closed(scripted) -> None:
    scripted.script(
        rules=[{"match": "chunks", "steps": [{"chunked": True}]}, {"match": "close", "steps": [{"close": True}]}]
    )
    connection = http.client.HTTPConnection("127.0.0.1", scripted.port, timeout=30)
    replies = [chat(scripted, prompt, connection=connection) for prompt in ("plain", "chunks", "close", "after")]
    connection.close()
    assert [text_of(reply) for reply in replies] == [default_text(p) for p in ("plain", "chunks", "close", "after")]
    assert "content-length" not in replies[1][1]
    assert replies[2][1]["connection"] == "close"
    assert scripted.stats()["connections"] == 2
    assert [one["connection"] for one in scripted.recorded()] == [1, 1, 1, 2]


def test_a_body_may_be_anything(scripted) -> None:
    scripted.script(rules=[{"match": "", "steps": [{"body": "<html>"}, {"body": [1]}, {"body": {}, "status": 302}]}])
    replies = [chat(scripted, "x") for _ in range(3)]
    assert [reply[2] for reply in replies] == [b"<html>", [1], {}]
    assert replies[2][0] == 302


def test_a_wrong_key_is_refused_and_told_back_and_headers_are_kept(scripted) -> None:
    scripted.script(require_key="right", models=["m"], refuse=["stop"])
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    path = "/v1/chat/completions"
    status, _, reply = ask(scripted, path, body, Authorization="Bearer wrong")
    assert (status, reply["error"]["message"]) == (401, "Incorrect API key provided: wrong")
    assert ask(scripted, path, body, Authorization="Bearer right")[0] == 200
    assert ask(scripted, "/v1/messages", body, **{"x-api-key": "right"})[0] == 200
    assert ask(scripted, path, {**body, "model": "n"}, Authorization="Bearer right")[0] == 404
    status, _, reply = ask(scripted, path, {**body, "stop": ["x"]}, Authorization="Bearer right")
    assert (status, reply["error"]["code"]) == (400, "unsupported_parameter")
    assert scripted.recorded()[0]["headers"]["authorization"] == "Bearer wrong"


def test_a_share_of_faults_is_a_function_of_prompt_and_attempt(scripted) -> None:
    share = Share(share=0.3, kinds=("429", "500", "empty"), seed=7)
    scripted.script(faults={"share": 0.3, "kinds": ["429", "500", "empty"], "seed": 7})
    prompts = [f"question {i}" for i in range(200)]
    connection = http.client.HTTPConnection("127.0.0.1", scripted.port, timeout=30)
    drawn = []
    for prompt in prompts:
        for attempt in (1, 2):
            fault = share.fault(prompt, attempt, "m")
            drawn.append(fault)
            status, _, reply = chat(scripted, prompt, connection=connection)
            assert status == FAULTS[fault].get("status", 200) if fault else status == 200
            assert fault != "empty" or text_of((status, {}, reply)) == ""
    connection.close()
    faulty = [fault for fault in drawn if fault]
    assert 80 <= len(faulty) <= 160
    assert min(faulty.count(kind) for kind in share.kinds) >= 20


def test_requests_in_flight_are_counted_and_latencies_drawn_from_the_prompt(scripted) -> None:
    scripted.script(latency_seconds=0.3)
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda i: chat(scripted, f"p{i}"), range(8)))) == 8
    stats = scripted.stats()
    assert (stats["peak_in_flight"], stats["in_flight"], stats["connections"]) == (8, 0, 8)
    from tests.servers.behaviour import Script

    script = Script.of({"lognormal": {"median_seconds": 1.0, "sigma": 0.5}})
    delays = sorted(script.delay(f"p{i}", {}) for i in range(501))
    assert 0.8 < delays[250] < 1.25
    assert script.delay("p1", {}) == script.delay("p1", {}) != script.delay("p2", {})


def test_a_rate_is_kept_by_windows_of_time(scripted) -> None:
    scripted.script(rate={"requests": 3, "seconds": 3600})
    replies = [chat(scripted, f"p{i}") for i in range(5)]
    assert [status for status, _, _ in replies].count(429) >= 1  # a window may have ended in between
    assert 0 < int(replies[-1][1]["retry-after-ms"]) <= 3_600_000
    assert scripted.stats()["sent"]["200"] >= 3


def test_long_texts_hardly_compress_and_depend_on_the_prompt(scripted) -> None:
    import zlib

    scripted.script(default={"text_chars": 20_000})
    a, again, b = (text_of(chat(scripted, prompt)) for prompt in ("a", "a", "b"))
    assert len(a) == 20_000
    assert a == again != b
    assert len(zlib.compress(a.encode())) > 10_000


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"latency": 1}, "latency: there are"), ({"rules": [{"steps": []}]}, "a step at least"),
        ({"rules": [{"steps": [{"txt": ""}]}]}, "txt"), ({"faults": {"share": 1, "kinds": ["eaten"]}}, "eaten"),
        ({"rules": [{"match": "(", "steps": [{}]}]}, "error"),
    ],
)  # fmt: skip
def test_a_script_with_a_slip_is_refused(scripted, script: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scripted.script(**script)


def test_reset_forgets_and_the_process_ends_with_its_input(scripted) -> None:
    scripted.script(default={"status": 500})
    assert chat(scripted, "x")[0] == 500
    scripted.reset()
    assert scripted.stats()["requests"] == 0
    assert scripted.recorded() == []
    assert chat(scripted, "x")[0] == 200
    with ScriptedServer(default={"text": "own"}) as own:
        assert text_of(chat(own, "x")) == "own"
    assert own.process.returncode == 0
