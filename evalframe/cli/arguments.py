"""What is written on a command line becomes what Python takes: files, settings, extractions, metrics, runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalframe.cli.printing import say

if TYPE_CHECKING:
    from evalframe.result import Run

Json = Annotated[bool, typer.Option("--json", help="Print one JSON envelope instead of tables, whatever happens.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run, new or empty.", metavar="DIR")]
Progress = Annotated[bool, typer.Option("--progress/--no-progress", help="Show a progress bar.")]
In = Annotated[Path | None, typer.Option("--in", help="Folder that holds runs; default: the user's.", metavar="DIR")]
Source = Annotated[
    list[str],
    typer.Argument(help="A suite (.json), task files (.jsonl), or with --prompt a data file.", metavar="SOURCE"),
]
RunName = Annotated[str, typer.Argument(help="The folder of a run, its id, or how its id begins.", metavar="RUN")]
Prompt = Annotated[
    str | None, typer.Option(help="SOURCE is data: its prompt, as in 'Q: {{question}}'.", metavar="TEMPLATE")
]
Targets = Annotated[str | None, typer.Option(help="Right answers, as in '{{answer}}'.", metavar="TEMPLATE")]
Extract = Annotated[
    str | None,
    typer.Option(
        help="number, none, regex=PATTERN, regex_last=…, take_first=2, label_set=A,B; or JSON", metavar="TYPE"
    ),
]
Metric = Annotated[list[str] | None, typer.Option("--metric", help="A metric's id; repeatable.", metavar="ID")]
Files = Annotated[
    list[str] | None, typer.Option("--files", help="A data file under an id; repeatable.", metavar="ID=PATH")
]
Task = Annotated[list[str] | None, typer.Option("--task", help="Only this task; repeatable.", metavar="ID")]
MaxSamples = Annotated[int | None, typer.Option(help="Only the first so many samples of a task.", metavar="N")]
Repeats = Annotated[
    list[str] | None,
    typer.Option(help="Calls a sample; NAME=N for a task or category, repeatable.", metavar="N"),
]
Generation = Annotated[str | None, typer.Option(help="Settings: JSON text or a .json file.", metavar="JSON")]
FailUnder = Annotated[float | None, typer.Option(help="Exit 1 if a model's mean score is below.", metavar="SCORE")]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Also rank within each group, as in row.subject; repeatable.", metavar="FIELD"),
]
SampleIds = Annotated[str, typer.Option(help="auto, or content: hash of the row.", metavar="WORD")]
OnMissing = Annotated[str, typer.Option(help="A template's field that is in no row: warn or error.", metavar="WORD")]
SkipFailedTasks = Annotated[
    bool, typer.Option("--skip-failed-tasks", help="Run the other tasks where a preprocessor fails.")
]
AllowUnsandboxed = Annotated[
    bool, typer.Option("--allow-unsandboxed", help="Run foreign code without walls but resource limits.")
]
Sandbox = Annotated[str, typer.Option(help="auto or strict.", metavar="WORD")]
Limit = Annotated[
    list[str] | None, typer.Option("--limit", help="A number of the table of limits; repeatable.", metavar="NAME=N")
]

SOURCES = "give a suite (.json), a task file (.jsonl), or with --prompt a data file (.jsonl, .csv, .parquet)"
DATA_ENDINGS = (".jsonl", ".ndjson", ".csv", ".parquet", ".pq")
DATA_ONLY = "with --prompt the source is a data file; save the records as .jsonl (one a line), .csv or .parquet"
# what the one argument of an extraction is, for TYPE=ARGUMENT
EXTRACT_ARGUMENTS = {"regex": "pattern", "regex_last": "pattern", "take_first": "lines", "label_set": "labels"}
EXTRACT_EXAMPLES = {
    "regex": r"'regex=answer: (\S+)'",
    "regex_last": r"'regex_last=answer: (\S+)'",
    "take_first": "take_first=2",
    "label_set": "label_set=yes,no",
}


def source_of(given: Sequence[str], prompt: str | None = None) -> Any:
    """Give the one source, or the list of task files; what is plainly none is told in the words of a shell.

    Raises:
        OptionError: It is the folder of a run, another folder, an empty file, or by its name no source.
    """
    from evalframe.errors import OptionError

    if prompt is not None and len(given) > 1:
        raise OptionError(f"--prompt: data is one file, and {len(given)} are given; join them, or give them in turn")
    for path in given:
        if why := _no_source(path, prompt):
            raise OptionError(why)
    return given[0] if len(given) == 1 else list(given)


def _no_source(path: str, prompt: str | None) -> str:
    """Say why a path is no source and what to do; empty where it may be one, or is not there."""
    if not path:
        return f"the source is an empty text; {SOURCES}"
    place = Path(path)
    if (place / "run.json").is_file():
        return (
            f"{path} is the folder of a run, no source; look at it with evalframe runs show {path}, go on with "
            f"evalframe resume {path}, or {SOURCES}"
        )
    if place.is_dir():
        return f"{path} is a folder; {SOURCES}"
    if place.is_file() and not place.stat().st_size:
        return f"{path} is an empty file; write a suite (one JSON object), tasks (one a line) or data to it"
    ending = Path(place.name.lower().removesuffix(".gz")).suffix
    if place.exists() and not place.is_file():
        return f"{path} is no regular file; save what it gives as a file, with an ending that says what it is"
    if prompt is not None:
        manifest = "; a suite (.json) has prompts of its own: leave --prompt out" if ending == ".json" else ""
        return "" if ending in DATA_ENDINGS else f"{path}: {DATA_ONLY}{manifest}"
    if not place.is_file():
        return ""
    if ending in (".yaml", ".yml"):
        return f"{path} is YAML by its name; write the manifest as JSON, in a file that ends in .json"
    if ending in DATA_ENDINGS and ending not in (".jsonl", ".ndjson"):
        return (
            f"{path} is data: give --prompt, as in --prompt 'Q: {{{{question}}}}', and --targets, --extract, --metric"
        )
    return "" if ending in (".json", ".jsonl", ".ndjson") else f"{path} is no source by its name; {SOURCES}"


def run_of(name: str, *, folder: Path | None = None) -> Run:
    """Open the run that a folder, an id or the beginning of an id names."""
    from evalframe import runner, shelf

    return runner.load(shelf.find_run(name, folder=folder))


def data_options(
    prompt: str | None, targets: str | None, extract: str | None, metric: Sequence[str] | None
) -> dict[str, Any]:
    """Give the options of a data source that are written; none where none is."""
    from evalframe.errors import OptionError

    if prompt == "":
        raise OptionError(
            "--prompt: is empty, and every call would be sent an empty text; write a template, as in "
            "'Q: {{question}}' (is a variable of the shell unset?)"
        )
    for option, template in {"--prompt": prompt, "--targets": targets}.items():
        if template is not None and r"\n" in template:
            say(f"note: {option} has \\n as two characters, which stay as they are; a shell writes a line break as "
                f"{option} $'first line\\nsecond line'")  # fmt: skip
    given = {
        "prompt": prompt,
        "targets": targets,
        "extract": extraction_of(extract),
        "metrics": [json_or_text(one, "--metric") for one in metric] if metric else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def extraction_of(text: str | None) -> Any:
    """Read ``--extract``: a type's name, TYPE=ARGUMENT, or a JSON object.

    >>> extraction_of("number"), extraction_of("take_first=2")
    ('number', {'type': 'take_first', 'lines': 2})
    >>> extraction_of("label_set=yes, no")
    {'type': 'label_set', 'labels': ['yes', 'no']}
    """
    from evalframe.errors import OptionError
    from evalframe.registry import EXTRACTORS, suggestion

    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return json_object(text, "--extract")
    kind, equals, argument = text.partition("=")
    known = [name for name in EXTRACTORS.names() if name != "post_process"]
    if kind not in known:
        raise OptionError(f"--extract {text}: there is no extraction type {kind!r}; {suggestion(kind, known)}")
    if not equals:
        if kind in EXTRACT_ARGUMENTS and kind != "take_first":
            raise OptionError(
                f"--extract {kind}: needs its {EXTRACT_ARGUMENTS[kind]}; write --extract {EXTRACT_EXAMPLES[kind]}"
            )
        return kind
    if kind not in EXTRACT_ARGUMENTS:
        raise OptionError(f"--extract {text}: {kind} takes no argument; write --extract {kind}")
    if kind == "take_first":
        if not argument.strip().isdecimal():
            raise OptionError(f"--extract {text}: {argument!r} is no number of lines; write --extract take_first=2")
        return {"type": kind, "lines": int(argument)}
    value: Any = [label.strip() for label in argument.split(",")] if kind == "label_set" else argument
    return {"type": kind, EXTRACT_ARGUMENTS[kind]: value}


def pairs_of(given: Sequence[str] | None, option: str, *, example: str) -> dict[str, str]:
    """Read an option of the form NAME=VALUE that may be repeated.

    Raises:
        OptionError: A value has no name, or a name stands twice.
    """
    from evalframe.errors import OptionError

    pairs: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise OptionError(f"{option} {text}: write {example}")
        if name in pairs:
            raise OptionError(f"{option} {text}: {name} stands twice; give it once")
        pairs[name] = value
    return pairs


def reasoning_tags_of(given: Sequence[str]) -> list[str]:
    """Read ``--reasoning-tag``; ``none`` alone is no tag."""
    from evalframe.errors import OptionError

    if "none" in given and len(given) > 1:
        raise OptionError(
            "--reasoning-tag none: no tag, and another one is given too; give none alone, or leave it out"
        )
    return [] if list(given) == ["none"] else list(given)


def files_of(given: Sequence[str] | None) -> dict[str, str]:
    """Read ``--files``."""
    return pairs_of(given, "--files", example="ID=PATH, as in file_dataset123=questions.jsonl")


def repeats_of(given: Sequence[str] | None) -> int | dict[str, int]:
    """Read ``--repeats``: one number, or NAME=N for each of some tasks or categories."""
    from evalframe.errors import OptionError

    if not given:
        return 1
    if len(given) == 1 and "=" not in given[0]:
        return _whole(given[0], "--repeats")
    if any("=" not in text for text in given):
        raise OptionError("--repeats: give one number for all, or NAME=N for each task or category, not both")
    pairs = pairs_of(given, "--repeats", example="NAME=N, as in word_problems=3")
    return {name: _whole(value, f"--repeats {name}") for name, value in pairs.items()}


def limits_of(given: Sequence[str] | None) -> Any:
    """Read ``--limit`` into the table of numbers.

    Raises:
        OptionError: A name is no limit (the nearest is named), or a value no number.
    """
    import dataclasses

    from evalframe.errors import OptionError
    from evalframe.limits import DEFAULT_LIMITS, Limits
    from evalframe.registry import suggestion

    changes: dict[str, Any] = {}
    known = {field.name: type(getattr(DEFAULT_LIMITS, field.name)) for field in dataclasses.fields(Limits)}
    for name, value in pairs_of(given, "--limit", example="NAME=N, as in concurrency=64").items():
        if name not in known:
            raise OptionError(f"--limit {name}: there is no such limit; {suggestion(name, known)}")
        try:
            changes[name] = known[name](value)
        except ValueError:
            raise OptionError(f"--limit {name}={value}: is no number; write {name}=64") from None
    return Limits(**changes)


def settings_of(text: str | None) -> Any:
    """Read generation settings: a .json file, or JSON text; an object with ``generation`` is opened."""
    if text is None:
        return None
    from evalframe.errors import OptionError

    where = "--generation"
    if not text.lstrip().startswith("{"):
        where = text
        try:
            text = Path(where).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(
                f"--generation {where}: is no JSON object and no file of one ({error}); "
                """write --generation '{"temperature": 0}'"""
            ) from None
    settings = json_object(text, where)
    return settings.get("generation", settings) if isinstance(settings, dict) else settings


def json_or_text(text: str, where: str) -> Any:
    return json_object(text, where) if text.lstrip().startswith("{") else text


def json_object(text: str, where: str) -> Any:
    """Read JSON, strictly: NaN and doubled keys are refused."""
    import json

    from evalframe.errors import OptionError
    from evalframe.jsontext import JsonTextError, loads

    try:
        loads(text)
    except JsonTextError as error:
        raise OptionError(f"{where}: column {error.column}: {error.detail}") from None
    return json.loads(text)


def _whole(text: str, option: str) -> int:
    from evalframe.errors import OptionError

    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{option}: {text!r} is no whole number; write --repeats 3 or NAME=3") from None
