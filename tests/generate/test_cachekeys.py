"""The key of a request: all that can change the answer, in any order of writing, and nothing else."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters import Generation, TaskSpec
from evalframe.adapters.callables import from_callable
from evalframe.adapters.mock import from_name
from evalframe.errors import AdapterError
from evalframe.generate.cachekeys import cache_request, canonical, hash_of_prompt, may_be_kept
from evalframe.models import resolve_models

SERVER = "openai-compatible/qwen3@http://127.0.0.1:8000/v1"
SETTINGS = {"temperature": 0.5, "instructions": "Be short.", "max_output_tokens": 64, "stop": ["\n\n"]}


def spec(prompt: str = "What is 6 times 7?", **fields: Any) -> TaskSpec:
    return TaskSpec("t", "qa", prompt, **{"generation": SETTINGS, **fields})


def model(name: str | dict[str, Any] = SERVER) -> Any:
    return resolve_models([name])[0].adapter


def request(adapter: Any = None, task: TaskSpec | None = None, *, repeat: int = 0, **asked: Any) -> Any:
    return cache_request(adapter or model(), task or spec(), repeat=repeat, **asked)


class Own:
    """An adapter of one's own, known by what it says of itself."""

    model_id = "own"

    def __init__(self, identity: Any = None, **attributes: Any) -> None:
        if identity is not None:
            self.identity = identity if callable(identity) else lambda prompt, task: identity
        vars(self).update(attributes)

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        return Generation(prompt)


def with_settings(**changes: Any) -> TaskSpec:
    return spec(generation={**SETTINGS, **changes})


def test_C065_whatever_can_change_the_answer_is_a_miss() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    identity = {"adapter": "x", "body": {"messages": messages}}
    first = request()
    changed = {
        "temperature": request(task=with_settings(temperature=0.6)),
        "top_p": request(task=with_settings(top_p=0.9)),
        "max_tokens": request(task=with_settings(max_output_tokens=65)),
        "stop": request(task=with_settings(stop=["\n"])),
        "seed": request(task=with_settings(extra_body={"seed": 1})),
        "reasoning_effort": request(task=with_settings(reasoning={"effort": "low"})),
        "system prompt": request(task=with_settings(instructions="Be long.")),
        "base_url": request(model(SERVER.replace("8000", "8001"))),
        "model": request(model(SERVER.replace("qwen3", "qwen2"))),
        "response_format": request(task=with_settings(text={"format": {"type": "json_object"}})),
        "extra_body": request(task=with_settings(extra_body={"seed": 1, "mirostat": 2})),
        "message order": request(Own({**identity, "body": {"messages": messages[::-1]}})),
        "prompt": request(task=spec("What is 6 times 8?")),
        "repeat": request(repeat=1),
        "api": request(model({"model": SERVER, "api": "completions"})),
        "version": request(model({"model": SERVER, "model_version": "2"})),
        "type": request(request_type="loglikelihood", continuations=[" yes", " no"]),
        "continuations": request(request_type="loglikelihood", continuations=[" no", " yes"]),
        "norm": request(request_type="loglikelihood", continuations=[" no", " yes"], norm="bytes"),
    }
    assert len({first.key, request(Own(identity)).key, *(one.key for one in changed.values())}) == len(changed) + 2


def test_C065_the_order_of_keys_the_api_key_and_the_time_out_are_no_part_of_it(monkeypatch) -> None:
    first = request()
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-another")
    backwards = dict(reversed(SETTINGS.items()))
    for task in (
        spec(generation=backwards), spec(generation=MappingProxyType(SETTINGS)), spec(deadline=123.0),
        with_settings(max_output_tokens=64.0),
    ):  # fmt: skip
        again = request(task=task)
        assert again.key == first.key
        assert "sk-another" not in again.text


def test_samples_with_one_prompt_are_one_request_of_a_server() -> None:
    assert request(task=spec(sample_index=1, sample_id="x", row='{"a":1}')).key == request().key


def test_an_entry_begins_with_the_hash_of_the_prompt_as_rows_have_it(make_rows) -> None:
    (row,) = make_rows({"a": 1}).iter_rows(named=True)
    assert hash_of_prompt(row["prompt"]).hex() == row["prompt_hash"]
    assert request(task=spec(row["prompt"])).key.hex().startswith(row["prompt_hash"])


# adapters of one's own


def test_a_function_is_kept_only_with_a_version_and_mocks_and_replay_never() -> None:
    assert request(from_callable("f", str.upper)) is None
    assert request(from_callable("f", str.upper, model_version=" ")) is None
    assert request(from_callable("f", str.upper, model_version="1")) is not None
    assert request(Own(model_version=3)) is None
    assert request(from_name("rule_based", {})[0]) is None
    assert [may_be_kept(one) for one in (Own(), Own(model_version="1"), Own({"a": 1}), model())] == [
        False, True, True, True,
    ]  # fmt: skip


def test_a_function_of_the_prompt_does_not_see_the_task_and_others_do() -> None:
    blind = from_callable("f", lambda prompt: prompt, model_version="1")
    seeing = from_callable("f", lambda prompt, task: prompt, model_version="1")
    other = spec(sample_id="another", metadata=MappingProxyType({"a": 1}))
    assert request(blind, other).key == request(blind).key
    assert request(seeing, other).key != request(seeing).key
    assert request(Own(model_version="1"), other).key != request(Own(model_version="1")).key
    for changed in (spec(generation={}), spec("?")):
        assert request(blind, changed).key != request(blind).key
    for renamed in (Own(model_version="2"), Own(model_version="1", model_id="2")):
        assert request(renamed).key != request(Own(model_version="1")).key
    late = [request(seeing, spec(deadline=at)).key for at in (None, 1.0)]
    assert late[0] == late[1]


def test_an_adapter_may_say_that_a_reply_must_not_be_kept() -> None:
    assert request(Own(lambda prompt, task: None)) is None


def raising(prompt: str, task: TaskSpec) -> Any:
    raise KeyError("what")


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (raising, r"own: identity\(\) failed: KeyError: 'what'"),
        (lambda prompt, task: "text", r"own: identity\(\) gave a str; it gives a dict of JSON values, or None"),
        ({"a": {1, 2}}, r"own: what identifies a call is no JSON \(a set is no JSON value\)"),
        ({"a": float("nan")}, r"own: what identifies a call is no JSON .*identity\(\) gives plain values"),
        ({"a": 1, 2: 3}, r"own: what identifies a call is no JSON"),
    ],
)
def test_an_identity_that_is_none_is_told(identity, said) -> None:
    with pytest.raises(AdapterError, match=said):
        request(Own(identity))


# canonical JSON

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


def shuffled(value: Any) -> Any:
    """The same value, keys in another order, whole numbers as floats where these hold them."""
    if isinstance(value, dict):
        return MappingProxyType({key: shuffled(value[key]) for key in reversed(value)})
    if isinstance(value, list):
        return tuple(map(shuffled, value))
    if type(value) is int and abs(value) <= 2**53:
        return float(value)
    return value


@given(JSON)
def test_one_value_has_one_text(value) -> None:
    text = canonical(value)
    assert canonical(shuffled(value)) == text
    assert canonical(json.loads(text)) == text


@given(JSON, JSON)
def test_two_values_have_two_texts(one, other) -> None:
    def same(a: Any, b: Any) -> bool:
        if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            return a is b
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(same, a, b))
        return bool(a == b)

    assert (canonical(one) == canonical(other)) == same(one, other)


# the parts that explain a miss


def test_a_configuration_is_alike_for_all_prompts_and_has_no_text_in_it() -> None:
    one, other = request(), request(task=spec('Another "prompt" with ü, \\ and \n'), repeat=3)
    assert one.configuration() == other.configuration()
    assert "6 times 7" not in one.configuration()
    assert "Be short" not in one.configuration()
    found = json.loads(one.configuration())
    assert {name: found[name] for name in ("adapter", "base_url", "api", "model", "model_version")} == {
        "adapter": "openai-compatible", "base_url": "http://127.0.0.1:8000/v1", "api": "chat", "model": "qwen3",
        "model_version": None,
    }  # fmt: skip
    assert found["settings"]["temperature"] == 0.5
    assert "model" not in found["settings"]
    assert [message["role"] for message in found["texts"]["messages"]] == ["system", "user"]
    assert found["texts"]["messages"][1]["content"] == "{prompt}"


@pytest.mark.parametrize("prompt", ["", "a", "user", "e", "{prompt}", "\x00", "\ud800", "q" * 5_000])
def test_requests_with_one_outline_have_one_configuration(prompt) -> None:
    prefixed = {"adapter": "x", "model": "m", "body": {"prompt": f"Before.\n{prompt}\nAfter."}}
    for adapter in (model(), Own(prefixed), Own(model_version="1"), model({"model": SERVER, "api": "responses"})):
        one = request(adapter, spec(prompt))
        again = request(adapter, spec(prompt, generation=dict(reversed(SETTINGS.items()))))
        assert (one.outline(), one.configuration()) == (again.outline(), again.configuration())
        changed = request(adapter, spec(prompt, generation={**SETTINGS, "temperature": 1}))
        if changed.key != one.key:
            assert changed.outline() != one.outline()
            assert changed.configuration() != one.configuration()


def test_the_text_around_a_prompt_is_known_by_its_hash() -> None:
    found = [
        json.loads(request(Own({"body": {"prompt": f"{before}What is 6 times 7?{after}"}})).configuration())
        for before, after in (("", ""), ("Before: ", ""), ("", " After"), ("Other: ", ""))
    ]
    texts = [one["texts"]["prompt"] for one in found]
    assert texts[0] == "{prompt}"
    assert len(set(texts)) == 4
    assert all("Before" not in text and "After" not in text for text in texts)
