"""What a grader said, as frames: GRADES, the SCORES of its task, and the values that a batch grader gave for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evalframe.frames import check
from evalframe.grading.samples import CallKey
from evalframe.grading.verdicts import BatchVerdict, Error, Verdict
from evalframe.jsontext import dumps
from evalframe.manifest.records import MetricChoice
from evalframe.metrics.thresholds import is_correct
from evalframe.registry import METRICS
from evalframe.schemas import CALL_KEY, GRADES, SCORES

# what a batch grader said of all samples of a model and repeat together
VALUES = {"model_id": pl.String, "task_id": pl.String, "repeat": pl.Int64, "metric": pl.String, "value": pl.Float64}
_SCORE = {name: SCORES.dtypes[name] for name in (*CALL_KEY, "metric", "score", "fate", "detail")}
Said = Sequence[tuple[list[CallKey], BatchVerdict]]


@dataclass(frozen=True, slots=True)
class TaskGrades:
    """What the grader of one task said.

    Attributes:
        grades: GRADES: one row a completed call.
        scores: SCORES, failed calls included.
        values: What a batch grader gave in ``metrics``: ``VALUES``.
        choices: The metrics of the task; of a batch grader without declared ones the one that it is ranked by.
    """

    grades: pl.DataFrame
    scores: pl.DataFrame
    values: pl.DataFrame
    choices: tuple[MetricChoice, ...]


def framed(
    read: Iterable[tuple[list[CallKey], BatchVerdict]],
    outcomes: pl.DataFrame,
    *,
    choices: Sequence[MetricChoice],
    metric_id: str,
) -> TaskGrades:
    """Make the frames of what was said.

    A declared metric that is nowhere in an answer is null, ``grader_error``, ``missing_metric``; one that a batch
    grader gives in ``metrics`` alone has no scores and lacks none. Without declared metrics a batch grader is ranked by
    its key ``metric_id``, else by the first key that it gave.

    Args:
        read: The calls that each call of the grader was about, and what it said, in order.
        outcomes: Key, ``status`` and ``error_type`` of all calls of the task, failed and skipped ones too.
        choices: The declared metrics.
        metric_id: The grader's.
    """
    said = list(read)
    named = tuple(choices) or (MetricChoice(id=_headline(said, metric_id)),)
    declared = [choice.id for choice in named]
    scores: list[tuple[Any, ...]] = []
    grades: list[tuple[Any, ...]] = []
    values: list[tuple[Any, ...]] = []
    for members, batch in said:
        given = {name for verdict in batch.verdicts for name in (*verdict.scores, *verdict.errors)}
        wanted = [name for name in declared if name in given or name not in batch.metrics]
        for key, verdict in zip(members, batch.verdicts, strict=True):
            names = declared if verdict.error else list(dict.fromkeys([*wanted, *verdict.scores, *verdict.errors]))
            scores += (_score(key, name, verdict) for name in names)
            grades.append(_grade(key, verdict, names))
        model_id, task_id, _, repeat = members[0]
        values += ((model_id, task_id, repeat, name, value) for name, value in batch.metrics.items())
    failed = outcomes.filter(pl.col("status") == "failed")
    for *its_key, error_type in failed.select(*CALL_KEY, "error_type").iter_rows():
        scores += ((*its_key, name, None, "failed", dumps({"error_type": error_type})) for name in declared)
    return TaskGrades(
        grades=check(pl.DataFrame(grades, schema=GRADES.dtypes, orient="row").sort(CALL_KEY), GRADES),
        scores=_scores(scores, named),
        values=pl.DataFrame(values, schema=VALUES, orient="row"),
        choices=named,
    )


def _headline(said: Said, metric_id: str) -> str:
    keys = [
        name
        for _, batch in said
        for name in (*batch.metrics, *(one for verdict in batch.verdicts for one in (*verdict.scores, *verdict.errors)))
    ]
    return metric_id if metric_id in keys or not keys else keys[0]


def _score(key: CallKey, name: str, verdict: Verdict) -> tuple[Any, ...]:
    if verdict.error is None and name in verdict.scores:
        return (*key, name, verdict.scores[name], "scored", None)
    error_type, message = _error(name, verdict)
    return (*key, name, None, "grader_error", dumps({"error_type": error_type, "error_message": message}))


def _error(name: str, verdict: Verdict) -> Error:
    missing = ("missing_metric", f"the grader returned no {name}; return it for each sample, or do not declare it")
    return verdict.error or verdict.errors.get(name) or missing


def _grade(key: CallKey, verdict: Verdict, names: Sequence[str]) -> tuple[Any, ...]:
    lacking = [name for name in names if verdict.error or name not in verdict.scores]
    if not lacking:
        return (*key, "graded", None, None, verdict.metadata, verdict.judge)
    error_type, message = _error(lacking[0], verdict)
    if not verdict.error:
        message = "\n".join(dict.fromkeys(_error(name, verdict)[1] for name in lacking))
    message = f"{message}\n{verdict.traceback}".strip()
    return (*key, "timeout" if verdict.timed_out else "error", error_type, message, verdict.metadata, verdict.judge)


def _scores(scores: Sequence[tuple[Any, ...]], choices: Sequence[MetricChoice]) -> pl.DataFrame:
    """Give SCORES in key order; a sample counts as correct as its metric says, in the direction of the task."""
    found = pl.DataFrame(scores, schema=_SCORE, orient="row").sort(*CALL_KEY, "metric")
    higher: Mapping[str, bool] = {choice.id: choice.higher_is_better for choice in choices}
    names = found["metric"].unique().sort()
    judged = [
        pl.when(pl.col("metric") == name).then(is_correct(name))
        for name in names
    ]  # fmt: skip
    is_higher = [name for name in names if higher.get(name, True) and _knows_itself_higher(name)]
    marked = found.with_columns(higher_is_better=pl.col("metric").is_in(is_higher)).with_columns(
        correct=pl.coalesce(judged) if judged else pl.lit(None, pl.Boolean),
        parts=pl.lit(None, SCORES.dtypes["parts"]),
    )
    return check(marked.select(SCORES.names), SCORES)


def _knows_itself_higher(name: str) -> bool:
    return name not in METRICS or bool(METRICS.get(name).higher_is_better)
