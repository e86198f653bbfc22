"""Taking the reasoning out of a reply, so that draft answers are never graded.

A block counts where it opens the reply (``<think>...</think>answer``), and so does a closing tag whose opening one the
server ate. Tags in quotes, in code, or mentioned in a sentence are text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from evalframe.errors import OptionError

Tags = tuple[tuple[str, str], ...]

DEFAULT_TAGS: Tags = (("<think>", "</think>"), ("<reasoning>", "</reasoning>"))

_QUOTES = {"`": "`", '"': '"', "'": "'", "‘": "’", "“": "”", "«": "»", "„": "“"}
_BLANKS = " \t\r\n\f\v\ufeff\u200b"
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_REACH = 200  # characters of text around a tag that are looked at


def reasoning_tags(tags: Iterable[str | Sequence[str]]) -> Tags:
    """Normalise the tags of a run: a name stands for ``<name>`` and ``</name>``, a pair is opening and closing.

    Raises:
        OptionError: A tag is neither, is empty, or opens and closes with the same text.

    >>> reasoning_tags(["think", ("[THINK]", "[/THINK]")])
    (('<think>', '</think>'), ('[THINK]', '[/THINK]'))
    """
    result = []
    for tag in [tags] if isinstance(tags, str) else tags:
        if isinstance(tag, str) and tag.strip("<>/ "):
            name = tag.strip("<>/ ")
            result.append((f"<{name}>", f"</{name}>"))
        elif not isinstance(tag, str) and len(tag) == 2 and all(isinstance(t, str) and t.strip() for t in tag):
            if tag[0] == tag[1]:
                raise OptionError(f"reasoning_tags: {tag!r} opens and closes with the same text; give two tags")
            result.append((tag[0], tag[1]))
        else:
            raise OptionError(
                f"reasoning_tags: {tag!r} is no tag; give a name ('think') or a pair ('[THINK]', '[/THINK]')"
            )
    return tuple(result)


def split_reasoning(
    text: str, tags: Tags = DEFAULT_TAGS
) -> tuple[str, str | None, Literal["truncated_reasoning"] | None]:
    """Split a reply into what was said and what was only thought.

    A block is reasoning where it is opened at the start of the reply, or right after another block, or, once there was
    one, at the start of a line. A closing tag alone is the end of reasoning that the server opened. The text is what
    follows the last of them, unchanged. Tags are found in any case. A tag is text where it is quoted, stands in inline
    code or a closed code fence, or is the closing half of a pair that a sentence mentions.

    Args:
        text: The reply.
        tags: Pairs of opening and closing tag.

    Returns:
        Text, reasoning (stripped, its parts joined by an empty line; None where there was none or it was blank), and
        ``truncated_reasoning`` where a block never closes: then all is reasoning and the text is empty.

    >>> split_reasoning("<think>Could be A.</think>B")
    ('B', 'Could be A.', None)
    >>> split_reasoning("<think>It is A. The answer is A")
    ('', 'It is A. The answer is A', 'truncated_reasoning')
    >>> split_reasoning("Put it into `<think>` and `</think>`.")
    ('Put it into `<think>` and `</think>`.', None, None)
    """
    lowered = text.lower()
    if not any(tag.lower() in lowered for pair in tags for tag in pair):  # most replies; the pattern is slow to say so
        return text, None, None
    end = 0  # where the reasoning seen so far ends
    parts: list[str] = []
    inside = ""  # the kind of block that is open
    mentioned: set[str] = set()  # kinds whose opening tag stands in a sentence
    for kind, opens, start, stop in _unquoted(text, tags):
        if inside:
            if opens or kind != inside:
                continue
            inside = ""
        elif opens:
            if not _begins_block(text, start, end):
                mentioned.add(kind)
                continue
            inside = kind
        elif kind in mentioned and not _on_its_own_line(text, start, stop):
            mentioned.discard(kind)
            continue
        parts.append(text[end:start])
        end = stop
        mentioned.clear()
    if inside:
        parts.append(text[end:])
    reasoning = "\n\n".join(part for piece in parts if (part := piece.strip(_BLANKS))) or None
    return ("", reasoning, "truncated_reasoning") if inside else (text[end:], reasoning, None)


def _unquoted(text: str, tags: Tags) -> Iterator[tuple[str, bool, int, int]]:
    """Give the tags that are not quoted or in code: kind, whether it opens, start, end."""
    fences = [match.start() for match in _FENCE.finditer(text)]
    for match in _pattern(tags).finditer(text):
        start, stop = match.span()
        if _is_quoted(text, start, stop) or (_is_fenced(fences, start) and not _on_its_own_line(text, start, stop)):
            continue
        name = match.lastgroup or ""
        yield name[1:], name[0] == "o", start, stop


@lru_cache(maxsize=32)
def _pattern(tags: Tags) -> re.Pattern[str]:
    # the group's name says what it is: o0 opens the first pair, c0 closes it
    halves = [(tag, f"{half}{kind}") for kind, pair in enumerate(tags) for half, tag in zip("oc", pair, strict=True)]
    halves.sort(key=lambda item: -len(item[0]))  # of two tags that begin at one place the longer one
    return re.compile("|".join(f"(?P<{name}>{re.escape(tag)})" for tag, name in halves), re.IGNORECASE)


# the tests below look at a bounded part of the text, so that a reply full of tags is read in linear time


def _begins_block(text: str, start: int, end: int) -> bool:
    """Whether an opening tag begins a block: after nothing but blanks; once there was a block, not in a sentence."""
    if not text[max(end, start - _REACH) : start].strip(_BLANKS) and start - end <= _REACH:
        return True
    return end > 0 and text[start - 1] not in " \t"


def _is_quoted(text: str, start: int, stop: int) -> bool:
    if start and stop < len(text) and _QUOTES.get(text[start - 1]) == text[stop]:
        return True
    before, after = _line_around(text, start, stop)
    return before.count("`") % 2 == 1 and "`" in after


def _is_fenced(fences: list[int], start: int) -> bool:
    """Whether a place is in a code fence that is closed; a fence that stays open says nothing."""
    before = bisect_left(fences, start)
    return before % 2 == 1 and before < len(fences)


def _on_its_own_line(text: str, start: int, stop: int) -> bool:
    before, after = _line_around(text, start, stop)
    return not before.strip() and not after.strip()


def _line_around(text: str, start: int, stop: int) -> tuple[str, str]:
    low, high = max(0, start - _REACH), min(len(text), stop + _REACH)
    newline = text.find("\n", stop, high)
    return text[max(low, text.rfind("\n", low, start) + 1) : start], text[stop : newline if newline >= 0 else high]
