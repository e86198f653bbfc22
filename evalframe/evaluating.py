"""``evaluate``: outputs that came from elsewhere, in columns of some data, become a run; no model is called."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from evalframe import prompts
from evalframe.adapters import CallFailed, Generation, TaskSpec
from evalframe.advice import target_notes, warn_of
from evalframe.assembling import assemble, check_sandbox
from evalframe.data.frames_in import read_table
from evalframe.data.tables import Table, content_hash
from evalframe.datasource import data_suite, file_id_of, task_id_of
from evalframe.errors import DatasetError, Fault, OptionError
from evalframe.generate.finished import Finished
from evalframe.generate.journal import Journal
from evalframe.generate.reasoning import Tags, reasoning_tags, split_reasoning
from evalframe.jsontext import clean
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.generation import parse_generation
from evalframe.manifest.suite import Suite, Task
from evalframe.manifest.version import file_ids
from evalframe.models import Model
from evalframe.options import RunOptions
from evalframe.planning import Plan, suite_plan
from evalframe.prompts.templates import parse
from evalframe.recording import begin_run, now
from evalframe.registry import suggestion
from evalframe.result import Run

AT_ONCE = 5_000  # outputs recorded in one commit
MOST_SHOWN = 5


@dataclass(slots=True)
class Elsewhere:
    """A model whose outputs were handed in: there is nothing to call."""

    model_id: str

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Refuse: ``missing_output``."""
        raise CallFailed("missing_output", f"the outputs of {self.model_id} were made elsewhere; evaluate them again")


@dataclass(frozen=True, slots=True)
class Outputs:
    """Which columns hold what.

    Attributes:
        columns: Model id to column; of the long form one column, under the name of its own.
        model: The column that names the model, in the long form.
        sample_id: The column that names the sample, where one is given.
    """

    columns: Mapping[str, str]
    model: str | None
    sample_id: str | None

    @property
    def of_models(self) -> list[str]:
        """The columns that are no part of the data."""
        return list(dict.fromkeys([*self.columns.values(), *([self.model] if self.model else [])]))


def evaluate(
    frame: Any,
    *,
    prediction: str | Sequence[str] | Mapping[str, str],
    targets: str | None = None,
    metrics: Any = None,
    extract: str | Mapping[str, Any] | None = None,
    model: str | None = None,
    sample_id: str | None = None,
    prompt: str | None = None,
    out: str | os.PathLike[str] | bool | None = False,
    seed: int = 0,
    limits: Limits = DEFAULT_LIMITS,
    allow_unsandboxed: bool = False,
) -> Run:
    """Score outputs that came from elsewhere; no model is called.

    The columns of outputs (and of model names) are no part of the data: what is left is the record of a sample, and
    runs over the same records can be compared. So name all columns of outputs, or drop the others before.

    Args:
        frame: Data in any form that ``run`` takes.
        prediction: The column of outputs; or several, a list or a mapping of model id to column, one model each.
        targets: A template, or the name of one field; a list of texts is several references.
        metrics: Metric ids, ``Metric`` records or dicts as in a manifest.
        extract: How the answer is read, a type (``"number"``) or a configuration. None: the whole output.
        model: The model's name; or the column that has it (one row a model and sample). None: the column's name.
        sample_id: The column that names the sample; records of one sample and one model are repeats, in order. None:
            each record is a sample, and where a column names the model, equal records are one.
        prompt: A template or the name of one field, to be read beside the outputs. None: prompts are empty.
        out: The run's folder; None: a new one under the user's data directory; False: a temporary one.
        seed: Of every interval and permutation.
        limits: The table of numbers.
        allow_unsandboxed: Run generated code (``code_exec``) without walls but resource limits.

    Nulls:
        A null output is a failed call, ``missing_output``; so is one that is not there while another model, or
        another sample, has more. An empty text is an output.

    Raises:
        OptionError: A column is not there, or an option is wrong; every fault is named.
        DatasetError: The data can not be read, or has records that contradict each other.

    >>> table = pl.DataFrame({"gold": ["4", "6"], "m": ["It is 4.", "5"]})
    >>> run = evaluate(table, prediction="m", targets="gold", extract="number", metrics=["numeric_match"])
    >>> run.leaderboard().select("model_id", "mean_score").row(0)
    ('m', 0.5)
    """
    options = RunOptions.of({
        "out": out, "seed": seed, "limits": limits, "progress": False, "allow_unsandboxed": allow_unsandboxed,
    })  # fmt: skip
    table = read_table(frame)
    outputs, suite = _settled(
        table, prediction=prediction, model=model, sample_id=sample_id, limits=limits,
        task_id=task_id_of(frame), file_id=file_id_of(frame), prompt="" if prompt is None else prompt,
        targets=targets, extract=extract, metrics=metrics,
    )  # fmt: skip
    plan, place = _plan(table, outputs, suite)
    check_sandbox(plan.rows, options=options)
    calls = _calls(table, outputs, place, n_samples=plan.rows.height, limits=limits)
    model_ids = calls["model_id"].unique(maintain_order=True).to_list()
    options = replace(options, repeats=int(calls.select(pl.col("repeat").max() + 1).item()))
    models = [Model(Elsewhere(name)) for name in model_ids]
    notes = target_notes(plan.rows)
    warn_of(notes, stacklevel=3)
    settings = parse_generation(None)
    folder = begin_run(plan, kind="suite", options=options, settings=settings, models=models, notes=notes)
    task_id = suite.tasks[0].id
    with folder.locked():
        with Journal.open(folder.journal_path) as journal:
            for part in calls.iter_slices(AT_ONCE):
                journal.record(list(_finished(part, task_id, reasoning_tags(options.reasoning_tags))))
        folder.update_record(ended_at=now())
        assemble(folder, options=options, model_ids=model_ids)
    return Run(folder)


def _settled(
    table: Table, *, prediction: Any, model: Any, sample_id: Any, limits: Limits, **parts: Any
) -> tuple[Outputs, Suite]:
    """Check all that was said of the data at once."""
    outputs, faults = _outputs(table.names, prediction, model, sample_id)
    if len(outputs.columns) > limits.models:
        faults.append(Fault("prediction", "too_many", f"{len(outputs.columns)} models; at most {limits.models}"))
    of_models = set(outputs.of_models)
    suite = None
    try:
        suite = data_suite([name for name in table.names if name not in of_models], limits=limits, **parts)
    except OptionError as error:
        faults += [fault for fault in error.fault_records if isinstance(fault, Fault)]
    if faults or suite is None:
        raise OptionError.of(faults, what="evaluate")
    return outputs, suite


def _outputs(names: Sequence[str], prediction: Any, model: Any, sample_id: Any) -> tuple[Outputs, list[Fault]]:
    columns, faults = _columns(prediction)
    long = isinstance(model, str) and model in names
    if model is not None and (not isinstance(model, str) or not model):
        faults.append(Fault("model", "bad_type", f"{model!r} is no name", "write the model's name, or a column"))
    elif model is not None and not (isinstance(prediction, str) and columns):
        remedy = "leave model= out: each column is a model, named by prediction={model: column}"
        faults.append(Fault("model", "misplaced", "is for one column of outputs", remedy))
    elif model is not None:
        columns = {model: prediction}
    sought = [("prediction", column) for column in columns.values()]
    sought += [] if sample_id is None else [("sample_id", sample_id)]
    for option, column in sought:
        if not isinstance(column, str) or column not in names:
            near = suggestion(column, names) if isinstance(column, str) else "name a column"
            faults.append(Fault(option, "unknown_column", f"the data has no column {column!r}", near))
    taken = [*columns.values(), *([model] if long else []), *([] if sample_id is None else [sample_id])]
    twice = dict.fromkeys(str(column) for column in taken if taken.count(column) > 1)
    faults += [
        Fault("prediction, model, sample_id", "duplicate", f"the column {column!r} is named twice", "name it once")
        for column in twice
    ]
    return Outputs(columns, model if long else None, sample_id), faults


def _columns(prediction: Any) -> tuple[dict[str, str], list[Fault]]:
    """Give model id to column."""
    remedy = 'write a column, prediction="output", several, ["a", "b"], or {model: column}'
    if isinstance(prediction, str):
        return {prediction: prediction}, []
    if isinstance(prediction, Mapping):
        columns = dict(prediction)
    elif isinstance(prediction, Sequence):
        columns = {str(column): column for column in prediction}
        if len(columns) < len(prediction):
            return columns, [Fault("prediction", "duplicate", "names a column twice", "name each once")]
    else:
        return {}, [Fault("prediction", "bad_type", f"{prediction!r} is no column", remedy)]
    faults = [
        Fault("prediction", "bad_type", f"{name!r} is no name of a model", remedy)
        for name in columns
        if not isinstance(name, str) or not name or clean(name) != name
    ]
    if not columns:
        faults.append(Fault("prediction", "empty", "names no column", remedy))
    return {str(name): column for name, column in columns.items()}, faults


def _plan(table: Table, outputs: Outputs, suite: Suite) -> tuple[Plan, pl.Series]:
    """Make the rows of the samples, and say for each record of the data which sample it is of."""
    (task,) = suite.tasks
    needed = prompts.needed_paths(task)
    records = table.without(outputs.of_models).records(needed.fields, needed.items)
    key = _keys(table, outputs, records)
    keyed = records.with_columns(key.alias("key"))
    samples = keyed.unique("key", keep="first", maintain_order=True)
    if samples.height < keyed.height and outputs.sample_id is not None:
        _check_agreement(keyed, task, outputs.sample_id)
    places = samples.select("key", place=pl.int_range(pl.len(), dtype=pl.Int64))
    place = keyed.select("key").join(places, on="key", how="left", maintain_order="left")["place"]
    rows = _rows(task, samples.drop("key"), ids=None if outputs.sample_id is None else samples["key"])
    hashes = dict.fromkeys(file_ids(suite), content_hash(samples))
    return suite_plan(rows, suite=suite, content_hashes=hashes), place


def _keys(table: Table, outputs: Outputs, records: pl.DataFrame) -> pl.Series:
    """Give what tells the samples apart: their id, else in the long form their content, else their position."""
    if outputs.sample_id is not None:
        ids = table.texts([outputs.sample_id]).to_series()
        if nulls := ids.null_count():
            place = int(ids.is_null().arg_max() or 0)
            raise DatasetError(
                f"sample_id={outputs.sample_id!r}: {nulls} records have none, the first is record {place + 1}, from 1; "
                "give each record one, or leave sample_id= out"
            )
        return ids
    return records["line_number"].cast(pl.String) if outputs.model is None else records["row"]


def _rows(task: Task, records: pl.DataFrame, *, ids: pl.Series | None) -> pl.DataFrame:
    try:
        rows = prompts.suite_rows(task, records, sample_ids="auto" if ids is None else "content")
    except DatasetError as error:
        raise DatasetError(error.message, [_named_by_column(fault) for fault in error.fault_records]) from None
    return rows if ids is None else rows.with_columns(ids.alias("sample_id"))


def _named_by_column(fault: Any) -> Any:
    if not isinstance(fault, Fault) or fault.rule != "duplicate_id":
        return fault
    remedy = "name the column that tells the samples apart: sample_id=…, whose records are repeats where it is the same"
    return Fault(fault.where, fault.rule, fault.detail, remedy)


def _check_agreement(keyed: pl.DataFrame, task: Task, sample_id: str) -> None:
    """Refuse records of one sample whose prompt or target differ: only the first would be looked at."""
    templates = [parse(text) for text in (task.prompt_template, task.target_template) if text]
    faults = []
    for path in dict.fromkeys(path for template in templates for path in template.fields):
        name = f"field.{path}"
        differing = keyed.group_by("key", maintain_order=True).agg(pl.col(name).n_unique().alias("n"), "line_number")
        for key, _, lines in differing.filter(pl.col("n") > 1).head(MOST_SHOWN).iter_rows():
            seen = ", ".join(map(str, lines[:MOST_SHOWN]))
            detail = f"the records {seen} (from 1) have different values of {path!r}"
            remedy = f"mend them, or name the column that tells samples apart instead of {sample_id!r}"
            faults.append(Fault(f"sample {key!r}", "conflict", detail, remedy))
    if faults:
        raise DatasetError.of(faults, what="evaluate")


def _calls(table: Table, outputs: Outputs, place: pl.Series, *, n_samples: int, limits: Limits) -> pl.DataFrame:
    """Give one row a model, sample and repeat, in order: its key, ``text`` and ``there``."""
    texts = table.texts(outputs.of_models)
    sample = place.alias("sample_index")
    if outputs.model is not None:
        (column,) = outputs.columns.values()
        names = texts[outputs.model]
        _check_models(names, outputs.model, limits)
        found = [pl.DataFrame([names.alias("model_id"), sample, texts[column].alias("text")])]
    else:
        found = [
            pl.DataFrame([sample, texts[column].alias("text")]).select(pl.lit(name).alias("model_id"), pl.all())
            for name, column in outputs.columns.items()
        ]
    given = pl.concat(found).with_columns(
        repeat=pl.int_range(pl.len(), dtype=pl.Int64).over("model_id", "sample_index"), there=pl.lit(True)
    )
    samples = pl.select(sample_index=pl.int_range(n_samples, dtype=pl.Int64))
    repeats = given.select(pl.int_range(pl.col("repeat").max() + 1, dtype=pl.Int64).alias("repeat"))
    grid = given.select("model_id").unique(maintain_order=True).join(samples, how="cross").join(repeats, how="cross")
    keys = ["model_id", "sample_index", "repeat"]
    return grid.join(given, on=keys, how="left", maintain_order="left").select(*keys, "text", "there")


def _check_models(names: pl.Series, column: str, limits: Limits) -> None:
    faults = []
    lacking = names.fill_null("") == ""
    if nulls := int(lacking.sum()):
        place = int(lacking.arg_max() or 0)
        detail = f"{nulls} records name no model, the first is record {place + 1} (from 1)"
        faults.append(Fault(f"model={column!r}", "null", detail, "name the model in each record, or drop these"))
    if (n := names.n_unique()) > limits.models:
        remedy = f"is {column!r} the column of models? Else pass limits=Limits(models={n})"
        faults.append(Fault(f"model={column!r}", "too_many", f"{n} models; at most {limits.models}", remedy))
    if faults:
        raise OptionError.of(faults, what="evaluate")


def _finished(calls: pl.DataFrame, task_id: str, tags: Tags) -> Iterator[Finished]:
    # one by one: reasoning is taken out of a text by a walk, and each is a record of the journal
    for model_id, sample_index, repeat, text, there in calls.iter_rows():
        key = {"model_id": model_id, "task_id": task_id, "sample_index": sample_index, "repeat": repeat}
        if text is None:
            why = "the output is null" if there else "there is no output of this model, sample and repeat"
            yield Finished(**key, status="failed", error_type="missing_output", error_message=why)
            continue
        answer, reasoning, cut_off = split_reasoning(text, tags)
        yield Finished(
            **key, status="completed", output_text=answer, reasoning=reasoning or None, finish_reason=cut_off
        )
