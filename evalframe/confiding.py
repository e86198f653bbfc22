"""GENERATIONS × ANSWERS -> GENERATIONS: the confidence of each call, from the source that the run names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from evalframe.errors import OptionError, SchemaError
from evalframe.extractors import extract
from evalframe.frames import check, listed
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.confidence import confidence_faults, extraction_of
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS
from evalframe.words import WHITE_SPACE

SAMPLE = CALL_KEY[:3]  # the repeats of a sample are its calls
# sources that are known when the call is made; the others are computed here, and again wherever the option is another
OF_THE_CALL = ("adapter", "choice_logprobs")
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"

# why a completed call has no confidence, as ``Lacks`` says it
NO_TOKENS = "without token log-probabilities"
ONE_REPLY = "whose sample has no second reply"
NO_ANSWER = "without an answer"
NOTHING_STATED = "that state none by the pattern"
NOT_SEARCHED = "on which the pattern took too long"
NO_NUMBER = "that state no number"
OUT_OF_RANGE = "that state a number out of range"
NOT_KEPT = "whose own confidence an export did not keep"


class Lacks:
    """Completed calls for which the chosen source has no confidence: counted by model, with the first of each kind."""

    def __init__(self) -> None:
        self._completed: dict[str, int] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._first: dict[str, str] = {}

    def add(self, calls: pl.DataFrame) -> None:
        """Count calls, one segment after the other.

        Args:
            calls: The key, ``status``, ``why`` (null: it has a confidence) and ``seen`` (what stands there instead).
        """
        completed = calls.filter(pl.col("status") == "completed")
        for model_id, n in completed.group_by("model_id", maintain_order=True).len().iter_rows():
            self._completed[model_id] = self._completed.get(model_id, 0) + n
        lacking = completed.filter(pl.col("why").is_not_null())
        kinds = lacking.group_by("why", "model_id", maintain_order=True).agg(
            pl.len().alias("n"), pl.col("task_id", "sample_index", "seen").first()
        )
        for why, model_id, n, task_id, sample_index, seen in kinds.iter_rows():
            counts = self._counts.setdefault(why, {})
            counts[model_id] = counts.get(model_id, 0) + n
            if seen is not None:
                self._first.setdefault(why, f" (first: {_short(seen)}, task {task_id!r}, sample {sample_index})")

    def lines(self) -> list[str]:
        """One sentence a kind: what a reader of a calibration must know."""
        return [
            f"no confidence for replies {why}{self._first.get(why, '')}: "
            + listed([f"{model_id} ({n} of {self._completed[model_id]})" for model_id, n in counts.items()])
            for why, counts in self._counts.items()
        ]


def confide(
    generations: pl.DataFrame,
    answers: pl.DataFrame,
    *,
    option: str | Mapping[str, Any] | None,
    lacks: Lacks | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Give each call its confidence, and name the source in ``confidence_source``.

    =============================  =================================================================  =================
    option                         confidence                                                         source
    =============================  =================================================================  =================
    None, ``adapter``              as the call brought it: the adapter's own, or the choices' softmax  as it is
    ``logprobs``                   exp(-token_nll / token_count), the tokens' geometric mean           token_logprobs
    ``{"pattern", "scale"}``       group 1 of the last match in ``output_text``, a decimal number;     stated
                                   of ``percent`` a hundredth of it, with or without a final ``%``
    ``agreement``                  the share of the sample's completed repeats that have the same      agreement
                                   ``extracted_output``, this call among them
    =============================  =================================================================  =================

    Agreement compares answers as extraction gives them, letter by letter: ``7`` and ``7.0`` differ where they are text.
    A call without an answer agrees with none, and lowers the share of the others.

    Frame in: GENERATIONS, ANSWERS of the same calls in the same order; for ``agreement`` all repeats of each sample.
    Frame out: GENERATIONS, the same but for ``confidence`` and ``confidence_source``.

    Args:
        generations: What the adapters gave.
        answers: What was read from it.
        option: The run's option ``confidence``.
        lacks: Where calls without a value are counted.
        limits: The table of numbers: time and length of regular expressions.

    Nulls:
        Where the chosen source has no value the confidence is null, and never that of another source: no token
        log-probabilities; no match, no number, a number out of range; no answer, or no second completed repeat. A call
        without a reply has none.

    Raises:
        SchemaError: A frame is not what it is called, or the answers are not of these calls.
        OptionError: The option is wrong; every fault is named.
    """
    check(generations, GENERATIONS)
    check(answers, ANSWERS)
    if faults := confidence_faults(option, limits=limits):
        raise OptionError.of(faults, what="confidence")
    if not answers.select(CALL_KEY).equals(generations.select(CALL_KEY)):
        raise SchemaError("the answers are not of these calls; pass what extract_answers gave for these generations")
    if option is None or option == "adapter":
        if generations["confidence_source"].is_in(OF_THE_CALL).all():  # nulls aside; the rule, and nothing to copy
            return generations
        found, source = _of_the_call(generations), pl.col("confidence_source")
    elif option == "logprobs":
        found, source = _by_tokens(generations), pl.lit("token_logprobs")
    elif option == "agreement":
        found, source = _by_agreement(generations, answers), pl.lit("agreement")
    else:
        assert isinstance(option, Mapping)  # confidence_faults refused all else
        found, source = _stated(generations, option, limits), pl.lit("stated")
    if lacks is not None:
        lacks.add(generations.select(*CALL_KEY, "status").hstack(found.select("why", "seen")))
    has_value = found["confidence"].is_not_null()
    settled = generations.with_columns(found["confidence"]).with_columns(
        confidence_source=pl.when(has_value).then(source)
    )
    return check(settled, GENERATIONS)


_COMPLETED = pl.col("status") == "completed"
_NOTHING_SEEN = pl.lit(None, pl.String).alias("seen")


def _of_the_call(generations: pl.DataFrame) -> pl.DataFrame:
    """Keep what the calls brought. An export has computed confidences in its place, and no journal."""
    is_own = pl.col("confidence_source").is_in(OF_THE_CALL)
    return generations.select(
        pl.when(is_own).then("confidence").alias("confidence"),
        pl.when(~is_own).then(pl.lit(NOT_KEPT)).alias("why"),
        _NOTHING_SEEN,
    )


def _by_tokens(generations: pl.DataFrame) -> pl.DataFrame:
    has_tokens = _COMPLETED & pl.col("token_nll").is_not_null() & (pl.col("token_count") > 0)
    mean = (-pl.col("token_nll") / pl.col("token_count")).exp()
    return generations.select(
        pl.when(has_tokens).then(mean).alias("confidence"),
        pl.when(has_tokens.fill_null(False)).then(None).otherwise(pl.lit(NO_TOKENS)).alias("why"),
        _NOTHING_SEEN,
    )


def _by_agreement(generations: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
    calls = generations.select(*SAMPLE, _COMPLETED.alias("completed")).hstack(answers.select("extracted_output"))
    has_answer = pl.col("completed") & pl.col("extracted_output").is_not_null()
    n_completed = pl.col("completed").sum().over(SAMPLE)
    n_same = has_answer.sum().over(*SAMPLE, "extracted_output")
    counted = has_answer & (n_completed > 1)
    return calls.select(
        pl.when(counted).then(n_same / n_completed).alias("confidence"),
        pl.when(~has_answer).then(pl.lit(NO_ANSWER)).when(n_completed < 2).then(pl.lit(ONE_REPLY)).alias("why"),
        _NOTHING_SEEN,
    )


def _stated(generations: pl.DataFrame, option: Mapping[str, Any], limits: Limits) -> pl.DataFrame:
    texts = generations.select(pl.when(_COMPLETED).then(pl.col("output_text").fill_null(""))).to_series()
    read = extract(texts, extraction_of(option), limits=limits)
    top = 100.0 if option["scale"] == "percent" else 1.0
    said = pl.col("extracted_output").str.strip_chars(WHITE_SPACE)
    if option["scale"] == "percent":
        said = said.str.strip_suffix("%").str.strip_chars_end(WHITE_SPACE)
    is_number = said.str.contains(_NUMBER)
    number = pl.when(is_number).then(said).cast(pl.Float64, strict=False)
    in_range = (number >= 0) & (number <= top)
    why = (
        pl.when(pl.col("extraction_status") == "timeout").then(pl.lit(NOT_SEARCHED))
        .when(pl.col("extracted_output").is_null()).then(pl.lit(NOTHING_STATED))
        .when(~is_number).then(pl.lit(NO_NUMBER))
        .when(~in_range).then(pl.lit(f"{OUT_OF_RANGE} (0 to {top:g})"))
    )  # fmt: skip
    return read.select(
        # not -0.0, which a "-0" would be
        pl.when(in_range).then((number / top).abs()).alias("confidence"),
        why.alias("why"),
        pl.col("extracted_output").alias("seen"),
    )


def _short(text: str) -> str:
    words = repr(text)
    return words if len(words) <= 80 else words[:80] + "…"
