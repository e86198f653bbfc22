"""Log-probabilities of a reply's tokens, in the three shapes that servers give them, as one sum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def summed(logprobs: Any) -> tuple[float | None, int | None]:
    """Add up the log-probabilities of one reply.

    Args:
        logprobs: ``{"content": [{"logprob": …}, …]}`` of chat completions (where a model refused, under
            ``refusal``), ``[{"logprob": …}, …]`` of the Responses API, or ``{"token_logprobs": [-0.1, …]}`` of legacy
            completions.

    Returns:
        The sum of the negative log-probabilities in nats, and how many tokens they are.

    Nulls:
        Both are None where none came, and where one of them is null, not finite or above 0: a sum without it would
        make the reply look likelier than it was.

    >>> summed([{"token": "4", "logprob": -0.25}, {"token": "2", "logprob": -0.5}])
    (0.75, 2)
    >>> summed({"token_logprobs": [-0.25, None]})
    (None, None)
    """
    return total(listed(logprobs))


def total(values: Iterable[Any]) -> tuple[float | None, int | None]:
    """Add up single log-probabilities, as ``summed`` does."""
    found = list(values)
    if not found or not all(is_logprob(value) for value in found):
        return None, None
    return abs(math.fsum(found)), len(found)


def listed(logprobs: Any) -> list[Any]:
    """Give the log-probability of each token, None where a token has none."""
    if isinstance(logprobs, Mapping):
        if isinstance(logprobs.get("token_logprobs"), list):
            return list(logprobs["token_logprobs"])
        # a reply is either an answer or a refusal; both lists are there, one of them null
        logprobs = [*(logprobs.get("content") or ()), *(logprobs.get("refusal") or ())]
    if not isinstance(logprobs, list):
        return []
    return [token.get("logprob") if isinstance(token, Mapping) else None for token in logprobs]


def is_logprob(value: Any) -> bool:
    """Say whether a value is a log-probability: a finite number up to 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value <= 0
