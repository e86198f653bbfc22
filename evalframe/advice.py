"""What a user should hear before a run begins: settings that do not do what a reader of them would expect."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence

import polars as pl

from evalframe.adapters.replay import Replay
from evalframe.frames import listed
from evalframe.manifest.generation import GenerationSettings
from evalframe.models import Model
from evalframe.options import RunOptions
from evalframe.registry import METRICS

FROM_CALLER = 4  # a warning shows the user's line: warn_of_… < runner._run < run < the user; likewise of Run.extend


class SettingWarning(UserWarning):
    """A setting does not do what a reader of it would expect."""


def warn_of_repeats(options: RunOptions, settings: GenerationSettings) -> None:
    """Say that repeats at temperature 0 say little."""
    if _most_repeats(options) > 1 and settings.temperature == 0:
        warnings.warn(
            "repeats at temperature 0 say little: a model that answers the same each time shows no variance",
            SettingWarning, stacklevel=FROM_CALLER,
        )  # fmt: skip


def warn_of_idle(settings: GenerationSettings) -> None:
    """Say which settings are idle in this version."""
    given = settings.model_fields_set
    idle = [name for name in ("timeout_seconds", "max_retries", "max_empty_retries") if name in given]
    if idle:
        warnings.warn(
            f"{', '.join(idle)}: recorded, and not enforced by this version, which makes one attempt a call; "
            "adapters are told the time-out as task.deadline",
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

    Args:
        rows: ROWS.
    """
    ids = rows.select("task_id", pl.col("metrics").list.eval(pl.element().struct.field("id"))).unique()
    used = {name for _, names in ids.iter_rows() for name in names}
    # only those that are used: another package's entry may be broken, and is none of this run's business
    compares = {name for name in used if name in METRICS and METRICS.get(name).needs_target}
    tasks = {task for task, names in ids.iter_rows() if not compares.isdisjoint(names)}
    said = pl.col("targets").list.eval(pl.element().str.strip_chars() != "").list.any()
    blank = rows.filter(pl.col("task_id").is_in(tasks), ~said.fill_null(False))
    return [
        f"{named.height} of {n} samples of {task} have an empty target, and metrics that compare with it count them as "
        f"wrong: {' '.join(listed(named['sample_id'].to_list()).split())}; fill the targets, or drop these rows"
        for (task,), named in blank.group_by("task_id", maintain_order=True)
        if (n := rows.filter(pl.col("task_id") == task).height)
    ]


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
