"""Whole stages over many tasks: what a task costs beside its samples, and what a stage holds in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import polars as pl

from evalframe.extracting import extract_answers
from evalframe.scoring import score_answers
from tests.benchmarks.harness import Ratio, cpu_pair, peak_megabytes
from tests.benchmarks.rows_of_runs import generations_of, rows_of
from tests.references.plain_extraction import reader
from tests.references.plain_metrics import exact_match, f1
from tests.references.regex_rows import compiled, reading

ROOM = "stages"
RULES = [
    {"type": "post_process", "rule": rule}
    for rule in ("none", "strip_whitespace", "lower", "extract_letter", "extract_code_block", "extract_first_line")
]
METRICS = ["exact_match", "f1"]
PLAIN = {"exact_match": exact_match, "f1": f1}
MEMORY = """
from evalframe.extracting import extract_answers
from evalframe.scoring import score_answers
from tests.benchmarks.bench_stages import METRICS, RULES
from tests.benchmarks.rows_of_runs import generations_of, rows_of
rows = rows_of(10_000, 1, RULES, METRICS)
generations = generations_of(rows, 100)
{work}
"""
WORK = "score_answers(extract_answers(generations, rows=rows), generations=generations, rows=rows)"


def of_their_own(n: int) -> list[dict[str, Any]]:
    """Make extractions of which no two are the same: patterns, labels, and lines to take."""
    kinds = [
        lambda i: {"type": "regex", "pattern": rf"answer {i} is (\d+)|(?:answer is|Answer:)\s*(\S+)", "group": 2},
        lambda i: {"type": "label_set", "labels": ["A", "B", "C", f"none of {i}"]},
        lambda i: {"type": "take_first", "lines": i},
    ]
    return [kinds[i % 3](i + 1) for i in range(n)]


def ratios() -> Iterator[Ratio]:
    # name, tasks, samples, extractions, models, target of extraction: a thousand patterns take their time to compile
    cases = [
        ("1,000 tasks x 100 samples, an extraction each", 1_000, 100, of_their_own(1_000), 1, 0.0),
        ("10 tasks x 10,000 samples, an extraction each", 10, 10_000, of_their_own(10), 1, 4.0),
        ("task file, 10,000 tasks x 10 models, 6 rules", 10_000, 1, RULES, 10, 1.5),
    ]
    for name, n_tasks, n_samples, configs, n_models, target in cases:
        rows = rows_of(n_tasks, n_samples, configs, METRICS)
        generations = generations_of(rows, n_models)
        extracting = partial(extract_answers, generations, rows=rows)
        ours, theirs = cpu_pair(extracting, partial(_read, generations, rows), times=1)
        yield Ratio(ROOM, f"extract_answers, {name} / per-row Python", ours, theirs, target)
        answers = extracting()
        scoring = partial(score_answers, answers, generations=generations, rows=rows)
        ours, theirs = cpu_pair(scoring, partial(_score, answers, rows))
        yield Ratio(ROOM, f"score_answers, {name} / per-row Python", ours, theirs, target=4.0)
    without, with_work = (peak_megabytes(MEMORY.format(work=work)) for work in ("", WORK))
    name = "both, task file, 1,000,000 calls: peak / of rows and generations alone"
    yield Ratio(ROOM, name, with_work, without, unit="MB")


def _reader(config: dict[str, Any]) -> Callable[[str], Any]:
    if config["type"] != "regex":
        return reader(config)
    plain = compiled(config["pattern"])
    return lambda text: reading(plain, text, group=config["group"], last=False)


def _read(generations: pl.DataFrame, rows: pl.DataFrame) -> list[Any]:
    """Read reply by reply; what is compiled for an extraction is kept."""
    readers = {text: _reader(json.loads(text)) for text in rows["extraction"].unique()}
    keys = rows.select("task_id", "sample_index").rows()
    by_sample = {key: readers[text] for key, text in zip(keys, rows["extraction"].to_list(), strict=True)}
    calls = generations.select("task_id", "sample_index", "output_text").iter_rows()
    return [by_sample[task_id, index](text) if text is not None else None for task_id, index, text in calls]


def _score(answers: pl.DataFrame, rows: pl.DataFrame) -> list[float | None]:
    samples = {
        (task_id, index): (targets, [PLAIN[choice["id"]] for choice in metrics])
        for task_id, index, targets, metrics in rows.select("task_id", "sample_index", "targets", "metrics").iter_rows()
    }
    scores: list[float | None] = []
    for task_id, index, answer in answers.select("task_id", "sample_index", "extracted_output").iter_rows():
        targets, metrics = samples[task_id, index]
        scores += [None if answer is None else metric(answer, targets) for metric in metrics]
    return scores
