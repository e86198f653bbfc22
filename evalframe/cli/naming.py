"""The commands that tell what there is: metrics, files, schema, doctor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from evalframe.cli import arguments as given
from evalframe.cli.answering import answering
from evalframe.cli.printing import markdown, say, show, show_json


def metrics(json: given.Json = False) -> None:
    """List the metrics: what each is, range, direction."""
    with answering(json):
        from evalframe.metrics.catalogue import catalogue

        found = catalogue()
        if json:
            show_json({"metrics": found})
            return
        rows = [
            [
                one["id"], one["error"] or one["description"],
                None if one["range"] is None else " to ".join(f"{end:g}" for end in one["range"]),
                {True: "higher", False: "lower"}.get(one["higher_is_better"]),
                ", ".join([*(["targets"] if one["needs_target"] else []), *(one["needs"] or [])]) or None,
            ]
            for one in found
        ]  # fmt: skip
        show(markdown(["Metric", "What it is", "Range", "Better", "Needs"], rows))
        say("one of your own: @evalframe.metric on a function, in Python or under the entry point evalframe.metrics")


def schema(json: given.Json = False) -> None:
    """Print the JSON Schema of suite manifests, for editors."""
    with answering(json):
        from evalframe.manifest.suite import json_schema

        show_json(json_schema())


def doctor(json: given.Json = False) -> None:
    """Say what this machine has: versions, folders, sandbox."""
    with answering(json):
        from evalframe.doctor import examine

        found = examine()
        if json:
            show_json(found)
        else:
            show("\n".join(_lines(found)))


def files_add(
    path: Annotated[Path, typer.Argument(help="A .jsonl or .csv file, or .gz of one.", metavar="PATH")],
    json: given.Json = False,
) -> None:
    """Register a file and print the id that manifests can name."""
    with answering(json):
        from evalframe.data.registering import register

        name = register(path)
        if json:
            show_json({"id": name})
        else:
            show(name)


def files_list(json: given.Json = False) -> None:
    """List the registered files."""
    with answering(json):
        from evalframe.data.files import FileStore

        found = FileStore().list()
        if json:
            show_json({"files": found})
            return
        show(markdown(["Id", "File", "Bytes"], [[one["id"], one["filename"], one["bytes"]] for one in found]))
        if not found:
            say("no file is registered; evalframe files add PATH registers one")


def _lines(found: dict[str, Any], indent: str = "") -> Iterator[str]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
