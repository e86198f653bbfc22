"""Vectors."""

from __future__ import annotations

from typing import Any

import pytest

from evalframe.adapters import CallFailed
from evalframe.adapters.openai.embeddings import embedding_body, read_embeddings


def test_vectors_come_in_the_order_of_the_texts() -> None:
    assert embedding_body("m", ("a", "b")) == {"model": "m", "input": ["a", "b"]}
    data = [{"index": 1, "embedding": [0.5, 1]}, {"index": 0, "embedding": [0.25, -1.0]}]
    assert read_embeddings({"data": data}, 2) == [[0.25, -1.0], [0.5, 1.0]]
    without = [{"embedding": [1.0]}, {"embedding": [2.0]}]
    assert read_embeddings({"data": without}, 2) == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"index": 0, "embedding": [1.0]}], "2 texts were sent, and 1 vectors came back"),
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}], "indices"),
        ([{"index": 0, "embedding": [1.0]}, {"index": "1", "embedding": [2.0]}], "indices"),
        ([{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}], "differ in length"),
        ([{"embedding": [1.0]}, {"embedding": [float("nan")]}], "not a finite number"),
        ([{"embedding": [1.0]}, {"embedding": []}], "an empty list"),
        ([{"embedding": [1.0]}, {"embedding": "AACAPw=="}], "a text"),
        ([], "data is an empty list"),
        (None, "data is null"),
    ],
)
def test_what_are_no_vectors_fails_the_call(data: Any, words: str) -> None:
    with pytest.raises(CallFailed, match=words) as caught:
        read_embeddings({"data": data}, 2)
    assert caught.value.error_type == "bad_reply"


def test_an_error_of_status_200_fails_the_call() -> None:
    with pytest.raises(CallFailed, match="boom"):
        read_embeddings({"error": {"message": "boom"}}, 1)
