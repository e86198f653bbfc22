"""The journal: what it acknowledged is there, once, in key order, after any death."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.errors import RunFolderError
from evalframe.frames import check
from evalframe.generate.finished import BODY, COMPRESS_FROM, pack, pack_raw, unpack, unpack_raw
from evalframe.generate.journal import SCHEMA_VERSION, Finished, Journal
from evalframe.limits import Limits
from evalframe.schemas import CALL_KEY, GENERATIONS

WHEN = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


def call(index: int = 0, *, model_id: str = "m", task_id: str = "t", repeat: int = 0, **fields) -> Finished:
    values = {"status": "completed", "output_text": "x", "attempts": 1} | fields
    return Finished(model_id=model_id, task_id=task_id, sample_index=index, repeat=repeat, **values)


FULL = call(
    output_text="Größe 🙂" * 100, reasoning="r", tool_calls='[{"a":1.50}]', finish_reason="stop", confidence=0.1,
    confidence_source="adapter", token_nll=2.5, token_count=3, input_tokens=4, output_tokens=5, cached_tokens=6,
    reasoning_tokens=7, choice_logprobs=(-1.5, None), cost_usd=0.25, cost_usd_original=0.5, latency_seconds=1.5,
    attempts=2, cached=True, model_version="v", response_id="id", started_at=WHEN, raw=b"\x00raw" * 100,
)  # fmt: skip


def test_every_column_comes_back_as_it_was(journal) -> None:
    journal.record([FULL])
    (row,) = check(journal.generations(), GENERATIONS).to_dicts()
    for name in BODY:
        expected = getattr(FULL, name)
        assert row[name] == (list(expected) if isinstance(expected, tuple) else expected), name
    assert journal.raw("m", "t", 0) == FULL.raw
    assert journal.raw("m", "t", 1) is None


def test_the_record_has_the_columns_of_generations() -> None:
    assert {*CALL_KEY, "status", *BODY} == set(GENERATIONS.names)


def test_large_bodies_are_compressed_and_small_ones_are_not() -> None:
    assert isinstance(pack(call()), str)
    assert isinstance(packed := pack(FULL), bytes)
    assert unpack(packed)[0]["output_text"] == FULL.output_text


def test_nulls_and_lone_surrogates(journal) -> None:
    journal.record([call(0, output_text="a\ud800b"), call(1, status="failed", output_text=None, error_type="timeout")])
    generations = check(journal.generations(), GENERATIONS)
    assert generations["output_text"].to_list() == ["a\ufffdb", None]
    assert generations["started_at"].to_list() == [None, None]
    assert generations["error_type"].to_list() == [None, "timeout"]


def test_the_order_is_that_of_code_points(journal) -> None:
    names = ["é", "a", "Z", "\U0001f600", "\uffee", "a\x00", "", "aa"]
    journal.record([call(i, model_id=m or "-", task_id=t or "-") for i in (10, 9) for m in names for t in names])
    keys = check(journal.generations(), GENERATIONS).select(CALL_KEY).rows()
    assert keys == sorted(keys)
    assert len(keys) == 2 * len(names) ** 2


def test_segments_are_bounded_and_sorted_over_all(journal) -> None:
    journal.record([call(i, task_id=t, output_text="x" * 100) for i in range(10) for t in "cab"])
    by_rows = list(journal.segments(limits=Limits(segment_rows=7)))
    assert [segment.height for segment in by_rows] == [7, 7, 7, 7, 2]
    by_bytes = list(journal.segments(limits=Limits(segment_bytes=1_000)))
    assert max(segment.height for segment in by_bytes) < 10
    for segments in (by_rows, by_bytes):
        assert check(pl.concat(segments), GENERATIONS).equals(journal.generations())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(repeats=st.lists(st.integers(1, 5), max_size=8), n_rows=st.integers(1, 6), n_bytes=st.integers(1, 3_000))
def test_the_repeats_of_a_sample_are_in_one_segment(tmp_path_factory, repeats, n_rows, n_bytes) -> None:
    with Journal.open(tmp_path_factory.mktemp("law") / "j.sqlite") as journal:
        journal.record([call(i, repeat=r, output_text="x" * 200) for i, n in enumerate(repeats) for r in range(n)])
        segments = list(journal.segments(limits=Limits(segment_rows=n_rows, segment_bytes=n_bytes)))
    samples = [set(segment["sample_index"]) for segment in segments]
    assert sum(map(len, samples)) == len(repeats)  # none is in two
    assert all(segment.height < n_rows + max(repeats) for segment in segments)
    assert sum(segment.height for segment in segments) == sum(repeats)


def test_an_empty_journal(journal) -> None:
    assert list(journal.segments()) == []
    assert check(journal.generations(), GENERATIONS).is_empty()
    assert journal.done().schema == {name: GENERATIONS.dtypes[name] for name in CALL_KEY}
    assert journal.counts().is_empty()
    journal.record([])


def test_a_reader_sees_one_state(journal) -> None:
    journal.record([call(i) for i in range(4)])
    segments = journal.segments(limits=Limits(segment_rows=2))
    first = next(segments)
    journal.record([call(i, task_id="later") for i in range(4)])
    assert first.height + sum(segment.height for segment in segments) == 4
    assert journal.generations().height == 8


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ("skipped", "failed", "second"),
        ("skipped", "completed", "second"),
        ("failed", "completed", "second"),
        ("completed", "completed", "first"),
        ("failed", "failed", "first"),
        ("skipped", "skipped", "first"),
        ("completed", "failed", "first"),
        ("completed", "skipped", "first"),
        ("failed", "skipped", "first"),
    ],
)
def test_an_entry_gives_way_only_to_one_that_knows_more(journal, first, second, stays) -> None:
    journal.record([call(status=first, response_id="first", raw=b"first")])
    journal.record([call(status=second, response_id="second", raw=b"second")])
    generations = journal.generations()
    assert generations["response_id"].to_list() == [stays]
    assert generations["status"].to_list() == [first if stays == "first" else second]
    assert journal.raw("m", "t", 0) == stays.encode()


def test_done_and_counts(journal) -> None:
    journal.record([call(0), call(1, status="failed"), call(2, status="skipped"), call(0, model_id="a", repeat=3)])
    assert journal.done().rows() == [("a", "t", 0, 3), ("m", "t", 0, 0), ("m", "t", 1, 0)]
    assert journal.counts().rows() == [
        ("a", "completed", 1), ("m", "completed", 1), ("m", "failed", 1), ("m", "skipped", 1),
    ]  # fmt: skip


def test_many_threads_record_at_once(journal) -> None:
    def work(number: int) -> None:
        for index in range(50):
            journal.record([call(index, task_id=str(number))])
            seen[number] += journal.done().height >= index + 1

    seen = [0] * 8
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [50] * 8
    assert check(journal.generations(), GENERATIONS).height == 400


def test_what_waits_is_committed_together(journal, monkeypatch) -> None:
    groups = []
    commit = Journal._commit
    monkeypatch.setattr(Journal, "_commit", lambda self, group: (groups.append(len(group)), commit(self, group)))
    threads = [threading.Thread(target=journal.record, args=([call(i)],)) for i in range(5)]
    with journal._writing:  # a commit that takes its time
        for thread in threads:
            thread.start()
        while len(journal._waiting) < 5:
            pass
    for thread in threads:
        thread.join()
    assert groups == [5]
    assert journal.done().height == 5


def test_a_commit_that_fails_is_told_to_each_that_waits(journal) -> None:
    journal._connection.close()
    for _ in range(2):
        with pytest.raises(RunFolderError, match="can not be used"):
            journal.record([call()])
    assert journal.done().is_empty()


def test_what_an_interrupted_commit_held_is_committed_by_the_next(journal, monkeypatch) -> None:
    real = journal._connection

    class Interrupted:
        in_transaction = False

        def execute(self, statement: str) -> None:
            raise KeyboardInterrupt

    journal._connection = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        journal.record([call(0)])
    journal._connection = real
    journal.record([call(1)])
    assert journal.done()["sample_index"].to_list() == [0, 1]


# files


def test_reopening_and_closing_twice(tmp_path) -> None:
    path = tmp_path / "j.sqlite"
    with Journal.open(path) as first:
        first.record([call()])
    first.close()
    assert [file.name for file in tmp_path.iterdir()] == ["j.sqlite"]
    with Journal.open(path) as second:
        assert second.done().height == 1


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\x00" + b"\xff" * 200])
def test_a_damaged_file_is_refused(tmp_path, content) -> None:
    path = tmp_path / "j.sqlite"
    path.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"j\.sqlite.*(restore|start a new run)"):
        Journal.open(path)


def test_a_damaged_page_is_told_when_it_is_read(tmp_path) -> None:
    path = tmp_path / "j.sqlite"
    with Journal.open(path) as journal:
        journal.record([call(i, output_text=f"{i}" * 3_000) for i in range(200)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with Journal.open(path) as journal, pytest.raises(RunFolderError, match="restore"):
        journal.generations()


def test_other_versions_and_other_databases_are_refused(tmp_path) -> None:
    path = tmp_path / "j.sqlite"
    Journal.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(RunFolderError, match=f"version {SCHEMA_VERSION + 1}.*reads version {SCHEMA_VERSION}"):
        Journal.open(path)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    with pytest.raises(RunFolderError, match="is no journal"):
        Journal.open(other)
    connection = sqlite3.connect(other)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # it is as it was
    connection.close()


def test_a_missing_folder_is_named(tmp_path) -> None:
    with pytest.raises(RunFolderError, match=r"no folder .*missing; make it"):
        Journal.open(tmp_path / "missing" / "j.sqlite")


# a kill

RECORDER = """
import sys, threading
from pathlib import Path
from evalframe.generate.journal import Finished, Journal

journal = Journal.open(Path(sys.argv[1]))
saying = threading.Lock()

def work(task_id):
    for index in range(100_000):
        journal.record([Finished(model_id="m", task_id=task_id, sample_index=index, repeat=0, status="completed",
                                 output_text=f"{task_id} {index} " + "x" * (index % 700), raw=b"raw" * 50)])
        with saying:
            print(task_id, index, flush=True)

for name in "abcd":
    threading.Thread(target=work, args=(name,)).start()
"""


def test_what_was_acknowledged_before_a_kill_is_there_once(tmp_path) -> None:
    path = tmp_path / "j.sqlite"
    for round_number in (1, 2):  # the second one also reopens what the first left behind
        process = subprocess.Popen([sys.executable, "-c", RECORDER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(150 * round_number)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        acknowledged = {tuple(line.split()) for line in lines if line.endswith("\n")}
        assert len(acknowledged) >= 150
        with Journal.open(path) as journal:
            generations = check(journal.generations(), GENERATIONS)  # unique keys, in order
        kept = {(task, str(index)) for task, index in generations.select("task_id", "sample_index").iter_rows()}
        assert acknowledged <= kept
        for task, index, text in generations.select("task_id", "sample_index", "output_text").iter_rows():
            assert text == f"{task} {index} " + "x" * (index % 700)


TEXT = st.text(alphabet=st.characters(exclude_categories=[]), max_size=300)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(calls=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), TEXT), max_size=8))
def test_any_texts_make_a_legal_frame(tmp_path_factory, calls) -> None:
    with Journal.open(tmp_path_factory.mktemp("law") / "j.sqlite") as journal:
        first = {}
        for task, index, text in calls:
            journal.record([call(index, task_id=task, output_text=text)])
            first.setdefault((task, index), text)
        generations = check(journal.generations(), GENERATIONS)
    assert generations.height == len(first)
    for task, index, text in generations.select("task_id", "sample_index", "output_text").iter_rows():
        assert len(text.encode("utf-16-le")) == len(first[task, index].encode("utf-16-le", "surrogatepass"))


STATUSES = ("completed", "failed", "skipped")


def test_calls_are_taken_over_with_their_replies_under_new_numbers(tmp_path, journal) -> None:
    with Journal.open(tmp_path / "other.sqlite") as other:
        other.record([call(index, raw=b"%d" % index) for index in range(4)] + [call(4, status="failed")])
    places = pl.DataFrame({"task_id": "t", "sample_index": [0, 3, 4], "place": [7, 0, 1]})
    journal.take(tmp_path / "other.sqlite", statuses=("completed",), places=places)
    assert journal.done()["sample_index"].to_list() == [0, 7]
    assert (journal.raw("m", "t", 0), journal.raw("m", "t", 7)) == (b"3", b"0")
    journal.take(tmp_path / "other.sqlite", statuses=STATUSES)
    assert journal.raw("m", "t", 0) == b"3"  # what is there stays
    assert journal.done()["sample_index"].to_list() == [0, 1, 2, 3, 4, 7]


def test_what_a_killed_process_left_in_the_log_is_taken_over_too(tmp_path, journal) -> None:
    script = """
import os, sys
from pathlib import Path
from evalframe.generate.journal import Finished, Journal
journal = Journal.open(Path(sys.argv[1]))
journal.record([Finished(model_id="m", task_id="t", sample_index=0, repeat=0, status="completed", output_text="x")])
os._exit(0)
"""
    path = tmp_path / "a folder % with ? and #" / "other.sqlite"
    path.parent.mkdir()
    subprocess.run([sys.executable, "-c", script, path], check=True)
    assert path.with_name("other.sqlite-wal").stat().st_size
    journal.take(path, statuses=STATUSES)
    assert journal.done().height == 1


def test_what_is_no_journal_is_not_taken_over(tmp_path, journal) -> None:
    journal.record([call(0)])
    foreign, old = tmp_path / "foreign.sqlite", tmp_path / "old.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE calls (a)")
    connection.close()
    Journal.open(old).close()
    with sqlite3.connect(old) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    (tmp_path / "text.sqlite").write_text("no database")
    for name, said in (("foreign", "is no journal"), ("old", "version 2"), ("text", "not a database")):
        with pytest.raises(RunFolderError, match=rf"{name}\.sqlite.*{said}"):
            journal.take(tmp_path / f"{name}.sqlite", statuses=STATUSES)
    assert journal.generations().height == 1
    journal.record([call(1)])  # it goes on


@given(st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode)), st.integers(1, COMPRESS_FROM))
def test_a_raw_reply_comes_back_byte_for_byte(raw: bytes, times: int) -> None:
    packed = pack_raw(raw * times)
    assert unpack_raw(packed) == (raw * times or None)
    assert not isinstance(packed, str) or len(packed) < COMPRESS_FROM


def test_raw_replies_of_any_size_are_in_the_journal(tmp_path) -> None:
    replies = [b"", b'{"text":"\x00 Gr\xc3\xb6\xc3\x9fe"}', b"\xff\xfe", b"long " * 10_000]
    with Journal.open(tmp_path / "journal") as journal:
        journal.record([call(index, raw=raw) for index, raw in enumerate(replies)])
    with Journal.open(tmp_path / "journal") as journal:
        assert [journal.raw("m", "t", index) for index in range(4)] == [None, *replies[1:]]
    assert (tmp_path / "journal").stat().st_size < 50_000
