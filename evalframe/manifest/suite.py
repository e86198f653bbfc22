"""Suite manifests: raw input becomes a frozen ``Suite``, or one error that names everything that is wrong with it.

Where the format is silent: a null is an absent key and ``2.0`` an integer. ``max_rows`` is legal for files too; the
other fields of Hub data sets are refused there, because they would be ignored. ``data_files`` are kept by split. Of a
data set that is not ``json`` or ``csv`` they are paths inside it. A model-backed grader without a stated ``execution``
whose text has only ``grade_batch`` is an aggregate one. Labels and patterns are checked for what can never work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from evalframe.errors import Fault, ManifestError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.extraction import MODELS, Extraction, validate_extraction
from evalframe.manifest.fields import Record
from evalframe.manifest.jsonschema import json_schema
from evalframe.manifest.reading import from_text, plain
from evalframe.manifest.records import (
    SCHEMA_VERSION,
    Dataset,
    FewShot,
    Grader,
    MetricChoice,
    Preprocess,
    Suite,
    Task,
)
from evalframe.manifest.rules import suite_faults
from evalframe.manifest.shape import faults_of, shown, sorted_faults

__all__ = [
    "SCHEMA_VERSION", "Dataset", "Extraction", "FewShot", "Grader", "MetricChoice", "Preprocess", "Suite", "Task",
    "json_schema", "parse_suite", "validate_extraction",
]  # fmt: skip

_MODELS: dict[str, type[Record]] = {
    **MODELS, "tasks": Task, "dataset": Dataset, "metrics": MetricChoice, "grader": Grader, "preprocess": Preprocess,
    "fewshot": FewShot,
}  # fmt: skip


def parse_suite(
    manifest: Mapping[str, Any] | str | Suite,
    *,
    where: str = "manifest",
    limits: Limits = DEFAULT_LIMITS,
    metric_names: Collection[str] | None = None,
) -> Suite:
    """Read and validate a suite manifest, all of it in one pass.

    Nothing is fetched, spawned or run; Python in the manifest is only compiled.

    Args:
        manifest: A dict, JSON text, or a suite (which is validated again, since it may have been built by hand).
        where: How the manifest is called in messages, as in ``suite.json``.
        limits: The table of numbers; a manifest can not change it.
        metric_names: The metrics that a task without a grader may name; None for all that are registered.

    Nulls:
        A null is as good as an absent key, but in ``metadata`` and ``dataset_kwargs``, where it is a value.

    Raises:
        ManifestError: Every fault, each with its path, the rule, what was seen and what to do.

    >>> suite = parse_suite(
    ...     {
    ...         "tasks": [
    ...             {
    ...                 "id": "t",
    ...                 "type": "qa",
    ...                 "dataset": {"file_id": "rows.jsonl"},
    ...                 "target_template": "{{answer}}",
    ...                 "num_fewshot": 2,
    ...                 "metrics": [{"id": "exact_match"}],
    ...             }
    ...         ]
    ...     }
    ... )
    >>> suite.tasks[0].fewshot.count, suite.tasks[0].headline.id
    (2, 'exact_match')
    """
    given = from_text(manifest, where) if isinstance(manifest, str) else manifest
    raw, faults = plain(given, "", root=where)
    if not isinstance(raw, Mapping):
        seen = f"{shown(raw)} is no object"
        faults = [Fault(where, "not_an_object", f"a manifest is one JSON object; {seen}", 'write {"tasks": [...]}')]
        raise ManifestError.of(faults, what=where)
    suite: Suite | None = None
    try:
        suite = Suite.model_validate(raw)
    except ValidationError as error:
        faults += faults_of(error, where="", root=Suite, models=_MODELS, tag_after="output_extraction")
    faults += suite_faults(raw, limits, metric_names)
    if faults or suite is None:
        raise ManifestError.of(sorted_faults(_as_written(faults)), what=where)
    return suite


def _as_written(faults: list[Fault]) -> list[Fault]:
    """Drop what is said of ``fewshot.count`` where its alias was written and is named itself."""
    aliases = {fault.where for fault in faults if fault.where.endswith(".num_fewshot") and fault.rule != "conflict"}
    resolved = {alias.removesuffix("num_fewshot") + "fewshot.count" for alias in aliases}
    return [fault for fault in faults if fault.where not in resolved]
