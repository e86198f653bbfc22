"""What holds for every registered metric: range, order, chunks, scalar = columnar, nothing, best over targets.

Generated from the registry, so that a new metric is held to the laws by being registered. ``code_exec`` starts
processes and scores tests instead of texts: its own tests hold it to them.
"""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.metrics import Metric, score
from evalframe.registry import METRICS

NAMES = [name for name in METRICS.names() if name != "code_exec"]
EVERY_METRIC = pytest.mark.parametrize("name", NAMES)

# texts that meet each other often: words, numbers, scripts, blanks of all kinds, marks, what has no word character
PIECES = ["a", "B", "the", "whale", "42", "-3.5", "1e5", "9007199254740993", "x²", "नदी", "水很清", "e\u0301", "İ", "!",
          "\u200b", "\x1c", "\u3000", "\n", " "]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join) | st.text(max_size=12)
pairs = st.tuples(texts, st.lists(texts, max_size=3))
some_pairs = st.lists(pairs, max_size=6)


def as_frame(drawn: list[tuple[str, list[str]]]) -> pl.DataFrame:
    return pl.DataFrame(drawn, schema={"prediction": pl.String, "targets": pl.List(pl.String)}, orient="row")


def ask(name: str, drawn: list[tuple[str, list[str]]]) -> list[float]:
    metric: Metric = METRICS.get(name)
    return metric.measure(as_frame(drawn))["score"].to_list()


@EVERY_METRIC
def test_the_record_is_complete(name: str) -> None:
    metric: Metric = METRICS.get(name)
    assert metric.name == name
    assert metric.description
    assert "\n" not in metric.description
    assert metric.source
    assert metric.worst in metric.range


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(drawn=some_pairs)
def test_scores_are_in_the_range_and_order_does_not_matter(name: str, drawn: list[tuple[str, list[str]]]) -> None:
    low, high = METRICS.get(name).range
    scores = ask(name, drawn)
    assert len(scores) == len(drawn)
    assert all(low <= value <= high for value in scores)
    assert ask(name, drawn[::-1]) == scores[::-1]


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(drawn=some_pairs, cut=st.integers(0, 6))
def test_chunks_do_not_matter(name: str, drawn: list[tuple[str, list[str]]], cut: int) -> None:
    metric: Metric = METRICS.get(name)
    frame = as_frame(drawn)
    whole = metric.measure(frame)
    pieces = pl.concat([metric.measure(frame[:cut]), metric.measure(frame[cut:])])
    chunked = pl.concat([frame[:cut], frame[cut:]], rechunk=False)  # one frame whose columns are of two chunks
    assert pieces.equals(whole)
    assert metric.measure(chunked).equals(whole)


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(drawn=some_pairs)
def test_the_scalar_door_gives_what_columns_give(name: str, drawn: list[tuple[str, list[str]]]) -> None:
    assert [score(name, prediction, targets) for prediction, targets in drawn] == pytest.approx(
        ask(name, drawn), abs=1e-12
    )


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(pair=pairs, more=texts)
def test_another_target_never_makes_it_worse(name: str, pair: tuple[str, list[str]], more: str) -> None:
    prediction, targets = pair
    metric: Metric = METRICS.get(name)
    sign = 1 if metric.higher_is_better else -1
    before = sign * score(name, prediction, targets)
    for wider in ([*targets, more], [more, *targets]):
        assert sign * score(name, prediction, wider) >= before


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(pair=pairs)
def test_the_best_target_alone_gives_the_score(name: str, pair: tuple[str, list[str]]) -> None:
    prediction, targets = pair
    metric: Metric = METRICS.get(name)
    best = max if metric.higher_is_better else min
    assert score(name, prediction, targets) == best(
        [score(name, prediction, [t]) for t in targets], default=metric.worst
    )


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(text=texts)
def test_a_text_agrees_with_itself(name: str, text: str) -> None:
    # the number keeps numeric_match at work, its digits are tokens to the others
    same = f"{text} 7"
    metric: Metric = METRICS.get(name)
    assert score(name, same, ["no", same]) == (metric.range[1] if metric.higher_is_better else metric.range[0])


@EVERY_METRIC
def test_nothing_to_score(name: str) -> None:
    metric: Metric = METRICS.get(name)
    assert metric.measure(as_frame([])).height == 0
    assert score(name, "a 7", []) == metric.worst
    for prediction, targets in (("", [""]), ("", ["a 7"]), ("a 7", [""]), ("\u200b", ["\f"])):
        assert metric.range[0] <= score(name, prediction, targets) <= metric.range[1]


@EVERY_METRIC
@settings(max_examples=20, deadline=None)
@given(drawn=st.lists(pairs, min_size=1, max_size=5))
def test_an_aggregate_stays_in_the_range_and_does_not_mind_the_order(
    name: str, drawn: list[tuple[str, list[str]]]
) -> None:
    metric: Metric = METRICS.get(name)
    measured = metric.measure(as_frame(drawn))
    if metric.aggregate is None:
        assert measured["parts"].null_count() == len(drawn)
        return
    parts = np.array(measured["parts"].to_list())
    value = float(metric.aggregate(parts.sum(axis=0)))
    assert metric.range[0] <= value <= metric.range[1]
    assert float(metric.aggregate(parts[::-1].sum(axis=0))) == pytest.approx(value, abs=1e-12)
    # the aggregate of one sample is its score, but for a sample without a target, whose score is the worst
    for row, (_, targets) in enumerate(drawn):
        if targets:
            assert float(metric.aggregate(parts[row])) == pytest.approx(measured["score"][row], abs=1e-12)
