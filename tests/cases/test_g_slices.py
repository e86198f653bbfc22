"""Cases from the field about slices and pass@k: each test carries the id of its case."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evalframe.errors import OptionError
from evalframe.frames import from_records
from evalframe.passing import pass_at_k
from evalframe.schemas import GENERATIONS, ROWS, SCORES
from evalframe.slicing import slices
from evalframe.stats import passk
from evalframe.stats.bootstrap import Stratum, interval, ratio, resample

C101 = [
    (2, 0, 5, None),
    (5, 0, 5, 0.0),
    (10, 3, 1, 0.3),
    (10, 3, 5, 0.916667),
    (200, 3, 100, 0.876884),
    (2, 1, 5, None),
]


@pytest.mark.parametrize(("n", "c", "k", "expected"), C101)
def test_C101_pass_at_k_is_null_where_k_is_over_n(n: int, c: int, k: int, expected: float | None) -> None:
    key = {"model_id": "m", "task_id": "t", "sample_index": 0, "metric": "code_exec", "fate": "scored"}
    tries = [key | {"repeat": i, "score": float(i < c), "correct": i < c} for i in range(n)]
    found = pass_at_k(from_records(tries, SCORES), k=k, n_resamples=10).row(0, named=True)
    assert found["pass_at_k"] == (expected if expected is None else pytest.approx(expected, abs=5e-7))
    assert (found["n_repeats_min"], found["n_undefined"]) == (n, int(expected is None))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, 1, 0)])
def test_C101_more_right_than_tried_and_k_of_0_are_errors(n: int, c: int, k: int) -> None:
    with pytest.raises(OptionError):
        passk.pass_at_k(n, c, k)


def row(task: str, sample: int, record: str, *, category: str = "qa") -> dict[str, Any]:
    return {
        "task_id": task, "sample_index": sample, "sample_id": str(sample), "category": category, "prompt": "?",
        "prompt_hash": "0", "targets": ["a"], "extraction": "{}", "row": record, "metadata": "{}",
        "metrics": [{"id": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip


def test_C115_tags_count_in_each_slice_and_null_is_one() -> None:
    records = ['{"topic":["tax","law"],"lvl":1}', '{"topic":["tax"],"lvl":2}', '{"topic":null,"lvl":1}', '{"lvl":"1"}']
    marks = [1.0, 0.0, 1.0, 0.0]
    rows = from_records([row("t", i, record) for i, record in enumerate(records)], ROWS)
    scores = from_records(
        [
            {"model_id": "m", "task_id": "t", "sample_index": i, "repeat": 0, "metric": "exact_match", "score": mark,
             "fate": "scored", "correct": mark == 1}
            for i, mark in enumerate(marks)
        ],
        SCORES,
    )  # fmt: skip
    by_topic = slices(scores, by="row.topic", rows=rows, n_resamples=10)
    assert by_topic.select("by.row.topic", "n_units", "mean_score").rows() == [
        ("law", 1, 1.0), ("tax", 2, 0.5), (None, 2, 0.5),
    ]  # fmt: skip
    # the number 1 and the text "1" are merged, with a notice
    by_level = slices(scores, by="row.lvl", rows=rows, n_resamples=10)
    assert by_level.select("by.row.lvl", "n_units", "mean_score").rows() == [
        ("1", 3, pytest.approx(2 / 3)), ("2", 1, 0.0),
    ]  # fmt: skip
    assert by_level.notes[0] == "row.lvl: 1 stands both in quotes and without, which is one group"
    both = slices(scores, by=["row.topic", "row.lvl"], rows=rows, n_resamples=10)
    assert both.select("by.row.topic", "by.row.lvl", "n_units").rows() == [
        ("law", "1", 1), ("tax", "1", 1), ("tax", "2", 1), (None, "1", 2),
    ]  # fmt: skip


MODELS, TASKS = ("m1", "m2", "m3", "m4"), {"law": 30, "qa": 25, "solo": 1}
SUBJECTS = ("x", "y", None)


def made_run(seed: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Scores of four models with ties, failures, grader errors and repeats, subjects and tags."""
    rng = np.random.default_rng(seed)
    scores, generations, rows = [], [], []
    for task, n in TASKS.items():
        for i in range(n):
            record = {"subject": SUBJECTS[int(rng.integers(3))], "tags": ["p", "q"][: int(rng.integers(3))]}
            rows.append(row(task, i, json.dumps(record, separators=(",", ":")), category=task[:2]))
            for model in MODELS:
                for repeat in range(2):
                    key = {"model_id": model, "task_id": task, "sample_index": i, "repeat": repeat}
                    fate = str(rng.choice(["scored", "scored", "scored", "unparsed", "failed", "grader_error"]))
                    score = {"scored": float(rng.integers(0, 5)) / 4, "unparsed": 0.0}.get(fate)
                    correct = None if score is None else score >= 1
                    scores.append(key | {"metric": "exact_match", "score": score, "fate": fate, "correct": correct})
                    generations.append(key | {
                        "status": "failed" if fate == "failed" else "completed", "attempts": 1, "cached": False,
                        "cost_usd": 0.25 * (i + 1), "input_tokens": i, "output_tokens": 3,
                        "output_text": None if fate == "failed" else "x",
                        "error_type": "timeout" if fate == "failed" else None,
                    })  # fmt: skip
    return (
        from_records(scores, SCORES).sort(SCORES.key),
        from_records(rows, ROWS).sort(ROWS.key),
        from_records(generations, GENERATIONS).sort(GENERATIONS.key),
    )


def values_of(record: dict[str, Any], name: str) -> list[str | None]:
    value = json.loads(record["row"])[name]
    return (value or [None]) if isinstance(value, list) else [value]


@pytest.mark.parametrize(("seed", "name"), [(0, "subject"), (1, "subject"), (2, "tags")])
def test_C117_every_cell_of_a_slice_follows_from_the_exported_rows(tmp_path: Path, seed: int, name: str) -> None:
    scores, rows, generations = made_run(seed)
    for frame, file in ((scores, "scores"), (rows, "rows"), (generations, "generations")):
        frame.write_parquet(tmp_path / f"{file}.parquet")
    found = slices(scores, by=f"row.{name}", rows=rows, generations=generations, n_resamples=300, seed=3)
    stored = {
        file: pl.read_parquet(tmp_path / f"{file}.parquet").to_dicts() for file in ("scores", "rows", "generations")
    }
    groups: dict[str | None, set[tuple[str, int]]] = {}
    for record in stored["rows"]:
        for value in values_of(record, name):
            groups.setdefault(value, set()).add((record["task_id"], record["sample_index"]))
    assert set(found[f"by.row.{name}"]) == set(groups)
    for value, units in groups.items():
        shown = found.filter(pl.col(f"by.row.{name}").eq_missing(pl.lit(value, pl.String)))
        expected = recomputed(stored, units)
        assert set(shown["model_id"]) == set(expected)
        for line in shown.to_dicts():
            assert {cell: line[cell] for cell in expected[line["model_id"]]} == {
                cell: number if number is None else pytest.approx(number, abs=1e-9)
                for cell, number in expected[line["model_id"]].items()
            }


def recomputed(stored: dict[str, list[dict[str, Any]]], units: set[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    """Each model's cells in a group, by loops over the exported rows; the interval by the same seed."""
    mine = [r for r in stored["scores"] if (r["task_id"], r["sample_index"]) in units]
    calls = [r for r in stored["generations"] if (r["task_id"], r["sample_index"]) in units]
    value: dict[tuple[str, str, int], float] = {}
    for model in MODELS:
        for task, i in units:
            its = [r["score"] for r in mine if (r["model_id"], r["task_id"], r["sample_index"]) == (model, task, i)]
            there = [score for score in its if score is not None]
            if there:
                value[model, task, i] = math.fsum(there) / len(there)
    strata = []
    for task in sorted({task for task, _ in units}):  # a single task with one sample is a pool of one
        its_units = sorted(unit for unit in units if unit[0] == task)
        table = np.array([[value.get((model, *unit), math.nan) for model in MODELS] for unit in its_units])
        there = ~np.isnan(table)
        columns = np.stack([np.nan_to_num(table), there], axis=2).astype(float)
        label = task if len(its_units) > 1 else "\0single-sample tasks"
        strata.append(Stratum(label, columns, ratio, there.any(axis=0).astype(float)))
    lo, hi = interval(resample(strata, n_resamples=300, seed=3, max_bytes=10**6))
    cells: dict[str, dict[str, Any]] = {}
    for place, model in enumerate(MODELS):
        fates = [r["fate"] for r in mine if r["model_id"] == model]
        task_means = []
        for task in {task for task, _ in units}:
            its_values = [v for (m, t, _), v in value.items() if (m, t) == (model, task)]
            if its_values:
                task_means.append(math.fsum(its_values) / len(its_values))
        its_calls = [c for c in calls if c["model_id"] == model]
        cells[model] = {
            "n_units": sum(m == model for m, _, _ in value),
            "small": sum(m == model for m, _, _ in value) < 10,
            "mean_score": math.fsum(task_means) / len(task_means),
            "mean_ci_lo": lo[place],
            "mean_ci_hi": hi[place],
            "tasks_completed": len(task_means),
            "n_samples": len(fates),
            **{f"n_{fate}": fates.count(fate) for fate in ("scored", "unparsed", "failed", "grader_error")},
            "cost_usd": math.fsum(c["cost_usd"] for c in its_calls),
            "total_tokens": sum(c["input_tokens"] + c["output_tokens"] for c in its_calls),
        }
    best = {model: its["mean_score"] for model, its in cells.items()}
    for its in cells.values():
        its["rank"] = 1 + sum(other > its["mean_score"] + 1e-12 for other in best.values())
    return cells
