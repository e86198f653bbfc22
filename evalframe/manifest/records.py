"""The frozen records of a suite: what a manifest says, with aliases resolved and defaults filled in.

A record that was built by hand has the right types and no more; ``parse_suite`` holds it to all the other rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from evalframe.manifest.extraction import Extraction, NoExtraction
from evalframe.manifest.fields import Files, Flag, Real, Record, Text, Whole, is_text, is_texts
from evalframe.manifest.python import defined_functions
from evalframe.reprs import short

SCHEMA_VERSION: Literal["2026-05-27"] = "2026-05-27"

MOST_SHOWN = 10  # tasks that a suite lists

TaskType = Literal[
    "classification", "multiple_choice", "qa", "summarization", "semantic_similarity", "llm_judge", "numeric", "math",
    "custom",
]  # fmt: skip


Foreign = Mapping[str, tuple[str, str, str]]


def _newer(what: str) -> tuple[str, str, str]:
    return ("not_supported", f"{what} is a newer part of the format that is not supported here", "leave the task out")


def _of_the_run(*names: str) -> Foreign:
    detail, remedy = "is a choice of the run, not of the suite", "give it to run() or to the command line instead"
    return {name: ("unknown_key", f"{name!r} {detail}", remedy) for name in names}


_RUN_CHOICES = _of_the_run(
    "models", "model", "generation", "concurrency", "limits", "judge_model", "embedding_model", "repeats", "files",
    "max_samples_per_task", "allow_hosts", "temperature",
)  # fmt: skip


def base_split(split: Any) -> str:
    """Give the name of a split without its slice: ``test[:100]`` is of ``test``; ``test`` where none is written."""
    return split.split("[")[0].strip() if is_text(split) else "test"


def _drop_default(schema: JsonDict) -> None:
    # the default that a reader of the schema would see is not what is filled in
    schema.pop("default", None)


class Dataset(Record):
    """Where rows come from: a file by its id, or a data set of the Hugging Face Hub."""

    foreign_keys: ClassVar[Foreign] = {
        "audio_column": _newer("audio_column"),
        "token": ("forbidden", "a token has no place in a manifest", "set HF_TOKEN in the environment"),
    }

    source: Literal["file", "huggingface"] = Field(
        default="file",
        json_schema_extra=_drop_default,
        description="Inferred: path means huggingface, file_id means file.",
    )
    file_id: Text | None = Field(default=None, description="A file of the run's file store.")
    format: Literal["jsonl", "csv"] | None = Field(
        default=None, description="The file's format; else inferred from the file's name."
    )
    path: Text | None = Field(
        default=None, description="A Hub data set (owner/name), or json or csv together with data_files."
    )
    name: Text | None = Field(default=None, description="The data set's config; else discovered.")
    split: Text | None = Field(
        default=None, description="The split; test by default, train for few-shot data sets; null for a file."
    )
    revision: Text | None = Field(default=None, description="Branch, tag or commit of the Hub data set.")
    data_files: Files | None = Field(
        default=None, description="The files of the data set: a string or list for the requested split, or an object."
    )
    dataset_kwargs: Mapping[str, Any] = Field(
        default_factory=dict, description="Further arguments of datasets.load_dataset; never a token."
    )
    max_rows: Whole | None = Field(default=None, description="How many rows to take at most.")

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        given.setdefault("source", "huggingface" if "path" in given else "file")
        if given["source"] == "huggingface":
            given.setdefault("split", "test")
        kwargs = given.get("dataset_kwargs")
        if isinstance(kwargs, Mapping) and kwargs.get("data_files") is not None:
            given.setdefault("data_files", kwargs["data_files"])
            given["dataset_kwargs"] = {key: value for key, value in kwargs.items() if key != "data_files"}
        if is_text(files := given.get("data_files")) or is_texts(files):
            given["data_files"] = {base_split(given.get("split")): files}
        return given


class MetricChoice(Record):
    """A score key that is aggregated."""

    id: Text = Field(description="A metric, or without one a key that the task's grader returns.")
    aggregation: Literal["mean", "none"] = Field(
        default="mean", description="none: kept for each sample, in no mean and no ranking."
    )
    higher_is_better: Flag = Field(default=True, description="The metric's direction.")
    description: Text | None = Field(default=None, description="For readers.")


class Preprocess(Record):
    """Python that changes the rows before prompts are made; runs in the sandbox."""

    type: Literal["python"] = Field(default="python", description="The only kind there is.")
    contract: Literal["row", "batch"] = Field(
        default="row", description="row: transform_row(row), transform or process_doc; batch: transform_batch(rows)."
    )
    source: Text | None = Field(default=None, description="The Python text; exactly one of source and file_id.")
    file_id: Text | None = Field(default=None, description="A file that holds the Python text.")
    timeout_seconds: Real = Field(default=120, description="Seconds for one call.")


class Grader(Record):
    """Python that scores replies; runs in the sandbox."""

    type: Literal["python"] = Field(default="python", description="The only kind there is.")
    contract: Literal["sample", "batch", "model_backed"] = Field(
        default="sample",
        description="sample: grade(sample, item); batch: grade_batch(samples); model_backed: with ctx.",
    )
    execution: Literal["per_sample", "aggregate"] = Field(
        default="per_sample",
        json_schema_extra=_drop_default,
        description="aggregate by default for contract batch, else per_sample.",
    )
    model_access: Literal["none", "mka1"] = Field(
        default="none",
        json_schema_extra=_drop_default,
        description="Whether ctx reaches models; mka1 by default for contract model_backed, else none.",
    )
    metric_id: Text = Field(default="score", description="The metric of a grader that returns one number.")
    source: Text | None = Field(default=None, description="The Python text; exactly one of source and file_id.")
    file_id: Text | None = Field(default=None, description="A file that holds the Python text.")
    timeout_seconds: Real = Field(default=120, description="Seconds for one call, without waiting for models.")
    max_model_calls: Whole = Field(default=64, description="Calls through ctx that one call may make.")

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        contract = given.get("contract", "sample")
        if "execution" not in given:
            # a model-backed grader may have either function; one that has only grade_batch can not run per sample
            only_batch = contract == "model_backed" and defined_functions(given.get("source")) >= {"grade_batch"}
            aggregate = contract == "batch" or (only_batch and "grade" not in defined_functions(given.get("source")))
            given["execution"] = "aggregate" if aggregate else "per_sample"
        given.setdefault("model_access", "mka1" if contract == "model_backed" else "none")
        return given


class FewShot(Record):
    """Worked examples before each prompt."""

    count: Whole = Field(default=0, description="Examples a sample.")
    dataset: Dataset | None = Field(default=None, description="Where examples come from; else the task's own rows.")
    prompt_template: Text | None = Field(default=None, description="An example's prompt; else the task's template.")
    target_template: Text | None = Field(default=None, description="An example's target; else the task's template.")
    example_template: Text = Field(
        default="{{prompt}}\n{{target}}", description="How prompt and target of an example are joined."
    )
    separator: Text = Field(default="\n\n", description="What stands after each example.")
    strategy: Literal["first", "random"] = Field(default="first", description="Which rows become examples.")
    seed: Whole = Field(default=0, description="Seed of the strategy random.")

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        dataset = given.get("dataset")
        if isinstance(dataset, Mapping) and dataset.get("path") is not None and dataset.get("split") is None:
            given["dataset"] = {**dataset, "split": "train"}
        return given


class Task(Record):
    """One thing to evaluate: data, prompt, extraction and how replies are scored."""

    foreign_keys: ClassVar[Foreign] = {
        **_RUN_CHOICES,
        "embedding": _newer("embedding"),
        "language": _newer("language"),
    }
    foreign_values: ClassVar[Mapping[tuple[str, str], tuple[str, str, str]]] = {
        ("type", "transcription"): _newer("the type transcription"),
        ("type", "embedding"): _newer("the type embedding"),
    }

    id: Text = Field(description="Unique in the suite: letters, digits, '_', '.' and '-'.")
    type: TaskType = Field(description="A label; it steers no scoring.")
    dataset: Dataset = Field(description="Where rows come from.")
    name: Text | None = Field(default=None, description="For readers.")
    prompt_template: Text | None = Field(
        default=None, description="The prompt, with {{field}} of the row; else the row's field prompt."
    )
    target_template: Text | None = Field(
        default=None, description="The reference, with {{field}} of the row; built-in metrics need one."
    )
    choices: tuple[Text, ...] | None = Field(default=None, description="The choices; else the row's field choices.")
    output_extraction: Extraction = Field(
        default_factory=NoExtraction, description="How the answer is read from the reply."
    )
    metrics: tuple[MetricChoice, ...] = Field(default=(), description="What is aggregated; the first mean is headline.")
    grader: Grader | None = Field(default=None, description="Python that scores replies.")
    preprocess: Preprocess | None = Field(default=None, description="Python that changes the rows first.")
    fewshot: FewShot = Field(default_factory=FewShot, description="Worked examples before each prompt.")
    metadata: Mapping[str, Any] = Field(default_factory=dict, description="The caller's own keys.")

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        count = given.pop("num_fewshot", None)
        fewshot = given.get("fewshot", {})
        if count is not None and isinstance(fewshot, Mapping) and fewshot.get("count") is None:
            given["fewshot"] = {**fewshot, "count": count}
        return given

    @classmethod
    def known_keys(cls) -> list[str]:
        """All keys that a manifest may write here: the fields and the alias."""
        return [*cls.model_fields, "num_fewshot"]

    def __repr__(self) -> str:
        data = self.dataset.file_id if self.dataset.source == "file" else f"{self.dataset.path} ({self.dataset.split})"
        scored = ", ".join(choice.id for choice in self.metric_choices) or "a batch grader"
        shots = f", {self.fewshot.count} examples" if self.fewshot.count else ""
        return (
            f"Task {self.id!r} ({self.type}) on {data}: prompt {short(self.prompt_template or '{{prompt}}')}{shots}, "
            f"extraction {self.output_extraction.type}, scored by {scored}"
        )

    @property
    def extraction_config(self) -> dict[str, Any]:
        """The extraction as a plain dict with its defaults filled in, as extractors take it."""
        return self.output_extraction.config()

    @property
    def metric_choices(self) -> tuple[MetricChoice, ...]:
        """The declared metrics; without any, the one of a per-sample grader; of an aggregate grader none."""
        if self.metrics or self.grader is None or self.grader.execution == "aggregate":
            return self.metrics
        return (MetricChoice(id=self.grader.metric_id),)

    @property
    def headline(self) -> MetricChoice | None:
        """The first metric with aggregation mean; None: the task is in no ranking."""
        return next((choice for choice in self.metric_choices if choice.aggregation == "mean"), None)


class Suite(Record):
    """A suite manifest: what to evaluate."""

    foreign_keys: ClassVar[Foreign] = _RUN_CHOICES

    schema_version: Literal["2026-05-27"] = Field(
        default=SCHEMA_VERSION, description="The version of the format; there is one."
    )
    tasks: tuple[Task, ...] = Field(description="What to evaluate.")
    metadata: Mapping[str, Any] = Field(default_factory=dict, description="The caller's own keys.")

    def __repr__(self) -> str:
        lines = [f"Suite of {len(self.tasks)} task{'s' if len(self.tasks) != 1 else ''}"]
        lines += [f"  {task!r}" for task in self.tasks[:MOST_SHOWN]]
        if more := len(self.tasks) - MOST_SHOWN:
            lines += [f"  and {more} more"] if more > 0 else []
        return "\n".join([*lines, "next: evalframe.run(suite, models=[…])"])

    def to_manifest(self) -> dict[str, Any]:
        """Give the manifest as plain JSON values, defaults written out; parsing it again gives an equal suite."""
        return self.model_dump(mode="json", exclude_none=True)
