"""Which examples stand before which prompt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.errors import DatasetError, OptionError, SchemaError
from evalframe.prompts.assemble import fewshot_paths, needed_paths, suite_rows
from evalframe.prompts.fewshot import FewShotWarning
from evalframe.prompts.templates import MissingFieldWarning

ROWS = [{"id": f"r{i}", "q": f"{i}+{i}?", "a": str(2 * i)} for i in range(6)]


def examples(prompt: str) -> list[str]:
    return prompt.split("\n\n")[:-1]


def test_first_takes_the_pool_in_order_without_the_row_itself(make_task, rows_of) -> None:
    prompts = rows_of(make_task(fewshot={"count": 2}), ROWS)["prompt"].to_list()
    assert prompts[0] == "1+1?\n2\n\n2+2?\n4\n\n0+0?"
    assert prompts[1] == "0+0?\n0\n\n2+2?\n4\n\n1+1?"
    assert prompts[2] == "0+0?\n0\n\n1+1?\n2\n\n2+2?"
    assert prompts[5] == "0+0?\n0\n\n1+1?\n2\n\n5+5?"


def test_random_is_a_permutation_of_numpys_generator(make_task, rows_of) -> None:
    task = make_task(fewshot={"count": 3, "strategy": "random", "seed": 7})
    order = np.random.default_rng(7).permutation(6).tolist()
    prompts = rows_of(task, ROWS)["prompt"].to_list()
    for index, prompt in enumerate(prompts):
        chosen = [ROWS[place] for place in order if place != index][:3]
        assert examples(prompt) == [f"{row['q']}\n{row['a']}" for row in chosen]


def test_num_fewshot_is_the_count(make_task, rows_of) -> None:
    assert rows_of(make_task(num_fewshot=1), ROWS)["prompt"][3] == "0+0?\n0\n\n3+3?"
    assert rows_of(make_task(), ROWS)["prompt"][3] == "3+3?"


def test_own_templates_and_separator(make_task, rows_of) -> None:
    fewshot = {
        "count": 2,
        "prompt_template": "Q={{q}}",
        "target_template": "A={{a}}",
        "example_template": "<{{ id }}: {{prompt}} / {{{target}}}>",
        "separator": " ~ ",
    }
    prompts = rows_of(make_task(prompt="Say {{q}}", fewshot=fewshot), ROWS)["prompt"]
    assert prompts[4] == "<r0: Q=0+0? / {A=0}> ~ <r1: Q=1+1? / {A=2}> ~ Say 4+4?"


def test_prompt_and_target_of_an_example_win_over_fields_of_that_name(make_task, rows_of) -> None:
    lines = [
        {"prompt": "p0", "target": "t0", "q": "q0", "a": "a0"},
        {"prompt": "p1", "target": "t1", "q": "q1", "a": "a1"},
    ]
    assert rows_of(make_task(num_fewshot=1), lines)["prompt"][1] == "q0\na0\n\nq1"
    own = make_task(fewshot={"count": 1, "prompt_template": "{{prompt}}", "target_template": "{{target}}"})
    assert rows_of(own, lines)["prompt"][1] == "p0\nt0\n\nq1"
    without = make_task(prompt=None, num_fewshot=1)
    assert rows_of(without, lines)["prompt"][1] == "p0\na0\n\np1"


def test_braces_in_examples_are_text(make_task, rows_of) -> None:
    lines = [{"q": "{{target}}", "a": "{{prompt}}"}, {"q": "x", "a": "y"}]
    assert rows_of(make_task(num_fewshot=1), lines)["prompt"][1] == "{{target}}\n{{prompt}}\n\nx"


def test_equal_rows_and_equal_prompts_are_no_examples_of_each_other(make_task, rows_of) -> None:
    lines = [
        {"q": "x", "a": "1"},
        {"q": "y", "a": "2"},
        {"q": "x", "a": "1"},
        {"q": "x", "a": "other"},
        {"q": "z", "a": "3"},
    ]
    prompts = rows_of(make_task(num_fewshot=2), lines)["prompt"].to_list()
    for place in (0, 2, 3):
        assert examples(prompts[place]) == ["y\n2", "z\n3"]
    assert examples(prompts[1]) == ["x\n1", "x\n1"]


def test_too_few_rows_are_a_warning_and_all_are_used(make_task, rows_of) -> None:
    with pytest.warns(FewShotWarning, match="5 few-shot examples are asked for, but of the 3 rows .* only 2") as caught:
        prompts = rows_of(make_task(num_fewshot=5), ROWS[:3])["prompt"]
    assert len(caught) == 1
    assert examples(prompts[0]) == ["1+1?\n2", "2+2?\n4"]
    with pytest.warns(FewShotWarning, match="only 0"):
        assert rows_of(make_task(num_fewshot=1), ROWS[:1])["prompt"].to_list() == ["0+0?"]


def test_just_enough_rows_are_no_warning(make_task, rows_of) -> None:
    assert len(examples(rows_of(make_task(num_fewshot=5), ROWS)["prompt"][0])) == 5


def test_a_data_set_of_its_own_is_taken_as_it_is(make_task, read_for) -> None:
    task = make_task(fewshot={"count": 2, "dataset": {"file_id": "train"}})
    pool = read_for(task, ROWS, fewshot=True, name="train.jsonl")
    rows = suite_rows(task, read_for(task, ROWS[:1]), fewshot_records=pool)
    assert rows["prompt"].to_list() == ["0+0?\n0\n\n1+1?\n2\n\n0+0?"]
    many = make_task(fewshot={"count": 9, "dataset": {"file_id": "train"}})
    with pytest.warns(FewShotWarning, match="of the 6 rows of the pool only 6"):
        suite_rows(many, read_for(many, ROWS[:1]), fewshot_records=pool)


def test_a_data_set_of_its_own_must_be_given_whole(make_task, read_for) -> None:
    task = make_task(fewshot={"count": 1, "dataset": {"file_id": "train"}})
    records = read_for(task, ROWS)
    with pytest.raises(OptionError, match="few-shot data set was not given; read it and pass fewshot_records"):
        suite_rows(task, records)
    with pytest.raises(DatasetError, match="the few-shot data set has no rows"):
        suite_rows(task, records, fewshot_records=records.clear())
    with pytest.raises(SchemaError, match=r"few-shot data set: the records lack the columns 'field.q', 'field.a'"):
        suite_rows(task, records, fewshot_records=records.select("line_number", "row"))


def test_paths_go_to_the_data_set_they_are_of(make_task) -> None:
    fewshot = {"count": 1, "prompt_template": "{{p}}", "example_template": "{{prompt}}{{target}}{{note}}"}
    same = make_task(fewshot=fewshot)
    other = make_task(fewshot={**fewshot, "dataset": {"file_id": "train"}})
    off = make_task(fewshot={**fewshot, "count": 0})
    assert needed_paths(same).fields == ("id", "task_id", "question_id", "q", "a", "p", "note")
    assert needed_paths(other).fields == needed_paths(off).fields == ("id", "task_id", "question_id", "q", "a")
    assert fewshot_paths(other).fields == ("p", "a", "note")
    assert fewshot_paths(other).items == ()


def test_missing_fields_are_named_once_for_each_template(make_task, rows_of, read_for) -> None:
    with pytest.warns(MissingFieldWarning) as caught:
        rows_of(make_task(target="{{answr}}", fewshot={"count": 1, "example_template": "{{prompt}}{{nte}}"}), ROWS)
    assert [str(w.message).split(": names")[0] for w in caught] == [
        "task 't', target_template", "task 't', fewshot.example_template",
    ]  # fmt: skip
    task = make_task(fewshot={"count": 1, "dataset": {"file_id": "train"}})
    pool = read_for(task, [{"question": "x", "a": "1"}], fewshot=True, name="train.jsonl")
    with pytest.warns(
        MissingFieldWarning, match=r"task 't', fewshot.prompt_template: names 'q'.* 'question'"
    ) as caught:
        suite_rows(task, read_for(task, ROWS), fewshot_records=pool)
    assert len(caught) == 1


def test_examples_without_answers_are_a_warning(make_task, rows_of) -> None:
    # a manifest that says so is refused; a task that was built by hand need not come from one
    task = make_task(num_fewshot=1).model_copy(update={"target_template": None})
    with pytest.warns(FewShotWarning, match="no target_template, so the few-shot examples have no answers"):
        assert rows_of(task, ROWS)["prompt"][1] == "0+0?\n\n\n1+1?"
    fewshot = make_task(fewshot={"count": 1, "example_template": "{{prompt}}"}).fewshot
    assert rows_of(task.model_copy(update={"fewshot": fewshot}), ROWS)["prompt"][1] == "0+0?\n\n1+1?"


def test_an_example_without_a_prompt_is_an_error(make_task, read_for) -> None:
    task = make_task(prompt=None, fewshot={"count": 1, "dataset": {"file_id": "train"}})
    pool = read_for(task, [{"prompt": "x", "a": "1"}, {"a": "2"}], fewshot=True, name="train.jsonl")
    with pytest.raises(DatasetError, match=r"fewshot.prompt_template: .*no field 'prompt' \(line 2\)"):
        suite_rows(task, read_for(task, [{"prompt": "y", "a": "1"}]), fewshot_records=pool)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(
    letters=st.lists(st.sampled_from("abc"), min_size=1, max_size=7),
    count=st.integers(1, 5),
    strategy=st.sampled_from(["first", "random"]),
    seed=st.integers(0, 9),
)
def test_the_blocks_are_what_a_loop_over_the_rows_gives(
    make_task, rows_of, letters: list[str], count: int, strategy: str, seed: int
) -> None:
    lines = [{"q": letter, "a": str(place)} for place, letter in enumerate(letters)]
    task = make_task(fewshot={"count": count, "strategy": strategy, "seed": seed})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewShotWarning)
        prompts = rows_of(task, lines)["prompt"].to_list()
    order: list[Any] = list(range(len(lines)))
    if strategy == "random":
        order = np.random.default_rng(seed).permutation(len(lines)).tolist()
    for line, prompt in zip(lines, prompts, strict=True):
        others = [lines[place] for place in order if lines[place]["q"] != line["q"]][:count]
        assert examples(prompt) == [f"{other['q']}\n{other['a']}" for other in others]
        assert prompt.endswith(line["q"])


def test_prompts_do_not_depend_on_the_process(tmp_path: Path) -> None:
    code = """
import json, sys
from evalframe.data.local import read_records
from evalframe.manifest.suite import parse_suite
from evalframe.prompts.assemble import needed_paths, suite_rows
fewshot = {"count": 3, "strategy": "random", "seed": 1}
task = parse_suite({"tasks": [{"id": "t", "type": "qa", "dataset": {"file_id": "f"}, "prompt_template": "{{q}}",
    "target_template": "{{a}}", "metrics": [{"id": "m"}], "fewshot": fewshot}]}, metric_names={"m"}).tasks[0]
paths = needed_paths(task)
from pathlib import Path
rows = suite_rows(task, read_records(Path(sys.argv[1]), fields=paths.fields, items=paths.items))
print(json.dumps(rows.to_dicts()))
"""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    outputs = set()
    for seed, threads in (("1", "1"), ("2", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": threads}
        command = [sys.executable, "-c", code, str(path)]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) == len(ROWS)
