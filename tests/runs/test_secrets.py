"""The key of a model is in no file, no frame and no text that a run leaves, whatever the server says about it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from evalframe.generate.journal import Journal
from tests.servers import ScriptedServer

KEY = "sk-never-seen/+=7f3a"  # with letters of base64 that JSON texts and URLs may write in another way
ROWS = [{"q": f"question {i}", "a": "x"} for i in range(8)]
DATA = {"prompt": "{{q}}", "targets": "{{a}}", "metrics": ["exact_match"]}
ECHOES = [
    {"status": 401, "message": "Incorrect API key provided: {key}."},
    {"status": 400, "body": "your header was Bearer {key}"},
    {"status": 500, "body": "<html>{key}</html>"},
    {"body": "{key} is no JSON"},
    {"text": "I can see your key, it is {key}"},
    {"status": 400, "message": "unknown key", "headers": {"X-Your-Key": KEY}},
    {"status": 302, "headers": {"Location": "http://127.0.0.1/?key=" + KEY}},
    {"status": 400, "body": '{"error": {"message": "' + KEY.replace("/", r"\/") + '"}}'},
]
# adapter, and options of its dict; a vendor's own key is sent to no other server
MODELS: dict[str, tuple[str, dict[str, str]]] = {
    "chat": ("openai-compatible", {}),
    "responses": ("openai-compatible", {"api": "responses"}),
    "completions": ("openai-compatible", {"api": "completions"}),
    "anthropic": ("anthropic", {"api_key_env": "GATEWAY_KEY"}),
    "google": ("google", {"api_key_env": "GATEWAY_KEY"}),
}
VARIABLES = ("OPENAI_COMPATIBLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Give everything that can be read in a folder: files as they are, frames, and the bodies of databases."""
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        yield path, path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            yield path, pl.read_parquet(path).write_json()
        elif path.read_bytes()[:15] == b"SQLite format 3":
            yield from ((path, cell) for cell in _cells(path))


def _cells(path: Path) -> Iterator[str]:
    with sqlite3.connect(path) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    yield _opened(cell) if isinstance(cell, bytes) else str(cell)
    connection.close()


def _opened(cell: bytes) -> str:
    try:
        return zlib.decompress(cell).decode("utf-8", "replace")
    except zlib.error:
        return cell.decode("latin-1")


def leaks(text: str) -> bool:
    return "never-seen" in text  # any part of the key that no chance explains


def model(scripted: ScriptedServer, name: str) -> dict[str, str]:
    adapter, options = MODELS[name]
    return {"model": f"{adapter}/m", "base_url": scripted.root + ("/v1beta" if name == "google" else "/v1"), **options}


def steps() -> list[dict[str, Any]]:
    """One echo of the key a sample, after it has worked once."""
    return [{"match": f"^question {i}$", "steps": [echo]} for i, echo in enumerate(ECHOES)]


@pytest.mark.parametrize("name", list(MODELS))
def test_no_trace_of_a_key(scripted, tmp_path, monkeypatch, capfd, name: str) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(MODELS[name][1].get("api_key_env", "OPENAI_COMPATIBLE_API_KEY"), KEY)
    scripted.script(require_key=KEY, rules=steps())
    home = Path(os.environ["EVALFRAME_HOME"])
    generation = {"max_retries": 1, "max_output_tokens": 9}
    run = ef.run(
        ROWS, model(scripted, name), out=tmp_path / "run", preflight=False, progress=True, generation=generation,
        metadata={"owner": "me"}, **DATA,
    )  # fmt: skip
    assert scripted.stats()["requests"] >= len(ROWS)
    for one in scripted.recorded():  # it was really sent
        assert any(KEY in value for value in one["headers"].values())
        assert KEY not in one["path"]
    assert run.generations["error_type"].n_unique() >= 4
    for folder in (tmp_path, home):
        assert [(path, text) for path, text in texts(folder) if leaks(text)] == []
    assert {path.name for path, _ in texts(tmp_path)} >= {"journal.sqlite", "run.json", "manifest.json"}
    assert any(path.suffix == ".sqlite" for path, _ in texts(home))  # the result cache
    shown = "".join(capfd.readouterr()) + repr(run) + run.to_markdown() + run._repr_html_() + json.dumps(run.record)
    shown += run.generations.write_json() + run.failures().write_json() + json.dumps(run.envelope())
    assert not leaks(shown)
    run.to_csv(tmp_path / "csv")
    assert [path for path, text in texts(tmp_path / "csv") if leaks(text)] == []


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_no_trace_of_a_wrong_key_that_the_server_tells_back(scripted, tmp_path, write_jsonl, options) -> None:
    scripted.script(require_key="sk-the-right-one")
    words = ["run", str(write_jsonl(ROWS)), "-m", f"openai-compatible/m@{scripted.url}", "--prompt", "{{q}}",
             "--targets", "{{a}}", "--metric", "exact_match", "--out", str(tmp_path / "run"), *options]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "evalframe", *words], capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"OPENAI_COMPATIBLE_API_KEY": KEY},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert scripted.stats()["requests"] == 1
    assert not leaks(done.stdout)
    assert not leaks(done.stderr)
    assert "Incorrect API key provided" in done.stdout + done.stderr
    assert [path for path, text in texts(tmp_path / "run") if leaks(text)] == []


@pytest.mark.parametrize("key", ["EMPTY", "none", "x"])
def test_what_stands_for_a_key_where_none_is_needed_is_not_taken_out_of_answers(
    scripted, tmp_path, monkeypatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", key)
    scripted.script(default={"text": f"the set is {key}, or none of the six"})
    run = ef.run(ROWS[:1], f"openai-compatible/m@{scripted.url}", out=tmp_path / "run", progress=False, **DATA)
    assert run.generations["output_text"].to_list() == [f"the set is {key}, or none of the six"]


def test_the_journal_keeps_the_reply_without_the_key(scripted, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    scripted.script(default={"body": {"choices": [{"message": {"content": "fine"}}], "note": "{key} sent"}})
    run = ef.run(ROWS[:1], f"openai-compatible/m@{scripted.url}", out=tmp_path / "run", progress=False, **DATA)
    assert run.generations["output_text"].to_list() == ["fine"]
    with Journal.open(tmp_path / "run" / "journal.sqlite") as journal:
        (task_id,) = run.rows["task_id"].unique()
        raw = journal.raw("openai-compatible/m", task_id, 0)
    assert raw is not None
    assert b"fine" in raw
    assert b"never-seen" not in raw


def test_the_key_of_openai_is_not_sent_to_another_server(scripted, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY", raising=False)
    ef.run(ROWS[:1], f"openai-compatible/m@{scripted.url}", out=tmp_path / "run", progress=False, **DATA)
    (one,) = scripted.recorded()
    assert "authorization" not in one["headers"]
    assert KEY not in json.dumps(one)
