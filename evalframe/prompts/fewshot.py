"""Few-shot: which examples stand before which prompt, and how they are written."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evalframe.frames import check
from evalframe.jsontext import clean
from evalframe.prompts.templates import Template, parse, text_expr
from evalframe.schemas import RECORDS

if TYPE_CHECKING:
    from evalframe.manifest.suite import Task

EXAMPLE_PARTS = {"prompt": "prompt", "target": "target"}  # placeholders of example_template that are no fields
OWN_PROMPT = "{{prompt}}"  # the template of a task that has none: the row's own field


class FewShotWarning(UserWarning):
    """The examples are not what was asked for: too few rows, or no answers in them."""


@dataclass(frozen=True, slots=True)
class ExampleTemplates:
    """How one example is written: its prompt and target over its row, and the two put together."""

    prompt: Template
    target: Template | None
    example: Template


def example_templates(task: Task) -> ExampleTemplates:
    """Give the templates of a task's examples; prompt and target default to the task's own.

    In ``example_template`` ``{{prompt}}`` and ``{{target}}`` are the example's rendered prompt and target; any other
    placeholder is what it is in every template, over the example's row.
    """
    target = task.fewshot.target_template if task.fewshot.target_template is not None else task.target_template
    prompt = task.fewshot.prompt_template if task.fewshot.prompt_template is not None else task.prompt_template
    return ExampleTemplates(
        parse(OWN_PROMPT if prompt is None else prompt),
        None if target is None else parse(target),
        parse(task.fewshot.example_template),
    )


def with_examples(prompts: pl.Series, *, task: Task, pool: pl.DataFrame, same_rows: bool) -> pl.Series:
    """Put a task's examples before its prompts.

    The pool is taken in its order (``first``), or in that of ``default_rng(seed).permutation`` (``random``), so that
    the choice depends on nothing but seed and data set. Where the examples come from the evaluated rows, a row never
    sees itself, nor a row whose prompt is the same text: equal rows have equal prompts, and so has the same question
    under another id. Then the next one is taken.

    Args:
        prompts: The evaluated prompts, without examples.
        task: The task; its ``fewshot.count`` is over 0.
        pool: RECORDS of the examples; of the evaluated rows, in the same order, where ``same_rows``.
        same_rows: Whether the pool is the evaluated rows; a pool of its own is taken as it is.

    Nulls:
        A missing value of an example renders as nothing.

    Warns:
        FewShotWarning: There are fewer rows than asked for (all are used), or the examples have no target.
    """
    check(pool, RECORDS)
    fewshot = task.fewshot
    order = _order(pool.height, strategy=fewshot.strategy, seed=fewshot.seed)
    choices = [order[: fewshot.count]]
    which = np.zeros(len(prompts), dtype=np.int64)  # the choice of each prompt
    if same_rows:
        # only prompts that stand among the first `count` need another choice: at most `count` choices more
        for seen in dict.fromkeys(prompts.gather(choices[0]).to_list()):
            same = (prompts == seen).to_numpy()
            which[same] = len(choices)
            choices.append(order[~same[order]][: fewshot.count])
    _warn_of_few(task, min(len(choices[place]) for place in np.unique(which)), pool.height)
    blocks = _blocks(task, pool, choices)
    before = pl.Series(blocks, dtype=pl.String).gather(which)
    return pl.select(pl.concat_str([pl.lit(before), pl.lit(prompts)])).to_series()


def _order(height: int, *, strategy: str, seed: int) -> NDArray[np.int64]:
    if strategy == "random":
        return np.random.default_rng(seed).permutation(height)
    return np.arange(height)


def _blocks(task: Task, pool: pl.DataFrame, choices: Sequence[NDArray[np.int64]]) -> list[str]:
    """Write the text before the prompt for each choice; only rows that some choice uses are rendered."""
    used = np.unique(np.concatenate(choices))
    texts = dict(zip(used.tolist(), _examples(task, pool[used]), strict=True))
    separator = clean(task.fewshot.separator)
    return ["".join(texts[place] + separator for place in choice.tolist()) for choice in choices]


def _examples(task: Task, chosen: pl.DataFrame) -> pl.Series:
    templates = example_templates(task)
    if templates.target is None and "target" in templates.example.fields:
        message = f"task {task.id!r}: there is no target_template, so the few-shot examples have no answers; give one"
        warnings.warn(message, FewShotWarning, stacklevel=4)
    parts = chosen.with_columns(
        text_expr(templates.prompt, choices=task.choices).alias("prompt"),
        (pl.lit("") if templates.target is None else text_expr(templates.target, choices=task.choices)).alias("target"),
    )
    text = text_expr(templates.example, choices=task.choices, columns=EXAMPLE_PARTS)
    return parts.with_columns(text.alias("example"))["example"]


def _warn_of_few(task: Task, fewest: int, height: int) -> None:
    if fewest < task.fewshot.count:
        message = (
            f"task {task.id!r}: {task.fewshot.count} few-shot examples are asked for, but of the {height} rows of the "
            f"pool only {fewest} can stand before some prompts (a row is never its own example); all that can are used"
        )
        warnings.warn(message, FewShotWarning, stacklevel=4)
