"""SCORES -> PASS_AT_K: how likely it is that one of k tries at a problem is right, from its repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from evalframe.errors import Fault, OptionError
from evalframe.frames import Noted, check, empty
from evalframe.headlines import OF_ROWS, choose_metrics, in_key_order
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import PASS_AT_K, ROWS, SCORES
from evalframe.standings import leaderboard
from evalframe.stats import passk
from evalframe.units import Weighting

PROBLEM = ("model_id", "task_id", "sample_index")
ESTIMATE = "pass@k"  # stands for the metric while problems are averaged; no registered metric can have this id


def pass_at_k(
    scores: pl.DataFrame,
    *,
    k: int | Sequence[int] = (1, 5),
    rows: pl.DataFrame | None = None,
    metric: str | None = None,
    weighting: Weighting = "task",
    n_resamples: int | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Estimate for each model and k how likely one of k tries passes in full.

    A problem is a sample of a task. Of its n repeats with a score, c are ``correct``; its estimate is
    1 - C(n - c, k) / C(n, k) (``evalframe.stats.passk``). Estimates are averaged as a leaderboard averages samples:
    over the problems of a task, then over tasks, with the leaderboard's interval, whose units are problems. So pass@1
    of a 0/1 metric is the leaderboard's ``mean_score``.

    Tasks whose metric does not say what is correct (lower is better, or out of [0, 1]) are left out and named in the
    frame's notes; so is the number of problems that have fewer than k repeats.

    Frame in:
        SCORES, ROWS, in any order.

    Frame out:
        PASS_AT_K.

    Args:
        scores: Of all repeats. ``unparsed`` is a try that failed; ``failed`` and ``grader_error`` are no tries.
        k: One or several, each 1 or more.
        rows: Say what the headline metrics are. Without them each task must have one metric.
        metric: Take this metric over the tasks that average it.
        weighting: ``task``: each task counts the same; ``sample``: each problem does.
        n_resamples: 1 or more; None: ``limits.n_resamples``.
        seed: Of the bootstrap.
        limits: The table of numbers.

    Nulls: a problem with fewer than k scored repeats has no estimate and is in no mean; where all are such, the value
        is null.

    Raises:
        SchemaError: A frame is not what it is called.
        OptionError: ``k`` is no whole number from 1 up; no task has ``metric``; several metrics without ``rows``.
    """
    ks = _checked(k)
    scores = in_key_order(scores, SCORES)
    rows = None if rows is None else in_key_order(rows, ROWS, OF_ROWS)
    choice = choose_metrics(scores, rows=rows, metric=metric)
    chosen = scores.join(choice, on=["task_id", "metric"], how="semi", maintain_order="left")
    left_out = _without_correct(chosen)
    problems = (
        chosen.filter(~pl.col("task_id").is_in(left_out))
        .group_by(PROBLEM, maintain_order=True)
        .agg(
            n=pl.col("correct").is_not_null().sum().cast(pl.Int64),
            # the worst end of a range of one's own may pass the threshold; no answer never does
            c=(pl.col("correct") & (pl.col("fate") != "unparsed")).sum().cast(pl.Int64),
        )
    )
    found = []
    for one_k in ks:
        estimate = pl.Series(passk.pass_at_k(problems["n"], problems["c"], one_k)).fill_nan(None)
        estimates = problems.select(*PROBLEM, estimate.alias("score"))
        board = leaderboard(
            _as_scores(estimates), weighting=weighting, n_resamples=n_resamples, seed=seed, limits=limits
        )
        found.append(_with_counts(board, problems, one_k))
    figures = check(pl.concat(found).sort("model_id", "k"), PASS_AT_K)
    return Noted.of(figures, _notes(figures, left_out))


def _checked(k: int | Sequence[int]) -> list[int]:
    given = list(k) if isinstance(k, Sequence) else [k]
    faults = [
        Fault("k", "bad_value", f"is {one!r}, not a whole number from 1 up", "k is how many tries are drawn: 1, 5, 10")
        for one in given
        if isinstance(one, bool) or not isinstance(one, int) or one < 1
    ]
    if not given:
        faults.append(Fault("k", "missing", "is empty", "give one or several, such as [1, 5]"))
    if faults:
        raise OptionError.of(faults, what="pass_at_k")
    return sorted(set(given))


def _without_correct(chosen: pl.DataFrame) -> list[str]:
    """List the tasks that have scores and not one of them says whether it is correct."""
    of_task = chosen.group_by("task_id").agg(
        unknown=pl.col("score").is_not_null().any() & pl.col("correct").is_null().all()
    )
    return of_task.filter("unknown")["task_id"].sort().to_list()


def _as_scores(estimates: pl.DataFrame) -> pl.DataFrame:
    """Take each problem's estimate as the score of one call; one without an estimate is a call that failed."""
    return pl.concat(
        [
            empty(SCORES),
            estimates.with_columns(
                repeat=pl.lit(0, pl.Int64), metric=pl.lit(ESTIMATE),
                fate=pl.when(pl.col("score").is_null()).then(pl.lit("failed")).otherwise(pl.lit("scored")),
            ),
        ],
        how="diagonal",
    )  # fmt: skip


def _with_counts(board: pl.DataFrame, problems: pl.DataFrame, k: int) -> pl.DataFrame:
    n = pl.col("n")
    counts = problems.group_by("model_id").agg(
        n_problems=pl.len().cast(pl.Int64),
        n_undefined=(n < k).sum().cast(pl.Int64),
        n_repeats_min=n.min(),
        n_repeats_max=n.max(),
    )
    figures = board.select(
        "model_id", "ci_method", pass_at_k="mean_score", pass_at_k_ci_lo="mean_ci_lo", pass_at_k_ci_hi="mean_ci_hi"
    )
    return counts.join(figures, on="model_id").with_columns(k=pl.lit(k, pl.Int64)).select(PASS_AT_K.names)


def _notes(figures: pl.DataFrame, left_out: Sequence[str]) -> Iterator[str]:
    lacking = figures.filter(pl.col("n_undefined") > 0).group_by("k").agg(pl.col("n_undefined").sum()).sort("k")
    for k, count in lacking.iter_rows():
        few = "no scored repeat" if k == 1 else f"fewer than {k} scored repeats"
        verbs = ("problem", "has", "is") if count == 1 else ("problems", "have", "are")
        yield f"k = {k}: {count} {verbs[0]} (over all models) {verbs[1]} {few} and {verbs[2]} in no mean"
    if left_out:
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        yield f"left out, because their metric does not say what is correct: {', '.join(left_out[:5])}{more}"
