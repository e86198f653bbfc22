"""What two runs differ in, task by task, and whether that lets their samples be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import polars as pl

from evalframe.errors import Fault, VersionMismatch
from evalframe.frames import listed
from evalframe.manifest.version import WHOLE_TASK, differing_parts

if TYPE_CHECKING:
    from evalframe.result import Run

# where one of these differs, a sample of one run is not a sample of the other
SAMPLE_PARTS = ("dataset", "preprocess", "prompt", "fewshot")
# columns of ROWS by which tasks of a task file are told apart: part to column
_OF_ROWS = {
    "prompt": "prompt_hash", "target": "targets", "choices": "choices", "extraction": "extraction",
    "metrics": "metrics",
}  # fmt: skip

Part = tuple[str, str]  # task id and part


def differing(a: Run, b: Run, *, whole: bool = False) -> list[Part]:
    """Name what two runs differ in: (task id, part), the parts of ``manifest.version``.

    A task that only one of them has gives the part ``task``. Of runs on task files the rows are compared; a suite and
    a task file differ in the data set of every task.

    Args:
        a: One run.
        b: The other.
        whole: Look at the whole suites, also at tasks that ``task_ids`` left out.
    """
    if a.record["kind"] != b.record["kind"]:
        tasks = sorted({*a.rows["task_id"], *b.rows["task_id"]})
        return [(task, "dataset") for task in tasks]
    if a.record["kind"] == "suite":
        return differing_parts(*(run.record["parts"] if whole else run_parts(run) for run in (a, b)))
    return list(differing_rows(a.rows, b.rows))


def run_parts(run: Run) -> Mapping[str, Mapping[str, str]]:
    """Give the parts of the tasks that a run on a suite has rows of; ``task_ids`` may have left some out."""
    parts: Mapping[str, Mapping[str, str]] = run.record["parts"]
    there = set(run.rows["task_id"].unique())
    return {task: found for task, found in parts.items() if task in there}


def refuse(parts: Iterable[Part], *, what: str, remedy: str) -> None:
    """Refuse what differs.

    Raises:
        VersionMismatch: A fault each task and part; ``what`` and ``remedy`` say why that matters.
    """
    faults = [Fault(f"task {task}", part, _WORDS.get(part, f"the {part} differs"), remedy) for task, part in parts]
    if faults:
        raise VersionMismatch.of(faults, what=what)


def of_samples(parts: Iterable[Part]) -> list[Part]:
    """Keep those that make samples incomparable."""
    return [(task, part) for task, part in parts if part in SAMPLE_PARTS]


def part_notes(parts: Iterable[Part]) -> Iterator[str]:
    """Say which parts differ, a line a part."""
    tasks: dict[str, list[str | None]] = {}
    for task, part in parts:
        tasks.setdefault(part, []).append(task)
    for part, names in tasks.items():
        words = "tasks that only one of the runs has" if part == WHOLE_TASK else f"not the same {part} in"
        yield f"{words}: {listed(names)}"


def naming_notes(a: Run, b: Run) -> list[str]:
    """Say it where the samples of two runs were named in two ways, so that none of them meet."""
    words = [run.record["options"]["sample_ids"] for run in (a, b)]
    ids, others = (run.rows.select("task_id", "sample_id") for run in (a, b))
    of_both = ids.join(others, on="task_id", how="semi")
    if words[0] == words[1] or of_both.is_empty() or of_both.join(others, on=ids.columns, how="semi").height:
        return []
    return [f"no sample of one run is in the other: they were named by sample_ids={words[0]!r} and {words[1]!r}"]


_WORDS = {
    "dataset": "the data set differs", "preprocess": "the preprocessor differs", "prompt": "the prompt differs",
    "fewshot": "the few-shot examples differ", "choices": "the choices differ",
    WHOLE_TASK: "only one of the runs has this task",
}  # fmt: skip


def differing_rows(a: pl.DataFrame, b: pl.DataFrame) -> Iterator[Part]:
    """Name what ROWS of task files differ in, as ``differing``."""
    columns = ("task_id", *_OF_ROWS.values())
    both = a.select(columns).join(b.select(columns), on="task_id", how="full", coalesce=True, suffix="_b")
    both = both.sort("task_id")
    one_sided = pl.col("prompt_hash").is_null() | pl.col("prompt_hash_b").is_null()
    marks = both.select(
        "task_id",
        one_sided.alias(WHOLE_TASK),
        *((~one_sided & pl.col(name).ne_missing(pl.col(f"{name}_b"))).alias(part) for part, name in _OF_ROWS.items()),
    )
    for part in (WHOLE_TASK, *_OF_ROWS):
        for task in marks.filter(pl.col(part))["task_id"]:
            yield task, part
