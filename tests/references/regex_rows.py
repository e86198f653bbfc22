"""The extraction types regex and regex_last by their plain definition: Python's re, text by text."""

import re

from evalframe.sandbox.regex_worker import FLAGS


def compiled(pattern: str, flags: str = "") -> re.Pattern[str]:
    bits = 0
    for letter in flags:
        bits |= FLAGS[letter]
    return re.compile(pattern, bits)


def found(pattern: re.Pattern[str], text: str, *, group: int | str, last: bool) -> tuple[str, str | None]:
    """Give the word and the answer."""
    matches = list(pattern.finditer(text)) if last else [pattern.search(text)]
    match = matches[-1] if matches else None
    if match is None:
        return "no_match", None
    answer = match[group]
    return ("group_unset", None) if answer is None else ("ok", answer)


def reading(pattern: re.Pattern[str], text: str, *, group: int | str, last: bool) -> tuple[str | None, str, str]:
    """Give answer, status and rule, of a text of no more than the characters that are searched."""
    word, answer = found(pattern, text, group=group, last=last)
    if answer is None:
        return None, "no_match", word
    if not answer.strip():
        return None, "no_match", "empty_group"
    return answer, "ok", "last_match" if last else "first_match"
