"""Log-likelihood requests: which of a sample's choices does the model hold for the likeliest after the prompt?"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from evalframe.adapters import CallFailed, ContinuationScore, Generation, ModelAdapter, TaskSpec

# rounding may bring the sum of a sure continuation a little over 0: that is 0, more than this is no log-probability
_ROUNDING = 1e-3

Norm = str | None


def can_choose(adapter: object) -> bool:
    """Say whether a model can tell how likely a continuation is."""
    return callable(getattr(adapter, "loglikelihood", None))


def continuations(prompt: str, choices: Sequence[str]) -> list[str]:
    r"""Give each choice as it follows the prompt: after one blank, unless there is white space at the seam already.

    >>> continuations("2 + 2 =", ["4", " 5"]), continuations("Q: 2 + 2?\nA: ", ["4", "5"])
    ([' 4', ' 5'], ['4', '5'])
    """
    seam = "" if prompt[-1:].isspace() else " "
    return [choice if choice[:1].isspace() else seam + choice for choice in choices]


def choose(adapter: ModelAdapter, task: TaskSpec, *, norm: Norm = None) -> Generation:
    """Take the likeliest choice of one sample for the model's reply.

    ``text`` is the choice of the greatest summed log-probability, as it stands in the sample, so that extraction and
    metrics see it as they would see a reply. Of equal ones it is the first. With ``norm="bytes"`` each sum is divided
    by the number of UTF-8 bytes of its choice before they are compared: a sum falls with each token, and the shortest
    choice is likely for that alone.

    ``choice_logprobs`` are the sums, and ``confidence`` is their softmax at the choice that was taken, under either
    norm: the probability that the model gives this choice, were it to write one of them. (Means a byte lie close
    together whatever the model holds likely; a softmax of them is no probability of anything.) So with ``norm="bytes"``
    a choice may be taken that is not the most probable one, and its confidence says so.

    Args:
        adapter: A model with ``loglikelihood``. Where that has a parameter ``deadline`` it is told the attempt's; where
            it has one that is called ``task`` it is told the call, as the mocks need it.
        task: The call: its prompt and its choices.
        norm: ``bytes``, or None.

    Raises:
        CallFailed: ``bad_request``: there is no choice, or a blank one. ``bad_reply``: what came is not one legal score
            a choice, or no choice has a chance.
    """
    (outcome,) = choose_batch(adapter, [task], norm=norm)
    if isinstance(outcome, CallFailed):
        raise outcome
    return outcome


def choose_batch(
    adapter: ModelAdapter, tasks: Sequence[TaskSpec], *, norm: Norm = None
) -> list[Generation | CallFailed]:
    """Take the likeliest choice of each sample, with one request for all of them.

    As ``choose``; a sample whose choices or scores are of no use has its failure in its place.

    Raises:
        CallFailed: ``bad_reply``: there is not one score a continuation, so that nobody knows whose is whose.
    """
    asked = [[] if _fault(task) else continuations(task.prompt, task.choices) for task in tasks]
    contexts = [task.prompt for task, own in zip(tasks, asked, strict=True) for _ in own]
    model: Any = adapter  # loglikelihood is no part of what every adapter has
    function = model.loglikelihood
    scores = function(contexts, [text for own in asked for text in own], **_told(function, tasks)) if contexts else []
    if not isinstance(scores, list | tuple) or len(scores) != len(contexts):
        number = f"{len(scores)} scores" if isinstance(scores, list | tuple) else f"a {type(scores).__name__}"
        raise CallFailed("bad_reply", f"loglikelihood gave {number} for {len(contexts)} continuations")
    outcomes: list[Generation | CallFailed] = []
    start = 0
    for task, own in zip(tasks, asked, strict=True):
        try:
            if fault := _fault(task):
                raise CallFailed("bad_request", fault)
            outcomes.append(_likeliest(task.choices, [_legal(s) for s in scores[start : start + len(own)]], norm))
        except CallFailed as failure:
            outcomes.append(failure)
        start += len(own)
    return outcomes


def _fault(task: TaskSpec) -> str:
    """Say why a sample can not be asked for its choices; a run says so before any call."""
    if not task.choices:
        return f"sample {task.sample_id!r} of task {task.task_id!r} has no choices"
    blank = [place for place, choice in enumerate(task.choices) if not choice.strip()]
    return f"choice {blank[0]} of sample {task.sample_id!r} of task {task.task_id!r} is blank" if blank else ""


def _told(function: Callable[..., Any], tasks: Sequence[TaskSpec]) -> dict[str, Any]:
    """Give the keywords that the function of an adapter takes, beside contexts and continuations."""
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of native code
        return {}
    told: dict[str, Any] = {}
    if "deadline" in names:
        told["deadline"] = min((task.deadline for task in tasks if task.deadline is not None), default=None)
    if "task" in names and len(tasks) == 1:
        told["task"] = tasks[0]
    return told


def _legal(score: Any) -> ContinuationScore:
    if not isinstance(score, ContinuationScore):
        raise CallFailed("bad_reply", f"loglikelihood gave a {type(score).__name__}, not a ContinuationScore")
    logprob, n_tokens = score.logprob, score.n_tokens
    if not isinstance(logprob, Real) or isinstance(logprob, bool) or not logprob <= _ROUNDING:  # false for NaN
        raise CallFailed("bad_reply", f"{logprob!r} is no log-probability: those are at most 0 (a missing minus?)")
    if not isinstance(n_tokens, Integral) or isinstance(n_tokens, bool) or n_tokens < 0:
        raise CallFailed("bad_reply", f"n_tokens is {n_tokens!r}, no whole number from 0 up")
    return replace(score, logprob=min(float(logprob), 0.0), n_tokens=int(n_tokens))


def _likeliest(choices: Sequence[str], scores: Sequence[ContinuationScore], norm: Norm) -> Generation:
    sums = [score.logprob for score in scores]
    top = max(sums)
    if top == -math.inf:  # the first of them would be no answer of the model
        raise CallFailed(
            "bad_reply", "every choice has the log-probability -inf: the model gives none of them a chance"
        )
    by = [total / len(choice.encode()) for total, choice in zip(sums, choices, strict=True)] if norm else sums
    place = by.index(max(by))
    shares = [math.exp(total - top) for total in sums]  # at most 1, so that no sum overflows; 0 for -inf
    return Generation(
        text=choices[place],
        confidence=shares[place] / math.fsum(shares),
        token_nll=abs(sums[place]),
        token_count=scores[place].n_tokens,
        reasoning="",  # a choice is no reply in which reasoning could stand
        choice_logprobs=tuple(sums),
        **_told_by([score.told for score in scores if score.told is not None]),
    )


def _told_by(requests: Sequence[Generation]) -> dict[str, Any]:
    """Add up what servers told of the requests that a sample took, so that none of it is lost."""
    told: dict[str, Any] = {}
    for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
        counts = [count for request in requests if (count := getattr(request, name)) is not None]
        told[name] = sum(counts) if counts else None
    for name in ("response_id", "model_version"):
        told[name] = next((value for request in requests if (value := getattr(request, name)) is not None), None)
    return {**told, "raw": b"\n".join(request.raw for request in requests if request.raw)}
