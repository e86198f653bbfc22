"""Several runs put together: the models of all, one version, no call."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import OptionError, VersionMismatch
from evalframe.generate.journal import Journal
from evalframe.runner import load, resume


def test_runs_of_single_models_are_the_run_of_both(suite, Counting, same_frames) -> None:
    a = ef.run(suite("a", "b"), Counting("one", wrong="3", fails="5"), progress=False)
    b = ef.run(suite("a", "b"), Counting("two", wrong="1"), progress=False)
    whole = ef.run(suite("a", "b"), [Counting("one", wrong="3", fails="5"), Counting("two", wrong="1")], progress=False)
    both = ef.concat([a, b])
    same_frames(both, whole)
    assert both.record["version"] == whole.record["version"] == a.record["version"]
    assert both.record["status"] == "complete"
    assert [parent["run_id"] for parent in both.record["derived_from"]] == [a.record["run_id"], b.record["run_id"]]
    assert both.pairwise().equals(whole.pairwise())


def test_the_order_of_runs_changes_no_figure(suite, Counting) -> None:
    a, b = (ef.run(suite(), Counting(name, wrong=wrong), progress=False) for name, wrong in (("x", "1"), ("y", "2 3")))
    assert ef.concat([a, b]).scores.equals(ef.concat([b, a]).scores)


def test_exports_and_raw_replies_come_along(suite, Counting, same_frames, tmp_path: Path) -> None:
    a, b = (ef.run(suite(), Counting(name), progress=False) for name in "ab")
    exported = load(b.to_parquet(tmp_path / "export"))
    same_frames(ef.concat([a, exported]), ef.concat([a, b]))
    both = ef.concat([a, b])
    with Journal.open(both.folder.journal_path) as journal:
        assert journal.raw("b", "sums", 2) == b"{}"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"target_template": "{{question}}"}, "the target differs"),
        ({"output_extraction": {"type": "number"}}, "the extraction differs"),
        ({"metrics": [{"id": "f1"}]}, "the metrics differ"),
        ({"prompt_template": "Q: {{question}}"}, "the prompt differs"),
    ],
)
def test_any_difference_is_refused_unless_it_is_accepted(suite, Counting, tmp_path, changes, part: str) -> None:
    a = ef.run(suite(), Counting("one", wrong="3"), progress=False)
    b = ef.run(suite(**changes), Counting("two", wrong="3"), progress=False)
    with pytest.raises(VersionMismatch, match=rf"task sums: {part}.* -> .*across_versions=True"):
        ef.concat([a, b], out=tmp_path / "never")
    assert not (tmp_path / "never").exists()
    both = ef.concat([a, b], across_versions=True)
    assert both.rows.equals(a.rows)
    assert not [note for note in both.leaderboard().notes if "only a later run has" in note]
    assert both.scores.filter(pl.col("model_id") == "one").equals(a.scores)
    assert any("runs of different versions: not the same" in note for note in both.leaderboard().notes)


def test_across_versions_samples_meet_by_id_and_the_first_run_defines_the_task(
    suite, Counting, write_jsonl, same_frames
) -> None:
    a = ef.run(suite(), Counting("one"), progress=False)
    write_jsonl([{"id": f"q{i}", "question": f"{i} + 1?", "answer": i + 1} for i in (7, 3, 5)])
    b = ef.run(suite(output_extraction={"type": "number"}, type="math"), Counting("two", wrong="3"), progress=False)
    both = ef.concat([a, b], across_versions=True)
    assert both.rows["sample_id"].to_list() == ["q0", "q1", "q2", "q3", "q4", "q5", "q7"]
    assert both.rows["category"].unique().to_list() == ["qa"]
    assert both.rows["extraction"].n_unique() == 1
    done = both.samples.filter(pl.col("status") == "completed")
    assert done.filter(pl.col("model_id") == "two").select("sample_id", "output_text", "score").rows() == [
        ("q3", "0", 0.0), ("q5", "6", 1.0), ("q7", "8", 1.0),
    ]  # fmt: skip
    assert both.record["status"] == "partial"
    one, two = Counting("one"), Counting("two")
    filled = resume(both.path, [one, two], progress=False)
    assert [sample for sample, _ in one.seen] == ["q7"]
    assert sorted(sample for sample, _ in two.seen) == ["q0", "q1", "q2", "q4"]
    assert filled.record["status"] == "complete"


def test_tasks_of_one_run_alone_need_to_be_accepted(suite, Counting) -> None:
    a = ef.run(suite("a"), Counting("one"), progress=False)
    b = ef.run(suite("b"), Counting("one"), progress=False)
    with pytest.raises(VersionMismatch, match="task a: only one of the runs has this task"):
        ef.concat([a, b])
    both = ef.concat([a, b], across_versions=True)
    assert both.record["status"] == "complete"
    assert both.task_metrics.select("task_id", "value").rows() == [("a", 1.0), ("b", 1.0)]
    assert [task["id"] for task in both.folder.manifest()["tasks"]] == ["a", "b"]


def test_parts_of_one_suite_are_one_version(suite, Counting, same_frames) -> None:
    a = ef.run(suite("a", "b"), Counting("one"), task_ids=["a"], progress=False)
    b = ef.run(suite("a", "b"), Counting("one"), task_ids=["b"], progress=False)
    same_frames(ef.concat([a, b]), ef.run(suite("a", "b"), Counting("one"), progress=False))


def test_fewer_samples_of_a_model_are_shown_as_skipped(suite, Counting) -> None:
    a = ef.run(suite(), Counting("one"), progress=False)
    b = ef.run(suite(), Counting("two"), max_samples_per_task=2, progress=False)
    board = ef.concat([a, b]).leaderboard()
    assert dict(board.select("model_id", "n_skipped").iter_rows()) == {"one": 0, "two": 4}
    assert dict(ef.concat([b, a]).leaderboard().select("model_id", "n_skipped").iter_rows()) == {"one": 0, "two": 4}


def test_more_repeats_of_one_run_are_kept(suite, Counting) -> None:
    a = ef.run(suite(), Counting("one"), progress=False)
    b = ef.run(suite(), Counting("two"), repeats=2, generation={"temperature": 1}, progress=False)
    both = ef.concat([a, b])
    assert both.scores.height == 6 + 12
    assert "the runs were made with different generation settings; run.json of each says which" in (
        both.leaderboard().notes
    )


def test_the_same_call_twice_is_refused(suite, Counting) -> None:
    run = ef.run(suite(), [Counting("one"), Counting("two")], progress=False)
    with pytest.raises(OptionError, match=r"same samples by one, two; leave one run out.*extend\(repeats"):
        ef.concat([run, run])


def test_what_is_no_list_of_runs_is_refused(suite, Counting, fixtures: Path) -> None:
    run = ef.run(suite(), Counting("one"), progress=False)
    with pytest.raises(OptionError, match=r"concat takes a list of runs, as in evalframe.concat\(\[a, b\]\)"):
        ef.concat([run, "results"])
    with pytest.raises(OptionError, match=r"takes a list of runs"):
        ef.concat(run)
    with pytest.raises(OptionError, match="give two or more"):
        ef.concat([run])
    tasks = ef.run(fixtures / "tasks.jsonl", "mock/rule_based", allow_unsandboxed=True, progress=False)
    with pytest.raises(OptionError, match="can not be one run"):
        ef.concat([run, tasks], across_versions=True)


def test_task_files_are_put_together(fixtures: Path, same_frames) -> None:
    options = {"allow_unsandboxed": True, "progress": False}
    a, b = (ef.run(fixtures / "tasks.jsonl", model, **options) for model in ("mock/rule_based", "mock/noisy"))
    whole = ef.run(fixtures / "tasks.jsonl", ["mock/rule_based", "mock/noisy"], **options)
    same_frames(ef.concat([a, b]), whole)


def test_repeats_by_category_hold_where_another_run_names_the_category_otherwise(suite, Counting) -> None:
    options = {"generation": {"temperature": 1}, "progress": False}
    a = ef.run(suite(), Counting("one"), repeats={"qa": 2}, **options)
    b = ef.run(suite(type="math"), Counting("two"), repeats={"math": 2}, **options)
    both = ef.concat([a, b])
    assert (both.record["status"], both.generations.height) == ("complete", 24)


def test_samples_that_were_named_in_two_ways_are_not_doubled_unasked(suite, Counting, tmp_path: Path) -> None:
    a = ef.run(suite(), Counting("one"), progress=False)
    b = ef.run(suite(), Counting("two"), sample_ids="content", progress=False)
    with pytest.raises(OptionError, match=r"sample_ids='auto' and 'content'; run again with one.*across_versions"):
        ef.concat([a, b], out=tmp_path / "never")
    assert not (tmp_path / "never").exists()
    named = [ef.run(suite("s", "t"), Counting("x"), sample_ids=word, task_ids=[task], progress=False)
             for task, word in (("s", "auto"), ("t", "content"))]  # fmt: skip
    assert ef.concat(named).record["status"] == "complete"  # they have no task in common
    both = ef.concat([a, b], across_versions=True)
    assert both.rows.height == 12
    assert any("named by sample_ids='auto' and 'content'" in note for note in both.leaderboard().notes)


def test_code_that_a_later_run_was_allowed_to_run_may_be_scored_again(suite, Counting) -> None:
    a = ef.run(suite("words"), Counting("one"), progress=False)
    code = suite("code", metrics=[{"id": "code_exec"}], target_template="assert 1 == 1")
    b = ef.run(code, Counting("one"), max_samples_per_task=1, allow_unsandboxed=True, progress=False)
    both = ef.concat([a, b], across_versions=True)
    assert both.scores["metric"].unique().sort().to_list() == ["code_exec", "exact_match"]
    assert both.record["options"]["allow_unsandboxed"] is True


def test_metadata_of_a_task_is_that_of_the_first_run_in_all_its_columns(suite, Counting) -> None:
    a = ef.run(suite(metadata={"page": 1}), Counting("one"), max_samples_per_task=2, progress=False)
    b = ef.run(suite(metadata={"page": 2, "more": "x"}), Counting("two"), progress=False)
    rows = ef.concat([a, b]).rows
    assert rows["metadata"].unique().to_list() == ['{"page":1}']
    assert rows["metadata.page"].to_list() == ["1"] * 6
    assert rows["metadata.more"].null_count() == 6


def test_samples_with_another_target_than_the_first_run_has_are_counted(suite, Counting) -> None:
    a = ef.run(suite(), Counting("one"), max_samples_per_task=2, progress=False)
    b = ef.run(suite(target_template="is {{answer}}"), Counting("two"), progress=False)
    both = ef.concat([a, b], across_versions=True)
    assert both.rows["target"].to_list() == ["1", "2", "is 3", "is 4", "is 5", "is 6"]
    assert "samples that only a later run has keep its prompt and target: 4" in both.leaderboard().notes


def test_where_to_write_is_looked_at_first(suite, Counting) -> None:
    runs = [ef.run(suite(), Counting(name), progress=False) for name in "ab"]
    with pytest.raises(OptionError, match="out: True is no folder"):
        ef.concat(runs, out=True)


def test_repeats_of_a_category_stay_those_of_the_calls_when_the_category_goes(suite, Counting) -> None:
    options = {"generation": {"temperature": 1}, "progress": False, "repeats": {"qa": 2}}
    first, second = suite("a", "b"), suite("a")
    first["tasks"][0]["type"] = "math"
    a, b = ef.run(first, Counting("one"), **options), ef.run(second, Counting("two"), **options)
    both = ef.concat([a, b], across_versions=True)
    assert both.record["options"]["repeats"] == {"a": 2, "b": 2}
    calls = both.generations.filter(pl.col("status") == "completed").group_by("model_id", "task_id").len()
    assert sorted(calls.iter_rows()) == [("one", "a", 6), ("one", "b", 12), ("two", "a", 12)]
