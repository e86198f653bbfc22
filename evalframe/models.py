"""Models as a user names them become adapters: a string, an adapter, a dict, a stored run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.adapters import ModelAdapter
from evalframe.adapters.replay import Replay, replay_adapters
from evalframe.errors import AdapterError, EvalframeError, Fault, OptionError
from evalframe.jsontext import JsonTextError, clean, loads, text_of
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.registry import ADAPTERS

FORMS = 'a string such as "mock/rule_based", an adapter, a dict {"model": …}, or a list of these'


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a run.

    Attributes:
        adapter: What is called.
        spec: The string or dict that named it, by which a resume finds it again; None for an object.
    """

    adapter: ModelAdapter
    spec: str | Mapping[str, Any] | None = None


def resolve_models(models: Any, *, limits: Limits = DEFAULT_LIMITS) -> list[Model]:
    """Turn what the user gave as models into adapters, in the order given.

    Raises:
        OptionError: Every model that can not be resolved, with the known names; ids that stand twice; too many.
    """
    given = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else [models]
    found: list[Model] = []
    faults: list[Fault] = []
    for index, model in enumerate(given):
        spec = model if isinstance(model, str | Mapping) else None
        try:
            found += [Model(adapter, spec) for adapter in _resolve(model)]
        except EvalframeError as error:
            faults.append(Fault(f"models[{index}]", "unknown_model", error.message))
    ids = [model.adapter.model_id for model in found]
    faults += [
        Fault("models", "duplicate", f"{name!r} stands twice", "give each model an id of its own")
        for name in sorted({name for name in ids if ids.count(name) > 1})
    ]
    if not given:
        faults.append(Fault("models", "empty", "no model is given", f"give {FORMS}"))
    if len(ids) > limits.models:
        faults.append(Fault("models", "too_many", f"{len(ids)} models; at most {limits.models} in one run"))
    if faults:
        raise OptionError.of(faults, what="models of the run")
    return found


def replay(source: Any, *, model_id: str | None = None) -> list[Replay]:
    """Give one adapter a model from stored outputs; no call is made.

    Args:
        source: A polars frame, a Parquet, CSV or JSONL file, or a run's folder, with ``task_id``, ``sample_index`` or
            ``sample_id``, ``output_text``, and where there are any ``model_id``, ``repeat``, ``confidence``,
            ``token_nll``, ``token_count`` and usage.
        model_id: The name of the model where the source has no ``model_id``; default: the file's stem.

    Raises:
        AdapterError: The source is missing, unreadable or lacks a column.
    """
    if isinstance(source, pl.DataFrame):
        return replay_adapters(source, model_id=model_id)
    if not isinstance(source, str | os.PathLike):
        raise AdapterError(f"replay takes a frame, a file or a run's folder, not {type(source).__name__}")
    path = Path(source)
    return replay_adapters(_read_outputs(path), model_id=model_id or path.stem)


def replay_by_name(rest: str, options: Mapping[str, Any]) -> list[ModelAdapter]:
    """Serve ``"replay/outputs.parquet"``."""
    return list(replay(rest, model_id=options.get("model_id")))


def _resolve(model: Any) -> list[ModelAdapter]:
    if isinstance(model, str):
        return _by_name(model, {})
    if isinstance(model, Mapping):
        if not isinstance(model.get("model"), str):
            raise AdapterError('a dict names its model: {"model": "mock/rule_based", …}')
        return _by_name(model["model"], {key: value for key, value in model.items() if key != "model"})
    if isinstance(model, ModelAdapter):
        if not isinstance(model.model_id, str) or not model.model_id:
            raise AdapterError(f"{type(model).__name__}.model_id is not a non-empty string")
        return [model]
    if isinstance(model, Sequence):  # replay() gives a list
        return [adapter for one in model for adapter in _resolve(one)]
    hint = "; wrap a function: evalframe.from_callable(name, fn)" if callable(model) else ""
    raise AdapterError(f"{type(model).__name__} is no model: give {FORMS}{hint}")


def _by_name(name: str, options: Mapping[str, Any]) -> list[ModelAdapter]:
    prefix, slash, rest = name.partition("/")
    if not slash:
        known = ", ".join(f"{adapter}/…" for adapter in ADAPTERS.names())
        raise AdapterError(f"{name!r} names no adapter; write one of {known}")
    adapters: list[ModelAdapter] = ADAPTERS.get(prefix)(rest, options)
    return adapters


def _read_outputs(path: Path) -> pl.DataFrame:
    """Read stored outputs; in text formats every cell stays text, so that the output ``007`` does not become 7."""
    try:
        if path.is_dir():
            return _read_run(path)
        suffix = path.suffix.lower()
        if suffix == ".parquet":
            return pl.read_parquet(path)
        if suffix == ".csv":
            cells = pl.read_csv(path, infer_schema=False, empty_string_is_null=False)
            # an empty reply is a reply; an empty cell of any other column is none
            return cells.with_columns(pl.all().exclude("output_text").replace("", None))
        if suffix in (".jsonl", ".ndjson"):
            return _read_lines(path)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise AdapterError(f"{path}: can not be read: {error}") from None
    raise AdapterError(f"{path}: replay reads .parquet, .csv and .jsonl files, and a run's folder")


def _read_run(path: Path) -> pl.DataFrame:
    segments = sorted((path / "generations").glob("*.parquet"))
    if not segments:
        raise AdapterError(f"{path}: no generations here; a run's folder has generations/*.parquet")
    rows = pl.read_parquet(path / "rows.parquet", columns=["task_id", "sample_index", "sample_id"])
    return pl.read_parquet(segments).join(rows, on=["task_id", "sample_index"], how="left", maintain_order="left")


def _read_lines(path: Path) -> pl.DataFrame:
    # parsed line by line: polars infers types, and would turn text into numbers and drop late columns
    columns: dict[str, list[str | None]] = {}
    faults = []
    n_records = 0
    with path.open(encoding="utf-8-sig", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = loads(line.rstrip("\r\n"))
            except JsonTextError as error:
                faults.append(Fault(f"{path}:{number}:{error.column}", "bad_json", error.detail, "mend the line"))
                continue
            if not isinstance(record, dict):
                faults.append(Fault(f"{path}:{number}", "bad_type", "is no JSON object", "write one object a line"))
                continue
            for name, value in record.items():
                cells = columns.setdefault(name, [])
                cells += [None] * (n_records - len(cells))
                cells.append(None if value is None else clean(text_of(value)))
            n_records += 1
    if faults:
        raise AdapterError.of(faults[:20], what=f"{path}: stored outputs")
    filled = {name: cells + [None] * (n_records - len(cells)) for name, cells in columns.items()}
    return pl.DataFrame(filled, schema=dict.fromkeys(filled, pl.String))
