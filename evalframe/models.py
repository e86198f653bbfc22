"""Models as a user names them become adapters: a string, an adapter, a dict, a stored run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evalframe.adapters import ENGINE_SETTINGS, ModelAdapter, Sending
from evalframe.adapters.replay import Replay, replay_adapters
from evalframe.data.local import FORMATS, read_records
from evalframe.errors import AdapterError, DatasetError, EvalframeError, Fault, OptionError
from evalframe.jsontext import clean, loads, text_of
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.generation import GenerationSettings, parse_generation
from evalframe.registry import ADAPTERS, suggestion

_NO_SECRET = {"api_key_env"}  # the name of a variable of the environment
_SECRET = re.compile(r"key|token(?!s_per)|secret|passw|auth|credential", re.IGNORECASE)
FORMS = 'a string such as "mock/rule_based", an adapter, a dict {"model": …}, or a list of these'


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a run.

    Attributes:
        adapter: What is called.
        spec: The string or dict that named it, by which a resume finds it again; None for an object.
        generation: Generation settings of its own, which go before the run's.
        prices: Dollars a million tokens of its own; None: as the run says.
        requests_per_minute, tokens_per_minute: Limits of its own; None: as the run says.
    """

    adapter: ModelAdapter
    spec: str | Mapping[str, Any] | None = None
    generation: GenerationSettings | None = None
    prices: Sequence[float] | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


def resolve_models(models: Any, *, limits: Limits = DEFAULT_LIMITS, logprobs: bool = False) -> list[Model]:
    """Turn what the user gave as models into adapters, in the order given.

    Args:
        models: ``FORMS``.
        limits: The table of numbers.
        logprobs: Adapters that can are to ask for log-probabilities.

    Raises:
        OptionError: Every model that can not be resolved, with the known names; ids that stand twice; too many.
    """
    given = list(models) if isinstance(models, Sequence) and not isinstance(models, str) else [models]
    found: list[Model] = []
    faults: list[Fault] = []
    for index, model in enumerate(given):
        spec = model if isinstance(model, str | Mapping) else None
        if isinstance(model, Model):  # resolved before
            found.append(model)
            continue
        try:
            own = _engine_settings(model, limits) if isinstance(model, Mapping) else {}
            found += [Model(_asking(adapter, logprobs), spec, **own) for adapter in _resolve(model)]
        except EvalframeError as error:
            faults += _faults_of(error, f"models[{index}]")
    ids = [model.adapter.model_id for model in found]
    faults += [
        Fault("models", "duplicate", f"{name!r} stands twice", "give each model an id of its own")
        for name in sorted({name for name in ids if ids.count(name) > 1})
    ]
    faults += [
        Fault("models", "bad_id", f"{name!r} has a lone surrogate", "name the model in text that UTF-8 can hold")
        for name in ids
        if clean(name) != name
    ]
    if not given:
        faults.append(Fault("models", "empty", "no model is given", f"give {FORMS}"))
    if len(ids) > limits.models:
        faults.append(Fault("models", "too_many", f"{len(ids)} models; at most {limits.models} in one run"))
    if faults:
        raise OptionError.of(faults, what="models of the run")
    return found


def settings_of(model: Model, settings: GenerationSettings) -> GenerationSettings:
    """Give the generation settings of one model: its own go before the run's."""
    if model.generation is None:
        return settings
    given = ((name, getattr(model.generation, name)) for name in model.generation.model_fields_set)
    return settings.model_copy(update={name: value for name, value in given if value is not None})


def sending_of(model: Model, settings: GenerationSettings) -> Sending | None:
    """Say what becomes of the generation settings with one model; None: its adapter does not tell."""
    sending = getattr(model.adapter, "sending", None)
    found: Sending | None = None if sending is None else sending(settings_of(model, settings).sent())
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
    if unknown := sorted(set(options) - {"model_id"}):
        raise AdapterError(f"replay has no option {unknown[0]!r}; {suggestion(unknown[0], ['model_id'])}")
    return list(replay(rest, model_id=options.get("model_id")))


def _faults_of(error: EvalframeError, where: str) -> list[Fault]:
    """Give the single faults of a model that can not be had, each with its place; else the error itself."""
    single = [fault for fault in error.fault_records if isinstance(fault, Fault)]
    if not single:
        return [Fault(where, "unknown_model", error.message)]
    what = error.message.rsplit(": ", 1)[0]
    return [Fault(f"{where}: {what}: {f.where}", f.rule, f.detail, f.remedy) for f in single]


def _resolve(model: Any) -> list[ModelAdapter]:
    if isinstance(model, str):
        return _by_name(model, {})
    if isinstance(model, Mapping):
        if not isinstance(model.get("model"), str):
            raise AdapterError('a dict names its model: {"model": "mock/rule_based", …}')
        options = {key: value for key, value in model.items() if key != "model"}
        if secret := sorted(key for key in options if _SECRET.search(str(key)) and key not in _NO_SECRET):
            raise AdapterError(
                f"{secret[0]!r} looks like a secret; keys come from the environment, never from a model's dict"
            )
        return _by_name(model["model"], {key: options[key] for key in options if key not in ENGINE_SETTINGS})
    if isinstance(model, ModelAdapter):
        if not isinstance(model.model_id, str) or not model.model_id:
            raise AdapterError(f"{type(model).__name__}.model_id is not a non-empty string")
        return [model]
    if isinstance(model, Sequence):  # replay() gives a list
        return [adapter for one in model for adapter in _resolve(one)]
    hint = "; wrap a function: evalframe.from_callable(name, fn)" if callable(model) else ""
    raise AdapterError(f"{type(model).__name__} is no model: give {FORMS}{hint}")


def _engine_settings(model: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Read what a model's dict says to the engine; prices are read with the run's."""
    own = {key: model[key] for key in ENGINE_SETTINGS if model.get(key) is not None}
    faults = [
        Fault(key, "bad_value", f"{own[key]!r} is no number over 0")
        for key in ("requests_per_minute", "tokens_per_minute")
        if key in own and (not isinstance(own[key], int | float) or isinstance(own[key], bool) or not own[key] > 0)
    ]
    if faults:
        raise OptionError.of(faults, what=str(model.get("model")))
    if "generation" in own:
        own["generation"] = parse_generation(own["generation"], limits=limits)
    return own


def _asking(adapter: ModelAdapter, logprobs: bool) -> ModelAdapter:
    """Let an adapter that can ask for log-probabilities."""
    if logprobs and hasattr(adapter, "with_logprobs"):
        asking: ModelAdapter = adapter.with_logprobs()
        return asking
    return adapter


def _by_name(name: str, options: Mapping[str, Any]) -> list[ModelAdapter]:
    prefix, slash, rest = name.partition("/")
    if not slash:
        known = ", ".join(f"{adapter}/…" for adapter in ADAPTERS.names())
        raise AdapterError(f"{name!r} names no adapter; write one of {known}")
    adapters: list[ModelAdapter] = ADAPTERS.get(prefix)(rest, options)
    return adapters


def _read_outputs(path: Path) -> pl.DataFrame:
    try:
        if path.is_dir():
            outputs = _read_run(path)
        elif path.suffix.lower() == ".parquet":
            outputs = pl.read_parquet(path)
        elif Path(path.name.lower().removesuffix(".gz")).suffix in FORMATS:
            outputs = _read_text(path)
        else:
            raise AdapterError(f"{path}: replay reads .parquet, .csv and .jsonl files, and a run's folder")
    except DatasetError as error:
        raise AdapterError(error.message, error.fault_records) from None
    except FileNotFoundError:
        raise AdapterError(f"{path}: there is no such file") from None
    except (OSError, pl.exceptions.PolarsError) as error:
        raise AdapterError(f"{path}: can not be read: {error}") from None
    if not {"status", "output_text"} <= set(outputs.columns):
        return outputs
    # a run's own outputs: an empty reply is a reply, the text of a call that failed is none
    reply = pl.when(pl.col("status") == "completed").then(pl.col("output_text").fill_null(""))
    return outputs.with_columns(output_text=reply)


def _read_run(path: Path) -> pl.DataFrame:
    segments = sorted((path / "generations").glob("[0-9]*.parquet"))
    if not segments:
        raise AdapterError(f"{path}: no generations here; a run's folder has generations/*.parquet")
    rows = pl.read_parquet(path / "rows.parquet", columns=["task_id", "sample_index", "sample_id"])
    return pl.read_parquet(segments).join(rows, on=["task_id", "sample_index"], how="left", maintain_order="left")


def _read_text(path: Path) -> pl.DataFrame:
    """Read CSV or JSONL as a data set is read: every cell is text, so that the output ``007`` does not become 7."""
    records = [loads(row) for row in read_records(path)["row"]]
    names = dict.fromkeys(name for record in records for name in record)
    return pl.DataFrame(
        {name: [_cell(record.get(name)) for record in records] for name in names},
        schema=dict.fromkeys(names, pl.String),
    )


def _cell(value: Any) -> str | None:
    return None if value is None else clean(text_of(value))
