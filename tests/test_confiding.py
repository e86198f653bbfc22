"""GENERATIONS × ANSWERS to GENERATIONS: the confidence of a call, from each source."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalframe.confiding import Lacks, confide
from evalframe.errors import OptionError, SchemaError
from evalframe.frames import empty, example, from_records
from evalframe.limits import Limits
from evalframe.schemas import ANSWERS, CALL_KEY, GENERATIONS

PERCENT = {"pattern": r"Confidence: (.+)", "scale": "percent"}
UNIT = {"pattern": r"\(p=([^)]*)\)", "scale": "unit"}
FAILED = {"status": "failed", "error_type": "timeout", "error_message": "late", "output_text": None}


def frames(*calls: dict[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Calls of one model and sample, repeats in order, unless they say otherwise; ``answer`` is what was extracted."""
    like = example(GENERATIONS, 1).row(0, named=True)
    plain = like | {"status": "completed", "error_type": None, "error_message": None, "confidence": 0.5,
                    "confidence_source": "adapter", "token_nll": None, "token_count": None}  # fmt: skip
    generations, answers = [], []
    for repeat, call in enumerate(calls):
        key = {"model_id": "m", "task_id": "t", "sample_index": 0, "repeat": repeat}
        known = key | {name: value for name, value in call.items() if name != "answer"}
        generations.append(plain | known)
        answer = call.get("answer")
        answers.append({name: known[name] for name in CALL_KEY} | {
            "extracted_output": answer, "extraction_status": "ok" if answer is not None else "no_match",
            "extraction_rule": "whole_text",
        })  # fmt: skip
    return from_records(generations, GENERATIONS), from_records(answers, ANSWERS)


def found(*calls: dict[str, Any], option: Any, lacks: Lacks | None = None) -> list[tuple[float | None, str | None]]:
    generations, answers = frames(*calls)
    confident = confide(generations, answers, option=option, lacks=lacks)
    assert confident.columns == generations.columns
    but = ["confidence", "confidence_source"]
    assert confident.drop(but).equals(generations.drop(but))
    return confident.select(but).rows()


def stated(*texts: str | None, option: Any, lacks: Lacks | None = None) -> list[float | None]:
    calls = [FAILED if text is None else {"output_text": text} for text in texts]
    rows = found(*calls, option=option, lacks=lacks)
    assert all(source == (None if value is None else "stated") for value, source in rows)
    return [value for value, _ in rows]


@pytest.mark.parametrize("option", [None, "adapter"])
def test_without_a_source_it_is_what_the_call_brought(option: Any) -> None:
    calls = [{}, {"confidence": None, "confidence_source": None}, {"confidence_source": "choice_logprobs"}]
    rows = [(0.5, "adapter"), (None, None), (0.5, "choice_logprobs")]
    assert found(*calls, option=option) == rows


def test_what_an_export_kept_in_place_of_the_adapters_own_is_not_taken_for_it() -> None:
    lacks = Lacks()
    assert found({}, {"confidence_source": "agreement"}, option="adapter", lacks=lacks) == [
        (0.5, "adapter"),
        (None, None),
    ]
    assert lacks.lines() == ["no confidence for replies whose own confidence an export did not keep: m (1 of 2)"]


def test_by_tokens_it_is_the_geometric_mean_of_their_probabilities() -> None:
    nll = -math.log(0.5) - math.log(0.8) - math.log(0.9)
    lacks = Lacks()
    rows = found(
        {"token_nll": nll, "token_count": 3}, {"token_nll": 0.0, "token_count": 5},
        {"token_nll": 1e6, "token_count": 1},
        {"token_nll": 1.0, "token_count": None}, {"token_nll": None, "token_count": 3},
        {"token_nll": 0.0, "token_count": 0}, FAILED | {"token_nll": 1.0, "token_count": 1},
        option="logprobs", lacks=lacks,
    )  # fmt: skip
    assert rows[0] == (pytest.approx((0.5 * 0.8 * 0.9) ** (1 / 3)), "token_logprobs")
    assert rows[1:3] == [(1.0, "token_logprobs"), (0.0, "token_logprobs")]
    # never the adapter's own 0.5 in their place
    assert rows[3:] == [(None, None)] * 4
    assert lacks.lines() == ["no confidence for replies without token log-probabilities: m (3 of 6)"]


def test_a_stated_percentage_is_the_last_match() -> None:
    texts = ["Confidence: 10%\nno, wait\nConfidence: 85%", "Confidence: 85 %", "Confidence: 7.5", "Confidence: .5%",
             "Confidence: 100", "Confidence: 0%", "Confidence: +99", "Confidence: -0", "Confidence: 1e1"]  # fmt: skip
    values = stated(*texts, option=PERCENT)
    assert values == [pytest.approx(v) for v in (0.85, 0.85, 0.075, 0.005, 1.0, 0.0, 0.99, 0.0, 0.1)]
    assert math.copysign(1, values[7] or 0.0) == 1


def test_a_stated_share_of_one() -> None:
    assert stated("(p=0.25)", "(p= 1 )", "(p=1.)", "(p=5e-1)", option=UNIT) == [0.25, 1.0, 1.0, 0.5]


def test_a_scale_is_never_guessed() -> None:
    # 85 is no share of one and 85% no decimal number; 0.85 percent is less than a hundredth
    assert stated("(p=85)", "(p=85%)", option=UNIT) == [None, None]
    assert stated("Confidence: 0.85", option=PERCENT) == [pytest.approx(0.0085)]


def test_what_states_no_legal_number_is_null_and_counted() -> None:
    lacks = Lacks()
    said = ["high", "120%", "-1", "1e999", "nan", "0,5", "50%"]
    texts = ["no idea", *(f"Confidence: {words}" for words in said), "", None]
    assert stated(*texts, option=PERCENT, lacks=lacks) == [None] * 7 + [0.5, None, None]
    assert lacks.lines() == [
        "no confidence for replies that state none by the pattern: m (2 of 9)",
        "no confidence for replies that state no number (first: 'high', task 't', sample 0): m (3 of 9)",
        "no confidence for replies that state a number out of range (0 to 100) (first: '120%', task 't', sample 0): "
        "m (3 of 9)",
    ]


def test_a_pattern_of_pythons_re_alone_is_understood_and_bounded_in_time() -> None:
    option = {"pattern": r"(?<=sure )(?=.*\d)\D*(\d+)", "scale": "percent"}  # Rust has no looking around
    assert stated("sure '80'", "sure 80", option=option) == [0.8, 0.8]
    generations, answers = frames({"output_text": "a" * 60 + "!"}, {"output_text": "0.5"})
    bomb, lacks = {"pattern": r"^((?:a|a)+|0\.5)(?!.)(?<!z)", "scale": "unit"}, Lacks()
    confident = confide(generations, answers, option=bomb, lacks=lacks, limits=Limits(regex_seconds_per_text=0.05))
    assert confident["confidence"].to_list() == [None, 0.5]
    assert lacks.lines() == ["no confidence for replies on which the pattern took too long: m (1 of 2)"]


AGREED = [
    (["7"] * 3, [1.0] * 3),
    (["7", "8", "7", "9"], [0.5, 0.25, 0.5, 0.25]),
    (["7", None, "7"], [2 / 3, None, 2 / 3]),
    ([None, None], [None, None]),
    (["7", "7.0"], [0.5, 0.5]),
    (["", "", "x"], [2 / 3, 2 / 3, 1 / 3]),
]


@pytest.mark.parametrize(("answers", "shares"), AGREED)
def test_agreement_is_the_share_of_repeats_with_the_same_answer(answers: list[Any], shares: list[Any]) -> None:
    rows = found(*({"answer": answer} for answer in answers), option="agreement")
    assert [value for value, _ in rows] == [None if share is None else pytest.approx(share) for share in shares]
    assert [source for _, source in rows] == [None if share is None else "agreement" for share in shares]


def test_repeats_without_a_reply_are_not_counted_and_one_reply_agrees_with_none() -> None:
    lacks = Lacks()
    calls = [{"answer": "7"}, FAILED, {"answer": "7"}, {"answer": "8"}]
    assert [value for value, _ in found(*calls, option="agreement")] == [pytest.approx(v) if v else None for v in
                                                                        (2 / 3, None, 2 / 3, 1 / 3)]  # fmt: skip
    assert found({"answer": "7"}, FAILED, FAILED, option="agreement", lacks=lacks) == [(None, None)] * 3
    assert lacks.lines() == ["no confidence for replies whose sample has no second reply: m (1 of 1)"]


def test_agreement_is_within_a_model_and_a_sample() -> None:
    calls = [
        {
            "model_id": model,
            "task_id": task,
            "sample_index": index,
            "repeat": repeat,
            "answer": "7" if repeat else answer,
        }
        for model, answer in (("a", "7"), ("b", "8"))
        for task in ("t", "u")
        for index in range(2)
        for repeat in range(2)
    ]
    assert [value for value, _ in found(*calls, option="agreement")] == [1.0] * 8 + [0.5] * 8


@settings(max_examples=40)
@given(answers=st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "c"])), min_size=2, max_size=8))
def test_agreement_by_its_plain_definition(answers: list[str | None]) -> None:
    rows = found(*({"answer": answer} for answer in answers), option="agreement")
    for answer, (value, _) in zip(answers, rows, strict=True):
        assert value == (None if answer is None else pytest.approx(answers.count(answer) / len(answers)))


def test_what_lacks_a_confidence_is_counted_over_segments_and_models() -> None:
    lacks = Lacks()
    for model in ("a", "b"):
        for index in range(2):
            calls = [{"model_id": model, "sample_index": index, "repeat": r, "token_nll": 1.0, "token_count": 2 - r}
                     for r in range(3 if model == "a" else 2)]  # fmt: skip
            found(*calls, option="logprobs", lacks=lacks)
    assert lacks.lines() == ["no confidence for replies without token log-probabilities: a (2 of 6)"]


@pytest.mark.parametrize("option", [None, "adapter", "logprobs", "agreement", PERCENT])
def test_no_calls_give_no_confidences(option: Any) -> None:
    lacks = Lacks()
    assert confide(empty(GENERATIONS), empty(ANSWERS), option=option, lacks=lacks).equals(empty(GENERATIONS))
    assert lacks.lines() == []


def test_answers_of_other_calls_are_refused() -> None:
    generations, answers = frames({"answer": "a"}, {"answer": "b"})
    with pytest.raises(SchemaError, match="not of these calls; pass what extract_answers gave"):
        confide(generations, answers.head(1), option="agreement")
    with pytest.raises(SchemaError, match="no generations frame"):
        confide(answers, answers, option=None)
    with pytest.raises(SchemaError, match="no answers frame"):
        confide(generations, generations, option=None)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("logprob", r"no source of a confidence -> did you mean 'logprobs'\?; write 'adapter'"),
        (0.5, r"0\.5 is no source of a confidence -> write 'adapter', 'logprobs', 'agreement', or .*\{\"pattern\""),
        (["agreement"], "is no source"),
        ({}, r"(?s)confidence\.scale: is missing: a scale is never guessed -> write .*confidence\.pattern: is missing"),
        ({"pattern": r"(\d+)"}, r"confidence\.scale: is missing.*\"percent\" for 0 to 100"),
        ({"pattern": r"(\d+)", "scale": "percentage"}, r"confidence\.scale: 'percentage' is no scale"),
        ({"pattern": r"(\d+)", "scale": ["unit"]}, "is no scale"),
        ({"pattern": r"\d+", "scale": "unit"}, r"confidence\.pattern: .* has no group -> put the number in round"),
        ({"pattern": "(", "scale": "unit"}, r"confidence\.pattern: does not compile"),
        ({"pattern": "", "scale": "unit"}, r"confidence\.pattern: '' is no pattern"),
        ({"pattern": 3, "scale": "unit"}, "3 is no pattern -> write one whose group 1 is the number"),
        ({"pattern": "(" + "a" * 100_000 + ")", "scale": "unit"}, "shorten the pattern"),
        ({"pattern": r"(\d+)", "scale": "unit", "sale": 1}, r"confidence\.sale: there is no such key -> did .*'scale'"),
        ({"pattern": r"(\d+)", "scale": "unit", 3: 1}, r"confidence\.3: there is no such key -> known: pattern, scale"),
    ],
)  # fmt: skip
def test_an_option_that_is_wrong_says_what_to_write(option: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        confide(empty(GENERATIONS), empty(ANSWERS), option=option)
