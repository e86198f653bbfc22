"""The frames of figures: leaderboards, pairs, calibration, slices."""

from __future__ import annotations

from typing import get_args

import polars as pl

from evalframe.frames import Column, FrameSchema
from evalframe.schemas.columns import FATE_COUNTS, METRIC, MODEL_ID, REPEAT, TASK_ID, amount, count, share
from evalframe.words import Change, Fate

# what a reader looks for first stands first: a terminal shows the first four columns of a wide frame, and the last
LEADERBOARD = FrameSchema(
    "leaderboard",
    "one model, best first",
    (
        MODEL_ID,
        Column("mean_score", pl.Float64, "mean over tasks of the task values; null: nothing scored", nullable=True),
        Column("mean_ci_lo", pl.Float64, "lower end of the 95 % interval; null: none", nullable=True),
        Column("mean_ci_hi", pl.Float64, "upper end of the 95 % interval; null: none", nullable=True),
        count("rank", "1-based; ties within 1e-12 share it; null: no score", nullable=True),
        count("rank_lo", "best rank in the 95 % interval; null: no mean varies", nullable=True),
        count("rank_hi", "worst rank in the 95 % interval; null: no mean varies", nullable=True),
        Column("ci_method", pl.String, "how it was made: [cluster, weighted] bootstrap or wilson, or none and why"),
        share("win_rate", "share of common units on which this model is best, ties shared; null: none in common"),
        count("tasks_completed", "tasks with at least one scored sample"),
        *FATE_COUNTS,
        Column("mean_all", pl.Float64, "mean_score with failed samples counted as 0; null: nothing called",
               nullable=True),
        amount("cost_usd", "dollars this run paid; null: a price is not known"),
        count("total_tokens", "input and output tokens; null: not told", nullable=True),
        share("ece", "expected calibration error; null: no confidences"),
        share("brier", "Brier score; null: no confidences"),
        Column("category.", pl.Float64, "mean over the category's tasks; null: none", nullable=True, family=True),
    ),
    key=("model_id",),
    ordered=False,
)  # fmt: skip

PAIRWISE = FrameSchema(
    "pairwise",
    "one pair of models, on the units that both scored",
    (
        Column("model_a", pl.String, "the first model of the pair"),
        Column("model_b", pl.String, "the second model of the pair"),
        Column("diff_mean", pl.Float64, "mean of a minus b, in the direction of better; null: no common unit",
               nullable=True),
        Column("ci_lo", pl.Float64, "lower end of the 95 % bootstrap interval, a bound where all differences are "
               "equal; null: too few units", nullable=True),
        Column("ci_hi", pl.Float64, "upper end of the 95 % bootstrap interval, a bound where all differences are "
               "equal; null: too few units", nullable=True),
        Column("significant", pl.Boolean, "the interval excludes 0"),
        count("n_pairs", "units that both scored"),
        share("p_value", "two-sided: exact McNemar for 0/1 scores, else sign-flip permutation; null: no pairs"),
        share("p_adjusted", "Holm, over all pairs; null: no pairs"),
        amount("min_detectable", "difference found with 80 % power at 5 %; null: too few units"),
    ),
    key=("model_a", "model_b"),
)  # fmt: skip

CALIBRATION = FrameSchema(
    "calibration",
    "one model's calibration over its headline metrics",
    (
        MODEL_ID,
        count("n_samples", "pairs of confidence and correctness"),
        count("n_left_out", "calls without a confidence, a reply or a grade"),
        share("ece", "expected calibration error, equal-width bins; null: no pairs"),
        share("ece_ci_lo", "lower end of the 95 % bootstrap interval; null: too few pairs"),
        share("ece_ci_hi", "upper end of the 95 % bootstrap interval; null: too few pairs"),
        share("ece_adaptive", "the same over equal-mass bins; null: no pairs"),
        share("mce", "largest gap of a bin; null: no pairs"),
        share("brier", "mean squared error of the confidence; null: no pairs"),
        Column("reliability", pl.Float64, "Murphy's reliability, smaller is better; null: no pairs", nullable=True),
        Column("resolution", pl.Float64, "Murphy's resolution, larger is better; null: no pairs", nullable=True),
        Column("uncertainty", pl.Float64, "Murphy's uncertainty; null: no pairs", nullable=True),
        Column("within_bin", pl.Float64, "brier - (reliability - resolution + uncertainty); null: no pairs",
               nullable=True),
        count("populated_bins", "bins that hold a pair"),
        amount("perplexity", "exp(avg_neg_log_likelihood); null: no token log-probabilities"),
        amount("avg_neg_log_likelihood", "sum of token_nll over sum of token_count, nats; null: none"),
        count("n_nll_tokens", "tokens with a log-probability"),
    ),
    key=("model_id",),
)  # fmt: skip

RELIABILITY = FrameSchema(
    "reliability",
    "one bin of one model's reliability diagram",
    (
        MODEL_ID,
        count("bin", "0-based"),
        share("bin_lo", "lower edge, in the bin", nullable=False),
        share("bin_hi", "upper edge, not in the bin but for 1.0", nullable=False),
        count("n", "pairs in the bin"),
        share("mean_confidence", "null: the bin is empty"),
        share("accuracy", "null: the bin is empty"),
        share("accuracy_ci_lo", "lower end of the 95 % Wilson interval; null: the bin is empty"),
        share("accuracy_ci_hi", "upper end of the 95 % Wilson interval; null: the bin is empty"),
    ),
    key=("model_id", "bin"),
)

SLICES = FrameSchema(
    "slices",
    "one model in one group: its leaderboard there",
    (
        Column("by.", pl.String, "the group's value of what was sliced by, as text; null: missing, null or an empty "
               "list", nullable=True, family=True),
        *LEADERBOARD.columns[:4],
        count("n_units", "samples of the group that the model has a score for: what its mean rests on"),
        Column("small", pl.Boolean, "n_units is under 10 (limits.small_group_units)"),
        count("group", "0-based number of the group, in order of its values"),
        *LEADERBOARD.columns[4:],
    ),
    key=("group", "model_id"),
    ordered=False,
)  # fmt: skip

PASS_AT_K = FrameSchema(
    "pass_at_k",
    "one model and one k: how likely one of k tries is right",
    (
        MODEL_ID,
        count("k", "tries drawn, 1 or more"),
        share("pass_at_k", "mean over tasks of the problems' estimates; null: no problem has k scored repeats"),
        share("pass_at_k_ci_lo", "lower end of the 95 % interval; null: none"),
        share("pass_at_k_ci_hi", "upper end of the 95 % interval; null: none"),
        Column("ci_method", pl.String, "how it was made: [cluster, weighted] bootstrap or wilson, or none and why"),
        count("n_problems", "samples, those without a scored repeat included"),
        count("n_undefined", "problems with fewer than k scored repeats: in no mean"),
        count("n_repeats_min", "fewest scored repeats of a problem; null: no problem", nullable=True),
        count("n_repeats_max", "most scored repeats of a problem; null: no problem", nullable=True),
    ),
    key=("model_id", "k"),
)

COMPARISON = FrameSchema(
    "comparison",
    "one call of two runs, aligned by sample_id: what changed first",
    (
        Column("change", pl.String, "fixed, broken: correct turned; better, worse: the score did; unscored: a side has "
               "a call without a score; only_a, only_b: one side has no such call; same", allowed=get_args(Change)),
        Column("sample_id", pl.String, "the sample, in both runs"),
        Column("extracted_a", pl.String, "the answer in the first run; null: none", nullable=True),
        Column("extracted_b", pl.String, "the answer in the second run; null: none", nullable=True),
        Column("target", pl.String, "the target, the second run's where it has one; null: none", nullable=True),
        TASK_ID,
        REPEAT,
        METRIC,
        Column("score_a", pl.Float64, "null: none", nullable=True),
        Column("score_b", pl.Float64, "null: none", nullable=True),
        Column("correct_a", pl.Boolean, "null: no score, or the metric has no threshold", nullable=True),
        Column("correct_b", pl.Boolean, "null: no score, or the metric has no threshold", nullable=True),
        Column("fate_a", pl.String, "null: no such call", nullable=True, allowed=get_args(Fate)),
        Column("fate_b", pl.String, "null: no such call", nullable=True, allowed=get_args(Fate)),
        Column("model_a", pl.String, "the model in the first run"),
        Column("model_b", pl.String, "the model in the second run"),
    ),
    key=("model_a", "model_b", "task_id", "sample_id", "repeat"),
    ordered=False,
)  # fmt: skip

DIFFERENCES = FrameSchema(
    "differences",
    "one pair of models of two runs, on the samples that both scored",
    (
        Column("model_a", pl.String, "the model in the first run"),
        Column("model_b", pl.String, "the model in the second run"),
        Column("diff_mean", pl.Float64, "mean of b minus a, in the direction of better; null: none in common",
               nullable=True),
        Column("ci_lo", pl.Float64, "lower end of the 95 % interval, as in pairwise; null: none", nullable=True),
        Column("ci_hi", pl.Float64, "upper end of the 95 % interval, as in pairwise; null: none", nullable=True),
        Column("significant", pl.Boolean, "the interval excludes 0"),
        share("p_value", "two-sided: exact McNemar for 0/1 scores, else sign-flip permutation; null: no pairs"),
        amount("min_detectable", "difference found with 80 % power at 5 %; null: too few units"),
        count("n_pairs", "units that both scored"),
        Column("mean_a", pl.Float64, "mean_score on the common samples; null: none in common", nullable=True),
        Column("mean_b", pl.Float64, "mean_score on the common samples; null: none in common", nullable=True),
        *(count(f"n_{change}", f"calls whose change is {change}") for change in reversed(get_args(Change))),
    ),
    key=("model_a", "model_b"),
)  # fmt: skip

_SPENT = (
    amount("cost_usd", "dollars that this run paid; null: the price of a completed call is not known"),
    amount("cost_usd_original", "dollars that the calls cost when they were made; null: as above"),
    count("total_tokens", "input and output tokens; null: a completed call does not tell", nullable=True),
    count("input_tokens", "null: a completed call does not tell", nullable=True),
    count("output_tokens", "null: a completed call does not tell", nullable=True),
    count("cached_tokens", "input tokens that the provider had cached; null: not told", nullable=True),
    count("reasoning_tokens", "output tokens spent on reasoning; null: not told", nullable=True),
    count("n_unpriced", "completed calls whose price is not known"),
    count("n_cached", "completed calls whose reply came from the result cache"),
    count("n_attempts", "requests sent, retries included"),
    amount("latency_median_seconds", "of completed calls; null: none"),
    amount("latency_p95_seconds", "95th percentile of completed calls; null: none"),
    amount("latency_sum_seconds", "of completed calls, one after the other; null: none"),
    count("n_calls", "calls planned: samples times repeats"),
    count("n_completed", "calls with a reply"),
    count("n_failed", "calls without one"),
    count("n_skipped", "calls never made"),
)

COSTS = FrameSchema("costs", "one model: what its calls cost", (MODEL_ID, *_SPENT), key=("model_id",))

TASK_COSTS = FrameSchema(
    "task_costs",
    "one model in one task: what its calls cost",
    (MODEL_ID, TASK_ID, *_SPENT),
    key=("model_id", "task_id"),
)

RUN_COSTS = FrameSchema("run_costs", "the run, its only row: what all calls cost", _SPENT, key=())
