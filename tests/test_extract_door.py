"""``extract`` tries an extraction on replies; the helpers give configurations, checked where they are written."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import polars as pl
import pytest

import evalframe as ef
from evalframe.errors import OptionError

ADDED = ["extracted_output", "extraction_status", "extraction_rule"]
TEXTS = ["The answer is 42.", "none here", None, " ", "1, then 2"]


def test_which_rule_took_what() -> None:
    frame = pl.DataFrame({"n": range(5), "output_text": TEXTS, "extraction_status": ["old"] * 5, "z": "z"})
    read = ef.extract(frame, "number")
    assert read.columns == ["n", "output_text", "z", *ADDED]
    assert read.select("n", *ADDED).rows() == [
        (0, "42", "ok", read["extraction_rule"][0]), (1, None, "no_match", read["extraction_rule"][1]),
        (2, None, None, None), (3, None, "empty_output", "blank"), (4, "2", "ok", "last_number"),
    ]  # fmt: skip
    assert frame.columns == ["n", "output_text", "extraction_status", "z"], "what is handed in stays as it is"


FORMS = [TEXTS, tuple(TEXTS), pl.Series(TEXTS), pl.LazyFrame({"output_text": TEXTS})]


@pytest.mark.parametrize("texts", FORMS, ids=lambda texts: type(texts).__name__)
def test_texts_alone(texts: Any) -> None:
    read = ef.extract(texts, ef.regex(r"(\d+)"))
    assert read.columns == ["output_text", *ADDED]
    assert read["extracted_output"].to_list() == ["42", None, None, None, "1"]


def test_it_reads_as_a_run_does(fixtures: Any) -> None:
    run = ef.run(fixtures / "tasks.jsonl", ["mock/rule_based", "mock/noisy"], out=False, progress=False,
                 allow_unsandboxed=True)  # fmt: skip
    task = run.rows.filter(pl.col("category") == "mcq").row(0, named=True)
    letters = run.samples.filter(pl.col("task_id") == task["task_id"])
    read = ef.extract(letters, json.loads(task["extraction"]))
    assert read.height == 2
    assert read.select(letters.columns).equals(letters)
    assert ef.extract(run.generations, "none").height == run.generations.height


def test_empty_texts() -> None:
    assert ef.extract([], "number").height == 0
    assert (
        ef.extract(pl.DataFrame({"output_text": [None, None]}), "number")["extraction_status"].to_list() == [None] * 2
    )
    assert ef.extract(["\ud83d 7"], "number")["extracted_output"].to_list() == ["7"]


@pytest.mark.parametrize(
    ("frame", "config", "words"),
    [
        (TEXTS, "nubmer", "did you mean 'number'"),
        (TEXTS, {"type": "regex", "pattern": "a("}, "unterminated subpattern at character 2"),
        (TEXTS, {"type": "regex"}, "pattern"), (TEXTS, None, "extraction"), (TEXTS, {"pattern": "a"}, "type"),
        (pl.DataFrame({"outputtext": TEXTS}), "number", "did you mean 'outputtext'|rename one"),
        (pl.DataFrame({"output_text": [1]}), "number", r"cast it: .cast\(pl.String\)"),
        ([1], "number", "give texts, and None for none"), ("text", "number", "give a polars frame"),
        (5, "number", "give a polars frame"), (pd.Series(TEXTS), "number", r"polars.from_pandas\(…\) makes one"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(frame: Any, config: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        ef.extract(frame, config)


def test_helpers_give_what_a_manifest_has() -> None:
    assert ef.regex("a(?P<x>b)", group="x", flags="i") == {
        "type": "regex", "pattern": "a(?P<x>b)", "group": "x", "flags": "i"
    }  # fmt: skip
    assert ef.regex_last("a") == {"type": "regex_last", "pattern": "a", "group": 0, "flags": ""}
    assert ef.label_set(("yes", "no"), case_sensitive=True)["labels"] == ["yes", "no"]
    assert ef.take_first() == {"type": "take_first", "lines": 1}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ef.regex("("), "at character 1"), (lambda: ef.regex("a", group=1), "there is no group 1"),
        (lambda: ef.regex_last("a", flags="q"), "use letters of"), (lambda: ef.regex(5), "pattern"),
        (lambda: ef.label_set("yes"), r"write a list, as in \['yes'\]"), (lambda: ef.label_set([]), "name the labels"),
        (lambda: ef.label_set(["a", "A"]), "leave one out"), (lambda: ef.label_set(5), "labels"),
        (lambda: ef.take_first(0), "take 1 line or more"),
    ],
)  # fmt: skip
def test_helpers_refuse_at_the_call(call: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        call()
