"""What the scripted server does with a request: rules and steps, latencies, a seeded share of faults."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NORMAL = statistics.NormalDist()

STEP = {
    "text", "text_chars", "delay_seconds", "status", "headers", "body", "message", "code", "finish_reason", "usage",
    "reasoning", "reasoning_field", "tool_calls", "refusal", "logprobs", "reset", "trickle_headers", "trickle_body",
    "close", "retry_after", "retry_after_date", "filter", "chunked",
}  # fmt: skip
RULE = {"match", "model", "path", "steps", "then"}

# what a fault of a share is; each is a step
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "429": {"status": 429, "retry_after": 0},
    "500": {"status": 500},
    "503": {"status": 503},
    "529": {"status": 529},
    "400": {"status": 400},
    "reset": {"reset": "before"},
    "reset_headers": {"reset": "headers"},
    "reset_body": {"reset": "body"},
    "hang_up": {"reset": "hang_up"},
    "bad_json": {"body": '{"choices": [{"mess'},
    "empty": {"text": "", "usage": None},
    "silence": {"delay_seconds": 3600.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of faults over all requests.

    Attributes:
        share: In [0, 1].
        kinds: Names of ``FAULTS``, drawn evenly.
        seed: Of the draw.
        first: Only the first so many attempts of a prompt can be faulty; None: all.
    """

    share: float
    kinds: tuple[str, ...]
    seed: int = 0
    first: int | None = None

    def fault(self, prompt: str, attempt: int, model: str = "") -> str | None:
        """Name the fault of the n-th request (from 1) of a model with a prompt: a pure function of the arguments."""
        if self.first is not None and attempt > self.first:
            return None
        drawn = _uniform(f"{self.seed}\0{model}\0{attempt}\0{prompt}")
        return self.kinds[int(drawn / self.share * len(self.kinds))] if drawn < self.share else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Steps for the requests whose prompt (and model, and path) match; the first rule that matches is taken."""

    match: re.Pattern[str]
    steps: tuple[Mapping[str, Any], ...]
    model: re.Pattern[str] | None = None
    path: re.Pattern[str] | None = None
    then: str = "last"

    def matches(self, prompt: str, model: str, path: str) -> bool:
        return bool(
            self.match.search(prompt)
            and (self.model is None or self.model.search(model))
            and (self.path is None or self.path.search(path))
        )

    def step(self, attempt: int) -> Mapping[str, Any] | None:
        if attempt <= len(self.steps):
            return self.steps[attempt - 1]
        return self.steps[-1] if self.then == "last" else None


@dataclass(slots=True, kw_only=True)
class Script:
    """Everything that can be set over the control path.

    Attributes:
        rules: Tried in order.
        default: The step of what no rule matches.
        latency_seconds: Of every reply.
        lognormal: ``{"median_seconds": …, "sigma": …}``, added to that; a pure function of the prompt.
        faults: A share of faults over what no rule matches.
        refuse: Parameters of a body that are answered with 400.
        models: The models that there are; others are answered with 404. None: all.
        rate: ``{"requests": …, "seconds": …}``: so many in each window of time; what is beyond is answered with 429
            and the milliseconds until the next one, and told apart in the counts.
        require_key: A request without this key is answered with 401, and the message holds the key that was sent.
        record: Keep each request.
    """

    rules: list[Rule] = field(default_factory=list)
    default: Mapping[str, Any] = field(default_factory=dict)
    latency_seconds: float = 0.0
    lognormal: Mapping[str, float] | None = None
    faults: Share | None = None
    refuse: tuple[str, ...] = ()
    models: tuple[str, ...] | None = None
    rate: Mapping[str, float] | None = None
    require_key: str | None = None
    record: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Script:
        """Build a script from JSON values.

        Raises:
            ValueError: A key or a kind of fault that there is not.
        """
        _known(given, {one.name for one in dataclasses.fields(cls)}, "script")
        values = dict(given)
        values["rules"] = [_rule(rule) for rule in given.get("rules", ())]
        _known(given.get("default", {}), STEP, "default")
        if share := given.get("faults"):
            _known(share, {one.name for one in dataclasses.fields(Share)}, "faults")
            _known(dict.fromkeys(share["kinds"]), set(FAULTS), "kinds")
            values["faults"] = Share(**{**share, "kinds": tuple(share["kinds"])})
        values["refuse"] = tuple(given.get("refuse", ()))
        values["models"] = None if given.get("models") is None else tuple(given["models"])
        return cls(**values)

    def step(self, prompt: str, model: str, path: str, seen: Counter[tuple[Any, ...]]) -> tuple[Mapping[str, Any], int]:
        """Choose the step of a request and count it; gives the step and the number of the request (from 1).

        Args:
            seen: Requests until now, by model and prompt, and by rule, model and prompt.
        """
        seen[model, prompt] += 1
        attempt = seen[model, prompt]
        for place, rule in enumerate(self.rules):
            if rule.matches(prompt, model, path):
                seen[place, model, prompt] += 1
                return rule.step(seen[place, model, prompt]) or self.default, attempt
        if self.faults is not None and (fault := self.faults.fault(prompt, attempt, model)):
            return FAULTS[fault], attempt
        return self.default, attempt

    def delay(self, prompt: str, step: Mapping[str, Any]) -> float:
        """Give the seconds until the reply."""
        delay = float(step.get("delay_seconds", self.latency_seconds))
        if self.lognormal is not None and "delay_seconds" not in step:
            drawn = NORMAL.inv_cdf(min(max(_uniform(prompt), 1e-9), 1 - 1e-9))
            delay += self.lognormal["median_seconds"] * math.exp(self.lognormal["sigma"] * drawn)
        return delay


def _uniform(text: str) -> float:
    """A number in [0, 1) that only depends on the text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest()) / 2**48


def _rule(given: Mapping[str, Any]) -> Rule:
    _known(given, RULE, "rule")
    steps: Sequence[Mapping[str, Any]] = given["steps"]
    for step in steps:
        _known(step, STEP, "step")
    if given.get("then", "last") not in {"last", "default"} or not steps:
        raise ValueError('a rule has a step at least, and "then" is "last" or "default"')
    patterns = {name: re.compile(given[name], re.DOTALL) for name in ("model", "path") if given.get(name)}
    match = re.compile(given.get("match", ""), re.DOTALL)
    return Rule(match=match, steps=tuple(steps), then=given.get("then", "last"), **patterns)


def _known(given: Mapping[str, Any], known: set[str], what: str) -> None:
    if unknown := sorted(set(given) - known):
        raise ValueError(f"{what}: {', '.join(unknown)}: there are {', '.join(sorted(known))}")
