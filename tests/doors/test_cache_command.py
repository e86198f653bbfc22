"""evalframe cache, and the ways in which a run uses it, against a server that counts what it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalframe as ef
from tests.doors.conftest import Answer
from tests.doors.test_shelf_commands import rows_of
from tests.servers import ScriptedServer

N = 3


@pytest.fixture(scope="module")
def shared_server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def server(shared_server: ScriptedServer) -> ScriptedServer:
    shared_server.reset()
    return shared_server


@pytest.fixture
def run(command: Callable[..., Answer], tmp_path: Path, server: ScriptedServer) -> Callable[..., ef.Run]:
    """Run the same questions with one model of the server, and give the run."""
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps({"id": f"q{i}", "question": f"{i} + 1?"}) + "\n" for i in range(N)))
    made: list[Path] = []

    def once(*more: object, model: str = "qwen3", status: int = 0) -> Any:
        out = tmp_path / f"run {len(made)}"
        made.append(out)
        answer = command(
            "run", questions, "--prompt", "{{question}}", "--metric", "exact_match", "--targets", "{{question}}", "-m",
            f"openai-compatible/{model}@{server.url}", "--no-progress", "--out", out, *more,
        )  # fmt: skip
        assert answer.status == status, answer
        return None if status == 2 else ef.load(out)

    return once


def explained(command: Callable[..., Answer], run: ef.Run, *more: str) -> list[tuple[str, str | None, int]]:
    answer = command("cache", "explain", run.path, "--json", *more)
    assert answer.status == 0, answer
    return [(row["reason"], row["detail"], row["n_calls"]) for row in json.loads(answer.stdout)["summary"]]


def test_C076_a_second_run_asks_nothing_and_has_the_first_one_s_measurements(run, server, command) -> None:
    server.script(rules=[{"match": "", "steps": [{"delay_seconds": 0.05}]}])
    first = run("--generation", '{"temperature": 0, "top_p": 1}')
    assert server.stats()["requests"] == N
    second = run("--generation", '{"top_p": 1.0, "temperature": 0.0}')
    assert server.stats()["requests"] == N
    assert second.generations["cached"].all()
    assert second.generations["attempts"].to_list() == [0] * N
    same = ["output_text", "latency_seconds", "input_tokens", "output_tokens", "response_id", "finish_reason"]
    assert second.generations.select(same).equals(first.generations.select(same))
    assert first.generations["latency_seconds"].min() >= 0.05
    assert explained(command, second) == []
    assert "no call missed the cache" in command("cache", "explain", second.path).stderr


def test_C066_repeats_are_asked_one_by_one_and_come_back_one_by_one(run, server, command) -> None:
    server.script(rules=[{"match": r"^0", "steps": [{"text": str(n)} for n in range(1, 6)]}])
    first = run("--repeats", 5, "--sequential", "--generation", '{"temperature": 1}')
    texts = first.generations.filter(pl.col("sample_index") == 0)["output_text"].to_list()
    assert texts == ["1", "2", "3", "4", "5"]
    n = server.stats()["requests"]
    second = run("--repeats", 5, "--generation", '{"temperature": 1}')
    assert server.stats()["requests"] == n
    assert second.generations["output_text"].equals(first.generations["output_text"])
    more = run("--repeats", 6, "--generation", '{"temperature": 1}')
    assert more.generations["cached"].sum() == 5 * N
    assert [(reason, n) for reason, _, n in explained(command, more)] == [("other_repeat", N)]


def test_a_miss_says_what_is_not_as_it_was(run, command) -> None:
    first = run("--generation", '{"temperature": 0, "instructions": "Be short."}')
    assert explained(command, first) == [("new_prompt", None, N)]
    warmer = run("--generation", '{"temperature": 1, "instructions": "Be short.", "max_output_tokens": 99}')
    assert explained(command, warmer) == [("other_settings", "max_tokens: none -> 99, temperature: 0 -> 1", N)]
    told = run("--generation", '{"temperature": 0, "instructions": "Be long."}')
    assert explained(command, told) == [("other_text", "instructions or text around the prompt: differs", N)]
    other = run("--generation", '{"temperature": 0, "instructions": "Be short."}', model="qwen2")
    assert explained(command, other) == [("other_model", 'model: "qwen3" -> "qwen2"', N)]
    answer = command("cache", "explain", warmer.path, "--sample", "q1")
    assert answer.status == 0
    summary, calls = answer.stdout.split("\n\n")
    model = "openai-compatible/qwen3"
    why = ["other_settings", "max_tokens: none -> 99, temperature: 0 -> 1"]
    assert rows_of(summary) == [["Model", "Calls", "Reason", "Detail"], [model, "1", *why]]
    assert rows_of(calls)[1] == [model, warmer.rows["task_id"][0], "1", "0", *why]
    assert "other_settings: replies to this prompt were kept, with other settings" in answer.stderr
    assert "note: 0 of 1 replies came from the cache" in answer.stderr


def test_what_is_said_of_a_run_stays_when_later_ones_fill_the_cache(run, command) -> None:
    first = run()
    before = explained(command, first)
    run("--generation", '{"temperature": 1}')
    assert explained(command, first) == before == [("new_prompt", None, N)]


def test_the_ways_to_use_it(run, server, command, tmp_path) -> None:
    run()
    off = run("--no-cache")
    assert explained(command, off) == [("cache_off", None, N)]
    assert "the run did not use the cache (--no-cache)" in command("cache", "explain", off.path).stderr
    server.script(rules=[{"match": "", "steps": [{"text": "new"}]}])
    fresh = run("--refresh-cache")
    assert explained(command, fresh) == [("refreshed", None, N)]
    assert server.stats()["requests"] == 3 * N
    assert run().generations["output_text"].to_list() == ["new"] * N  # what was kept last
    elsewhere = run("--cache-path", tmp_path / "mine" / "cache.sqlite")
    assert server.stats()["requests"] == 4 * N
    assert explained(command, elsewhere) == [("new_prompt", None, N)]
    modes = [one.record["options"]["cache"] for one in (off, fresh, elsewhere)]
    assert modes == [False, "refresh", str(tmp_path / "mine" / "cache.sqlite")]


def test_a_relative_path_is_recorded_as_it_is_called_from_anywhere(run, command, tmp_path, monkeypatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    made = run("--cache-path", "cache.sqlite")
    monkeypatch.chdir(tmp_path)
    assert explained(command, made) == [("new_prompt", None, N)]
    assert f"the cache: {tmp_path / 'there' / 'cache.sqlite'}" in command("cache", "explain", made.path).stderr


@pytest.mark.parametrize(
    ("step", "status", "why"),
    [
        ({"status": 400, "message": "no"}, 1, "failed (bad_request)"),
        ({"finish_reason": "length"}, 0, "truncated (length)"),
        ({"finish_reason": "content_filter"}, 0, "filtered (content_filter)"),
        ({"text": ""}, 0, "empty"),
    ],
)
def test_replies_that_are_no_whole_answers_are_asked_for_again(run, server, command, step, status, why) -> None:
    server.script(rules=[{"match": r"^1", "steps": [step]}])
    run(status=status)
    again = run(status=status)
    assert server.stats()["requests"] == N + 1
    assert explained(command, again) == [("not_kept", why, 1)]
    assert again.generations["cached"].sum() == N - 1


def test_the_key_is_no_part_of_it_and_is_nowhere_on_disk(run, server, command, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-secret-one")
    run()
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-secret-two")
    second = run()
    assert server.stats()["requests"] == N
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY")
    assert explained(command, second) == []  # it is not needed to explain
    path = Path(json.loads(command("cache", "info", "--json").stdout)["path"])
    for file in (path, *second.path.rglob("*")):
        assert file.is_dir() or b"sk-secret" not in file.read_bytes()


def test_a_damaged_cache_is_told_before_anything_is_paid(command, run, server, tmp_path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"no database" * 500)
    run("--cache-path", path, status=2)
    assert server.stats()["requests"] == 0
    answer = command("cache", "info", "--cache-path", path)
    assert answer.status == 2
    assert "go on without it (--no-cache), name another file (--cache-path FILE), or remove this one" in answer.stderr


def test_what_it_holds_is_counted_and_removed_when_told(run, server, command) -> None:
    run()
    run(model="qwen2")
    head, *models = rows_of(command("cache", "info").stdout)
    assert head == ["Model", "Replies", "Size", "Oldest (UTC)", "Newest (UTC)"]
    assert [cells[:2] for cells in models] == [["qwen2", str(N)], ["qwen3", str(N)]]
    assert f"{N} replies would go from" in command("cache", "prune", "--model", "qwen2").stderr
    assert "no reply is to go" in command("cache", "prune", "--older-than", 1).stderr
    assert json.loads(command("cache", "prune", "--model", "qwen2", "--json").stdout)["would_go"] == N
    assert f"removed {N} replies from" in command("cache", "prune", "--model", "qwen2", "--yes").stderr
    (left,) = json.loads(command("cache", "info", "--json").stdout)["models"]
    assert (left["model"], left["n_replies"]) == ("qwen3", N)
    assert f"{N} replies would go from" in command("cache", "clear").stderr
    assert json.loads(command("cache", "clear", "--yes", "--json").stdout)["removed"] == N
    run()
    assert server.stats()["requests"] == 3 * N


def test_without_a_cache_a_look_makes_none(command, tmp_path) -> None:
    for answer in (command("cache", "info"), command("cache", "clear", "--yes"), command("cache", "prune", "-m", "x")):
        assert answer.status == 0
    path = Path(json.loads(command("cache", "info", "--json").stdout)["path"])
    assert not path.exists()
    assert not path.parent.exists()
    assert f"{path}: there is no cache yet" in command("cache", "info").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cache", "prune"), "give --older-than DAYS or --model MODEL"),
        (("cache", "prune", "--older-than", "-1"), "write --older-than 30"),
        (("cache", "prune", "--older-than", "nan"), "write --older-than 30"),
        (("cache", "info", "--cache-path", "nowhere.sqlite"), "there is no such file; name the cache of a run"),
        (("cache", "explain", "nowhere"), "holds no run"),
        (("run", "x.json", "-m", "mock/noisy", "--no-cache", "--refresh-cache"), "--no-cache and --refresh-cache are"),
        (("run", "x.json", "-m", "mock/noisy", "--refresh-cache", "--cache-path", "x"), "give one of them"),
    ],
)
def test_mistakes_are_told(command, words, said) -> None:
    answer = command(*words)
    assert answer.status == 2
    assert said in answer.stderr


def test_names_that_are_not_in_the_run_are_told_with_the_nearest(run, command) -> None:
    made = run()
    for option, name, near in (("--sample", "q11", "'q1'"), ("--model", "openai-compatible/qwen", "qwen3"),
                               ("--task", "x", "known")):  # fmt: skip
        answer = command("cache", "explain", made.path, option, name)
        assert answer.status == 2
        assert near in answer.stderr
