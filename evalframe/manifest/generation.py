"""Generation settings of a run: one frozen record, aliases resolved, ranges checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationError

from evalframe.errors import Fault, OptionError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.fields import (
    Flag,
    FlagOrText,
    Real,
    Record,
    Text,
    TextOrObject,
    Texts,
    Whole,
    is_text,
    is_texts,
)
from evalframe.manifest.ranges import range_faults
from evalframe.manifest.reading import plain
from evalframe.manifest.shape import child, faults_of, shown, sorted_faults

ALIASES = {"max_gen_toks": "max_output_tokens", "until": "stop"}
CONTROLS = ("timeout_seconds", "max_retries", "max_empty_retries")

# keys of extra_body that would put a secret into a run's record
_SECRETS = frozenset({"api_key", "apikey", "authorization", "headers", "extra_headers", "token", "access_token"})


def _called(name: str) -> tuple[str, str, str]:
    return ("unknown_key", "is another tool's name", f"did you mean {name!r}?")


def _body(name: str) -> tuple[str, str, str]:
    remedy = f'a server that has it takes it in "extra_body": {{"{name}": ...}}'
    return ("unknown_key", f"there is no setting {name!r}", remedy)


class GenerationSettings(Record):
    """How models are asked. A setting that is None was not given and is not sent: there are no hidden defaults."""

    foreign_keys: ClassVar[Mapping[str, tuple[str, str, str]]] = {
        **dict.fromkeys(("max_tokens", "max_new_tokens", "max_completion_tokens"), _called("max_output_tokens")),
        **dict.fromkeys(("stop_sequences", "stop_strings"), _called("stop")),
        **dict.fromkeys(("system", "system_prompt", "system_instruction"), _called("instructions")),
        **dict.fromkeys(("timeout", "timeout_s"), _called("timeout_seconds")),
        "reasoning_effort": ("unknown_key", "is a key of reasoning", 'write "reasoning": {"effort": ...}'),
        **{name: _body(name) for name in ("seed", "logit_bias", "response_format", "logprobs", "n")},
    }

    instructions: Text | None = Field(default=None, description="System text.")
    temperature: Real | None = Field(default=None, description="0 or more.")
    top_p: Real | None = Field(default=None, description="Above 0, up to 1.")
    max_output_tokens: Whole | None = Field(default=None, description="1 or more; alias max_gen_toks.")
    stop: Texts | None = Field(default=None, description="Texts at which the reply ends; alias until.")
    tools: tuple[dict[str, Any], ...] | None = Field(default=None, description="Tools, as the API takes them.")
    tool_choice: TextOrObject | None = Field(default=None, description="As the API takes it.")
    parallel_tool_calls: Flag | None = Field(default=None, description="As the API takes it.")
    max_tool_calls: Whole | None = Field(default=None, description="1 or more.")
    reasoning: dict[str, Any] | None = Field(default=None, description="As the Responses API takes it.")
    text: dict[str, Any] | None = Field(default=None, description="As the Responses API takes it.")
    truncation: Literal["auto", "disabled"] | None = Field(default=None, description="Of a prompt that is too long.")
    service_tier: Literal["auto", "default", "flex", "priority"] | None = Field(default=None, description="The tier.")
    presence_penalty: Real | None = Field(default=None, description="-2 to 2.")
    frequency_penalty: Real | None = Field(default=None, description="-2 to 2.")

    # passed through to servers that have them
    top_k: Whole | None = Field(default=None, description="-1 or more; servers take -1 or 0 for no limit.")
    min_p: Real | None = Field(default=None, description="0 to 1.")
    repetition_penalty: Real | None = Field(default=None, description="Above 0.")
    do_sample: Flag | None = Field(default=None, description="Whether to sample.")
    extra_body: dict[str, Any] | None = Field(default=None, description="Further keys of the request's body.")
    chat_template_kwargs: dict[str, Any] | None = Field(default=None, description="Arguments of the chat template.")
    prefill_think: FlagOrText | None = Field(default=None, description="Whether, or with what, reasoning begins.")
    use_cache: Flag | None = Field(default=None, description="The server's own cache.")

    # controls of the engine, never sent
    timeout_seconds: Real = Field(default=120, description="Seconds for one attempt.")
    max_retries: Whole = Field(default=2, description="Further attempts after a failure that may pass.")
    max_empty_retries: Whole = Field(default=0, description="Further attempts after an empty reply.")

    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        for alias, name in ALIASES.items():
            value = given.pop(alias, None)
            if value is not None and given.get(name) is None:
                given[name] = value
        return given

    @classmethod
    def known_keys(cls) -> list[str]:
        """All keys that may be written: the fields and the aliases."""
        return [*cls.model_fields, *ALIASES]

    def sent(self) -> dict[str, Any]:
        """Give the settings that were given, as plain JSON values under their own names, without the controls.

        ``stop`` is always a list.

        >>> parse_generation({"max_gen_toks": 8, "until": "END", "max_retries": 0}).sent()
        {'max_output_tokens': 8, 'stop': ['END']}
        """
        return self.model_dump(mode="json", exclude_none=True, exclude=set(CONTROLS))


def parse_generation(
    settings: Mapping[str, Any] | GenerationSettings | None,
    *,
    where: str = "generation",
    limits: Limits = DEFAULT_LIMITS,
) -> GenerationSettings:
    """Read and validate generation settings, all in one pass.

    Args:
        settings: The settings, also inside a lone key ``generation`` (as a settings file has them); None for none.
        where: The path under which faults are named.
        limits: The table of numbers.

    Nulls:
        A null is as good as an absent key.

    Raises:
        OptionError: Every fault, each with its path, the rule, what was seen and what to do.
    """
    given = {} if settings is None else settings
    if isinstance(given, Mapping) and list(given) == ["generation"]:
        given = given["generation"] or {}
    raw, faults = plain(given, where)
    parsed: GenerationSettings | None = None
    try:
        parsed = GenerationSettings.model_validate(raw)
    except ValidationError as error:
        found = list(faults_of(error, where=where, root=GenerationSettings, models={}))
        faults += [_as_written(fault, raw, where) for fault in found]
    if isinstance(raw, Mapping):
        faults += _rule_faults(raw, where, limits)
    if faults or parsed is None:
        raise OptionError.of(sorted_faults(faults), what=where)
    return parsed


def _as_written(fault: Fault, raw: Any, where: str) -> Fault:
    """Name a setting by its alias where only the alias was written."""
    for alias, name in ALIASES.items():
        if fault.where == child(where, name) and isinstance(raw, Mapping) and raw.get(name) is None and alias in raw:
            return Fault(child(where, alias), fault.rule, fault.detail, fault.remedy)
    return fault


def _rule_faults(raw: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    yield from _conflicts(raw, where)
    for key in ("max_output_tokens", "max_gen_toks", "max_tool_calls"):
        yield from range_faults(raw, key, where, 1, whole=True)
    yield from range_faults(raw, "temperature", where, 0)
    yield from range_faults(raw, "top_p", where, 0, 1, above=True)
    yield from range_faults(raw, "min_p", where, 0, 1)
    yield from range_faults(raw, "top_k", where, -1, whole=True)
    yield from range_faults(raw, "repetition_penalty", where, 0, above=True)
    for key in ("presence_penalty", "frequency_penalty"):
        yield from range_faults(raw, key, where, -2, 2)
    yield from range_faults(raw, "timeout_seconds", where, 1, limits.generation_timeout_seconds)
    for key in ("max_retries", "max_empty_retries"):
        yield from range_faults(raw, key, where, 0, limits.generation_retries, whole=True)
    for key in ("stop", "until"):
        yield from _stop_faults(raw.get(key), child(where, key))
    if isinstance(body := raw.get("extra_body"), Mapping):
        for key in body:
            if key.lower().replace("-", "_") in _SECRETS:
                at = child(child(where, "extra_body"), key)
                yield Fault(at, "forbidden", "a secret has no place in settings", "keys come from the environment")


def _conflicts(raw: Mapping[str, Any], where: str) -> Iterator[Fault]:
    for alias, name in ALIASES.items():
        one, other = raw.get(alias), raw.get(name)
        if one is not None and other is not None and _listed(one) != _listed(other):
            detail = f"is {shown(one)}, but {name} is {shown(other)}; the first is an alias of the second"
            yield Fault(child(where, alias), "conflict", detail, "keep one of the two")


def _listed(value: Any) -> Any:
    return [value] if is_text(value) else value


def _stop_faults(value: Any, where: str) -> Iterator[Fault]:
    if is_text(value):
        value = [value]
    if is_texts(value) and "" in value:
        yield Fault(where, "empty", "holds the empty text, at which every reply would end", "leave it out")
