"""What a line is, and what is no task file at all."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from evalframe.errors import TaskFileError
from evalframe.manifest.taskfile import validate_file


def task(task_id: str, prompt: str = "1 + 1 =") -> bytes:
    record = {"task_id": task_id, "category": "arithmetic", "prompt": prompt, "targets": ["2"]}
    return json.dumps({**record, "metric_name": "f1", "post_process": "none"}, ensure_ascii=False).encode()


def ids_of(path: Path) -> list[str]:
    records, faults = validate_file(path)
    assert faults == []
    return [record.task_id for record in records]


@pytest.mark.parametrize(
    "content",
    [
        task("a") + b"\n" + task("b"),
        task("a") + b"\r\n" + task("b") + b"\r\n",
        b"\xef\xbb\xbf" + task("a") + b"\n" + task("b") + b"\n",
        b"\n\n" + task("a") + b"\n \t\r\n\n" + task("b") + b"\n\n",
        b"\xef\xbb\xbf\n" + b"  " + task("a") + b" \n" + task("b"),
    ],
    ids=["no last newline", "carriage returns", "byte order mark", "blank lines", "mark on a blank line"],
)
def test_lines(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    assert ids_of(path) == ["a", "b"]


@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\x85"])
def test_only_a_newline_ends_a_line(tmp_path: Path, char: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task("a", f"one{char}two") + b"\n" + task("b") + b"\n")
    records, faults = validate_file(path)
    assert faults == []
    assert [record.prompt for record in records] == [f"one{char}two", "1 + 1 ="]


@pytest.mark.parametrize("char", ["\x0b", "\x0c", "\x1c", "\r"])
def test_a_raw_control_character_is_one_bad_line_not_two(tmp_path: Path, char: str) -> None:
    # JSON wants it escaped; escaped it is legal and no end of a line
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task("a", "one#two").replace(b"#", char.encode()) + b"\n" + task("b", f"one{char}two"))
    records, (fault,) = validate_file(path)
    assert (fault.rule, fault.line_number) == ("bad_json", 1)
    assert [record.prompt for record in records] == [f"one{char}two"]


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\n" + task("a") + b"\n\r\n\n{\n")
    assert [fault.line_number for fault in validate_file(path)[1]] == [5]


def test_bytes_that_are_no_utf8_are_one_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(task("a", "caf\u00e9").decode().encode("latin-1") + b"\n" + task("b") + b"\n")
    records, (fault,) = validate_file(path)
    assert [record.task_id for record in records] == ["b"]
    assert fault.rule == "bad_json"
    assert "is not UTF-8; save the file as UTF-8" in fault.detail


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_a_file_without_tasks_breaks_no_rule(tmp_path: Path, content: bytes) -> None:
    for name, data in (("empty.jsonl", content), ("empty.jsonl.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        assert validate_file(path) == ([], [])


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + task("a") + b"\r\n") + gzip.compress(task("b", "日本")))
    assert ids_of(path) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.jsonl", task("a").decode().encode("utf-16"), "is UTF-16, not UTF-8; save it as UTF-8"),
        ("a.jsonl", task("a").decode().encode("utf-16-le"), "is UTF-16, not UTF-8; save it as UTF-8"),
        ("a.jsonl", task("a").decode().encode("utf-16-be"), "is UTF-16, not UTF-8; save it as UTF-8"),
        ("a.jsonl", task("a").decode().encode("utf-32"), "is UTF-32, not UTF-8; save it as UTF-8"),
        ("a.jsonl", gzip.compress(task("a"), mtime=0), "give it a name that ends in .gz"),
        ("a.jsonl", b"PAR1" + bytes(64) + b"PAR1", "write it as JSONL"),
        ("a.jsonl", b"PK\x03\x04" + bytes(64), "save it as JSONL"),
        ("a.jsonl", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "is a binary file"),
        ("a.gz", task("a"), "is no whole gzip file"),
        ("a.gz", gzip.compress(task("a") * 100, mtime=0)[:-12], "write it again"),
    ],
)
def test_what_is_no_text_says_what_to_do(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TaskFileError, match=str(path)) as caught:
        validate_file(path)
    assert what in str(caught.value)


def test_a_missing_file_suggests_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(task("a"))
    with pytest.raises(TaskFileError, match=r"there is no such file; did you mean '.*tasks\.jsonl'"):
        validate_file(tmp_path / "task.jsonl")
    with pytest.raises(TaskFileError, match="give the path of a JSONL file"):
        validate_file(tmp_path / "qqqq")
    with pytest.raises(TaskFileError, match=r"the folder .*nowhere is missing too"):
        validate_file(tmp_path / "nowhere" / "tasks.jsonl")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match=r"is a folder; name the task files in it"):
        validate_file(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(task("a") + b"\n" + task("b"),))
    writer.start()
    assert ids_of(path) == ["a", "b"]
    writer.join(timeout=60)
