"""The JSON Schema of suite manifests, so that editors complete and check them."""

from __future__ import annotations

from typing import Any

from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.records import Suite, Task

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ID = "^[A-Za-z0-9_.-]+$"


def json_schema(*, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) of a suite manifest: all fields, limits and descriptions.

    Rules that tie several fields together (a metric that needs a target, say) are not in it; ``parse_suite`` has all.

    Args:
        limits: The table of numbers that the schema names.
    """
    schema = Suite.model_json_schema(mode="validation")
    definitions: dict[str, Any] = schema["$defs"]
    definitions["Suite"] = {"properties": schema["properties"]}
    definitions["Task"]["properties"]["num_fewshot"] = {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
        "description": "Alias of fewshot.count.",
    }
    for name, keywords in _limits(limits).items():
        model, field = name.split(".")
        _bound(definitions[model]["properties"][field], keywords)
    # pydantic leaves a description out where a field is another object
    definitions["Task"]["properties"]["fewshot"]["description"] = Task.model_fields["fewshot"].description
    del definitions["Suite"]
    return {"$schema": DIALECT, **schema, "title": "evalframe suite manifest"}


def _limits(limits: Limits) -> dict[str, dict[str, Any]]:
    seconds = {"minimum": 1, "maximum": limits.python_timeout_seconds}
    metadata = {
        "propertyNames": {"maxLength": limits.metadata_key_chars},
        "additionalProperties": {"maxLength": limits.metadata_value_chars},
    }
    count = {"minimum": 0, "maximum": limits.fewshot_examples}
    return {
        "Suite.tasks": {"minItems": 1, "maxItems": limits.suite_tasks},
        "Suite.metadata": metadata,
        "Task.id": {"pattern": _ID},
        "Task.metadata": metadata,
        "Task.choices": {"minItems": 1},
        "Task.num_fewshot": count,
        "FewShot.count": count,
        "FewShot.seed": {"minimum": 0},
        "Dataset.max_rows": {"minimum": 1, "maximum": limits.max_rows},
        "MetricChoice.id": {"pattern": _ID},
        "Grader.metric_id": {"pattern": _ID},
        "Grader.timeout_seconds": seconds,
        "Grader.max_model_calls": {"minimum": 0, "maximum": limits.model_calls},
        "Preprocess.timeout_seconds": seconds,
        "Regex.pattern": {"minLength": 1, "maxLength": limits.regex_pattern_chars},
    }


def _bound(field: dict[str, Any], keywords: dict[str, Any]) -> None:
    """Put limits beside the type that they bound: into the branch that is not null, where there are branches."""
    branches = [branch for branch in field.get("anyOf", ()) if branch.get("type") != "null"]
    (branches[0] if branches else field).update(keywords)
