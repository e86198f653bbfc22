"""Cases from the field, kind d: prompts that were altered, leaked their answer, or differed from run to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalframe.data.local import read_records
from evalframe.errors import DatasetError
from evalframe.manifest.records import Preprocess
from evalframe.manifest.suite import parse_suite
from evalframe.metrics import score
from evalframe.preprocessing import Preprocessor
from evalframe.prompts.assemble import needed_paths, suite_rows
from evalframe.prompts.templates import MissingFieldWarning
from evalframe.sandbox.policy import Policy


@pytest.fixture
def rows_of(tmp_path: Path):
    """Records and two templates, to ROWS."""

    def rows(lines: list[dict[str, Any]], prompt: str, target: str = "t", *, on_missing: Any = "warn", **fields: Any):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        task = {"id": "t", "type": "qa", "dataset": {"file_id": "f"}, "metrics": [{"id": "exact_match"}],
                "prompt_template": prompt, "target_template": target, **fields}  # fmt: skip
        suite = parse_suite({"tasks": [task]}, metric_names={"exact_match"})
        paths = needed_paths(suite.tasks[0])
        return suite_rows(
            suite.tasks[0], read_records(path, fields=paths.fields, items=paths.items), on_missing=on_missing
        )

    return rows


def test_C052_inserted_values_are_never_parsed(rows_of) -> None:
    text = "Use {{name}} and {# note #} {% raw %} }} here"
    rows = rows_of([{"text": text}], "Review:\n{{text}}")
    assert rows["prompt"].to_list() == [f"Review:\n{text}"]


PEOPLE = [{"id": 1, "person": {"address": {"city": "Ulm"}}, "note": "n"}, {"id": 2, "person": None, "note": ""}]


def test_C054_a_misspelt_field_is_one_loud_warning(rows_of) -> None:
    with pytest.warns(MissingFieldWarning) as caught:
        rows = rows_of(PEOPLE, "{{person.adress.city}}? {{note}}")
    assert rows["prompt"].to_list() == ["? n", "? "]
    assert len(caught) == 1
    assert "names 'person.adress.city', which is in no row" in str(caught[0].message)
    assert "did you mean 'person.address.city'?" in str(caught[0].message)


def test_C054_or_an_error_where_that_is_asked_for(rows_of) -> None:
    with pytest.raises(DatasetError, match=r"did you mean 'person.address.city'\?"):
        rows_of(PEOPLE, "{{person.adress.city}}? {{note}}", on_missing="error")


def test_C054_a_field_that_some_rows_have_is_fine(rows_of) -> None:
    rows = rows_of(PEOPLE, "{{person.address.city}}? {{note}}", on_missing="error")
    assert rows["prompt"].to_list() == ["Ulm? n", "? "]


def test_C055_braces_of_a_json_example_are_text(rows_of) -> None:
    template = 'Reply as {"label": "...", "n": {"x": 1}} for {{ text }}. Use {curly} or {{{text}}}. Not {{{{text}}.'
    rows = rows_of([{"text": "tea"}], template)
    expected = 'Reply as {"label": "...", "n": {"x": 1}} for tea. Use {curly} or {tea}. Not {{text}}.'
    assert rows["prompt"].to_list() == [expected]


QUIZ = [
    {"id": "r0", "q": "2+2?", "a": "4"}, {"id": "r1", "q": "3+3?", "a": "6"},
    {"id": "r2", "q": "4+4?", "a": "8"}, {"id": "r3", "q": "2+2?", "a": "4"},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::evalframe.prompts.fewshot.FewShotWarning")
def test_C056_no_prompt_shows_its_own_question_for_any_seed(rows_of) -> None:
    for seed in range(50):
        rows = rows_of(QUIZ, "{{q}}", "{{a}}", fewshot={"count": 2, "strategy": "random", "seed": seed})
        for line, prompt in zip(QUIZ, rows["prompt"], strict=True):
            examples = prompt.split("\n\n")[:-1]
            assert len(examples) == 2
            assert f"{line['q']}\n{line['a']}" not in examples


def test_C058_the_seed_alone_decides(rows_of) -> None:
    lines = [{"q": f"{i}?", "a": str(i)} for i in range(20)]
    first, second, third = (
        rows_of(lines, "{{q}}", "{{a}}", fewshot={"count": 3, "strategy": "random", "seed": seed})["prompt"].to_list()
        for seed in (1, 2, 1)
    )
    assert first == third
    assert first != second
    # numpy's generator is the same on every machine; that it stays so is held by the words themselves
    assert first[0] == "1?\n1\n\n10?\n10\n\n18?\n18\n\n0?"


def test_C059_values_go_in_as_they_are(rows_of) -> None:
    line = {"passage": "  Founded in 1931. \n", "answer": " 1931\n"}
    rows = rows_of([line], "{{passage}}\nYear:", "{{answer}}")
    assert rows["prompt"].to_list() == ["  Founded in 1931. \n\nYear:"]
    assert rows["targets"].to_list() == [[" 1931\n"]]
    assert score("exact_match", "1931", rows["targets"][0].to_list()) == 1.0


def test_C059_trimming_is_a_preprocessor_that_says_so() -> None:
    text = "def transform(row):\n    return {key: value.strip() for key, value in row.items()}\n"
    line = {"line_number": [1], "row": ['{"passage":"  Founded in 1931. \\n","answer":" 1931\\n"}']}
    policy = Policy(allow_unsandboxed=True)
    with Preprocessor(Preprocess(source=text), text=text, name="trim.py", files={}, policy=policy) as preprocessor:
        records = preprocessor.records(pl.DataFrame(line), fields=["passage", "answer"])
    assert records.select("field.passage", "field.answer").row(0) == ("Founded in 1931.", "1931")
