"""Tried as a new user would: every command with nothing, or with the wrong thing; each answer says what to do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doors.conftest import Answer

# what stands where something else is wanted
WRONG: dict[str, bytes | None] = {
    "empty.json": b"",
    "empty.jsonl": b"",
    "empty.csv": b"",
    "binary.json": bytes(range(256)) * 3,
    "binary.jsonl": bytes(range(256)) * 3,
    "binary.csv": bytes(range(256)) * 3,
    "binary": bytes(range(256)) * 3,
    "suite.yaml": b"tasks:\n  - id: t\n",
    "yaml.json": b"tasks:\n  - id: t\n",
    "list.json": b'[{"id": "t"}]',
    "number.json": b"3",
    "text.txt": b"hello",
    "folder": None,
}
SOURCES = (["run", "{}", "-m", "mock/noisy"], ["validate", "{}"], ["preview", "{}"])
AS_DATA = ["--prompt", "question", "--metric", "exact_match"]
DATA = (["run", "{}", "-m", "mock/noisy", *AS_DATA], ["validate", "{}", *AS_DATA], ["preview", "{}", *AS_DATA])
RUNS = (["resume", "{}"], ["runs", "show", "{}"], ["rescore", "{}", "--extract", "number"], ["compare", "{}", "{}"])
# a remedy is an order: what to write, give, save, check
REMEDY = re.compile(
    r"\b(give|write|save|check|name|make|mend|add|look|did you mean|one JSON object a line|has a record a line|"
    r"the text of|in UTF-8)\b"
)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    for name, content in WRONG.items():
        if content is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_bytes(content)
    return tmp_path


def refused(answer: Answer, *, names: str = "") -> str:
    assert answer.status == 2, answer
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    assert names in answer.stderr
    assert REMEDY.search(answer.stderr), answer.stderr
    return answer.stderr


@pytest.mark.parametrize("words", [*SOURCES, *DATA], ids=" ".join)
def test_a_pipe_is_there_and_is_no_file(command: Callable[..., Answer], tmp_path: Path, words: list[str]) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    stderr = refused(command(*spelt(words, tmp_path / "pipe.jsonl")), names=str(tmp_path / "pipe.jsonl"))
    assert "is no regular file; save what it gives as a file" in stderr
    assert "is an empty text" in refused(command(*spelt(words, "")))


@pytest.mark.parametrize("words", SOURCES, ids=" ".join)
def test_a_record_that_is_nested_too_deeply_is_a_mistake(
    command: Callable[..., Answer], tmp_path: Path, words: list[str]
):
    (tmp_path / "deep.jsonl").write_bytes(b'{"question": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    answer = command(*spelt(words, tmp_path / "deep.jsonl"))
    assert (answer.status, answer.stdout) == (2, "")
    assert "deep.jsonl:1" in answer.stderr
    assert "is nested too deeply" in answer.stderr
    assert "Traceback" not in answer.stderr


def spelt(words: list[str], path: object) -> list[str]:
    return [word.replace("{}", str(path)) for word in words]


@pytest.mark.parametrize("name", [*WRONG, "nowhere.json", "nowhere.jsonl", "nowhere.csv", "nowhere"])
@pytest.mark.parametrize("words", [*SOURCES, *DATA, *RUNS], ids=" ".join)
def test_the_wrong_thing_gets_an_answer(command: Callable[..., Answer], wrong: Path, words: list[str], name: str):
    stderr = refused(command(*spelt(words, wrong / name)), names=str(wrong / name))
    if name == "suite.yaml" and words in SOURCES:
        assert "write the manifest as JSON" in stderr
    if name == "yaml.json" and words in SOURCES:
        assert "this looks like YAML; write the manifest as JSON" in stderr
    if name == "list.json" and words in SOURCES:
        assert 'write {"tasks": [...]}' in stderr
    if name in ("list.json", "text.txt", "suite.yaml") and words in DATA:
        assert "save the records as .jsonl (one a line), .csv or .parquet" in stderr
    if words in RUNS:
        assert "give the folder" in stderr
    # with --json the same, as one envelope
    answer = command(*spelt(words, wrong / name), "--json")
    envelope = json.loads(answer.stdout)
    assert (answer.status, envelope["leaderboard"], envelope["summary"]) == (2, [], {})
    assert envelope["error"]["type"] in stderr


@pytest.mark.parametrize("name", [*WRONG, "nowhere.jsonl"])
def test_what_is_no_data_file_is_not_registered(command: Callable[..., Answer], wrong: Path, name: str) -> None:
    refused(command("files", "add", wrong / name), names=str(wrong / name))
    assert json.loads(command("files", "list", "--json").stdout) == {"files": []}


@pytest.mark.parametrize("words", [["runs", "list", "--in", "{}"], ["runs", "prune", "--keep", "1", "--in", "{}"]],
                         ids=" ".join)  # fmt: skip
def test_a_shelf_is_a_folder(command: Callable[..., Answer], wrong: Path, words: list[str]) -> None:
    for name in ("nowhere", "text.txt"):
        refused(command(*spelt(words, wrong / name)), names=str(wrong / name))
    empty = command(*spelt(words, wrong / "folder"))  # a folder without runs is no mistake
    assert empty.status == 0
    assert "no run" in empty.stderr


def test_data_without_a_prompt_and_a_suite_with_one(command: Callable[..., Answer], root: Path, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("question,answer\n1?,1\n")
    for words in SOURCES:
        assert "give --prompt, as in --prompt 'Q: {{question}}'" in refused(
            command(*spelt(words, tmp_path / "data.csv"))
        )
    for words in DATA:
        stderr = refused(command(*spelt(words, "fixtures/suite.json")))
        assert "a suite (.json) has prompts of its own: leave --prompt out" in stderr
        words = [words[0], "fixtures/questions.jsonl", *words[1:]]
        assert "data is one file, and 2 are given" in refused(command(*spelt(words, "fixtures/questions.jsonl")))


@pytest.mark.parametrize("words", SOURCES, ids=" ".join)
def test_a_run_is_no_source(command: Callable[..., Answer], finished: Path, words: list[str]) -> None:
    stderr = refused(command(*spelt(words, finished)))
    assert f"evalframe runs show {finished}" in stderr


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_suite_is_no_run(command: Callable[..., Answer], root: Path, words: list[str]) -> None:
    stderr = refused(command(*spelt(words, "fixtures/suite.json")))
    assert "make one with evalframe run fixtures/suite.json --model" in stderr


@pytest.fixture
def finished(command: Callable[..., Answer], root: Path, tmp_path: Path) -> Path:
    answer = command("run", "fixtures/suite.json", "-m", "replay/fixtures/outputs.jsonl", "--no-progress", "--out",
                     tmp_path / "finished")  # fmt: skip
    assert answer.status == 0, answer
    return tmp_path / "finished"


@pytest.mark.parametrize(
    "words", ["run", "resume", "rescore", "compare", "validate", "preview", "files add", "runs show"]
)
def test_no_argument_is_told_with_an_example(command: Callable[..., Answer], words: str) -> None:
    answer = command(*words.split())
    assert answer.status == 2
    assert "Missing argument" in answer.stderr
    assert f"Usage: evalframe {words}" in answer.stderr
    assert f"Example: evalframe {words} " in answer.stderr


@pytest.mark.parametrize("words", ["", "runs", "files"])
def test_a_group_alone_shows_its_commands(command: Callable[..., Answer], words: str) -> None:
    answer = command(*words.split())
    assert answer.status == 2
    assert f"Usage: evalframe {words}".strip() in answer.stderr
    assert "Example: evalframe" in answer.stderr


@pytest.mark.parametrize("words", ["metrics", "schema", "doctor", "runs list", "files list"])
def test_what_needs_no_argument_answers_at_once(command: Callable[..., Answer], words: str) -> None:
    answer = command(*words.split())
    assert answer.status == 0
    assert answer.stdout.strip()
    assert json.loads(command(*words.split(), "--json").stdout)


def test_a_run_without_a_model_names_the_option(command: Callable[..., Answer], root: Path) -> None:
    answer = command("run", "fixtures/suite.json")
    assert answer.status == 2
    assert "Missing option '--model'" in answer.stderr
    assert "Example: evalframe run suite.json -m replay/outputs.jsonl" in answer.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("ran suite.json", "Did you mean 'run'"),
        ("compair a b", "Did you mean 'compare'"),
        ("metric", "Did you mean 'metrics'"),
        ("runs lst", "Did you mean 'list'"),
        ("run suite.json --modle mock/noisy", "--model"),
        ("run suite.json -m mock/noisy --fail-undr 1", "--fail-under"),
        ("preview suite.json --sample 2", "--samples"),
        ("runs prune --older 3", "--older-than"),
        ("run suite.json -m mock/noisy --seed x", "valid integer"),
    ],
)
def test_a_misspelt_word_gets_the_nearest(command: Callable[..., Answer], words: str, says: str) -> None:
    answer = command(*words.split())
    assert answer.status == 2
    assert says in answer.stderr
    envelope = json.loads(command(*words.split(), "--json").stdout)
    assert envelope["error"]["message"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--extract", "numbr"], "there is no extraction type 'numbr'; did you mean 'number'?"),
        (["--extract", "regex"], r"needs its pattern; write --extract 'regex=answer: (\S+)'"),
        (["--extract", "label_set"], "needs its labels; write --extract label_set=yes,no"),
        (["--extract", "take_first=two"], "'two' is no number of lines; write --extract take_first=2"),
        (["--extract", "number=3"], "number takes no argument; write --extract number"),
        (["--extract", '{"type": }'], "--extract: column 10"),
        (["--metric", "{"], "--metric: column"),
        (["--files", "x"], "write ID=PATH, as in"),
        (["--files", "x=README.md", "--files", "x=README.md"], "x stands twice; give it once"),
        (["--repeats", "many"], "'many' is no whole number; write --repeats 3 or NAME=3"),
        (["--repeats", "2", "--repeats", "word_problems=3"], "not both"),
        (["--repeats", "word_problem=3"], "did you mean 'word_problems'?"),
        (["--repeats", "0"], "0 is out of range (from 1 up)"),
        (["--limit", "concurency=3"], "did you mean 'concurrency'?"),
        (["--limit", "concurrency=many"], "write concurrency=64"),
        (["--limit", "concurrency=0"], "is not a positive number"),
        (["--generation", "nowhere.json"], """write --generation '{"temperature": 0}'"""),
        (["--task", "word_problem"], "did you mean 'word_problems'?"),
        (["--on-missing", "ignore"], "'ignore' is none of 'warn', 'error'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_says_how_it_is_written(
    command: Callable[..., Answer], root: Path, words: list[str], says: str
) -> None:
    for first in (["preview", "fixtures/suite.json"], ["run", "fixtures/suite.json", "-m", "mock/noisy"]):
        assert says in refused_text(command(*first, *words))


def refused_text(answer: Answer) -> str:
    assert answer.status == 2, answer
    assert answer.stdout == ""
    return answer.stderr
