"""The format's published few-shot and multiple-choice examples, end to end: only their data stands in local files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe.adapters import Generation

EXAMPLES = Path(__file__).parent.parent / "manifest" / "examples"
OPTIONS = {"out": False, "progress": False, "cache": False, "allow_unsandboxed": True}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Give an example of the format, its data sets on the Hub replaced by files of these names."""
    monkeypatch.chdir(tmp_path)

    def load(name: str, **files: str) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text())
        (task,) = manifest["tasks"]
        task["dataset"] = {"file_id": files["dataset"]}
        if "fewshot" in files:
            task["fewshot"]["dataset"] = {"file_id": files["fewshot"]}
        return manifest

    return load


class Knowing:
    """A model that answers a prompt by the first of its rules whose words end the prompt."""

    model_id = "knowing"

    def __init__(self, **rules: str) -> None:
        self.rules, self.prompts = rules, list[str]()

    def generate(self, prompt: str, task: Any) -> Generation:
        self.prompts.append(prompt)
        last = prompt.rpartition("\n\n")[2] if "Choices:" not in prompt else prompt.rpartition("Context: ")[2]
        return Generation(next((answer for words, answer in self.rules.items() if words in last), "I do not know"))


def test_few_shot_examples_come_from_the_other_data_set(published: Any, write_jsonl: Any, tmp_path: Path) -> None:
    write_jsonl([{"question": f"{name}?", "answer": name.upper()} for name in ("ask", "pay", "send")], "test.jsonl")
    write_jsonl([{"question": f"Old {n}?", "answer": f"{n}"} for n in range(5)], "train.jsonl")
    (tmp_path / "grade.py").write_text(
        "def grade(sample, item):\n    return float(sample['output_text'].strip() == item['answer'])\n"
    )
    model = Knowing(ask="ASK", pay=" PAY\n", send="send")
    manifest = published("fewshot_qa", dataset="test.jsonl", fewshot="train.jsonl")
    run = ef.run(manifest, model, files={"file_grader123": tmp_path / "grade.py"}, **OPTIONS)
    examples = "\n\n".join(f"Question: Old {n}?\nAnswer: {n}" for n in range(3))
    assert run.rows["prompt"].to_list() == [f"{examples}\n\n{name}?" for name in ("ask", "pay", "send")]
    assert sorted(model.prompts) == sorted(run.rows["prompt"])
    assert run.scores.select("metric", "score").rows() == [("score", 1.0), ("score", 1.0), ("score", 0.0)]
    assert run.leaderboard()["mean_score"].item() == pytest.approx(2 / 3)


def test_choices_are_shown_and_read_after_the_preprocessor(published: Any, write_jsonl: Any) -> None:
    rows = [
        {"context": "Ice is cold.", "question": "\n  Is ice cold?  ", "answer": "A"},
        {"context": "Fire is hot.", "question": " Is fire cold?", "answer": "B"},
        {"context": "Tea varies.", "question": "Is tea cold? ", "answer": "C"},
    ]
    write_jsonl(rows, "validation.jsonl")
    model = Knowing(**{"Is ice": "Answer: A", "Is fire": "The answer: b, surely", "Is tea": "C"})
    run = ef.run(published("json_builder", dataset="validation.jsonl"), model, **OPTIONS)
    asked = [
        f"Context: {row['context']}\n\nQuestion: {row['question'].strip()}\n\nChoices:\nA\nB\nC\nD\n\nAnswer:"
        for row in rows
    ]
    shown = [[1, 2], [0, 2], [0, 1]]  # no row sees itself
    for prompt, others, own in zip(run.rows["prompt"], shown, asked, strict=True):
        assert prompt == "\n\n".join([*(f"{asked[n]}\n{rows[n]['answer']}" for n in others), own])
    assert [json.loads(row)["question"] for row in run.rows["row"]] == ["Is ice cold?", "Is fire cold?", "Is tea cold?"]
    assert run.answers.select("extracted_output", "extraction_status").rows() == [
        ("A", "ok"), ("b", "ok"), (None, "no_match"),
    ]  # fmt: skip
    # exact_match heeds letters' case, as the example's description says: matches exactly
    assert run.samples["score"].to_list() == [1.0, 0.0, 0.0]
    assert run.record["parts"]["acme_json"].keys() >= {"preprocess", "fewshot", "choices"}
