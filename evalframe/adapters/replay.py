"""Stored outputs as a model: no call is made, a missing output is a failed sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.errors import AdapterError, Fault
from evalframe.jsontext import JsonTextError, loads
from evalframe.registry import suggestion

_INTEGERS = ("token_count", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_NUMBERS = ("confidence", "token_nll")
_TEXTS = ("reasoning", "finish_reason", "response_id", "model_version", "tool_calls")
# columns that only serve to find an output, or to say why there is none
_OTHERS = ("model_id", "task_id", "sample_id", "sample_index", "repeat", "output_text", "error_type", "error_message")
# where both are there, this one names the sample: it stays when the data's order changes
_BY_ID = "sample_id"
_BY_POSITION = "sample_index"

Key = tuple[str, str | int, int]


class Replay:
    """The stored outputs of one model.

    An output is found by task, sample and repeat. Where outputs have a ``sample_id`` it names the sample, and
    ``sample_index`` is not looked at. Without a column ``repeat`` each output is that of repeat 0, and further repeats
    are missing: one answer copied to all of them would hide their variance.

    Args:
        outputs: Columns ``task_id``, ``sample_id`` or ``sample_index``, ``output_text``; optional ``repeat``,
            ``confidence``, ``token_nll``, ``token_count``, ``input_tokens``, ``output_tokens``, ``cached_tokens``,
            ``reasoning_tokens``, ``reasoning``, ``finish_reason``, ``tool_calls`` (JSON text), ``choice_logprobs``,
            ``response_id``, ``model_version``, ``error_type``, ``error_message``. Others are not looked at. Numbers
            may be text, and lists JSON text, as CSV has them.
        model_id: The model's name.

    Nulls:
        A null ``output_text`` is a missing output; a null elsewhere is a value that is not known.

    Raises:
        AdapterError: Every column that is missing or of a wrong type, keys that are null or stand twice.
    """

    def __init__(self, outputs: pl.DataFrame, *, model_id: str) -> None:
        self.model_id = model_id
        what = f"stored outputs of {model_id}"
        if faults := list(_column_faults(outputs)):
            raise AdapterError.of(faults, what=what)
        columns, faults = _typed(outputs)
        if faults:
            raise AdapterError.of(faults, what=what)
        self._sample_column = _BY_ID if _BY_ID in columns else _BY_POSITION
        self._has_repeats = "repeat" in columns
        names = ["task_id", self._sample_column, *(["repeat"] if self._has_repeats else [])]
        keys = pl.DataFrame([columns[name] for name in names])
        if faults := list(_key_faults(keys)):
            raise AdapterError.of(faults, what=what)
        repeats: Iterable[int] = columns["repeat"] if self._has_repeats else [0] * outputs.height
        found = zip(columns["task_id"], columns[self._sample_column], repeats, range(outputs.height), strict=True)
        self._places: dict[Key, int] = {(task, sample, repeat): place for task, sample, repeat, place in found}
        self._columns = columns
        self._keys = keys

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"Replay({self.model_id!r}, {len(self._places)} outputs)"

    def unused(self, rows: pl.DataFrame, *, n_repeats: int) -> pl.DataFrame:
        """Give the keys of the stored outputs that no call of a run will ask for.

        Args:
            rows: The samples of the run: ``task_id``, ``sample_index``, ``sample_id``.
            n_repeats: The most repeats of a sample.
        """
        asked = rows.select("task_id", self._sample_column)
        unmatched = self._keys.join(asked, on=["task_id", self._sample_column], how="anti", maintain_order="left")
        if not self._has_repeats:
            return unmatched
        beyond = self._keys.join(asked, on=["task_id", self._sample_column], how="semi", maintain_order="left")
        return pl.concat([unmatched, beyond.filter(pl.col("repeat") >= n_repeats)])

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Give the stored output of a call.

        Raises:
            CallFailed: ``missing_output``: there is none, or it is null.
        """
        sample = task.sample_id if self._sample_column == _BY_ID else task.sample_index
        place = self._places.get((task.task_id, sample, task.repeat))
        if place is None:
            raise CallFailed("missing_output", self._why_missing(task, sample))
        value = {name: series[place] for name, series in self._columns.items()}
        if value["output_text"] is None:
            stored = ": ".join(text for name in ("error_type", "error_message") if (text := value.get(name)))
            raise CallFailed("missing_output", "the stored output is null" + (f" ({stored})" if stored else ""))
        logprobs = value.get("choice_logprobs")
        known: dict[str, Any] = {name: value.get(name) for name in (*_NUMBERS, *_INTEGERS, *_TEXTS)}
        known["tool_calls"] = _json_value(value.get("tool_calls"))
        known["choice_logprobs"] = None if logprobs is None else tuple(logprobs)
        return Generation(text=value["output_text"], **known)

    def _why_missing(self, task: TaskSpec, sample: str | int) -> str:
        wanted = f"task {task.task_id!r}, {self._sample_column} {sample!r}, repeat {task.repeat}"
        if task.repeat and not self._has_repeats and (task.task_id, sample, 0) in self._places:
            return f"no output of {wanted}: the outputs have no column 'repeat', so there is one a sample; add it"
        if not (self._columns["task_id"] == task.task_id).any():
            return f"no output of {wanted}: none is of this task"
        if self._sample_column == _BY_ID and _BY_POSITION in self._columns:
            return f"no output of {wanted}; drop the column sample_id to match by sample_index"
        return f"no output of {wanted}"


def replay_adapters(outputs: pl.DataFrame, *, model_id: str | None = None) -> list[Replay]:
    """Give one adapter for each model of stored outputs, in the order in which the models are first seen.

    Args:
        outputs: As ``Replay`` takes it, with an optional column ``model_id``.
        model_id: The model's name where there is no such column; default ``replay``.

    Raises:
        AdapterError: As ``Replay``, or a null ``model_id``.
    """
    if "model_id" not in outputs.columns:
        return [Replay(outputs, model_id=model_id or "replay")]
    models = outputs["model_id"]
    if models.dtype != pl.String:
        raise AdapterError(f"stored outputs: model_id is {models.dtype}, not text; cast it")
    if models.null_count():
        row = models.is_null().arg_max()
        raise AdapterError(f"stored outputs: model_id is null in row {row}; name the model or drop the column")
    parts = outputs.partition_by("model_id", maintain_order=True)
    return [Replay(part, model_id=part["model_id"][0]) for part in parts]


def _column_faults(outputs: pl.DataFrame) -> Iterable[Fault]:
    for name in ("task_id", "output_text"):
        if name not in outputs.columns:
            near = suggestion(name, outputs.columns)
            yield Fault(name, "missing_column", "the column is missing", f"add it, or rename one; {near}")
    if _BY_ID not in outputs.columns and _BY_POSITION not in outputs.columns:
        remedy = "add one of the two; sample_index counts from 0 within a task, and is 0 for a record of a task file"
        yield Fault("sample_id, sample_index", "missing_column", "both columns are missing", remedy)


def _typed(outputs: pl.DataFrame) -> tuple[dict[str, pl.Series], list[Fault]]:
    """Bring the known columns to their types; a value that can not be is a fault, never a null."""
    columns: dict[str, pl.Series] = {}
    faults: list[Fault] = []
    for name in outputs.columns:
        wanted = _type_of(name)
        if wanted is None:
            continue
        series = outputs[name]
        cast = _cast(series, wanted, ids=name in ("task_id", _BY_ID))
        if cast is None:
            faults.append(Fault(name, "bad_type", f"is {series.dtype}, not {_WORDS[wanted]}", _REMEDY[wanted]))
            continue
        lost = cast.is_null() & series.is_not_null()
        if lost.any():
            row = lost.arg_max() or 0
            faults.append(Fault(name, "bad_value", f"row {row}: {series[row]!r} is not {_WORDS[wanted]}"))
        columns[name] = cast
    return columns, faults


_WORDS: dict[Any, str] = {
    pl.String: "text", pl.Int64: "a whole number", pl.Float64: "a number", pl.List(pl.Float64): "a list of numbers",
}  # fmt: skip
_REMEDY: dict[Any, str] = {
    pl.String: "read it as text: a number that was inferred may not be what was written",
    pl.Int64: "cast it", pl.Float64: "cast it", pl.List(pl.Float64): "cast it, or drop it",
}  # fmt: skip


def _type_of(name: str) -> Any:
    if name in _INTEGERS or name in (_BY_POSITION, "repeat"):
        return pl.Int64
    if name in _NUMBERS:
        return pl.Float64
    if name == "choice_logprobs":
        return pl.List(pl.Float64)
    return pl.String if name in _TEXTS or name in _OTHERS else None


def _cast(series: pl.Series, wanted: Any, *, ids: bool) -> pl.Series | None:
    """Cast without loss where the kinds fit; None where they do not."""
    dtype = series.dtype
    if dtype in (wanted, pl.Null):
        return series.cast(wanted)
    if wanted == pl.String:
        text = dtype in (pl.Categorical, pl.Enum) or (ids and dtype.is_integer())
        return series.cast(pl.String) if text else None
    if isinstance(wanted, pl.List):
        if dtype == pl.String:
            return _decoded(series, wanted)
        return series.cast(wanted, strict=False) if isinstance(dtype, pl.List | pl.Array) else None
    if not (dtype.is_numeric() or dtype == pl.String):
        return None
    cast = series.cast(wanted, strict=False)
    if wanted == pl.Int64 and dtype.is_float():  # 2.0 is 2, 2.5 is no whole number
        return cast.set(cast.cast(pl.Float64) != series, None)
    return cast


def _decoded(texts: pl.Series, wanted: pl.List) -> pl.Series | None:
    """Read lists that are JSON text, as in CSV; None where one is none."""
    try:
        return texts.str.json_decode(wanted)
    except pl.exceptions.ComputeError:
        return None


def _key_faults(keys: pl.DataFrame) -> Iterable[Fault]:
    for name in keys.columns:
        if count := keys[name].null_count():
            row = keys[name].is_null().arg_max()
            remedy = "drop the column to match by sample_index" if name == _BY_ID else "give a value or drop the row"
            yield Fault(name, "null", f"{count} nulls, the first in row {row}", remedy)
    twice = keys.filter(keys.is_duplicated())
    if twice.height:
        names, first = ", ".join(keys.columns), twice.row(0)
        more = "" if "repeat" in keys.columns else "; number several outputs of a sample in a column repeat, from 0"
        yield Fault(names, "duplicate", f"{first} stands in more than one row", f"keep one row a call{more}")


def _json_value(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return loads(text)
    except JsonTextError:
        return text
