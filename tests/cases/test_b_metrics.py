"""Cases from the field, kind b: what users of evaluation tools got wrong from metrics."""

from typing import Any

import polars as pl
import pytest

from evalframe.extractors import extract
from evalframe.frames import example, from_records
from evalframe.jsontext import loads, text_of
from evalframe.metrics import score
from evalframe.registry import METRICS
from evalframe.schemas import ANSWERS, GENERATIONS, ROWS
from evalframe.scoring import score_answers
from evalframe.summarising import summarise_tasks


def scores_of(name: str, *pairs: tuple[str, str]) -> list[float]:
    frame = pl.DataFrame({"prediction": [p for p, _ in pairs], "targets": [[t] for _, t in pairs]})
    columnar: list[float] = METRICS.get(name).measure(frame)["score"].to_list()
    assert [score(name, p, [t]) for p, t in pairs] == columnar
    return columnar


def test_C025_outer_white_space_does_not_count() -> None:
    assert scores_of("exact_match", (" Oslo \n", "Oslo"), ("Oslo\u00a0", "Oslo "), ("Oslo\x1c", "\u3000Oslo")) == [
        1,
        1,
        1,
    ]


def test_C026_a_line_break_separates_tokens() -> None:
    reply = "17\n\nParagraph: the river rose"
    assert scores_of("f1", (reply, "17")) == pytest.approx([1 / 3], abs=1e-12)
    first_line = extract(pl.Series([reply]), {"type": "take_first", "lines": 1})["extracted_output"][0]
    assert score("f1", first_line, ["17"]) == 1


def test_C028_nothing_expected_and_nothing_produced() -> None:
    pairs = (("", ""), ("", "fern"), ("fern", ""))
    for name in ("exact_match", "f1", "rouge_l"):
        assert scores_of(name, *pairs) == [1, 0, 0]


def test_C029_no_tokens_is_no_overlap_and_no_crash() -> None:
    pairs = (("", "warm bread rolls today"), ("warm bread", "\f"), ("\u200b", "warm bread rolls today"))
    empty_candidate, no_reference, invisible = scores_of("bleu_4", *pairs)
    assert (empty_candidate, invisible) == (0, 0)
    # the case wants 0 for a reference without tokens; the contract's add-one on every order leaves (1/3 * 1/2) ** (1/4)
    assert no_reference == pytest.approx((1 / 3 * 1 / 2) ** 0.25, abs=1e-12)


def test_C030_scripts_other_than_latin() -> None:
    pairs = (("नदी का पानी साफ है", "नदी का पानी साफ है"), ("河水很清", "河水很清"), ("Мост закрыт", "Мост открыт"))
    assert scores_of("rouge_l", *pairs) == [1.0, 1.0, 0.5]
    assert scores_of("f1", *pairs) == [1.0, 1.0, 0.5]


def test_C032_a_short_right_answer_scores_1() -> None:
    right = [(text, text) for text in ("green tea", "ok", "the old stone bridge")]
    assert scores_of("bleu_4", *right) == [1.0, 1.0, 1.0]
    # the case says about 0.51; the contract's formula gives (1/3 * 1/2 * 1 * 1) ** (1/4), 0.639
    assert scores_of("bleu_4", ("green tea", "black coffee")) == pytest.approx([(1 / 6) ** 0.25], abs=1e-12)
    assert "flatters short misses" in METRICS.get("bleu_4").description


def test_C033_the_best_target_counts() -> None:
    # exact_match and f1 of the case drop articles, which exact_match and f1 of the contract do not
    targets = ["whale", "the blue whale", "orca"]
    assert score("rouge_l", "blue whale", targets) == pytest.approx(0.8, abs=1e-12)
    assert score("f1", "blue whale", targets) == pytest.approx(0.8, abs=1e-12)
    assert score("exact_match", "blue whale", targets) == 0
    assert score("exact_match", "blue whale", [*targets, "blue whale"]) == 1


def test_C035_rows_are_compared_one_by_one() -> None:
    scores = scores_of("exact_match", ("maple", "maple"), ("oak", "elm"))
    assert scores == [1, 0]
    assert sum(scores) / len(scores) == 0.5


def test_C036_odd_types_are_texts_and_no_reply_is_null() -> None:
    targets = [text_of(loads(text)) for text in ('{"amount": 3}', "7", "true", '{"amount": 3}')]
    replies: list[Any] = [None, "7", "true", '{"amount":3}']
    base = example(ROWS, 1).row(0, named=True)
    metrics = [{"id": "exact_match", "aggregation": "mean", "higher_is_better": True}]
    rows = from_records(
        [base | {"sample_index": i, "targets": [t], "metrics": metrics} for i, t in enumerate(targets)], ROWS
    )
    call = example(GENERATIONS, 1).row(0, named=True) | {"task_id": base["task_id"]}
    failed = {"status": "failed", "error_type": "timeout", "output_text": None}
    generations = from_records(
        [
            call | {"sample_index": i} | (failed if r is None else {"output_text": r, "error_type": None})
            for i, r in enumerate(replies)
        ],
        GENERATIONS,
    )
    found = extract(generations["output_text"], {"type": "none"})
    answers = generations.select(ANSWERS.names[:4]).hstack(found)
    scores = score_answers(answers, generations=generations, rows=rows)
    assert scores["score"].to_list() == [None, 1, 1, 1]
    assert scores["fate"].to_list() == ["failed", "scored", "scored", "scored"]
    summary = summarise_tasks(scores, rows=rows).row(0, named=True)
    assert (summary["value"], summary["n_samples"], summary["n_failed"]) == (1.0, 4, 1)
