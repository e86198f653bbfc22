"""Runs as files that anything reads: one JSON envelope, a markdown table, Parquet, CSV."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from evalframe import frames, schemas
from evalframe.disk import atomic_path, write_text
from evalframe.errors import OptionError, SchemaError
from evalframe.frames import check
from evalframe.jsontext import clean
from evalframe.schemas import CALL_KEY, LEADERBOARD
from evalframe.store import SEGMENTED, check_name, new_folder

if TYPE_CHECKING:
    from evalframe.result import Run

MARKDOWN_ID_CHARS = 20
FATE_RANKS = {"scored": 0, "unparsed": 1, "grader_error": 2, "failed": 3}
# a spreadsheet runs a cell that begins with one of these marks as a formula, some take full-width ones, and blanks or
# invisible characters before them off first
FORMULA = r"^(?:[\t\r\n]|[\s\p{Z}\p{C}]*[=+\-@＝＋－＠﹦﹢﹣﹫])"
_LINE_ENDS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def envelope(run: Run) -> dict[str, Any]:
    """Give a run as one JSON object; no NaN, plain numbers.

    Keys: ``leaderboard`` (a list, best first), ``pairwise`` (a list), ``calibration`` and ``perplexity`` (by model),
    ``summary`` (counts, fates, extraction, bad tasks, wall seconds), ``notes`` (of the leaderboard), ``run`` (id,
    status, version, path).
    """
    calibration, board = run.calibration(), run.leaderboard()
    return {
        "leaderboard": [_standing(row) for row in board.to_dicts()],
        "pairwise": run.pairwise().to_dicts(),
        "calibration": _by_model(
            calibration,
            "ece", "ece_ci_lo", "ece_ci_hi", "ece_adaptive", "mce", "brier", "populated_bins", "n_samples",
        ),
        "perplexity": _by_model(calibration, "perplexity", "avg_neg_log_likelihood", "n_nll_tokens"),
        "summary": summary(run),
        "notes": list(getattr(board, "notes", ())),
        "run": {
            "run_id": run.record["run_id"],
            "status": run.record["status"],
            "version": run.record["version"],
            "path": str(run.path),
        },
    }  # fmt: skip


def error_envelope(error: Exception) -> dict[str, Any]:
    """Give the envelope of a run that did not happen: empty lists, and ``error`` with type, message and details."""
    faults = getattr(error, "fault_records", ())
    return {
        "leaderboard": [],
        "pairwise": [],
        "calibration": {},
        "perplexity": {},
        "summary": {},
        "error": {
            "type": type(error).__name__,
            "message": getattr(error, "message", str(error)),
            "details": [dataclasses.asdict(fault) for fault in faults],
        },
    }


def summary(run: Run) -> dict[str, Any]:
    """Count what became of a run: tasks, models, calls, their fates, extraction, bad tasks."""
    outcomes = run.scan("generations").select("status", "finish_reason", "error_type").collect(engine="in-memory")
    extraction = run.scan("answers").select("extraction_status").collect(engine="in-memory")
    # a call with several metrics counts once, by its worst fate
    worst = run.scores.group_by(CALL_KEY).agg(pl.col("fate").replace_strict(FATE_RANKS).max())
    by_rank = dict(worst["fate"].value_counts().iter_rows())
    return {
        "tasks": run.rows["task_id"].n_unique(),
        "samples": run.rows.height,
        "models": len(run.record["models"]),
        "task_runs": outcomes.height,
        "wall_seconds": run.record["wall_seconds"],
        "status": _counts(outcomes["status"]),
        "fates": {fate: by_rank[rank] for fate, rank in FATE_RANKS.items() if rank in by_rank},
        "extraction": _counts(extraction["extraction_status"]),
        "finish_reasons": _counts(outcomes["finish_reason"]),
        "errors": _counts(outcomes["error_type"]),
        "bad_tasks": len(run.record["bad_tasks"]),
    }


def markdown(leaderboard: pl.DataFrame) -> str:
    """Give a leaderboard as a markdown table, sorted by mean.

    Frame in: LEADERBOARD. Ids are cut at 20 characters, pipes are escaped; a null is a dash.
    """
    check(leaderboard, LEADERBOARD)
    lines = [
        "| Rank | Model | Mean | 95% CI | Win rate | Tasks | ECE | Brier |",
        "| ---: | :--- | ---: | :---: | ---: | ---: | ---: | ---: |",
    ]
    for row in leaderboard.to_dicts():
        interval = "-" if row["mean_ci_lo"] is None else f"{row['mean_ci_lo']:.3f} - {row['mean_ci_hi']:.3f}"
        cells = [
            "-" if row["rank"] is None else str(row["rank"]),
            _short(row["model_id"]),
            _figure(row["mean_score"]),
            interval,
            _figure(row["win_rate"]),
            str(row["tasks_completed"]),
            _figure(row["ece"]),
            _figure(row["brier"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_json(run: Run, path: Path) -> Path:
    """Write the envelope of a run."""
    if path.is_dir():
        raise OptionError(f"{path} is a folder; name a file, as in {path / 'envelope.json'}")
    return write_text(path, to_json(envelope(run)) + "\n")


def to_json(value: Mapping[str, Any]) -> str:
    """Write JSON that a strict parser reads: NaN and infinities raise, they are no figures.

    A lone surrogate (of a path, say) becomes U+FFFD, because UTF-8 can not hold it.
    """
    return clean(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def write_parquet(run: Run, folder: Path) -> Path:
    """Write all frames of a run as Parquet, with ``run.json``, ``manifest.json`` and the envelope.

    The folder has the layout of a run's folder, without its journal, so that ``evalframe.load`` opens it; it can not
    be resumed, and its ``run.json`` says so (``exported``).

    Raises:
        RunFolderError: The folder holds something already.
    """
    target = new_folder(folder)
    target.write_manifest(run.folder.manifest())
    for name, frame, schema in _exported(run):
        place = f"{name}/00000.parquet" if name in SEGMENTED else f"{name}.parquet"
        frames.write_parquet(frame, schema, folder / place)
    if (kept := run.folder.kept()).height:  # so that what is made of the export grades nothing twice
        target.keep_graded(kept)
    # each frame is one file here, however many segments the run has
    target.write_record({**run.record, "n_segments": 1, "exported": True})
    write_json(run, folder / "envelope.json")
    return folder


def write_csv(run: Run, folder: Path, *, spreadsheet_safe: bool = False) -> Path:
    """Write all frames of a run as CSV: UTF-8, one file a frame, as ``flat`` makes its cells.

    Null is an empty cell, empty text is ``""``: polars reads both back as they were. Numbers have all their digits,
    times are ISO 8601.

    Args:
        run: The run.
        folder: Gets the files; those of another export are written over.
        spreadsheet_safe: For a reader who opens the files in a spreadsheet; see ``flat``.

    Raises:
        OptionError: The folder is a file.
    """
    check_name(folder)
    if folder.is_file():
        raise OptionError(f"{folder} is a file; name a folder, which gets a file for each frame")
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame, _ in _exported(run):
        with atomic_path(folder / f"{name}.csv") as temporary:
            flat(frame, spreadsheet_safe=spreadsheet_safe).write_csv(temporary)
    return folder


def flat(frame: pl.DataFrame, *, spreadsheet_safe: bool = False) -> pl.DataFrame:
    """Give a frame that any CSV holds, as in ``flat(run.failures()).write_csv("failures.csv")``.

    Args:
        frame: Any frame. Lists and structs become compact JSON text (NaN in them is null), durations ISO 8601 text,
            bytes base64; the rest, nulls included, stays as it is.
        spreadsheet_safe: Put a quote mark (``'``) before text that a spreadsheet would run as a formula: that begins
            with ``= + - @`` or their full-width forms, also behind blanks or invisible characters, or with a tab or a
            line end. Text that begins with a quote mark gets one more, so that taking one off gives each text back.

    Raises:
        SchemaError: A column has no text form (Python objects, bytes within lists); names each.

    >>> flat(pl.DataFrame({"targets": [["a", "b"]], "meta": [{"page": 3, "ok": None}]})).row(0)
    ('["a","b"]', '{"page":3,"ok":null}')
    >>> flat(pl.DataFrame({"output_text": ["=1+1", "'tis", "1+1"]}), spreadsheet_safe=True)["output_text"].to_list()
    ["'=1+1", "''tis", '1+1']
    """
    if bad := [f"{name} ({dtype})" for name, dtype in frame.schema.items() if _has_no_text(dtype)]:
        raise SchemaError(f"no text can be made of {', '.join(bad)}; drop these columns, or cast them")
    return frame.select(
        _cell(name, dtype, spreadsheet_safe=spreadsheet_safe).alias(name) for name, dtype in frame.schema.items()
    )


def _cell(name: str, dtype: pl.DataType, *, spreadsheet_safe: bool) -> pl.Expr:
    cell = pl.col(name)
    if dtype.is_nested():
        # polars encodes structs only: wrap, encode, and take the wrapping off
        text = pl.struct(cell.alias("v")).struct.json_encode()
        return pl.when(cell.is_not_null()).then(text.str.slice(len('{"v":')).str.head(-1))
    if dtype == pl.Duration:
        cell = cell.dt.to_string("iso")
    elif dtype == pl.Binary:
        cell = cell.bin.encode("base64")
    if not spreadsheet_safe or not isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Duration | pl.Binary):
        return cell
    text = cell.cast(pl.String)
    risky = text.str.contains(FORMULA) | text.str.starts_with("'")
    return pl.when(risky).then(pl.lit("'") + text).otherwise(text)


def _has_no_text(dtype: pl.DataType) -> bool:
    return dtype == pl.Object or any(within in (pl.Binary, pl.Object) for within in _within(dtype))


def _within(dtype: Any) -> Iterator[Any]:
    """Give the types inside of a nested one."""
    inner = [field.dtype for field in dtype.fields] if isinstance(dtype, pl.Struct) else []
    inner += [getattr(dtype, name) for name in ("inner", "key", "value") if hasattr(dtype, name)]
    for one in inner:
        yield one
        yield from _within(one)


def _exported(run: Run) -> list[tuple[str, pl.DataFrame, frames.FrameSchema]]:
    return [
        ("rows", run.rows, schemas.ROWS),
        ("generations", run.generations, schemas.GENERATIONS),
        ("answers", run.answers, schemas.ANSWERS),
        ("grades", run.grades, schemas.GRADES),
        ("scores", run.scores, schemas.SCORES),
        ("task_metrics", run.task_metrics, schemas.TASK_METRICS),
        ("samples", run.samples, schemas.SAMPLES),
        ("leaderboard", run.leaderboard(), schemas.LEADERBOARD),
        ("pairwise", run.pairwise(), schemas.PAIRWISE),
        ("calibration", run.calibration(), schemas.CALIBRATION),
        ("reliability", run.reliability(), schemas.RELIABILITY),
        ("costs", run.costs(), schemas.COSTS),
    ]


def _standing(row: dict[str, Any]) -> dict[str, Any]:
    """Gather the category columns of a leaderboard row under ``categories``."""
    categories = {
        name.removeprefix("category."): value
        for name, value in row.items()
        if name.startswith("category.") and value is not None
    }
    return {name: value for name, value in row.items() if not name.startswith("category.")} | {"categories": categories}


def _by_model(calibration: pl.DataFrame, *columns: str) -> dict[str, dict[str, Any]]:
    return {row["model_id"]: {name: row[name] for name in columns} for row in calibration.to_dicts()}


def _counts(words: pl.Series) -> dict[str, int]:
    counts = words.drop_nulls().value_counts().sort(words.name)
    return dict(counts.iter_rows())


def _short(name: str) -> str:
    cut = name if len(name) <= MARKDOWN_ID_CHARS else name[: MARKDOWN_ID_CHARS - 1] + "…"
    # a backslash first: before an escaped pipe it would undo the escape
    return _LINE_ENDS.sub(" ", cut).replace("\\", "\\\\").replace("|", "\\|")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
