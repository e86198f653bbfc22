"""SCORES × GENERATIONS -> CALIBRATION, RELIABILITY: does a model's confidence say how often it is right?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.frames import Noted, check, listed
from evalframe.headlines import OF_CALLS, OF_ROWS, choose_metrics, in_key_order
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.schemas import CALIBRATION, CALL_KEY, GENERATIONS, RELIABILITY, ROWS, SCORES
from evalframe.stats import calibration as figures
from evalframe.stats.bootstrap import resamples_of

Array = NDArray[np.float64]
PAIRS_A_BIN = 10  # with fewer on average a note says so
# what a confidence is that does not come from the adapter
SOURCES = {
    "token_logprobs": "the geometric mean of the probabilities of the reply's tokens",
    "choice_logprobs": "the softmax of the choices' log-probabilities",
    "stated": "the number that the reply states",
    "agreement": "the share of the sample's repeats with the same answer",
}


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The calibration of a set of predictions; all figures are None where there is no prediction.

    Attributes:
        bins: Number of equal-width bins on [0, 1]: left edge in the bin, 1.0 in the last.
        n_samples: Pairs of confidence and correctness.
        populated_bins: Bins that hold a pair.
        ece: Expected calibration error: sum over bins of (n_b / N) |mean confidence - accuracy|.
        ece_ci_lo, ece_ci_hi: 95 % bootstrap interval of ``ece``; None with fewer than two predictions.
        ece_adaptive: The same over bins of equal mass.
        mce: The largest gap of a bin.
        brier: Mean squared error of the confidence, ``reliability - resolution + uncertainty + within_bin``.
        reliability, resolution, uncertainty, within_bin: Murphy's parts of it, and what is left within the bins.
        table: The bins, as arrays; ``diagram`` gives them as a frame.
    """

    bins: int
    n_samples: int
    populated_bins: int
    ece: float | None
    ece_ci_lo: float | None
    ece_ci_hi: float | None
    ece_adaptive: float | None
    mce: float | None
    brier: float | None
    reliability: float | None
    resolution: float | None
    uncertainty: float | None
    within_bin: float | None
    table: figures.Bins = field(repr=False, compare=False)

    @classmethod
    def from_predictions(
        cls,
        confidences: Sequence[float] | Array | pl.Series,
        correct: Sequence[bool] | Array | pl.Series,
        bins: int = 10,
        *,
        seed: int = 0,
        n_resamples: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> CalibrationReport:
        """Compute the calibration of predictions that come from anywhere.

        Definitions and sources: ``evalframe.stats.calibration``.

        Args:
            confidences: In [0, 1].
            correct: True or 1, False or 0; of the same length.
            bins: 1 or more.
            seed: Of the bootstrap of ``ece``.
            n_resamples: 1 or more; None: ``limits.n_resamples``.
            limits: The table of numbers.

        Raises:
            OptionError: Names each fault and its first row: a confidence outside [0, 1] (a percentage?), a missing
                value, lengths that differ, ``bins`` below 1.

        Nulls: no prediction gives None for every figure, zero counts, no warning.

        >>> report = CalibrationReport.from_predictions([0.93, 1.0, 0.0, 0.07], [1, 0, 0, 0])
        >>> round(report.ece, 6), round(report.brier, 6), report.populated_bins
        (0.25, 0.25245, 2)
        """
        confidence, right = figures.pairs(confidences, correct, bins)
        resamples = resamples_of(n_resamples, limits)
        return _report(confidence, right, bins, groups=None, n_resamples=resamples, seed=seed, limits=limits)

    @property
    def diagram(self) -> pl.DataFrame:
        """The reliability diagram: one row a bin, the columns of RELIABILITY without ``model_id``."""
        table = self.table
        return pl.DataFrame(
            {
                "bin": np.arange(self.bins),
                "bin_lo": table.lo,
                "bin_hi": table.hi,
                "n": table.n,
                "mean_confidence": table.mean_confidence,
                "accuracy": table.accuracy,
                "accuracy_ci_lo": table.accuracy_ci_lo,
                "accuracy_ci_hi": table.accuracy_ci_hi,
            },
            schema={name: dtype for name, dtype in RELIABILITY.dtypes.items() if name != "model_id"},
        ).with_columns(pl.col(pl.Float64).fill_nan(None))


def calibration(
    scores: pl.DataFrame,
    *,
    generations: pl.DataFrame,
    rows: pl.DataFrame | None = None,
    bins: int = 10,
    n_resamples: int | None = None,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> pl.DataFrame:
    """Compute each model's calibration over the headline metrics of its tasks, and its perplexity.

    A pair is a call with a confidence and with a ``correct`` of its task's headline metric. ``unparsed`` counts as
    wrong. ``failed``, ``grader_error``, a null confidence and a null ``correct`` (no threshold: lower is better, or out
    of [0, 1]) are left out and counted in ``n_left_out``. Definitions: ``evalframe.stats.calibration``. The bootstrap
    of ``ece`` draws samples, with all their repeats. Perplexity is over all calls with token log-probabilities.

    Frame in:
        SCORES, GENERATIONS, ROWS, in any order.

    Frame out:
        CALIBRATION.

    Args:
        scores: Of all calls.
        generations: Of the same calls: they have the confidences.
        rows: Say what the headline metrics are; without them each task must have one metric.
        bins: Equal-width bins, 1 or more.
        n_resamples: 1 or more; None: ``limits.n_resamples``.
        seed: Of the bootstrap.
        limits: The table of numbers.

    Notes: where confidences come from, if not from the adapters alone; models with few pairs a bin; calls that are in
    no figure; confidences that are all the same.

    Nulls: a model without pairs has null figures and zero counts.

    Raises:
        SchemaError: A frame is not what it is called.
        OptionError: ``bins`` or ``n_resamples`` below 1, or no headline metric without ``rows``.
    """
    found = []
    resamples = resamples_of(n_resamples, limits)
    for model_id, its_pairs, n_left_out, its_calls in _by_model(scores, generations, rows):
        confidence, right = figures.pairs(its_pairs["confidence"], its_pairs["correct"], bins)
        groups = its_pairs["unit"].to_numpy()
        report = _report(confidence, right, bins, groups=groups, n_resamples=resamples, seed=seed, limits=limits)
        told = its_calls.filter(pl.col("token_nll").is_not_null() & (pl.col("token_count") > 0))
        perplexity, average, tokens = figures.perplexity(told["token_nll"].to_numpy(), told["token_count"].to_numpy())
        shown = {figure.name: getattr(report, figure.name) for figure in fields(report)}
        found.append(
            {name: value for name, value in shown.items() if name in CALIBRATION.dtypes}
            | {
                "model_id": model_id,
                "n_left_out": n_left_out,
                "perplexity": known(perplexity),
                "avg_neg_log_likelihood": known(average),
                "n_nll_tokens": tokens,
            }
        )
    figures_of_models = check(pl.DataFrame(found, schema=CALIBRATION.dtypes), CALIBRATION)
    return Noted.of(figures_of_models, [*_source_notes(generations), *_notes(figures_of_models, bins)])


def reliability(
    scores: pl.DataFrame, *, generations: pl.DataFrame, rows: pl.DataFrame | None = None, bins: int = 10
) -> pl.DataFrame:
    """Give each model's reliability diagram: the bins of ``calibration``, empty ones included.

    Frame in:
        SCORES, GENERATIONS, ROWS, in any order.

    Frame out:
        RELIABILITY.

    Args:
        scores: Of all calls.
        generations: Of the same calls.
        rows: Say what the headline metrics are; without them each task must have one metric.
        bins: Equal-width bins, 1 or more.

    Nulls: an empty bin has null means and intervals; a model without pairs has only empty bins.

    Raises:
        SchemaError: A frame is not what it is called.
        OptionError: ``bins`` below 1, or no headline metric without ``rows``.
    """
    diagrams = [pl.DataFrame(schema=RELIABILITY.dtypes)]
    for model_id, its_pairs, _, _ in _by_model(scores, generations, rows):
        confidence, right = figures.pairs(its_pairs["confidence"], its_pairs["correct"], bins)
        report = _report(confidence, right, bins, groups=None, n_resamples=0, seed=0, limits=DEFAULT_LIMITS)
        diagrams.append(report.diagram.select(pl.lit(model_id).alias("model_id"), pl.all()))
    return check(pl.concat(diagrams), RELIABILITY)


def confidence_pairs(chosen: pl.DataFrame, generations: pl.DataFrame) -> pl.DataFrame:
    """Put each call's confidence beside its ``correct``.

    Args:
        chosen: Scores of one metric a task; where they have ``group``, so have the generations.
        generations: Of the same calls.

    Returns:
        ``group`` where it is there, ``model_id``, ``confidence``, ``correct``, ``usable`` and ``unit`` (a number for
        each model and sample), sorted as the scores are.
    """
    group = [name for name in chosen.columns if name == "group"]
    calls = generations.select(*group, *CALL_KEY, "confidence")
    return chosen.join(calls, on=[*group, *CALL_KEY], how="left", maintain_order="left").select(
        *group,
        "model_id",
        "confidence",
        correct=pl.col("correct") & (pl.col("fate") != "unparsed"),
        usable=pl.col("fate").is_in(["scored", "unparsed"])
        & pl.col("confidence").is_not_null()
        & pl.col("correct").is_not_null(),
        unit=pl.struct("model_id", "task_id", "sample_index").rle_id().cast(pl.Int64),
    )


def _source_notes(generations: pl.DataFrame) -> Iterator[str]:
    """Say where confidences come from: figures of different sources are not of one kind."""
    if "confidence_source" not in generations.columns:
        return
    told = generations.filter(pl.col("confidence").is_not_null() & pl.col("confidence_source").is_not_null())
    sources = told.select("model_id", "confidence_source").unique().sort("model_id", "confidence_source")
    kinds = sources["confidence_source"].unique().to_list()
    if len(kinds) > 1:
        named = sources.select(pl.format("{} ({})", "model_id", "confidence_source")).to_series().to_list()
        yield f"confidences come from different sources, whose figures are not of one kind: {listed(named)}"
    elif kinds != ["adapter"]:
        yield from (f"confidence is {SOURCES.get(kind, kind)}" for kind in kinds)


def _notes(shown: pl.DataFrame, bins: int) -> Iterator[str]:
    """Say what the figures do not show."""
    pairs, named = pl.col("n_samples"), pl.concat_str("model_id", pl.lit(" ("), "n_samples", pl.lit(")"))
    few = shown.filter((pairs > 0) & (pairs < PAIRS_A_BIN * bins)).select(named).to_series().to_list()
    if few:
        yield (
            f"few pairs for {bins} bins (under {PAIRS_A_BIN * bins}): {listed(few)}; chance alone makes an ece "
            "of some hundredths, see its interval or take fewer bins"
        )
    counted = pl.concat_str(
        "model_id", pl.lit(" ("), "n_left_out", pl.lit(" of "), pl.col("n_left_out") + pairs, pl.lit(")")
    )
    lacking = shown.filter((pl.col("n_left_out") > 0) & (pairs > 0)).select(counted).to_series().to_list()
    if lacking:
        yield f"calls without a confidence, a reply or a grade are in no figure: {listed(lacking)}"
    one_bin = shown.filter((pairs > 1) & (pl.col("populated_bins") == 1))["model_id"].to_list() if bins > 1 else []
    if one_bin:
        yield f"all confidences are in one bin: {listed(one_bin)}; the ece only compares their mean with the accuracy"


def point_figures(pairs: pl.DataFrame) -> tuple[float | None, float | None]:
    """Give ``ece`` (10 bins) and Brier's score of one model's pairs, without an interval."""
    usable = pairs.filter("usable")
    confidence, right = figures.pairs(usable["confidence"], usable["correct"], 10)
    table = figures.bin_table(confidence, right, 10)
    return known(figures.ece(table)), known(figures.brier(confidence, right, 10).brier)


def known(value: float) -> float | None:
    """Give None for NaN, which never enters a frame."""
    return None if math.isnan(value) else value


def _by_model(
    scores: pl.DataFrame, generations: pl.DataFrame, rows: pl.DataFrame | None
) -> Iterator[tuple[str, pl.DataFrame, int, pl.DataFrame]]:
    """Give each model's usable pairs, how many calls were left out, and its generations."""
    scores = in_key_order(scores, SCORES)
    generations = in_key_order(generations, GENERATIONS, OF_CALLS)
    rows = None if rows is None else in_key_order(rows, ROWS, OF_ROWS)
    choice = choose_metrics(scores, rows=rows, metric=None)
    chosen = scores.join(choice, on=["task_id", "metric"], how="semi", maintain_order="left")
    pairs = confidence_pairs(chosen, generations)
    for model_id in sorted({*scores["model_id"].unique(), *generations["model_id"].unique()}):
        its_pairs = pairs.filter(pl.col("model_id") == model_id)
        usable = its_pairs.filter("usable")
        yield (
            model_id,
            usable,
            its_pairs.height - usable.height,
            generations.filter(pl.col("model_id") == model_id),
        )


def _report(
    confidence: Array, right: Array, bins: int, *, groups: Any, n_resamples: int, seed: int, limits: Limits
) -> CalibrationReport:
    """Compute the figures of checked arrays; without resamples there is no interval."""
    table = figures.bin_table(confidence, right, bins)
    brier = figures.brier(confidence, right, bins)
    lo, hi = math.nan, math.nan
    if n_resamples:
        lo, hi = figures.ece_interval(
            confidence, right, bins, groups=groups, n_resamples=n_resamples, seed=seed, max_bytes=limits.resample_bytes
        )
    return CalibrationReport(
        bins=int(bins),
        n_samples=len(confidence),
        populated_bins=int((table.n > 0).sum()),
        ece=known(figures.ece(table)),
        ece_ci_lo=known(lo),
        ece_ci_hi=known(hi),
        ece_adaptive=known(figures.ece_adaptive(confidence, right, bins)),
        mce=known(figures.mce(table)),
        brier=known(brier.brier),
        reliability=known(brier.reliability),
        resolution=known(brier.resolution),
        uncertainty=known(brier.uncertainty),
        within_bin=known(brier.within_bin),
        table=table,
    )
