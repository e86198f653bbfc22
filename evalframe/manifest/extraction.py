"""How an answer is read from a reply: the configurations of ``output_extraction`` and their rules."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from evalframe.errors import Fault
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.manifest.fields import Flag, Group, Record, Text, Whole, is_text, is_whole
from evalframe.manifest.reading import plain
from evalframe.manifest.shape import child, faults_of, shown, sorted_faults
from evalframe.words import PostProcess

FLAGS = {"i": re.I, "m": re.M, "s": re.S, "x": re.X, "u": re.U, "a": re.A}


class _Extraction(Record):
    def config(self) -> dict[str, Any]:
        """Give the configuration as plain JSON values, defaults filled in."""
        return self.model_dump(mode="json", exclude_none=True)


class NoExtraction(_Extraction):
    """The reply itself, cleaned and stripped."""

    type: Literal["none"] = Field(default="none", description="Takes the whole reply.")


class TakeFirst(_Extraction):
    """The first non-empty lines."""

    type: Literal["take_first"] = Field(description="Takes the first non-empty lines.")
    lines: Whole = Field(default=1, description="How many lines.", json_schema_extra={"minimum": 1})


class Regex(_Extraction):
    """A group of the first or the last match of a Python regular expression."""

    type: Literal["regex", "regex_last"] = Field(description="Takes a group of the first, or of the last match.")
    pattern: Text = Field(description="A regular expression in the dialect of Python's re.")
    group: Group | None = Field(
        default=None, description="A group's number or name; else group 1 where there is one, else the whole match."
    )
    flags: Text = Field(default="", description="Letters of imsxua.", json_schema_extra={"pattern": "^[imsxua]*$"})

    def config(self) -> dict[str, Any]:
        """Give the configuration, with the group that is taken and the flags in a fixed order."""
        compiled = compile_pattern(self.pattern, self.flags)
        group = self.group if self.group is not None else min(compiled.groups, 1)
        flags = "".join(sorted(set(self.flags)))
        return {"type": self.type, "pattern": self.pattern, "group": group, "flags": flags}


class LabelSet(_Extraction):
    """One of a set of labels."""

    type: Literal["label_set"] = Field(description="Takes the label that the reply answers with.")
    labels: tuple[Text, ...] = Field(
        description="The labels, distinct and not blank.", json_schema_extra={"minItems": 1}
    )
    case_sensitive: Flag = Field(default=False, description="Whether the case of letters must agree.")


class NumberExtraction(_Extraction):
    """The answer's number."""

    type: Literal["number"] = Field(description="Takes the answer's number, as a canonical decimal.")


class PostProcessing(_Extraction):
    """A task file's post-process rule; no part of the suite format."""

    type: Literal["post_process"] = Field(description="Applies a rule of task files.")
    rule: PostProcess = Field(description="The rule.")


_OfSuites = NoExtraction | TakeFirst | Regex | LabelSet | NumberExtraction
Extraction = Annotated[_OfSuites, Field(discriminator="type")]
_AnyExtraction = Annotated[_OfSuites | PostProcessing, Field(discriminator="type")]

MODELS: dict[str, type[Record]] = {
    "none": NoExtraction, "take_first": TakeFirst, "regex": Regex, "regex_last": Regex, "label_set": LabelSet,
    "number": NumberExtraction, "post_process": PostProcessing,
}  # fmt: skip

_ANY: TypeAdapter[Any] = TypeAdapter(_AnyExtraction)


def validate_extraction(
    config: Mapping[str, Any], *, where: str = "extraction", limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, Any], list[Fault]]:
    """Check one extraction configuration.

    Besides the types of the suite format, ``{"type": "post_process", "rule": ...}`` (a rule of task files) is taken.

    Args:
        config: ``{"type": ..., ...}``.
        where: The path under which faults are named.
        limits: The table of numbers.

    Returns:
        The configuration with its defaults filled in, and all its faults; empty where there are faults.
    """
    raw, faults = plain(config, where)
    checked: Any = None
    try:
        checked = _ANY.validate_python(raw)
    except ValidationError as error:
        faults += faults_of(error, where=where, root=None, models=MODELS, tag_after="")
    if isinstance(raw, dict):
        faults += extraction_faults(raw, where, limits)
    if faults or checked is None:
        return {}, sorted_faults(faults)
    return checked.config(), []


def extraction_faults(raw: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    """Check the rules that types alone do not hold; values of wrong types are left to the types."""
    kind = raw.get("type")
    if kind == "take_first" and is_whole(lines := raw.get("lines", 1)) and lines < 1:
        yield Fault(child(where, "lines"), "out_of_range", f"{lines} is below 1", "take 1 line or more")
    if kind in ("regex", "regex_last"):
        yield from _regex_faults(raw, where, limits)
    if kind == "label_set":
        yield from _label_faults(raw, where)


def compile_pattern(pattern: str, flags: str = "") -> re.Pattern[str]:
    """Compile a user's pattern without the warnings that are meant for authors of Python code."""
    bits = 0
    for letter in flags:
        bits |= FLAGS[letter]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern, bits)


def _regex_faults(raw: Mapping[str, Any], where: str, limits: Limits) -> Iterator[Fault]:
    pattern, flags, group = raw.get("pattern"), raw.get("flags"), raw.get("group")
    flags = "" if flags is None else flags
    unknown = [letter for letter in dict.fromkeys(flags) if letter not in FLAGS] if is_text(flags) else []
    if unknown:
        yield Fault(
            child(where, "flags"), "bad_value", f"{shown(flags)} has {', '.join(map(repr, unknown))}",
            f"use letters of {', '.join(FLAGS)} (lower case)",
        )  # fmt: skip
    if is_whole(group) and group < 0:
        yield Fault(child(where, "group"), "bad_group", f"{group} is below 0", "groups count from 1; 0 is the match")
    if not is_text(pattern):
        return
    at = child(where, "pattern")
    if not pattern:
        yield Fault(at, "bad_value", "the pattern is empty and would match everywhere", "write a pattern")
    if len(pattern) > limits.regex_pattern_chars:
        yield Fault(
            at, "too_long", f"has {len(pattern)} characters; at most {limits.regex_pattern_chars} are allowed",
            "shorten the pattern",
        )  # fmt: skip
        return
    usable = flags if is_text(flags) and not unknown else ""
    try:
        compiled = compile_pattern(pattern, usable)
    except re.error as error:
        place = f" at character {error.pos + 1}" if error.pos is not None else ""
        near = f", near {shown(pattern[error.pos : error.pos + 20])}" if error.pos is not None else ""
        yield Fault(at, "bad_pattern", f"does not compile: {error.msg}{place}{near}", "mend the pattern (Python's re)")
    except ValueError as error:
        yield Fault(child(where, "flags"), "bad_value", f"{shown(flags)}: {error}", "leave out one of them")
    except (RecursionError, OverflowError, MemoryError) as error:
        yield Fault(at, "bad_pattern", f"does not compile: {type(error).__name__}: {error}", "simplify the pattern")
    else:
        yield from _group_faults(compiled, group, where)


def _group_faults(compiled: re.Pattern[str], group: Any, where: str) -> Iterator[Fault]:
    names = list(compiled.groupindex)
    there = f"the pattern has {compiled.groups or 'no'} group{'s' if compiled.groups != 1 else ''}"
    there += f", named {', '.join(map(repr, names))}" if names else ""
    missing = (is_whole(group) and group > compiled.groups) or (is_text(group) and group not in names)
    if missing:
        number = is_text(group) and group.isdecimal() and int(group[:9]) <= compiled.groups
        remedy = f"write {group}, without quotes" if number else "name a group that the pattern has, or add one to it"
        yield Fault(child(where, "group"), "bad_group", f"there is no group {shown(group)}; {there}", remedy)


def _label_faults(raw: Mapping[str, Any], where: str) -> Iterator[Fault]:
    labels = raw.get("labels")
    if not isinstance(labels, list | tuple):
        return
    if not labels:
        yield Fault(child(where, "labels"), "empty", "the list is empty", "name the labels")
    seen: dict[str, str] = {}
    for index, label in enumerate(labels):
        if not is_text(label):
            continue
        at = child(child(where, "labels"), index)
        if not label.strip():
            yield Fault(at, "bad_value", f"{shown(label)} is blank", "leave it out, or write a label")
            continue
        word = label.strip() if raw.get("case_sensitive") is True else label.strip().casefold()
        if word in seen:
            hint = "" if seen[word] == label else ' (write "case_sensitive": true if only the case differs)'
            yield Fault(at, "duplicate", f"{shown(label)} is the same as {shown(seen[word])}", f"leave one out{hint}")
        seen.setdefault(word, label)
