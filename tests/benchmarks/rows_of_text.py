"""Made-up predictions and targets for benchmarks: the same ones each time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

# what a byte scan must not stumble on: other scripts, marks, capitals of odd lower case, glued punctuation
ODD = [
    "İstanbul", "Straße", "ΣΊΣΥΦΟΣ", "naïve", "nai\u0308ve", "Москва", "東京", "हिन्दी", "snake_case", "x²", "½", "Ⅷ",
    "don't", "U.S.", "$1,234.50", "50%", "👍", "ﬁnance", "ＡＢＣ", "zero\u200dwidth", "한국어", "العربية", "١٢٣",
    "café", "ÅNGSTRÖM",
]  # fmt: skip
N_WORDS = 40_000


def short_rows(n: int, *, seed: int = 11) -> pl.DataFrame:
    """Answers of 1 to 8 words."""
    return _rows(n, 1, 8, seed)


def summary_rows(n: int, *, seed: int = 13) -> pl.DataFrame:
    """Summaries of 20 to 80 words."""
    return _rows(n, 20, 80, seed)


def number_rows(n: int, *, seed: int = 17) -> pl.DataFrame:
    """Short reasoning that ends in a number, right in six of ten."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 10_000, n) / rng.choice([1, 1, 1, 4, 10], n)
    said = np.where(rng.random(n) < 0.6, right, right + rng.integers(1, 9, n))
    forms = ["The answer is {:,}.", "12 and 30 make {}", "So the total comes to ${:,.2f}.", "#### {}"]
    which = rng.integers(0, len(forms), n)
    return pl.DataFrame({
        "prediction": [forms[form].format(value) for form, value in zip(which.tolist(), said.tolist(), strict=True)],
        "targets": [[f"{value:g}"] for value in right.tolist()],
    })  # fmt: skip


def _rows(n: int, fewest: int, most: int, seed: int) -> pl.DataFrame:
    """Make rows of one to three targets: the first is what the others and the prediction were edited from, or were not.

    Three predictions of ten are a target as it is, one in a hundred texts is empty.
    """
    rng = np.random.default_rng(seed)
    words = _vocabulary(np.random.default_rng(7))
    n_targets = rng.choice([1, 2, 3], n, p=[0.55, 0.25, 0.2])
    lengths = rng.integers(fewest, most, n, endpoint=True)
    bases = _drawn(rng, int(lengths.sum()))
    row = np.repeat(np.arange(n), n_targets)
    is_first = np.diff(row, prepend=-1) > 0
    target_rates = np.where(is_first, 0.0, rng.choice([0.3, 1.0], row.size, p=[0.7, 0.3]))
    rates = rng.choice([0.0, 0.1, 0.4, 1.0], n, p=[0.3, 0.25, 0.3, 0.15])
    targets = pl.Series(_edited(rng, words, bases, lengths, row, target_rates))
    predictions = _edited(rng, words, bases, lengths, np.arange(n), rates)
    grouped = pl.DataFrame({"row": row, "targets": targets}).group_by("row", maintain_order=True).agg("targets")
    return pl.DataFrame({"prediction": predictions, "targets": grouped["targets"]})


def _vocabulary(rng: np.random.Generator) -> NDArray[np.object_]:
    """Make words of one to three syllables, short ones first; each plain, with a capital, with a comma, in capitals."""
    onsets = ["b", "br", "ch", "d", "f", "g", "k", "l", "m", "n", "p", "qu", "r", "s", "st", "t", "th", "v", "w", "z"]
    vowels = ["a", "e", "i", "o", "u", "ai", "ea", "oo"]
    codas = ["", "n", "r", "s", "t", "l", "nd", "st", "ng", "m", "ck"]
    syllables = [onset + vowel + coda for onset in onsets for vowel in vowels for coda in codas]
    draws = [rng.integers(0, len(syllables), (N_WORDS, 1 + nth // 2)) for nth in range(6)]
    every = dict.fromkeys("".join(syllables[i] for i in draw) for part in draws for draw in part.tolist())
    plain = sorted(list(every)[:N_WORDS], key=len)
    plain[399::200] = [ODD[place % len(ODD)] for place in range(len(plain[399::200]))]
    forms = [plain, [w.capitalize() for w in plain], [w + "," for w in plain], [w.upper() for w in plain]]
    return np.array([form for group in forms for form in group], dtype=object)


def _drawn(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Draw words, frequent ones often (Zipf), most of them plain."""
    ranks = (N_WORDS ** rng.random(n)).astype(np.int64) - 1
    return ranks + N_WORDS * rng.choice(4, n, p=[0.8, 0.1, 0.07, 0.03])


def _edited(
    rng: np.random.Generator,
    words: NDArray[np.object_],
    bases: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    rates: NDArray[np.float64],
) -> list[str]:
    """Make the texts of some rows, each with a share of its words replaced."""
    counts = lengths[rows]
    stops = np.cumsum(counts)
    starts = stops - counts
    within = np.arange(counts.sum()) - np.repeat(starts, counts)
    ids = bases[np.repeat((np.cumsum(lengths) - lengths)[rows], counts) + within]
    changed = np.flatnonzero(rng.random(ids.size) < np.repeat(rates, counts))
    ids[changed] = _drawn(rng, changed.size)
    flat = words[ids].tolist()
    empty = rng.random(rows.size) < 0.01
    spans = zip(starts.tolist(), stops.tolist(), empty.tolist(), strict=True)
    return ["" if none else " ".join(flat[start:stop]) for start, stop, none in spans]
