"""Models that need no server: one that is right, one that is mostly wrong and sure of it, one that knows one category.

Each is a pure function of (model, task, sample, repeat): order, threads and processes do not matter.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from evalframe.adapters import CallFailed, ContinuationScore, Generation, TaskSpec
from evalframe.errors import AdapterError, UnknownNameError
from evalframe.registry import suggestion

NAMES = ("biased", "noisy", "rule_based")
FAVOURITE = "arithmetic"  # what mock/biased knows where the run has it
WRONG_SHARE = 0.75  # of the answers of mock/noisy

# settings of a model's dict that steer the engine or what is sent; a mock sends nothing
_NOT_USED = {"generation", "prices", "requests_per_minute", "tokens_per_minute", "drop", "rename", "api", "model"}

_NUMBER = re.compile(r"[-+−$€£]*(?:\d[\d,.]*|\.\d+)(?:[eE][-+]?\d+)?\s*%?")
_LETTER = re.compile(r"\(?[A-Za-z]\)?")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_OPPOSITES = {
    "yes": "no", "true": "false", "positive": "negative", "spam": "ham", "entailment": "contradiction",
    "correct": "incorrect", "pass": "fail", "male": "female",
}  # fmt: skip
_OPPOSITES |= {wrong: right for right, wrong in _OPPOSITES.items()}
# many words that no right answer has, so that a token metric gives next to nothing
_NONSENSE = "blorp quux fnord zibble wug plugh snark vorpal mimsy outgrabe"
_BROKEN_CODE = "def broken(:\n    return"


@dataclass(frozen=True, slots=True)
class MockModel:
    """A test model.

    Attributes:
        name: ``rule_based`` is always right (confidence 0.92); ``noisy`` is wrong three times in four (0.85);
            ``biased`` is right in one category (0.9 there, 0.4 elsewhere).
        model_id: Its name in every frame.
        category: The one that ``biased`` knows.
    """

    name: Literal["rule_based", "noisy", "biased"]
    model_id: str
    category: str | None = None

    def prepare(self, categories: Sequence[str]) -> MockModel:
        """Give the model for a run of these categories: ``biased`` knows arithmetic, else the run's first one."""
        if self.name != "biased" or self.category is not None or not categories:
            return self
        return replace(self, category=FAVOURITE if FAVOURITE in categories else categories[0])

    def generate(self, prompt: str, task: TaskSpec) -> Generation:
        """Answer rightly or wrongly, as the model's name says; never fails."""
        draws = _draws(self.name, task)
        right, confidence = self._is_right(task, draws)
        text = right_answer(prompt, task) if right else wrong_answer(prompt, task, next(draws))
        n_tokens = len(_TOKEN.findall(text))
        # tokens are as likely as the model is confident, give or take a half
        nll = -math.log(confidence) * (0.5 + next(draws)) * n_tokens
        return Generation(
            text=text, confidence=confidence, token_nll=nll, token_count=n_tokens, finish_reason="stop",
            input_tokens=len(_TOKEN.findall(prompt)), output_tokens=n_tokens, model_version="1",
        )  # fmt: skip

    def loglikelihood(
        self, contexts: Sequence[str], continuations: Sequence[str], *, task: TaskSpec, deadline: float | None = None
    ) -> list[ContinuationScore]:
        """Hold one of the sample's choices for the likeliest: a right one, or a wrong one, as the model's name says.

        Its probability among the choices is the model's confidence, but never so low that another one is likelier.

        Args:
            contexts: The prompt, once a choice.
            continuations: The choices of ``task``, in order.
            task: The call: what is right stands there.
            deadline: Not looked at.

        Raises:
            CallFailed: ``bad_request``: these are not the choices of the task.
        """
        n = len(task.choices)
        if not n or len(contexts) != n or len(continuations) != n:
            raise CallFailed("bad_request", f"{self.model_id} scores the choices of one task, which has {n}")
        draws = _draws(self.name, task)
        right, confidence = self._is_right(task, draws)
        favoured = _favoured(task, right, next(draws))
        share = 1.0 if n == 1 else max(confidence, 1.25 / n)
        return [
            ContinuationScore(
                math.log(share if place == favoured else (1 - share) / (n - 1)), len(_TOKEN.findall(text)) or 1
            )
            for place, text in enumerate(continuations)
        ]

    def _is_right(self, task: TaskSpec, draws: Iterator[float]) -> tuple[bool, float]:
        """Say whether the model is right in a call, and how sure it is of itself."""
        if self.name == "rule_based":
            return True, 0.92
        if self.name == "noisy":
            return next(draws) >= WRONG_SHARE, 0.85
        right = task.category == (self.category or FAVOURITE)
        return right, 0.9 if right else 0.4


def from_name(rest: str, options: Mapping[str, Any]) -> list[MockModel]:
    """Give the mock that ``mock/<rest>`` names; the option ``category`` says what ``mock/biased`` knows.

    Raises:
        UnknownNameError: There is no such mock; lists those there are.
        AdapterError: An option that mocks do not have.
    """
    if rest not in NAMES:
        raise UnknownNameError(
            f"there is no model 'mock/{rest}'; {suggestion('mock/' + rest, [f'mock/{name}' for name in NAMES])}"
        )
    category = options.get("category")
    if unknown := sorted(set(options) - _NOT_USED - ({"category"} if rest == "biased" else set())):
        raise AdapterError(f"mock/{rest} has no option {unknown[0]!r}; drop it")
    if category is not None and not isinstance(category, str):
        raise AdapterError(f"mock/{rest}: category is {category!r}, not the name of a category")
    return [MockModel(rest, f"mock/{rest}", category)]  # type: ignore[arg-type]


def right_answer(prompt: str, task: TaskSpec) -> str:
    """The first target, of a code task its ``solution``; without a target the last line of the prompt."""
    if _is_code(task) and (solution := _solution(task)) is not None:
        return solution
    if task.targets:
        return task.targets[0]
    return next((line.strip() for line in reversed(prompt.splitlines()) if line.strip()), "")


def wrong_answer(prompt: str, task: TaskSpec, draw: float) -> str:
    """An answer of the right kind that no metric takes for right.

    Another choice, another letter, another number, the opposite label, code that does not compile; for any other
    text words without meaning.

    Args:
        prompt: What was asked.
        task: Where the targets are.
        draw: In [0, 1): which of the possible wrong answers.
    """
    if _is_code(task):
        return _BROKEN_CODE
    targets = {target.strip().lower() for target in task.targets}
    target = task.targets[0].strip() if task.targets else ""
    others = [choice for choice in task.choices if choice.strip().lower() not in targets]
    # where the choices are texts and the target is a letter, it is letters that are asked for
    if not targets & {choice.strip().lower() for choice in task.choices}:
        others = []
    if not others and _LETTER.fullmatch(target):
        others = _other_letters(target, len(task.choices))
    elif not others and _NUMBER.fullmatch(target):
        others = _other_numbers(target)
    elif not others and target.lower() in _OPPOSITES:
        opposite = _OPPOSITES[target.lower()]
        others = [opposite.capitalize() if target[:1].isupper() else opposite]
    others = [other for other in others if other.strip() and other.strip().lower() not in targets]
    return others[int(draw * len(others))] if others else _NONSENSE


def _favoured(task: TaskSpec, right: bool, draw: float) -> int:
    """Give the place of a choice that is right, or of one that is not; where there is none such, of any."""
    targets = {target.strip().lower() for target in task.targets}
    are_right = [choice.strip().lower() in targets for choice in task.choices]
    places = [place for place, is_right in enumerate(are_right) if is_right == right] or range(len(task.choices))
    return places[0] if right else places[int(draw * len(places))]


def _other_letters(target: str, n_choices: int) -> list[str]:
    letters = "ABCDE"[: n_choices if 2 <= n_choices <= 5 else 5]
    own = target.strip("()")
    return [target.replace(own, c if own.isupper() else c.lower()) for c in letters if c != own.upper()]


def _other_numbers(target: str) -> list[str]:
    """Change the first digit: far enough off for any tolerance, and still written like the target."""
    place = re.search(r"[1-9]|\d", target)
    assert place is not None  # _NUMBER has a digit
    return [target[: place.start()] + digit + target[place.end() :] for digit in "123456789" if digit != place.group()]


def _is_code(task: TaskSpec) -> bool:
    return task.metric_name == "code_exec" or task.category == "code_exec"


def _solution(task: TaskSpec) -> str | None:
    """The reference solution, bare: the record's own field, as in a suite, else the task's metadata."""
    record = json.loads(task.row) if '"solution"' in task.row else {}
    for fields in (record, task.metadata):
        if isinstance(fields, Mapping) and isinstance(solution := fields.get("solution"), str):
            return solution
    return None


def _draws(name: str, task: TaskSpec) -> Iterator[float]:
    """Numbers in [0, 1) that depend on nothing but the model's name and the call's key."""
    key = json.dumps([name, task.task_id, task.sample_index, task.repeat]).encode()
    digest = hashlib.blake2b(key, digest_size=32).digest()
    for place in range(0, 32, 8):
        yield (int.from_bytes(digest[place : place + 8], "big") >> 11) / (1 << 53)
