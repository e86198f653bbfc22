"""What a run asks for that its tasks and models can not give: said before anything is written or called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evalframe.adapters import ModelAdapter
from evalframe.errors import Fault, OptionError
from evalframe.extracting import extract_answers
from evalframe.frames import listed
from evalframe.generate.calls import repeats_of
from evalframe.generate.choices import can_choose
from evalframe.metrics import Metric
from evalframe.options import RunOptions
from evalframe.registry import METRICS
from evalframe.schemas import GENERATIONS
from evalframe.words import WHITE_SPACE

_CHOICES_REMEDY = 'name them in the task ("choices": ["A", "B"]), or give each record a list called choices'


def check_feasible(rows: pl.DataFrame, adapters: Iterable[ModelAdapter], options: RunOptions) -> list[str]:
    """Refuse what can not be had of these tasks and models.

    Of a log-likelihood request the reply is the choice itself, word for word. So a task whose choices are texts while
    its target is a letter would never be right, and one whose extraction looks for ``the answer is (B)`` would never
    have an answer: the choices are read and compared here as they will be then, where the task's headline metric is a
    built-in comparison with the target.

    Args:
        rows: ROWS.
        adapters: The models that are to be called.
        options: Of the run.

    Returns:
        Notes for a reader of the run's figures: samples of which no choice is right.

    Raises:
        OptionError: Every fault is named: for ``request_type="loglikelihood"`` each model without ``loglikelihood``,
            each task with samples that have no choices, or blank ones, or none that could be right; for
            ``confidence="agreement"`` that there are no repeats.
    """
    faults = agreement_faults(rows, options)
    notes: list[str] = []
    faults += model_faults(adapters, options)
    if options.request_type == "loglikelihood":
        faults += (lacking := list(_lacking_choices(rows)))
        if not lacking:
            unfit, notes = _unfit(rows)
            faults += unfit
    if faults:
        raise OptionError.of(faults, what="this can not be had of these tasks and models")
    return notes


def model_faults(adapters: Iterable[ModelAdapter], options: RunOptions) -> list[Fault]:
    """Name the models that can not be asked for what the run asks."""
    if options.request_type != "loglikelihood":
        return []
    detail = "can not tell how likely a continuation is (it has no loglikelihood)"
    return [
        Fault(f"model {adapter.model_id}", "no_loglikelihood", detail, _instead_of(adapter))
        for adapter in adapters
        if not can_choose(adapter)
    ]


def _instead_of(adapter: ModelAdapter) -> str:
    remedy = 'take it out, or let it write its answer: request_type="generate"'
    if "completions" in getattr(getattr(adapter, "vendor", None), "apis", ()):
        remedy += '; a server that scores prompts does so by legacy completions: {"model": …, "api": "completions"}'
    return remedy


def agreement_faults(rows: pl.DataFrame, options: RunOptions) -> list[Fault]:
    """Say that agreement among repeats needs some."""
    if options.confidence != "agreement" or (repeats_of(rows, options.repeats) > 1).any():
        return []
    remedy = "call each sample several times: repeats=5, at a temperature over 0"
    return [Fault("confidence", "no_repeats", "'agreement' is among repeats, and each sample is called once", remedy)]


def _lacking_choices(rows: pl.DataFrame) -> Iterator[Fault]:
    is_blank = pl.element().str.strip_chars(WHITE_SPACE) == ""
    counted = (
        rows.lazy()
        .select(
            "task_id",
            "sample_id",
            none=pl.col("choices").list.len().fill_null(0) == 0,
            blank=pl.col("choices").list.eval(is_blank).list.any().fill_null(False),
        )
        .group_by("task_id")
        .agg(
            pl.len().alias("n"),
            *(pl.col("sample_id").filter(kind).alias(kind) for kind in ("none", "blank")),
        )
        .sort("task_id")
        .collect(engine="in-memory")
    )
    for task_id, n, none, blank in counted.iter_rows():
        if none:
            seen = f"{len(none)} of {n} samples have no choices: {listed(none)}"
            yield Fault(f"task {task_id}", "no_choices", seen, _CHOICES_REMEDY)
        if blank:
            seen = f"{len(blank)} of {n} samples have a blank choice: {listed(blank)}"
            yield Fault(f"task {task_id}", "blank_choice", seen, "drop the choice, or the sample")


def _unfit(rows: pl.DataFrame) -> tuple[list[Fault], list[str]]:
    """Name the tasks of which no sample can be right by any choice; of the others count such samples."""
    faults, notes = [], []
    for (task_id,), choices in _read_choices(rows).group_by("task_id", maintain_order=True):
        metric = _comparing(choices["metrics"].head(1).to_list()[0])
        samples = (
            choices.with_columns(_fits(choices, metric))
            .group_by("sample_index", maintain_order=True)
            .agg(pl.col("sample_id", "targets").first(), "choice", "extracted_output", pl.col("fits").any())
            .filter(pl.lit(True) if metric is None else pl.col("targets").list.len() > 0)
        )
        unfit = samples.filter(~pl.col("fits"))
        if unfit.height and unfit.height == samples.height:
            faults.append(_never_right(str(task_id), unfit.row(0, named=True), metric))
        elif unfit.height:
            lack = "no choice that extraction can read" if metric is None else "no choice that is right"
            notes.append(f"{unfit.height} samples of {task_id} have {lack}: {listed(unfit['sample_id'].to_list())}")
    return faults, notes


def _read_choices(rows: pl.DataFrame) -> pl.DataFrame:
    """Read each choice as the reply that it may be: one row a choice, with its sample and ``extracted_output``."""
    choices = (
        rows.select("task_id", "sample_index", "sample_id", "targets", "metrics", choice="choices")
        .with_columns(repeat=pl.int_ranges(0, pl.col("choice").list.len()))
        .explode("choice", "repeat")
    )
    known = {
        **{name: pl.col(name) for name in ("task_id", "sample_index", "repeat")},
        "model_id": pl.lit("any"), "status": pl.lit("completed"), "output_text": pl.col("choice"),
        "attempts": pl.lit(0), "cached": pl.lit(False),
    }  # fmt: skip
    replies = choices.select(
        known.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in GENERATIONS.dtypes.items()
    )
    return choices.hstack(extract_answers(replies, rows=rows).select("extracted_output"))


def _comparing(metrics: Sequence[Mapping[str, Any]]) -> Metric | None:
    """Give the headline metric where it is one of ours that says whether an answer is a target; else None."""
    headline = next((choice["id"] for choice in metrics if choice["aggregation"] == "mean"), None)
    metric: Metric | None = METRICS.get(headline) if headline is not None and headline in METRICS else None
    compares = metric is not None and not metric.origin and metric.binary and metric.needs_target and not metric.needs
    return metric if compares else None


def _fits(choices: pl.DataFrame, metric: Metric | None) -> pl.Series:
    """Say which choices have an answer, and one that is right where the metric says so."""
    is_read = choices["extracted_output"].is_not_null().alias("fits")
    if metric is None:
        return is_read
    scores = metric.measure(choices.filter(is_read).select("targets", prediction="extracted_output"))["score"]
    fits = np.zeros(len(is_read), dtype=bool)
    fits[is_read.to_numpy()] = (scores >= metric.range[1]).to_numpy()
    return pl.Series("fits", fits)


def _never_right(task_id: str, sample: Mapping[str, Any], metric: Metric | None) -> Fault:
    where, choices = f"task {task_id}", listed([repr(choice) for choice in sample["choice"]])
    if not any(answer is not None for answer in sample["extracted_output"]):
        seen = f"extraction reads no answer from any choice; the reply is the choice itself, such as {choices}"
        return Fault(where, "unread_choice", seen, "leave output_extraction out, or make it one that reads a choice")
    targets = listed([repr(target) for target in sample["targets"]])
    seen = f"no choice of any sample is right: of {sample['sample_id']} the target is {targets}, the choices {choices}"
    remedy = (
        "compare what is alike: a target that is the text of a choice (target_template), or choices that are written "
        'as the target is ("choices": ["A", "B"], the texts in the prompt)'
    )
    return Fault(where, "never_right", seen, remedy)
