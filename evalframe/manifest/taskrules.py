"""The rules of one task record, in the order in which they are told: the first that is broken is the one reported."""

from __future__ import annotations

import ast
import math
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from evalframe.jsontext import Number
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.embedded import embedded_markers
from evalframe.manifest.taskvocabulary import (
    CATEGORIES,
    EXAMPLE_FIELDS,
    FIELDS,
    METRICS,
    POST_PROCESSES,
    REQUIRED,
)
from evalframe.registry import suggestion

_WHITE_SPACE = re.compile(r"\s")


class Broken(NamedTuple):
    """A broken rule: its name, the field at fault (with its path) and what is wrong."""

    rule: str
    field: str
    detail: str


def first_broken(record: Mapping[str, Any], *, limits: Limits = DEFAULT_LIMITS) -> Broken | None:
    """Give the first broken rule: required, unknown, types and values, pairs, few-shot; None: the record is legal.

    Within a stage the fields come in the order of ``FIELDS``. A key that is missing from a few-shot example, or one
    that it may not have, belongs to the stages *required* and *unknown*. Uniqueness is not this function's business.

    Args:
        record: Parsed by ``jsontext.loads`` (numbers as ``Number``), or plain Python values from memory.
        limits: Bound few-shot examples and ``timeout_s``.
    """
    for stage in (_missing, _unknown, partial(_bad_fields, limits=limits), _illegal_pairs, _embedded):
        # a stage may rely on the stages before it, so nothing is read past the first fault
        if broken := next(stage(record), None):
            return broken
    return None


def is_text(value: Any) -> bool:
    """Whether a value is a string that stood in quotes: a ``Number`` is none."""
    return isinstance(value, str) and not isinstance(value, Number)


def is_list(value: Any) -> bool:
    """Whether a value is a list (a tuple from memory counts)."""
    return type(value) is list or (isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray))


def _missing(record: Mapping[str, Any]) -> Iterator[Broken]:
    for name in REQUIRED:
        if name not in record:
            yield Broken("missing_required", name, "is missing; every task has it")
    for place, example in _examples(record):
        for name in EXAMPLE_FIELDS:
            if name not in example:
                yield Broken("missing_required", f"{place}.{name}", "is missing; an example has prompt and completion")


def _unknown(record: Mapping[str, Any]) -> Iterator[Broken]:
    for name in record:
        if name not in FIELDS:
            words = "is no field of a task; {}; what else you know of it goes into metadata"
            yield Broken("unknown_field", str(name), words.format(suggestion(str(name), FIELDS)))
    for place, example in _examples(record):
        for name in example:
            if name not in EXAMPLE_FIELDS:
                yield Broken("unknown_field", f"{place}.{name}", "an example has prompt and completion, nothing else")


def _examples(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    examples = record.get("few_shot_examples")
    if is_list(examples):
        for index, example in enumerate(examples or ()):
            if isinstance(example, Mapping):
                yield f"few_shot_examples[{index}]", example


def _bad_fields(record: Mapping[str, Any], *, limits: Limits) -> Iterator[Broken]:
    yield from _bad_id(record["task_id"])
    yield from _bad_word("category", record["category"], CATEGORIES)
    yield from _bad_prompt(record["prompt"])
    yield from _bad_targets(record["targets"], record["category"])
    yield from _bad_word("metric_name", record["metric_name"], METRICS)
    if "few_shot_examples" in record:
        yield from _bad_examples(record["few_shot_examples"], limits)
    yield from _bad_rule(record["post_process"])
    if "metadata" in record:
        yield from _bad_metadata(record["metadata"], record["category"], limits)


def _bad_id(task_id: Any) -> Iterator[Broken]:
    if not is_text(task_id):
        yield _bad_type("task_id", "a string", task_id)
    elif not task_id:
        yield Broken("bad_value", "task_id", "is empty; give each task an id of its own")
    elif _WHITE_SPACE.search(task_id):
        yield Broken("bad_value", "task_id", f"{shown(task_id)} has white space; write '_', '-' or '/' instead")


def _bad_prompt(prompt: Any) -> Iterator[Broken]:
    if not is_text(prompt):
        yield _bad_type("prompt", "a string", prompt)
    elif not prompt:
        yield Broken("bad_value", "prompt", "is empty")
    elif prompt[-1].isspace():
        yield Broken("bad_value", "prompt", f"ends in white space ({shown(prompt[-20:])}); take it off")


def _bad_targets(targets: Any, category: str) -> Iterator[Broken]:
    if not is_list(targets):
        yield _bad_type("targets", "a list of strings", targets)
        return
    if not targets:
        yield Broken("bad_value", "targets", "is empty; give at least one right answer")
    for index, target in enumerate(targets):
        if not is_text(target):
            remedy = "; put it in quotes" if isinstance(target, Number | int | float) else ""
            yield _bad_type(f"targets[{index}]", "a string", target, remedy)
    if category == "mcq" and not (len(targets) == 1 and targets[0] in tuple("ABCDE")):
        yield Broken("bad_value", "targets", f"must be exactly one letter A-E for mcq, not {shown(list(targets))}")
    if category == "code_exec":
        for index, target in enumerate(targets):
            if fault := python_fault(target):
                words = f"must be Python expressions or test code for code_exec: {fault}"
                yield Broken("bad_value", f"targets[{index}]", words)


def _bad_word(field: str, value: Any, known: Collection[str]) -> Iterator[Broken]:
    if not is_text(value):
        yield _bad_type(field, "a string", value)
    elif value not in known:
        yield Broken("bad_value", field, f"{shown(value)} is not known; {suggestion(value, known)}")


def _bad_rule(rule: Any) -> Iterator[Broken]:
    if is_list(rule):
        yield _bad_type("post_process", "a string", rule, "; exactly one rule, a combination is refused")
    elif is_text(rule) and rule not in POST_PROCESSES and sum(name in rule for name in POST_PROCESSES) > 1:
        words = f"{shown(rule)} is a combination; give exactly one of {', '.join(POST_PROCESSES)}"
        yield Broken("bad_value", "post_process", words)
    else:
        yield from _bad_word("post_process", rule, POST_PROCESSES)


def _bad_examples(examples: Any, limits: Limits) -> Iterator[Broken]:
    field, most = "few_shot_examples", limits.task_fewshot_examples
    if not is_list(examples):
        yield _bad_type(field, "a list", examples, "; leave the field out where there are none")
        return
    if len(examples) > most:
        yield Broken("bad_value", field, f"has {len(examples)} examples; at most {most} are allowed")
    for index, example in enumerate(examples):
        if not isinstance(example, Mapping):
            yield _bad_type(f"{field}[{index}]", "an object with prompt and completion", example)
            continue
        for name in EXAMPLE_FIELDS:
            if not is_text(example[name]):
                yield _bad_type(f"{field}[{index}].{name}", "a string", example[name])


def _bad_metadata(metadata: Any, category: str, limits: Limits) -> Iterator[Broken]:
    if not isinstance(metadata, Mapping):
        yield _bad_type("metadata", "an object", metadata, "; leave the field out where there is none")
        return
    yield from _not_json(metadata, "metadata")
    if category != "code_exec":
        return
    if "timeout_s" in metadata:
        yield from _bad_timeout(metadata["timeout_s"], limits)
    for name in ("setup_code", "solution"):
        if name in metadata and not is_text(metadata[name]):
            yield _bad_type(f"metadata.{name}", "a string", metadata[name])
    if fault := python_fault(metadata.get("setup_code", "pass"), empty_is_legal=True):
        yield Broken("bad_value", "metadata.setup_code", f"must be Python: {fault}")
    if not isinstance(metadata.get("completes_prompt", False), bool):
        yield _bad_type("metadata.completes_prompt", "true or false", metadata["completes_prompt"])


def _bad_timeout(value: Any, limits: Limits) -> Iterator[Broken]:
    field, most = "metadata.timeout_s", limits.code_timeout_seconds_max
    if isinstance(value, bool) or not isinstance(value, Number | int | float):
        yield _bad_type(field, "a number of seconds", value)
    elif not 0 < _float(value) <= most:
        yield Broken("bad_value", field, f"must be over 0 and at most {most:g} seconds, not {shown(value)}")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int from memory beyond the floats
        return math.inf


def _not_json(value: Any, place: str) -> Iterator[Broken]:
    """What a record from memory can hold and JSON can not: keys that are no strings, NaN, dates, sets, arrays."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not is_text(key):
                yield _bad_type(place, "an object whose keys are strings", key, f"; the key {shown(key)} is none")
            yield from _not_json(item, f"{place}.{key}")
    elif is_list(value):
        for index, item in enumerate(value):
            yield from _not_json(item, f"{place}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Broken("bad_value", place, f"is {value}, which JSON does not have; write null")
    elif value is not None and not isinstance(value, str | bool | int | float):
        yield _bad_type(place, "a JSON value", value)


def python_fault(code: str, *, empty_is_legal: bool = False) -> str:
    """Say why a text is no Python; it is parsed, never compiled or run. Empty where it is Python.

    An indent that all lines share is no fault, nor are the blanks around an expression.
    """
    text = textwrap.dedent(code)
    try:
        statements = _tree(text, "exec").body
    except SyntaxError as error:
        return "" if _is_expression(text.strip()) else f"line {error.lineno}: {error.msg}"
    except ValueError as error:  # a zero byte
        return str(error)
    except (RecursionError, MemoryError):
        return "is nested too deeply"
    return "" if statements or empty_is_legal else "there is no code in it"


def _is_expression(text: str) -> bool:
    try:
        return bool(_tree(text, "eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _tree(text: str, mode: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a plain string is legal, and the author's business
        return ast.parse(text, mode=mode)


def _illegal_pairs(record: Mapping[str, Any]) -> Iterator[Broken]:
    category = record["category"]
    rule = CATEGORIES[category]
    for field, allowed in (("metric_name", rule.metrics), ("post_process", rule.post_processes)):
        if record[field] not in allowed:
            words = f"{record[field]} does not go with the category {category}; legal there: {', '.join(allowed)}"
            yield Broken("illegal_pair", field, words)


def _embedded(record: Mapping[str, Any]) -> Iterator[Broken]:
    markers = embedded_markers(record["prompt"])
    if len(markers) > 1:
        seen = " and ".join(repr(marker) for marker in markers)
        words = f"the body holds a few-shot block ({seen} start lines or sentences); move the examples to"
        yield Broken("embedded_few_shot", "prompt", f"{words} few_shot_examples")


def _bad_type(field: str, wanted: str, seen: Any, remedy: str = "") -> Broken:
    return Broken("bad_type", field, f"must be {wanted}, not {kind(seen)}{remedy}")


def kind(value: Any) -> str:
    """Name a value's JSON type for a message: ``the number 5``, ``a list``, ``null``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Number | int | float):
        return f"the number {str(value)[:40]}"
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if is_list(value) else f"a {type(value).__name__}"


def shown(value: Any, most: int = 60) -> str:
    """Show a value on one line, cut short."""
    text = str(value) if isinstance(value, Number) else repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
