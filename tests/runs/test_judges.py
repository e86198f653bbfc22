"""Graders that ask models: a judge and an embedding model of the run, its own models; paid once, told and counted."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.adapters import Generation
from evalframe.advice import SettingWarning
from evalframe.errors import OptionError
from evalframe.frames import check
from evalframe.graders import GraderWarning
from evalframe.schemas import JUDGE_CALLS

ASKING = """
def grade(sample, item, ctx):
    reply = ctx.responses_create(model="auto", input="Is it right? " + sample["output_text"], temperature=0)
    return {"scores": {"score": float("yes" in reply["output_text"])}, "judge": {"said": reply["output_text"]}}
"""
SIMILAR = """
def grade(sample, item, ctx):
    a, b = (d["embedding"] for d in ctx.embeddings_create(input=[sample["output_text"], sample["target"]])["data"])
    return float(a == b)
"""
OPTIONS: dict[str, Any] = {"out": False, "progress": False, "allow_unsandboxed": True}


class Judge:
    """Says yes to five, and counts what it is asked."""

    model_id = "judge"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def generate(self, prompt: str, task: ef.TaskSpec) -> Generation:
        self.asked.append(prompt)
        text = "yes" if prompt.endswith("5") else "no"
        return Generation(text, input_tokens=10, output_tokens=1)

    def embed(self, texts: list[str], *, deadline: float | None = None) -> list[list[float]]:
        return [[float(len(text))] for text in texts]


@pytest.fixture
def judged(suite) -> Any:
    def make(source: str = ASKING, **grader: Any) -> dict[str, Any]:
        return suite(metrics=[], grader={"type": "python", "contract": "model_backed", "source": source, **grader})

    return make


@pytest.fixture(autouse=True)
def own_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_judge_is_asked_once_a_sample_and_its_calls_are_rows(judged) -> None:
    judge = Judge()
    model = ef.from_callable("five", lambda prompt: "5")
    run = ef.run(judged(), model, judge_model=judge, prices={"judge": (1.0, 1.0)}, **OPTIONS)
    assert len(judge.asked) == run.rows.height
    assert run.grades["grader_status"].unique().to_list() == ["graded"]
    assert run.scores["score"].to_list() == [1.0] * run.rows.height
    calls = check(run.judge_calls, JUDGE_CALLS)
    assert calls["judge_model_id"].unique().to_list() == ["judge"]
    assert calls["call_index"].to_list() == [0] * run.rows.height
    assert calls["cost_usd"].sum() == pytest.approx(11e-6 * run.rows.height)
    assert run.record["judge_model"] == "judge"
    assert run.leaderboard()["mean_score"].to_list() == [1.0]


def test_a_rescore_and_a_regrade_ask_nothing_again(judged) -> None:
    judge = Judge()
    run = ef.run(judged(), ef.from_callable("five", lambda prompt: "5"), judge_model=judge, **OPTIONS)
    n = len(judge.asked)
    again = run.rescore(manifest=judged())
    assert len(judge.asked) == n
    assert again.scores.equals(run.scores)
    assert again.judge_calls.equals(run.judge_calls)


def test_a_model_of_the_run_can_judge_and_a_mock_too(judged) -> None:
    source = ASKING.replace('model="auto"', 'model="mock/rule_based"')
    run = ef.run(judged(source), "mock/rule_based", **OPTIONS, judge_model="mock/noisy")
    assert run.judge_calls["judge_model_id"].unique().to_list() == ["mock/rule_based"]
    run = ef.run(judged(), "mock/rule_based", judge_model="mock/rule_based", **OPTIONS)
    assert run.judge_calls.height == run.rows.height


def test_embeddings_are_compared(judged) -> None:
    run = ef.run(judged(SIMILAR), "mock/rule_based", embedding_model=Judge(), **OPTIONS)
    assert run.scores["score"].to_list() == [1.0] * run.rows.height


def test_without_a_judge_the_run_warns_and_the_samples_say_why(judged) -> None:
    with pytest.warns() as said:
        run = ef.run(judged(), "mock/rule_based", **OPTIONS)
    kinds = {warning.category for warning in said}
    assert {SettingWarning, GraderWarning} <= kinds
    assert run.grades["grader_status"].unique().to_list() == ["error"]
    assert "judge_model" in run.grades["grader_error_message"][0]
    assert run.scores["fate"].unique().to_list() == ["grader_error"]
    assert run.generations["status"].unique().to_list() == ["completed"]


def test_a_judge_that_can_not_be_had_is_refused_before_any_call(judged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked: list[str] = []
    model = ef.from_callable("five", lambda prompt: asked.append(prompt) or "5")
    for judge, says in (("openai/gpt-5-mini", "OPENAI_API_KEY"), ("nobody/x", "there is no model adapter")):
        with pytest.raises(OptionError, match=says):
            ef.run(judged(), model, judge_model=judge, **OPTIONS)
    assert asked == []


def test_an_interrupt_asks_no_judge_and_a_resume_does(judged, tmp_path) -> None:
    def answer(prompt: str) -> str:
        return "5"

    judge = Judge()
    out = tmp_path / "run"
    run = ef.run(judged(), ef.from_callable("five", answer), judge_model=judge, **{**OPTIONS, "out": out})
    # as if it had been killed when the calls were made and nothing was graded
    shutil.rmtree(out / "graded")
    (out / "judges.sqlite").unlink()
    run.folder.update_record(status="running")
    n = len(judge.asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraderWarning)
        opened = ef.load(out)
    assert len(judge.asked) == n  # to open a run costs nothing
    assert opened.grades["grader_error_type"].unique().to_list() == ["NotGraded"]
    resumed = ef.resume(out, [ef.from_callable("five", answer), judge], progress=False)
    assert len(judge.asked) == 2 * n
    assert resumed.scores.equals(run.scores)


def test_the_cap_of_dollars_counts_judges(judged) -> None:
    judge = Judge()
    with pytest.warns(GraderWarning, match="max_cost_usd is reached"):
        run = ef.run(
            judged(), ef.from_callable("five", lambda prompt: "5"), judge_model=judge, parallel=False,
            prices={"judge": (100_000.0, 0.0)}, max_cost_usd=2.0, **OPTIONS,
        )  # fmt: skip
    assert len(judge.asked) == 2
    assert run.grades.filter(pl.col("grader_status") == "graded").height == 2


def test_a_judge_behind_a_server_that_throttles_costs_no_grader_its_time(judged, scripted, tmp_path) -> None:
    throttled = {"match": "Is it right", "steps": [{"status": 429, "retry_after": 2}, {"text": "yes"}]}
    scripted.script(rules=[throttled])
    run = ef.run(
        judged(timeout_seconds=1), ef.from_callable("five", lambda prompt: f"5 to {prompt}"), concurrency=4,
        judge_model=f"openai-compatible/judge@{scripted.url}", cache=tmp_path / "replies.sqlite", **OPTIONS,
    )  # fmt: skip
    assert run.grades["grader_status"].unique().to_list() == ["graded"]
    assert run.scores["score"].to_list() == [1.0] * run.rows.height
    assert run.judge_calls["attempts"].to_list() == [2] * run.rows.height
    asked = scripted.stats()["requests"]
    again = ef.run(
        judged(timeout_seconds=1), ef.from_callable("five", lambda prompt: f"5 to {prompt}"),
        judge_model=f"openai-compatible/judge@{scripted.url}", cache=tmp_path / "replies.sqlite", **OPTIONS,
    )  # fmt: skip
    assert again.judge_calls["cached"].to_list() == [True] * run.rows.height
    assert scripted.stats()["requests"] == asked
