"""What a user should hear before a run begins: settings that do not do what a reader of them would expect."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence

import polars as pl

from evalframe.adapters.replay import Replay
from evalframe.frames import listed
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import Model, sending_of
from evalframe.options import RunOptions
from evalframe.registry import METRICS

MOST_TASKS = 3  # that are noted one by one
_FILL = "fill the targets, or drop these rows"
FROM_CALLER = 4  # a warning shows the user's line: warn_of_… < runner._run < run < the user; likewise of Run.extend


class SettingWarning(UserWarning):
    """A setting does not do what a reader of it would expect."""


def warn_of_repeats(options: RunOptions, settings: GenerationSettings) -> None:
    """Say where repeats say little."""
    if _most_repeats(options) > 1 and options.request_type == "loglikelihood":
        warnings.warn(
            "repeats of log-likelihood requests say nothing: a model holds the same choice for the likeliest each time",
            SettingWarning, stacklevel=FROM_CALLER,
        )  # fmt: skip
    elif _most_repeats(options) > 1 and settings.temperature == 0:
        warnings.warn(
            "repeats at temperature 0 say little: a model that answers the same each time shows no variance",
            SettingWarning, stacklevel=FROM_CALLER,
        )  # fmt: skip


def warn_of_left_out(models: Sequence[Model], settings: GenerationSettings) -> None:
    """Say which settings a model is not sent, because its API has none such or its dict drops them."""
    for model in models:
        sending = sending_of(model, settings)
        if sending is not None and sending.left_out:
            warnings.warn(
                f"{model.adapter.model_id}: not sent, and recorded so in run.json: {', '.join(sending.left_out)}",
                SettingWarning, stacklevel=FROM_CALLER,
            )  # fmt: skip


def warn_of_unused(models: Sequence[Model], rows: pl.DataFrame, options: RunOptions) -> None:
    """Say where stored outputs fit no sample: ids that differ look like a model that failed everywhere."""
    chosen = options.task_ids is not None or options.max_samples_per_task is not None
    for model in models:
        if not isinstance(model.adapter, Replay):
            continue
        unused = model.adapter.unused(rows, n_repeats=_most_repeats(options))
        if unused.height == len(model.adapter) or (unused.height and not chosen):
            example = ", ".join(f"{name} {value!r}" for name, value in unused.row(0, named=True).items())
            theirs = ", ".join(sorted(rows["task_id"].unique())[:3])
            warnings.warn(
                f"{model.adapter.model_id}: {unused.height} of {len(model.adapter)} stored outputs fit no call of this "
                f"run, the first: {example}; the run's tasks: {theirs}",
                SettingWarning, stacklevel=FROM_CALLER,
            )  # fmt: skip


def target_notes(rows: pl.DataFrame) -> list[str]:
    """Say which samples can not be right, because there is nothing to compare an answer with.

    One note a task; of more than ``MOST_TASKS`` tasks, one note for all of them.

    Args:
        rows: ROWS.
    """
    metric_ids = pl.col("metrics").list.eval(pl.element().struct.field("id"))
    used = rows.select(metric_ids.alias("id").explode(empty_as_null=False)).to_series().unique()
    # only those that are used: another package's entry may be broken, and is none of this run's business
    compares = [name for name in used if name in METRICS and METRICS.get(name).needs_target]
    compared = metric_ids.list.eval(pl.element().is_in(compares)).list.any()
    said = pl.col("targets").list.eval(pl.element().str.strip_chars() != "").list.any()
    lacking = compared.fill_null(False) & ~said.fill_null(False)
    tasks = (
        rows.lazy()
        .group_by("task_id")
        .agg(n=pl.len(), n_lacking=lacking.sum(), ids=pl.col("sample_id").filter(lacking))
        .filter(pl.col("n_lacking") > 0)
        .sort("task_id")
        .collect(engine="in-memory")
    )
    rest = "have an empty target, and metrics that compare with it count them as wrong"
    if tasks.height > MOST_TASKS:
        names = _on_one_line(tasks["task_id"].to_list())
        return [f"{tasks['n_lacking'].sum()} samples of {tasks.height} tasks {rest}: {names}; {_FILL}"]
    return [
        f"{n_lacking} of {n} samples of {task} {rest}: {_on_one_line(ids)}; {_FILL}"
        for task, n, n_lacking, ids in tasks.iter_rows()
    ]


def _on_one_line(names: Sequence[str]) -> str:
    return " ".join(listed(names).split())


def warn_of(notes: Sequence[str], *, stacklevel: int = FROM_CALLER) -> None:
    """Say what the figures of the run will say too."""
    for note in notes:
        warnings.warn(note, SettingWarning, stacklevel=stacklevel)


def warn_of_files(options: RunOptions, known: Collection[str]) -> None:
    """Say which files are handed in under ids that nothing names: the file that is meant may be another one."""
    if idle := sorted(options.files.keys() - set(known)):
        theirs = ", ".join(sorted(known)[:3]) or "none"
        warnings.warn(
            f"files: nothing in the source names {', '.join(map(repr, idle))}, and what stands under it is not read; "
            f"file ids of the source: {theirs}",
            SettingWarning, stacklevel=FROM_CALLER,
        )  # fmt: skip


def _most_repeats(options: RunOptions) -> int:
    return options.repeats if isinstance(options.repeats, int) else max(options.repeats.values(), default=1)
