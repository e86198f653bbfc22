r"""Templates: text with ``{{placeholders}}``, parsed once, rendered as a concatenation of columns.

| written | gives |
| --- | --- |
| ``{{field}}``, ``{{nested.field}}``, ``{{items.0}}`` | the value at that path of the row; missing and null: nothing |
| ``{{row}}`` | the whole row as JSON, also where the row has a field of that name |
| ``{{choices}}``, ``{{choice_list}}`` | the task's choices as a JSON array, or joined by ``\n``; else the row's own |
| ``{{{x}}}`` | the value in single braces |
| ``{{{{`` | a literal ``{{`` |
| ``{{`` that is not closed, ``{{ }}`` with nothing inside, ``}}`` alone | itself |

Blanks inside the braces are dropped. Any other text without braces is a path: ``{{a b}}`` is the field ``a b``, and
there are no expressions and no filters. There is one pass: what comes out of the data is never parsed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import polars as pl

from evalframe.errors import Fault
from evalframe.jsontext import clean, dumps
from evalframe.prompts.paths import is_known, known_paths
from evalframe.registry import nearest

Kind = Literal["field", "row", "choices", "choice_list"]
SPECIAL: dict[str, Kind] = {"row": "row", "choices": "choices", "choice_list": "choice_list"}

# in this order: an escape, a value in single braces, a value
PIECE = re.compile(r"(?P<escape>\{\{\{\{)|\{(?P<single>\{\{(?P<inner>[^{}]*)\}\})\}|\{\{(?P<path>[^{}]*)\}\}")


class MissingFieldWarning(UserWarning):
    """A template names a field that is in no row of the data; it renders empty."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What stands in a template for a value: a path of the row, or one of the three special words."""

    kind: Kind
    path: str


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template.

    Attributes:
        text: As it was written.
        parts: Literal texts and placeholders, in order.
    """

    text: str
    parts: tuple[str | Placeholder, ...]

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders, each once, in the order in which they first stand."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, Placeholder)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the row that are named."""
        return tuple(part.path for part in self.placeholders if part.kind == "field")

    @property
    def single(self) -> Placeholder | None:
        """The placeholder where the template is nothing but one, else None."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Placeholder) else None

    @property
    def uses_choices(self) -> bool:
        """Whether the task's or the row's choices are named."""
        return any(part.kind in ("choices", "choice_list") for part in self.placeholders)


@lru_cache(maxsize=1024)
def parse(text: str) -> Template:
    """Parse a template; every text is one.

    >>> parse("Q: {{ question }} {{{x}}} {{{{y}}").parts
    ('Q: ', Placeholder(kind='field', path='question'), ' {', Placeholder(kind='field', path='x'), '} {{y}}')
    """
    text = clean(text)
    parts: list[str | Placeholder] = []
    position = 0
    for found in PIECE.finditer(text):
        parts.append(text[position : found.start()])
        parts.extend(_piece(found))
        position = found.end()
    parts.append(text[position:])
    return Template(text, tuple(_joined(parts)))


def needed_columns(template: Template, choices: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say which paths a template needs as ``field.<path>``, and which as ``items.<path>``."""
    own = template.uses_choices and choices is None
    fields = (*template.fields, *(("choices", "choice_list") if own else ()))
    return fields, ("choices",) if own else ()


def text_expr(
    template: Template, *, choices: Sequence[str] | None = None, columns: Mapping[str, str] | None = None
) -> pl.Expr:
    """Give the rendered text as an expression over RECORDS.

    Args:
        template: The parsed template.
        choices: The task's choices; None: it has none, and the row's own serve.
        columns: Path to column, for paths that are not ``field.<path>`` (``prompt`` and ``target`` of an example).

    Nulls:
        Missing and null values render as nothing; the text is never null.
    """
    parts = [
        pl.lit(part) if isinstance(part, str) else _value(part, choices, columns or {}).fill_null("")
        for part in template.parts
    ]
    return pl.concat_str(parts) if parts else pl.lit("")


def missing_fields(
    templates: Mapping[str, Template],
    records: pl.DataFrame,
    *,
    choices: Sequence[str] | None,
    besides: Sequence[str] = (),
) -> list[Fault]:
    """Find the fields that a template names and no row has, with the nearest path that there is.

    Frame in: RECORDS, with the columns that ``needed_columns`` names.

    Args:
        templates: What to call each template in the message, and the template.
        records: The data.
        choices: The task's choices; None: it has none.
        besides: Paths that are not the row's.

    Nulls:
        A field that is somewhere, though null everywhere, is not missing.
    """
    known = lru_cache(maxsize=None)(lambda path: is_known(records, path))
    missing = [
        (name, part)
        for name, template in templates.items()
        for part in template.placeholders
        if (sources := _sources(part, choices, besides)) and not any(map(known, sources))
    ]
    paths = known_paths(records) if missing else []
    return [Fault(name, "missing_field", _detail(part), _remedy(part, paths)) for name, part in missing]


def warn_missing(faults: Sequence[Fault], *, what: str) -> None:
    """Warn of each missing field, loudly and once; ``what`` names the task."""
    for fault in faults:
        warnings.warn(f"{what}, {fault}", MissingFieldWarning, stacklevel=3)


def _piece(found: re.Match[str]) -> list[str | Placeholder]:
    if found["escape"]:
        return ["{{"]
    path = (found["inner"] if found["single"] else found["path"]).strip()
    if not path:
        return [found[0]]
    placeholder = Placeholder(SPECIAL.get(path, "field"), path)
    return ["{", placeholder, "}"] if found["single"] else [placeholder]


def _joined(parts: list[str | Placeholder]) -> list[str | Placeholder]:
    """Join neighbouring literals and drop empty ones, so that equal templates have equal parts."""
    result: list[str | Placeholder] = []
    for part in parts:
        if isinstance(part, str) and result and isinstance(result[-1], str):
            result[-1] += part
        elif part:
            result.append(part)
    return result


def _value(part: Placeholder, choices: Sequence[str] | None, columns: Mapping[str, str]) -> pl.Expr:
    if part.kind == "row":
        return pl.col("row")
    if part.kind == "choices":
        return pl.col("field.choices") if choices is None else pl.lit(clean(dumps(list(choices))))
    if part.kind == "choice_list":
        own = pl.coalesce(pl.col("items.choices").list.join("\n"), pl.col("field.choices"), pl.col("field.choice_list"))
        return own if choices is None else pl.lit(clean("\n".join(choices)))
    return pl.col(columns.get(part.path, f"field.{part.path}"))


def _sources(part: Placeholder, choices: Sequence[str] | None, besides: Sequence[str]) -> tuple[str, ...]:
    """The paths of which one must be in some row; empty where none must."""
    if part.kind == "row" or part.path in besides or (part.kind != "field" and choices is not None):
        return ()
    return (part.path,) if part.kind == "field" else tuple(dict.fromkeys(("choices", part.path)))


def _detail(part: Placeholder) -> str:
    if part.kind == "field":
        return f"names {part.path!r}, which is in no row; it renders empty"
    return f"names {part.path!r}, but the task has no choices and no row has a field 'choices'; it renders empty"


def _remedy(part: Placeholder, known: Sequence[str]) -> str:
    near = nearest(part.path, known, most=1)
    meant = f"did you mean {near[0]!r}?" if near else f"the rows have {_listed(known)}"
    return meant if part.kind == "field" else f"give the task its choices; {meant}"


def _listed(known: Sequence[str], most: int = 12) -> str:
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(map(repr, known[:most])) + more if known else "no fields"
