"""The text metrics against sacrebleu, rouge-score and per-row Python, on short answers and on summaries.

Ours are measured on 100,000 rows, through the door that checks; slow peers on a sample of the same rows, and scaled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from evalframe.extractors.numbers import read_number
from evalframe.metrics.record import sharing_work
from evalframe.registry import METRICS
from tests.benchmarks.harness import GATE, Ratio, cpu_pair, peak_megabytes
from tests.benchmarks.rows_of_text import number_rows, short_rows, summary_rows
from tests.references import plain_metrics as plain

N_ROWS = 100_000
N_SAMPLE = {"short": 3_000, "summ": 600, "numbers": 3_000}
MEMORY_ROWS, MEMORY_LIMIT = 1_000_000, 400  # megabytes

Rows = list[tuple[str, list[str]]]

# ours, the peer, and the targets on short answers and on summaries
LINES = [
    ("bleu_4", "sacrebleu sentence_bleu", 60, 35),
    ("bleu_4", "one sacrebleu BLEU()", 35, 22),
    ("rouge_l", "rouge_score", 30, 55),
    ("f1+bleu_4+rouge_l", "per-row Python", 28, 33),
    ("f1", "per-row Python", 7, 3.5),
    ("bleu_4", "per-row Python", 20, 18),
    ("rouge_l", "per-row Python", 5, 22),
    ("rouge_l", "per-row Python by bits", 0, 0),
    ("exact_match", "per-row Python", 4, 3),
]  # fmt: skip


def ratios() -> Iterable[Ratio]:
    short, summaries = short_rows(N_ROWS), summary_rows(N_ROWS)
    yield from _lines("short", short, [(metrics, peer, target) for metrics, peer, target, _ in LINES])
    yield from _lines("summ", summaries, [(metrics, peer, target) for metrics, peer, _, target in LINES])
    yield from _lines("numbers", number_rows(N_ROWS), [("numeric_match", "per-row Python", 0)])
    yield _memory(short)


def _lines(name: str, frame: pl.DataFrame, lines: Iterable[tuple[str, str, float]]) -> Iterable[Ratio]:
    for metrics, peer, target in lines:
        names = metrics.split("+")
        n = N_ROWS if metrics == "exact_match" else N_SAMPLE[name]
        sample: Rows = frame.head(n).rows()
        ours, theirs = cpu_pair(
            partial(_measured, frame, names),
            partial(PEERS.get(peer, _per_row), sample, names),
            times=7 if metrics == "exact_match" else 3,
            share=n / N_ROWS,
        )
        yield Ratio("metrics", f"{name}: {metrics} / {peer}", ours, theirs, target)


def _measured(frame: pl.DataFrame, names: Sequence[str]) -> list[pl.DataFrame]:
    return [metric.measure(frame) for metric in sharing_work([METRICS.get(name) for name in names])]


def _memory(short: pl.DataFrame) -> Ratio:
    """The peak of a fresh process that reads a million rows and scores them, the library and the rows included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pl.concat([short] * (MEMORY_ROWS // N_ROWS)).write_parquet(path)
        code = (
            "import polars as pl; from evalframe.metrics.record import sharing_work; "
            f"from evalframe.registry import METRICS; frame = pl.read_parquet({str(path)!r}); "
            "[metric.measure(frame) for metric in sharing_work([METRICS.get(n) for n in ('f1', 'bleu_4', 'rouge_l')])]"
        )
        peak = peak_megabytes(code)
    # the gate is the limit itself
    return Ratio("metrics", "1,000,000 short rows, 3 metrics: peak / limit", peak, MEMORY_LIMIT, 1 / GATE, unit="MB")


def _per_row(rows: Rows, names: Sequence[str]) -> list[float]:
    scores = []
    for name in names:
        definition = PLAIN[name]
        scores += [definition(prediction, targets) for prediction, targets in rows]
    return scores


def _by_bits(rows: Rows, _: Sequence[str]) -> list[float]:
    """ROUGE-L with a row of the dynamic program in one integer: the fastest per-row Python that we know."""
    return [plain.rouge_l(prediction, targets) for prediction, targets in rows]


def _numeric_match(prediction: str, targets: Sequence[str]) -> float:
    read = read_number(prediction)[0]
    return plain.numbers_agree(read, [read_number(target)[0] for target in targets], abs_tol=1e-9, rel_tol=0.0)


def _sentence_bleu(rows: Rows, _: Sequence[str]) -> list[float]:
    import sacrebleu

    def score(prediction: str, target: str) -> float:
        return sacrebleu.sentence_bleu(
            prediction, [target], smooth_method="add-k", smooth_value=1, lowercase=True
        ).score

    return [max(score(prediction, target) for target in targets) for prediction, targets in rows]


def _one_bleu(rows: Rows, _: Sequence[str]) -> list[float]:
    from sacrebleu.metrics import BLEU

    bleu = BLEU(smooth_method="add-k", smooth_value=1, effective_order=True, lowercase=True)
    return [bleu.sentence_score(prediction, targets).score for prediction, targets in rows]


def _rouge(rows: Rows, _: Sequence[str]) -> list[float]:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"])
    return [scorer.score_multi(targets, prediction)["rougeL"].fmeasure for prediction, targets in rows]


PLAIN: dict[str, Callable[[str, Sequence[str]], float]] = {
    "f1": plain.f1, "bleu_4": plain.bleu_4, "rouge_l": plain.rouge_l_by_table, "exact_match": plain.exact_match,
    "numeric_match": _numeric_match,
}  # fmt: skip
PEERS = {
    "per-row Python by bits": _by_bits,
    "sacrebleu sentence_bleu": _sentence_bleu,
    "one sacrebleu BLEU()": _one_bleu,
    "rouge_score": _rouge,
}
