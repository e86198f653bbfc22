"""The options of a run are checked before anything else happens."""

from __future__ import annotations

import pytest

from evalframe.errors import NotBuiltError, OptionError
from evalframe.limits import Limits
from evalframe.options import LATER, RunOptions


def faults(**given: object) -> dict[str, str]:
    with pytest.raises(OptionError) as caught:
        RunOptions.of(given)
    return dict(caught.value.faults.select("where", "rule").iter_rows())


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"concurrency": 0}, "concurrency"), ({"concurrency": 26}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"repeats": 0}, "repeats"), ({"repeats": {"math": 0}}, "repeats['math']"), ({"repeats": 1.5}, "repeats"),
        ({"max_samples_per_task": 0}, "max_samples_per_task"), ({"seed": -1}, "seed"), ({"parallel": "no"}, "parallel"),
        ({"sandbox": "none"}, "sandbox"), ({"on_missing": "ignore"}, "on_missing"),
        ({"sample_ids": "row"}, "sample_ids"),
        ({"task_ids": "one"}, "task_ids"), ({"out": True}, "out"), ({"out": 5}, "out"), ({"limits": 5}, "limits"),
        ({"reasoning_tags": "think"}, "reasoning_tags"), ({"reasoning_tags": 5}, "reasoning_tags"),
        ({"files": 5}, "files"), ({"files": {"a": "nowhere.jsonl"}}, "files['a']"),
        ({"metadata": 5}, "metadata"), ({"metadata": {"a": object()}}, "metadata.a"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"), ({"metadata": {"k" * 65: "v"}}, f"metadata.{'k' * 65}"),
        ({"metadata": {3: "x"}}, "metadata.3"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named(given: dict[str, object], where: str) -> None:
    assert list(faults(**given)) == [where]


def test_every_fault_at_once_and_the_nearest_name() -> None:
    assert faults(concurency=3, repeats=0, seed="x") == {
        "concurency": "unknown_option", "seed": "bad_type", "repeats": "bad_value",
    }  # fmt: skip
    with pytest.raises(OptionError, match="did you mean 'concurrency'"):
        RunOptions.of({"concurency": 3})


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("temperature", r'generation=\{"temperature": …\}'),
        ("system_prompt", r"generation=.* did you mean 'instructions'"),
        ("limit", "write max_samples_per_task=…"), ("num_fewshot", "suite manifest"), ("template", "write prompt=…"),
    ],
)  # fmt: skip
def test_what_others_call_an_option_is_told_its_place(name: str, remedy: str) -> None:
    with pytest.raises(OptionError, match=f"{name}: there is no such option -> .*{remedy}"):
        RunOptions.of({name: 1})


def test_an_empty_prompt_is_refused() -> None:
    assert faults(prompt="") == {"prompt": "empty"}


def test_a_wider_table_of_limits_allows_more() -> None:
    with pytest.raises(OptionError, match=r"limits=Limits\(concurrency=64\)"):
        RunOptions.of({"concurrency": 64})
    assert RunOptions.of({"concurrency": 64, "limits": Limits(concurrency=256)}).concurrency == 64


@pytest.mark.parametrize("name", LATER)
def test_an_option_that_is_not_built_is_refused_aloud(name: str) -> None:
    with pytest.raises(NotBuiltError, match=name):
        RunOptions.of({name: 1})


def test_what_is_recorded_is_recalled() -> None:
    options = RunOptions.of({"repeats": {"math": 3}, "limits": Limits(models=30), "task_ids": ["a"], "seed": 7})
    recalled = RunOptions.recall(options.recorded())
    assert recalled.recorded() == options.recorded()
    assert recalled.limits.models == 30
