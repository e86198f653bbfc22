"""The frames of the pipeline: records, rows, calls, answers, grades, scores, and all of them joined."""

from __future__ import annotations

from typing import get_args

import polars as pl

from evalframe.frames import Column, FrameSchema
from evalframe.schemas.columns import (
    CALL,
    CALL_KEY,
    FATE_COUNTS,
    INSTANT,
    METRIC,
    METRIC_CHOICES,
    MODEL_ID,
    REPEAT,
    SAMPLE_INDEX,
    TASK_ID,
    TEXTS,
    amount,
    count,
    share,
)
from evalframe.words import CacheMiss, CallError, ExtractionStatus, Fate, FinishReason, GraderStatus, SkipReason, Status

RECORDS = FrameSchema(
    "records",
    "one record of a data source, before its prompt is made",
    (
        count("line_number", "1-based line in the file; the record's 1-based position where there are no lines"),
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
        share("confidence", "the model's confidence in its answer; null: not known"),
        Column("confidence_source", pl.String, "where the confidence comes from; null: none", nullable=True),
        amount("token_nll", "sum of the negative log-probabilities of the reply's tokens, nats; null: not known"),
        count("token_count", "number of tokens in token_nll; null: not known", nullable=True),
        count("input_tokens", "null: not told", nullable=True),
        count("output_tokens", "null: not told", nullable=True),
        count("cached_tokens", "input tokens that the provider had cached; null: not told", nullable=True),
        count("reasoning_tokens", "output tokens spent on reasoning; null: not told", nullable=True),
        Column("choice_logprobs", pl.List(pl.Float64), "summed log-probability of each choice; null: not asked",
               nullable=True),
        amount("cost_usd", "dollars that this run paid; 0 for a cached reply; null: price not known"),
        amount("cost_usd_original", "dollars that the call cost when it was made; null: price not known"),
        amount("latency_seconds", "of the call that gave the reply, also where it is cached; null: not called"),
        count("attempts", "requests sent; 0: none"),
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

GRADED = FrameSchema(
    "graded",
    "one call of a grader, kept so that it is not made again; of a batch with the key of its first call",
    (
        TASK_ID,
        Column("digest", pl.String, "BLAKE2b-128 of the grader's text and of all that it was called with, hexadecimal"),
        MODEL_ID,
        SAMPLE_INDEX,
        REPEAT,
        Column("outcome", pl.String, "what came of it, as JSON text: returned, raised, timed_out or broken"),
    ),
    key=("task_id", "digest"),
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

TASK_METRICS = FrameSchema(
    "task_metrics",
    "the aggregate of one metric over one task, for one model",
    (
        MODEL_ID,
        TASK_ID,
        METRIC,
        Column("category", pl.String, "the task's category"),
        Column("value", pl.Float64, "null: no sample has a score, or aggregation none and no batch grader gave it",
               nullable=True),
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

CACHE_MISSES = FrameSchema(
    "cache_misses",
    "one call whose reply did not come from the result cache",
    (
        *CALL,
        Column("reason", pl.String, "why it did not; other_*: what differs first from the nearest request that a reply "
               "was kept of", allowed=get_args(CacheMiss)),
        Column("detail", pl.String, "all that differs, or what became of the reply; null: nothing more to say",
               nullable=True),
    ),
    key=CALL_KEY,
)  # fmt: skip

JUDGE_CALLS = FrameSchema(
    "judge_calls",
    "one call that a grader made over the bridge",
    (
        *CALL,
        count("call_index", "0-based number of the call within its sample"),
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
        Column("grader_status", pl.String, "what became of the grader's call; null: there was none", nullable=True,
               allowed=get_args(GraderStatus)),
        *GRADES.columns[5:],
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
