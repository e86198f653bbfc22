"""Each row of the table of placeholders, and what is no placeholder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.data.local import read_records
from evalframe.fields import MISSING, find
from evalframe.jsontext import loads, text_of
from evalframe.prompts.paths import is_known, known_paths
from evalframe.prompts.templates import Placeholder, missing_fields, needed_columns, parse, text_expr


@pytest.fixture
def records(tmp_path: Path):
    def read(template: str, lines: list[Any], choices: list[str] | None = None) -> pl.DataFrame:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8")
        fields, items = needed_columns(parse(template), choices)
        return read_records(path, fields=fields, items=items)

    return read


@pytest.fixture
def render(records):
    def render(template: str, *lines: Any, choices: list[str] | None = None) -> Any:
        frame = records(template, list(lines), choices)
        texts = frame.with_columns(text_expr(parse(template), choices=choices).alias("text"))["text"].to_list()
        return texts[0] if len(texts) == 1 else texts

    return render


@pytest.mark.parametrize(
    ("template", "line", "text"),
    [
        ("Q: {{q}}\nA:", '{"q": " x "}', "Q:  x \nA:"),
        ("{{ q }}|{{\tq\n}}", '{"q": "x"}', "x|x"),
        ("{{a.b}}", '{"a.b": 1, "a": {"b": 2}}', "1"),
        ("{{a.b}}", '{"a": {"b": 2}}', "2"),
        ("{{items.0}}{{items.1.k}}{{items.2}}", '{"items": ["x", {"k": "y"}]}', "xy"),
        ("{{row}}", '{"q": "é", "n": [1.50, null]}', '{"q":"é","n":[1.50,null]}'),
        ("{{row}}", '{"row": 1}', '{"row":1}'),
        ("{{row.x}}", '{"row": {"x": 5}}', "5"),
        ("[{{q}}]", '{"q": null}', "[]"),
        ("[{{q}}]", '{"p": 1}', "[]"),
        ("{{b}} {{n}} {{big}}", '{"b": false, "n": 2.50, "big": 9007199254740993}', "false 2.50 9007199254740993"),
        ("{{o}} {{l}}", '{"o": {"z": 1, "a": "ü"}, "l": [1e5, "x", null]}', '{"z":1,"a":"ü"} [1e5,"x",null]'),
        ("{{{q}}}", '{"q": "x"}', "{x}"),
        ("{{{ q }}} {{{q}}}}", '{"q": "x"}', "{x} {x}}"),
        ('{"a": {{q}}}', '{"q": "x"}', '{"a": x}'),
        ("{{{q}}", '{"q": "x"}', "{x"),
        ("{{{{q}}}}", '{"q": "x"}', "{{q}}}}"),
        ("{{{{{{q}}}}", '{"q": "x"}', "{{x}}"),
        ("{{{{{{{q}}}}}", '{"q": "x"}', "{{{x}}}"),
        ("{{q", '{"q": "x"}', "{{q"),
        ("{{q} {{q}}", '{"q": "x"}', "{{q} x"),
        ("{{q {{q}}", '{"q": "x"}', "{{q x"),
        ("}} {q} { {q} }", '{"q": "x"}', "}} {q} { {q} }"),
        ("{{}}{{ }}", '{"q": "x"}', "{{}}{{ }}"),
        ("{{a b}}{{1+1}}", '{"a b": "x", "1+1": "y"}', "xy"),
        ("{{q}}", '{"q": "{{q}} {{{{ }} {# #}"}', "{{q}} {{{{ }} {# #}"),
        ("{{q}}{{p}}", '{"q": "{{", "p": "q}}"}', "{{q}}"),
        ("no placeholder", '{"q": 1}', "no placeholder"),
        ("", '{"q": 1}', ""),
        ("$q ^field.*$ {{^.*$}}", '{"^.*$": "x"}', "$q ^field.*$ x"),
    ],
)
def test_the_table(render, template: str, line: str, text: str) -> None:
    assert render(template, line) == text
    assert render(template, line, line) == [text, text]


def test_choices_of_the_task(render) -> None:
    line = {"choices": ["own"], "choice_list": "own"}
    assert render("{{choices}}\n{{ choice_list }}", line, choices=["ä", 'b"']) == '["ä","b\\""]\nä\nb"'
    assert render("{{choices.0}}", line, choices=["x"]) == "own"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"choices": ["x", 2]}, '["x",2]|x\n2'),
        ({"choices": "x, y"}, "x, y|x, y"),
        ({"choices": [["x"]]}, '[["x"]]|[["x"]]'),
        ({"choices": None}, "|"),
        ({"choices": ["x"], "choice_list": "z"}, '["x"]|x'),
        ({"choice_list": ["x", "y"]}, '|["x","y"]'),
        ({}, "|"),
    ],
)
def test_choices_of_the_row(render, line: dict[str, Any], text: str) -> None:
    assert render("{{choices}}|{{choice_list}}", line) == text


def test_types_may_differ_from_row_to_row(render) -> None:
    assert render("{{v}}", '{"v": 1}', '{"v": "1"}', '{"v": [1]}', "{}") == ["1", "1", "[1]", ""]


def test_a_template_that_is_one_placeholder() -> None:
    assert parse(" {{a}}").single is None
    assert parse("{{{a}}}").single is None
    assert parse("{{ a }}").single == Placeholder("field", "a")
    assert parse("").single is None
    assert parse("{{a}}{{b}}{{a}}").fields == ("a", "b")


def test_a_lone_surrogate_in_a_template_becomes_the_replacement_character(render) -> None:
    assert render("x\ud800{{q}}", {"q": 1}) == "x\ufffd1"


def plain(template: str, row: dict[str, Any]) -> str:
    """The rules, character by character."""
    out, rest = "", template
    while rest:
        if rest.startswith("{{{{"):
            out, rest = out + "{{", rest[4:]
        elif rest.startswith("{{"):
            triple = rest.startswith("{{{")
            opened, closed = ("{{{", "}}}") if triple else ("{{", "}}")
            inner = rest[len(opened) :].split(closed)[0]
            if closed in rest and not set(inner) & set("{}") and inner.strip():
                value = find(row, inner.strip())
                text = "" if value is MISSING else text_of(value)
                out += "{" + text + "}" if triple else text
                rest = rest[len(opened + inner + closed) :]
            elif not set(inner) & set("{}") and closed in rest:
                out, rest = out + opened + inner + closed, rest[len(opened + inner + closed) :]
            else:
                out, rest = out + rest[0], rest[1:]
        else:
            out, rest = out + rest[0], rest[1:]
    return out


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=250, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(["{", "{{", "}", "}}", "q", "p.0", " ", "x\n", "{{q}}", "{{{p.0}}}"]), max_size=9)
)
def test_the_columns_render_as_the_rules_say(render, pieces: list[str]) -> None:
    template = "".join(pieces)
    row = '{"q": "{{q}}", "p": [2.50]}'
    assert render(template, row) == plain(template, loads(row))


def faults(records, template: str, lines: list[Any], **options: Any) -> list[str]:
    found = missing_fields({"prompt_template": parse(template)}, records(template, lines), choices=None, **options)
    return [str(fault) for fault in found]


def test_a_field_in_no_row_is_named_with_the_nearest_path(records) -> None:
    lines = [{"question": 1, "meta": {"subject": "x"}}, {"question": 2}]
    assert faults(records, "{{qestion}}{{question}}{{meta.subjct}}{{qestion}}", lines) == [
        "prompt_template: names 'qestion', which is in no row; it renders empty -> did you mean 'question'?",
        "prompt_template: names 'meta.subjct', which is in no row; it renders empty -> did you mean 'meta.subject'?",
    ]
    assert faults(records, "{{zzz}}", lines)[0].endswith("the rows have 'meta', 'meta.subject', 'question'")
    assert faults(records, "{{zzz}}", [{}])[0].endswith("the rows have no fields")
    assert faults(records, "{{zzz}}", lines, besides=["zzz"]) == []


def test_a_field_that_is_null_everywhere_is_there(records) -> None:
    lines = [{"a": None, "b": {"c": None}, "d.e": None, "l": [None] * 30}, {"c": {"a": 1}}]
    assert faults(records, "{{a}}{{b.c}}{{d.e}}{{l.29}}{{row}}", lines) == []
    assert len(faults(records, "{{a.b}}{{c}}{{c.b}}{{b.a}}{{l.30}}{{d}}", lines)) == 5


def test_choices_that_are_nowhere(records) -> None:
    assert "the task has no choices and no row has a field 'choices'" in faults(records, "{{choices}}", [{"a": 1}])[0]
    assert "give the task its choices" in faults(records, "{{choice_list}}", [{"a": 1}])[0]
    assert faults(records, "{{choices}}{{choice_list}}", [{"choices": None}, {}]) == []
    assert faults(records, "{{choice_list}}", [{"choice_list": "x"}]) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = records("{{choices}}", [{}], ["x"])
    assert missing_fields({"t": parse("{{choices}}{{choice_list}}")}, frame, choices=["x"]) == []


keys = st.sampled_from(["a", "b", "a.b", "0", "c.0.a", ""])
values = st.recursive(
    st.none() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    rows=st.lists(st.dictionaries(keys, values, max_size=3), min_size=1, max_size=3),
    steps=st.lists(st.sampled_from(["a", "b", "0", "1", "c", ""]), min_size=1, max_size=4),
)
def test_known_is_what_can_be_found(tmp_path: Path, rows: list[dict[str, Any]], steps: list[str]) -> None:
    path = ".".join(steps)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = read_records(file, fields=[path])
    assert is_known(frame, path) == any(find(row, path) is not MISSING for row in rows)
    listed = known_paths(frame)
    assert listed == sorted(set(listed))
    assert (path in listed) == is_known(frame, path)
    assert all(any(find(row, known) is not MISSING for row in rows) for known in listed)
