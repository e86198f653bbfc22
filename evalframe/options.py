"""The options of a run: one frozen record, checked before anything else happens."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evalframe.data.pyvalues import NoValueError, plain
from evalframe.errors import EvalframeError, Fault, NotBuiltError, OptionError
from evalframe.generate.reasoning import DEFAULT_TAGS, reasoning_tags
from evalframe.jsontext import clean, dumps
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.confidence import confidence_faults
from evalframe.manifest.generation import GenerationSettings
from evalframe.manifest.ranges import metadata_faults
from evalframe.registry import suggestion
from evalframe.reprs import Telling

# options of the contract that this version does not have yet: said aloud, never ignored
LATER = ("allow_hosts", "engine", "verdict")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunOptions(Telling):
    """How a run is made; what affects results of a sample is in the manifest instead.

    Attributes:
        concurrency: Calls in flight at most, over all models, 1 to ``limits.concurrency``; a model may use up to as
            many. None: 25 over all, 8 a model.
        parallel: False makes the calls one by one, in order.
        repeats: Calls a sample, from 1 up; or a mapping by task id or category (others: 1).
        max_samples_per_task: Only the first so many samples of a task; few-shot pools stay whole. None: all.
        task_ids: Only these tasks. None: all.
        generation: Generation settings (suite.md).
        files: ``file_id`` to path, beside the user's registered files.
        limits: The table of numbers.
        out: The run's folder. None: a new one under the user's data directory; False: a temporary one that goes with
            the ``Run`` object.
        progress: Show a progress bar.
        seed: Of every interval and permutation.
        metadata: Of the run, kept in ``run.json``: text, numbers (numpy's and polars' too), times, lists, dicts.
        sandbox: ``auto`` or ``strict``.
        allow_unsandboxed: Run foreign code (generated, graders, preprocessors) without walls but resource limits.
        reasoning_tags: Names (``think``) or pairs of tags that hold reasoning in a reply's text; empty: none.
        sample_ids: ``auto``: the data's own id where every row has one; ``content``: a hash of the row.
        on_missing: What a template's field that is in no row does: ``warn`` or ``error``.
        allow_bad_tasks: Run the good lines of a task file that has bad ones.
        skip_failed_tasks: Run the other tasks where a task's preprocessor fails.
        cache: Take replies from the user's result cache and keep new ones there. False: neither; ``"refresh"``: only
            keep; a path: another file.
        preflight: Make the first call of each model of a real API alone, so that a wrong key costs one call.
        max_cost_usd: Dollars after which no further call begins; the run can be resumed. None: no cap.
        prices: Model id to dollars a million tokens, ``(input, output)`` or ``(input, output, cached input)``; goes
            before the maintained list.
        requests_per_minute: Of each model, over 0. None: no limit.
        tokens_per_minute: Input and output tokens of each model, over 0. None: no limit.
        max_rate_limit_wait_seconds: How long one call waits for rate limits in all before it fails, from 0 up.
        request_type: ``generate`` asks for text; ``loglikelihood`` for the likeliest of the sample's choices.
        loglikelihood_norm: ``bytes``: choices are compared by log-probability a UTF-8 byte. None: by their sum.
        confidence: Where a call's confidence comes from. None or ``"adapter"``: the adapter; ``"logprobs"``: the
            geometric mean of its tokens' probabilities; ``"agreement"``: the share of the sample's repeats with the
            same answer; or ``{"pattern": …, "scale": "unit" | "percent"}``: the number that the reply states, group 1
            of the last match.
        judge_model: What ``ctx.responses_create(model="auto")`` of a grader calls: a model in any form, or the id of
            one of the run's. None: such a call raises.
        embedding_model: The like for ``ctx.embeddings_create``.
        prompt: Makes the source data: a template (``"Q: {{question}}"``), or the name of one field. What these four
            say is kept in the run's manifest.
        targets: Of data: a template or the name of one field; a list of texts is several references.
        extract: Of data: how the answer is read, a type (``"number"``) or a configuration. None: the whole reply.
        metrics: Of data: metric ids, ``Metric`` records or dicts as in a manifest.
    """

    concurrency: int | None = None
    parallel: bool = True
    repeats: int | Mapping[str, int] = 1
    max_samples_per_task: int | None = None
    task_ids: Sequence[str] | None = None
    generation: Any = None
    files: Mapping[str, str | os.PathLike[str]] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    out: str | os.PathLike[str] | bool | None = None
    progress: bool = True
    seed: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sandbox: Literal["auto", "strict"] = "auto"
    allow_unsandboxed: bool = False
    reasoning_tags: Sequence[str | Sequence[str]] = DEFAULT_TAGS
    sample_ids: Literal["auto", "content"] = "auto"
    on_missing: Literal["warn", "error"] = "warn"
    allow_bad_tasks: bool = False
    skip_failed_tasks: bool = False
    cache: bool | str | os.PathLike[str] = True
    preflight: bool = True
    max_cost_usd: float | None = None
    prices: Mapping[str, Sequence[float]] | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_rate_limit_wait_seconds: float = 300.0
    request_type: Literal["generate", "loglikelihood"] = "generate"
    loglikelihood_norm: Literal["bytes"] | None = None
    confidence: Any = None
    judge_model: Any = None
    embedding_model: Any = None
    prompt: str | None = None
    targets: str | None = None
    extract: str | Mapping[str, Any] | None = None
    metrics: Any = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RunOptions:
        """Build the record from keyword arguments.

        Raises:
            OptionError: Names every unknown option (with the nearest known one) and every bad value.
            NotBuiltError: Names the options that this version does not have yet.
        """
        if later := sorted(set(given) & set(LATER)):
            raise NotBuiltError(f"this version does not have the option {', '.join(later)} yet; leave it out")
        known = [option.name for option in dataclasses.fields(cls)]
        faults = [
            Fault(name, "unknown_option", "there is no such option", _meant(name, known))
            for name in given
            if name not in known
        ]
        options = cls(**{name: value for name, value in given.items() if name in known})
        faults += option_faults(options)
        if faults:
            raise OptionError.of(faults, what="options of the run")
        return options

    @property
    def folder(self) -> Path | None:
        """The folder that the caller named, if any."""
        return None if self.out is None or isinstance(self.out, bool) else Path(self.out)

    def plain_metadata(self) -> dict[str, Any]:
        """Give the metadata as ``run.json`` keeps them: scalars and arrays of numpy and polars as plain values."""
        found: dict[str, Any] = json.loads(clean(dumps(plain(self.metadata))))
        return found

    def recorded(self) -> dict[str, Any]:
        """Give what ``run.json`` keeps: plain JSON values. What data is asked and how is in the manifest."""
        return {
            "concurrency": self.concurrency,
            "parallel": self.parallel,
            "repeats": self.repeats if isinstance(self.repeats, int) else dict(self.repeats),
            "max_samples_per_task": self.max_samples_per_task,
            "task_ids": None if self.task_ids is None else list(self.task_ids),
            "seed": self.seed,
            "sandbox": self.sandbox,
            "allow_unsandboxed": self.allow_unsandboxed,
            "reasoning_tags": [tag if isinstance(tag, str) else list(tag) for tag in self.reasoning_tags],
            "sample_ids": self.sample_ids,
            "on_missing": self.on_missing,
            "allow_bad_tasks": self.allow_bad_tasks,
            "skip_failed_tasks": self.skip_failed_tasks,
            "cache": self.cache
            if isinstance(self.cache, bool) or self.cache == "refresh"
            else str(Path(self.cache).absolute()),
            "preflight": self.preflight,
            "max_cost_usd": self.max_cost_usd,
            "prices": None if self.prices is None else {name: list(price) for name, price in self.prices.items()},
            "requests_per_minute": self.requests_per_minute,
            "tokens_per_minute": self.tokens_per_minute,
            "max_rate_limit_wait_seconds": self.max_rate_limit_wait_seconds,
            "request_type": self.request_type,
            "loglikelihood_norm": self.loglikelihood_norm,
            "confidence": dict(self.confidence) if isinstance(self.confidence, Mapping) else self.confidence,
            "judge_model": _recorded_model(self.judge_model),
            "embedding_model": _recorded_model(self.embedding_model),
            "limits": {
                name: value
                for name, value in dataclasses.asdict(self.limits).items()
                if value != getattr(DEFAULT_LIMITS, name)
            },
        }

    @classmethod
    def recall(cls, recorded: Mapping[str, Any]) -> RunOptions:
        """Build the record from what ``run.json`` kept."""
        return cls.of({**recorded, "limits": Limits(**recorded["limits"])})


def _recorded_model(given: Any) -> Any:
    """Give what ``run.json`` keeps of a model that graders call: a name or dict as it is, of an object its id."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return dict(given)
    return {"object": getattr(given, "model_id", type(given).__name__)}


def _meant(name: str, known: Sequence[str]) -> str:
    """Say what an unknown option may have meant: what other libraries call options, too, has its place here."""
    if name in GenerationSettings.model_fields:
        return f'how a model is asked goes into one option: generation={{"{name}": …}}'
    if name in GenerationSettings.foreign_keys:
        return (
            f"how a model is asked goes into one option, generation={{…}}: {GenerationSettings.foreign_keys[name][2]}"
        )
    return next((remedy for names, remedy in _ELSEWHERE.items() if name in names), "") or suggestion(name, known)


_ELSEWHERE = {
    ("limit", "max_samples", "num_samples", "n_samples", "head"): "write max_samples_per_task=…",
    ("fewshot", "few_shot", "num_fewshot", "n_shot"): "few-shot examples are a part of the tasks of a suite manifest",
    ("n", "n_repeats", "num_repeats", "epochs"): "write repeats=…",
    ("workers", "max_workers", "n_jobs", "num_workers", "max_concurrency"): "write concurrency=…",
    ("output_dir", "output", "folder", "path"): "write out=…",
    ("template", "prompt_template"): "write prompt=…",
    ("verbose",): "write progress=…",
    ("model", "models"): "models are the second argument, one or a list",
}


def option_faults(options: RunOptions) -> list[Fault]:
    """Name every bad value of some options."""
    if not isinstance(options.limits, Limits):
        return [Fault("limits", "bad_type", f"{options.limits!r} is no Limits", "write limits=evalframe.Limits(…)")]
    faults = [
        *_whole("concurrency", options.concurrency, high=options.limits.concurrency, optional=True),
        *_whole("max_samples_per_task", options.max_samples_per_task, optional=True),
        *_whole("seed", options.seed, low=0),
    ]
    if isinstance(options.repeats, Mapping):
        for name, count in options.repeats.items():
            faults += _whole(f"repeats[{name!r}]", count)
    else:
        faults += _whole("repeats", options.repeats)
    for name in ("parallel", "progress", "allow_unsandboxed", "allow_bad_tasks", "skip_failed_tasks", "preflight"):
        if not isinstance(getattr(options, name), bool):
            faults.append(Fault(name, "bad_type", f"{getattr(options, name)!r} is not True or False"))
    for name, words in _WORDS.items():
        if getattr(options, name) not in words:
            allowed = ", ".join(map(repr, words))
            faults.append(Fault(name, "bad_value", f"{getattr(options, name)!r} is none of {allowed}"))
    for name in ("max_cost_usd", "requests_per_minute", "tokens_per_minute"):
        faults += _amount(name, getattr(options, name), above=True, optional=True)
    faults += _amount("max_rate_limit_wait_seconds", options.max_rate_limit_wait_seconds)
    if not isinstance(options.cache, bool | str | os.PathLike) or options.cache == "":
        remedy = 'write True, False, "refresh", or the path of a file'
        faults.append(Fault("cache", "bad_value", f"{options.cache!r} is no way to use the cache", remedy))
    faults += confidence_faults(options.confidence, limits=options.limits)
    if options.loglikelihood_norm is not None and options.request_type == "generate":
        remedy = 'is for request_type="loglikelihood"; write that too, or leave it out'
        faults.append(Fault("loglikelihood_norm", "misplaced", "compares choices, and text is asked for", remedy))
    if options.prompt == "":
        faults.append(Fault("prompt", "empty", "is empty: every prompt would be", 'write one, as in "Q: {{question}}"'))
    if options.task_ids is not None:
        faults += _texts("task_ids", options.task_ids)
    if options.out is True or not isinstance(options.out, str | os.PathLike | bool | None):
        faults.append(Fault("out", "bad_value", f"{options.out!r} is no folder", "give a path, None or False"))
    return [*faults, *_tag_faults(options.reasoning_tags), *_file_faults(options), *_metadata_faults(options)]


_WORDS: dict[str, tuple[str | None, ...]] = {
    "sandbox": ("auto", "strict"),
    "sample_ids": ("auto", "content"),
    "on_missing": ("warn", "error"),
    "request_type": ("generate", "loglikelihood"),
    "loglikelihood_norm": (None, "bytes"),
}


def _whole(name: str, value: Any, *, low: int = 1, high: int | None = None, optional: bool = False) -> list[Fault]:
    if optional and value is None:
        return []
    if not isinstance(value, int) or isinstance(value, bool):
        return [Fault(name, "bad_type", f"{value!r} is not a whole number")]
    if value < low or (high is not None and value > high):
        allowed = f"{low} to {high}" if high is not None else f"from {low} up"
        remedy = f"pass limits=Limits({name}={value}) to go higher" if high is not None and value > high else ""
        return [Fault(name, "bad_value", f"{value} is out of range ({allowed})", remedy)]
    return []


def _amount(name: str, value: Any, *, above: bool = False, optional: bool = False) -> list[Fault]:
    if optional and value is None:
        return []
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return [Fault(name, "bad_type", f"{value!r} is not a number")]
    if value < 0 or (above and value == 0):
        return [Fault(name, "bad_value", f"{value} is out of range ({'over 0' if above else 'from 0 up'})")]
    return []


def _texts(name: str, value: Any) -> list[Fault]:
    if isinstance(value, str):
        return [Fault(name, "bad_type", "is one string", f"write [{value!r}]")]
    if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        return [Fault(name, "bad_type", f"{value!r} is not a list of strings")]
    return []


def _tag_faults(tags: Any) -> list[Fault]:
    remedy = 'write names, as in ["think"], or pairs, as in [("<think>", "</think>")]; [] for none'
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        return [Fault("reasoning_tags", "bad_type", f"{tags!r} is not a list", remedy)]
    try:
        reasoning_tags(tags)
    except EvalframeError as error:
        return [Fault("reasoning_tags", "bad_value", error.message, remedy)]
    return []


def _file_faults(options: RunOptions) -> list[Fault]:
    if not isinstance(options.files, Mapping):
        return [Fault("files", "bad_type", f"{options.files!r} is no mapping", 'write {"file_id": "path"}')]
    return [
        Fault(f"files[{name!r}]", "missing_file", f"there is no file {str(path)!r}", "mend the path")
        for name, path in options.files.items()
        if not isinstance(path, str | os.PathLike) or not Path(path).is_file()
    ]


def _metadata_faults(options: RunOptions) -> list[Fault]:
    if not isinstance(options.metadata, Mapping):
        return [Fault("metadata", "bad_type", f"{options.metadata!r} is no mapping")]
    faults = []
    for key, value in options.metadata.items():
        if not isinstance(key, str):
            faults.append(Fault(f"metadata.{key}", "bad_key", "is no string", "write the key as text"))
        try:
            plain(value)
        except NoValueError as error:
            faults.append(Fault(f"metadata.{key}", "bad_type", error.detail, error.remedy))
    sizes = metadata_faults({"metadata": options.plain_metadata()}, "", options.limits) if not faults else ()
    return [*faults, *sizes]
