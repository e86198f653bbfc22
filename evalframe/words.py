"""The closed vocabularies, each written once: what becomes of a call, of its extraction, of its score; white space."""

from __future__ import annotations

from typing import Literal

# what str.strip and str.split take for blank; polars' own strip_chars() leaves U+001C to U+001F
WHITE_SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

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

# what became of a call in another run, in the order in which a person wants to see it
Change = Literal["broken", "fixed", "worse", "better", "unscored", "only_a", "only_b", "same"]

# why a reply did not come from the result cache
CacheMiss = Literal[
    "cache_off", "refreshed", "no_version", "model_unknown", "not_kept", "new_prompt", "other_model", "other_version",
    "other_server", "other_request", "other_task", "other_text", "other_settings", "other_repeat", "not_read",
]  # fmt: skip

ConfidenceSource = Literal["adapter", "token_logprobs", "choice_logprobs", "stated", "agreement"]

PostProcess = Literal["none", "strip_whitespace", "lower", "extract_letter", "extract_code_block", "extract_first_line"]

# of task files; their legal pairs are in manifest/taskvocabulary.py
Category = Literal["arithmetic", "mcq", "code_exec", "classification", "summary"]

TaskMetric = Literal["exact_match", "f1", "bleu_4", "rouge_l", "accuracy", "code_exec"]
