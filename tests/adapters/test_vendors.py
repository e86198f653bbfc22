"""Anthropic's and Google's APIs end to end: real requests to a server on loopback."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import evalframe
from evalframe.adapters import CallFailed, TaskSpec
from evalframe.adapters.anthropic import from_name as anthropic
from evalframe.adapters.google import from_name as google
from evalframe.adapters.openai import compatible_by_name as compatible
from evalframe.errors import AdapterError

KEY = "secret-key-of-this-test"


@pytest.fixture(params=["anthropic", "google"])
def vendor(request, scripted, monkeypatch):
    """Give one vendor: its name, the model's dict for the server, and how to make the model."""
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    build, header, url = {
        "anthropic": (anthropic, "x-api-key", scripted.url),
        "google": (google, "x-goog-api-key", f"{scripted.root}/v1beta"),
    }[request.param]
    options = {"api_key_env": "GATEWAY_KEY", "base_url": url}
    return SimpleNamespace(name=request.param, build=build, header=header, options=options, server=scripted)


def call(vendor, prompt: str, **generation):
    (model,) = vendor.build("model-x", vendor.options)
    try:
        return model.generate(prompt, TaskSpec("t", "qa", prompt, generation={"max_output_tokens": 50, **generation}))
    finally:
        model.close()


def test_a_call(vendor) -> None:
    vendor.server.script(record=True)
    reply = call(vendor, "17 + 25 =", temperature=0, instructions="Be short.")
    assert any(char.isdigit() for char in reply.text)
    assert reply.finish_reason == "stop"
    assert reply.input_tokens
    assert reply.output_tokens
    assert reply.raw.startswith(b"{")
    (request,) = vendor.server.recorded()
    assert request["prompt"].endswith("17 + 25 =")
    assert request["headers"][vendor.header] == KEY
    assert KEY not in str(request["body"]) + request["path"]


def test_a_reply_that_was_cut_off_and_one_that_was_filtered(vendor) -> None:
    vendor.server.script(
        rules=[
            {"match": "long", "steps": [{"text": "on and on", "finish_reason": "length"}]},
            {"match": "bad", "steps": [{"filter": 200}]},
        ]
    )
    assert call(vendor, "long").finish_reason == "length"
    assert call(vendor, "bad").finish_reason in ("content_filter", "refusal")


def test_reasoning_and_tools(vendor) -> None:
    calls = [{"id": "c1", "name": "add", "arguments": {"x": 1}}]
    vendor.server.script(rules=[{"match": "", "steps": [{"text": "", "reasoning": "Hm.", "tool_calls": calls}]}])
    reply = call(vendor, "add", tools=[{"type": "function", "name": "add"}])
    assert reply.reasoning == "Hm."
    assert [(one["name"], one["arguments"]) for one in reply.tool_calls] == [("add", '{"x":1}')]
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("status", "error_type", "transient"),
    [
        (400, "bad_request", False),
        (401, "unauthorized", False),
        (429, "rate_limited", True),
        (500, "server_error", True),
        (529, "server_error", True),
    ],
)
def test_a_failure_has_the_type_of_its_status(vendor, status, error_type, transient) -> None:
    vendor.server.script(rules=[{"match": "", "steps": [{"status": status, "retry_after": 3}]}])
    with pytest.raises(CallFailed, match=f"HTTP {status}") as raised:
        call(vendor, "x")
    assert (raised.value.error_type, raised.value.transient) == (error_type, transient)
    assert raised.value.status == status
    assert raised.value.retry_after_seconds == 3


def test_a_wrong_key_and_a_wait_in_the_body_of_google(scripted, monkeypatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    server = {"api_key_env": "GATEWAY_KEY", "base_url": f"{scripted.root}/v1beta"}
    (model,) = google("model-x", server)
    wrong = {"code": 400, "message": f"API key {KEY} not valid.", "status": "INVALID_ARGUMENT",
             "details": [{"reason": "API_KEY_INVALID"}]}  # fmt: skip
    spent = {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "12.5s"}]}
    scripted.script(
        rules=[
            {"match": "wrong", "steps": [{"status": 400, "body": {"error": wrong}}]},
            {"match": "spent", "steps": [{"status": 429, "body": {"error": spent}}]},
        ]
    )
    with pytest.raises(CallFailed) as raised:
        model.generate("wrong", TaskSpec("t", "qa", "wrong"))
    assert raised.value.error_type == "unauthorized"
    assert KEY not in str(raised.value)
    with pytest.raises(CallFailed) as raised:
        model.generate("spent", TaskSpec("t", "qa", "spent"))
    assert (raised.value.error_type, raised.value.retry_after_seconds) == ("rate_limited", 12.5)
    model.close()


def test_a_stop_of_blanks_cuts_the_reply_here(scripted, monkeypatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", KEY)
    scripted.script(record=True, rules=[{"match": "", "steps": [{"text": "one\n\ntwo"}]}])
    (model,) = anthropic("model-x", {"api_key_env": "GATEWAY_KEY", "base_url": scripted.url})
    task = TaskSpec("t", "qa", "x", generation={"max_output_tokens": 50, "stop": ["\n\n", "END"]})
    assert model.generate("x", task).text == "one"
    (request,) = scripted.recorded()
    assert request["body"]["stop_sequences"] == ["END"]
    model.close()


def test_the_key_of_a_vendor_goes_to_no_other_server(scripted) -> None:
    for build, variable in ((anthropic, "ANTHROPIC_API_KEY"), (google, "GOOGLE_API_KEY")):
        with pytest.raises(AdapterError, match=rf"{variable} is sent to https://.* only; name the variable"):
            build("model-x", {"base_url": scripted.url})


def test_a_run(vendor) -> None:
    rows = [{"question": f"{i} + {i} =", "answer": str(2 * i)} for i in range(5)]
    run = evalframe.run(
        rows,
        models=[{"model": f"{vendor.name}/model-x", **vendor.options}],
        prompt="{{question}}",
        targets="{{answer}}",
        extract="number",
        metrics=["numeric_match"],
        generation={"max_output_tokens": 20},
        out=False,
        cache=False,
        progress=False,
    )
    assert run.generations["status"].to_list() == ["completed"] * 5
    assert run.generations["model_id"].unique().to_list() == [f"{vendor.name}/model-x"]
    assert run.samples["score"].sum() >= 3  # the server is wrong one time in five


@pytest.mark.parametrize("pasted", ["sk-proj-abc123", "AIzaSyAbc123", "my own-key"])
def test_a_key_in_place_of_the_name_of_its_variable_is_shown_nowhere(pasted: str) -> None:
    with pytest.raises(evalframe.EvalframeError, match="should it be a key") as refused:
        evalframe.run(
            [{"q": "1"}], {"model": "openai-compatible/m@http://127.0.0.1:9/v1", "api_key_env": pasted},
            prompt="{{q}}", targets="{{q}}", metrics=["exact_match"], out=False, progress=False,
        )  # fmt: skip
    assert pasted not in str(refused.value)


def test_what_was_refused_says_which_key_was_sent(scripted, monkeypatch) -> None:
    scripted.script(require_key="right")
    options = {"base_url": scripted.url}
    for key, told in ((None, r"no key was sent; it would be taken from OPENAI_COMPATIBLE_API_KEY"),
                      ("wrong-key-9", r"the key in OPENAI_COMPATIBLE_API_KEY was sent")):  # fmt: skip
        if key is None:
            monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY", raising=False)
        else:
            monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", key)
        (model,) = compatible("m", options)
        with pytest.raises(CallFailed, match=told) as refused:
            model.generate("1 + 1 =", TaskSpec("t", "qa", "1 + 1 ="))
        model.close()
        assert "wrong-key-9" not in str(refused.value)


def test_what_was_not_found_says_what_was_asked_for(scripted) -> None:
    scripted.script(models=["other"])
    (model,) = compatible("m", {"base_url": scripted.root})
    with pytest.raises(CallFailed, match=rf"HTTP 404: .* \(asked for the model 'm' at {scripted.root}\)"):
        model.generate("1 + 1 =", TaskSpec("t", "qa", "1 + 1 ="))
    model.close()


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("temperature", r'"generation": {"temperature": …}'),
        ("max_tokens", r'"generation": {"max_tokens": …}'),
        ("price", r"did you mean 'prices'\?"),
        ("rpm", r"requests_per_minute"),
    ],
)
def test_an_option_in_a_wrong_place_is_told_where_it_belongs(option: str, told: str) -> None:
    with pytest.raises(AdapterError, match=told):
        compatible("m", {"base_url": "http://127.0.0.1:9/v1", option: 1})
