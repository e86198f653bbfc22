"""f1, bleu_4, rouge_l against values by hand and against the textbook definitions."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.metrics import score
from evalframe.metrics.overlap import CORPUS_BLEU_4, bleu_value
from tests.references.plain_metrics import (
    bleu_of,
    bleu_parts,
    f1_of,
    longest_common,
    longest_common_by_table,
    rouge_l_of,
)

words = st.lists(st.sampled_from("abcd"), max_size=12)


def test_f1_counts_a_repeated_token_as_often_as_both_have_it() -> None:
    # overlap 2 (a twice), c = 3, r = 4
    assert score("f1", "a a a", ["a a b c"]) == pytest.approx(4 / 7, abs=1e-15)


def test_bleu_by_hand() -> None:
    # candidate of 5, reference of 6; matches 5 3 1 0 of 5 4 3 2
    candidate, reference = "the cat sat on mat", "the cat sat the on mat"
    parts = bleu_parts(candidate.split(), reference.split())
    assert parts == [5, 3, 1, 0, 5, 4, 3, 2, 5, 6]
    by_hand = (6 / 6 * 4 / 5 * 2 / 4 * 1 / 3) ** 0.25 * math.exp(1 - 6 / 5)
    assert score("bleu_4", candidate, [reference]) == pytest.approx(by_hand, abs=1e-12)


def test_bleu_has_no_brevity_penalty_for_a_longer_candidate() -> None:
    # 1-grams 4 of 5, 2-grams 3 of 4, 3-grams 2 of 3, 4-grams 1 of 2
    assert score("bleu_4", "a b c d e", ["a b c d"]) == pytest.approx(
        (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25, abs=1e-12
    )


def test_rouge_l_keeps_the_order_of_words_and_reads_over_line_breaks() -> None:
    assert score("rouge_l", "police kill the gunman", ["police killed the gunman"]) == 0.75  # Lin (2004), S2
    assert score("rouge_l", "the gunman\nkill police", ["police killed the gunman"]) == 0.5  # Lin (2004), S3


def test_texts_without_word_characters_are_empty() -> None:
    assert [score(name, "?!", ["…"]) for name in ("f1", "rouge_l", "bleu_4")] == [1, 1, 0]


def test_corpus_bleu_sums_before_it_divides() -> None:
    frame = pl.DataFrame({"prediction": ["a b c d e f", "x y"], "targets": [["a b c d e f"], ["x z z z"]]})
    measured = CORPUS_BLEU_4.measure(frame)
    summed = np.array(measured["parts"].to_list()).sum(axis=0)
    assert summed.tolist() == [7, 5, 4, 3, 8, 6, 4, 3, 8, 10]
    expected = (8 / 9 * 6 / 7 * 5 / 5 * 4 / 4) ** 0.25 * math.exp(1 - 10 / 8)
    assert bleu_value(summed) == pytest.approx(expected, abs=1e-12)
    assert measured["score"].mean() != pytest.approx(expected, abs=1e-3)


def test_corpus_bleu_takes_the_first_of_equally_good_targets() -> None:
    frame = pl.DataFrame({"prediction": ["a b"], "targets": [["q", "b a", "a b c d", "a b", "b a b"]]})
    assert CORPUS_BLEU_4.measure(frame)["parts"][0].to_list() == bleu_parts(["a", "b"], ["a", "b"])
    frame = pl.DataFrame({"prediction": [""], "targets": [["one two", "one"]]})
    assert CORPUS_BLEU_4.measure(frame)["parts"][0].to_list() == [0] * 9 + [2]


def test_aggregate_takes_any_leading_shape() -> None:
    parts = np.array([bleu_parts(["a", "b", "c"], ["a", "b", "d"]), [0.0] * 10])
    stacked = np.stack([parts, parts * 3])
    assert bleu_value(stacked).shape == (2, 2)
    assert bleu_value(stacked)[0].tolist() == bleu_value(parts).tolist()
    assert bleu_value(parts)[1] == 0


def test_a_long_text_is_no_trouble() -> None:
    text = " ".join(f"w{i % 997}" for i in range(20_000))
    assert score("rouge_l", text, [text]) == score("bleu_4", text, [text]) == score("f1", text, [text]) == 1


@given(words, words)
def test_the_longest_common_subsequence_is_that_of_the_dynamic_program(a: list[str], b: list[str]) -> None:
    assert longest_common(a, b) == longest_common(b, a) == longest_common_by_table(a, b)


@given(words, words)
def test_pairs_equal_the_textbook(a: list[str], b: list[str]) -> None:
    overlap = sum((Counter(a) & Counter(b)).values())
    assert f1_of(a, b) == pytest.approx(_harmonic(overlap, a, b), abs=1e-12)
    assert rouge_l_of(a, b) == pytest.approx(_harmonic(longest_common_by_table(a, b), a, b), abs=1e-12)
    assert bleu_of(bleu_parts(a, b)) == pytest.approx(_bleu(a, b), abs=1e-12)
    assert float(bleu_value(np.array(bleu_parts(a, b)))) == bleu_of(bleu_parts(a, b))


def _harmonic(shared: int, a: Sequence[str], b: Sequence[str]) -> float:
    if not a or not b:
        return float(not a and not b)
    precision, recall = shared / len(a), shared / len(b)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


def _bleu(a: Sequence[str], b: Sequence[str]) -> float:
    if not a:
        return 0.0
    product = 1.0
    for n in (1, 2, 3, 4):
        mine = [tuple(a[i : i + n]) for i in range(len(a) - n + 1)]
        theirs = [tuple(b[i : i + n]) for i in range(len(b) - n + 1)]
        clipped = sum(min(mine.count(gram), theirs.count(gram)) for gram in set(mine))
        product *= (clipped + 1) / (len(mine) + 1)
    return product**0.25 * (1.0 if len(a) >= len(b) else math.exp(1 - len(b) / len(a)))
