"""The data of a suite's task as RECORDS: read, and through its preprocessor, its few-shot rows too."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evalframe import prompts
from evalframe.assembling import sandbox_policy
from evalframe.data.files import FileStore
from evalframe.data.local import read_records
from evalframe.errors import DatasetError, Fault, ManifestError
from evalframe.generate.progress import Stage
from evalframe.manifest.python import GRADE, TRANSFORM, source_faults
from evalframe.manifest.suite import Dataset, Preprocess, Suite, Task
from evalframe.options import RunOptions
from evalframe.preprocessing import FEWSHOT_ROWS, Preprocessor

_WHOLE = prompts.NeededPaths((), ())


def task_records(
    task: Task, *, index: int, files: FileStore, options: RunOptions
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Read a task's data set and, where it names one of its own, that of its few-shot examples.

    Frame out: RECORDS of each, with the columns that the task's templates need. ``line_number`` is the line in the
    file, after a preprocessor the 1-based position.

    Args:
        task: The task.
        index: Its place in the suite, for messages.
        files: Finds its files.
        options: Of the run.

    Raises:
        DatasetError: A file is missing or has bad lines.
        PreprocessError: The task's preprocessor failed.
        SandboxError: It would have to run without walls.
    """
    examples = task.fewshot.dataset if task.fewshot.count else None
    own, of_examples = prompts.needed_paths(task), prompts.fewshot_paths(task)
    if task.preprocess is None:
        records = _read(task.dataset, files, own)
        return records, None if examples is None else _read(examples, files, of_examples)
    # what the templates name may be there only afterwards: of the files rows alone are read
    records = _read(task.dataset, files, _WHOLE)
    fewshot_records = None if examples is None else _read(examples, files, _WHOLE)
    total = records.height + (0 if fewshot_records is None else fewshot_records.height)
    with (
        _preprocessor(task.preprocess, task, index, files, options) as preprocessor,
        Stage(f"preparing {task.id}", total, unit="row", show=options.progress) as stage,
    ):
        records = preprocessor.records(records, fields=own.fields, items=own.items, step=stage.step)
        if fewshot_records is not None:
            fewshot_records = preprocessor.records(
                fewshot_records, fields=of_examples.fields, items=of_examples.items, what=FEWSHOT_ROWS, step=stage.step
            )
    return records, fewshot_records


def check_texts(suite: Suite, files: FileStore) -> list[Fault]:
    """Look at the files of Python that a suite names, as a manifest's own texts are looked at; nothing of them is run.

    Returns:
        A fault for each that could not be looked at, because it is not there.

    Raises:
        ManifestError: A text does not compile or lacks its function; every fault is named.
    """
    faults: list[Fault] = []
    unseen: list[Fault] = []
    for index, task in enumerate(suite.tasks):
        for part, owner, contracts in (("preprocess", task.preprocess, TRANSFORM), ("grader", task.grader, GRADE)):
            if owner is None or owner.file_id is None or owner.contract not in contracts:
                continue
            where = f"tasks[{index}].{part}.file_id"
            try:
                path = files.resolve(owner.file_id)
                text = python_text(path)
            except DatasetError as error:
                unseen.append(Fault(where, "not_seen", f"its text was not looked at: {error.message}"))
                continue
            place = f"{where} ({path.name})"
            faults += source_faults(text, place, contracts[owner.contract], others=contracts)
    if faults:
        raise ManifestError.of(faults, what="the files of Python that the suite names")
    return unseen


def python_text(path: Path) -> str:
    """Read the Python text of a file.

    Raises:
        DatasetError: It can not be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise DatasetError(f"{path}: can not be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: the Python text is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _preprocessor(
    preprocess: Preprocess, task: Task, index: int, files: FileStore, options: RunOptions
) -> Preprocessor:
    name, text = f"tasks[{index}].preprocess.source", preprocess.source
    if text is None:
        assert preprocess.file_id is not None  # the manifest has one of the two
        path = files.resolve(preprocess.file_id)
        name, text = path.name, python_text(path)
    return Preprocessor(
        preprocess, text=text, name=name, files=_named_files(task, files), policy=sandbox_policy(options)
    )


def _named_files(task: Task, files: FileStore) -> dict[str, Path]:
    """Give the files that a task names, which its Python may read."""
    users = (task.dataset, task.fewshot.dataset if task.fewshot.count else None, task.preprocess, task.grader)
    named = [user.file_id for user in users if user is not None and user.file_id is not None]
    return {file_id: files.resolve(file_id) for file_id in named}


def _read(dataset: Dataset, files: FileStore, paths: prompts.NeededPaths) -> pl.DataFrame:
    assert dataset.file_id is not None  # check_built refused the Hub
    path = files.resolve(dataset.file_id)
    records = read_records(path, format=dataset.format, fields=paths.fields, items=paths.items)
    return records if dataset.max_rows is None else records.head(dataset.max_rows)
