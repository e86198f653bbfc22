"""A preview: the prompts as they would be sent, counts of calls, an estimate of tokens; nothing is called."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import evalframe as ef
from evalframe.errors import ManifestError, NotBuiltError, OptionError
from evalframe.previewing import make_preview
from evalframe.reprs import dollars


def test_counts_are_those_of_the_run(fixtures: Path) -> None:
    models = ef.replay(fixtures / "outputs.jsonl")
    found = make_preview(fixtures / "suite.json", models, repeats=3)
    run = ef.run(fixtures / "suite.json", models, out=False, progress=False, repeats=3)
    assert found.totals["calls"] == run.generations.height == 120
    assert found.totals["calls_per_model"] == 60
    assert found.models == ("careful", "hasty")
    tokens = 3 * sum(math.ceil(len(prompt.encode()) / 4) for prompt in run.rows["prompt"])
    assert found.totals["input_tokens_estimate"] == 2 * tokens
    task = found.tasks.row(0, named=True)
    assert task["prompt_chars_max"] == run.rows["prompt"].str.len_chars().max()
    assert task["prompt_chars_mean"] == pytest.approx(run.rows["prompt"].str.len_chars().mean())
    assert task["metrics"] == ["numeric_match"]


def test_prompts_are_shown_whole_and_of_each_task_first() -> None:
    found = make_preview(ef.load_fixtures(), samples=4)
    assert found.samples["task_id"].n_unique() == 4
    by_id = {record.task_id: record for record in ef.load_fixtures()}
    for task_id, _, prompt, _ in found.samples.iter_rows():
        assert prompt == ef.render(by_id[task_id])
    assert make_preview(ef.load_fixtures(), samples=0).samples.is_empty()
    assert make_preview(ef.load_fixtures(), samples=99).samples.height == 10


def test_repeats_by_task_limits_and_settings(fixtures: Path) -> None:
    found = make_preview(ef.load_fixtures(), repeats={"mcq": 5})
    calls = dict(found.tasks.select("task_id", "calls").iter_rows())
    assert sorted(calls.values()) == [1] * 8 + [5] * 2
    found = make_preview(fixtures / "suite.json", max_samples_per_task=3, generation={"max_gen_toks": 5})
    assert found.totals["samples"] == 3
    assert found.generation == {"max_output_tokens": 5}
    assert found.totals["models"] == 0
    assert found.totals["calls"] == 3


def test_nothing_is_called_and_code_is_not_run(tmp_path: Path) -> None:
    def never(prompt: str) -> str:
        raise AssertionError("a preview calls no model")

    found = make_preview(ef.load_fixtures(), ef.from_callable("mine", never))  # code tasks need no --allow-unsandboxed
    assert found.models == ("mine",)
    assert found.to_json()["tasks"][0]["extraction"]
    assert json.loads(json.dumps(found.to_json()))["totals"] == found.totals


def test_the_same_mistakes_as_of_a_run_are_told(tmp_path: Path, fixtures: Path) -> None:
    with pytest.raises(OptionError, match="no whole number from 0 up"):
        make_preview(fixtures / "suite.json", samples=-1)
    with pytest.raises(OptionError, match="did you mean 'word_problems'"):
        make_preview(fixtures / "suite.json", task_ids=["word_problem"])
    with pytest.raises(ManifestError):
        make_preview({"tasks": []})
    hub = {"tasks": [{"id": "t", "type": "qa", "dataset": {"path": "a/b", "split": "test"}, "prompt_template": "{{q}}",
                      "target_template": "{{a}}", "metrics": [{"id": "exact_match"}]}]}  # fmt: skip
    with pytest.raises(NotBuiltError):
        make_preview(hub)


def test_the_command_shows_prompts_and_says_what_tokens_are(command: Callable[..., object], root: Path) -> None:
    answer = command("preview", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--samples", 1,
                     "--repeats", "word_problems=2", "--generation", '{"temperature": 0.5}')  # fmt: skip
    assert answer.status == 0  # type: ignore[attr-defined]
    stdout, stderr = answer.stdout, answer.stderr  # type: ignore[attr-defined]
    prompt = make_preview("fixtures/suite.json", samples=1).samples["prompt"][0]
    assert "\n".join(f"    {line}".rstrip() for line in prompt.split("\n")) in stdout
    assert "target: 22" in stdout
    assert "1 task, 20 samples, 80 calls (40 to each of careful, hasty), about" in stdout
    assert "UTF-8 bytes of the prompts / 4" in stderr
    assert "not known" in stdout
    assert "temperature=0.5" in stderr
    assert "nothing was called" in stderr
    whole = json.loads(command("preview", "fixtures/suite.json", "--json").stdout)  # type: ignore[attr-defined]
    assert whole["totals"]["calls"] == 20
    assert len(whole["samples"]) == 3


def test_the_command_shows_dollars_and_what_each_model_is_sent(command: Callable[..., object]) -> None:
    name = "openai-compatible/m@http://127.0.0.1:9/v1"
    words = ("preview", "fixtures/suite.json", "-m", name, "--samples", 0,
             "--generation", '{"max_output_tokens": 100, "top_k": 3}')  # fmt: skip
    answer = command(*words, "--price", f"{name}=1,10")
    assert answer.status == 0  # type: ignore[attr-defined]
    stdout, stderr = answer.stdout, answer.stderr  # type: ignore[attr-defined]
    whole = json.loads(command(*words, "--price", f"{name}=1,10", "--json").stdout)  # type: ignore[attr-defined]
    (estimate,) = whole["estimates"]
    assert estimate["price_usd_per_million"] == {"input": 1.0, "output": 10.0, "cached_input": None}
    assert estimate["cost_usd_most"] == pytest.approx(estimate["input_tokens_estimate"] * 1e-6 + 20 * 100 * 10e-6)
    cost = f"{dollars(estimate['cost_usd_least'])} to {dollars(estimate['cost_usd_most'])}"
    assert f"| 20 | - | {estimate['input_tokens_estimate']} | 2000 | 1 in, 10 out | {cost} |" in stdout
    assert "openai-compatible/m: is sent max_tokens=100, top_k=3\n" in stderr
    unknown = command(*words)
    assert "| not known |" in unknown.stdout  # type: ignore[attr-defined]
    assert "openai-compatible/m is not known; give it, as in --price 'openai-compatible/m=0.25,2.0'" in unknown.stderr  # type: ignore[attr-defined]
    for price in ("1,10", f"{name}=1", f"{name}=1,x", "=1,2"):
        wrong = command(*words, "--price", price)
        assert wrong.status == 2  # type: ignore[attr-defined]
        assert "write MODEL=IN,OUT" in wrong.stderr  # type: ignore[attr-defined]
