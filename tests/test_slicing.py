"""Slices: which groups there are, and that each group's figures are the leaderboard's on its frames."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.errors import OptionError, SchemaError
from evalframe.frames import Noted, from_records
from evalframe.limits import Limits
from evalframe.schemas import GENERATIONS, LEADERBOARD, ROWS, SAMPLES, SCORES, SLICES, TASK_METRICS
from evalframe.slicing import needs_samples, slices
from evalframe.standings import leaderboard

Record = dict[str, Any]
FAST: dict[str, Any] = {"n_resamples": 100}


def row(sample: int, record: Record | str, *, task: str = "t", category: str = "qa", **more: Any) -> Record:
    text = record if isinstance(record, str) else json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    choice = {"id": more.pop("metric", "exact_match"), "aggregation": "mean", "higher_is_better": True}
    return {
        "task_id": task, "sample_index": sample, "sample_id": str(sample), "category": category, "prompt": "?",
        "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "row": text, "metadata": "{}",
        "metrics": [choice], **more,
    }  # fmt: skip


def rows_of(*records: Record) -> pl.DataFrame:
    return from_records(records, ROWS).sort(ROWS.key)


def call(model: str, sample: int, score: float | None, *, task: str = "t", repeat: int = 0, **more: Any) -> Record:
    return {
        "model_id": model, "task_id": task, "sample_index": sample, "repeat": repeat, "metric": "exact_match",
        "score": score, "fate": "failed" if score is None else "scored",
        "correct": None if score is None else score >= 0.5, **more,
    }  # fmt: skip


def scores_of(*records: Record) -> pl.DataFrame:
    return from_records(records, SCORES).sort(SCORES.key)


def generations_of(scores: pl.DataFrame, **columns: pl.Expr) -> pl.DataFrame:
    """Calls of these scores; a failed one has no reply."""
    failed = pl.col("fate") == "failed"
    records = scores.unique(["model_id", "task_id", "sample_index", "repeat"]).select(
        "model_id", "task_id", "sample_index", "repeat", attempts=pl.lit(1), cached=pl.lit(False),
        status=pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")),
        output_text=pl.when(~failed).then(pl.lit("a")), error_type=pl.when(failed).then(pl.lit("timeout")),
        **columns,
    )  # fmt: skip
    return from_records(records.to_dicts(), GENERATIONS).sort(GENERATIONS.key)


def means(found: pl.DataFrame, *labels: str) -> dict[Any, Any]:
    """Group values to (n_units, mean_score), of a single model."""
    return {
        key if len(labels) > 1 else key[0]: (n, mean)
        for *key, n, mean in found.select(*labels, "n_units", "mean_score").iter_rows()
        for key in [tuple(key)]
    }


def sliced(records: list[Record | str], by: Any, values: list[float] | None = None, **options: Any) -> pl.DataFrame:
    """One model, one task, a record a sample."""
    marks = values or [float(i % 2) for i in range(len(records))]
    scores = scores_of(*(call("m", i, mark) for i, mark in enumerate(marks)))
    return slices(scores, by=by, rows=rows_of(*(row(i, r) for i, r in enumerate(records))), **FAST | options)


SUBJECTS = [{"subject": "law"}, {"subject": "tax"}, {"subject": None}, {"subject": "law"}, {}]


def test_a_field_of_the_record_makes_groups_and_null_is_one() -> None:
    found = sliced(SUBJECTS, "row.subject", [1, 0, 1, 0, 1])
    assert means(found, "by.row.subject") == {"law": (2, 0.5), "tax": (1, 0.0), None: (2, 1.0)}
    assert found["group"].to_list() == [0, 1, 2]
    # a terminal shows the first four columns of a wide frame
    assert found.columns[:4] == ["by.row.subject", "model_id", "mean_score", "mean_ci_lo"]
    assert isinstance(found, Noted)


def test_a_list_counts_the_row_once_in_each_of_its_values() -> None:
    records = [{"tags": ["a", "b", "a"]}, {"tags": "a"}, {"tags": []}, {"tags": [None, "b"]}]
    found = sliced(records, "row.tags", [1, 0, 1, 0])
    assert means(found, "by.row.tags") == {"a": (2, 0.5), "b": (2, 0.5), None: (2, 0.5)}
    assert found.notes[0] == "row.tags: 2 of 4 samples have several values and count in each"


def test_several_at_once_are_all_pairs_that_occur() -> None:
    records = [{"a": "x", "b": [1, 2]}, {"a": "y", "b": 1}, {"a": "x", "b": 1}]
    found = sliced(records, ["row.a", "row.b"], [1, 0, 0])
    assert means(found, "by.row.a", "by.row.b") == {("x", "1"): (2, 0.5), ("x", "2"): (1, 1.0), ("y", "1"): (1, 0.0)}


def test_numbers_are_as_written_and_in_their_order() -> None:
    records = [f'{{"n":{n}}}' for n in ("10", "2.50", "9", "1e5", "12345678901234567890123", "2.5", "null")]
    found = sliced(records, "row.n")
    assert found["by.row.n"].to_list() == ["2.5", "2.50", "9", "10", "1e5", "12345678901234567890123", None]
    with_text = sliced(['{"n":10}', '{"n":"9"}', '{"n":"b"}'], "row.n")
    assert with_text["by.row.n"].to_list() == ["10", "9", "b"]


def test_a_number_and_its_text_are_one_group_and_it_is_said() -> None:
    found = sliced([{"n": 1}, {"n": "1"}, {"n": True}, {"n": "x"}], "row.n")
    assert found["by.row.n"].to_list() == ["1", "true", "x"]
    assert "row.n: 1 stands both in quotes and without, which is one group" in found.notes
    assert not any("quotes" in note for note in sliced([{"n": 1}, {"n": 2}], "row.n").notes)


def test_dotted_paths_and_keys_with_dots() -> None:
    records = [{"meta": {"level": 3}}, {"meta.level": "4", "meta": {"level": 3}}, {"meta": [3]}]
    assert sliced(records, "row.meta.level")["by.row.meta.level"].to_list() == ["3", "4", None]
    assert sliced(records, "row.meta.0")["by.row.meta.0"].to_list() == ["3", None]


def test_a_named_column_counts_and_its_lists_come_from_the_record() -> None:
    tags = [["a", "b"], ["b"], "c"]
    rows = rows_of(*(row(i, {"tags": t}, **{"row.tags": json.dumps(t) if t != "c" else t}) for i, t in enumerate(tags)))
    rows = rows.with_columns(pl.col("row.tags").str.replace_all(" ", ""), pl.lit("mine").alias("row.own"))
    scores = scores_of(*(call("m", i, 1.0) for i in range(3)))
    assert slices(scores, by="row.tags", rows=rows, **FAST)["by.row.tags"].to_list() == ["a", "b", "c"]
    assert slices(scores, by="row.own", rows=rows, **FAST)["by.row.own"].to_list() == ["mine"]
    bare = rows.drop("row", "metadata")
    assert slices(scores, by="row.own", rows=bare, **FAST)["by.row.own"].to_list() == ["mine"]
    with pytest.raises(SchemaError, match="row: the column is missing"):
        slices(scores, by="row.other", rows=bare, **FAST)


def test_the_tasks_metadata() -> None:
    rows = rows_of(
        row(0, {}, task="a", metadata='{"source":"web","years":[2001,2002]}'),
        row(1, {}, task="a", metadata='{"source":"web","years":[2001,2002]}'),
        row(0, {}, task="b", metadata='{"source":"book"}'),
    )
    scores = scores_of(call("m", 0, 1.0, task="a"), call("m", 1, 0.0, task="a"), call("m", 0, 1.0, task="b"))
    found = slices(scores, by="metadata.source", rows=rows, **FAST)
    assert means(found, "by.metadata.source") == {"book": (1, 1.0), "web": (2, 0.5)}
    found = slices(scores, by="metadata.years", rows=rows, **FAST)
    assert means(found, "by.metadata.years") == {"2001": (2, 0.5), "2002": (2, 0.5), None: (1, 1.0)}


def test_columns_and_expressions_of_samples() -> None:
    rows = rows_of(*(row(i, {"n": i, "s": "a;b"}, prompt="x" * i, category="ab"[i % 2]) for i in range(6)))
    scores = scores_of(*(call("m", i, float(i > 2)) for i in range(6)))
    assert means(slices(scores, by="category", rows=rows, **FAST), "by.category") == {
        "a": (3, pytest.approx(1 / 3)),
        "b": (3, pytest.approx(2 / 3)),
    }
    long = pl.col("prompt").str.len_chars() > pl.col("prompt").str.len_chars().median()
    assert means(slices(scores, by=long.alias("long"), rows=rows, **FAST), "by.long") == {
        "false": (3, 0.0),
        "true": (3, 1.0),
    }
    parts = pl.col("row.s").str.split(";")
    assert slices(scores, by=parts, rows=rows, **FAST)["by.row.s"].to_list() == ["a", "b"]
    number = pl.col("row.n").cast(pl.Float64) / 4
    assert slices(scores, by=number, rows=rows, **FAST)["by.row.n"].to_list() == [
        "0.0",
        "0.25",
        "0.5",
        "0.75",
        "1.0",
        "1.25",
    ]
    for made, label in (
        (pl.struct("category"), '{"category":"a"}'),
        (pl.concat_arr("category"), "a"),
        (pl.lit(1), "1"),
    ):
        assert slices(scores, by=made.alias("x"), rows=rows, **FAST)["by.x"][0] == label
    own = rows.with_columns(bucket=pl.lit("all"))
    assert slices(scores, by="bucket", rows=own, **FAST)["by.bucket"].to_list() == ["all"]


def calls_frames() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    rows = rows_of(*(row(i, {"s": "ab"[i % 2]}) for i in range(4)))
    scores = scores_of(*(call(m, i, float((i + r) % 2), repeat=r) for m in "mn" for i in range(4) for r in range(2)))
    reason = pl.when(pl.col("repeat") == 0).then(pl.lit("stop")).otherwise(pl.lit("length"))
    return scores, rows, generations_of(scores, finish_reason=reason)


def test_a_column_of_calls_groups_calls() -> None:
    scores, rows, generations = calls_frames()
    found = slices(scores, by="finish_reason", rows=rows, generations=generations, **FAST)
    for reason, repeat in (("stop", 0), ("length", 1)):
        its = found.filter(pl.col("by.finish_reason") == reason)
        expected = leaderboard(
            scores.filter(repeat=repeat), rows=rows, generations=generations.filter(repeat=repeat), **FAST
        )
        assert its.select(LEADERBOARD.names).equals(expected.select(LEADERBOARD.names))
        assert its["n_units"].to_list() == [4, 4]
    both = slices(scores, by=["row.s", "finish_reason"], rows=rows, generations=generations, **FAST)
    assert both["group"].n_unique() == 4
    by_model = slices(scores, by="model_id", rows=rows, **FAST)
    assert by_model.select("by.model_id", "model_id", "rank").rows() == [("m", "m", 1), ("n", "n", 1)]


def test_samples_give_what_generations_lack() -> None:
    scores, rows, generations = calls_frames()
    samples = generations.select("model_id", "task_id", "sample_index", "repeat").with_columns(
        fate=pl.lit("scored"), long=pl.col("repeat") == 1
    )
    assert slices(scores, by="fate", rows=rows, samples=samples, **FAST)["by.fate"].to_list() == ["scored"] * 2
    shuffled = samples.sample(fraction=1, shuffle=True, seed=1)
    assert slices(scores, by="long", rows=rows, samples=shuffled, **FAST)["group"].to_list() == [0, 0, 1, 1]
    assert needs_samples("fate", rows=rows, generations=generations)
    assert needs_samples(pl.col("score.exact_match") > 0, rows=rows, generations=generations)
    for by in ("finish_reason", "row.s", "category", "nonsense"):
        assert not needs_samples(by, rows=rows, generations=generations)
    with pytest.raises(OptionError, match=r"'fate' is in none of the frames -> give samples=run\.samples"):
        slices(scores, by="fate", rows=rows, generations=generations, **FAST)
    with pytest.raises(
        SchemaError, match=r"'fate' lacks 1 calls of the scores, first model_id=m task_id=t sample_index=0"
    ):
        slices(scores, by="fate", rows=rows, samples=samples.tail(-1), **FAST)
    with pytest.raises(SchemaError, match="this is no samples frame"):
        slices(scores, by="fate", rows=rows, samples=pl.concat([samples, samples]), **FAST)
    assert "long" not in SAMPLES.names


def test_a_task_counts_by_its_samples_in_the_group() -> None:
    rows = rows_of(
        *(row(i, {"s": s}, task=t) for t, s, i in [("a", "x", 0), ("a", "x", 1), ("a", "y", 2), ("b", "x", 0)])
    )
    marks = [("a", 0, 1.0), ("a", 1, 0.0), ("a", 2, 1.0), ("b", 0, 1.0)]
    scores = scores_of(*(call("m", i, mark, task=task) for task, i, mark in marks))
    assert means(slices(scores, by="row.s", rows=rows, **FAST), "by.row.s") == {"x": (3, 0.75), "y": (1, 1.0)}
    by_sample = slices(scores, by="row.s", rows=rows, weighting="sample", **FAST)
    assert means(by_sample, "by.row.s")["x"] == (3, pytest.approx(2 / 3))


def test_small_groups_are_marked_by_what_is_scored() -> None:
    records = [{"s": "big"}] * 12 + [{"s": "small"}] * 9
    rows = rows_of(*(row(i, r) for i, r in enumerate(records)))
    scores = scores_of(
        *(call("m", i, 1.0) for i in range(21)), *(call("n", i, None if i < 5 else 1.0) for i in range(21))
    )
    found = slices(scores, by="row.s", rows=rows, **FAST)
    shown = found.select("by.row.s", "model_id", "n_units", "small", "n_failed").sort("by.row.s", "model_id").rows()
    assert shown == [
        ("big", "m", 12, False, 0),
        ("big", "n", 7, True, 5),
        ("small", "m", 9, True, 0),
        ("small", "n", 9, True, 0),
    ]
    small = "2 of 2 groups have under 10 samples with a score (small)"
    assert any(note.startswith(small) for note in found.notes)
    relaxed = slices(scores, by="row.s", rows=rows, limits=Limits(small_group_units=5), **FAST)
    assert not relaxed["small"].any()
    assert not any(note.startswith(small) for note in relaxed.notes)


def test_a_batch_graders_value_counts_where_the_whole_task_is() -> None:
    rows = rows_of(*(row(i, {"s": "xy"[i]}, task=t, metric="fancy") for t in ("a", "b") for i in range(2)))
    rows = rows.with_columns(category=pl.col("task_id"))
    value = {"metric": "fancy", "category": "a", "value": 0.5, "aggregation": "mean", "higher_is_better": True,
             "headline": True, "source": "grader", "n_samples": 2, "n_scored": 2, "n_unparsed": 0, "n_failed": 0,
             "n_grader_error": 0, "n_skipped": 0}  # fmt: skip
    graded = from_records([{"model_id": "m", "task_id": "a", **value}], TASK_METRICS)
    plain = rows.filter(pl.col("task_id") == "b").with_columns(metrics=rows_of(row(0, {}))["metrics"].first())
    rows = pl.concat([rows.filter(pl.col("task_id") == "a"), plain])
    scores = scores_of(*(call("m", i, 1.0, task="b") for i in range(2)))
    found = slices(scores, by="category", rows=rows, task_metrics=graded, **FAST)
    assert means(found, "by.category") == {"a": (1, 0.5), "b": (2, 1.0)}
    assert means(slices(scores, by="row.s", rows=rows, task_metrics=graded, **FAST), "by.row.s") == {
        "x": (1, 1.0),
        "y": (1, 1.0),
    }
    everything = slices(scores, by=pl.lit("all").alias("x"), rows=rows, task_metrics=graded, **FAST)
    assert means(everything, "by.x") == {"all": (3, 0.75)}
    only = slices(scores, by="category", rows=rows, task_metrics=graded, metric="fancy", **FAST)
    assert means(only, "by.category") == {"a": (1, 0.5)}


def test_a_metric_leaves_out_the_groups_that_lack_it() -> None:
    rows = rows_of(row(0, {}, task="a", category="x"), row(0, {}, task="b", category="y", metric="f1"))
    scores = scores_of(call("m", 0, 1.0, task="a"), call("m", 0, 0.25, task="b", metric="f1"))
    found = slices(scores, by="category", rows=rows, metric="f1", **FAST)
    assert means(found, "by.category") == {"y": (1, 0.25)}
    with pytest.raises(OptionError, match="no task has a mean of the metric 'f2'; known: exact_match, f1"):
        slices(scores, by="category", rows=rows, metric="f2", **FAST)


GROUPS = st.sampled_from(["x", "y", "z", None])


@settings(max_examples=20)  # each makes a leaderboard a group, twice
@given(
    samples=st.lists(st.tuples(st.sampled_from(["a", "b"]), GROUPS, st.booleans()), min_size=1, max_size=12),
    weighting=st.sampled_from(["task", "sample"]),
    failures=st.sampled_from(["omit", "zero"]),
    common=st.booleans(),
    seed=st.integers(0, 3),
)
def test_each_group_is_the_leaderboard_of_its_frames(
    samples: list[tuple[str, str | None, bool]], **options: Any
) -> None:
    rows = rows_of(
        *(row(i, {"s": s, "t": [s, "u"] if both else s}, task=t, category=t) for i, (t, s, both) in enumerate(samples))
    )
    scores = scores_of(
        *(
            call(m, i, None if i % 5 == k else (i * 7 + k) % 4 / 3, task=task)
            for i, (task, _, _) in enumerate(samples)
            for k, m in enumerate(("m", "n"))
        )
    )
    generations = generations_of(scores, cost_usd=pl.col("sample_index").cast(pl.Float64), confidence=pl.lit(0.75))
    settings = {**options, "n_resamples": 50}
    for by in ("s", "t"):
        found = slices(scores, by=f"row.{by}", rows=rows, generations=generations, **settings)
        seen = {s for _, s, _ in samples} if by == "s" else {s for _, s, _ in samples} | {"u" for *_, b in samples if b}
        assert set(found[f"by.row.{by}"].to_list()) == seen
        for value in seen:
            inside = [
                i for i, (_, s, both) in enumerate(samples) if s == value or (by == "t" and both and value == "u")
            ]
            its = pl.col("sample_index").is_in(inside)
            board = leaderboard(
                scores.filter(its), rows=rows.filter(its), generations=generations.filter(its), **settings
            )
            mine = found.filter(pl.col(f"by.row.{by}").eq_missing(pl.lit(value, pl.String)))
            assert mine.select(board.columns).equals(board)
            scored = scores.filter(its & pl.col("score").is_not_null())
            assert mine["n_units"].to_list() == [scored.filter(model_id=m).height for m in mine["model_id"]]


def test_the_order_of_rows_does_not_matter() -> None:
    scores, rows, generations = calls_frames()
    found = slices(scores, by=["row.s", "finish_reason"], rows=rows, generations=generations, **FAST)
    mixed = [frame.sample(fraction=1, shuffle=True, seed=3) for frame in (scores, rows, generations)]
    again = slices(mixed[0], by=["row.s", "finish_reason"], rows=mixed[1], generations=mixed[2], **FAST)
    assert found.equals(again)


def test_skipped_calls_are_counted_in_their_group() -> None:
    rows = rows_of(row(0, {"s": "x"}), row(1, {"s": "y"}))
    scores = scores_of(call("m", 0, 1.0))
    made = generations_of(scores)
    skipped = made.with_columns(
        sample_index=pl.lit(1, pl.Int64), status=pl.lit("skipped"), output_text=pl.lit(None, pl.String),
        error_type=pl.lit("interrupted"), attempts=pl.lit(0, pl.Int64),
    )  # fmt: skip
    found = slices(scores, by="row.s", rows=rows, generations=pl.concat([made, skipped]), **FAST)
    assert found.select("by.row.s", "n_units", "mean_score", "n_scored", "n_skipped").rows() == [
        ("x", 1, 1.0, 1, 0),
        ("y", 0, None, 0, 1),
    ]


def test_nothing_gives_an_empty_frame() -> None:
    found = slices(scores_of(), by="row.s", rows=rows_of(), **FAST)
    assert found.is_empty()
    assert set(found.columns) == {*SLICES.names, "by.row.s"}


@pytest.mark.parametrize(
    ("by", "told"),
    [
        ("row.subjct", "'row.subjct' is in no row -> did you mean 'row.subject'?"),
        ("subject", "there is no column 'subject' -> did you mean 'row.subject'?"),
        ("metadata.x", "'metadata.x' is in no row"),
        ("finish_reson", "there is no column 'finish_reson' -> did you mean 'finish_reason'?"),
        (pl.col("row.subjct").str.len_chars(), "'row.subjct' is in no row"),
        (["row.subjct", "catgory"], "'row.subjct' is in no row.*\n.*'catgory' -> did you mean 'category'"),
        (["category", pl.col("prompt").alias("category")], "'category' stands twice -> name an expression by"),
        (pl.col("prompt", "category"), "gives several columns -> give them one by one"),
        (pl.all(), "gives several columns"),
        ([], "by: is empty -> name a column"),
        (3, r"by\[0\]: is of type int -> name a column, or give a polars expression"),
        (pl.col("category") + 1, "by 'category' can not be computed"),
        (pl.col("category").head(1), "by 'category' can not be computed"),
        (pl.lit([["a"]], pl.List(pl.List(pl.String))).alias("x"), "lists of lists are no groups; flatten them"),
    ],
)  # fmt: skip
def test_what_can_not_be_sliced_by_is_told(by: Any, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        sliced(SUBJECTS, by)


def test_a_field_that_is_null_in_every_row_is_one_group() -> None:
    assert means(sliced([{"s": None}, {}], "row.s"), "by.row.s") == {None: (2, 0.5)}


def test_samples_without_a_row_are_refused() -> None:
    scores = scores_of(call("m", 0, 1.0), call("m", 1, 1.0))
    with pytest.raises(SchemaError, match="1 samples that were called have no row, first task_id=t sample_index=1"):
        slices(scores, by="row.s", rows=rows_of(row(0, {"s": 1})), **FAST)


def test_options_of_the_leaderboard_pass_through() -> None:
    with pytest.raises(OptionError, match="weighting: is 'both' -> use 'task' or 'sample'"):
        sliced(SUBJECTS, "row.subject", weighting="both")
    with pytest.raises(TypeError, match="wieghting"):
        sliced(SUBJECTS, "row.subject", wieghting="task")
