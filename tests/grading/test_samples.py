"""By what an answer of a grader is found again, and which seed a sample has."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.grading.samples import digest_of, seed_of
from evalframe.manifest.records import Grader

SOURCE = "def grade(sample, item):\n    return 1\n"
ARGUMENTS = ({"output_text": "a"}, {"id": 1})


def digest(arguments: tuple[Any, ...] = ARGUMENTS, judge: str | None = None, **changes: Any) -> str:
    return digest_of(Grader(**{"source": SOURCE, **changes}), arguments, models={"judge_model": judge})


@pytest.mark.parametrize(
    "changes",
    [
        {"source": SOURCE + "#"}, {"contract": "batch"}, {"arguments": ({"output_text": "b"}, {"id": 1})},
        {"arguments": ({"output_text": "a"}, {"id": 1.0})}, {"contract": "model_backed"},
    ],
)  # fmt: skip
def test_what_decides_an_answer_is_in_its_digest(changes: dict[str, Any]) -> None:
    assert digest(**changes) != digest()


@pytest.mark.parametrize(
    "changes", [{"timeout_seconds": 3}, {"metric_id": "x"}, {"judge": "j"}, {"max_model_calls": 2}]
)
def test_what_decides_nothing_is_not(changes: dict[str, Any]) -> None:
    assert digest(**changes) == digest()


def test_the_models_count_where_ctx_reaches_them() -> None:
    asking = {"contract": "model_backed"}
    assert len({digest(judge=judge, **asking) for judge in (None, "j", "k")}) == 3
    assert digest(max_model_calls=2, **asking) != digest(**asking)


def test_a_seed_is_of_a_task_and_a_sample() -> None:
    assert seed_of("t", "a") == seed_of("t", "a") != seed_of("t", "b")
    assert seed_of("t", "a") != seed_of("u", "a")
    assert seed_of("ta", "") != seed_of("t", "a")
