"""The result cache: what was put is found, by many threads and processes, after any death; trouble is no failure."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.adapters import Generation, TaskSpec
from evalframe.adapters.callables import from_callable
from evalframe.errors import CacheError
from evalframe.generate.cache import (
    GROUP,
    GROUP_SECONDS,
    SCHEMA_VERSION,
    CachedReply,
    ResultCache,
    cache_path,
    cache_request,
    open_cache,
    why_not_kept,
)
from evalframe.generate.cachecontents import CacheContents
from evalframe.generate.cachedreply import pack, unpack
from evalframe.generate.cachekeys import hash_of_prompt

WHEN = datetime(2026, 12, 1, 12, 0, 0, 123_456, tzinfo=UTC)
MODEL = from_callable("m", str.upper, model_version="1")
GUARD = 60.0  # seconds until a test that hangs fails


def request(prompt: str = "p", *, repeat: int = 0, model: Any = MODEL, **generation: Any) -> Any:
    return cache_request(model, TaskSpec("t", "qa", prompt, generation=generation), repeat=repeat)


def reply(text: str = "x", **fields: Any) -> CachedReply:
    return CachedReply(Generation(text, **fields), 1.5, 0.25, WHEN)


FULL = Generation(
    "Größe 🙂 \ud800" * 100, confidence=0.1, token_nll=2.5, token_count=3, reasoning="r", tool_calls=[{"a": 1.5}],
    finish_reason="stop", input_tokens=4, output_tokens=5, cached_tokens=6, reasoning_tokens=7,
    choice_logprobs=(-1.5, -0.5), response_id="id", model_version="v", raw=b"\x00raw\n" * 1_000,
)  # fmt: skip


class Clock:
    """A clock that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "replies.sqlite"


def committed(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (n,) = connection.execute("SELECT count(*) FROM replies").fetchone()
    connection.close()
    return int(n)


# what was put is found


@pytest.mark.parametrize("generation", [Generation(""), FULL, replace(FULL, raw=b""), Generation("x", raw=b"1\n2")])
def test_a_reply_comes_back_as_it_was(path, generation) -> None:
    stored = CachedReply(generation, 2.0, None, WHEN)
    with ResultCache.open(path) as cache:
        assert cache.get(request().key) is None
        assert cache.put(request(), stored)
        assert cache.get(request().key) == stored  # before it is on disk
        cache.flush()
        assert cache.get(request().key) == stored
    with ResultCache.open(path) as cache:
        assert cache.get(request().key) == stored
        assert cache.get(request("q").key) is None


def test_C076_the_measurements_are_those_of_the_call_that_was_paid_for(path) -> None:
    paid = CachedReply(Generation("x", input_tokens=100, output_tokens=50), 2.0, 0.002, WHEN)
    with ResultCache.open(path) as cache:
        cache.put(request(), paid)
    with ResultCache.open(path) as cache:
        found = cache.get(request().key)
    assert found is not None
    assert (found.latency_seconds, found.cost_usd, found.created_at) == (2.0, 0.002, WHEN)
    assert (found.generation.input_tokens, found.generation.output_tokens) == (100, 50)


def test_C066_repeats_have_replies_of_their_own(path) -> None:
    for _ in range(2):
        with ResultCache.open(path) as cache:
            for repeat in range(5):
                if cache.get(request(repeat=repeat).key) is None:
                    cache.put(request(repeat=repeat), reply(str(repeat + 1)))
            found = [cache.get(request(repeat=repeat).key) for repeat in range(6)]
        assert [one and one.generation.text for one in found] == ["1", "2", "3", "4", "5", None]


def test_a_reply_that_is_put_again_is_replaced(path) -> None:
    with ResultCache.open(path) as cache:
        for text in ("old", "older"):
            cache.put(request(), reply(text))
            cache.flush()
        cache.put(request(), reply("new"))
        assert cache.get(request().key).generation.text == "new"
    assert committed(path) == 1
    with ResultCache.open(path) as cache:
        assert cache.get(request().key).generation.text == "new"


VALUES = {
    "text": st.text(alphabet=st.characters(exclude_categories=[])),
    "confidence": st.none() | st.floats(allow_nan=False),
    "token_nll": st.none() | st.floats(allow_nan=False),
    "token_count": st.none() | st.integers(),
    "reasoning": st.none() | st.text(),
    "tool_calls": st.none() | st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans())),
    "choice_logprobs": st.none() | st.lists(st.floats(allow_nan=False)).map(tuple),
    "raw": st.binary(max_size=3_000),
}


@given(st.builds(Generation, **VALUES))
def test_any_reply_comes_back_as_it_was(generation) -> None:
    assert unpack(pack(generation)) == generation


def test_numbers_of_other_libraries_are_kept_and_what_is_no_json_is_not(path) -> None:
    with ResultCache.open(path) as cache:
        numbers = Generation("x", confidence=np.float32(0.5), token_count=np.int64(3), tool_calls=MappingProxyType({}))
        assert cache.put(request(), CachedReply(numbers, 1.0, None, WHEN))
        found = cache.get(request().key).generation
        assert (found.confidence, found.token_count, found.tool_calls) == (0.5, 3, {})
        assert not cache.put(request("q"), reply(tool_calls=object()))
        assert not cache.put(request("q"), reply(raw="text"))
        assert cache.get(request("q").key) is None


@pytest.mark.parametrize(
    ("status", "fields", "why"),
    [
        ("failed", {}, "failed"),
        ("skipped", {}, "failed"),
        ("completed", {"output_text": "x"}, None),
        ("completed", {"output_text": "x", "finish_reason": "stop"}, None),
        ("completed", {"output_text": "", "tool_calls": "[{}]", "finish_reason": "tool_calls"}, None),
        ("completed", {"output_text": "No.", "finish_reason": "refusal"}, None),
        ("completed", {"output_text": " \n"}, "empty"),
        ("completed", {"output_text": "x", "finish_reason": "content_filter"}, "filtered"),
        ("completed", {"output_text": "x", "finish_reason": "length"}, "truncated"),
        ("completed", {"output_text": "", "finish_reason": "truncated_no_answer"}, "truncated"),
        ("completed", {"output_text": "", "finish_reason": "truncated_reasoning"}, "truncated"),
    ],
)
def test_what_is_no_whole_answer_is_not_kept(status, fields, why) -> None:
    given_fields = {"output_text": None, "tool_calls": None, "finish_reason": None, **fields}
    assert why_not_kept(status, **given_fields) == why


# commits in groups


def test_entries_are_committed_when_there_are_enough_or_when_one_has_waited(path) -> None:
    clock = Clock()
    with ResultCache.open(path, monotonic=clock) as cache:
        for i in range(GROUP - 1):
            cache.put(request(str(i)), reply())
        assert committed(path) == 0
        cache.put(request("last"), reply())
        assert committed(path) == GROUP
        cache.put(request("slow"), reply())
        clock.seconds += GROUP_SECONDS / 2
        cache.get(request().key)
        assert committed(path) == GROUP
        clock.seconds += GROUP_SECONDS / 2
        cache.get(request().key)  # a look is enough
        assert committed(path) == GROUP + 1
        cache.put(request("closing"), reply())
    assert committed(path) == GROUP + 2
    assert not list(path.parent.glob("*-wal"))


def test_what_an_interrupted_commit_held_is_committed_by_the_next(path) -> None:
    class Interrupted:
        in_transaction = False

        def execute(self, statement: str) -> None:
            raise KeyboardInterrupt

    with ResultCache.open(path) as cache:
        cache.put(request("a"), reply("a"))
        real, cache._connection = cache._connection, Interrupted()
        with pytest.raises(KeyboardInterrupt):
            cache.flush()
        cache._connection = real
        assert cache.get(request("a").key).generation.text == "a"
        cache.put(request("b"), reply("b"))
    assert committed(path) == 2


def test_many_threads_put_and_get_at_once(path) -> None:
    n_threads, n_each, wrong = 32, 60, []

    def work(number: int) -> None:
        for i in range(n_each):
            mine = request(f"{number} {i}")
            if cache.get(mine.key) is not None or not cache.put(mine, reply(f"{number} {i}")):
                wrong.append((number, i))
            other = request(f"{(number + 1) % n_threads} {i}")
            if (found := cache.get(mine.key)) is None or found.generation.text != f"{number} {i}":
                wrong.append((number, i))
            if (found := cache.get(other.key)) and found.generation.text != f"{(number + 1) % n_threads} {i}":
                wrong.append((number, i))

    with ResultCache.open(path) as cache:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cache.trouble is None
    assert wrong == []
    assert committed(path) == n_threads * n_each


# several processes, and a kill

WRITER = """
import sys
from pathlib import Path
from tests.generate.test_cache import ResultCache, reply, request

path, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
with ResultCache.open(path) as cache:
    for i in range(n):
        if cache.get(request(f"shared {i}").key) is None:
            cache.put(request(f"shared {i}"), reply(f"shared {i}", raw=b"r" * (i % 3_000)))
        cache.put(request(f"{name} {i}"), reply(f"{name} {i}"))
        if i % 10 == 9:
            cache.flush()
            print(name, i, flush=True)
assert cache.trouble is None, cache.trouble
"""


def start(path: Path, name: str, n: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WRITER, str(path), name, str(n)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_several_processes_use_one_new_file_at_once(path) -> None:
    writers = [start(path, name, 150) for name in "abc"]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")  # they are all there now: who comes first makes the file
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    with ResultCache.open(path) as cache:
        for name in ("a", "b", "c", "shared"):
            for i in range(150):
                assert cache.get(request(f"{name} {i}").key).generation.text == f"{name} {i}"
    assert committed(path) == 4 * 150


def test_a_kill_at_any_moment_leaves_whole_replies_and_what_was_flushed(path) -> None:
    flushed: dict[str, int] = {}
    for round_number in range(3):
        names = [f"{letter}{round_number}" for letter in "ab"]
        writers = [start(path, name, 100_000) for name in names]
        lines = []
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            assert writer.stdout is not None
            lines += [writer.stdout.readline() for _ in range(3 + round_number)]
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            assert writer.stdout is not None
            lines += writer.stdout.read().splitlines(keepends=True)
            writer.communicate()
            assert writer.returncode == -signal.SIGKILL
        for line in lines:
            if line.endswith("\n"):
                name, i = line.split()
                flushed[name] = max(flushed.get(name, 0), int(i))
        assert set(names) <= flushed.keys()
        with ResultCache.open(path) as cache:
            for name, last in flushed.items():
                for i in range(last + 1):
                    assert cache.get(request(f"{name} {i}").key).generation.text == f"{name} {i}"
                    shared = cache.get(request(f"shared {i}").key).generation
                    assert (shared.text, shared.raw) == (f"shared {i}", b"r" * (i % 3_000))
            assert cache.trouble is None


# files


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\x00" + b"\xff" * 200])
def test_a_damaged_file_is_refused_with_the_ways_to_go_on(path, content) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(CacheError, match=r"replies\.sqlite: .*cache=False.*cache=PATH.*remove"):
        ResultCache.open(path)
    assert path.read_bytes() == content


def test_foreign_files_and_other_versions_are_refused(path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    with pytest.raises(CacheError, match=r"is no result cache of evalframe.*cache=False"):
        ResultCache.open(path)
    path.unlink()
    ResultCache.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(CacheError, match=rf"version {SCHEMA_VERSION + 1}.*reads version {SCHEMA_VERSION}.*cache=False"):
        ResultCache.open(path)


def test_a_folder_that_can_not_be_made_is_told(path) -> None:
    path.parent.write_text("a file")
    with pytest.raises(CacheError, match=r"its folder can not be made .*cache=False"):
        ResultCache.open(path)


def test_a_full_disk_turns_keeping_off_with_one_warning(path) -> None:
    with ResultCache.open(path) as cache:
        cache.put(request("kept"), reply("kept"))
        cache.flush()
    cache = ResultCache.open(path)
    (pages,) = cache._connection.execute("PRAGMA page_count").fetchone()
    cache._connection.execute(f"PRAGMA max_page_count = {pages}")
    for i in range(3 * GROUP):
        cache.put(request(str(i)), reply("x" * 500))
    assert cache.trouble is not None
    assert "disk is full" in cache.trouble
    assert not cache.put(request("more"), reply())
    assert cache.get(request("kept").key).generation.text == "kept"  # what is there is still of use
    with pytest.warns(UserWarning, match=r"not kept in the result cache any more, but in the run's journal") as told:
        cache.close()
    cache.close()
    assert len(told) == 1


def test_a_locked_file_turns_keeping_off_and_the_others_do_not_wait(path) -> None:
    cache = ResultCache.open(path)
    cache._connection.execute("PRAGMA busy_timeout = 100")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    flushing = threading.Thread(target=cache.flush)
    cache.put(request("a"), reply("a"))
    flushing.start()
    began = time.monotonic()
    for i in range(5 * GROUP):
        cache.put(request(str(i)), reply())
    assert cache.get(request("b").key) is None  # a reader never waits
    flushing.join(GUARD)
    assert time.monotonic() - began < GUARD
    other.execute("ROLLBACK")
    other.close()
    with pytest.warns(UserWarning, match="locked"):
        cache.close()
    assert committed(path) == 0


def test_a_page_that_is_damaged_turns_reading_off_with_one_warning(path) -> None:
    with ResultCache.open(path) as cache:
        for i in range(200):
            cache.put(request(str(i)), reply("x" * 1_000))
    content = bytearray(path.read_bytes())
    content[3 * 4096 :] = b"\xff" * (len(content) - 3 * 4096)
    path.write_bytes(content)
    cache = ResultCache.open(path)
    assert [cache.get(request(str(i)).key) for i in range(200)] == [None] * 200
    with pytest.warns(UserWarning, match=r"not taken from the result cache any more.*remove this one"):
        cache.close()


@pytest.mark.parametrize("packed", [b"", b"-", b"-x\n", b"-2\n[]", b'-14\n{"text2":"new"}', b"z123", b'-5\n{"text"'])
def test_an_entry_that_is_no_reply_is_trouble_and_no_failure(path, packed) -> None:
    with ResultCache.open(path) as cache:
        cache.put(request(), reply())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE replies SET reply = ?", (packed,))
    connection.close()
    cache = ResultCache.open(path)
    assert cache.get(request().key) is None
    assert cache.trouble is not None
    with pytest.warns(UserWarning, match="not taken"):
        cache.close()


# where it is


def test_the_user_s_own_file_moves_with_the_environment(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("EVALFRAME_HOME", str(tmp_path / "home"))
    own = tmp_path / "home" / "cache" / "replies.sqlite"
    assert (cache_path(True), cache_path("refresh"), cache_path(False)) == (own, own, None)
    assert cache_path("some.sqlite") == Path("some.sqlite")
    monkeypatch.setenv("EVALFRAME_CACHE", str(tmp_path / "elsewhere"))
    assert cache_path(True) == tmp_path / "elsewhere" / "replies.sqlite"
    monkeypatch.delenv("EVALFRAME_CACHE")
    monkeypatch.delenv("EVALFRAME_HOME")
    assert cache_path(True).parts[-2:] == ("evalframe", "replies.sqlite")


def test_a_run_that_can_keep_nothing_opens_no_file(path) -> None:
    assert open_cache(path, [from_callable("f", str.upper)]) is None
    assert open_cache(False, [MODEL]) is None
    assert not path.parent.exists()
    cache = open_cache(path, [from_callable("f", str.upper), MODEL])
    assert cache is not None
    cache.close()
    assert path.is_file()


# what a person sees of it


def test_entries_are_counted_by_model_and_removed_by_age_and_model(path) -> None:
    other = from_callable("other", str.upper, model_version="1")
    with CacheContents.open(path) as contents:
        for days in range(5):
            at = WHEN + timedelta(days=days)
            for model in (MODEL, other):
                contents.put(request(str(days), model=model), CachedReply(Generation("x" * 500), 1.0, None, at))
        contents.flush()
        first, second = contents.models()
        assert (first.model, first.n_entries, first.oldest, first.newest) == ("m", 5, WHEN, WHEN + timedelta(days=4))
        assert second.model == "other"
        assert first.n_bytes > 5 * 500
        before = WHEN + timedelta(days=2)
        assert contents.chosen(before=before) == 4
        assert contents.chosen(before=before, model="m") == contents.remove(before=before, model="m") == 2
        assert [one.n_entries for one in contents.models()] == [3, 5]
        assert contents.get(request("0").key) is None
        assert contents.get(request("4").key) is not None
        assert contents.remove(model="nobody") == 0
        assert contents.remove() == 8
        assert contents.models() == []
        contents.put(request("0"), reply("again"))
    with CacheContents.open(path) as contents:
        assert [one.n_entries for one in contents.models()] == [1]


def test_removing_gives_the_space_back_while_another_one_reads_and_writes(path) -> None:
    with ResultCache.open(path) as other, CacheContents.open(path) as contents:
        for i in range(300):
            other.put(request(str(i)), reply("x", raw=bytes(i % 251 for i in range(1_500))))
        other.flush()
        assert contents.remove() == 300
        assert path.stat().st_size < 50_000
        other.put(request("new"), reply("new"))
        other.flush()
        assert other.get(request("1").key) is None
        assert contents.get(request("new").key).generation.text == "new"


def test_the_requests_near_one_are_those_with_its_prompt(path) -> None:
    with CacheContents.open(path) as contents:
        for at, (prompt, temperature, repeat) in enumerate([("p", 0, 0), ("p", 1, 0), ("p", 0, 1), ("q", 0, 0)]):
            at_time = WHEN + timedelta(seconds=at)
            asked = request(prompt, repeat=repeat, temperature=temperature)
            contents.put(asked, CachedReply(Generation("x"), 1.0, None, at_time))
        contents.flush()
        near = contents.near(hash_of_prompt("p"))
        assert [(json.loads(one.configuration)["settings"], one.repeat) for one in near] == [
            ({"temperature": 0}, 0), ({"temperature": 1}, 0), ({"temperature": 0}, 1),
        ]  # fmt: skip
        assert near[0].key == request("p", temperature=0).key
        assert near[1].created_at == WHEN + timedelta(seconds=1)
        assert contents.near(hash_of_prompt("r")) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(steps=st.lists(st.tuples(st.sampled_from(["put", "get", "flush", "reopen"]), st.integers(0, 4), st.text())))
def test_it_is_a_mapping_whatever_is_done_in_whatever_order(tmp_path_factory, steps) -> None:
    path = tmp_path_factory.mktemp("law") / "c.sqlite"
    expected: dict[int, str] = {}
    cache = ResultCache.open(path)
    for step, number, text in steps:
        if step == "put":
            cache.put(request(str(number)), reply(text))
            expected[number] = text
        elif step == "get":
            found = cache.get(request(str(number)).key)
            assert (found and found.generation.text) == expected.get(number)
        elif step == "flush":
            cache.flush()
        else:
            cache.close()
            cache = ResultCache.open(path)
    cache.close()
    assert committed(path) == len(expected)
