"""ANSWERS -> SCORES: fates, worst values, thresholds, details; what does not fit is named."""

import json
from typing import Any

import polars as pl
import pytest

from evalframe.errors import SchemaError
from evalframe.frames import check, example, from_records
from evalframe.metrics import Metric, metric
from evalframe.registry import METRICS
from evalframe.schemas import ANSWERS, GENERATIONS, ROWS, SCORES
from evalframe.scoring import MetricWarning, score_answers
from evalframe.summarising import summarise_tasks


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    METRICS.names()
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))


def choice(metric_id: str, aggregation: str = "mean", higher_is_better: bool = True) -> dict[str, Any]:
    return {"id": metric_id, "aggregation": aggregation, "higher_is_better": higher_is_better}


def make_rows(tasks: dict[str, list[Any]], targets: list[list[str]], **columns: str) -> pl.DataFrame:
    """Rows of some tasks, each with its metrics (ids or choices) and the same samples."""
    base = example(ROWS, 1).row(0, named=True) | columns
    records = [
        base | {
            "task_id": task, "sample_index": i, "sample_id": str(i), "targets": texts, "category": f"kind of {task}",
            "metrics": [m if isinstance(m, dict) else choice(m) for m in metrics],
        }
        for task, metrics in sorted(tasks.items())
        for i, texts in enumerate(targets)
    ]  # fmt: skip
    return check(from_records(records, ROWS), ROWS)


FAILED, SKIPPED, UNPARSED = object(), object(), object()


def make_calls(replies: dict[tuple[str, str, int, int], Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Generations and answers from (model, task, sample, repeat) -> an answer's text, or FAILED, SKIPPED, UNPARSED."""
    blank = example(GENERATIONS, 1).row(0, named=True) | {"error_type": None, "error_message": None}
    generations, answers = [], []
    for key, reply in sorted(replies.items()):
        call = dict(zip(("model_id", "task_id", "sample_index", "repeat"), key, strict=True))
        error = {FAILED: "timeout", SKIPPED: "cost_cap"}.get(reply)
        status = {FAILED: "failed", SKIPPED: "skipped"}.get(reply, "completed")
        generations.append(blank | call | {"status": status, "error_type": error, "output_text": None})
        found = {"extracted_output": reply, "extraction_status": "ok", "extraction_rule": "whole_text"}
        if reply is UNPARSED:
            found = {"extracted_output": None, "extraction_status": "no_match", "extraction_rule": 'no "label"'}
        answers.append(call | (found if error is None else {}))
    return from_records(generations, GENERATIONS), from_records(answers, ANSWERS)


def run(rows: pl.DataFrame, replies: dict[tuple[str, str, int, int], Any]) -> pl.DataFrame:
    generations, answers = make_calls(replies)
    return score_answers(answers, generations=generations, rows=rows)


def test_four_fates_are_never_mixed() -> None:
    rows = make_rows({"t": ["exact_match", "f1"]}, [["a b"]] * 4)
    scores = run(
        rows, {("m", "t", 0, 0): "a b", ("m", "t", 1, 0): UNPARSED, ("m", "t", 2, 0): FAILED, ("m", "t", 3, 0): SKIPPED}
    )
    assert scores.select("sample_index", "metric", "score", "fate", "correct").rows() == [
        (0, "exact_match", 1.0, "scored", True), (0, "f1", 1.0, "scored", True),
        (1, "exact_match", 0.0, "unparsed", False), (1, "f1", 0.0, "unparsed", False),
        (2, "exact_match", None, "failed", None), (2, "f1", None, "failed", None),
    ]  # fmt: skip


def test_details_say_why() -> None:
    rows = make_rows({"t": ["f1"]}, [["a"]] * 3)
    scores = run(rows, {("m", "t", 0, 0): "a", ("m", "t", 1, 0): UNPARSED, ("m", "t", 2, 0): FAILED})
    scored, unparsed, failed = scores["detail"]
    assert scored is None
    assert json.loads(unparsed) == {"extraction_status": "no_match", "extraction_rule": 'no "label"'}
    assert json.loads(failed) == {"error_type": "timeout"}


def test_a_metric_that_explains_itself_is_told_the_extraction_rule() -> None:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        said = pl.Series("detail", ['{"exit_code":"pass","n":1.50}', '{"extraction_rule":"own"}', None, "[1]"])
        return pl.DataFrame({"score": [1.0] * 4, "detail": said})

    METRICS.register("explains", Metric(name="explains", compute=compute))
    scores = run(make_rows({"t": ["explains"]}, [["a"]] * 4), {("m", "t", i, 0): "x" for i in range(4)})
    assert scores["detail"].to_list() == [
        '{"extraction_rule":"whole_text","exit_code":"pass","n":1.50}', '{"extraction_rule":"own"}', None, "[1]",
    ]  # fmt: skip


def test_a_detail_that_is_no_json_is_refused() -> None:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        return frame.select(score=pl.col("prediction").is_null(), detail=pl.col("prediction"))

    METRICS.register("babbles", Metric(name="babbles", compute=compute))
    with pytest.raises(SchemaError, match="'well, no', which is not JSON"):
        run(make_rows({"t": ["babbles"]}, [["a"]]), {("m", "t", 0, 0): "well, no"})


def test_each_task_gets_its_own_metrics_and_each_metric_is_asked_once() -> None:
    asked: list[list[str]] = []

    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        asked.append(frame["prediction"].to_list())
        return frame.select(score=pl.lit(1.0).repeat_by(1).list.first() + 0 * pl.col("prediction").str.len_chars())

    METRICS.register("spy", Metric(name="spy", compute=compute))
    rows = make_rows({"s": ["f1", "spy"], "t": ["spy"], "u": ["a_graders"]}, [["a"]])
    scores = run(rows, {(m, t, 0, 0): f"{m}{t}" for m in "xy" for t in "stu"})
    assert asked == [["xs", "xt", "ys", "yt"]]
    assert scores.select("model_id", "task_id", "metric").rows() == [
        (m, t, name) for m in "xy" for t, name in [("s", "f1"), ("s", "spy"), ("t", "spy")]
    ]


def test_a_metric_sees_the_columns_of_its_sample() -> None:
    @metric("matches_row", needs=("row.want", "prompt"))
    def matches_row(frame: pl.DataFrame) -> pl.Expr:
        return pl.col("prediction") == pl.col("row.want")

    rows = make_rows({"t": ["matches_row"]}, [["-"]] * 3)
    rows = rows.with_columns(pl.Series("row.want", ["a", "b", "c"]))
    replies = {("m", "t", i, k): text for i, k, text in [(0, 0, "a"), (0, 1, "b"), (1, 0, "b"), (2, 0, "b")]}
    assert run(rows, replies)["score"].to_list() == [1, 0, 1, 0]


def test_a_field_that_no_column_was_made_of_is_read_from_the_record() -> None:
    seen = []

    @metric("looks", needs=("row.a.1", "row.b.c", "metadata.d", "row.none"))
    def looks(frame: pl.DataFrame) -> pl.Expr:
        seen.append(frame.drop("prediction", "targets").rows())
        return pl.col("prediction") == "x"

    record, metadata = '{"a":["u",2.50],"b.c":{"e":[1]},"b":{"c":"other"}}', '{"d":true,"none":1}'
    rows = make_rows({"t": ["looks"]}, [["-"]] * 2, row=record, metadata=metadata)
    run(rows, {("m", "t", i, k): "x" for i in range(2) for k in range(2)})
    assert seen[-1] == [("2.50", '{"e":[1]}', "true", None)] * 4


def test_a_bad_score_names_the_call() -> None:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        return frame.select(score=pl.col("prediction").cast(pl.Float64))

    METRICS.register("as_is", Metric(name="as_is", compute=compute))
    replies = {("m", "t", index, 0): text for index, text in enumerate(["1", "7", "0", "nonsense", "0.5"])}
    rows = make_rows({"t": ["as_is", "exact_match"]}, [["0"]] * 5)
    with pytest.warns(MetricWarning, match=r"'as_is' gave no score for 2 calls; the first: .*sample_index=1 repeat=0"):
        scores = run(rows, replies)
    own = scores.filter(metric="as_is")
    assert own["score"].to_list() == [1.0, None, 0.0, None, 0.5]
    assert own["fate"].to_list() == ["scored", "grader_error", "scored", "grader_error", "scored"]
    assert "give a number from 0 to 1" in json.loads(own["detail"][1])["error_message"]
    assert own["correct"].to_list() == [True, None, False, None, True]
    assert scores.filter(metric="exact_match")["score"].to_list() == [0.0, 0.0, 1.0, 0.0, 0.0]


def register_number(name: str, **settings: Any) -> None:
    def compute(frame: pl.DataFrame, policy: Any) -> pl.DataFrame:
        return frame.select(score=pl.col("prediction").cast(pl.Float64))

    METRICS.register(name, Metric(name=name, compute=compute, **settings))


@pytest.mark.parametrize(
    ("settings", "declared", "expected"),
    [
        ({"binary": True}, True, {"1": True, "0.9999995": True, "0.99": False, "0": False, None: False}),
        ({}, True, {"1": True, "0.5": True, "0.49999": False, "0": False, None: False}),
        ({}, False, {"1": None, "0": None, None: None}),
        ({"higher_is_better": False}, True, {"1": None, "0": None, None: None}),
        ({"range": (0, 100)}, True, {"1": None, "0.7": None, "100": None, None: None}),
        ({"range": (-1, 1)}, True, {"1": None, "-1": None, None: None}),
    ],
)  # fmt: skip
def test_correct_has_one_threshold_a_metric(settings: Any, declared: bool, expected: dict[str | None, Any]) -> None:
    register_number("number", **settings)
    rows = make_rows({"t": [choice("number", higher_is_better=declared)]}, [["a"]] * len(expected))
    replies = {("m", "t", i, 0): UNPARSED if text is None else text for i, text in enumerate(expected)}
    assert run(rows, replies)["correct"].to_list() == list(expected.values())


@pytest.mark.parametrize(
    ("own", "declared", "worst"),
    [(True, True, 2), (True, False, 5), (False, True, 5), (False, False, 5)],
)
def test_a_missing_answer_scores_the_worst_end_of_the_direction_in_force(
    own: bool, declared: bool, worst: float
) -> None:
    register_number("number", range=(2, 5), higher_is_better=own)
    rows = make_rows({"t": [choice("number", higher_is_better=declared)]}, [["a"]])
    scores = run(rows, {("m", "t", 0, 0): UNPARSED})
    assert scores["score"].to_list() == [worst]
    assert summarise_tasks(scores, rows=rows)["higher_is_better"].to_list() == [own and declared]


def test_nothing_gives_an_empty_frame() -> None:
    rows = make_rows({"t": ["f1"], "u": []}, [["a"]])
    for replies in ({}, {("m", "t", 0, 0): SKIPPED}, {("m", "u", 0, 0): "a"}):
        assert run(rows, replies).equals(pl.DataFrame(schema=SCORES.dtypes))


def test_a_corpus_metric_counts_an_unparsed_answer_as_the_empty_text() -> None:
    rows = make_rows({"t": ["corpus_bleu_4"]}, [["a b c", "a"]] * 2)
    scores = run(rows, {("m", "t", 0, 0): "a b c", ("m", "t", 1, 0): UNPARSED})
    assert scores["parts"].to_list() == [[3, 2, 1, 0, 3, 2, 1, 0, 3, 3], [0, 0, 0, 0, 0, 0, 0, 0, 0, 3]]
    assert scores["score"].to_list() == [1, 0]


def test_frames_that_do_not_belong_together_are_named() -> None:
    rows = make_rows({"t": ["f1"]}, [["a"]] * 2)
    generations, answers = make_calls({("m", "t", 0, 0): "a", ("m", "t", 1, 0): "b", ("m", "t", 2, 0): "c"})
    with pytest.raises(SchemaError) as caught:
        score_answers(answers.slice(1), generations=generations.slice(0, 2), rows=rows.slice(0, 1))
    assert [(fault.where, fault.detail) for fault in caught.value.fault_records] == [
        ("model_id=m task_id=t sample_index=1 repeat=0", "has no row in rows"),
        ("model_id=m task_id=t sample_index=0 repeat=0", "is completed but was not extracted"),
        ("model_id=m task_id=t sample_index=2 repeat=0", "has an answer but no generation"),
    ]  # fmt: skip


def test_a_frame_of_another_kind_is_refused() -> None:
    rows = make_rows({"t": ["f1"]}, [["a"]])
    generations, answers = make_calls({("m", "t", 0, 0): "a"})
    with pytest.raises(SchemaError, match="no answers frame"):
        score_answers(generations, generations=answers, rows=rows)
    with pytest.raises(SchemaError, match="no scores frame"):
        summarise_tasks(answers, rows=rows)


def test_a_segment_scores_like_the_whole() -> None:
    rows = make_rows({"t": ["f1", "corpus_bleu_4", "exact_match"]}, [["a b"], ["b c"], ["c"]])
    texts = ["a b", "b", UNPARSED, FAILED, "c d", SKIPPED]
    replies = {("m", "t", i % 3, i // 3): text for i, text in enumerate(texts)}
    generations, answers = make_calls(replies)
    whole = score_answers(answers, generations=generations, rows=rows)
    pieces = [
        score_answers(answers.slice(i, 2), generations=generations.slice(i, 2), rows=rows) for i in range(0, 6, 2)
    ]
    assert pl.concat(pieces).equals(whole)
