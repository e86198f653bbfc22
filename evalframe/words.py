"""The closed vocabularies, each written once: what can become of a call, of its extraction, of its score."""

from __future__ import annotations

from typing import Literal

Status = Literal["completed", "failed", "skipped"]

# why a completed reply ended
FinishReason = Literal[
    "stop", "length", "content_filter", "refusal", "tool_calls", "truncated_reasoning", "truncated_no_answer"
]

# error_type of a failed call
CallError = Literal[
    "timeout", "connection", "rate_limited", "server_error", "bad_request", "unauthorized", "bad_reply",
    "missing_output", "adapter_error",
]  # fmt: skip

# error_type of a call that was never made
SkipReason = Literal["unavailable", "unauthorized", "cost_cap", "interrupted"]

ExtractionStatus = Literal["ok", "no_match", "empty_output", "timeout"]

GraderStatus = Literal["graded", "error", "timeout"]

Fate = Literal["scored", "unparsed", "failed", "grader_error"]

ConfidenceSource = Literal["adapter", "token_logprobs", "choice_logprobs", "stated", "agreement"]

PostProcess = Literal["none", "strip_whitespace", "lower", "extract_letter", "extract_code_block", "extract_first_line"]

# of task files; their legal pairs are in manifest/taskvocabulary.py
Category = Literal["arithmetic", "mcq", "code_exec", "classification", "summary"]

TaskMetric = Literal["exact_match", "f1", "bleu_4", "rouge_l", "accuracy", "code_exec"]
