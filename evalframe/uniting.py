"""Several runs become one: the models of all, on the samples of all; no call is made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from evalframe.assembling import assemble, check_sandbox
from evalframe.deriving import begin
from evalframe.errors import OptionError
from evalframe.frames import check, listed
from evalframe.generate.calls import repeats_of
from evalframe.graders import graded_tasks
from evalframe.manifest.suite import parse_suite
from evalframe.manifest.version import suite_version
from evalframe.options import RunOptions
from evalframe.planning import rows_version
from evalframe.recording import now
from evalframe.result import Run
from evalframe.schemas import CALL_KEY, ROWS
from evalframe.versions import Part, differing, naming_notes, part_notes, refuse

# what a task is, the same in all its rows
OF_TASK = ("category", "metrics", "extraction", "metadata")

# options that make replies or confidences of different kinds
KINDS = {
    "request_type": "replies that models wrote stand beside choices that they were held to",
    "loglikelihood_norm": "choices were compared in different ways",
    "confidence": "all confidences are read as the first run says",
}


def concat(
    runs: Sequence[Run], *, across_versions: bool = False, out: str | os.PathLike[str] | bool | None = None
) -> Run:
    """Put the models of several runs into one run, to rank them together.

    The runs must have the same version: data set, prompts, targets, extraction, metrics. With ``across_versions`` they
    need not: samples are matched by ``sample_id`` within their task, the first run that has a task says how it is read
    and scored (extraction, metrics), the first that has a sample what its prompt and target are, and notes name what
    differs.

    Runs may hold different samples of the same version (``max_samples_per_task``, ``task_ids``); a sample that a model
    was never called with is a skipped call of it: ``n_skipped`` shows it, and ``evalframe.resume`` makes it.

    Args:
        runs: Two or more; they stay as they are.
        across_versions: Accept runs of different versions.
        out: The new folder; None: temporary where the first run is, else a new one under the user's data directory.

    Raises:
        OptionError: Fewer than two runs, or what is no run; or two runs have the same call of one model; or they name
            their samples in two ways.
        VersionMismatch: The versions differ; every task and part is named.
        RunFolderError: A run is being written now, or the new folder holds something already.
    """
    _check_runs(runs)
    first = runs[0]
    parts = list(dict.fromkeys(part for run in runs[1:] for part in differing(first, run, whole=True)))
    if not across_versions:
        refuse(
            parts, what="these runs do not have the same version",
            remedy="run again with one version, or accept it: across_versions=True",
        )  # fmt: skip
    told = [f"runs of different versions: {note}" for note in part_notes(parts)]
    for run in runs[1:]:
        named = naming_notes(first, run)
        if named and not across_versions:
            raise OptionError(f"{named[0]}; run again with one of them, or accept it: across_versions=True")
        told += named
    rows = _united_rows([run.rows for run in runs])
    places = [_places(run.rows, rows) for run in runs]
    _check_calls(runs, places)
    allowed = any(run.record["options"]["allow_unsandboxed"] for run in runs)  # code tasks were run under it before
    options = RunOptions.recall(
        {**first.record["options"], "repeats": _most_repeats(runs), "allow_unsandboxed": allowed, "out": out}
    )
    models = {entry["model_id"]: entry for run in runs for entry in run.record["models"]}
    if len(models) > options.limits.models:
        raise OptionError(f"{len(models)} models; at most {options.limits.models} in one run")
    source = _united_source(runs, rows, models=list(models.values()), options=options)
    check_sandbox(rows, options=options, graded=graded_tasks(source["manifest"]))
    notes = [*told, *_origin_notes(runs, parts), *_setting_notes(runs)]
    folder = begin(runs, how="concat", rows=rows, **source, notes=notes, places=places, out=out)
    with folder.locked():
        assemble(folder, options=options, model_ids=list(models))
        folder.update_record(ended_at=now())
    return Run(folder)


def _check_runs(runs: Sequence[Run]) -> None:
    if not isinstance(runs, Sequence) or not all(isinstance(run, Run) for run in runs):
        raise OptionError("concat takes a list of runs, as in evalframe.concat([a, b])")
    if len(runs) < 2:
        raise OptionError(f"nothing to put together: {len(runs)} run{'' if len(runs) == 1 else 's'}; give two or more")
    if len({run.record["kind"] for run in runs}) > 1:
        raise OptionError("a run of a suite and a run of task files can not be one run; compare their leaderboards")


def _united_rows(all_rows: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Give the samples of all runs once each, tasks as the first run has them; numbers stay where none clash."""
    united = pl.concat(all_rows, how="diagonal").unique(["task_id", "sample_id"], keep="first", maintain_order=True)
    names = [*OF_TASK, *(name for name in united.columns if name.startswith("metadata."))]
    of_task = united.unique("task_id", keep="first", maintain_order=True).select("task_id", *names)
    rows = united.drop(names).join(of_task, on="task_id", how="left", maintain_order="left")
    if rows.select("task_id", "sample_index").is_duplicated().any():
        rows = rows.with_columns(sample_index=pl.int_range(pl.len(), dtype=pl.Int64).over("task_id"))
    extra = [name for name in rows.columns if name not in ROWS.dtypes]
    return check(rows.select(*ROWS.names, *extra).sort("task_id", "sample_index"), ROWS)


def _places(rows: pl.DataFrame, united: pl.DataFrame) -> pl.DataFrame:
    """Say which number each sample of a run has in the united rows: ``task_id``, ``sample_index``, ``place``."""
    new = united.select("task_id", "sample_id", place="sample_index")
    return rows.join(new, on=["task_id", "sample_id"], maintain_order="left").select("task_id", "sample_index", "place")


def _check_calls(runs: Sequence[Run], places: Sequence[pl.DataFrame]) -> None:
    """Refuse two calls of one model, sample and repeat: which one counts can not be told."""
    calls = [
        run.scan("generations")
        .filter(pl.col("status") != "skipped")
        .select(CALL_KEY)
        .collect(engine="in-memory")
        .join(place, on=["task_id", "sample_index"])
        .with_columns(sample_index="place")
        .select(CALL_KEY)
        for run, place in zip(runs, places, strict=True)
    ]
    together = pl.concat(calls)
    if (twice := together.filter(together.is_duplicated())).height:
        names = twice["model_id"].unique().sort().to_list()
        raise OptionError(
            f"two runs have calls of the same samples by {listed(names)}; leave one run out, or make repeats with "
            "run.extend(repeats=…)"
        )


def _most_repeats(runs: Sequence[Run]) -> int | dict[str, int]:
    """Give the most repeats of each task; by task id where they are not one number, since categories may differ."""
    given = [run.record["options"]["repeats"] for run in runs]
    if isinstance(given[0], int) and all(one == given[0] for one in given):
        return given[0]
    counted = pl.concat(
        run.rows.select("task_id").with_columns(repeats_of(run.rows, repeats))
        for run, repeats in zip(runs, given, strict=True)
    )
    return dict(counted.group_by("task_id").agg(pl.col("repeats").max()).sort("task_id").iter_rows())


def _united_source(
    runs: Sequence[Run], rows: pl.DataFrame, *, models: Sequence[Mapping[str, Any]], options: RunOptions
) -> dict[str, Any]:
    """Give manifest and entries of ``run.json``: each task as the first run that has it says."""
    first = runs[0]
    changes: dict[str, Any] = {
        "models": list(models),
        "options": options.recorded(),
        "bad_tasks": list(dict.fromkeys(line for run in runs for line in run.record["bad_tasks"])),
    }
    manifest = first.folder.manifest()
    if first.record["kind"] != "suite":
        return {"manifest": manifest, "changes": {**changes, "version": rows_version(rows)}}
    tasks: dict[str, Any] = {}
    hashes: dict[str, str] = {}
    for run in runs:
        for task in run.folder.manifest()["tasks"]:
            tasks.setdefault(task["id"], task)
        hashes = {**run.record["content_hashes"], **hashes}
    manifest = {**manifest, "tasks": list(tasks.values())}
    names = {choice["id"] for task in tasks.values() for choice in task["metrics"]}  # the runs had them
    suite = parse_suite(manifest, limits=options.limits, metric_names=names)
    version = suite_version(suite, content_hashes=hashes)
    graders = [run.record.get("graders", {}) for run in reversed(runs)]
    changes["graders"] = {task: one for told in graders for task, one in told.items()}
    changes |= {"version": version.version, "parts": version.parts, "content_hashes": hashes}
    return {"manifest": manifest, "changes": changes}


def _origin_notes(runs: Sequence[Run], parts: Sequence[Part]) -> list[str]:
    """Say how many samples have another prompt or target than the first run would have given them."""
    other = {task for task, part in parts if part in ("prompt", "fewshot", "target", "choices")}
    key = ["task_id", "sample_id"]
    later = pl.concat([run.rows.select(key) for run in runs[1:]]).unique().join(runs[0].rows, on=key, how="anti")
    n = later.filter(pl.col("task_id").is_in(list(other))).height
    return [f"samples that only a later run has keep its prompt and target: {n}"] if n else []


def _setting_notes(runs: Sequence[Run]) -> list[str]:
    notes = []
    if any(run.record["generation"] != runs[0].record["generation"] for run in runs):
        notes.append("the runs were made with different generation settings; run.json of each says which")
    options = [RunOptions.recall(run.record["options"]) for run in runs]
    for name, what in KINDS.items():
        if any(getattr(other, name) != getattr(options[0], name) for other in options):
            notes.append(f"the runs differ in {name}: {what}")
    return notes
