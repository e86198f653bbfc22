"""Names for things that users can add to: metrics, extractors, model adapters.

A built-in entry is a string ``"module:attribute"``, imported when it is first asked for, so that knowing the names
costs nothing. Other packages add theirs through entry points of the registry's group.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Generic, TypeVar, cast

from evalframe.errors import NameTakenError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of names.

    Args:
        kind: What is registered, in the singular, for messages (``metric``).
        builtin: Name to ``"module:attribute"``.
        group: The entry-point group of other packages; empty for none.
    """

    def __init__(self, kind: str, builtin: Mapping[str, str], *, group: str = "") -> None:
        self.kind = kind
        self._group = group
        self._entries: dict[str, T | str] = dict(builtin)
        self._lock = threading.Lock()
        self._discovered = not group

    def register(self, name: str, entry: T, *, replace: bool = False) -> T:
        """Add an entry.

        Raises:
            NameTakenError: The name is taken and ``replace`` is false.
        """
        self._discover()
        with self._lock:
            if name in self._entries and not replace:
                raise NameTakenError(f"the {self.kind} {name!r} is registered already; choose another name")
            self._entries[name] = entry
        return entry

    def names(self) -> list[str]:
        """All names, sorted."""
        self._discover()
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            self._discover()
        return name in self._entries

    def get(self, name: str) -> T:
        """Give the entry of a name, imported now if it was not.

        Raises:
            UnknownNameError: Lists the nearest names.
        """
        if name not in self:
            raise UnknownNameError(f"there is no {self.kind} {name!r}; {suggestion(name, self.names())}")
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = cast(T, getattr(importlib.import_module(module), attribute))
            with self._lock:
                self._entries[name] = entry
        return entry

    def _discover(self) -> None:
        if self._discovered:
            return
        self._discovered = True
        for point in metadata.entry_points(group=self._group):
            if point.name in self._entries:
                raise NameTakenError(f"the {self.kind} {point.name!r} of {point.value} is registered already")
            self._entries[point.name] = point.value


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names most like ``name``, best first; empty where none is near."""
    from rapidfuzz import fuzz, process

    lowered = {k: k.lower() for k in known}
    found = process.extract(name.lower(), lowered, scorer=fuzz.WRatio, limit=most, score_cutoff=70)
    return [key for _, _, key in found]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Say what may have been meant: ``did you mean 'f1'?``, or the list of what there is."""
    names = list(known)
    if near := nearest(name, names):
        return f"did you mean {' or '.join(repr(n) for n in near)}?"
    return f"known: {', '.join(sorted(names))}" if names else "none is known"


METRICS: Registry[Any] = Registry(
    "metric",
    {
        "accuracy": "evalframe.metrics.matching:ACCURACY",
        "bleu_4": "evalframe.metrics.overlap:BLEU_4",
        "code_exec": "evalframe.metrics.code:CODE_EXEC",
        "corpus_bleu_4": "evalframe.metrics.overlap:CORPUS_BLEU_4",
        "exact_match": "evalframe.metrics.matching:EXACT_MATCH",
        "f1": "evalframe.metrics.overlap:F1",
        "numeric_match": "evalframe.metrics.numeric:NUMERIC_MATCH",
        "rouge_l": "evalframe.metrics.overlap:ROUGE_L",
    },
    group="evalframe.metrics",
)

EXTRACTORS: Registry[Any] = Registry(
    "extraction type",
    {
        "label_set": "evalframe.extractors.labels:LABEL_SET",
        "none": "evalframe.extractors.lines:NONE",
        "number": "evalframe.extractors.numbers:NUMBER",
        "post_process": "evalframe.extractors.postprocess:POST_PROCESS",
        "regex": "evalframe.extractors.patterns:REGEX",
        "regex_last": "evalframe.extractors.patterns:REGEX_LAST",
        "take_first": "evalframe.extractors.lines:TAKE_FIRST",
    },
)

ADAPTERS: Registry[Any] = Registry(
    "model adapter",
    {
        "anthropic": "evalframe.adapters.anthropic:from_name",
        "google": "evalframe.adapters.google:from_name",
        "mock": "evalframe.adapters.mock:from_name",
        "openai": "evalframe.adapters.openai:openai_by_name",
        "openai-compatible": "evalframe.adapters.openai:compatible_by_name",
        "replay": "evalframe.models:replay_by_name",
        "transformers": "evalframe.adapters.huggingface:from_name",
    },
    group="evalframe.adapters",
)
