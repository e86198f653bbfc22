"""Google's generateContent API: the body of a request, and what its replies and errors say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.asking import work_out
from evalframe.adapters.google import GOOGLE, from_name
from evalframe.adapters.google.generate_content import GenerateContent
from evalframe.errors import AdapterError
from evalframe.manifest.generation import GenerationSettings, parse_generation

API = GenerateContent()
ADD = {"type": "object", "properties": {"x": {"type": "integer"}}}
PROMPT = {"contents": [{"role": "user", "parts": [{"text": "1 + 1 ="}]}]}


def body(settings: dict, **options) -> dict:
    """Give what is sent for settings as a user writes them."""
    asked = work_out(parse_generation(settings).sent(), api=API, passes_through=False, **options)
    return API.body("gemini-x", "1 + 1 =", instructions=asked.instructions, fixed=asked.fixed)


def config(settings: dict, **options) -> dict:
    return body(settings, **options).get("generationConfig", {})


def left_out(settings: dict) -> tuple[str, ...]:
    return API.left_out(parse_generation(settings).sent())


def document(*parts: dict, **candidate) -> dict:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": list(parts or [{"text": "2"}])}, "finishReason": "STOP", **candidate}
        ],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 4, "totalTokenCount": 11},
        "modelVersion": "gemini-x-001",
        "responseId": "r1",
    }


def test_a_bare_prompt_is_sent_bare() -> None:
    assert body({}) == PROMPT


def test_settings_have_the_names_of_the_api() -> None:
    given = {
        "temperature": 0, "top_p": 0.9, "top_k": 5, "max_output_tokens": 64, "stop": ["a", "\n"],
        "presence_penalty": 1, "frequency_penalty": -1,
    }  # fmt: skip
    assert body({"instructions": "Be short.", "service_tier": "flex", **given}) == {
        **PROMPT,
        "systemInstruction": {"parts": [{"text": "Be short."}]},
        "serviceTier": "flex",
        "generationConfig": {
            "temperature": 0, "topP": 0.9, "topK": 5, "maxOutputTokens": 64, "stopSequences": ["a", "\n"],
            "presencePenalty": 1, "frequencyPenalty": -1,
        },
    }  # fmt: skip


def test_log_probabilities_are_asked_for_beside_the_settings() -> None:
    assert config({"temperature": 0}, logprobs=True) == {"temperature": 0, "responseLogprobs": True}


def test_a_key_of_the_api_can_be_dropped() -> None:
    assert config({"temperature": 0, "top_k": 3}, drop=("topK",)) == {"temperature": 0}


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-x", "/models/gemini-x:generateContent"),
        ("models/gemini-x", "/models/gemini-x:generateContent"),
        ("tunedModels/mine-1", "/tunedModels/mine-1:generateContent"),
        ("a b?c", "/models/a%20b%3Fc:generateContent"),
    ],
)
def test_the_model_is_in_the_path(model, path) -> None:
    assert API.path(model) == path


def test_functions_are_declared_together_and_other_tools_stay() -> None:
    tools = [
        {"type": "function", "name": "add", "description": "Adds.", "parameters": ADD, "strict": True},
        {"google_search": {}},
        {"type": "function", "function": {"name": "now"}},
    ]
    assert body({"tools": tools})["tools"] == [
        {
            "functionDeclarations": [
                {"name": "add", "description": "Adds.", "parametersJsonSchema": ADD},
                {"name": "now"},
            ]
        },
        {"google_search": {}},
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "name": "add"}, {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        ({"functionCallingConfig": {"mode": "VALIDATED"}}, {"mode": "VALIDATED"}),
        ({"mode": "VALIDATED"}, {"mode": "VALIDATED"}),
    ],
)
def test_the_choice_of_a_tool(choice, expected) -> None:
    sent = body({"tools": [{"type": "function", "name": "add"}], "tool_choice": choice})
    assert sent["toolConfig"] == {"functionCallingConfig": expected}
    assert "generationConfig" not in sent


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        ({"effort": "low"}, {"thinkingLevel": "LOW"}),
        ({"effort": "none"}, {"thinkingBudget": 0}),
        ({"budget_tokens": 512}, {"thinkingBudget": 512}),
        ({"max_tokens": 512, "summary": "auto"}, {"thinkingBudget": 512, "includeThoughts": True}),
        ({"thinkingLevel": "HIGH", "includeThoughts": False}, {"thinkingLevel": "HIGH", "includeThoughts": False}),
        ({"effort": "max"}, None),
    ],
)
def test_reasoning_is_an_effort_or_a_budget(reasoning, thinking) -> None:
    assert config({"reasoning": reasoning}).get("thinkingConfig") == thinking


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "text"}, {}),
        ({"type": "json_object"}, {"responseMimeType": "application/json"}),
        (
            {"type": "json_schema", "name": "n", "schema": ADD},
            {"responseMimeType": "application/json", "responseJsonSchema": ADD},
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": ADD}},
            {"responseMimeType": "application/json", "responseJsonSchema": ADD},
        ),
    ],
)
def test_the_form_of_the_reply(form, expected) -> None:
    assert config({"text": {"format": form}}) == expected


def test_what_the_api_lacks_is_named() -> None:
    given = {"reasoning": {"effort": "max", "odd": 1}, "service_tier": "auto", "text": {"verbosity": "low"}}
    assert left_out(given) == ("reasoning.effort", "reasoning.odd", "text.verbosity", "service_tier")
    assert left_out({"text": {"format": {"type": "grammar"}}}) == ("text.format",)
    asked = work_out({"parallel_tool_calls": False, "min_p": 0.1}, api=API, passes_through=False)
    assert asked.left_out == ("parallel_tool_calls", "min_p")


def test_every_setting_that_it_has_is_sent() -> None:
    values = {
        "temperature": 1, "top_p": 1, "top_k": 1, "max_output_tokens": 1, "stop": ["x"], "tools": [{"a": {}}],
        "presence_penalty": 0, "frequency_penalty": 0, "tool_choice": "auto", "reasoning": {"effort": "low"},
        "service_tier": "default", "text": {"format": {"type": "json_object"}},
    }  # fmt: skip
    assert API.has <= set(GenerationSettings.model_fields)
    assert set(values) == API.has - {"instructions"}
    for name, value in values.items():
        assert API.fixed({name: value}), name


def test_a_reply() -> None:
    assert API.read(document()) == Generation(
        text="2", finish_reason="stop", input_tokens=7, output_tokens=4, response_id="r1", model_version="gemini-x-001"
    )


def test_text_thoughts_and_tools_are_told_apart() -> None:
    reply = API.read(
        document(
            {"text": "One and one.", "thought": True},
            {"text": "I ", "thoughtSignature": "s"},
            {"text": "add."},
            {"functionCall": {"name": "add", "args": {"x": 1}}},
            {"functionCall": {"id": "c2", "name": "now"}},
        )
    )
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("I add.", "One and one.", "tool_calls")
    assert reply.tool_calls == [
        {"id": None, "name": "add", "arguments": '{"x":1}'},
        {"id": "c2", "name": "now", "arguments": "{}"},
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("SPII", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),  # the engine says so
    ],
)
def test_why_a_reply_ended(reason, finish) -> None:
    assert API.read(document(finishReason=reason)).finish_reason == finish
    reply = API.read({"candidates": [{"finishReason": reason}]})  # a candidate may have no content
    assert (reply.text, reply.finish_reason) == ("", finish)


def test_a_blocked_prompt_is_a_reply_without_text() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []},
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        "modelVersion": "gemini-x-001",
    }
    assert API.read(blocked) == Generation(
        text="", finish_reason="content_filter", input_tokens=9, output_tokens=0, model_version="gemini-x-001"
    )


def test_thoughts_are_output_and_tool_results_are_input() -> None:
    usage = {
        "promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 40,
        "cachedContentTokenCount": 8, "totalTokenCount": 58,
    }  # fmt: skip
    reply = API.read({**document(), "usageMetadata": usage})
    assert (reply.input_tokens, reply.output_tokens) == (15, 43)
    assert (reply.cached_tokens, reply.reasoning_tokens) == (8, 40)
    bare = API.read({"candidates": [{}]})
    assert (bare.input_tokens, bare.output_tokens, bare.cached_tokens) == (None, None, None)


def test_log_probabilities_one_by_one() -> None:
    chosen = [{"token": "2", "logProbability": -0.25}, {"token": ".", "logProbability": -0.5}]
    reply = API.read(document(avgLogprobs=-9.0, logprobsResult={"chosenCandidates": chosen}))
    assert (reply.token_nll, reply.token_count) == (0.75, 2)
    gap = API.read(document(avgLogprobs=-9.0, logprobsResult={"chosenCandidates": [*chosen, {"token": "x"}]}))
    assert (gap.token_nll, gap.token_count) == (None, None)


def test_the_average_log_probability_counts_where_the_tokens_are_known() -> None:
    reply = API.read(document(avgLogprobs=-0.5))
    assert (reply.token_nll, reply.token_count) == (2.0, 4)
    own = API.read(document(avgLogprobs=-0.5, tokenCount=3))
    assert (own.token_nll, own.token_count) == (1.5, 3)
    unknown = API.read({"candidates": [{"avgLogprobs": -0.5}]})
    assert (unknown.token_nll, unknown.token_count) == (None, None)
    certain = API.read(document(avgLogprobs=0.0))
    assert str(certain.token_nll) == "0.0"


def error(code: int, status: str, words: str = "so it is", **detail) -> dict:
    details = [{"@type": "type.googleapis.com/google.rpc.Help"}, detail]
    return {"error": {"code": code, "message": words, "status": status, "details": details}}


@pytest.mark.parametrize(
    ("given", "error_type"),
    [
        (error(400, "INVALID_ARGUMENT", reason="API_KEY_INVALID"), "unauthorized"),
        (error(400, "INVALID_ARGUMENT"), None),
        (error(403, "PERMISSION_DENIED"), "unauthorized"),
        (error(429, "RESOURCE_EXHAUSTED"), "rate_limited"),
        (error(503, "UNAVAILABLE"), "server_error"),
    ],
)
def test_errors_have_a_type_and_words(given, error_type) -> None:
    for shape in (given, [given]):
        assert API.error_type(given["error"]["code"], shape) == error_type
        assert API.error_words(shape) == "so it is"
    with pytest.raises(CallFailed, match="so it is"):
        API.read(given)


@pytest.mark.parametrize(("delay", "seconds"), [("34.5s", 34.5), ("7s", 7.0), ("soon", None), (None, None)])
def test_the_wait_that_an_error_asks_for(delay, seconds) -> None:
    assert API.retry_after(error(429, "RESOURCE_EXHAUSTED", retryDelay=delay)) == seconds
    assert API.retry_after(None) is None


def test_what_is_no_reply_says_so() -> None:
    for empty in ({}, {"candidates": []}, {"candidates": "2"}):
        with pytest.raises(CallFailed, match="no candidate") as raised:
            API.read(empty)
        assert raised.value.error_type == "bad_reply"


KEYS = [
    "candidates", "content", "parts", "text", "thought", "finishReason", "usageMetadata", "promptTokenCount", "error",
    "promptFeedback", "blockReason", "logprobsResult", "chosenCandidates", "functionCall", "details",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_a_reply_or_a_failed_call(given) -> None:
    try:
        found = API.read(given if isinstance(given, dict) else {"candidates": [{"content": given}]})
    except CallFailed:
        found = None
    assert found is None or isinstance(found.text, str)
    API.error_words(given), API.error_type(400, given), API.retry_after(given)


def test_the_key_stands_in_its_header_and_not_in_the_path() -> None:
    assert GOOGLE.headers("k") == {"x-goog-api-key": "k"}
    assert GOOGLE.headers(None) == {}
    assert "?" not in API.path("gemini-x")


def test_a_run_does_not_begin_without_a_key(monkeypatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    (model,) = from_name("gemini-x", {})
    assert model.model_id == "google/gemini-x"
    with pytest.raises(AdapterError, match="set GOOGLE_API_KEY or GEMINI_API_KEY in the environment"):
        model.check({})
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    model.check({})
