"""JSON text that keeps what was written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.jsontext import JsonTextError, Number, clean, dumps, loads, text_of


@pytest.mark.parametrize(
    "number", ["2.50", "1e5", "1E+400", "-0", "0", "9007199254740993", "1" * 6000, "-12.0e-03", "0.1000"]
)
def test_numbers_stay_as_written(number: str) -> None:
    assert dumps(loads(f'{{"a": [{number}]}}')) == f'{{"a":[{number}]}}'
    assert text_of(loads(number)) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        (None, ""),
        (True, "true"),
        (Number("1.0"), "1.0"),
        ([1, "é"], '[1,"é"]'),
        ({"k": None}, '{"k":null}'),
    ],
)
def test_a_value_as_a_template_renders_it(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ('{"id":2,"w":NaN}', 13, "NaN is not JSON; write null"),
        ('{"s":"NaN","w":-Infinity}', 16, "-Infinity is not JSON"),
        ('{"s":"\\"NaN","w":NaN}', 18, "NaN is not JSON"),
        ('{"a":1,"a":2}', 8, "the key 'a' stands twice"),
        ('{"b": [{"a":1}, {"a":2, "c": "a:", "\\u0061": 3}]}', 36, "the key 'a' stands twice"),
        ('{"a":1} x', 9, "there is more text after the JSON value"),
        ('{"a":', 6, "a JSON value is expected"),
        ("{'a':1}", 2, "a key in double quotes"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_what_is_no_json_says_where(text: str, column: int, says: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        loads(text)
    assert caught.value.column == column
    assert says in caught.value.detail


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean(loads('"\\ud83d\\ude00"')) == "😀"
    assert clean("plain") == "plain"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_dumps_equals_compact_json(value: object) -> None:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert dumps(value) == compact
    assert dumps(loads(compact)) == compact
