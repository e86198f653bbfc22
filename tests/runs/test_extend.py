"""A run that goes on as a new run: failed calls, more models, more repeats; no finished call is repeated."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import evalframe as ef
from evalframe.errors import AdapterError, OptionError, RunFolderError
from evalframe.generate import lanes
from evalframe.runner import load, resume


def test_only_what_has_no_reply_is_called_again(suite, Counting, same_frames, tmp_path: Path) -> None:
    flaky, steady = Counting("flaky", fails="1 4"), Counting("steady", wrong="2")
    run = ef.run(suite(), [flaky, steady], out=tmp_path / "run", progress=False)
    before = (run.path / "journal.sqlite").read_bytes()
    flaky.fails, flaky.seen, steady.seen = "", [], []
    again = run.rerun_failed([flaky])
    assert sorted(flaky.seen) == [("q1", 0), ("q4", 0)]
    assert steady.seen == []
    same_frames(again, ef.run(suite(), [Counting("flaky"), Counting("steady", wrong="2")], progress=False))
    assert load(run.path).failures().height == 2
    assert (run.path / "journal.sqlite").read_bytes() == before
    assert again.record["derived_from"][0]["how"] == "rerun_failed"


def test_what_fails_again_stays_a_row(suite, Counting) -> None:
    run = ef.run(suite(), Counting(fails="1 4"), progress=False)
    again = run.rerun_failed([Counting(fails="4")])
    assert again.failures()["sample_id"].to_list() == ["q4"]
    assert again.record["status"] == "complete"


def test_a_run_without_failures_has_nothing_to_rerun(suite, Counting) -> None:
    with pytest.raises(OptionError, match="nothing to call again"):
        ef.run(suite(), Counting(), progress=False).rerun_failed([Counting()])


def test_a_model_that_must_be_called_is_asked_for(suite, Counting) -> None:
    run = ef.run(suite(), [Counting("a", fails="1"), Counting("b")], progress=False)
    with pytest.raises(AdapterError, match=r"objects have calls to make: a; hand them in again.*models=\[a\]"):
        run.rerun_failed()
    with pytest.raises(OptionError, match="strange: no model of this run, which has a, b"):
        run.rerun_failed([Counting("strange")])


@pytest.mark.parametrize("parallel", [True, False])
def test_more_models_equal_a_run_of_all_of_them(suite, Counting, same_frames, parallel: bool) -> None:
    one, two = Counting("one", wrong="3"), Counting("two", wrong="1 2")
    run = ef.run(suite("a", "b"), one, progress=False, parallel=parallel)
    one.seen.clear()
    more = run.extend([two, "mock/rule_based"])
    assert one.seen == []
    assert Counter(two.seen) == Counter([(f"q{i}", 0) for i in range(6)] * 2)
    whole = ef.run(suite("a", "b"), [Counting("one", wrong="3"), Counting("two", wrong="1 2"), "mock/rule_based"],
                   progress=False)  # fmt: skip
    same_frames(more, whole)
    assert more.record["models"] == whole.record["models"]


def test_more_repeats_call_all_models_only_for_those(suite, Counting, same_frames) -> None:
    one = Counting("one")
    run = ef.run(suite("a", "b"), [one, "mock/rule_based"], progress=False)
    one.seen.clear()
    more = run.extend([one], repeats={"a": 3})
    assert Counter(one.seen) == Counter((f"q{i}", repeat) for i in range(6) for repeat in (1, 2))
    same_frames(more, ef.run(suite("a", "b"), [Counting("one"), "mock/rule_based"], repeats={"a": 3}, progress=False))
    assert more.record["options"]["repeats"] == {"a": 3}


def test_models_and_repeats_at_once(suite, Counting, same_frames) -> None:
    run = ef.run(suite(), Counting("one"), progress=False)
    more = run.extend([Counting("one"), Counting("two")], repeats=2)
    same_frames(more, ef.run(suite(), [Counting("one"), Counting("two")], repeats=2, progress=False))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing is added -> give models= that the run has not, or more repeats="),
        ({"repeats": 2}, "nothing is added"),
        ({"repeats": 1}, "task sums has 2 repeats and would get 1"),
        ({"repeats": 0}, "repeats: 0 is out of range"),
        ({"repeats": {"sum": 3}}, "neither a task nor a category -> did you mean 'sums'"),
        ({"models": ["mock/rule_based"]}, "the run has 'mock/rule_based' already"),
        ({"models": "mock/nothing"}, "mock/nothing"),
    ],
)
def test_what_adds_nothing_or_takes_away_is_refused(suite, tmp_path: Path, given: dict, said: str) -> None:
    run = ef.run(suite(), "mock/rule_based", repeats=2, progress=False, generation={"temperature": 1})
    with pytest.raises(OptionError, match=said):
        run.extend(**given, out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_an_extension_that_is_interrupted_can_be_resumed(suite, Counting, same_frames, monkeypatch, tmp_path) -> None:
    crews = []

    class Crew(lanes._Crew):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            crews.append(self)

    class Stopping(Counting):
        def generate(self, prompt, task):
            if task.sample_id == "q2":
                signal.pthread_kill(lanes.threading.main_thread().ident, signal.SIGINT)
                assert crews[-1].halt.wait(60)
            return super().generate(prompt, task)

    run = ef.run(suite(), Counting("one"), progress=False, parallel=False)
    monkeypatch.setattr(lanes, "_Crew", Crew)
    with pytest.raises(KeyboardInterrupt):
        run.extend([Stopping("two")], out=tmp_path / "more")
    partial = load(tmp_path / "more")
    assert partial.record["status"] == "partial"
    assert (partial.generations["status"] == "skipped").sum() == 3
    two = Counting("two")
    same_frames(
        resume(tmp_path / "more", [two], progress=False),
        ef.run(suite(), [Counting("one"), Counting("two")], progress=False),
    )
    assert [sample for sample, _ in two.seen] == ["q3", "q4", "q5"]


def test_an_export_can_be_extended(suite, Counting, same_frames, tmp_path: Path) -> None:
    run = ef.run(suite(), Counting("one", fails="1"), progress=False)
    exported = load(run.to_parquet(tmp_path / "export"))
    same_frames(exported.extend([Counting("two")]), run.extend([Counting("two")]))
    assert exported.rerun_failed([Counting("one")]).failures().is_empty()


def test_costs_are_those_of_the_whole_run(suite, Counting) -> None:
    more = ef.run(suite(), Counting("one"), progress=False).extend([Counting("two")])
    assert any("are counted with what they cost there" in note for note in more.costs().notes)
    assert more.costs().select("model_id", "total_tokens", "n_calls").rows() == [("one", 66, 6), ("two", 66, 6)]


def test_run_json_of_an_extension_holds_no_path_of_a_model_object(suite, Counting) -> None:
    more = ef.run(suite(), Counting("one"), progress=False).extend([Counting("two")])
    assert [entry["spec"] for entry in json.loads((more.path / "run.json").read_text())["models"]] == [None, None]


KILLED = """
import os, signal, sys
import evalframe as ef
from evalframe.adapters import Generation
from evalframe.runner import load

class Two:
    model_id = "two"

    def generate(self, prompt, task):
        if task.sample_id == "q3":
            os.kill(os.getpid(), signal.SIGKILL)
        return Generation(task.targets[0], input_tokens=10, output_tokens=1, raw=b"{}")

load(sys.argv[1]).extend([Two()], out=sys.argv[2], progress=False)
"""


def test_an_extension_that_was_killed_goes_on_where_it_was(suite, Counting, same_frames, tmp_path: Path) -> None:
    run = ef.run(suite(), Counting("one"), out=tmp_path / "run", parallel=False, progress=False)
    killed = subprocess.run([sys.executable, "-c", KILLED, run.path, tmp_path / "more"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert load(tmp_path / "more").generations["status"].to_list() == ["completed"] * 9 + ["skipped"] * 3
    two = Counting("two")
    whole = ef.run(suite(), [Counting("one"), Counting("two")], progress=False)
    same_frames(resume(tmp_path / "more", [two], progress=False), whole)
    assert [sample for sample, _ in two.seen] == ["q3", "q4", "q5"]


def test_a_folder_that_was_given_up_before_its_calls_were_there_holds_no_run(
    suite, Counting, tmp_path: Path, monkeypatch
) -> None:
    run = ef.run(suite(), Counting("one"), progress=False)

    def killed(*args, **options) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evalframe.generate.journal.Journal.take", killed)
    with pytest.raises(KeyboardInterrupt):
        run.extend([Counting("two")], out=tmp_path / "more", progress=False)
    with pytest.raises(RunFolderError, match="holds no run"):
        resume(tmp_path / "more", [Counting("two")])


def test_calls_that_were_taken_over_and_are_lost_are_not_paid_again(suite, Counting, tmp_path: Path) -> None:
    run = ef.run(suite(), Counting("one"), progress=False)
    more = run.extend([Counting("two")], progress=False)
    more.folder.journal_path.unlink()
    with pytest.raises(RunFolderError, match="the finished calls are not known"):
        resume(more.path, [Counting("one"), Counting("two")])


def test_the_folder_of_the_old_run_is_only_read(suite, Counting, tmp_path: Path) -> None:
    run = ef.run(suite(), Counting("one", fails="1"), out=tmp_path / "run", progress=False)

    def stand() -> list[tuple[str, int]]:
        return sorted((path.name, path.stat().st_mtime_ns) for path in run.path.iterdir())

    before = stand()
    run.extend([Counting("two")], progress=False)
    run.rerun_failed([Counting("one")], progress=False)
    run.rescore(extract="number")
    assert stand() == before


@pytest.mark.parametrize("out", [True, 3])
def test_where_to_write_is_looked_at_first(suite, Counting, out) -> None:
    run = ef.run(suite(), Counting("one", fails="1"), progress=False)
    for going_on in (lambda: run.extend([Counting("two")], out=out), lambda: run.rerun_failed([Counting()], out=out)):
        with pytest.raises(OptionError, match=f"out: {out} is no folder -> give a path, None or False"):
            going_on()
