"""Two runs on the same samples -> COMPARISON, DIFFERENCES: what was fixed, what was broken, and is the difference real.

Samples are aligned by ``sample_id`` within their task, so that runs may hold different samples of one data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import polars as pl

from evalframe.errors import OptionError
from evalframe.frames import Noted, check, empty, listed
from evalframe.headlines import check_options, choose_metrics, in_key_order
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.pairs import EQUAL, pairwise
from evalframe.schemas import ANSWERS, CALL_KEY, COMPARISON, DIFFERENCES, ROWS, SCORES
from evalframe.standings import leaderboard
from evalframe.words import Change

PAIR = ("model_a", "model_b")
ALIGNED = ("task_id", "sample_id", "repeat")
CHANGES = get_args(Change)
TWO = ("the first run", "the second run")  # sorted, as pairwise sorts its models; its notes name them
# what is taken over from PAIRWISE
PAIRED = ("n_pairs", "diff_mean", "ci_lo", "ci_hi", "significant", "p_value", "min_detectable")
_OF_ROWS = ("sample_id", "category", "target", "metrics")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs.

    Attributes:
        scores: SCORES.
        rows: ROWS.
        answers: ANSWERS.
    """

    scores: pl.DataFrame
    rows: pl.DataFrame
    answers: pl.DataFrame


def compare(a: Side, *, b: Side, pairs: Sequence[tuple[str, str]], metric: str | None = None) -> pl.DataFrame:
    """Set two runs beside each other, call by call.

    ``change``: ``fixed`` and ``broken`` where ``correct`` turns; else ``better`` and ``worse`` where the score does, in
    the metric's direction; ``same`` within 1e-12; ``unscored`` where a side has a call without a score (failed, or the
    grader did); ``only_a`` and ``only_b`` where the other run has no such sample or never called it.

    Frame in:
        SCORES, ROWS and ANSWERS of each run, in any order.

    Frame out:
        COMPARISON: what changed first.

    Args:
        a: The run that was before.
        b: The run that it is compared with.
        pairs: The model of ``a`` and the model of ``b``, for each comparison.
        metric: Compare by this metric over the tasks that average it; None: by each task's headline metric.

    Notes: a line a pair that counts the changes; tasks that are not compared; metrics whose direction differs.

    Nulls:
        What a side does not have is null there. Runs without a common task have one-sided rows alone.

    Raises:
        SchemaError: A frame is not what it is called.
        OptionError: A task's headline metric is another in ``b``; or no task has ``metric``.
    """
    a, b, notes = _in_order(a, b, metric)
    compared = _compared(a, b, pairs, metric)
    return Noted.of(compared, [*compared.notes, *notes])


def differences(
    a: Side,
    *,
    b: Side,
    pairs: Sequence[tuple[str, str]],
    metric: str | None = None,
    n_resamples: int | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Give the paired difference of two runs, b minus a, for each pair of models.

    Units, strata, intervals and tests are those of ``pairwise`` on the samples that both have a score of; ``mean_a``
    and ``mean_b`` are the leaderboard's means on the same samples (``common=True``). Where a lower score is better the
    sign of ``diff_mean`` is turned, so that positive is better.

    Frame in:
        SCORES and ROWS of each run, in any order.

    Frame out:
        DIFFERENCES.

    Args:
        a: The run that was before.
        b: The run that it is compared with.
        pairs: The model of ``a`` and the model of ``b``, for each comparison.
        metric: As for ``compare``.
        n_resamples: Of the bootstrap and of random sign patterns, 1 or more; None: ``limits.n_resamples``.
        seed: Of both.
        limits: The table of numbers.

    Notes: those of ``compare`` and of ``pairwise``.

    Nulls:
        Figures of a pair without a common scored sample are null.

    Raises:
        SchemaError: A frame is not what it is called.
        OptionError: As ``compare``.
    """
    check_options("differences", metric=metric, seed=seed)
    a, b, notes = _in_order(a, b, metric)
    compared = _compared(a, b, pairs, metric)
    if not pairs:
        return empty(DIFFERENCES)
    united, place = _united(a.rows, b.rows)
    figures, told = [], []
    for model_a, model_b in pairs:
        scores = _two_models(a, b, place, (model_a, model_b))
        paired, means = _figures(scores, united, metric, n_resamples, seed, limits)
        told += [f"{_both(model_a, model_b)}: {note}" for note in getattr(paired, "notes", ())]
        named = {"model_a": model_a, "model_b": model_b, "mean_a": means[0], "mean_b": means[1]}
        turned = paired.select(PAIRED).with_columns(  # pairwise gives a minus b
            *(pl.lit(value, DIFFERENCES.dtypes[name]).alias(name) for name, value in named.items()),
            diff_mean=0.0 - pl.col("diff_mean"), ci_lo=0.0 - pl.col("ci_hi"), ci_hi=0.0 - pl.col("ci_lo"),  # no -0.0
        )  # fmt: skip
        figures.append(turned)
    found = pl.concat(figures).join(_counts(compared), on=PAIR, how="left", maintain_order="left")
    counted = found.with_columns(pl.col(f"n_{change}" for change in CHANGES).fill_null(0))
    shown = check(counted.select(DIFFERENCES.names).sort(PAIR), DIFFERENCES)
    return Noted.of(shown, [*compared.notes, *told, *notes])


def _in_order(a: Side, b: Side, metric: str | None) -> tuple[Side, Side, list[str]]:
    """Check both runs, and keep the scores of the metric that each task is compared by; say what is left out."""
    check_options("compare", metric=metric)
    sides, choices = [], []
    for side in (a, b):
        rows = in_key_order(side.rows, ROWS, _OF_ROWS)
        scores = in_key_order(side.scores, SCORES)
        choice = choose_metrics(scores, rows=rows, metric=metric)
        chosen = scores.join(choice, on=["task_id", "metric"], how="semi", maintain_order="left")
        sides.append(Side(chosen, rows, in_key_order(side.answers, ANSWERS)))
        choices.append(choice)
    both = choices[0].join(choices[1], on="task_id", suffix="_b", maintain_order="left")
    if (other := both.filter(pl.col("metric") != pl.col("metric_b"))).height:
        task, one, two = other.select("task_id", "metric", "metric_b").row(0)
        raise OptionError(
            f"tasks are ranked by another metric in the second run: {task} ({one}, then {two})"
            f"{f' and {other.height - 1} more' if other.height > 1 else ''}; name one that both have with metric="
        )
    notes = []
    turned = both.filter(pl.col("higher_is_better") != pl.col("higher_is_better_b"))["task_id"].to_list()
    if turned:
        notes.append(f"better is the other way in the second run, and here as in the first: {listed(turned)}")
    tasks = pl.concat([side.rows["task_id"] for side in sides]).unique().sort()
    without = tasks.filter(~tasks.is_in(pl.concat([choice["task_id"] for choice in choices]).implode())).to_list()
    if without:
        why = "no metric of theirs is averaged" if metric is None else f"they do not average {metric}"
        notes.append(f"tasks that are not compared, because {why}: {listed(without)}")
    return sides[0], sides[1], notes


def _compared(a: Side, b: Side, pairs: Sequence[tuple[str, str]], metric: str | None) -> Noted:
    asked = pl.DataFrame(list(pairs), schema=dict.fromkeys(PAIR, pl.String), orient="row")
    first, second = _calls(a, asked, "a"), _calls(b, asked, "b")
    aligned = first.join(second, on=[*PAIR, *ALIGNED], how="full", coalesce=True)
    choice = choose_metrics(a.scores, rows=a.rows, metric=metric)
    more = choose_metrics(b.scores, rows=b.rows, metric=metric).join(choice, on="task_id", how="anti")
    directed = aligned.join(
        pl.concat([choice, more]).select("task_id", "metric", "higher_is_better"), on="task_id", how="left"
    )
    gain = pl.col("score_b") - pl.col("score_a")
    gain = pl.when("higher_is_better").then(gain).otherwise(-gain)
    turns = pl.col("correct_a") != pl.col("correct_b")
    change = (
        pl.when(pl.col("fate_b").is_null()).then(pl.lit("only_a"))
        .when(pl.col("fate_a").is_null()).then(pl.lit("only_b"))
        .when(gain.is_null()).then(pl.lit("unscored"))
        .when(turns & pl.col("correct_b")).then(pl.lit("fixed"))
        .when(turns).then(pl.lit("broken"))
        .when(gain > EQUAL).then(pl.lit("better"))
        .when(gain < -EQUAL).then(pl.lit("worse"))
        .otherwise(pl.lit("same"))
    )  # fmt: skip
    marked = directed.with_columns(change.alias("change"), target=pl.coalesce("target_b", "target_a"))
    in_order = marked.sort(pl.col("change").replace_strict(CHANGES, range(len(CHANGES))), *PAIR, *ALIGNED)
    shown = check(in_order.select(COMPARISON.names), COMPARISON)
    return Noted.of(shown, _change_notes(shown))


def _calls(side: Side, pairs: pl.DataFrame, name: str) -> pl.DataFrame:
    """Give the calls of a run that take part, under the names that they have in COMPARISON."""
    return (
        side.scores.rename({"model_id": f"model_{name}"})
        .join(pairs, on=f"model_{name}", how="inner")
        .join(side.rows.select("task_id", "sample_index", "sample_id", "target"), on=["task_id", "sample_index"])
        .join(
            side.answers.select(*CALL_KEY, "extracted_output"),
            left_on=[f"model_{name}", *CALL_KEY[1:]], right_on=CALL_KEY, how="left",
        )
        .select(
            *PAIR, *ALIGNED, pl.col("target").alias(f"target_{name}"), pl.col("score").alias(f"score_{name}"),
            pl.col("correct").alias(f"correct_{name}"), pl.col("fate").alias(f"fate_{name}"),
            pl.col("extracted_output").alias(f"extracted_{name}"),
        )
    )  # fmt: skip


def _counts(compared: pl.DataFrame) -> pl.DataFrame:
    """Count the changes of each pair: a column ``n_<change>`` each."""
    counted = [(pl.col("change") == change).sum().cast(pl.Int64).alias(f"n_{change}") for change in CHANGES]
    return compared.group_by(PAIR, maintain_order=True).agg(counted)


def _change_notes(compared: pl.DataFrame) -> Iterator[str]:
    for row in _counts(compared).sort(PAIR).to_dicts():
        shown = [f"{n} {change}" for change in CHANGES if (n := row[f"n_{change}"]) or change in ("broken", "fixed")]
        yield f"{_both(row['model_a'], row['model_b'])}: {', '.join(shown)}"
    for side, other in (("a", "b"), ("b", "a")):
        alone = compared.filter(pl.col("change") == f"only_{side}")
        if alone.height:
            names = alone["sample_id"].unique(maintain_order=True)
            yield f"no counterpart in {other}: {alone.height} calls of {side}, of samples {listed(names.to_list())}"


def _both(model_a: str, model_b: str) -> str:
    return model_a if model_a == model_b else f"{model_a} and {model_b}"


def _united(first: pl.DataFrame, second: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give rows of all samples of both runs, numbered anew, and which number a sample of either has.

    What a task is (metrics, category) is taken from the first run.
    """
    names = ("task_id", "sample_id")
    of_task = pl.concat([first, second]).unique("task_id", keep="first", maintain_order=True)
    samples = pl.concat([first.select(names), second.select(names)]).unique(maintain_order=True)
    place = samples.with_columns(sample_index=pl.int_range(pl.len(), dtype=pl.Int64).over("task_id"))
    rows = place.join(of_task.select("task_id", "category", "metrics"), on="task_id", how="left")
    return rows.sort("task_id", "sample_index"), place


def _two_models(a: Side, b: Side, place: pl.DataFrame, models: tuple[str, str]) -> pl.DataFrame:
    """Give the scores of both runs as those of two models of one run, called by ``TWO``."""
    renamed = []
    for name, side, model in zip(TWO, (a, b), models, strict=True):
        ids = side.rows.select("task_id", "sample_index", "sample_id")
        renamed.append(
            side.scores.filter(pl.col("model_id") == model)
            .with_columns(model_id=pl.lit(name))
            .join(ids, on=["task_id", "sample_index"])
            .drop("sample_index")
            .join(place, on=["task_id", "sample_id"])
            .select(SCORES.names)
        )
    return pl.concat(renamed).sort(SCORES.key)


def _figures(
    scores: pl.DataFrame, rows: pl.DataFrame, metric: str | None, n_resamples: int | None, seed: int, limits: Limits
) -> tuple[pl.DataFrame, tuple[float | None, float | None]]:
    """Compare the two: PAIRWISE of one row, and their means on the samples that both have."""
    if scores["model_id"].n_unique() < 2:  # one of them was never called: nothing to compare
        nothing = {name: DIFFERENCES.dtypes[name] for name in PAIRED}
        unknown = pl.DataFrame([{"n_pairs": 0, "significant": False}], schema=nothing)
        return unknown, (None, None)
    paired = pairwise(scores, rows=rows, metric=metric, n_resamples=n_resamples, seed=seed, limits=limits)
    board = leaderboard(scores, rows=rows, metric=metric, common=True, n_resamples=1, seed=seed, limits=limits)
    mean = dict(board.select("model_id", "mean_score").iter_rows())
    return paired, (mean[TWO[0]], mean[TWO[1]])
