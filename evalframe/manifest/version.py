"""Content hashes of a suite, so that results of different tasks are never mixed.

``suite_version`` covers all that affects results: what rows are read, how they become prompts and targets, how answers
are read and scored. Not in it: names, descriptions, types and metadata, time-outs (which depend on the machine), and
the choices of a run. Of a task's metadata only what the ``code_exec`` metric reads is in it (``timeout_s``,
``setup_code``, ``completes_prompt``, where such a metric is used without a grader), as a part of ``metrics``;
``solution`` is not, because it steers mock models and no score.

What means the same hashes the same: an alias and its field, a default and the same value written out, a file under
another id or name, source text and a file of the same text, a seed that is not used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.errors import Fault, OptionError
from evalframe.manifest.records import Dataset, Grader, Preprocess, Suite, Task
from evalframe.manifest.rules import CODE_METADATA

PARTS = ("dataset", "preprocess", "prompt", "fewshot", "target", "choices", "extraction", "metrics", "grader")
WHOLE_TASK = "task"

# goes up when equal suites would hash differently than before
_RULES = 1


@dataclass(frozen=True, slots=True)
class SuiteVersion:
    """The version of a suite.

    Attributes:
        version: BLAKE2b-128 over the parts of all tasks, hexadecimal; the order of tasks is not in it.
        parts: Task id to part (a word of ``PARTS``) to its hash.
    """

    version: str
    parts: dict[str, dict[str, str]]


def suite_version(suite: Suite, *, content_hashes: Mapping[str, str]) -> SuiteVersion:
    """Hash what affects the results of a suite.

    Args:
        suite: A parsed suite.
        content_hashes: Of each file of ``file_ids(suite)``, the BLAKE2b-128 of its bytes, hexadecimal. Under
            ``hub_key(dataset)`` it may have the commit that a Hub data set was read at, which then stands for
            ``revision``.

    Raises:
        OptionError: Names each file whose hash is missing.
    """
    if lost := [name for name in file_ids(suite) if name not in content_hashes]:
        faults = [Fault(f"content_hashes[{name!r}]", "missing", "is missing", "hash the file's bytes") for name in lost]
        raise OptionError.of(faults, what="the version of a suite needs the hashes of its files")
    parts = {task.id: _task_parts(task, content_hashes) for task in suite.tasks}
    return SuiteVersion(_hash([_RULES, parts]), parts)


def file_ids(suite: Suite) -> list[str]:
    """Give the ids of all files whose content affects results, sorted: data, graders and preprocessors."""
    found: set[str] = set()
    for task in suite.tasks:
        examples = task.fewshot.dataset if task.fewshot.count else None
        users = (task.dataset, examples, task.preprocess, task.grader)
        found |= {user.file_id for user in users if user is not None and user.file_id is not None}
    return sorted(found)


def hub_key(dataset: Dataset) -> str:
    """Give the key under which ``content_hashes`` may have the commit of a Hub data set.

    >>> hub_key(Dataset(path="acme/qa"))
    'hub:acme/qa'
    """
    return f"hub:{dataset.path}" + (f"@{dataset.revision}" if dataset.revision else "")


def differing_parts(
    a: SuiteVersion | Mapping[str, Mapping[str, str]], b: SuiteVersion | Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Name what differs between two versions: (task id, part), sorted by task, parts in the order of ``PARTS``.

    A task that only one of them has gives the part ``task``.
    """
    first = a.parts if isinstance(a, SuiteVersion) else a
    second = b.parts if isinstance(b, SuiteVersion) else b
    differing: list[tuple[str, str]] = []
    for task_id in sorted({*first, *second}):
        one, other = first.get(task_id), second.get(task_id)
        if one is None or other is None:
            differing.append((task_id, WHOLE_TASK))
            continue
        names = [*PARTS, *sorted({*one, *other} - {*PARTS})]
        differing += [(task_id, name) for name in names if one.get(name) != other.get(name)]
    return differing


def _task_parts(task: Task, hashes: Mapping[str, str]) -> dict[str, str]:
    content = {
        "dataset": _dataset(task.dataset, hashes),
        "preprocess": _preprocess(task.preprocess, hashes),
        "prompt": task.prompt_template,
        "fewshot": _fewshot(task, hashes),
        "target": task.target_template,
        "choices": task.choices,
        "extraction": task.extraction_config,
        "metrics": _metrics(task),
        "grader": _grader(task.grader, hashes),
    }
    return {name: _hash([name, content[name]]) for name in PARTS}


def _dataset(dataset: Dataset, hashes: Mapping[str, str]) -> dict[str, Any]:
    if dataset.source == "file":
        # the format is left out: it is often inferred, and the bytes decide what can be read from them
        return {"content": hashes[dataset.file_id or ""], "max_rows": dataset.max_rows}
    return {
        "path": dataset.path,
        "name": dataset.name,
        "split": dataset.split,
        "revision": hashes.get(hub_key(dataset), dataset.revision),
        "data_files": dataset.data_files,
        "dataset_kwargs": dataset.dataset_kwargs,
        "max_rows": dataset.max_rows,
    }


def _preprocess(preprocess: Preprocess | None, hashes: Mapping[str, str]) -> dict[str, Any] | None:
    if preprocess is None:
        return None
    return {"contract": preprocess.contract, "python": _python(preprocess, hashes)}


def _grader(grader: Grader | None, hashes: Mapping[str, str]) -> dict[str, Any] | None:
    if grader is None:
        return None
    return {
        "contract": grader.contract,
        "execution": grader.execution,
        "metric_id": grader.metric_id,
        "model_calls": grader.max_model_calls if grader.model_access != "none" else 0,
        "python": _python(grader, hashes),
    }


def _python(owner: Grader | Preprocess, hashes: Mapping[str, str]) -> str:
    if owner.source is not None:
        return hashlib.blake2b(owner.source.encode(), digest_size=16).hexdigest()
    return hashes[owner.file_id or ""]


def _fewshot(task: Task, hashes: Mapping[str, str]) -> dict[str, Any] | None:
    fewshot = task.fewshot
    if not fewshot.count:
        return None
    return {
        "count": fewshot.count,
        "dataset": _dataset(fewshot.dataset, hashes) if fewshot.dataset is not None else None,
        "prompt": _or(fewshot.prompt_template, task.prompt_template),
        "target": _or(fewshot.target_template, task.target_template),
        "example": fewshot.example_template,
        "separator": fewshot.separator,
        "seed": fewshot.seed if fewshot.strategy == "random" else None,
    }


def _metrics(task: Task) -> dict[str, Any]:
    choices = [[choice.id, choice.aggregation, choice.higher_is_better] for choice in task.metric_choices]
    runs_code = task.grader is None and any(choice.id == "code_exec" for choice in task.metrics)
    code = {key: task.metadata[key] for key in CODE_METADATA if key in task.metadata} if runs_code else {}
    return {"choices": choices, "code": code}


def _or(own: str | None, of_the_task: str | None) -> str | None:
    return own if own is not None else of_the_task


def _hash(content: Any) -> str:
    # sorted keys and ASCII only: the same text in every process and on every machine
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()
