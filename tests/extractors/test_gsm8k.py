"""Known truth: OpenAI's GSM8K release labels the solutions of four models as right or wrong.

``example_model_solutions.jsonl`` of the grade-school-math repository, 1,319 questions; its ``is_correct`` was computed
by the authors. A solution is right where its number is the number of the answer in ``test.jsonl``.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalframe.extractors import extract

RIGHT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("model", "right"), RIGHT.items())
def test_every_published_label_is_met(shared_data: Path, model: str, right: int) -> None:
    folder = shared_data / "gsm8k"
    answers = [record["answer"] for record in records(folder / "test.jsonl")]
    graded = [record[model] for record in records(folder / "example_model_solutions.jsonl")]
    assert len(answers) == len(graded) == 1_319
    expected = extract(pl.Series(answers), {"type": "number"})["extracted_output"]
    found = extract(pl.Series([one["solution"] for one in graded]), {"type": "number"})["extracted_output"]
    same = found.eq_missing(expected)
    assert expected.null_count() == 0
    assert same.sum() == right
    assert same.to_list() == [one["is_correct"] for one in graded]
