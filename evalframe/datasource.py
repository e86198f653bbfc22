"""Data that a user already has as the source of a run: a suite of one task is built around it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalframe.choosing import extraction_of, metrics_of
from evalframe.data.frames_in import DATA_FORMS, is_text_file, read_table
from evalframe.data.local import field_names
from evalframe.errors import Fault, ManifestError, OptionError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.suite import Suite, parse_suite
from evalframe.options import RunOptions
from evalframe.prompts.templates import Placeholder, parse
from evalframe.registry import METRICS, nearest
from evalframe.sources import DataSource, Source, SuiteSource, existing, read_source

IN_MEMORY = "data"  # the task's id, and the file id in the manifest, of data that has no file
TASK_TYPE = "custom"  # what kind of task some data is nobody said; leaderboards have it as category.custom
# what goes with prompt=, and what does the like for a run that is there
OF_DATA = {
    "targets": "run.rescore(manifest=…)",
    "extract": "run.rescore(extract=…)",
    "metrics": "run.rescore(metrics=…)",
}
# where the manifest's words for a part are, and what a caller wrote
_WORDS = {
    "tasks[0].prompt_template": "prompt",
    "tasks[0].target_template": "targets",
    "tasks[0].output_extraction": "extract",
    "tasks[0].metrics": "metrics",
}


def find_source(source: Any, options: RunOptions) -> Source:
    """Read and validate a source: data where ``options.prompt`` is given, else a suite or task records.

    Raises:
        OptionError: The source is of no known form, or ``prompt``, ``targets``, ``extract`` and ``metrics`` do not
            fit it; every fault is named.
        DatasetError: The data can not be read, or has values that JSON can not hold.
    """
    if options.prompt is not None:
        return read_data(source, options)
    found = read_source(source, limits=options.limits)
    faults = [
        Fault(name, "misplaced", "is for data, and the source is a suite or task file, which says this itself",
              f"leave it out ({otherwise} scores stored replies otherwise), or give prompt= where the source is data")
        for name, otherwise in OF_DATA.items()
        if getattr(options, name) is not None
    ]  # fmt: skip
    if faults:
        raise OptionError.of(faults, what="options of the run")
    return found


def read_data(source: Any, options: RunOptions) -> Source:
    """Build the suite of one task that runs some data.

    A JSONL or CSV file is named by the suite, as a manifest would name it: runs of the two can be compared. Data in
    memory and Parquet is part of the source, and known by the hash of its records.

    Raises:
        OptionError: As for ``find_source``.
        DatasetError: As for ``find_source``.
    """
    if isinstance(source, Suite) or (isinstance(source, Mapping) and "tasks" in source) or _is_manifest(source):
        raise OptionError(
            "prompt= makes the source data, and a suite manifest is none: leave prompt= out, or give "
            f"{DATA_FORMS}; records of a .json file are saved as .jsonl, one object a line"
        )
    parts = {name: getattr(options, name) for name in ("prompt", *OF_DATA)}
    if isinstance(source, str | os.PathLike):
        path = existing(Path(source), DATA_FORMS)
        if is_text_file(path):
            bare = [text for text in (options.prompt, options.targets) if isinstance(text, str)]
            names = field_names(path, sought=[text for text in bare if not parse(text).placeholders])
            suite = data_suite(names, task_id=legal_id(path), file_id=path.name, limits=options.limits, **parts)
            return SuiteSource(suite, path.parent, {path.name: path})
    table = read_table(source)
    named = {"task_id": task_id_of(source), "file_id": file_id_of(source)}
    return DataSource(data_suite(table.names, **named, limits=options.limits, **parts), table)


def data_suite(
    names: Sequence[str],
    *,
    task_id: str,
    file_id: str,
    prompt: Any,
    targets: Any = None,
    extract: Any = None,
    metrics: Any = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Suite:
    """Build a suite of one task.

    Args:
        names: The fields of the data.
        task_id: The task's id.
        file_id: What the manifest calls the data.
        prompt: A template, the name of a field, or "" for an empty prompt.
        targets: A template, the name of a field, or None.
        extract: A configuration, its type alone, or None: the whole reply.
        metrics: Metric ids, ``Metric`` records or dicts as in a manifest; a single one stands for a list of it.
        limits: The table of numbers.

    Raises:
        OptionError: Names every fault, as ``prompt``, ``targets``, ``extract`` or ``metrics``.
    """
    chosen, faults = metrics_of(metrics)
    extraction, wrong = extraction_of(extract, limits=limits)
    faults += wrong
    task: dict[str, Any] = {
        "id": task_id,
        "type": TASK_TYPE,
        "dataset": {"file_id": file_id},
        "prompt_template": _template("prompt", prompt, names, faults) if prompt != "" else "",
        "output_extraction": extraction or {"type": "none"},
        "metrics": chosen or [{"id": "exact_match"}],
    }
    if targets is not None:
        task["target_template"] = _template("targets", targets, names, faults)
    elif comparing := [one["id"] for one in chosen if _needs_target(one)]:
        detail = f"is missing; the metric {comparing[0]} compares with a target"
        faults.append(Fault("targets", "missing", detail, f"add it, as in targets={_example('targets', names)}"))
        task["target_template"] = "{{x}}"  # it is said that there is none
    elif not chosen:
        task["target_template"] = "{{x}}"  # nor does the metric that stands in need one of its own
    try:
        suite = parse_suite({"tasks": [task]}, limits=limits)
    except ManifestError as error:
        faults += [_in_words_of_the_call(fault) for fault in error.fault_records if isinstance(fault, Fault)]
    if faults:
        order = {name: place for place, name in enumerate(("prompt", *OF_DATA))}
        faults.sort(key=lambda fault: order.get(re.split(r"\W", fault.where)[0], len(order)))
        raise OptionError.of(faults, what="prompt, targets, extract and metrics of the data")
    return suite


def task_id_of(source: Any) -> str:
    """Name the task of some data: by its file, else ``data``."""
    return legal_id(Path(source)) if isinstance(source, str | os.PathLike) else IN_MEMORY


def file_id_of(source: Any) -> str:
    """Name some data in a manifest: by its file, else ``data``."""
    return Path(source).name if isinstance(source, str | os.PathLike) else IN_MEMORY


def legal_id(path: Path) -> str:
    """Make a task id of a file's name.

    >>> legal_id(Path("data/my questions.jsonl.gz"))
    'my_questions'
    """
    stem = Path(re.sub(r"\.gz$", "", path.name, flags=re.IGNORECASE)).stem
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).strip("_") or IN_MEMORY


def _is_manifest(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json"


def _template(option: str, text: Any, names: Sequence[str], faults: list[Fault]) -> str:
    """Give a template: the text itself, or a field's placeholder where it is the name of one."""
    form = f"write a template or the name of one field, as in {option}={_example(option, names)}"
    if not isinstance(text, str):
        faults.append(Fault(option, "bad_type", f"{text!r} is no text", form))
    elif parse(text).placeholders:
        return text
    elif text not in names:
        meant = _meant(text, names)
        seen = f"{text!r} has no {{{{placeholder}}}} and is the name of no field; the data has {_listed(names)}"
        faults.append(Fault(option, "no_field", seen, meant + form))
    else:
        template = f"{{{{{text}}}}}"
        if parse(template).single == Placeholder("field", text):
            return template
        faults.append(Fault(option, "bad_name", f"no template can name the field {text!r}", "rename the field"))
    return "{{x}}"


def _meant(text: str, names: Sequence[str]) -> str:
    """Guess what went wrong with a template that names no field."""
    if (braces := re.search(r"\{([^{}]+)\}", text)) and braces[1].strip() in names:
        return f"placeholders have two braces, {{{{{braces[1].strip()}}}}}; "
    divider = next((sign for sign in (";", "\t", "|") if len(names) == 1 and sign in names[0]), None)
    if divider is not None:
        return f"is it a table divided by {divider!r}? Read it first: polars.read_csv(path, separator={divider!r}); "
    near = nearest(text, names, most=1)
    return f"did you mean {near[0]!r}? " if near else ""


def _needs_target(metric: Mapping[str, Any]) -> bool:
    name = metric.get("id")
    return isinstance(name, str) and name in METRICS and bool(METRICS.get(name).needs_target)


def _in_words_of_the_call(fault: Fault) -> Fault:
    def said(text: str) -> str:
        for path, word in _WORDS.items():
            text = text.replace(path, word)
        return text

    return Fault(said(fault.where), fault.rule, said(fault.detail), said(fault.remedy))


def _example(option: str, names: Sequence[str]) -> str:
    usable = [name for name in names if parse(f"{{{{{name}}}}}").single == Placeholder("field", name)]
    words = {"prompt": usable[:1] or ["question"], "targets": usable[-1:] or ["answer"]}
    return f'"{{{{{words[option][0]}}}}}"'


def _listed(names: Sequence[str], most: int = 20) -> str:
    if not names:
        return "no record from which fields could be read"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"the fields {', '.join(map(repr, names[:most]))}{more}"
