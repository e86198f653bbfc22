"""Every frame of evalframe, declared once: column, type, unit, nulls and meaning.

The pipeline: ROWS -> GENERATIONS -> ANSWERS -> GRADES -> SCORES -> TASK_METRICS, LEADERBOARD, PAIRWISE, ...
A call's outcome, what was read from it, what a grader said of it and the numbers are separate frames, because they
fail and are repeated separately.
"""

from __future__ import annotations

from typing import get_args

import polars as pl

from evalframe.frames import Column, FrameSchema
from evalframe.words import CallError, ExtractionStatus, Fate, FinishReason, GraderStatus, SkipReason, Status

TEXTS = pl.List(pl.String)
METRIC_CHOICES = pl.List(pl.Struct({"id": pl.String, "aggregation": pl.String, "higher_is_better": pl.Boolean}))
INSTANT = pl.Datetime("us", "UTC")


def _count(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, pl.Int64, doc, nullable=nullable, low=0)


def _share(name: str, doc: str, *, nullable: bool = True) -> Column:
    return Column(name, pl.Float64, doc, nullable=nullable, low=0.0, high=1.0)


def _amount(name: str, doc: str) -> Column:
    return Column(name, pl.Float64, doc, nullable=True, low=0.0)


MODEL_ID = Column("model_id", pl.String, "the model, as the adapter names itself")
TASK_ID = Column("task_id", pl.String, "the task, unique in a run")
SAMPLE_INDEX = _count("sample_index", "0-based position in the task's data, after preprocessing")
REPEAT = _count("repeat", "0-based number of the repeat")
METRIC = Column("metric", pl.String, "metric id")
CALL_KEY = ("model_id", "task_id", "sample_index", "repeat")
CALL = (MODEL_ID, TASK_ID, SAMPLE_INDEX, REPEAT)

RECORDS = FrameSchema(
    "records",
    "one record of a data source, before its prompt is made",
    (
        _count("line_number", "1-based line in the file; the record's 1-based position where there are no lines"),
        Column("row", pl.String, "the whole record as compact JSON text, numbers as written"),
        Column("field.", pl.String, "the value at a named path, as a template renders it; null: missing or null",
               nullable=True, family=True),
        Column("items.", TEXTS, "the value at a named path where it is a list of scalars, each rendered; else null",
               nullable=True, family=True),
    ),
    key=("line_number",),
)  # fmt: skip

ROWS = FrameSchema(
    "rows",
    "one sample of one task",
    (
        TASK_ID,
        SAMPLE_INDEX,
        Column("sample_id", pl.String, "the record's own id, else a hash of its content; unique in the task"),
        Column("category", pl.String, "a task file's category, a suite's task type"),
        Column("prompt", pl.String, "what is sent, few-shot examples included"),
        Column("prompt_hash", pl.String, "BLAKE2b-128 of the prompt, hexadecimal"),
        Column("target", pl.String, "the rendered target; null: the task has none", nullable=True),
        Column("targets", TEXTS, "the references of built-in metrics; empty: none"),
        Column("choices", TEXTS, "the task's or the record's choices; null: none", nullable=True),
        Column("metrics", METRIC_CHOICES, "the task's metrics, in order; the first with aggregation mean is headline"),
        Column("extraction", pl.String, "the task's extraction, as compact JSON text"),
        Column("row", pl.String, "the record as compact JSON text, numbers as written"),
        Column("metadata", pl.String, "the task's metadata as JSON text"),
        Column("row.", pl.String, "a named field of the record, as text; null: missing", nullable=True, family=True),
        Column("metadata.", pl.String, "a key of the task's metadata, as text", nullable=True, family=True),
    ),
    key=("task_id", "sample_index"),
)

GENERATIONS = FrameSchema(
    "generations",
    "one call: a model, a task, a sample, a repeat",
    (
        *CALL,
        Column("status", pl.String, "completed: a reply came; failed: none did; skipped: never called",
               allowed=get_args(Status)),
        Column("output_text", pl.String, "the reply without its reasoning; null unless completed", nullable=True),
        Column("reasoning", pl.String, "the reasoning part; null: none", nullable=True),
        Column("tool_calls", pl.String, "JSON text; null: none", nullable=True),
        Column("finish_reason", pl.String, "why a completed reply ended; null: not said", nullable=True,
               allowed=get_args(FinishReason)),
        _share("confidence", "the model's confidence in its answer; null: not known"),
        Column("confidence_source", pl.String, "where the confidence comes from; null: none", nullable=True),
        _amount("token_nll", "sum of the negative log-probabilities of the reply's tokens, nats; null: not known"),
        _count("token_count", "number of tokens in token_nll; null: not known", nullable=True),
        _count("input_tokens", "null: not told", nullable=True),
        _count("output_tokens", "null: not told", nullable=True),
        _count("cached_tokens", "input tokens that the provider had cached; null: not told", nullable=True),
        _count("reasoning_tokens", "output tokens spent on reasoning; null: not told", nullable=True),
        Column("choice_logprobs", pl.List(pl.Float64), "summed log-probability of each choice; null: not asked",
               nullable=True),
        _amount("cost_usd", "dollars that this run paid; 0 for a cached reply; null: price not known"),
        _amount("cost_usd_original", "dollars that the call cost when it was made; null: price not known"),
        _amount("latency_seconds", "of the call that gave the reply, also where it is cached; null: not called"),
        _count("attempts", "requests sent; 0: none"),
        Column("cached", pl.Boolean, "the reply came from the result cache"),
        Column("model_version", pl.String, "as the server names it; null: not told", nullable=True),
        Column("response_id", pl.String, "the server's id of the reply; null: none", nullable=True),
        Column("error_type", pl.String, "why there is no reply; null for a completed call", nullable=True,
               allowed=tuple(dict.fromkeys((*get_args(CallError), *get_args(SkipReason))))),
        Column("error_message", pl.String, "the error in words; null for a completed call", nullable=True),
        Column("started_at", INSTANT, "when the call began; null: never", nullable=True),
    ),
    key=CALL_KEY,
)  # fmt: skip

ANSWERS = FrameSchema(
    "answers",
    "what was read from one call",
    (
        *CALL,
        Column("extracted_output", pl.String, "the answer; null: none was found, or there was no reply", nullable=True),
        Column("extraction_status", pl.String, "null: there was no reply", nullable=True,
               allowed=get_args(ExtractionStatus)),
        Column("extraction_rule", pl.String, "which rule of the extraction took the answer, or why none did; null: "
               "there was no reply", nullable=True),
    ),
    key=CALL_KEY,
)  # fmt: skip

GRADES = FrameSchema(
    "grades",
    "what a grader said of one call",
    (
        *CALL,
        Column("grader_status", pl.String, "what became of the grader's call", allowed=get_args(GraderStatus)),
        Column("grader_error_type", pl.String, "null: no error", nullable=True),
        Column("grader_error_message", pl.String, "null: no error", nullable=True),
        Column("grader_metadata", pl.String, "JSON text; null: none", nullable=True),
        Column("judge", pl.String, "JSON text; null: none", nullable=True),
    ),
    key=CALL_KEY,
)

SCORES = FrameSchema(
    "scores",
    "one number: a call and a metric; skipped calls have none",
    (
        *CALL,
        METRIC,
        Column("score", pl.Float64, "null: failed or grader_error", nullable=True),
        Column("fate", pl.String, "scored; unparsed: no answer, worst value; failed: no reply; grader_error",
               allowed=get_args(Fate)),
        Column("correct", pl.Boolean, "the score passes the metric's threshold; null: no score, or no such threshold",
               nullable=True),
        Column("parts", pl.List(pl.Float64), "sufficient statistics of a corpus metric; null: its aggregate is a mean",
               nullable=True),
        Column("detail", pl.String, "JSON text: why, where the metric can say it; null: nothing to say", nullable=True),
    ),
    key=(*CALL_KEY, "metric"),
)  # fmt: skip

# every count is of calls (samples times repeats), so that the five below add up to n_samples
FATE_COUNTS = (
    _count("n_samples", "calls planned: samples times repeats"),
    _count("n_scored", "calls with a score of an answer"),
    _count("n_unparsed", "calls without an extractable answer: worst value, in the mean"),
    _count("n_failed", "calls without a reply: null, not in the mean"),
    _count("n_grader_error", "calls that the grader failed on: null, not in the mean"),
    _count("n_skipped", "calls never made: in no mean"),
)

TASK_METRICS = FrameSchema(
    "task_metrics",
    "the aggregate of one metric over one task, for one model",
    (
        MODEL_ID,
        TASK_ID,
        METRIC,
        Column("category", pl.String, "the task's category"),
        Column("value", pl.Float64, "null: no sample has a score, or aggregation none", nullable=True),
        Column("aggregation", pl.String, "mean, or none: kept for each sample and never ranked",
               allowed=("mean", "none")),
        Column("higher_is_better", pl.Boolean, "the metric's direction"),
        Column("headline", pl.Boolean, "this is the task's headline metric"),
        Column("source", pl.String, "who computed the value: our aggregate, or a batch grader",
               allowed=("aggregate", "grader")),
        *FATE_COUNTS,
    ),
    key=("model_id", "task_id", "metric"),
)  # fmt: skip

JUDGE_CALLS = FrameSchema(
    "judge_calls",
    "one call that a grader made over the bridge",
    (
        *CALL,
        _count("call_index", "0-based number of the call within its sample"),
        *(Column("judge_model_id", pl.String, "the model that was called"), *GENERATIONS.columns[4:]),
    ),
    key=(*CALL_KEY, "call_index"),
)

SAMPLES = FrameSchema(
    "samples",
    "one call with all that is known of it: what a person reads",
    (
        Column("run_id", pl.String, "the run"),
        *CALL,
        *ROWS.fixed[2:],
        *GENERATIONS.columns[4:],
        *ANSWERS.columns[4:],
        Column("score", pl.Float64, "of the task's headline metric; null: none", nullable=True),
        Column("fate", pl.String, "of the headline metric; null: skipped, or no headline metric", nullable=True,
               allowed=get_args(Fate)),
        Column("correct", pl.Boolean, "of the headline metric", nullable=True),
        Column("detail", pl.String, "JSON text, of the headline metric", nullable=True),
        Column("score.", pl.Float64, "of each metric; null: none", nullable=True, family=True),
        *ROWS.families,
    ),
    key=CALL_KEY,
)  # fmt: skip

LEADERBOARD = FrameSchema(
    "leaderboard",
    "one model, best first",
    (
        _count("rank", "1-based; ties within 1e-12 share it; null: no score", nullable=True),
        _count("rank_lo", "best rank in the 95 % interval; null: no mean varies", nullable=True),
        _count("rank_hi", "worst rank in the 95 % interval; null: no mean varies", nullable=True),
        MODEL_ID,
        Column("mean_score", pl.Float64, "mean over tasks of the task values; null: nothing scored", nullable=True),
        Column("mean_ci_lo", pl.Float64, "lower end of the 95 % interval; null: none", nullable=True),
        Column("mean_ci_hi", pl.Float64, "upper end of the 95 % interval; null: none", nullable=True),
        Column("ci_method", pl.String, "how it was made: [cluster, weighted] bootstrap or wilson, or none and why"),
        _share("win_rate", "share of common units on which this model is best, ties shared; null: none in common"),
        _count("tasks_completed", "tasks with at least one scored sample"),
        *FATE_COUNTS,
        Column("mean_all", pl.Float64, "mean_score with failed samples counted as 0; null: nothing called",
               nullable=True),
        _amount("cost_usd", "dollars this run paid; null: a price is not known"),
        _count("total_tokens", "input and output tokens; null: not told", nullable=True),
        _share("ece", "expected calibration error; null: no confidences"),
        _share("brier", "Brier score; null: no confidences"),
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
        _count("n_pairs", "units that both scored"),
        _share("p_value", "two-sided: exact McNemar for 0/1 scores, else sign-flip permutation; null: no pairs"),
        _share("p_adjusted", "Holm, over all pairs; null: no pairs"),
        _amount("min_detectable", "difference found with 80 % power at 5 %; null: too few units"),
    ),
    key=("model_a", "model_b"),
)  # fmt: skip

CALIBRATION = FrameSchema(
    "calibration",
    "one model's calibration over its headline metrics",
    (
        MODEL_ID,
        _count("n_samples", "pairs of confidence and correctness"),
        _count("n_left_out", "calls without a confidence, a reply or a grade"),
        _share("ece", "expected calibration error, equal-width bins; null: no pairs"),
        _share("ece_ci_lo", "lower end of the 95 % bootstrap interval; null: too few pairs"),
        _share("ece_ci_hi", "upper end of the 95 % bootstrap interval; null: too few pairs"),
        _share("ece_adaptive", "the same over equal-mass bins; null: no pairs"),
        _share("mce", "largest gap of a bin; null: no pairs"),
        _share("brier", "mean squared error of the confidence; null: no pairs"),
        Column("reliability", pl.Float64, "Murphy's reliability, smaller is better; null: no pairs", nullable=True),
        Column("resolution", pl.Float64, "Murphy's resolution, larger is better; null: no pairs", nullable=True),
        Column("uncertainty", pl.Float64, "Murphy's uncertainty; null: no pairs", nullable=True),
        Column("within_bin", pl.Float64, "brier - (reliability - resolution + uncertainty); null: no pairs",
               nullable=True),
        _count("populated_bins", "bins that hold a pair"),
        _amount("perplexity", "exp(avg_neg_log_likelihood); null: no token log-probabilities"),
        _amount("avg_neg_log_likelihood", "sum of token_nll over sum of token_count, nats; null: none"),
        _count("n_nll_tokens", "tokens with a log-probability"),
    ),
    key=("model_id",),
)  # fmt: skip

RELIABILITY = FrameSchema(
    "reliability",
    "one bin of one model's reliability diagram",
    (
        MODEL_ID,
        _count("bin", "0-based"),
        _share("bin_lo", "lower edge, in the bin", nullable=False),
        _share("bin_hi", "upper edge, not in the bin but for 1.0", nullable=False),
        _count("n", "pairs in the bin"),
        _share("mean_confidence", "null: the bin is empty"),
        _share("accuracy", "null: the bin is empty"),
        _share("accuracy_ci_lo", "lower end of the 95 % Wilson interval; null: the bin is empty"),
        _share("accuracy_ci_hi", "upper end of the 95 % Wilson interval; null: the bin is empty"),
    ),
    key=("model_id", "bin"),
)

SLICES = FrameSchema(
    "slices",
    "one model in one group: its leaderboard there",
    (
        _count("group", "0-based number of the group, in order of its values"),
        _count("n_units", "samples of the group that the model has a score for: what its mean rests on"),
        Column("small", pl.Boolean, "n_units is under 10 (limits.small_group_units)"),
        *LEADERBOARD.columns,
        Column("by.", pl.String, "the group's value of what was sliced by, as text; null: missing, null or an empty "
               "list", nullable=True, family=True),
    ),
    key=("group", "model_id"),
    ordered=False,
)  # fmt: skip

PASS_AT_K = FrameSchema(
    "pass_at_k",
    "one model and one k: how likely one of k tries is right",
    (
        MODEL_ID,
        _count("k", "tries drawn, 1 or more"),
        _share("pass_at_k", "mean over tasks of the problems' estimates; null: no problem has k scored repeats"),
        _share("pass_at_k_ci_lo", "lower end of the 95 % interval; null: none"),
        _share("pass_at_k_ci_hi", "upper end of the 95 % interval; null: none"),
        Column("ci_method", pl.String, "how it was made: [cluster, weighted] bootstrap or wilson, or none and why"),
        _count("n_problems", "samples, those without a scored repeat included"),
        _count("n_undefined", "problems with fewer than k scored repeats: in no mean"),
        _count("n_repeats_min", "fewest scored repeats of a problem; null: no problem", nullable=True),
        _count("n_repeats_max", "most scored repeats of a problem; null: no problem", nullable=True),
    ),
    key=("model_id", "k"),
)

ALL = (
    RECORDS, ROWS, GENERATIONS, ANSWERS, GRADES, SCORES, TASK_METRICS, JUDGE_CALLS, SAMPLES, LEADERBOARD, PAIRWISE,
    CALIBRATION, RELIABILITY, SLICES, PASS_AT_K,
)  # fmt: skip
