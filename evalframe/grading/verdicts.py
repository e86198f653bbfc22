"""What a grader gave back, held to its contract: scores that are numbers, errors that name what is not one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalframe.jsontext import clean
from evalframe.registry import METRICS
from evalframe.sandbox.foreign import Broken, Outcome, Raised, Returned, TimedOut

Error = tuple[str, str]  # type and message
SHAPES = 'return a number, or {"scores": {"metric": number}}'
BATCH_SHAPES = (
    'return {"metrics": {"metric": number}, "samples": [{"sample_index": i, "scores": {…}}, …]}, or a list with one '
    "result a sample, in order"
)


@dataclass(slots=True)
class Verdict:
    """What was said of one call.

    Attributes:
        scores: Metric to number.
        errors: Metric to what is wrong with its number; the others keep theirs.
        error: What is wrong with the whole: nothing of it counts.
        traceback: Of the user's code, where it raised.
        timed_out: It is that the time was over.
        metadata, judge: JSON text; None: none.
    """

    scores: dict[str, float] = field(default_factory=dict)
    errors: dict[str, Error] = field(default_factory=dict)
    error: Error | None = None
    traceback: str = ""
    timed_out: bool = False
    metadata: str | None = None
    judge: str | None = None


@dataclass(slots=True)
class BatchVerdict:
    """What was said of a batch: of each of its calls, and of all together."""

    verdicts: list[Verdict]
    metrics: dict[str, float] = field(default_factory=dict)


def read_outcome(outcome: Outcome, *, metric_id: str) -> Verdict:
    """Read what ``grade`` gave for one sample: a number, a bool, or a dict with ``scores``, ``metadata``, ``judge``.

    ``{"score": 0.5}`` is a score of ``metric_id``. Other keys beside ``scores`` are kept with the metadata. A metric
    that is registered has a range, which its scores must not leave; other metrics may have any finite number.
    """
    if isinstance(outcome, Returned):
        return read_result(outcome.value, metric_id=metric_id)
    return _failed(outcome)


def read_batch(outcome: Outcome, *, metric_id: str, sample_indices: Sequence[int]) -> BatchVerdict:
    """Read what ``grade_batch`` gave: a dict with ``metrics`` and ``samples``, or a list of results in order."""
    if not isinstance(outcome, Returned):
        return BatchVerdict([_failed(outcome) for _ in sample_indices])
    value, n = outcome.value, len(sample_indices)
    if isinstance(value, list):
        if len(value) != n:
            return _bad_batch(n, f"grade_batch returned {len(value)} results for {n} samples; {BATCH_SHAPES}")
        return BatchVerdict([read_result(one, metric_id=metric_id) for one in value])
    if not isinstance(value, Mapping) or not {"metrics", "samples"} & value.keys():
        return _bad_batch(n, f"grade_batch returned {shown(value)}; {BATCH_SHAPES}")
    metrics, samples = value.get("metrics"), value.get("samples")
    if not isinstance(metrics, Mapping | None) or not isinstance(samples, list | None):
        wrong = "samples" if isinstance(metrics, Mapping | None) else "metrics"
        return _bad_batch(n, f"grade_batch returned {wrong}: {shown(value[wrong])}; {BATCH_SHAPES}")
    verdicts = [Verdict() for _ in sample_indices]
    if samples and (bad := _take_samples(samples, verdicts, metric_id=metric_id, sample_indices=sample_indices)):
        return _bad_batch(n, bad)
    read, errors = _read_scores(metrics or {})
    for verdict in verdicts:
        verdict.errors = {**errors, **verdict.errors}
    return BatchVerdict(verdicts, read)


def _take_samples(
    samples: list[Any], verdicts: list[Verdict], *, metric_id: str, sample_indices: Sequence[int]
) -> str | None:
    """Put each entry to its call, by ``sample_index``; say what is wrong with the list as a whole."""
    places = {index: place for place, index in enumerate(sample_indices)}
    for number, entry in enumerate(samples):
        index = entry.get("sample_index") if isinstance(entry, Mapping) else None
        at = f"grade_batch returned samples[{number}]"
        if type(index) is not int or index not in places:
            seen = f"with sample_index {shown(index)}" if isinstance(entry, Mapping) else f"as {shown(entry)}"
            why = "which stands there twice" if index in sample_indices else "which is no sample of this batch"
            return f"{at} {seen}, {why}; give each sample one entry, with the sample_index that it came with"
        rest = {key: value for key, value in entry.items() if key not in ("sample_index", "sample_id")}
        verdicts[places.pop(index)] = read_result(rest, metric_id=metric_id)
    return None


def read_result(value: Any, *, metric_id: str) -> Verdict:
    """Read the result of one sample."""
    if not isinstance(value, Mapping):
        scores, errors = _read_scores({metric_id: value})
        return Verdict(scores, errors)
    given = value.get("scores")
    if given is None and "score" in value:
        given = {metric_id: value["score"]}
    if not isinstance(given, Mapping):
        what = f"scores: {shown(given)}" if "scores" in value else f"{shown(value)}, which has no scores"
        return Verdict(error=("bad_return", f"the grader returned {what}; {SHAPES}"))
    scores, errors = _read_scores(given)
    extra = {key: one for key, one in value.items() if key not in ("scores", "score", "metadata", "judge")}
    metadata = value.get("metadata")
    if extra:
        metadata = {**extra, **(metadata if isinstance(metadata, Mapping) else {"metadata": metadata})}
    return Verdict(scores, errors, metadata=_json(metadata), judge=_json(value.get("judge")))


def _read_scores(given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Error]]:
    scores: dict[str, float] = {}
    errors: dict[str, Error] = {}
    for key, value in given.items():
        name = clean(str(key))
        if (wrong := _wrong(name, value)) is None:
            scores[name] = float(value)
        else:
            errors[name] = ("bad_score", f"the grader returned {shown(value)} as {name}, which is {wrong}")
    return scores, errors


def _wrong(name: str, value: Any) -> str | None:
    """Say what is wrong with a score; None: nothing."""
    if not isinstance(value, int | float):
        return "no number; return a number or a bool"
    try:
        number = float(value)
    except OverflowError:
        return "more than a float can hold"
    if not math.isfinite(number):
        return "no finite number; return one, or raise an error that says why there is none"
    low, high = METRICS.get(name).range if name in METRICS else (-math.inf, math.inf)
    if not low <= number <= high:
        return f"out of the range of the metric {name!r}, {low:g} to {high:g}; give a metric of your own another id"
    return None


def _failed(outcome: Raised | TimedOut | Broken) -> Verdict:
    match outcome:
        case Raised(error_type, message, traceback):
            return Verdict(error=(clean(error_type), clean(message)), traceback=clean(traceback))
        case TimedOut(seconds):
            late = f"the grader was not done after {seconds:g} s; make it faster, or raise timeout_seconds"
            return Verdict(error=("timeout", late), timed_out=True)
        case Broken(reason):
            return Verdict(error=("broken", clean(reason)))


def _bad_batch(n: int, message: str) -> BatchVerdict:
    return BatchVerdict([Verdict(error=("bad_return", message)) for _ in range(n)])


def shown(value: Any) -> str:
    """Give a value as a message has it: Python's own words, cut."""
    text = clean(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _json(value: Any) -> str | None:
    """Give JSON text; NaN and infinities, which JSON has not, become null."""
    return None if value is None else clean(json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":")))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
