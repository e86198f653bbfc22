"""The folder of runs: what is listed, which run a name means, which runs may go and which never do."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import evalframe as ef
from evalframe import demonstration, shelf
from evalframe.errors import OptionError, RunFolderError
from evalframe.store import RunFolder, runs_folder


def make_run(path: Path | None, **changes: object) -> ef.Run:
    run = ef.run(ef.load_fixtures()[:2], "mock/rule_based", out=path, progress=False)
    if changes:
        run.folder.update_record(**changes)
    return run


@pytest.fixture
def shelved(tmp_path: Path) -> Path:
    """Three runs of different age in one folder, and things that are no runs."""
    for days, name, status in ((1, "new", "complete"), (10, "middle", "partial"), (40, "old", "complete")):
        started = (NOW - timedelta(days=days)).isoformat(timespec="seconds")
        make_run(tmp_path / name, started_at=started, run_id=f"2026-{name}", status=status)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"format_version": 99}')
    (tmp_path / "link").symlink_to(tmp_path / "old", target_is_directory=True)
    return tmp_path


NOW = datetime(2026, 12, 1, tzinfo=UTC)


def names(entries: list[shelf.ShelfEntry]) -> list[str]:
    return [entry.path.name for entry in entries]


def test_runs_are_listed_the_newest_first_and_nothing_else_is(shelved: Path) -> None:
    found = shelf.list_runs(shelved)
    assert names(found) == ["new", "middle", "old"]
    first = found[0]
    assert first.run_id == "2026-new"
    assert first.status == "complete"
    assert first.task_ids == tuple(sorted(record.task_id for record in ef.load_fixtures()[:2]))
    assert first.models == ("mock/rule_based",)
    assert first.n_calls == 2
    assert first.n_bytes == sum(p.stat().st_size for p in (shelved / "new").rglob("*") if p.is_file())
    assert first.to_json()["started_at"] == "2026-11-30T00:00:00+00:00"


def test_the_users_own_folder_is_the_default() -> None:
    assert shelf.list_runs() == []
    run = make_run(None)
    (entry,) = shelf.list_runs()
    assert entry.path == run.path
    assert entry.path.parent == runs_folder()


def test_a_run_whose_process_is_gone_is_partial_and_one_that_is_held_is_running(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", status="running")
    assert shelf.list_runs(tmp_path)[0].status == "partial"
    with run.folder.locked():
        assert shelf.list_runs(tmp_path)[0].status == "running"
    os.unlink(tmp_path / "r" / "lock")
    assert shelf.list_runs(tmp_path)[0].status == "partial"


def test_a_run_with_damaged_rows_is_listed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    (run.path / "rows.parquet").write_bytes(b"junk")
    assert shelf.list_runs(tmp_path)[0].task_ids is None


def test_a_name_is_a_folder_an_id_or_its_beginning(shelved: Path) -> None:
    assert shelf.find_run(shelved / "new") == shelved / "new"
    assert shelf.find_run("2026-new", folder=shelved) == shelved / "new"
    assert shelf.find_run("2026-n", folder=shelved) == shelved / "new"
    assert shelf.find_run("mid", folder=shelved) == shelved / "middle"  # a folder's name, too
    with pytest.raises(OptionError, match="3 runs begin so: middle, new, old; write more of the id"):
        shelf.find_run("2026-", folder=shelved)


def test_an_exact_id_goes_before_those_that_begin_so(tmp_path: Path) -> None:
    make_run(tmp_path / "a", run_id="x")
    make_run(tmp_path / "b", run_id="xy")
    assert shelf.find_run("x", folder=tmp_path) == tmp_path / "a"


def test_what_names_no_run_is_told_with_the_nearest(shelved: Path, fixtures: Path) -> None:
    with pytest.raises(RunFolderError, match=r"did you mean '2026-middle'.*give the folder of a run, its id"):
        shelf.find_run("2026-midle", folder=shelved)
    with pytest.raises(RunFolderError, match=r"has no run yet.*evalframe runs list shows them"):
        shelf.find_run("2026")
    with pytest.raises(RunFolderError, match=r"it has no run\.json; give the folder that run\(\) wrote"):
        shelf.find_run(shelved / "thesis")
    with pytest.raises(OptionError, match=r"is a file, and a run is a folder; make one with evalframe run"):
        shelf.find_run(fixtures / "suite.json")
    with pytest.raises(RunFolderError, match="an empty name names no run; give the folder"):
        shelf.find_run("", folder=shelved)


def test_a_folder_of_runs_is_there_and_is_no_run(shelved: Path) -> None:
    with pytest.raises(OptionError, match="there is no such folder; give one that holds runs"):
        shelf.list_runs(shelved / "nowhere")
    with pytest.raises(OptionError, match="is a run itself: evalframe runs show"):
        shelf.list_runs(shelved / "new")


@pytest.mark.parametrize(
    ("conditions", "go"),
    [
        ({"keep": 1}, ["middle", "old"]),
        ({"keep": 0}, ["new", "middle", "old"]),
        ({"keep": 3}, []),
        ({"older_than_days": 5}, ["middle", "old"]),
        ({"older_than_days": 30.5}, ["old"]),
        ({"status": "partial"}, ["middle"]),
        ({"status": "complete", "older_than_days": 30}, ["old"]),
        ({"status": "complete", "keep": 1}, ["old"]),
    ],
)
def test_a_run_may_go_where_all_conditions_hold(shelved: Path, conditions: dict[str, object], go: list[str]) -> None:
    assert names(shelf.choose_runs(shelf.list_runs(shelved), now=NOW, **conditions)) == go  # type: ignore[arg-type]


def test_conditions_are_checked(shelved: Path) -> None:
    runs = shelf.list_runs(shelved)
    with pytest.raises(OptionError, match="give --keep N, --older-than DAYS or --status partial"):
        shelf.choose_runs(runs)
    with pytest.raises(OptionError) as told:
        shelf.choose_runs(runs, keep=-1, older_than_days=float("nan"), status="running")
    assert [fault.where for fault in told.value.fault_records] == ["--keep", "--older-than", "--status"]


def test_removing_takes_runs_and_nothing_else(shelved: Path) -> None:
    chosen = shelf.choose_runs(shelf.list_runs(shelved), keep=1, now=NOW)
    removed, kept = shelf.remove_runs(chosen)
    assert names(removed) == ["middle", "old"]
    assert kept == []
    there = sorted(path.name for path in shelved.iterdir() if path.name != "link")
    assert there == ["broken", "new", "notes.txt", "other", "thesis"]
    assert (shelved / "thesis" / "chapter.txt").read_text() == "years of work"


def test_a_run_that_is_written_stays(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", status="running")
    with run.folder.locked():
        assert shelf.choose_runs(shelf.list_runs(tmp_path), keep=0) == []
        run.folder.update_record(status="complete")  # its last step, while it still holds the folder
        removed, kept = shelf.remove_runs(shelf.choose_runs(shelf.list_runs(tmp_path), keep=0))
    assert removed == []
    assert "another process is writing this run; wait for it to end" in kept[0]
    assert ef.load(tmp_path / "r").scores.height == 2


def test_a_folder_that_became_something_else_stays(tmp_path: Path) -> None:
    make_run(tmp_path / "a", run_id="first")
    make_run(tmp_path / "b", run_id="second")
    chosen = shelf.list_runs(tmp_path)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.txt").write_text("years of work")
    RunFolder(tmp_path / "b").update_record(run_id="third")
    removed, kept = shelf.remove_runs(chosen)
    assert removed == []
    assert len(kept) == 2
    assert (tmp_path / "a" / "thesis.txt").exists()
    assert (tmp_path / "b" / "rows.parquet").exists()


def test_a_run_with_files_of_somebody_else_stays(tmp_path: Path) -> None:
    """Notes, another run kept inside, a link: what no run wrote is never removed."""
    for name in ("noted", "nested", "linked", "plain"):
        make_run(tmp_path / name)
    (tmp_path / "noted" / "notes.txt").write_text("mine")
    make_run(tmp_path / "nested" / "earlier")
    (tmp_path / "linked" / "thesis").symlink_to(tmp_path / "noted", target_is_directory=True)
    chosen = shelf.choose_runs(shelf.list_runs(tmp_path), keep=0)
    alone, staying = shelf.removable(chosen)
    assert names(alone) == names(run for run in chosen if run.path.name == "plain")
    removed, kept = shelf.remove_runs(chosen)
    assert (removed, sorted(kept)) == (alone, sorted(staying))
    assert {path.name for path in tmp_path.iterdir()} == {"noted", "nested", "linked"}
    assert f"{tmp_path / 'noted'} holds notes.txt, which no run wrote; move it away, and the run can go" in kept
    assert any("earlier/" in line and "more" in line for line in kept)
    (tmp_path / "noted" / "notes.txt").unlink()
    assert len(shelf.remove_runs(chosen)[0]) == 1


def test_what_runs_write_is_no_stranger(tmp_path: Path) -> None:
    """Also an export, a run that was killed in the middle of a file, and the demonstration."""
    run = make_run(tmp_path / "run")
    run.to_parquet(tmp_path / "export")
    (tmp_path / "run" / "journal.sqlite-wal").touch()
    (tmp_path / "run" / "scores" / ".00001.parquet.x1.tmp").touch()
    demonstration.run_demo(tmp_path / "demo")
    for name in ("run", "export", "demo"):
        assert RunFolder(tmp_path / name).strangers() == []
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    with pytest.raises(RunFolderError, match=r"holds mine\.txt, no part of a demonstration; move it away"):
        demonstration.run_demo(tmp_path / "demo")
    assert (tmp_path / "demo" / "mine.txt").read_text() == "mine"


def test_a_folder_with_a_record_of_something_else_is_no_run(shelved: Path) -> None:
    with pytest.raises(RunFolderError, match=r"run format 99, and this evalframe reads 1; open it with the evalframe"):
        shelf.find_run(shelved / "other")
    (shelved / "other" / "run.json").write_text('{"name": "npm run"}')
    with pytest.raises(RunFolderError, match=r"other holds no run: run\.json is no record of one; give the folder"):
        shelf.find_run(shelved / "other")
