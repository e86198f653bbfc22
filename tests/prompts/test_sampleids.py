"""What samples are called."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from evalframe.errors import DatasetError
from evalframe.prompts.sampleids import SampleIdWarning


@pytest.fixture
def ids(make_task, rows_of):
    def ids(lines: list[Any], **options: Any) -> list[str]:
        return rows_of(make_task("p", "t"), lines, **options)["sample_id"].to_list()

    return ids


def blake(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def test_the_first_field_that_every_row_has(ids) -> None:
    assert ids([{"id": 1, "task_id": "a"}, {"id": "x y", "task_id": "b"}]) == ["1", "x y"]
    assert ids([{"id": 1, "task_id": "a"}, {"task_id": "b"}]) == ["a", "b"]
    assert ids(['{"id": 1, "question_id": 2.50}', '{"id": null, "question_id": true}']) == ["2.50", "true"]
    assert ids(['{"id": 18014398509481985123}', '{"id": 18014398509481985124}']) == [
        "18014398509481985123", "18014398509481985124",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, "", [1], {"a": 1}, []])
def test_what_is_no_id(ids, value: Any) -> None:
    lines = [{"id": "a"}, {"id": value}]
    with pytest.warns(SampleIdWarning, match="named by a hash of their content; give every row an id"):
        assert all(len(found) == 32 for found in ids(lines))
    assert all(len(found) == 32 for found in ids(lines, sample_ids="content"))  # meant so: no warning
    assert ids([{"id": "[a]"}, {"id": "{b}"}]) == ["[a]", "{b}"]


def test_content_ids_are_hashes_made_unique(ids) -> None:
    lines = ['{"q": 1.50}', '{"q": 2}', '{ "q":1.50}', '{"q": 1.5}', '{"q": 1.50}']
    one = blake('{"q":1.50}')
    assert ids(lines) == [one, blake('{"q":2}'), f"{one}-1", blake('{"q":1.5}'), f"{one}-2"]


def test_content_ids_are_the_way_out_of_a_clash(ids) -> None:
    lines = ['{"id": "x", "q": 1}', '{"id": "x", "q": 2}']
    with pytest.raises(DatasetError, match="sample_ids='content'"):
        ids(lines)
    assert ids(lines, sample_ids="content") == [blake('{"id":"x","q":1}'), blake('{"id":"x","q":2}')]


def test_clashes_are_listed_with_their_lines(ids) -> None:
    lines = [*[{"id": "x"}] * 12, "", {"id": 7}, {"id": "ok"}, {"id": "7"}]
    with pytest.raises(DatasetError) as caught:
        ids(lines)
    assert caught.value.faults.select("where", "detail").rows() == [
        ("lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more", 'the id "x" stands 12 times'),
        ("lines 14 and 16", 'the ids 7 and "7" are the same as text'),
    ]
    with pytest.raises(DatasetError, match="and 5 more ids that stand more than once"):
        ids([{"id": i} for i in range(25)] * 2)
