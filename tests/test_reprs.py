"""What things say of themselves, and what can be done next."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import evalframe as ef
from evalframe import presenting, schemas
from evalframe.errors import DatasetError, Fault
from evalframe.manifest.suite import parse_suite
from evalframe.options import RunOptions
from evalframe.registry import METRICS
from evalframe.reprs import changed, dollars, short


@pytest.fixture
def run(fixtures: Path, tmp_path: Path) -> ef.Run:
    return ef.run(fixtures / "suite.json", ef.replay(fixtures / "outputs.jsonl"), out=tmp_path / "r", progress=False)


def test_a_run_says_how_it_went_and_what_comes_next(run: ef.Run) -> None:
    text = repr(run)
    assert text.startswith(f"Run {run.record['run_id']}, complete: 2 models x 1 task, 40 calls (39 scored, 1 unparsed)")
    assert "careful  1.000\n" in text
    assert "hasty    0.500\n" in text
    assert ".failures() (1)" in text
    assert ".leaderboard()" in text
    assert text.endswith(str(run.path))


def test_failed_calls_can_be_made_again(fixtures: Path) -> None:
    run = ef.run(fixtures / "suite.json", ef.from_callable("down", lambda prompt: 1 / 0), out=False, progress=False)
    assert ".failures() (20), .rerun_failed(…)" in repr(run)


def test_a_run_without_failed_calls_offers_no_calls_again(run: ef.Run) -> None:
    assert "rerun_failed" not in repr(run)


def test_one_call_is_no_calls() -> None:
    run = ef.evaluate(pl.DataFrame({"gold": ["1"], "a": ["1"]}), prediction="a", targets="gold", metrics=["f1"])
    assert "1 model x 1 task, 1 call (1 scored)" in repr(run)


def test_limits_show_what_is_not_the_default() -> None:
    assert repr(ef.Limits()) == "Limits()"
    assert repr(ef.Limits(models=30)) == "Limits(models=30)"


def test_a_notebook_shows_the_leaderboard_and_escapes_names(fixtures: Path) -> None:
    model = ef.from_callable("<b>&", lambda prompt: "1")
    html = ef.run(fixtures / "suite.json", model, out=False, progress=False)._repr_html_()
    assert "<table" in html
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in html


def test_a_long_name_of_two_lines_is_one_short_line(fixtures: Path) -> None:
    model = ef.from_callable("a\nb" + "c" * 100, lambda prompt: "1")
    lines = repr(ef.run(fixtures / "suite.json", model, out=False, progress=False)).splitlines()
    assert lines[1].startswith(f"    a b{'c' * 56}…  0.")


def test_a_partial_run_says_how_to_go_on(run: ef.Run) -> None:
    run.folder.update_record(status="partial")
    text = repr(ef.Run(run.folder))
    assert "calls were not made; go on with: evalframe.resume(" in text
    assert "[careful, hasty]" in text


def test_a_run_that_was_killed_says_what_opens_it(run: ef.Run) -> None:
    run.folder.drop_results()
    run.folder.update_record(status="running")
    assert f"next: evalframe.load({str(run.path)!r})" in repr(ef.Run(run.folder))


@pytest.mark.parametrize("damage", ["gone", "options", "record", "frame"])
def test_a_run_that_can_not_be_read_says_so_and_raises_nothing(run: ef.Run, damage: str) -> None:
    if damage == "gone":
        shutil.rmtree(run.path)
    elif damage == "options":
        run.folder.update_record(options={})
    else:
        (run.path / ("run.json" if damage == "record" else "task_metrics.parquet")).write_text("<x>")
    for shown in (repr(ef.Run(run.folder)), ef.Run(run.folder)._repr_html_()):
        assert "which can not be read" in shown
        assert str(run.path) in shown


def test_a_large_run_is_described_without_its_scores(run: ef.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presenting, "MOST_CALLS", 39)
    shutil.rmtree(run.path / "scores")  # not looked at
    assert "40 calls (39 scored, 1 unparsed)" in repr(ef.Run(run.folder))
    assert "<table" not in ef.Run(run.folder)._repr_html_()


def test_a_task_a_suite_and_a_record_of_a_task_file(fixtures: Path) -> None:
    suite = parse_suite(json.loads((fixtures / "suite.json").read_text()))
    expected = (
        r"Task 'word_problems' (math) on questions.jsonl: prompt 'Question: {{question}}\nAnswer:', 2 examples, "
        "extraction number, scored by numeric_match"
    )
    assert str(suite.tasks[0]) == repr(suite.tasks[0]) == expected
    assert repr(suite) == f"Suite of 1 task\n  {expected}\nnext: evalframe.run(suite, models=[…])"
    assert repr(suite.tasks[0].dataset) == "Dataset(file_id='questions.jsonl')"
    record = repr(ef.load_fixtures()[0])
    assert record.startswith("TaskRecord(task_id='arith_001', category='arithmetic', prompt=")
    assert "row=" not in record


def test_a_suite_of_many_tasks_lists_the_first() -> None:
    task = {"type": "qa", "dataset": {"file_id": "x.jsonl"}, "target_template": "x", "metrics": [{"id": "f1"}]}
    suite = parse_suite({"tasks": [{**task, "id": f"t{index}"} for index in range(12)]})
    assert "Suite of 12 tasks" in repr(suite)
    assert "\n  and 2 more\n" in repr(suite)


def test_a_metric_says_its_range_and_how_to_try_it() -> None:
    text = repr(METRICS.get("numeric_match"))
    assert "scores 0 to 1, higher is better" in text
    assert "parameters: abs_tol=1e-09, rel_tol=0.0 (evalframe.metric_alias sets them)" in text
    assert text.endswith('try it: evalframe.score("numeric_match", "a prediction", ["a target"])')
    assert eval(text.split("try it: ")[1], {"evalframe": ef}) == 0.0
    assert "needs: prompt, row, metadata" in repr(METRICS.get("code_exec"))
    assert "combined by summed parts" in repr(METRICS.get("corpus_bleu_4"))


def test_an_error_lists_its_faults_to_a_bound() -> None:
    error = DatasetError.of([Fault(f"line {n}", "bad", "<is> bad", "mend it") for n in range(70)], what="rows.jsonl")
    lines = str(error).splitlines()
    assert lines[0] == "rows.jsonl: 70 faults"
    assert lines[50] == "  line 49: <is> bad -> mend it"
    assert lines[51:] == ["  and 20 more: the error's .faults is a frame of them all"]
    assert error.faults.height == 70
    assert "&lt;is&gt; bad" in error._repr_html_()


def test_records_show_what_is_not_the_default() -> None:
    assert repr(ef.Generation("hi", confidence=0.5)) == "Generation(text='hi', confidence=0.5)"
    assert repr(RunOptions(repeats=2)) == "RunOptions(repeats=2)"
    assert changed(RunOptions()) == []
    assert len(short("x" * 1_000)) == 60
    assert "raw=" not in repr(ef.Generation("hi", raw=b"secret"))


def test_a_schema_says_what_a_row_is() -> None:
    assert repr(schemas.SCORES).startswith(
        "scores: one number: a call and a metric; skipped calls have none\n  key: model_id"
    )
    html = schemas.LEADERBOARD._repr_html_()
    assert "one model, best first" in html
    assert "mean_ci_lo" in html


def test_dollars_are_written_for_people() -> None:
    assert [dollars(amount) for amount in (0, 1234.5, 0.42, 0.0949, 0.0042, 1e-7)] == [
        "$0.00", "$1,234.50", "$0.42", "$0.095", "$0.0042", "$0.00000010",
    ]  # fmt: skip
