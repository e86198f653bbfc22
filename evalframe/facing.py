"""Two runs face each other: which of their models, on which samples, and what else differs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from evalframe import comparing
from evalframe.errors import OptionError
from evalframe.frames import Noted
from evalframe.recording import model_ids
from evalframe.registry import suggestion
from evalframe.versions import differing, naming_notes, of_samples, part_notes, refuse

if TYPE_CHECKING:
    from evalframe.result import Run

Pairs = list[tuple[str, str]]


def compare_runs(a: Run, b: Run, *, models: Any = None, metric: str | None = None) -> pl.DataFrame:
    """Set two runs beside each other: ``comparing.compare`` on their frames.

    Args:
        a: The run that was before.
        b: The run that it is compared with.
        models: A model of each, as in ``("old", "new")``, or a mapping of those of ``a`` to those of ``b``; None: those
            that both runs have, or the only one of each.
        metric: As for ``comparing.compare``.

    Notes: also what differs between the runs beside the replies, a line a part.

    Raises:
        VersionMismatch: Data set, preprocessor, prompt or few-shot examples of a task differ.
        OptionError: Which models are meant can not be told, or a run has no such model.
    """
    notes = _checked(a, b)
    return _noted(comparing.compare(_side(a), b=_side(b), pairs=pairs_of(a, b, models), metric=metric), notes)


def differences_of_runs(
    a: Run, b: Run, *, models: Any = None, metric: str | None = None, **options: Any
) -> pl.DataFrame:
    """Give the paired differences of two runs: ``comparing.differences`` on their frames.

    Args, Notes and Raises: as ``compare_runs``; ``options`` are those of ``comparing.differences``, the seed by default
    that of ``a``.
    """
    notes = _checked(a, b)
    options = {"seed": a.record["options"]["seed"], **options}
    pairs = pairs_of(a, b, models)
    return _noted(comparing.differences(_side(a), b=_side(b), pairs=pairs, metric=metric, **options), notes)


def pairs_of(a: Run, b: Run, models: Any = None) -> Pairs:
    """Say which model of ``a`` faces which of ``b``.

    Raises:
        OptionError: As ``compare_runs``.
    """
    first, second = model_ids(a.record), model_ids(b.record)
    there = f"the first run has {', '.join(first)}, the second {', '.join(second)}"
    form = 'models=("one of the first run", "one of the second")'
    if models is None:
        if both := [name for name in first if name in second]:
            return [(name, name) for name in both]
        if len(first) == len(second) == 1:
            return [(first[0], second[0])]
        raise OptionError(f"the runs have no model in common: {there}; say which are meant: {form}")
    if isinstance(models, Mapping):
        pairs = list(models.items())
    elif isinstance(models, Sequence) and not isinstance(models, str) and len(models) == 2:
        pairs = [(models[0], models[1])]
    else:
        raise OptionError(f"models={models!r} names no pair of models; write {form}, or a mapping")
    for side, known, place in (("first", first, 0), ("second", second, 1)):
        if unknown := [pair[place] for pair in pairs if pair[place] not in known]:
            near = suggestion(str(unknown[0]), known)
            raise OptionError(f"the {side} run has no model {unknown[0]!r}; {near}")
    return pairs


def _checked(a: Run, b: Any) -> list[str]:
    if not isinstance(b, type(a)):
        raise OptionError(f"{b!r} is no run to compare with; give a Run, as run() or evalframe.load(path) gives it")
    parts = differing(a, b)
    refuse(
        of_samples(parts),
        what="the samples of these runs are not the same",
        remedy="compare runs on the same data and prompts: the same records in the same order, with the same fields",
    )
    return [*part_notes(parts), *naming_notes(a, b)]


def _side(run: Run) -> comparing.Side:
    return comparing.Side(scores=run.scores, rows=run.rows, answers=run.answers)


def _noted(found: pl.DataFrame, notes: list[str]) -> Noted:
    return Noted.of(found, [*getattr(found, "notes", ()), *notes])
