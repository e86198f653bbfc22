"""What a run would send, before anything is called: prompts, counts, an estimate of tokens. Needs no key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evalframe.datasource import find_source
from evalframe.errors import Fault, OptionError
from evalframe.generate.calls import repeats_of
from evalframe.jsontext import loads
from evalframe.manifest.generation import parse_generation
from evalframe.models import Model, resolve_models
from evalframe.options import RunOptions
from evalframe.planning import make_plan

BYTES_PER_TOKEN = 4
ESTIMATE = "UTF-8 bytes of the prompts / 4; tokenizers differ, and code or other scripts than Latin take more"
PRICES = "prices are not estimated by this version"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do.

    Attributes:
        tasks: One row a task: ``task_id``, ``category``, ``samples``, ``calls`` (of one model), ``prompt_chars_mean``,
            ``prompt_chars_max``, ``input_tokens_estimate`` (of all its calls to one model), ``metrics``,
            ``extraction``.
        models: Ids, in order; empty where none was named.
        samples: The first samples: ``task_id``, ``sample_id``, ``prompt``, ``target``.
        generation: The settings that would be sent.
        bad_tasks: Lines of a task file that would be left out.
    """

    tasks: pl.DataFrame
    models: tuple[str, ...]
    samples: pl.DataFrame
    generation: dict[str, Any]
    bad_tasks: tuple[str, ...]

    @property
    def totals(self) -> dict[str, Any]:
        """Counts over all tasks, and over all models (of one model where none was named)."""
        n_models = max(len(self.models), 1)
        calls, tokens = int(self.tasks["calls"].sum()), int(self.tasks["input_tokens_estimate"].sum())
        return {
            "tasks": self.tasks.height,
            "samples": int(self.tasks["samples"].sum()),
            "models": len(self.models),
            "calls": calls * n_models,
            "calls_per_model": calls,
            "input_tokens_estimate": tokens * n_models,
        }

    def to_json(self) -> dict[str, Any]:
        """Give the preview as plain JSON values."""
        return {
            "totals": self.totals,
            "estimate": ESTIMATE,
            "prices": PRICES,
            "models": list(self.models),
            "tasks": [{**row, "extraction": loads(row["extraction"])} for row in self.tasks.to_dicts()],
            "samples": self.samples.to_dicts(),
            "generation": self.generation,
            "bad_tasks": list(self.bad_tasks),
        }


def make_preview(source: Any, models: Any = None, *, samples: int = 3, **options: Any) -> Preview:
    """Load the data and render the prompts of a run, as ``run`` would, and call nothing.

    Args:
        source: As for ``run``.
        models: As for ``run``; None or empty: none, the counts are those of one.
        samples: How many samples to show, from 0 up; taken from the tasks in turn, so that each task is seen first.
        **options: The fields of ``RunOptions``.

    Raises:
        ManifestError, TaskFileError, OptionError, DatasetError, NotBuiltError: As for ``run``.
    """
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
        fault = Fault("samples", "bad_value", f"{samples!r} is no whole number from 0 up", "write 3")
        raise OptionError.of([fault], what="preview")
    settled = RunOptions.of(options)
    settings = parse_generation(settled.generation, limits=settled.limits)
    found = find_source(source, settled)
    resolved: Sequence[Model] = resolve_models(models, limits=settled.limits) if models else ()
    plan = make_plan(found, options=settled)
    return Preview(
        tasks=_by_task(plan.rows, settled),
        models=tuple(model.adapter.model_id for model in resolved),
        samples=_first(plan.rows, samples),
        generation=settings.sent(),
        bad_tasks=plan.bad_tasks,
    )


def _by_task(rows: pl.DataFrame, options: RunOptions) -> pl.DataFrame:
    tokens = (pl.col("prompt").str.len_bytes() / BYTES_PER_TOKEN).ceil().cast(pl.Int64)
    chars = pl.col("prompt").str.len_chars()
    return (
        rows.with_columns(repeats_of(rows, options.repeats))
        .group_by("task_id", maintain_order=True)
        .agg(
            category=pl.col("category").first(),
            samples=pl.len().cast(pl.Int64),
            calls=pl.col("repeats").sum(),
            prompt_chars_mean=chars.mean(),
            prompt_chars_max=chars.max().cast(pl.Int64),
            input_tokens_estimate=(tokens * pl.col("repeats")).sum(),
            metrics=pl.col("metrics").first().list.eval(pl.element().struct.field("id")),
            extraction=pl.col("extraction").first(),
        )
    )


def _first(rows: pl.DataFrame, n: int) -> pl.DataFrame:
    """Take the first samples: the first of each task, then the second of each, and so on."""
    turn = pl.int_range(pl.len()).over("task_id")
    chosen = rows.select("task_id", "sample_id", "prompt", "target").with_columns(turn=turn)
    return chosen.sort("turn", maintain_order=True).head(n).drop("turn")
