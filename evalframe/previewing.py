"""What a run would send, before anything is called: prompts, counts, estimates of tokens and dollars. Needs no key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from evalframe.adapters import Sending
from evalframe.calling import prices_of
from evalframe.datasource import find_source
from evalframe.errors import Fault, OptionError
from evalframe.estimating import estimates, tokens_of
from evalframe.feasibility import check_feasible
from evalframe.generate.calls import repeats_of
from evalframe.generate.ledger import unpriced_faults
from evalframe.generate.prices import LIST_INSTALL, Price, list_is_installed
from evalframe.jsontext import loads
from evalframe.manifest.generation import parse_generation
from evalframe.models import Model, resolve_models, sending_of
from evalframe.options import RunOptions
from evalframe.planning import make_plan
from evalframe.reprs import dollars

ESTIMATE = "UTF-8 bytes of the prompts / 4; tokenizers differ, and code or other scripts than Latin take more"
PRICES = (
    "dollars are of one attempt a call, the least without any output, the most with max_output_tokens in each; null "
    "where a price or that bound is not known"
)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do.

    Attributes:
        tasks: One row a task: ``task_id``, ``category``, ``samples``, ``calls`` (of one model), ``prompt_chars_mean``,
            ``prompt_chars_max``, ``input_tokens_estimate`` (of all its calls to one model), ``metrics``,
            ``extraction``.
        models: Ids, in order; empty where none was named.
        samples: The first samples: ``task_id``, ``sample_id``, ``prompt``, ``target``.
        generation: The settings of the run.
        bad_tasks: Lines of a task file that would be left out.
        estimates: One row a model: ``estimating.estimates``.
        prices: Model id to price, as far as they are known.
        sendings: Model id to what it would be sent; a model that is not in it does not tell.
        notes: What a reader of the estimates should know.
    """

    tasks: pl.DataFrame
    models: tuple[str, ...]
    samples: pl.DataFrame
    generation: dict[str, Any]
    bad_tasks: tuple[str, ...]
    estimates: pl.DataFrame
    prices: Mapping[str, Price] = field(default_factory=dict)
    sendings: Mapping[str, Sending] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def totals(self) -> dict[str, Any]:
        """Counts over all tasks, and over all models (of one model where none was named); null: not known of all."""
        calls, tokens = int(self.tasks["calls"].sum()), int(self.tasks["input_tokens_estimate"].sum())
        return {
            "tasks": self.tasks.height,
            "samples": int(self.tasks["samples"].sum()),
            "models": len(self.models),
            "calls": calls * max(len(self.models), 1),
            "calls_per_model": calls,
            "calls_cached": int(self.estimates["n_cached"].fill_null(0).sum()),
            "input_tokens_estimate": self._sum("input_tokens_estimate") if self.models else tokens,
            "output_tokens_most": self._sum("output_tokens_most"),
            "cost_usd_least": self._sum("cost_usd_least"),
            "cost_usd_most": self._sum("cost_usd_most"),
        }

    def to_json(self) -> dict[str, Any]:
        """Give the preview as plain JSON values."""
        return {
            "totals": self.totals,
            "estimate": ESTIMATE,
            "prices": PRICES,
            "notes": list(self.notes),
            "models": list(self.models),
            "estimates": [{**row, **self._of_model(row["model_id"])} for row in self.estimates.to_dicts()],
            "tasks": [{**row, "extraction": loads(row["extraction"])} for row in self.tasks.to_dicts()],
            "samples": self.samples.to_dicts(),
            "generation": self.generation,
            "bad_tasks": list(self.bad_tasks),
        }

    def _sum(self, name: str) -> Any:
        """Add up over the models; None as soon as one of them is not known, or there is none."""
        values = self.estimates[name]
        return None if values.is_empty() or values.null_count() else values.sum()

    def _of_model(self, model_id: str) -> dict[str, Any]:
        price, sending = self.prices.get(model_id), self.sendings.get(model_id)
        return {
            "price_usd_per_million": None if price is None else {
                "input": price.input, "output": price.output, "cached_input": price.cached
            },
            "sending": None if sending is None else asdict(sending),
        }  # fmt: skip


def make_preview(source: Any, models: Any = None, *, samples: int = 3, **options: Any) -> Preview:
    """Load the data and render the prompts of a run, as ``run`` would, and call nothing.

    Args:
        source: As for ``run``.
        models: As for ``run``; None or empty: none, the counts are those of one.
        samples: How many samples to show, from 0 up; taken from the tasks in turn, so that each task is seen first.
        **options: The fields of ``RunOptions``.

    Raises:
        ManifestError, TaskFileError, OptionError, DatasetError, NotBuiltError: As for ``run``, but that a key may be
            missing.
    """
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0:
        fault = Fault("samples", "bad_value", f"{samples!r} is no whole number from 0 up", "write 3")
        raise OptionError.of([fault], what="preview")
    settled = RunOptions.of(options)
    settings = parse_generation(settled.generation, limits=settled.limits)
    found = find_source(source, settled)
    resolved: Sequence[Model] = ()
    if models:
        resolved = resolve_models(models, limits=settled.limits, logprobs=settled.confidence == "logprobs")
    plan = make_plan(found, options=settled)
    prices = prices_of(resolved, settled, settings)
    adapters = [model.adapter for model in resolved]
    if settled.max_cost_usd is not None and (faults := unpriced_faults(adapters, prices=prices)):
        raise OptionError.of(faults, what="models of the run")
    unfit = check_feasible(plan.rows, adapters, settled)
    table = estimates(plan.rows, resolved, options=settled, settings=settings, prices=prices)
    sendings = ((model.adapter.model_id, sending_of(model, settings)) for model in resolved)
    return Preview(
        tasks=_by_task(plan.rows, settled),
        models=tuple(adapter.model_id for adapter in adapters),
        samples=_first(plan.rows, samples),
        generation=settings.sent(),
        bad_tasks=plan.bad_tasks,
        estimates=table,
        prices=prices,
        sendings={name: sending for name, sending in sendings if sending is not None},
        notes=(*unfit, *_notes(table, resolved, prices, settled)),
    )


def _notes(table: pl.DataFrame, models: Sequence[Model], prices: Mapping[str, Price], options: RunOptions) -> list[str]:
    """Say what can not be told of the dollars, and what to do; and that a cap would be reached."""
    real = [model.adapter.model_id for model in models if isinstance(getattr(model.adapter, "endpoint", None), str)]
    unknown = [name for name in real if name not in prices]
    notes = []
    if unknown:
        install = "" if list_is_installed() else f", or install the list of prices: {LIST_INSTALL}"
        example = f"prices={{{unknown[0]!r}: (0.25, 2.0)}}"
        notes.append(f"the price of {', '.join(unknown)} is not known; give it, as in {example}{install}")
    unbounded = table.filter(pl.col("cost_usd_least").is_not_null() & pl.col("cost_usd_most").is_null())["model_id"]
    if unbounded.len():
        notes.append(f"{', '.join(unbounded)}: without max_output_tokens nobody knows what a reply may cost at most")
    if options.max_cost_usd is not None:
        least, most = (float(table[name].sum()) for name in ("cost_usd_least", "cost_usd_most"))
        cap = f"max_cost_usd={options.max_cost_usd:g}"
        if least > options.max_cost_usd:
            notes.append(f"{cap} would end the run: the input alone costs about {dollars(least)}")
        elif most > options.max_cost_usd or unbounded.len():
            notes.append(f"{cap} may end the run before it is complete")
    return notes


def _by_task(rows: pl.DataFrame, options: RunOptions) -> pl.DataFrame:
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
            input_tokens_estimate=(tokens_of(pl.col("prompt")) * pl.col("repeats")).sum(),
            metrics=pl.col("metrics").first().list.eval(pl.element().struct.field("id")),
            extraction=pl.col("extraction").first(),
        )
    )


def _first(rows: pl.DataFrame, n: int) -> pl.DataFrame:
    """Take the first samples: the first of each task, then the second of each, and so on."""
    turn = pl.int_range(pl.len()).over("task_id")
    chosen = rows.select("task_id", "sample_id", "prompt", "target").with_columns(turn=turn)
    return chosen.sort("turn", maintain_order=True).head(n).drop("turn")
