"""What a run says of itself in a terminal and a notebook: what it is, how it went, what can be done next."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import polars as pl

from evalframe.errors import EvalframeError
from evalframe.execution import how_to_resume

if TYPE_CHECKING:
    from evalframe.result import Run

MOST_MODELS = 5  # that the text lists
MOST_CHARS = 60  # of a model's name in it
MOST_CALLS = 200_000  # of a run whose means are shown: beyond, a glance would cost seconds
_FATES = ("scored", "unparsed", "failed", "grader_error", "skipped")


def as_text(run: Run) -> str:
    """Describe a run in a few lines. Texts of replies are not read; a run that can not be read says so."""
    try:
        return "\n".join(_lines(run))
    except Exception as error:  # a repr that raises would hide what a person looks at
        return _unreadable(run, error)


def as_html(run: Run) -> str:
    """The same for a notebook, with the leaderboard as a table."""
    try:
        lines = _lines(run, means=False)
        table = run.leaderboard()._repr_html_() if _n_calls(run) <= MOST_CALLS and _is_there(run) else ""
    except Exception as error:
        return f"<p>{escape(_unreadable(run, error))}</p>"
    head, *rest = [escape(line) for line in lines]
    return f"<p><b>{head}</b></p>{table}<p>{'<br>'.join(rest)}</p>"


def _unreadable(run: Run, error: Exception) -> str:
    told = str(error) if isinstance(error, EvalframeError) else f"{type(error).__name__}: {error}"
    return f"Run at {run.path}, which can not be read: {told}"


def _lines(run: Run, *, means: bool = True) -> list[str]:
    record = run.record
    title = f"Run {record['run_id']}, {record['status']}"
    if not _is_there(run):
        return [title, f"  {run.path}", f"  next: {_go_on(run)}"]
    counts = run.task_metrics.filter("headline").select(pl.col(f"n_{fate}" for fate in _FATES).sum()).row(0)
    shown = ", ".join(f"{n} {fate}" for fate, n in zip(_FATES, counts, strict=True) if n) or "nothing to rank"
    n_tasks = run.task_metrics["task_id"].n_unique()
    n_models = len(record["models"])
    n_calls = _n_calls(run)
    size = f"{n_models} model{_s(n_models)} x {n_tasks} task{_s(n_tasks)}, {n_calls} call{_s(n_calls)}"
    lines = [f"{title}: {size} ({shown})"]
    if means and n_calls <= MOST_CALLS:
        lines += _means(run)
    lost = sum(counts[1:])
    failures = f".failures() ({lost})" if lost else ".failures()"
    again = ".rerun_failed(…), " if counts[_FATES.index("failed")] else ""
    lines.append(
        f"  next: .leaderboard(), .pairwise(), .slice(by), {failures}, {again}.samples, .rescore(…), .extend(…)"
    )
    if record["status"] == "partial":
        lines.append(f"  {counts[-1]} calls were not made; go on with: {_go_on(run)}")
    return [*lines, f"  {run.path}"]


def _means(run: Run) -> list[str]:
    # one resample: the intervals are not shown, because they may take seconds
    lost = (pl.col("n_failed") + pl.col("n_skipped")).alias("n_lost")
    board = run.leaderboard(n_resamples=1).select("model_id", "mean_score", lost, "n_samples")
    shown = [(_one_line(name), *figures) for name, *figures in board.head(MOST_MODELS).iter_rows()]
    width = max((len(name) for name, *_ in shown), default=0)
    lines = [
        f"    {name:<{width}}  {'-' if mean is None else f'{mean:.3f}'}"
        + (f"  ({n_lost} of {n} without a reply)" if n_lost else "")  # a mean of the rest may look too good
        for name, mean, n_lost, n in shown
    ]
    if more := board.height - len(lines):
        lines.append(f"    and {more} more")
    return lines


def _one_line(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= MOST_CHARS else f"{line[: MOST_CHARS - 1]}…"


def _is_there(run: Run) -> bool:
    return bool(run.folder.files_of("task_metrics"))


def _n_calls(run: Run) -> int:
    return int(run.scan("generations").select(pl.len()).collect().item()) if _is_there(run) else 0


def _go_on(run: Run) -> str:
    if run.record["status"] == "running":
        return f"evalframe.load({str(run.path)!r})"
    return how_to_resume(run.folder, run.record)


def _s(n: int) -> str:
    return "" if n == 1 else "s"
