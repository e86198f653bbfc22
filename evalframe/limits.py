"""Every number that bounds something, in one frozen table.

The defaults are the numbers of the suite format and of the contracts. A caller who runs a local server may pass a
wider table (``limits=Limits(concurrency=256)``); a manifest can not.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from evalframe.errors import Fault, OptionError
from evalframe.reprs import Telling


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits(Telling):
    """The one table of numbers. It shows those that are not the default; ``dataclasses.asdict(limits)`` gives all.

    >>> Limits(concurrency=256).concurrency
    256
    """

    # suites
    suite_tasks: int = 100
    fewshot_examples: int = 100
    max_rows: int = 1_000_000
    metadata_key_chars: int = 64
    metadata_value_chars: int = 512
    python_timeout_seconds: int = 600  # of graders and preprocessors
    preprocess_rows: int = 1_000_000  # that a preprocessor may give of one data set
    preprocess_chars: int = 512 * 1024 * 1024  # of these rows as JSON
    model_calls: int = 500  # of one grader call
    regex_pattern_chars: int = 1_000

    # task files
    task_fewshot_examples: int = 8

    # runs
    models: int = 20
    concurrency: int = 25
    workers_per_model: int = 8
    generation_timeout_seconds: int = 3600
    generation_retries: int = 10
    segment_rows: int = 20_000  # generations held in memory at once
    segment_bytes: int = 32 * 1024 * 1024  # text of the generations held in memory at once
    metadata_columns: int = 64

    # extraction
    regex_seconds_per_text: float = 0.25
    regex_text_chars: int = 1024 * 1024

    # code execution
    code_timeout_seconds: float = 3.0
    code_timeout_seconds_max: float = 30.0
    code_output_bytes: int = 256 * 1024
    code_memory_bytes: int = 512 * 1024 * 1024
    code_file_bytes: int = 16 * 1024 * 1024
    code_open_files: int = 64
    code_processes: int = 32

    # statistics
    n_resamples: int = 10_000
    few_units: int = 30  # below: a 0/1 score gets a Wilson interval
    few_clusters: int = 30  # below: a note says that intervals are rough
    small_group_units: int = 10
    resample_bytes: int = 64 * 1024 * 1024  # of resampling indices held at once

    def __post_init__(self) -> None:
        faults = [
            Fault(f"limits.{field.name}", "bad_value", f"{value!r} is not a positive number")
            for field in dataclasses.fields(self)
            if not _is_positive(value := getattr(self, field.name))
        ]
        if faults:
            raise OptionError.of(faults, what="limits")


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


DEFAULT_LIMITS = Limits()
