"""Embeddings, over the one path that all these servers have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evalframe.adapters import CallFailed
from evalframe.adapters.openai import replies

PATH = "/embeddings"
MOST_TEXTS = 96  # in one request; some servers take no more than a hundred


def embedding_body(model: str, texts: Sequence[str]) -> dict[str, Any]:
    """Give the body of one request."""
    return {"model": model, "input": list(texts)}


def read_embeddings(document: Mapping[str, Any], n_texts: int) -> list[list[float]]:
    """Read the vectors, in the order of the texts.

    Raises:
        CallFailed: It is an error, no reply of this API, or a vector is missing, empty or not finite.
    """
    replies.refuse_errors(replies.mapping(document, "the document").get("error"))
    items = [replies.mapping(item, "data[]") for item in replies.filled(document.get("data"), "data")]
    if len(items) != n_texts:
        raise CallFailed("bad_reply", f"{n_texts} texts were sent, and {len(items)} vectors came back")
    indices = [item.get("index", place) for place, item in enumerate(items)]
    if sorted(map(repr, indices)) != sorted(map(repr, range(n_texts))):
        raise CallFailed("bad_reply", f"the indices of the vectors are not 0 to {n_texts - 1}")
    vectors = [_vector(item.get("embedding")) for _, item in sorted(zip(indices, items, strict=True), key=_first)]
    if len({len(vector) for vector in vectors}) != 1:
        raise CallFailed("bad_reply", "the vectors differ in length")
    return vectors


def _vector(value: Any) -> list[float]:
    numbers = replies.filled(value, "data[].embedding")
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers):
        raise CallFailed("bad_reply", "an embedding holds something that is not a finite number")
    return [float(number) for number in numbers]


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]
