"""A leaderboard says what its figures do not show."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import evalframe as ef
from evalframe.runner import _run

N = 8
TASK = {"category": "arithmetic", "metric_name": "exact_match", "post_process": "none"}
SOURCE = [{"task_id": f"t{i}", "prompt": f"Say {i}", "targets": [str(i)], **TASK} for i in range(N)]


def model(name: str, *, right: int, fails: int = 0) -> Any:
    """A model that answers the first so many tasks rightly and gives no reply to the last ones."""

    def answer(prompt: str) -> str:
        number = int(prompt.split()[-1])
        if number >= N - fails:
            raise ConnectionError("down")
        return str(number) if number < right else "x"

    return ef.from_callable(name, answer)


def notes(*models: Any, **options: Any) -> tuple[str, ...]:
    board = ef.run(SOURCE, list(models), out=False, progress=False).leaderboard(**options)
    return getattr(board, "notes", ())


def test_nothing_to_say_is_no_note() -> None:
    assert notes(model("a", right=8), model("b", right=2)) == ()


def test_coverage_that_differs_is_told_with_the_way_out() -> None:
    (note, *_) = notes(model("a", right=1, fails=1), model("b", right=8))
    assert note.startswith("models have scores of different numbers of samples (a 7, b 8, of 8); common=True")


def test_an_order_that_failures_could_turn_is_told() -> None:
    unreliable, steady = model("unreliable", right=2, fails=3), model("steady", right=4)
    (_, note) = notes(unreliable, steady)
    assert "the order would change if failed samples had been right: unreliable above steady" in note
    assert notes(unreliable, steady, failures="zero") == ()


def test_an_order_that_failures_may_have_made_is_told() -> None:
    lucky, steady = model("lucky", right=2, fails=6), model("steady", right=6)
    (_, note) = notes(lucky, steady)
    assert "the order would change if failed samples counted as the worst score: lucky below steady" in note
    assert notes(lucky, steady, failures="zero") == ()


def test_replies_that_lack_are_told_where_coverage_does_not_differ() -> None:
    (note,) = notes(model("a", right=2, fails=6))
    assert note == "samples without a reply are in no mean: a (6 failed, of 8); failures() says why"
    (note,) = notes(model("dead", right=0, fails=8), model("b", right=8))
    assert "no mean: dead (8 failed, of 8);" in note
    assert notes(model("a", right=2, fails=6), failures="zero") == ()


def test_samples_that_were_not_called_are_told() -> None:
    stop = threading.Event()

    class Stopping:
        model_id = "m"

        def generate(self, prompt: str, task: Any) -> ef.Generation:
            stop.set()
            return ef.Generation(prompt)

    run = _run(SOURCE, Stopping(), {"out": False, "progress": False, "parallel": False}, stop=stop)
    assert run.leaderboard().notes == (
        "samples without a reply are in no mean: m (7 not called, of 8); failures() says why",
    )
    assert "    m  0.000  (7 of 8 without a reply)" in repr(run)


def test_a_task_in_no_combined_mean_is_named(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text('{"q": "Say 1", "a": "1"}\n{"q": "Say 2", "a": "2"}\n')
    task = {"type": "qa", "dataset": {"file_id": "rows"}, "prompt_template": "{{q}}", "target_template": "{{a}}"}
    metrics = [{"id": "exact_match"}], [{"id": "f1", "higher_is_better": False}]
    manifest = {"tasks": [{"id": f"t{i}", "metrics": m, **task} for i, m in enumerate(metrics)]}
    run = ef.run(manifest, model("a", right=4), files={"rows": data}, out=False, progress=False)
    board = run.leaderboard()
    assert board.notes == (
        "not in the combined mean, because lower is better or scores leave [0, 1]: t1 (f1); "
        "rank a metric alone with metric=",
    )
    assert "note: not in the combined mean" in repr(board)
    assert "<p>not in the combined mean" in board._repr_html_()
    assert run.envelope()["notes"] == list(board.notes)


@pytest.mark.parametrize("options", [{"common": True}, {"weighting": "sample"}])
def test_the_figures_are_the_same_with_notes(options: dict[str, Any]) -> None:
    run = ef.run(SOURCE, [model("a", right=3, fails=1), model("b", right=4)], out=False, progress=False)
    board = run.leaderboard(**options)
    assert board["mean_score"].null_count() == 0
    assert type(board.sort("model_id")).__name__ == "DataFrame"


def test_a_run_draws_clusters_and_weighs() -> None:
    run = ef.run(SOURCE, [model("a", right=5), model("b", right=2)], out=False, progress=False)
    board = run.leaderboard(cluster="row.prompt", weighting="sample")
    assert board.notes[-1].startswith("no two samples share row.prompt")
    together = run.leaderboard(cluster="category")
    assert together["ci_method"].to_list() == ["none: one cluster"] * 2
    assert any(note.startswith("all samples are of one cluster (category)") for note in together.notes)
    assert any(note.startswith("all samples are of one cluster") for note in run.pairwise(cluster="category").notes)
    assert run.slice("category", cluster="category")["mean_ci_lo"].to_list() == [None, None]
