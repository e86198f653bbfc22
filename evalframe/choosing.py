"""``extract=``, ``metrics=`` and ``graders=`` as people write them become what a manifest would say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalframe.errors import Fault
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.python import defined_functions
from evalframe.manifest.suite import Grader, MetricChoice, validate_extraction
from evalframe.metrics import Metric
from evalframe.registry import EXTRACTORS, METRICS, suggestion

EXTRACT_FORMS = 'a type, as in "number", or a config, as in {"type": "regex_last", "pattern": "answer is (\\\\S+)"}'
METRIC_FORMS = 'metric ids, as in ["exact_match"], entries of a manifest, or metrics of your own'

GRADER_FORMS = 'a .py file, Python text with def grade(sample, item), or an object as in a manifest, with "source"'

_LOWER = {"higher_is_better": False}


def extraction_of(
    given: Any, *, where: str = "extract", limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, Any], list[Fault]]:
    """Read an extraction: a type name, a config, or None for ``none``.

    Args:
        given: What the user wrote.
        where: How it is called in faults.
        limits: The table of numbers.

    Returns:
        The config with its defaults filled in, and all its faults; empty where there are faults.

    >>> extraction_of("number")
    ({'type': 'number'}, [])
    """
    if given is None:
        given = "none"
    if isinstance(given, str):
        if given not in EXTRACTORS or given == "post_process":
            known = [name for name in EXTRACTORS.names() if name != "post_process"]
            return {}, [Fault(where, "unknown_type", f"there is no extraction {given!r}", suggestion(given, known))]
        given = {"type": given}
    if not isinstance(given, Mapping):
        return {}, [Fault(where, "bad_type", f"{given!r} is no extraction", f"give {EXTRACT_FORMS}")]
    return validate_extraction(given, where=where, limits=limits)


def metrics_of(given: Any, *, where: str = "metrics") -> tuple[list[dict[str, Any]], list[Fault]]:
    """Read a list of metrics: ids, entries as a manifest has them, or ``Metric`` records; one alone is a list of one.

    Args:
        given: What the user wrote.
        where: How it is called in faults.

    Returns:
        Entries of a manifest, and the faults of those that are none; whether entries are right in themselves is left
        to the manifest.

    >>> metrics_of(["exact_match", {"id": "f1", "aggregation": "none"}])
    ([{'id': 'exact_match'}, {'id': 'f1', 'aggregation': 'none'}], [])
    """
    if isinstance(given, str | Mapping | Metric | MetricChoice) or callable(given):
        given = [given]
    if given is None:
        detail = "is missing: nothing says how replies are scored"
        return [], [Fault(where, "missing", detail, f"give {METRIC_FORMS}; there are {', '.join(METRICS.names())}")]
    if not isinstance(given, Sequence) or not given:
        seen = "the list is empty" if isinstance(given, Sequence) else f"{given!r} is no list"
        return [], [Fault(where, "bad_type", seen, f"give {METRIC_FORMS}; there are {', '.join(METRICS.names())}")]
    entries: list[dict[str, Any]] = []
    faults: list[Fault] = []
    for index, one in enumerate(given):
        at = f"{where}[{index}]"
        if isinstance(one, MetricChoice):
            one = one.model_dump(exclude_none=True)
        name = one.name if isinstance(one, Metric) else one.get("id") if isinstance(one, Mapping) else one
        if not isinstance(name, str):
            seen = f"the function {one.__name__}" if hasattr(one, "__name__") else repr(one)
            own = '; a function becomes one by @evalframe.metric("name")' if callable(one) else ""
            faults.append(Fault(at, "bad_type", f"{seen} is no metric", f"give {METRIC_FORMS}{own}"))
        elif name not in METRICS:
            known = suggestion(name, METRICS.names())
            faults.append(Fault(at, "unknown_metric", f"there is no metric {name!r}", known))
        elif isinstance(one, Metric) and METRICS.get(name) is not one:
            detail = f"is not the metric that is registered as {name!r}"
            faults.append(Fault(at, "unknown_metric", detail, f"give the id, [{name!r}], or register it anew"))
        elif isinstance(one, Mapping):
            entries.append(dict(one))
        else:  # a manifest says true where it says nothing
            entries.append({"id": name} if METRICS.get(name).higher_is_better else {"id": name, **_LOWER})
    return entries, faults


def graders_by_task(given: Any, task_ids: list[str]) -> tuple[dict[str, Any], dict[str, Path], list[Fault]]:
    """Read ``graders``: what each task is given, the files that they are in, and the faults."""
    if given is None:
        return {}, {}, []
    if not isinstance(given, Mapping) or any(isinstance(given.get(mark), str) for mark in ("source", "file_id")):
        entry, files, faults = grader_of(given)
        return dict.fromkeys(task_ids, entry), files, faults
    found: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    all_faults: list[Fault] = []
    for task_id, one in given.items():
        at = f"graders[{task_id!r}]"
        if task_id not in task_ids:
            known = f"{suggestion(str(task_id), task_ids)}; for all tasks alike give {GRADER_FORMS}"
            all_faults.append(Fault(at, "unknown_task", f"the run has no task {task_id!r}", known))
            continue
        if one is None:
            found[task_id] = None
            continue
        entry, files, faults = grader_of(one, where=at)
        found[task_id] = entry
        for name, path in files.items():
            if paths.setdefault(name, path) != path:
                remedy = "give one of them another name"
                all_faults.append(Fault(at, "duplicate", f"two files are called {name!r}", remedy))
        all_faults += faults
    return found, paths, all_faults


def grader_of(given: Any, *, where: str = "graders") -> tuple[dict[str, Any], dict[str, Path], list[Fault]]:
    """Read a grader: the path of a .py file, Python text, a ``Grader``, or an entry of a manifest.

    A file or text that defines ``grade_batch`` and no ``grade`` is a batch grader.

    Args:
        given: What the user wrote.
        where: How it is called in faults.

    Returns:
        The entry of a manifest, the file that it names, and the faults of what is none.

    >>> grader_of("def grade_batch(samples): return []")
    ({'contract': 'batch', 'source': 'def grade_batch(samples): return []'}, {}, [])
    """
    if isinstance(given, Grader):
        return given.model_dump(exclude_none=True), {}, []
    if isinstance(given, Mapping):
        return dict(given), {}, []
    if isinstance(given, str) and ("\n" in given or "def " in given):
        return {"contract": _contract_of(given), "source": given}, {}, []
    if not isinstance(given, str | Path):
        return {}, {}, [Fault(where, "bad_type", f"{given!r} is no grader", f"give {GRADER_FORMS}")]
    path = Path(given).expanduser()
    if not path.is_file():
        return {}, {}, [Fault(where, "missing_file", f"there is no file {str(path)!r}", f"give {GRADER_FORMS}")]
    text = path.read_bytes().decode("utf-8-sig", "replace")  # what is no UTF-8 is said where the file is taken in
    return {"contract": _contract_of(text), "file_id": path.name}, {path.name: path}, []


def _contract_of(source: str) -> str:
    names = defined_functions(source)
    return "batch" if "grade_batch" in names and "grade" not in names else "sample"
