"""What ``run.json`` says of a run, and whether its folder still is what it says."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from evalframe import __version__
from evalframe.adapters import NOTHING
from evalframe.errors import RunFolderError, VersionMismatch
from evalframe.generate.journal import Journal
from evalframe.limits import Limits
from evalframe.manifest.generation import GenerationSettings
from evalframe.manifest.suite import Suite, parse_suite
from evalframe.manifest.version import suite_version
from evalframe.models import Model, sending_of
from evalframe.options import RunOptions
from evalframe.planning import Plan
from evalframe.registry import METRICS
from evalframe.sandbox.launch import layers
from evalframe.store import FORMAT_VERSION, RunFolder, new_folder, run_id_of

PACKAGES = ("polars", "numpy", "datasets", "rapidfuzz", "pydantic")


def new_record(
    plan: Plan, *, kind: str, options: RunOptions, settings: GenerationSettings, models: Sequence[Model]
) -> dict[str, Any]:
    """Give what ``run.json`` says of a run; nothing in it is a secret, because keys are read by adapters alone."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "status": "running",
        "started_at": now(),
        "ended_at": None,
        "wall_seconds": 0.0,
        "version": plan.version,
        "parts": plan.parts,
        "content_hashes": plan.content_hashes,
        "graders": plan.graders,
        "bad_tasks": list(plan.bad_tasks),
        "models": [model_entry(model, settings) for model in models],
        "options": options.recorded(),
        "generation": settings.model_dump(exclude_none=True),
        "metadata": options.plain_metadata(),
        "sandbox_layers": layers(),
        "environment": environment(),
    }


def model_entry(model: Model, settings: GenerationSettings) -> dict[str, Any]:
    """Give what ``run.json`` says of a model: enough to find it again, what it was really sent, no key."""
    adapter = model.adapter
    return {
        "model_id": adapter.model_id,
        "adapter": f"{type(adapter).__module__}.{type(adapter).__qualname__}",
        "model_version": getattr(adapter, "model_version", None),
        "spec": model.spec if isinstance(model.spec, str | None) else dict(model.spec),
        "endpoint": getattr(adapter, "endpoint", None),
        "sending": None if (sending := sending_of(model, settings)) is None else dataclasses.asdict(sending),
    }


def moved_models(record: Mapping[str, Any], models: Sequence[Model]) -> list[str]:
    """Say which models go on at another address than the run began with: a reader of its figures must know."""
    before = {entry["model_id"]: entry.get("endpoint") for entry in record["models"]}
    now_at = {model.adapter.model_id: getattr(model.adapter, "endpoint", None) for model in models}
    return [
        f"{name}: from {now()} on it was called at {there or 'no address'}, before at {before[name] or 'no address'}"
        for name, there in now_at.items()
        if there != before.get(name, there)
    ]


def environment() -> dict[str, Any]:
    """Name what a run is made with: versions and platform."""
    return {
        "evalframe": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def begin_run(
    plan: Plan,
    *,
    kind: str,
    options: RunOptions,
    settings: GenerationSettings,
    models: Sequence[Model],
    notes: Sequence[str] = (),
    judges: Mapping[str, str | None] = NOTHING,
) -> RunFolder:
    """Make the folder of a new run, with all in it that is known before the first call.

    ``notes`` are what a reader of its figures must know, ``judges`` the ids of the models that graders call.
    """
    folder = new_folder(options.out)
    Journal.open(folder.journal_path).close()  # from here on its absence is a loss, and never silently mended
    folder.write("rows", plan.rows)
    folder.write_manifest(plan.manifest)
    record = {**new_record(plan, kind=kind, options=options, settings=settings, models=models), **judges}
    if notes:
        record["notes"] = list(notes)
    folder.write_record({**record, "run_id": run_id_of(folder), "rows_digest": digest(folder)})
    return folder


def recorded_suite(folder: RunFolder, *, limits: Limits) -> Suite:
    """Read the suite of a run again; metrics of one's own may not be registered in this process, and are no fault."""
    manifest = folder.manifest()
    entries = (entry for task in _objects(manifest.get("tasks")) for entry in _objects(task.get("metrics")))
    own = {name for entry in entries if isinstance(name := entry.get("id"), str)}
    where = str(folder.path / "manifest.json")
    return parse_suite(manifest, where=where, limits=limits, metric_names=own.union(METRICS.names()))


def _objects(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def check_unchanged(folder: RunFolder, record: Mapping[str, Any], options: RunOptions) -> None:
    """Refuse a folder whose manifest or rows are not those that the run began with.

    Raises:
        VersionMismatch: Names the file.
    """
    if record["kind"] == "suite":
        suite = recorded_suite(folder, limits=options.limits)
        if suite_version(suite, content_hashes=record["content_hashes"]).version != record["version"]:
            raise VersionMismatch(f"{folder.path / 'manifest.json'} was changed since the run began; start a new run")
    if digest(folder) != record["rows_digest"]:
        raise VersionMismatch(f"{folder.path / 'rows.parquet'} was changed since the run began; start a new run")


def check_journal(folder: RunFolder, record: Mapping[str, Any]) -> None:
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


def digest(folder: RunFolder) -> str:
    """Hash the rows of a run as they are on disk."""
    try:
        return hashlib.blake2b((folder.path / "rows.parquet").read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise RunFolderError(f"{folder.path / 'rows.parquet'} can not be read: {error.strerror}") from None


def model_ids(record: Mapping[str, Any]) -> list[str]:
    """Name the models of a run, in order."""
    return [model["model_id"] for model in record["models"]]


def now() -> str:
    """Give the time of day as ``run.json`` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
