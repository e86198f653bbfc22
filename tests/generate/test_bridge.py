"""What a grader's ctx reaches: judge and embedding models, limits, cache, journal, money; nothing is paid twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalframe.adapters import CallFailed, Generation
from evalframe.adapters.callables import from_callable
from evalframe.frames import check
from evalframe.generate.bridge import JudgeModel, Switchboard
from evalframe.generate.judgejournal import JudgeJournal
from evalframe.generate.ledger import Ledger
from evalframe.generate.outcomes import Notes
from evalframe.generate.prices import Price
from evalframe.generate.progress import Progress
from evalframe.generate.settings import GenerateOptions
from evalframe.generate.threads import caller_of
from evalframe.manifest.generation import parse_generation
from evalframe.sandbox.foreign import BridgeError
from evalframe.schemas import JUDGE_CALLS

SAMPLE = ("m", "t", 3, 0)


class Embedder:
    model_id = "vectors"

    def generate(self, prompt: str, task: Any) -> Generation:
        raise AssertionError("it makes embeddings alone")

    def embed(self, texts: list[str], *, deadline: float | None = None) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]


@pytest.fixture
def connect(tmp_path: Path):
    """Make a switchboard over functions; the journal stays from one to the next."""
    opened: list[JudgeJournal] = []

    def make(
        *adapters: Any, ledger: Ledger | None = None, settings: dict[str, Any] | None = None, **options: Any
    ) -> Switchboard:
        opened.append(JudgeJournal.open(tmp_path / "judges.sqlite"))
        ledger = ledger or Ledger({})
        call_options = GenerateOptions(random=lambda: 0.0, max_retries=2)
        models = {
            adapter.model_id: JudgeModel(
                caller=caller_of(adapter, tags=(), notes=Notes(), options=call_options, limiters={}, ledger=ledger),
                settings=parse_generation(settings or {}),
            )
            for adapter in adapters
        }
        return Switchboard(
            models, judge=adapters[0].model_id if adapters else None, journal=opened[-1], ledger=ledger,
            embedder=next((a.model_id for a in adapters if hasattr(a, "embed")), None),
            progress=Progress(0, show=False), concurrency=4, **options,
        )  # fmt: skip

    yield make
    for journal in opened:
        journal.close()


def judge_of(answer: Callable[..., Any]) -> Any:
    return from_callable("judge", answer)


def test_a_reply_has_the_shape_of_responses_and_the_call_is_a_row(connect, tmp_path: Path) -> None:
    def answer(prompt: str, task: Any) -> Generation:
        return Generation(f"{prompt}!", input_tokens=5, output_tokens=1, finish_reason="stop", response_id="r1",
                          reasoning="hm", tool_calls=[{"name": "f", "arguments": "{}"}])  # fmt: skip

    ledger = Ledger({"judge": Price(1_000_000.0, 0.0)})
    board = connect(judge_of(answer), ledger=ledger)
    reply = board.bridge_for(*SAMPLE)("responses_create", {"input": "well"})
    assert json.loads(json.dumps(reply)) == reply
    assert (reply["output_text"], reply["status"], reply["model"], reply["id"]) == ("well!", "completed", "judge", "r1")
    assert [part["type"] for part in reply["output"]] == ["reasoning", "message", "function_call"]
    assert reply["usage"] == {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    assert ledger.spent_usd == 5.0
    with JudgeJournal.open(tmp_path / "judges.sqlite") as journal:
        calls = check(journal.frame(), JUDGE_CALLS)
    row = calls.row(0, named=True)
    assert calls.height == 1
    assert (row["model_id"], row["task_id"], row["sample_index"], row["call_index"]) == ("m", "t", 3, 0)
    assert (row["judge_model_id"], row["status"], row["output_text"], row["cost_usd"]) == (
        "judge", "completed", "well!", 5.0,
    )  # fmt: skip


def test_settings_and_system_texts_reach_the_model(connect) -> None:
    seen = []

    def answer(prompt: str, task: Any) -> str:
        seen.append((prompt, dict(task.generation)))
        return "ok"

    bridge = connect(judge_of(answer), settings={"temperature": 0.5, "top_p": 0.9}).bridge_for(*SAMPLE)
    messages = [
        {"role": "system", "content": "be strict"},
        {"role": "user", "content": [{"type": "input_text", "text": "is it "}, {"type": "input_text", "text": "so?"}]},
    ]
    bridge("responses_create", {"input": messages, "instructions": "short", "temperature": 0})
    assert seen == [("is it so?", {"temperature": 0, "top_p": 0.9, "instructions": "short\n\nbe strict"})]


def test_a_grader_that_is_run_again_pays_nothing_for_what_it_asked(connect) -> None:
    asked = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return prompt.upper()

    def grade(words: list[str]) -> list[str]:
        bridge = connect(judge_of(answer)).bridge_for(*SAMPLE)
        return [bridge("responses_create", {"input": word})["output_text"] for word in words]

    assert grade(["a", "b", "a"]) == ["A", "B", "A"]
    assert asked == ["a", "b", "a"]  # two calls with the same words are two calls
    assert grade(["a", "b", "a"]) == ["A", "B", "A"]
    assert len(asked) == 3
    assert grade(["a", "c", "a"]) == ["A", "C", "A"]  # another question, and what came after it, are asked
    assert asked[3:] == ["c", "a"]
    other = connect(judge_of(answer)).bridge_for("m", "t", 4, 0)
    other("responses_create", {"input": "a"})  # another sample
    assert len(asked) == 6


def test_a_failure_is_raised_with_its_word_recorded_and_asked_again(connect, tmp_path: Path) -> None:
    failures = [CallFailed("bad_request", "HTTP 400: too long")]

    def answer(prompt: str) -> str:
        if failures:
            raise failures.pop()
        return "fine"

    with pytest.raises(BridgeError, match="judge: bad_request: HTTP 400: too long"):
        connect(judge_of(answer)).bridge_for(*SAMPLE)("responses_create", {"input": "q"})
    with JudgeJournal.open(tmp_path / "judges.sqlite") as journal:
        assert journal.frame()["status"].to_list() == ["failed"]
    reply = connect(judge_of(answer)).bridge_for(*SAMPLE)("responses_create", {"input": "q"})
    assert reply["output_text"] == "fine"


def test_embeddings_are_vectors_in_the_shape_of_the_api_and_are_kept(connect) -> None:
    bridge = connect(judge_of(str.upper), Embedder()).bridge_for(*SAMPLE)
    reply = bridge("embeddings_create", {"input": ["ab", "abc"]})
    assert [item["embedding"] for item in reply["data"]] == [[2.0, 1.0], [3.0, 1.0]]
    assert reply["model"] == "vectors"
    assert bridge("embeddings_create", {"input": "abcd"})["data"][0]["embedding"] == [4.0, 1.0]


@pytest.mark.parametrize(
    ("verb", "keywords", "says"),
    [
        ("responses_create", {"input": ""}, None),
        ("responses_create", {}, "input of responses_create is a text, or a list of messages"),
        ("responses_create", {"input": "x", "model": "other"}, "'other' is no model of this run; it has judge"),
        ("responses_create", {"input": "x", "temprature": 1}, "temprature.*did you mean"),
        ("responses_create", {"input": [{"role": "assistant", "content": "x"}]}, "has the role 'assistant'"),
        ("responses_create", {"input": [{"content": "x"}, {"content": "y"}]}, "2 messages of the user"),
        ("responses_create", {"input": "x", "instructions": 3}, "instructions is a int"),
        ("embeddings_create", {"input": "x"}, "the run has no embedding_model; give it one: embedding_model="),
        ("embeddings_create", {"input": "x", "model": "judge"}, "judge makes no embeddings"),
        ("embeddings_create", {"input": [], "model": "judge"}, "a list of texts that is not empty"),
        ("chat", {}, "ctx has no 'chat'"),
    ],
)
def test_what_is_wrong_is_told(connect, verb: str, keywords: dict[str, Any], says: str | None) -> None:
    bridge = connect(judge_of(str.upper)).bridge_for(*SAMPLE)
    if says is None:
        assert bridge(verb, keywords)["output_text"] == ""
        return
    with pytest.raises(BridgeError, match=says):
        bridge(verb, keywords)


def test_without_a_judge_a_call_says_so(connect) -> None:
    with pytest.raises(BridgeError, match="the run has no judge_model; give it one: judge_model="):
        connect().bridge_for(*SAMPLE)("responses_create", {"input": "x"})


def test_the_cap_of_dollars_and_a_stop_end_the_calls(connect) -> None:
    ledger = Ledger({"judge": Price(1_000_000.0, 0.0)}, cap_usd=1.0)
    judge = judge_of(lambda prompt: Generation("x", input_tokens=1, output_tokens=0))
    bridge = connect(judge, ledger=ledger).bridge_for(*SAMPLE)
    bridge("responses_create", {"input": "x"})
    with pytest.raises(BridgeError, match="max_cost_usd is reached"):
        bridge("responses_create", {"input": "y"})
    stop = threading.Event()
    stop.set()
    with pytest.raises(BridgeError, match="the run was stopped before this call"):
        connect(judge, stop=stop).bridge_for(*SAMPLE)("responses_create", {"input": "z"})


def test_judge_calls_of_another_run_can_be_taken(connect, tmp_path: Path) -> None:
    connect(judge_of(str.upper)).bridge_for(*SAMPLE)("responses_create", {"input": "x"})
    with JudgeJournal.open(tmp_path / "copy.sqlite") as copy:
        copy.take(tmp_path / "judges.sqlite")
        assert copy.frame()["output_text"].to_list() == ["X"]
