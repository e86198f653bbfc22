"""The command line: results on stdout, everything else on stderr, an exit status that a script can trust.

Exit status: 0 clean; 1 the run ended but something failed; 2 wrong input; 3 run-time error; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evalframe.cli import caching, checking, naming, relating, running, shelving
from evalframe.cli.answering import INTERRUPTED, WRONG_INPUT, no_results
from evalframe.cli.printing import say, show, show_json
from evalframe.cli.streams import forgiving_streams

# section of the help -> command -> what it calls, and one example
COMMANDS: dict[str, dict[str, tuple[Callable[..., None] | None, str]]] = {
    "Evaluate": {
        "demo": (running.demo, "evalframe demo --out demo-results"),
        "run": (running.run, "evalframe run suite.json -m replay/outputs.jsonl --out results"),
        "resume": (running.resume, "evalframe resume results"),
    },
    "Runs that are there": {
        "runs": (None, "evalframe runs list"),
        "compare": (relating.compare, "evalframe compare results results-2"),
        "rescore": (relating.rescore, "evalframe rescore results --extract number"),
    },
    "Before a run": {
        "validate": (checking.validate, "evalframe validate suite.json"),
        "preview": (checking.preview, "evalframe preview suite.json --samples 1"),
    },
    "What there is": {
        "metrics": (naming.metrics, "evalframe metrics"),
        "files": (None, "evalframe files add questions.jsonl"),
        "cache": (None, "evalframe cache info"),
        "schema": (naming.schema, "evalframe schema > suite.schema.json"),
        "doctor": (naming.doctor, "evalframe doctor"),
    },
}
RUNS: dict[str, tuple[Callable[..., None], str]] = {
    "list": (shelving.list_runs, "evalframe runs list"),
    "show": (shelving.show_run, "evalframe runs show 20261130"),
    "prune": (shelving.prune, "evalframe runs prune --older-than 30 --keep 10"),
}
FILES: dict[str, tuple[Callable[..., None], str]] = {
    "add": (naming.files_add, "evalframe files add questions.jsonl"),
    "list": (naming.files_list, "evalframe files list"),
}
CACHE: dict[str, tuple[Callable[..., None], str]] = {
    "explain": (caching.explain, "evalframe cache explain results"),
    "info": (caching.info, "evalframe cache info"),
    "prune": (caching.prune, "evalframe cache prune --older-than 30 --yes"),
    "clear": (caching.clear, "evalframe cache clear --yes"),
}
GROUPS = {
    "runs": (RUNS, "List, show and remove runs."),
    "files": (FILES, "Register data files under ids that manifests can name."),
    "cache": (CACHE, "Look into the result cache, say why calls missed it, empty it."),
}


class Sections(TyperGroup):
    """The help of the whole command line, its commands by what they are for."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Read the words; typer would end an interrupt here, or around a command, without a word."""
        try:
            return super().make_context(*arguments, **more)
        except KeyboardInterrupt:
            raise typer.Abort from None

    def invoke(self, ctx: Any) -> Any:
        """Call the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their sections."""
        width = max(len(name) for name in self.commands)
        for section, names in COMMANDS.items():
            with formatter.section(section):
                limit = formatter.width - 6 - width
                formatter.write_dl(
                    [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names]
                )


def _version(asked: bool) -> None:
    if asked:
        from evalframe import __version__

        show(f"evalframe {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Take what stands before a command."""


def _typer(help: str, epilog: str = "", **options: Any) -> typer.Typer:
    return typer.Typer(
        help=help, epilog=epilog, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
        rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}, **options,
    )  # fmt: skip


def _build() -> typer.Typer:
    built = _typer(
        "Evaluate language models; an evaluation is a dataframe.", "Example: evalframe demo", name="evalframe",
        cls=Sections,
    )  # fmt: skip
    built.callback()(_options)
    for commands in COMMANDS.values():
        for name, (function, example) in commands.items():
            if function is not None:
                built.command(name, epilog=f"Example: {example}")(function)
                continue
            members, help = GROUPS[name]
            group = _typer(help, f"Example: {example}")
            for member, (call, its_example) in members.items():
                group.command(member, epilog=f"Example: {its_example}")(call)
            built.add_typer(group, name=name)
    return built


app = _build()


def main() -> None:
    """Run the command line; with ``--json`` a wrong command line gets an envelope too."""
    status = INTERRUPTED
    with forgiving_streams():
        try:
            status = app(prog_name="evalframe", standalone_mode=False) or 0
        except typer.TyperException as error:
            status = WRONG_INPUT
            _say_usage(error)
        except (typer.Abort, KeyboardInterrupt):
            if "--json" in sys.argv:
                show_json(no_results("interrupted", "interrupted"))
            say("interrupted")
    sys.exit(status)


def _say_usage(error: Any) -> None:
    """Say what is wrong with a command line, and how the command is written."""
    if "--json" in sys.argv:
        from evalframe import errors, export

        # the message of a missing option is only made here
        show_json(export.error_envelope(errors.OptionError(error.format_message())))
    error.show()
    context = getattr(error, "ctx", None)
    example = getattr(context.command, "epilog", None) if context is not None else None
    if example and example not in error.format_message():
        say(example)
