"""``run``, ``resume`` and ``load``: the stages wired together, with the run's folder on disk before the first call."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

from evalframe import __version__
from evalframe.adapters import ModelAdapter
from evalframe.adapters.replay import Replay
from evalframe.assembling import assemble, check_registered, check_sandbox
from evalframe.errors import AdapterError, OptionError, RunFolderError, VersionMismatch
from evalframe.generate.journal import Journal
from evalframe.generate.threads import GenerateOptions, generate
from evalframe.manifest.generation import GenerationSettings, parse_generation
from evalframe.manifest.suite import parse_suite
from evalframe.manifest.version import suite_version
from evalframe.models import Model, resolve_models
from evalframe.options import RunOptions
from evalframe.planning import Plan, make_plan
from evalframe.result import Run
from evalframe.sandbox.launch import layers
from evalframe.sources import SuiteSource, read_source
from evalframe.store import FORMAT_VERSION, RunFolder, new_folder, new_run_id

PACKAGES = ("polars", "numpy", "datasets", "rapidfuzz", "pydantic")


def run(source: Any, models: Any, **options: Any) -> Run:
    """Evaluate models on a suite or on task files.

    Args:
        source: A suite manifest (path of a .json file, dict, ``Suite``), task records (path of a .jsonl file, dicts),
            or a list of .jsonl files.
        models: A model or a list: ``"mock/rule_based"``, an adapter, ``evalframe.replay(path)``,
            ``evalframe.from_callable(name, fn)``, a dict with ``model``.
        **options: The fields of ``RunOptions``.

    Returns:
        The run: a folder on disk (``run.path``), its frames and verbs.

    Raises:
        ManifestError, TaskFileError, OptionError, DatasetError, NotBuiltError: The input is wrong; no model was
            called. Every fault is named, with what to do.
        SandboxError: Generated code would have to run without walls; see ``allow_unsandboxed``.
        KeyboardInterrupt: The run was interrupted; its folder holds what was done and can be resumed.
    """
    settled = RunOptions.of(options)
    settings = parse_generation(settled.generation, limits=settled.limits)
    found = read_source(source, limits=settled.limits)
    resolved = resolve_models(models, limits=settled.limits)
    plan = make_plan(found, options=settled)
    check_sandbox(plan.rows, options=settled)
    _warn_of_settings(settled, settings)
    _warn_of_unused(resolved, plan.rows, settled)

    folder = new_folder(settled.out)
    Journal.open(folder.journal_path).close()  # from here on its absence is a loss, and never silently mended
    folder.write("rows", plan.rows)
    folder.write_manifest(plan.manifest)
    kind = "suite" if isinstance(found, SuiteSource) else "tasks"
    record = _new_record(plan, kind=kind, options=settled, settings=settings, models=resolved)
    folder.write_record({**record, "rows_digest": _digest(folder)})
    return _execute(folder, [model.adapter for model in resolved], settled, settings)


def resume(path: str | os.PathLike[str], models: Any = None, *, progress: bool = True) -> Run:
    """Go on with a run that was interrupted or killed: make the calls that are missing, none again.

    Args:
        path: The run's folder.
        models: Models that were given as objects are handed in again and matched by ``model_id``; those that a string
            or dict named are found again by themselves.
        progress: Show a progress bar.

    Raises:
        RunFolderError: The folder holds no run, or another process is writing it.
        VersionMismatch: Manifest or rows were changed since the run began.
        AdapterError: A model that was given as an object is not handed in again.
        OptionError: A model that is handed in is none of the run's.
    """
    folder = RunFolder(Path(path).resolve())
    record = folder.record()
    options = RunOptions.recall({**record["options"], "progress": progress})
    if record.get("exported"):
        raise RunFolderError(f"{folder.path} is an export without the journal of calls; resume the run's own folder")
    _check_unchanged(folder, record, options)
    _check_journal(folder, record)
    settings = parse_generation(record["generation"], limits=options.limits)
    return _execute(folder, _adapters_again(record, models, options), options, settings)


def load(path: str | os.PathLike[str]) -> Run:
    """Open a run's folder.

    A run that was killed is first put together from its journal, and marked ``partial``.

    Raises:
        RunFolderError: The folder holds no run, or one that another process is writing now.
    """
    folder = RunFolder(Path(path).resolve())
    record = folder.record()
    if record["status"] == "running":
        with folder.locked():
            assemble(folder, options=RunOptions.recall(record["options"]), model_ids=_model_ids(record))
    return Run(folder)


class SettingWarning(UserWarning):
    """A setting does not do what a reader of it would expect."""


def _warn_of_settings(options: RunOptions, settings: GenerationSettings) -> None:
    if _most_repeats(options) > 1 and settings.temperature == 0:
        warnings.warn(
            "repeats at temperature 0 say little: a model that answers the same each time shows no variance",
            SettingWarning, stacklevel=3,
        )  # fmt: skip
    given = settings.model_fields_set
    idle = [name for name in ("timeout_seconds", "max_retries", "max_empty_retries") if name in given]
    if idle:
        warnings.warn(
            f"{', '.join(idle)}: recorded, and not enforced by this version, which makes one attempt a call; "
            "adapters are told the time-out as task.deadline",
            SettingWarning, stacklevel=3,
        )  # fmt: skip


def _warn_of_unused(models: Sequence[Model], rows: pl.DataFrame, options: RunOptions) -> None:
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
                SettingWarning, stacklevel=3,
            )  # fmt: skip


def _most_repeats(options: RunOptions) -> int:
    return options.repeats if isinstance(options.repeats, int) else max(options.repeats.values(), default=1)


def how_to_resume(folder: RunFolder, record: Mapping[str, Any]) -> str:
    """Give the command or the call that goes on with a run: objects and own metrics are only known to Python."""
    objects = [model["model_id"] for model in record["models"] if model["spec"] is None]
    if not objects:
        return f"evalframe resume {folder.path}"
    return f"evalframe.resume({str(folder.path)!r}, [{', '.join(objects)}]) in Python"


def _execute(
    folder: RunFolder, adapters: Sequence[ModelAdapter], options: RunOptions, settings: GenerationSettings
) -> Run:
    started = time.perf_counter()
    call_options = GenerateOptions(
        concurrency=options.concurrency,
        parallel=options.parallel,
        repeats=options.repeats,
        generation=settings.sent(),
        timeout_seconds=settings.timeout_seconds,
        reasoning_tags=tuple(options.reasoning_tags),
        limits=options.limits,
        progress=options.progress,
    )
    model_ids = [adapter.model_id for adapter in adapters]
    with folder.locked():
        check_registered(folder.read("rows"), folder=folder)
        folder.update_record(status="running")
        try:
            with Journal.open(folder.journal_path) as journal:
                generate(folder.read("rows"), adapters=adapters, journal=journal, options=call_options)
        except KeyboardInterrupt as interrupt:
            assemble(folder, options=options, model_ids=model_ids)
            interrupt.add_note(f"the run is partial; it goes on with: {how_to_resume(folder, folder.record())}")
            raise
        finally:
            spent = folder.record()["wall_seconds"] + time.perf_counter() - started
            folder.update_record(wall_seconds=round(spent, 3), ended_at=_now())
        assemble(folder, options=options, model_ids=model_ids)
    return Run(folder)


def _new_record(
    plan: Plan, *, kind: str, options: RunOptions, settings: GenerationSettings, models: Sequence[Model]
) -> dict[str, Any]:
    """Give what ``run.json`` says of a run; nothing in it is a secret, because keys are read by adapters alone."""
    return {
        "format_version": FORMAT_VERSION,
        "run_id": new_run_id(),
        "kind": kind,
        "status": "running",
        "started_at": _now(),
        "ended_at": None,
        "wall_seconds": 0.0,
        "version": plan.version,
        "parts": plan.parts,
        "content_hashes": plan.content_hashes,
        "bad_tasks": list(plan.bad_tasks),
        "models": [
            {
                "model_id": model.adapter.model_id,
                "adapter": f"{type(model.adapter).__module__}.{type(model.adapter).__qualname__}",
                "model_version": getattr(model.adapter, "model_version", None),
                "spec": model.spec if isinstance(model.spec, str | None) else dict(model.spec),
            }
            for model in models
        ],
        "options": options.recorded(),
        "generation": settings.model_dump(exclude_none=True),
        "metadata": dict(options.metadata),
        "sandbox_layers": layers(),
        "environment": {
            "evalframe": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": {name: metadata.version(name) for name in PACKAGES},
        },
    }


def _adapters_again(record: Mapping[str, Any], models: Any, options: RunOptions) -> list[ModelAdapter]:
    handed = {} if models is None else {m.adapter.model_id: m.adapter for m in resolve_models(models)}
    if strangers := sorted(handed.keys() - _model_ids(record)):
        raise OptionError(f"{', '.join(strangers)}: no model of this run, which has {', '.join(_model_ids(record))}")
    adapters: list[ModelAdapter] = []
    lost: list[str] = []
    for model in record["models"]:
        name, spec = model["model_id"], model["spec"]
        if name in handed:
            adapters.append(handed[name])
        elif spec is not None:
            found = resolve_models(spec, limits=options.limits)
            adapters += [one.adapter for one in found if one.adapter.model_id == name]
        else:
            lost.append(name)
    if lost:
        raise AdapterError(
            f"the run has models that were given as objects: {', '.join(lost)}; hand them in again: resume(path, [...])"
        )
    return adapters


def _check_unchanged(folder: RunFolder, record: Mapping[str, Any], options: RunOptions) -> None:
    if record["kind"] == "suite":
        suite = parse_suite(folder.manifest(), where=str(folder.path / "manifest.json"), limits=options.limits)
        if suite_version(suite, content_hashes=record["content_hashes"]).version != record["version"]:
            raise VersionMismatch(f"{folder.path / 'manifest.json'} was changed since the run began; start a new run")
    if _digest(folder) != record["rows_digest"]:
        raise VersionMismatch(f"{folder.path / 'rows.parquet'} was changed since the run began; start a new run")


def _check_journal(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Refuse to make paid calls again because the journal that held them is gone."""
    if not folder.journal_path.is_file():
        raise RunFolderError(f"{folder.journal_path} is missing: the finished calls are not known; start a new run")
    with Journal.open(folder.journal_path) as journal:
        n_there, n_wanted = journal.done().height, record.get("n_finished", 0)
    if n_there < n_wanted:
        raise RunFolderError(
            f"{folder.journal_path} has {n_there} finished calls where the run had {n_wanted}; bring the file back, or "
            "start a new run"
        )


def _digest(folder: RunFolder) -> str:
    try:
        return hashlib.blake2b((folder.path / "rows.parquet").read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise RunFolderError(f"{folder.path / 'rows.parquet'} can not be read: {error.strerror}") from None


def _model_ids(record: Mapping[str, Any]) -> list[str]:
    return [model["model_id"] for model in record["models"]]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
