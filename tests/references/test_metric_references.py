"""Our figures against the libraries that define them, where the definitions coincide; where they do not, it says so.

The libraries are asked here and now, nothing is copied: sacrebleu 2.x, rouge-score 0.1.x, rapidfuzz, scikit-learn.
"""

import random
from collections import Counter

import numpy as np
import polars as pl
import pytest

from evalframe.metrics import score
from evalframe.metrics.matching import ACCURACY
from evalframe.metrics.overlap import bleu_value
from tests.references.plain_metrics import bleu_parts, longest_common, tokens


def sentences(n: int, *, alphabet: str = "abcdefg", seed: int = 7) -> list[tuple[str, str]]:
    """Pairs of texts of up to 30 words of a small vocabulary, so that n-grams of all orders match."""
    draw = random.Random(seed)

    def one() -> list[str]:
        return [draw.choice(alphabet) * draw.randint(1, 2) for _ in range(draw.randint(1, 30))]

    pairs = []
    for _ in range(n):
        reference = one()
        # half of the candidates are the reference with some words changed
        candidate = (
            [w if draw.random() < 0.8 else draw.choice(alphabet) for w in reference] if draw.random() < 0.5 else one()
        )
        pairs.append((" ".join(candidate), " ".join(reference)))
    return pairs


def test_bleu_parts_are_sacrebleus() -> None:
    """sacrebleu's counts, totals and lengths of a sentence, with blanks as its tokenizer."""
    sacrebleu = pytest.importorskip("sacrebleu")
    for candidate, reference in sentences(200):
        theirs = sacrebleu.sentence_bleu(candidate, [reference], tokenize="none", lowercase=True)
        parts = bleu_parts(tokens(candidate), tokens(reference))
        assert parts == [*theirs.counts, *theirs.totals, theirs.sys_len, theirs.ref_len]
        ours_without_precision = bleu_value(np.array([1.0] * 8 + parts[8:]))
        assert ours_without_precision == pytest.approx(theirs.bp, abs=1e-12)


def test_bleu_4_is_sacrebleus_add_k_where_every_word_matches() -> None:
    """sacrebleu's add-k with k = 1 leaves order 1 as it is; where all words match, (m+1)/(t+1) is m/t.

    Elsewhere the two differ by design: add-one on every order is the contract of bleu_4.
    """
    sacrebleu = pytest.importorskip("sacrebleu")
    draw = random.Random(3)
    for _, reference in sentences(200, seed=11):
        words = reference.split()
        candidate = draw.sample(words, draw.randint(max(1, len(words) // 2), len(words)))
        theirs = sacrebleu.sentence_bleu(
            " ".join(candidate), [reference], tokenize="none", smooth_method="add-k", smooth_value=1
        )
        assert score("bleu_4", " ".join(candidate), [reference]) == pytest.approx(theirs.score / 100, abs=1e-9)


def test_bleu_4_differs_from_sacrebleu_on_short_misses() -> None:
    """The documented difference: nothing right is 0 there and 0.64 here."""
    sacrebleu = pytest.importorskip("sacrebleu")
    assert sacrebleu.sentence_bleu("green tea", ["black coffee"]).score == 0
    assert score("bleu_4", "green tea", ["black coffee"]) == pytest.approx((1 / 3 * 1 / 2) ** 0.25, abs=1e-12)


def test_corpus_parts_are_sacrebleus() -> None:
    """The summed parts are sacrebleu's corpus statistics with one reference a sample."""
    sacrebleu = pytest.importorskip("sacrebleu")
    pairs = sentences(100, seed=5)
    theirs = sacrebleu.corpus_bleu([c for c, _ in pairs], [[r for _, r in pairs]], tokenize="none", lowercase=True)
    summed = np.sum([bleu_parts(tokens(c), tokens(r)) for c, r in pairs], axis=0)
    assert summed.tolist() == [*theirs.counts, *theirs.totals, theirs.sys_len, theirs.ref_len]
    # with counts this large add-one hardly moves the figure
    assert float(bleu_value(summed)) == pytest.approx(theirs.score / 100, abs=0.01)


def test_rouge_l_is_rouge_scores_on_ascii_text() -> None:
    """rouge-score's rougeL F measure without stemmer, with its line breaks read as blanks.

    Its tokenizer keeps a-z and 0-9 only: other scripts vanish and an underscore separates; both empty is 0 there.
    """
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=False)
    for candidate, reference in [
        *sentences(200, seed=2),
        ("Don't\nstop, now!", "don t now -- stop?"),
        ("...", "a"),
        ("B", "a"),
    ]:
        theirs = scorer.score(reference, candidate)["rougeL"].fmeasure
        assert score("rouge_l", candidate, [reference]) == pytest.approx(theirs, abs=1e-12)
    assert scorer.score("Мост", "Мост")["rougeL"].fmeasure == 0
    assert score("rouge_l", "Мост", ["Мост"]) == 1


def test_the_longest_common_subsequence_is_rapidfuzz_s() -> None:
    from rapidfuzz.distance import LCSseq

    for candidate, reference in sentences(300, alphabet="abc", seed=13):
        a, b = candidate.split(), reference.split()
        assert longest_common(a, b) == LCSseq.similarity(a, b)


def test_f1_is_squad_f1_where_its_normalisation_changes_nothing() -> None:
    """SQuAD's F1 over words, for lower-case texts without articles and punctuation (Rajpurkar et al. 2016).

    The published measure drops articles and punctuation and gives 0 where both are empty; f1 does neither.
    """

    def squad(candidate: str, reference: str) -> float:
        ours, theirs = candidate.split(), reference.split()
        shared = sum((Counter(ours) & Counter(theirs)).values())
        if shared == 0:
            return 0.0
        precision, recall = shared / len(ours), shared / len(theirs)
        return 2 * precision * recall / (precision + recall)

    for candidate, reference in sentences(300, alphabet="bcdefg", seed=17):
        assert score("f1", candidate, [reference]) == pytest.approx(squad(candidate, reference), abs=1e-12)


def test_the_mean_of_accuracy_is_scikit_learns() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    draw = random.Random(1)
    gold = [draw.choice("ABCD") for _ in range(500)]
    said = [label if draw.random() < 0.6 else draw.choice("ABCD") for label in gold]
    frame = pl.DataFrame({"prediction": said, "targets": [[label] for label in gold]})
    assert ACCURACY.measure(frame)["score"].mean() == pytest.approx(sklearn.accuracy_score(gold, said), abs=1e-12)
