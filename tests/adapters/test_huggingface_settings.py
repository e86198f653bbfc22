"""Local models, as far as they are known without torch: options, and what settings mean."""

from __future__ import annotations

import importlib.util
import os

import pytest

from evalframe.adapters.huggingface import from_name
from evalframe.adapters.huggingface.loading import fingerprint
from evalframe.adapters.huggingface.settings import Choosing, choosing_of, sending
from evalframe.errors import AdapterError, MissingDependencyError
from evalframe.registry import ADAPTERS


@pytest.fixture
def installed(monkeypatch):
    """Let the libraries seem to be there; nothing here calls them."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr("evalframe.adapters.huggingface.find_spec", lambda name: name)


@pytest.mark.parametrize(
    ("settings", "sample"),
    [
        ({}, False),
        ({"temperature": 0}, False),
        ({"temperature": 0.5}, True),
        ({"top_p": 0.9}, True),
        ({"temperature": 0, "top_p": 0.9}, False),
        ({"do_sample": True}, True),
        ({"do_sample": False, "temperature": 0.5}, False),
    ],
)
def test_when_tokens_are_drawn(settings, sample) -> None:
    assert choosing_of(settings).sample is sample
    assert sending(settings, chat=False).sent["do_sample"] is sample


def test_settings_have_the_names_of_the_library() -> None:
    given = {
        "instructions": "Be short.", "temperature": 0.5, "top_k": 4, "top_p": 0.9, "min_p": 0.1, "stop": ["\n"],
        "repetition_penalty": 1.2, "max_output_tokens": 9, "chat_template_kwargs": {"enable_thinking": False},
        "presence_penalty": 1, "reasoning": {"effort": "low"},
    }  # fmt: skip
    told = sending(given, chat=True)
    assert told.sent == {
        "do_sample": True, "temperature": 0.5, "top_k": 4, "top_p": 0.9, "min_p": 0.1, "stop_strings": ["\n"],
        "repetition_penalty": 1.2, "max_new_tokens": 9, "instructions": "Be short.",
        "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip
    assert told.left_out == ("presence_penalty", "reasoning")


def test_what_is_not_used_is_left_out() -> None:
    given = {"temperature": 0, "top_k": 4, "instructions": "Be short."}
    told = sending(given, chat=False)
    assert told.sent == {"do_sample": False}
    assert told.left_out == ("top_k", "instructions")
    assert sending({"do_sample": False, "temperature": 0.5}, chat=False).left_out == ("temperature",)


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_top_k_of_no_limit_cuts_nothing(top_k) -> None:
    assert choosing_of({"temperature": 1, "top_k": top_k}) == Choosing(sample=True, temperature=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop": ["stop"]}, "drop: there is no such option"),
        ({"batch_size": 0}, "batch_size: 0 is no whole number from 1 up"),
        ({"seed": True}, "seed: True is no whole number from 0 up"),
        ({"dtype": "int8"}, "write one of auto, bfloat16, float16, float32"),
        ({"api": "responses"}, "write one of chat, completions"),
        ({"device": 3}, "device: 3 is no text"),
    ],
)
def test_a_wrong_option_is_named(installed, options, words) -> None:
    with pytest.raises(AdapterError) as raised:
        from_name("gpt2", options)
    assert words in str(raised.value)


def test_a_model_is_named_by_its_folder_and_not_by_the_way_there(installed, tmp_path) -> None:
    (tmp_path / "tiny").mkdir()
    (model,) = ADAPTERS.get("transformers")(str(tmp_path / "tiny"), {})
    assert model.model_id == "transformers/tiny"
    (hub,) = from_name("org/name", {"model_id": "mine"})
    assert (hub.model_id, hub.batch_size) == ("mine", 8)
    with pytest.raises(AdapterError, match="write transformers/FOLDER"):
        from_name("", {})


def test_without_the_libraries_there_is_the_install_line(monkeypatch) -> None:
    monkeypatch.setattr("evalframe.adapters.huggingface.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs torch and transformers: pip install 'evalframe\["):
        from_name("gpt2", {})


def test_a_fingerprint_changes_with_the_model_alone(tmp_path) -> None:
    weights = bytearray(os.urandom(3_000_000))

    def folder(name: str, config: str = "{}", readme: str = "") -> str:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
        (tmp_path / name / "README.md").write_text(readme)
        (tmp_path / name / "model.safetensors").write_bytes(weights)
        return fingerprint(tmp_path / name)

    first = folder("a")
    assert folder("b", readme="a new word") == first
    assert folder("c", config='{"a": 1}') != first
    weights[-1] ^= 1
    assert folder("d") != first
    weights[-1] ^= 1
    weights[1_000_000:1_100_000] = os.urandom(100_000)  # a layer was trained
    assert folder("e") != first
