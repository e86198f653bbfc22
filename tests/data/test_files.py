"""A file id means one file, or nothing."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from evalframe.data.files import FileStore
from evalframe.errors import DatasetError


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "somewhere" / "rows.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"a": 1}\n')
    return path


def test_a_given_file_comes_first(rows: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"{}\n")
    file_id = FileStore().add(rows)
    assert FileStore(files={file_id: other}).resolve(file_id) == other
    assert FileStore(files={"rows.jsonl": str(other)}, folder=rows.parent).resolve("rows.jsonl") == other


def test_a_given_file_that_is_gone_is_not_looked_for_elsewhere(rows: Path, tmp_path: Path) -> None:
    store = FileStore(files={"rows.jsonl": tmp_path / "gone", "f": tmp_path}, folder=rows.parent)
    with pytest.raises(DatasetError, match=r"was given as .*gone: there is no such file; check the path"):
        store.resolve("rows.jsonl")
    with pytest.raises(DatasetError, match="this is a folder; name a file"):
        store.resolve("f")


def test_a_registered_file_is_a_copy_named_by_its_content(rows: Path) -> None:
    content = rows.read_bytes()
    file_id = FileStore().add(rows)
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    assert file_id == f"file-{digest}"
    rows.write_bytes(b'{"a": 2}\n')
    found = FileStore().resolve(file_id)
    assert (found.name, found.read_bytes()) == ("rows.jsonl", content)
    assert FileStore().hash(file_id) == digest
    rows.unlink()
    assert FileStore().resolve(file_id).read_bytes() == content


def test_the_same_content_has_one_id_and_the_latest_name(rows: Path) -> None:
    store = FileStore()
    renamed = rows.rename(rows.with_name("rows.txt"))
    first = store.add(renamed)
    assert store.add(renamed) == first
    again = renamed.rename(rows)
    assert store.add(again) == first
    assert store.resolve(first).name == "rows.jsonl"
    assert store.list() == [{"id": first, "filename": "rows.jsonl", "bytes": 9, "purpose": "evals"}]


def test_a_registered_file_that_was_changed_is_refused(rows: Path) -> None:
    store = FileStore()
    file_id = store.add(rows)
    store.resolve(file_id).write_bytes(b'{"a": 9}\n')
    with pytest.raises(DatasetError, match=r"was changed after it was registered: .*register the original again"):
        FileStore().resolve(file_id)
    assert store.add(rows) == file_id
    assert store.resolve(file_id).read_bytes() == b'{"a": 1}\n'


def test_a_registered_file_that_lost_its_content_or_record(rows: Path) -> None:
    store = FileStore()
    file_id = store.add(rows)
    copy = store.resolve(file_id)
    copy.unlink()
    with pytest.raises(DatasetError, match="has lost its content: there is no such file"):
        store.resolve(file_id)
    (copy.parent.parent / "record.json").write_text('{"id": "other"}')
    with pytest.raises(DatasetError, match=r"the record is damaged .*register the file again"):
        store.resolve(file_id)
    with pytest.raises(DatasetError, match="there is no file 'nope'"):
        store.resolve("nope")


def test_a_record_can_not_lead_out_of_its_folder(rows: Path) -> None:
    store = FileStore()
    file_id = store.add(rows)
    record = store.resolve(file_id).parent.parent / "record.json"
    record.write_text(record.read_text().replace("rows.jsonl", "../../../x"))
    with pytest.raises(DatasetError, match="the record is not that of"):
        store.resolve(file_id)


def test_what_can_not_be_registered(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="can not be registered: there is no such file"):
        FileStore().add(tmp_path / "gone")
    with pytest.raises(DatasetError, match="can not be registered: this is a folder"):
        FileStore().add(tmp_path)
    assert FileStore().list() == []


def test_another_home(rows: Path, tmp_path: Path) -> None:
    store = FileStore(home=tmp_path / "mine")
    file_id = store.add(rows)
    assert store.resolve(file_id).is_relative_to(tmp_path / "mine")
    with pytest.raises(DatasetError, match="there is no file"):
        FileStore().resolve(file_id)


def test_a_path_inside_the_manifests_folder(rows: Path, tmp_path: Path) -> None:
    store = FileStore(folder=tmp_path)
    assert store.resolve("somewhere/rows.jsonl").read_bytes() == rows.read_bytes()
    assert store.hash("somewhere/rows.jsonl") == hashlib.blake2b(rows.read_bytes(), digest_size=16).hexdigest()
    with pytest.raises(DatasetError, match="this is a folder"):
        store.resolve("somewhere")


def test_no_way_out_of_the_manifests_folder(rows: Path, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    store = FileStore(folder=folder)
    for file_id in ("../somewhere/rows.jsonl", str(rows), "a/../../somewhere/rows.jsonl"):
        with pytest.raises(DatasetError, match=r"outside of the manifest's folder.*hand it in"):
            store.resolve(file_id)
    (folder / "link.jsonl").symlink_to(rows)
    (folder / "out").symlink_to(rows.parent)
    for file_id in ("link.jsonl", "out/rows.jsonl"):
        with pytest.raises(DatasetError, match=r"a link that leads out of the manifest's folder.*copy the file"):
            store.resolve(file_id)
    (folder / "real.jsonl").write_bytes(b"{}\n")
    (folder / "inner.jsonl").symlink_to(folder / "real.jsonl")
    assert store.resolve("inner.jsonl").read_bytes() == b"{}\n"
    (tmp_path / "alias").symlink_to(folder)
    assert FileStore(folder=tmp_path / "alias").resolve("real.jsonl").read_bytes() == b"{}\n"


def test_a_missing_file_says_where_it_was_looked_for(rows: Path, tmp_path: Path) -> None:
    file_id = FileStore().add(rows)
    store = FileStore(files={"file_train": rows}, folder=tmp_path)
    with pytest.raises(DatasetError) as caught:
        store.resolve("file_trian")
    message = str(caught.value)
    assert "not among the 1 given files, not among the 1 registered ones" in message
    assert f"not in the manifest's folder {tmp_path}" in message
    assert "did you mean 'file_train'?" in message
    assert "--files file_trian=PATH" in message
    assert "evalframe files add PATH" in message
    with pytest.raises(DatasetError, match=f"there is no manifest's folder; did you mean '{file_id}'"):
        FileStore().resolve("rows.jsonl")


@pytest.mark.parametrize("file_id", ["", "\x00", "x" * 5_000, "file-" + "0" * 32])
def test_odd_ids_are_no_files(file_id: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no file"):
        FileStore(folder=tmp_path).resolve(file_id)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file(rows: Path) -> None:
    rows.chmod(0)
    with pytest.raises(DatasetError, match="can not be read"):
        FileStore().add(rows)
