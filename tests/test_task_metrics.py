"""SCORES -> TASK_METRICS: repeats within samples, samples within tasks, counts of fates."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from evalframe.errors import SchemaError, UnknownNameError
from evalframe.frames import check, example, from_records
from evalframe.metrics import Metric
from evalframe.metrics.overlap import bleu_value
from evalframe.registry import METRICS
from evalframe.schemas import GENERATIONS, ROWS, SCORES, TASK_METRICS
from evalframe.summarising import summarise_tasks
from tests.references.plain_metrics import bleu_parts


def choice(metric_id: str, aggregation: str = "mean", higher_is_better: bool = True) -> dict[str, Any]:
    return {"id": metric_id, "aggregation": aggregation, "higher_is_better": higher_is_better}


def make_rows(n: int = 9, **tasks: list[dict[str, Any]]) -> pl.DataFrame:
    base = example(ROWS, 1).row(0, named=True) | {"targets": ["a"]}
    records = [
        base | {"task_id": t, "sample_index": i, "sample_id": str(i), "category": f"kind of {t}", "metrics": metrics}
        for t, metrics in sorted(tasks.items())
        for i in range(n)
    ]
    return from_records(records, ROWS)


def make_scores(*records: tuple[Any, ...]) -> pl.DataFrame:
    """Scores from (model, task, sample, repeat, metric, score or fate[, parts])."""
    frame = [
        dict(zip(("model_id", "task_id", "sample_index", "repeat", "metric"), record, strict=False))
        | {"score": None if record[5] in ("failed", "grader_error") else 0.0 if record[5] == "unparsed" else record[5]}
        | {"fate": record[5] if isinstance(record[5], str) else "scored", "parts": (*record, None)[6]}
        for record in records
    ]
    return check(from_records(frame, SCORES), SCORES)


def make_generations(*records: tuple[str, str, int, str]) -> pl.DataFrame:
    blank = example(GENERATIONS, 1).row(0, named=True)
    keys = ("model_id", "task_id", "sample_index", "status")
    return from_records([blank | dict(zip(keys, record, strict=True)) for record in records], GENERATIONS)


def test_repeats_are_averaged_in_their_sample_first() -> None:
    scores = make_scores(
        ("m", "t", 0, 0, "f1", 1.0), ("m", "t", 0, 1, "f1", 1.0), ("m", "t", 0, 2, "f1", 0.4),
        ("m", "t", 1, 0, "f1", 0.0),
    )  # fmt: skip
    summary = summarise_tasks(scores, rows=make_rows(t=[choice("f1")]))
    assert summary["value"].to_list() == pytest.approx([(0.8 + 0.0) / 2], abs=1e-15)  # the mean of calls is 0.6
    assert summary.row(0, named=True) | {"value": 0} == {
        "model_id": "m", "task_id": "t", "metric": "f1", "category": "kind of t", "value": 0, "aggregation": "mean",
        "higher_is_better": True, "headline": True, "source": "aggregate", "n_samples": 4, "n_scored": 4,
        "n_unparsed": 0, "n_failed": 0, "n_grader_error": 0, "n_skipped": 0,
    }  # fmt: skip


def test_failed_calls_are_in_no_mean_and_unparsed_ones_are() -> None:
    scores = make_scores(
        ("m", "t", 0, 0, "f1", 1.0), ("m", "t", 0, 1, "f1", "failed"),
        ("m", "t", 1, 0, "f1", "unparsed"), ("m", "t", 1, 1, "f1", 0.5),
        ("m", "t", 2, 0, "f1", "failed"), ("m", "t", 2, 1, "f1", "grader_error"),
    )  # fmt: skip
    row = summarise_tasks(scores, rows=make_rows(t=[choice("f1")])).row(0, named=True)
    assert row["value"] == (1.0 + 0.25) / 2
    assert [row[f"n_{name}"] for name in ("scored", "unparsed", "failed", "grader_error")] == [2, 1, 2, 1]
    assert row["n_samples"] == 6


def test_the_headline_is_the_first_metric_with_a_mean() -> None:
    rows = make_rows(
        t=[choice("zeta", "none"), choice("mid"), choice("alpha")], u=[choice("alpha", "none")], v=[choice("alpha")]
    )
    scores = make_scores(*((m, t, 0, 0, i, 0.5) for m in "ab" for t, i in [
        ("t", "alpha"), ("t", "mid"), ("t", "zeta"), ("u", "alpha"), ("v", "alpha"),
    ]))  # fmt: skip
    summary = summarise_tasks(scores, rows=rows)
    headline = summary.filter("headline").select("model_id", "task_id", "metric").rows()
    assert headline == [(m, t, i) for m in "ab" for t, i in [("t", "mid"), ("v", "alpha")]]
    kept = summary.filter(aggregation="none").select("task_id", "metric", "value").unique(maintain_order=True).rows()
    assert kept == [("t", "zeta", None), ("u", "alpha", None)]


def test_a_metric_that_the_task_does_not_declare_is_kept_and_not_ranked() -> None:
    summary = summarise_tasks(make_scores(("m", "t", 0, 0, "extra", 0.5)), rows=make_rows(t=[choice("f1")]))
    assert summary.select("metric", "value", "aggregation", "headline", "n_scored").rows() == [
        ("extra", None, "none", False, 1)
    ]


def test_what_was_never_called_has_its_rows() -> None:
    rows = make_rows(t=[choice("f1"), choice("a_graders")], u=[choice("exact_match")])
    generations = make_generations(
        ("m", "t", 0, "completed"), ("m", "t", 1, "skipped"), ("m", "u", 0, "skipped"), ("n", "u", 0, "failed"),
    )  # fmt: skip
    scores = make_scores(("m", "t", 0, 0, "f1", 1.0), ("n", "u", 0, 0, "exact_match", "failed"))
    summary = summarise_tasks(scores, rows=rows, generations=generations)
    columns = ("model_id", "task_id", "metric", "value", "n_samples", "n_scored", "n_failed", "n_skipped")
    assert summary.select(columns).rows() == [
        ("m", "t", "f1", 1.0, 2, 1, 0, 1), ("m", "u", "exact_match", None, 1, 0, 0, 1),
        ("n", "u", "exact_match", None, 1, 0, 1, 0),
    ]  # fmt: skip
    outcomes = generations.select("model_id", "task_id", "sample_index", "repeat", "status")
    assert summarise_tasks(scores, rows=rows, generations=outcomes).equals(summary)
    with pytest.raises(SchemaError, match="status: the column is missing"):
        summarise_tasks(scores, rows=rows, generations=outcomes.drop("status"))
    without = summarise_tasks(scores, rows=rows)
    assert without.select(columns).rows() == [
        ("m", "t", "f1", 1.0, 1, 1, 0, 0), ("n", "u", "exact_match", None, 1, 0, 1, 0),
    ]  # fmt: skip


def test_a_corpus_metric_sums_parts_over_samples_and_averages_repeats() -> None:
    first, second, third = (
        bleu_parts(c.split(), r.split()) for c, r in [("a b c d e", "a b c d e"), ("a b", "a c d e f g"), ("x", "a c")]
    )
    scores = make_scores(
        ("m", "t", 0, 0, "corpus_bleu_4", 1.0, first),
        ("m", "t", 1, 0, "corpus_bleu_4", 0.3, second), ("m", "t", 1, 1, "corpus_bleu_4", 0.2, third),
        ("m", "t", 2, 0, "corpus_bleu_4", "failed"),
        ("n", "t", 0, 0, "corpus_bleu_4", "unparsed", [0.0] * 9 + [5.0]), ("n", "t", 1, 0, "corpus_bleu_4", 1.0, first),
    )  # fmt: skip
    summary = summarise_tasks(scores, rows=make_rows(t=[choice("corpus_bleu_4")]))
    one, two, three = map(np.array, (first, second, third))
    expected = [float(bleu_value(one + (two + three) / 2)), float(bleu_value(one + np.array([0.0] * 9 + [5.0])))]
    assert summary["value"].to_list() == pytest.approx(expected, abs=1e-12)
    assert summary.select("n_scored", "n_unparsed", "n_failed").rows() == [(3, 0, 1), (1, 1, 0)]


def test_parts_of_a_metric_that_is_not_here_can_not_be_aggregated() -> None:
    scores = make_scores(("m", "t", 0, 0, "corpus_thing", 0.5, [1.0, 2.0]))
    with pytest.raises(UnknownNameError, match="corpus_thing"):
        summarise_tasks(scores, rows=make_rows(t=[choice("corpus_thing")]))


@pytest.mark.parametrize("aggregate", [lambda p: p[..., 0] * float("nan"), lambda p: p, lambda p: 1.0])
def test_an_aggregate_gives_a_finite_number_a_row(aggregate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Metric(name="odd", compute=lambda frame, policy: frame, aggregate=aggregate)
    monkeypatch.setattr(METRICS, "_entries", {**METRICS._entries, "odd": made})
    with pytest.raises(SchemaError, match=r"aggregate of the metric 'odd'.*finite number"):
        summarise_tasks(make_scores(("m", "t", 0, 0, "odd", 0.5, [1.0, 2.0])), rows=make_rows(t=[choice("odd")]))


def test_nothing_gives_an_empty_frame() -> None:
    nothing = pl.DataFrame(schema=SCORES.dtypes)
    for generations in (None, pl.DataFrame(schema=GENERATIONS.dtypes)):
        summary = summarise_tasks(nothing, rows=make_rows(t=[choice("f1")]), generations=generations)
        assert summary.equals(pl.DataFrame(schema=TASK_METRICS.dtypes))


def test_scores_of_an_unknown_task_are_refused() -> None:
    with pytest.raises(SchemaError, match="have no rows: u; give all rows"):
        summarise_tasks(make_scores(("m", "u", 0, 0, "f1", 1.0)), rows=make_rows(t=[choice("f1")]))
