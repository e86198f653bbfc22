"""The command line: results on stdout, everything else on stderr, an exit status that a script can trust.

Exit status: 0 clean; 1 the run ended but something failed; 2 wrong input; 3 run-time error; 130 interrupted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

FAILED, WRONG_INPUT, RUN_TIME_ERROR, INTERRUPTED = 1, 2, 3, 130

app = typer.Typer(
    name="evalframe",
    help="Evaluate language models; an evaluation is a dataframe.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
files_app = typer.Typer(help="Register data files under ids that manifests can name.", no_args_is_help=True)
app.add_typer(files_app, name="files")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON envelope instead of tables, whatever happens.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run, new or empty.", metavar="DIR")]
Models = Annotated[list[str], typer.Option("--model", "-m", help="mock/rule_based, replay/FILE, …; repeatable.")]
Files = Annotated[list[str] | None, typer.Option("--files", help="ID=PATH of a data file; repeatable.")]


def main() -> None:
    """Run the command line; with ``--json`` a wrong command line gets an envelope too."""
    try:
        sys.exit(app(prog_name="evalframe", standalone_mode=False))
    except typer.TyperException as error:
        if "--json" in sys.argv:
            from evalframe import errors, export

            # the message of a missing option is only made here
            typer.echo(export.to_json(export.error_envelope(errors.OptionError(error.format_message()))))
        error.show()  # type: ignore[attr-defined]
        sys.exit(WRONG_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)


@app.command(epilog="Example: evalframe run suite.json --model replay/outputs.parquet --out results")
def run(
    source: Annotated[list[str], typer.Argument(help="A suite (.json) or task files (.jsonl).", metavar="SOURCE…")],
    model: Models,
    out: Out = None,
    files: Files = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this task; repeatable.", metavar="ID")] = None,
    max_samples_per_task: Annotated[int | None, typer.Option(help="Only the first so many samples.")] = None,
    repeats: Annotated[int, typer.Option(help="Calls a sample.")] = 1,
    concurrency: Annotated[int | None, typer.Option(help="Calls in flight at most.")] = None,
    parallel: Annotated[bool, typer.Option("--parallel/--sequential", help="Calls side by side or in order.")] = True,
    generation: Annotated[str | None, typer.Option(help="Settings: JSON text or a .json file.")] = None,
    seed: Annotated[int, typer.Option(help="Of intervals and permutations.")] = 0,
    sample_ids: Annotated[str, typer.Option(help="auto, or content: hash of the row.")] = "auto",
    on_missing: Annotated[str, typer.Option(help="A template's field that is in no row: warn or error.")] = "warn",
    allow_bad_tasks: Annotated[bool, typer.Option("--allow-bad-tasks", help="Run the good lines.")] = False,
    allow_unsandboxed: Annotated[
        bool, typer.Option("--allow-unsandboxed", help="Run generated code without walls but resource limits.")
    ] = False,
    fail_under: Annotated[float | None, typer.Option(help="Exit 1 if a model's mean score is below.")] = None,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show a progress bar.")] = True,
    json: Json = False,
) -> None:
    """Evaluate models on a suite or on task files, and print the leaderboard."""
    with answering(json):
        from evalframe import runner

        _check_bar(fail_under)
        done = runner.run(
            source[0] if len(source) == 1 else list(source),
            list(model),
            out=out,
            files=dict(_pair(text) for text in files or ()),
            task_ids=task,
            max_samples_per_task=max_samples_per_task,
            repeats=repeats,
            concurrency=concurrency,
            parallel=parallel,
            generation=_settings(generation),
            seed=seed,
            sample_ids=sample_ids,
            on_missing=on_missing,
            allow_bad_tasks=allow_bad_tasks,
            allow_unsandboxed=allow_unsandboxed,
            progress=progress,
        )
        _report(done, json=json, fail_under=fail_under)


@app.command(epilog="Example: evalframe resume results")
def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run that was interrupted.", metavar="RUN")],
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="A model that was an object.")] = None,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show a progress bar.")] = True,
    json: Json = False,
) -> None:
    """Make the calls that a run is missing, none again, and print the leaderboard."""
    with answering(json):
        from evalframe import runner

        _report(runner.resume(folder, list(model) if model else None, progress=progress), json=json)


@app.command(epilog="Example: evalframe demo --out demo-results")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results; an earlier demo there is replaced.")] = Path(
        "demo-results"
    ),
    json: Json = False,
) -> None:
    """Run the ten fixture tasks with three mock models: does everything work here?"""
    with answering(json):
        from evalframe import demonstration, export

        done, broken = demonstration.run_demo(out)
        envelope = export.envelope(done)
        if broken:
            envelope["error"] = {"type": "demo_failed", "message": "; ".join(broken), "details": broken}
        typer.echo(export.to_json(envelope) if json else done.to_markdown(), nl=json)
        _say(f"run, envelope.json and Parquet: {done.path}")
        for line in broken:
            _say(f"demo failed: {line}")
        if broken:
            raise typer.Exit(FAILED)


@app.command(epilog="Example: evalframe validate suite.json")
def validate(
    source: Annotated[list[str], typer.Argument(help="A suite (.json) or task files (.jsonl).", metavar="SOURCE…")],
    json: Json = False,
) -> None:
    """Check a suite or task files; every fault is named with its place and remedy. Nothing is called."""
    with answering(json):
        from evalframe import export, planning, sources
        from evalframe.errors import TaskFileError

        found = sources.read_source(source[0] if len(source) == 1 else list(source))
        if isinstance(found, sources.TaskSource):
            if found.faults:
                raise TaskFileError.of(found.faults, what=", ".join(source))
            if not found.records:
                raise TaskFileError(f"{', '.join(source)}: there is no task in it")
            valid = {"tasks": len(found.records)}
        else:
            valid = {"tasks": len(found.suite.tasks)}
            later = planning.unbuilt(found.suite)
            for fault in later:
                _say(f"note: {fault}")
            valid |= {"not_run_by_this_version": len(later)}
        typer.echo(export.to_json({"valid": True, **valid}) if json else f"valid: {valid['tasks']} tasks")


@app.command(epilog="Example: evalframe schema > suite.schema.json")
def schema() -> None:
    """Print the JSON Schema of suite manifests, for editors."""
    with answering(json=False):
        from evalframe import export
        from evalframe.manifest.suite import json_schema

        typer.echo(export.to_json(json_schema()))


@app.command(epilog="Example: evalframe doctor")
def doctor(json: Json = False) -> None:
    """Say what this machine has: versions, folders, sandbox layers, models that can be named."""
    with answering(json):
        from evalframe import export
        from evalframe.doctor import examine

        found = examine()
        typer.echo(export.to_json(found) if json else "\n".join(_lines(found)))


@files_app.command("add", epilog="Example: evalframe files add questions.jsonl")
def files_add(path: Annotated[Path, typer.Argument(help="A .jsonl or .csv file, or .gz of one.")]) -> None:
    """Register a file and print its content-addressed id."""
    with answering(json=False):
        from evalframe.data.files import FileStore

        typer.echo(FileStore().add(path))


@files_app.command("list")
def files_list() -> None:
    """List the registered files."""
    with answering(json=False):
        from evalframe.data.files import FileStore

        for entry in FileStore().list():
            typer.echo("\t".join(str(value) for value in entry.values()))


@contextmanager
def answering(json: bool) -> Iterator[None]:
    """Turn errors into messages and exit statuses: no traceback reaches a user for a mistake of theirs.

    Warnings go to stderr as one line each.
    """
    import warnings

    from evalframe.errors import EvalframeError, SchemaError

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_args, **_more: _say(f"warning: {message}")
        try:
            yield
        except KeyboardInterrupt as interrupt:
            for note in getattr(interrupt, "__notes__", ("interrupted",)):
                _say(note)
            raise typer.Exit(INTERRUPTED) from None
        except SchemaError as error:
            _fail(error, RUN_TIME_ERROR, json=json)
        except EvalframeError as error:  # also those that are an OSError: a folder or file that the user named
            _fail(error, WRONG_INPUT, json=json)
        except OSError as error:
            _fail(error, RUN_TIME_ERROR, json=json)


def _fail(error: Exception, status: int, *, json: bool) -> None:
    from evalframe import export

    if json:
        typer.echo(export.to_json(export.error_envelope(error)))
    _say(f"{type(error).__name__}: {error}")
    raise typer.Exit(status) from None


def _report(done: Any, *, json: bool, fail_under: float | None = None) -> None:
    """Print a run's results, and end with the status that they deserve."""
    from evalframe import export

    envelope = export.envelope(done)
    board = done.leaderboard()
    typer.echo(export.to_json(envelope) if json else export.markdown(board), nl=json)
    for note in getattr(board, "notes", ()):
        _say(f"note: {note}")
    summary = envelope["summary"]
    _say(f"run: {done.path}")
    complaints = [f"{count} calls {status}" for status, count in summary["status"].items() if status != "completed"]
    if summary["fates"].get("grader_error"):
        complaints.append(f"{summary['fates']['grader_error']} grader errors")
    if summary["bad_tasks"]:
        complaints += [f"{summary['bad_tasks']} bad tasks left out", *done.record["bad_tasks"]]
    if unparsed := summary["fates"].get("unparsed"):
        _say(f"note: {unparsed} completed samples had no answer that the extraction could read; they score the worst")
    if fail_under is not None:
        complaints += [
            f"{row['model_id']}: mean score {row['mean_score']} is below {fail_under}"
            for row in envelope["leaderboard"]
            if row["mean_score"] is None or row["mean_score"] < fail_under
        ]
    for line in complaints:
        _say(line)
    if complaints:
        raise typer.Exit(FAILED)


def _settings(text: str | None) -> Any:
    """Read generation settings: a .json file, or JSON text; an object with ``generation`` is opened."""
    if text is None:
        return None
    import json

    from evalframe.errors import OptionError
    from evalframe.jsontext import JsonTextError, loads

    where = "--generation"
    if not text.lstrip().startswith("{"):
        where = text
        try:
            text = Path(where).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"--generation {where}: is no JSON object and no file of one ({error})") from None
    try:
        loads(text)  # strict: NaN and doubled keys are refused here
    except JsonTextError as error:
        raise OptionError(f"{where}: column {error.column}: {error.detail}") from None
    settings = json.loads(text)
    return settings.get("generation", settings) if isinstance(settings, dict) else settings


def _check_bar(fail_under: float | None) -> None:
    from evalframe.errors import OptionError

    if fail_under is not None and not math.isfinite(fail_under):
        raise OptionError(f"--fail-under {fail_under}: no score can be below it; give a number, as in 0.8")


def _pair(text: str) -> tuple[str, str]:
    from evalframe.errors import OptionError

    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise OptionError(f"--files {text}: write ID=PATH, as in file_dataset123=questions.jsonl")
    return name, path


def _lines(found: dict[str, Any], indent: str = "") -> Iterator[str]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
