"""One table of numbers."""

from __future__ import annotations

import dataclasses

import pytest

from evalframe.errors import OptionError
from evalframe.limits import Limits


def test_a_caller_may_go_wider_and_nobody_may_change_it() -> None:
    limits = Limits(concurrency=256)
    assert limits.concurrency == 256
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.concurrency = 1  # type: ignore[misc]


def test_every_bad_number_is_named() -> None:
    with pytest.raises(OptionError) as caught:
        Limits(concurrency=0, models=-1, code_timeout_seconds="3")  # type: ignore[arg-type]
    assert caught.value.faults["where"].to_list() == [
        "limits.models",
        "limits.concurrency",
        "limits.code_timeout_seconds",
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suite_tasks", 100), ("fewshot_examples", 100), ("models", 20), ("concurrency", 25), ("max_rows", 1_000_000),
        ("metadata_key_chars", 64), ("metadata_value_chars", 512), ("python_timeout_seconds", 600),
        ("model_calls", 500), ("generation_timeout_seconds", 3600), ("generation_retries", 10),
        ("task_fewshot_examples", 8), ("code_timeout_seconds_max", 30.0), ("code_output_bytes", 262_144),
        ("code_memory_bytes", 536_870_912), ("regex_seconds_per_text", 0.25), ("n_resamples", 10_000),
        ("regex_pattern_chars", 1_000), ("metadata_columns", 64), ("workers_per_model", 8),
    ],
)  # fmt: skip
def test_the_defaults_are_those_of_the_contracts(field: str, value: float) -> None:
    assert getattr(Limits(), field) == value
