"""Slices: a field of 100,000 records as a column, 100 groups, pass@k; against the plain per-row versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import polars as pl

from evalframe.fields import find, read_field
from evalframe.jsontext import loads
from evalframe.schemas import METRIC_CHOICES, ROWS, SCORES, TEXTS
from evalframe.slicing import slices
from evalframe.standings import leaderboard
from evalframe.stats.passk import pass_at_k
from tests.benchmarks.harness import Ratio, cpu_seconds

N, GROUPS, MODELS = 100_000, 100, 3
WORDS = ("alpha", "beta", "gamma", "delta", "épsilon", "zeta")


def ratios() -> Iterable[Ratio]:
    yield from field_ratios()
    yield from group_ratios()
    yield pass_ratio()


def records() -> list[str]:
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(WORDS), (N, 44)).tolist()
    return [
        json.dumps(
            {
                "question": " ".join(WORDS[w] for w in pick[:40]), "choices": [WORDS[w] for w in pick[40:]],
                "subject": f"subject {i % 57}", "level": i % 5, "meta": {"tags": sorted({WORDS[w] for w in pick[:2]})},
            },
            separators=(",", ":"), ensure_ascii=False,
        )
        for i, pick in enumerate(picks)
    ]  # fmt: skip


def field_ratios() -> Iterable[Ratio]:
    texts = records()
    objects = pl.Series(texts)
    for name, path, target in (("text", "subject", 2.2), ("number", "level", 3.0), ("list", "meta.tags", 2.2)):

        def per_row(path: str = path) -> list[object]:
            return [find(loads(text), path) for text in texts]

        ours = cpu_seconds(lambda path=path: read_field(objects, path))  # type: ignore[misc]
        yield Ratio("slices", f"a {name} of {N:,} records against parsing each", ours, cpu_seconds(per_row), target)


def frames() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Scores of three models on samples of as many subjects as there are groups."""
    n = 10_000
    rng = np.random.default_rng(1)
    at = pl.int_range(n, dtype=pl.Int64, eager=True)
    metric = [{"id": "f1", "aggregation": "mean", "higher_is_better": True}]
    rows = pl.select(
        task_id=pl.lit("t"), sample_index=at, sample_id=at.cast(pl.String), category=pl.lit("qa"), prompt=pl.lit("?"),
        prompt_hash=pl.lit("0"), target=pl.lit("a"), targets=pl.lit(["a"]), choices=pl.lit(None, TEXTS),
        metrics=pl.lit(metric, METRIC_CHOICES), extraction=pl.lit("{}"),
        row=pl.concat_str(pl.lit('{"subject":"'), at % GROUPS, pl.lit('"}')), metadata=pl.lit("{}"),
    ).select(ROWS.names)  # fmt: skip
    scores = pl.concat(
        rows.select(
            "task_id", "sample_index", model_id=pl.lit(f"m{m}"), repeat=pl.lit(0, pl.Int64), metric=pl.lit("f1"),
            score=pl.Series(rng.random(n)), fate=pl.lit("scored"), correct=pl.lit(True),
            parts=pl.lit(None, pl.List(pl.Float64)), detail=pl.lit(None, pl.String),
        ).select(SCORES.names)
        for m in range(MODELS)
    )  # fmt: skip
    return scores, rows


def group_ratios() -> Iterable[Ratio]:
    scores, rows = frames()
    subject = rows.select("sample_index", subject=pl.col("row").str.json_path_match("$.subject"))

    def by_hand() -> None:
        for value in subject["subject"].unique():
            its = subject.filter(subject=value).select("sample_index")
            leaderboard(
                scores.join(its, on="sample_index", how="semi"), rows=rows.join(its, on="sample_index", how="semi"),
                n_resamples=200,
            )  # fmt: skip

    ours = cpu_seconds(lambda: slices(scores, by="row.subject", rows=rows, n_resamples=200), times=1)
    yield Ratio(
        "slices", f"{GROUPS} groups against a filter and a leaderboard each", ours, cpu_seconds(by_hand, times=1), 4.0
    )


def pass_ratio() -> Ratio:
    rng = np.random.default_rng(2)
    n = rng.integers(1, 101, 20_000)
    c = (n * rng.random(len(n))).astype(np.int64)

    def per_row() -> list[Fraction]:
        return [
            1 - Fraction(math.comb(tries - right, 10), math.comb(tries, 10)) if tries >= 10 else Fraction(0)
            for tries, right in zip(n.tolist(), c.tolist(), strict=True)
        ]

    return Ratio(
        "slices", f"pass@10 of {len(n):,} problems against exact fractions",
        cpu_seconds(lambda: pass_at_k(n, c, 10)), cpu_seconds(per_row), 3.0,
    )  # fmt: skip
