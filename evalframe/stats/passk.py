"""pass@k: how likely at least one of k tries is right, from n tries of which c were."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalframe.errors import Fault, OptionError

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Array:
    """Estimate pass@k without bias: 1 - C(n - c, k) / C(n, k).

    The quotient is the product over i < min(k, c) of 1 - max(k, c) / (n - i), because k and c may change places in it;
    it is summed in logs, so that nothing overflows. All terms have one sign, so that nothing cancels either: it agrees
    with exact fractions to 1e-12 for n up to 1,000.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    Args:
        n: Number of tries, 0 or more.
        c: How many were right, 0 to n.
        k: How many are drawn, 1 or more. The three are broadcast.

    Returns:
        In [0, 1], of the broadcast shape.

    Nulls: NaN where k > n: that many tries were not made.

    Raises:
        OptionError: A number is no whole number, negative, c > n or k < 1; each fault is named.

    >>> pass_at_k(10, 3, [1, 5]).round(6).tolist()
    [0.3, 0.916667]
    """
    tries, right, drawn = _checked(n, c, k)
    shape = tries.shape
    # few triples are distinct among many problems, and each costs as many steps as min(k, c)
    triples, place = np.unique(
        np.stack([tries.ravel(), right.ravel(), drawn.ravel()], axis=1), axis=0, return_inverse=True
    )
    tries, right, drawn = triples.T
    more, steps = np.maximum(drawn, right), np.minimum(drawn, right)
    certain, unknown = tries - right < drawn, drawn > tries
    log = np.zeros(len(triples))
    steps[certain | unknown] = 0
    for i in range(int(steps.max(initial=0))):  # at most n steps, each over all triples
        on = i < steps
        log[on] += np.log1p(-more[on] / (tries[on] - i))
    value = np.where(unknown, np.nan, np.where(certain, 1.0, -np.expm1(log)))
    result: Array = value[place.ravel()].reshape(shape)
    return result


def _checked(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> tuple[IntArray, IntArray, IntArray]:
    given = {"n": np.asarray(n), "c": np.asarray(c), "k": np.asarray(k)}
    faults = [
        Fault(name, "bad_type", f"is of type {values.dtype}", "give whole numbers")
        for name, values in given.items()
        if values.size and not np.issubdtype(values.dtype, np.integer)
    ]
    if not faults:
        tries, right, drawn = np.broadcast_arrays(*(values.astype(np.int64) for values in given.values()))
        faults = [
            Fault(name, "bad_value", f"{detail} ({_first(tries, right, drawn, bad)})", remedy)
            for name, detail, bad, remedy in (
                ("n", "is negative", tries < 0, "n is how many tries there were"),
                ("c", "is negative or over n", (right < 0) | (right > tries), "c is how many of the n were right"),
                ("k", "is under 1", drawn < 1, "k is how many tries are drawn: 1 or more"),
            )
            if bad.any()
        ]
    if faults:
        raise OptionError.of(faults, what="pass@k")
    return tries, right, drawn


def _first(n: IntArray, c: IntArray, k: IntArray, bad: NDArray[np.bool_]) -> str:
    return f"n={n[bad][0]}, c={c[bad][0]}, k={k[bad][0]}"
