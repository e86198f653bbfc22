"""Models behind OpenAI's APIs against a real server on loopback: what goes over the wire, and what comes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalframe.adapters import CallFailed, Generation, ModelAdapter, TaskSpec
from evalframe.adapters.openai import COMPATIBLE, OPENAI, compatible_by_name, openai_by_name
from evalframe.adapters.openai.completions import Completions
from evalframe.adapters.openai.embeddings import MOST_TEXTS
from evalframe.adapters.openai.models import OpenAIModel, ScoringModel
from evalframe.errors import AdapterError
from evalframe.registry import ADAPTERS
from tests.servers import ScriptedServer
from tests.servers.wire import default_text, embedding, scored

APIS = ["chat", "responses", "completions"]


Build = Callable[..., OpenAIModel]


@pytest.fixture
def built(scripted: ScriptedServer) -> Iterator[list[OpenAIModel]]:
    """Adapters whose connections are closed after the test."""
    adapters: list[OpenAIModel] = []
    yield adapters
    for adapter in adapters:
        adapter.close()


@pytest.fixture
def model(scripted: ScriptedServer, built: list[OpenAIModel]) -> Build:
    """Build a model on the scripted server from the options of its dict."""

    def build(**options: Any) -> OpenAIModel:
        built.extend(compatible_by_name(f"m@{scripted.url}", options))
        return built[-1]

    return build


@pytest.fixture
def openai_model(scripted: ScriptedServer, built: list[OpenAIModel]) -> Build:
    """Build a model of OpenAI itself, but on loopback."""

    def build(api: str) -> OpenAIModel:
        built.append(
            OpenAIModel(model_id="openai/m", vendor=OPENAI, api=OPENAI.apis[api], model="m", base_url=scripted.url)
        )
        return built[-1]

    return build


def ask(adapter: OpenAIModel, prompt: str = "2 + 2", **settings: Any) -> Generation:
    return adapter.generate(prompt, TaskSpec("t", "qa", prompt, targets=("4",), generation=settings))


@pytest.mark.parametrize("api", APIS)
def test_a_call(model: Build, scripted: ScriptedServer, api: str) -> None:
    found = ask(model(api=api), "Say something.", temperature=0, max_output_tokens=8)
    assert found.text == default_text("Say something.")
    assert found.finish_reason == "stop"
    assert found.input_tokens
    assert found.output_tokens
    assert found.response_id
    assert found.model_version == "m"
    assert default_text("Say something.").encode() in found.raw
    (request,) = scripted.recorded()
    limit = {"responses": "max_output_tokens"}.get(api, "max_tokens")
    asked = {"model": "m", "temperature": 0, limit: 8}
    assert {key: request["body"][key] for key in asked} == asked
    assert set(request["body"]) - set(asked) <= {"messages", "input", "prompt"}
    assert "authorization" not in request["headers"]


@pytest.mark.parametrize("api", APIS)
def test_log_probabilities(model: Build, scripted: ScriptedServer, api: str) -> None:
    scripted.script(default={"text": "four it is", "logprobs": [["four", -0.5], [" it", -0.25], [" is", -0.25]]})
    found = ask(model(api=api, logprobs=True))
    assert (found.token_nll, found.token_count) == (1.0, 3)
    assert ask(model(api=api)).token_nll is None


def test_openai_itself_gets_the_key_and_what_its_api_has(
    openai_model: Build, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-open-sesame")
    settings = {"top_k": 5, "extra_body": {"seed": 1}, "stop": ["\n"], "reasoning": {"effort": "low"}}
    chat, responses = openai_model("chat"), openai_model("responses")
    ask(chat, **settings)
    ask(responses, **settings)
    first, second = scripted.recorded()
    assert first["body"] == {
        "model": "m", "messages": [{"role": "user", "content": "2 + 2"}], "stop": ["\n"], "reasoning_effort": "low",
    }  # fmt: skip
    assert second["body"] == {"model": "m", "input": "2 + 2", "reasoning": {"effort": "low"}}
    assert first["headers"]["authorization"] == second["headers"]["authorization"] == "Bearer sk-open-sesame"
    assert chat.sending(settings).left_out == responses.sending(settings).left_out == ("top_k", "extra_body")
    assert responses.sending(settings).applied_here == ("stop",)


def test_a_stop_that_the_api_lacks_is_applied_here(model: Build, scripted: ScriptedServer) -> None:
    scripted.script(default={"text": "4\nQ: 3 + 3\nA: 6", "finish_reason": "length"})
    found = ask(model(api="responses"), stop=["\nQ:", "A:"])
    assert (found.text, found.finish_reason) == ("4", "stop")


def test_openais_key_goes_to_no_other_server(
    model: Build, built: list[OpenAIModel], scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-open-sesame")
    ask(model())
    assert "authorization" not in scripted.recorded()[0]["headers"]
    for elsewhere in (scripted.url, "http://api.openai.com/v1", "https://api.openai.com.example.org/v1"):
        with pytest.raises(AdapterError, match="write openai-compatible/m@"):
            openai_by_name(f"m@{elsewhere}", {})
    assert openai_by_name("m@https://eu.api.openai.com/v1", {})[0].base_url == "https://eu.api.openai.com/v1"
    monkeypatch.setenv("MY_KEY", "other")
    built += openai_by_name(f"m@{scripted.url}", {"api_key_env": "MY_KEY"})
    ask(built[-1])
    assert scripted.recorded()[1]["headers"]["authorization"] == "Bearer other"


def test_a_compatible_servers_own_key(model: Build, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted.script(require_key="sk-local")
    with pytest.raises(CallFailed) as refused:
        ask(model())
    assert (refused.value.error_type, refused.value.status) == ("unauthorized", 401)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-wrong-but-secret")
    with pytest.raises(CallFailed) as wrong:
        ask(model())  # the server repeats the key in its answer
    assert "sk-wrong-but-secret" not in str(wrong.value)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-local")
    assert ask(model()).text


def test_what_a_reply_may_have(model: Build, scripted: ScriptedServer) -> None:
    calls = [{"name": "add", "arguments": {"x": 2}}]
    scripted.script(
        rules=[
            {"match": "call", "steps": [{"text": "", "tool_calls": calls}]},
            {"match": "refuse", "steps": [{"refusal": "No."}]},
            {"match": "think", "steps": [{"text": "4", "reasoning": "2+2"}]},
            {"match": "filter", "steps": [{"filter": 200}, {"filter": 400}]},
        ]
    )
    for api in ("chat", "responses"):
        adapter = model(api=api)
        called = ask(adapter, "call")
        assert (called.finish_reason, [call["name"] for call in called.tool_calls]) == ("tool_calls", ["add"])
        refused = ask(adapter, "refuse")
        assert (refused.finish_reason, refused.text) == ("refusal", "No.")
        thought = ask(adapter, "think")
        assert (thought.text, thought.reasoning) == ("4", "2+2")
        filtered = [ask(adapter, f"filter {api}") for _ in range(2)]
        assert [(one.text, one.finish_reason) for one in filtered] == [("", "content_filter")] * 2
        assert filtered[1].raw


@pytest.mark.parametrize(
    ("step", "error_type"),
    [
        ({"status": 400, "message": "what"}, "bad_request"),
        ({"status": 404}, "bad_request"),
        ({"status": 500}, "server_error"),
        ({"status": 429, "retry_after": 2}, "rate_limited"),
        ({"body": '{"choices": [{"mess'}, "bad_reply"),
        ({"body": {"error": {"message": "slow", "code": 429}}}, "rate_limited"),
        ({"body": {"choices": []}}, "bad_reply"),
        ({"reset": "body"}, "connection"),
    ],
)
def test_failures_have_a_word(model: Build, scripted: ScriptedServer, step: dict[str, Any], error_type: str) -> None:
    scripted.script(default=step)
    with pytest.raises(CallFailed) as caught:
        ask(model())
    assert caught.value.error_type == error_type


def test_embeddings(model: Build, scripted: ScriptedServer) -> None:
    texts = [f"text {n}" for n in range(MOST_TEXTS + 3)]
    adapter = model()
    found = adapter.embed(texts)
    assert found == [pytest.approx(embedding(text)) for text in texts]
    assert [len(request["body"]["input"]) for request in scripted.recorded()] == [MOST_TEXTS, 3]
    assert {request["path"] for request in scripted.recorded()} == {"/v1/embeddings"}
    assert adapter.embed([]) == []


def test_scores_of_continuations(model: Build, scripted: ScriptedServer) -> None:
    adapter = model(api="completions")
    assert isinstance(adapter, ScoringModel)
    found = adapter.loglikelihood(["2 + 2 ="] * 2, [" 4", " 5"])
    assert [score.n_tokens for score in found] == [1, 1]
    wanted = [dict(scored("2 + 2 =" + own))[own] for own in (" 4", " 5")]
    assert [score.logprob for score in found] == pytest.approx(wanted)
    assert len(scripted.recorded()) == 1  # one request for both
    told, nothing = (score.told for score in found)
    assert told is not None
    assert told.input_tokens
    assert told.output_tokens
    assert b'"logprobs"' in told.raw
    assert nothing is None  # it is told once
    assert adapter.loglikelihood([], []) == []


def test_a_server_that_takes_no_lists_is_asked_one_by_one(model: Build, scripted: ScriptedServer) -> None:
    adapter = model(api="completions")
    # the prompt of a list is its texts in lines
    scripted.script(rules=[{"match": "\n", "steps": [{"status": 400, "message": "prompt must be a string"}]}])
    found = adapter.loglikelihood(["2 + 2 ="] * 2, [" 4", " 5"])
    assert len(found) == 2
    adapter.loglikelihood(["1 + 1 ="] * 2, [" 2", " 3"])
    assert len(scripted.recorded()) == 3 + 2  # it is not tried again


def test_what_is_wrong_with_a_prompt_is_said_even_where_there_are_several(
    model: Build, scripted: ScriptedServer
) -> None:
    scripted.script(default={"status": 400, "message": "the prompt is too long"})
    with pytest.raises(CallFailed, match="the prompt is too long"):
        model(api="completions").loglikelihood(["a"] * 2, [" b", " c"])


def test_a_server_without_echo_says_so(model: Build, scripted: ScriptedServer) -> None:
    scripted.script(default={"body": {"choices": [{"index": 0, "text": " 4", "logprobs": None}]}})
    with pytest.raises(CallFailed, match="ignores echo"):
        model(api="completions").loglikelihood(["2 + 2 ="], [" 4"])


def test_only_legacy_completions_score(model: Build) -> None:
    assert [hasattr(model(api=api), "loglikelihood") for api in APIS] == [False, False, True]


def test_dropped_and_renamed_parameters_of_scores(model: Build, scripted: ScriptedServer) -> None:
    scripted.script(refuse=["temperature", "max_tokens"])
    adapter = model(api="completions", drop=["temperature"], rename={"max_tokens": "max_new"})
    assert adapter.loglikelihood(["2 + 2 ="], [" 4"])  # type: ignore[attr-defined]
    assert scripted.recorded()[0]["body"]["max_new"] == 1


def test_targets_are_never_sent(model: Build, scripted: ScriptedServer) -> None:
    for api in APIS:
        task = TaskSpec("t", "qa", "Say it.", targets=("open sesame",), choices=("sesame", "rice"))
        model(api=api).generate(task.prompt, task)
    assert "sesame" not in repr([request["body"] for request in scripted.recorded()])


def test_names(scripted: ScriptedServer) -> None:
    (default,) = ADAPTERS.get("openai")("gpt-5-mini", {})
    assert (default.model_id, default.api.name, default.endpoint) == (
        "openai/gpt-5-mini", "responses", "https://api.openai.com/v1",
    )  # fmt: skip
    (local,) = ADAPTERS.get("openai-compatible")(f"qwen/qwen3@{scripted.url}/", {})
    assert (local.model_id, local.model, local.api.name) == ("openai-compatible/qwen/qwen3", "qwen/qwen3", "chat")
    assert local.endpoint == scripted.url
    (at,) = compatible_by_name("@cf/meta/llama@https://example.org/v1", {"model_id": "llama"})
    assert (at.model_id, at.model) == ("llama", "@cf/meta/llama")
    (plain,) = compatible_by_name("m", {"base_url": scripted.url, "api": "completions"})
    assert isinstance(plain.api, Completions)
    assert isinstance(plain, ModelAdapter)


@pytest.mark.parametrize(
    ("rest", "options", "words"),
    [
        ("m", {}, "write openai-compatible/m@http"),
        ("m@http://127.0.0.1:1/v1", {"api": "chats"}, "did you mean 'chat'"),
        ("m@http://127.0.0.1:1/v1", {"drops": ["stop"]}, "did you mean 'drop'"),
        ("m@ftp://127.0.0.1/v1", {}, "no http or https URL"),
        ("@http://127.0.0.1:1/v1", {}, "no model is named"),
    ],
)
def test_names_that_are_wrong(rest: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AdapterError, match=words):
        compatible_by_name(rest, options)


def test_a_missing_key_is_said_before_any_call(
    model: Build, monkeypatch: pytest.MonkeyPatch, scripted: ScriptedServer
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY", raising=False)
    with pytest.raises(AdapterError, match="set OPENAI_API_KEY in the environment"):
        openai_by_name("gpt-5-mini", {})[0].check({})
    model().check({})
    assert scripted.recorded() == []


def test_identities_differ_where_answers_may(model: Build) -> None:
    def identity(adapter: OpenAIModel, prompt: str = "Hi", **settings: Any) -> Any:
        return adapter.identity(prompt, TaskSpec("t", "qa", prompt, generation=settings))

    adapter = model()
    found = [
        identity(adapter), identity(adapter, "Ho"), identity(adapter, temperature=0), identity(adapter, stop=["x"]),
        identity(adapter, instructions="x"), identity(adapter, extra_body={"seed": 1}),
        identity(adapter, reasoning={"effort": "low"}), identity(adapter, text={"format": {"type": "json_object"}}),
        identity(model(api="completions")), identity(model(model_version="2")),
        identity(model(drop=["stop"]), stop=["x"]), identity(model(logprobs=True)),
        identity(dataclasses.replace(adapter, vendor=OPENAI)),
    ]  # fmt: skip
    assert len({repr(one) for one in found}) == len(found)
    assert COMPATIBLE.name == found[0]["adapter"]
