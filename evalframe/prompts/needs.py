"""What a task needs of its data: the paths to take out, and what is wrong where they are not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from evalframe.errors import Fault, SchemaError
from evalframe.prompts.fewshot import EXAMPLE_PARTS, OWN_PROMPT, example_templates
from evalframe.prompts.sampleids import ID_FIELDS, listed_lines
from evalframe.prompts.templates import Template, missing_fields, needed_columns, parse

if TYPE_CHECKING:
    from evalframe.manifest.suite import Task


@dataclass(frozen=True, slots=True)
class NeededPaths:
    """What a reader must take out of the records: as text (``fields``), as lists of texts (``items``)."""

    fields: tuple[str, ...]
    items: tuple[str, ...]


def task_templates(task: Task) -> tuple[Template, Template | None]:
    """Give a task's prompt template (the row's own prompt where it has none) and its target template."""
    prompt = OWN_PROMPT if task.prompt_template is None else task.prompt_template
    return parse(prompt), None if task.target_template is None else parse(task.target_template)


def needed_paths(task: Task) -> NeededPaths:
    """Say what to take out of a task's data set: what its templates name, its choices, and where an id may stand."""
    prompt, target = task_templates(task)
    examples = fewshot_paths(task) if task.fewshot.count and task.fewshot.dataset is None else NeededPaths((), ())
    own = _paths([prompt, target], task.choices)
    items = [*own.items, *examples.items]
    if target is not None and target.single is not None and target.single.kind == "field":
        items.append(target.single.path)
    if task.choices is None:
        items.append("choices")
    return NeededPaths(_once([*ID_FIELDS, *own.fields, *examples.fields]), _once(items))


def fewshot_paths(task: Task) -> NeededPaths:
    """Say what to take out of a data set that holds nothing but a task's few-shot examples."""
    templates = example_templates(task)
    parts = _paths([templates.prompt, templates.target], task.choices)
    example = _paths([templates.example], task.choices)
    fields = (*parts.fields, *(path for path in example.fields if path not in EXAMPLE_PARTS))
    return NeededPaths(_once(fields), _once([*parts.items, *example.items]))


def require_columns(records: pl.DataFrame, needed: NeededPaths, *, what: str) -> None:
    """Refuse records that were read without the columns that the templates need.

    Raises:
        SchemaError: Names the columns.
    """
    names = [*(f"field.{path}" for path in needed.fields), *(f"items.{path}" for path in needed.items)]
    if lacking := [name for name in names if name not in records.columns]:
        raise SchemaError(
            f"{what}: the records lack the columns {', '.join(map(repr, lacking))}; read them with the fields and "
            f"items that needed_paths(task) names (fewshot_paths(task) for few-shot data)"
        )


def prompt_faults(task: Task, records: pl.DataFrame, pool: pl.DataFrame | None) -> list[Fault]:
    """Find the rows that should bring their own prompt and have none.

    Args:
        task: The task.
        records: Its data.
        pool: The data set of its examples, where that is another.
    """
    if task.prompt_template is not None:
        return []
    faults = _without_prompt(records, "prompt_template")
    if pool is not None and task.fewshot.prompt_template is None:
        faults += _without_prompt(pool, "fewshot.prompt_template")
    return faults


def field_faults(task: Task, records: pl.DataFrame, pool: pl.DataFrame | None) -> list[Fault]:
    """Find the fields that a template names and no row of its data has; each template is looked at once.

    Args:
        task: The task.
        records: Its data.
        pool: The data set of its examples, where that is another.
    """
    named = {"prompt_template": task.prompt_template, "target_template": task.target_template}
    faults = _missing(task, named, records)
    if not task.fewshot.count:
        return faults
    own = {f"fewshot.{name}": getattr(task.fewshot, name) for name in named}
    if pool is not None:  # over other rows the task's own templates are to be looked at again
        own = {name: text if text is not None else named[name.removeprefix("fewshot.")] for name, text in own.items()}
    faults += _missing(task, own, records if pool is None else pool)
    example: dict[str, str | None] = {"fewshot.example_template": task.fewshot.example_template}
    return faults + _missing(task, example, records if pool is None else pool, besides=[*EXAMPLE_PARTS])


def _missing(
    task: Task, named: dict[str, str | None], records: pl.DataFrame, *, besides: Sequence[str] = ()
) -> list[Fault]:
    templates = {name: parse(text) for name, text in named.items() if text is not None}
    return missing_fields(templates, records, choices=task.choices, besides=besides)


def _without_prompt(records: pl.DataFrame, field: str) -> list[Fault]:
    lines = records.filter(pl.col("field.prompt").is_null())["line_number"].to_list()
    if not lines:
        return []
    detail = f"there is none, and the row has no field 'prompt' ({listed_lines(lines)})"
    return [Fault(field, "missing_prompt", detail, f"give the task a {field}, or each row a prompt")]


def _paths(templates: Iterable[Template | None], choices: Sequence[str] | None) -> NeededPaths:
    needed = [needed_columns(template, choices) for template in templates if template is not None]
    return NeededPaths(
        _once(path for fields, _ in needed for path in fields), _once(path for _, items in needed for path in items)
    )


def _once(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
