"""The commands on the result cache: explain, info, prune and clear."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalframe.cli import arguments as given
from evalframe.cli import calling
from evalframe.cli.answering import answering
from evalframe.cli.printing import counted, markdown, say, show, show_json, sized
from evalframe.cli.wording import in_shell_words

if TYPE_CHECKING:
    from datetime import datetime

    from evalframe.generate.cachecontents import CacheContents, ModelEntries

MOST_LINES = 30  # of a table of misses

OfModel = Annotated[str | None, typer.Option("--model", "-m", help="Only this model.", metavar="MODEL")]
Yes = Annotated[bool, typer.Option("--yes", help="Remove them; else they are only counted.")]


def explain(
    name: given.RunName,
    folder: given.In = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task.", metavar="ID")] = None,
    sample: Annotated[str | None, typer.Option("--sample", help="Only this sample_id.", metavar="ID")] = None,
    model: OfModel = None,
    json: given.Json = False,
) -> None:
    """Say why calls of a run did not come from the cache."""
    with answering(json):
        from evalframe import explaining

        run = given.run_of(name, folder=folder)
        misses = explaining.explain_cache(run.folder, model_id=model, task_id=task, sample_id=sample)
        summary = explaining.summarise(misses)
        notes = getattr(misses, "notes", ())
        if json:
            show_json({"summary": summary.to_dicts(), "cache_misses": misses.to_dicts(), "notes": list(notes)})
            return
        if misses.is_empty():
            say("no call missed the cache")
        show(markdown(["Model", "Calls", "Reason", "Detail"], [
            [row["model_id"], row["n_calls"], row["reason"], row["detail"]]
            for row in summary.head(MOST_LINES).iter_rows(named=True)
        ]))  # fmt: skip
        if task is not None or sample is not None:
            show("\n" + markdown(["Model", "Task", "Sample", "Repeat", "Reason", "Detail"], [
                list(row) for row in misses.head(MOST_LINES).iter_rows()
            ]))  # fmt: skip
        for reason in summary["reason"].unique(maintain_order=True):
            say(f"{reason}: {in_shell_words(explaining.MEANINGS[reason])}")
        for note in notes:
            say(f"note: {note}")
        if misses.height > MOST_LINES:
            say(f"--json gives all {counted(misses.height, 'call')}; --task and --sample give those of one")


def info(path: calling.CachePath = None, json: given.Json = False) -> None:
    """Say what the cache holds, model by model."""
    with answering(json):
        file, contents = _opened(path)
        entries = []
        if contents is not None:
            with contents:
                entries = contents.models()
        size = file.stat().st_size if contents is not None else 0
        if json:
            show_json({"path": str(file), "n_bytes": size, "models": [_plain(one) for one in entries]})
            return
        show(markdown(["Model", "Replies", "Size", "Oldest (UTC)", "Newest (UTC)"], [
            [one.model, one.n_entries, sized(one.n_bytes), _day(one.oldest), _day(one.newest)] for one in entries
        ]))  # fmt: skip
        say(f"{file}: {sized(size)}" if contents is not None else f"{file}: there is no cache yet; a run makes it")


def prune(
    path: calling.CachePath = None,
    older_than: Annotated[float | None, typer.Option(help="Kept longer ago.", metavar="DAYS")] = None,
    model: OfModel = None,
    yes: Yes = False,
    json: given.Json = False,
) -> None:
    """Count replies that may go; with --yes remove them."""
    with answering(json):
        from datetime import UTC, datetime, timedelta

        from evalframe.errors import OptionError

        if older_than is None and model is None:
            raise OptionError(
                "prune: nothing says which replies may go; give --older-than DAYS or --model MODEL, or take "
                "evalframe cache clear"
            )
        if older_than is not None and not 0 <= older_than <= 36_500:
            raise OptionError(f"--older-than {older_than:g}: is no number of days; write --older-than 30")
        before = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
        _remove(path, before=before, model=model, yes=yes, json=json)


def clear(path: calling.CachePath = None, yes: Yes = False, json: given.Json = False) -> None:
    """Count all replies; with --yes remove them."""
    with answering(json):
        _remove(path, before=None, model=None, yes=yes, json=json)


def _remove(path: Path | None, *, before: datetime | None, model: str | None, yes: bool, json: bool) -> None:
    file, contents = _opened(path)
    n = 0
    if contents is not None:
        with contents:
            n = (contents.remove if yes else contents.chosen)(before=before, model=model)
    if json:
        show_json({"path": str(file), "would_go": 0 if yes else n, "removed": n if yes else 0})
        return
    replies = f"{n} {'reply' if n == 1 else 'replies'}"
    if yes:
        say(f"removed {replies} from {file}")
    elif n:
        say(f"{replies} would go from {file}; nothing was removed: add --yes to remove them")
    else:
        say(f"no reply is to go from {file}")


def _opened(path: Path | None) -> tuple[Path, CacheContents | None]:
    """Give the file, and the cache in it where there is one: a look makes none."""
    from evalframe.errors import CacheError
    from evalframe.generate.cache import cache_path
    from evalframe.generate.cachecontents import CacheContents

    file = cache_path(True if path is None else path)
    assert file is not None  # only for a cache that is off
    if path is not None and not path.is_file():
        raise CacheError(f"--cache-path {path}: there is no such file; name the cache of a run, or leave it out")
    return file, CacheContents.open(file) if file.is_file() else None


def _plain(entries: ModelEntries) -> dict[str, Any]:
    return {
        "model": entries.model,
        "n_replies": entries.n_entries,
        "n_bytes": entries.n_bytes,
        "oldest": entries.oldest.isoformat(),
        "newest": entries.newest.isoformat(),
    }


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
