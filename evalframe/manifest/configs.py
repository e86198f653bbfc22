"""Extraction configurations as calls: each is checked where it is written, and is the dict that a manifest has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evalframe.errors import OptionError
from evalframe.manifest.extraction import validate_extraction


def regex(pattern: str, *, group: int | str | None = None, flags: str = "") -> dict[str, Any]:
    r"""Take a group of the first match of a Python regular expression.

    Args:
        pattern: In the dialect of Python's ``re``.
        group: A group's number or name; None: group 1 where there is one, else the whole match.
        flags: Letters of ``imsxua``.

    Raises:
        OptionError: The pattern does not compile (with the position), or there is no such group or flag.

    >>> regex(r"answer is (\S+)")
    {'type': 'regex', 'pattern': 'answer is (\\S+)', 'group': 1, 'flags': ''}
    """
    return _checked({"type": "regex", "pattern": pattern, "group": group, "flags": flags})


def regex_last(pattern: str, *, group: int | str | None = None, flags: str = "") -> dict[str, Any]:
    """Take a group of the last match of a Python regular expression; else as ``regex``."""
    return _checked({"type": "regex_last", "pattern": pattern, "group": group, "flags": flags})


def label_set(labels: Sequence[str], *, case_sensitive: bool = False) -> dict[str, Any]:
    """Take the label that a reply answers with.

    Args:
        labels: Distinct texts, none blank.
        case_sensitive: Whether the case of letters must agree.

    Raises:
        OptionError: The labels are no list of distinct texts.

    >>> label_set(["yes", "no"])
    {'type': 'label_set', 'labels': ['yes', 'no'], 'case_sensitive': False}
    """
    if isinstance(labels, str):
        raise OptionError(f"label_set: labels is one text; write a list, as in [{labels!r}]")
    listed = list(labels) if isinstance(labels, Sequence) else labels
    return _checked({"type": "label_set", "labels": listed, "case_sensitive": case_sensitive})


def take_first(lines: int = 1) -> dict[str, Any]:
    """Take the first non-empty lines of a reply.

    Args:
        lines: How many, from 1 up.

    Raises:
        OptionError: ``lines`` is no whole number from 1 up.

    >>> take_first(2)
    {'type': 'take_first', 'lines': 2}
    """
    return _checked({"type": "take_first", "lines": lines})


def _checked(config: dict[str, Any]) -> dict[str, Any]:
    settled, faults = validate_extraction(
        {name: value for name, value in config.items() if value is not None}, where=""
    )
    if faults:
        raise OptionError.of(faults, what=config["type"])
    return settled
