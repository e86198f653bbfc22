"""The extraction types by their plain definition, text by text: what the column expressions are held to."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from evalframe.extractors.labels import compiled, read_label
from evalframe.extractors.numbers import read_number
from evalframe.extractors.postprocess import RULES

Reading = tuple[str | None, str | None, str | None]

ZERO_WIDTH = "\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
NO_INK = "".join(chr(code) for code in range(0x110000) if chr(code).isspace()) + ZERO_WIDTH
_END_OF_TEXT = re.compile(r"<\|endoftext\|>|<\|im_end\|>|<\|eot_id\|>|</s>")
_LINE = re.compile(r"[^\r\n]+")


def clean(text: str) -> str:
    return _END_OF_TEXT.split(text, maxsplit=1)[0].strip(NO_INK)


def first_lines(text: str, lines: int) -> str:
    """Give the first lines that are not blank; all of them where there are fewer."""
    full = (line.group().rstrip(NO_INK) for line in _LINE.finditer(text) if line.group().strip(NO_INK))
    return "\n".join(islice(full, lines)).strip(NO_INK)


def reader(config: dict[str, Any]) -> Callable[[str | None], Reading]:
    """Give the function of one text that a configuration is."""
    read = _of_ink(config)

    def one(text: str | None) -> Reading:
        if text is None:
            return None, None, None
        cleaned = clean(text)
        if not cleaned:
            return None, "empty_output", "blank"
        return read(text if config["type"] == "post_process" else cleaned)

    return one


def _of_ink(config: dict[str, Any]) -> Callable[[str], Reading]:
    match config["type"]:
        case "none":
            return lambda text: (text, "ok", "whole_text")
        case "take_first":
            return lambda text: (first_lines(text, config.get("lines", 1)), "ok", "first_lines")
        case "number":
            return read_number
        case "label_set":
            labels = compiled(tuple(config["labels"]), config.get("case_sensitive", False))
            return lambda text: read_label(text, labels)
        case "post_process":
            return lambda text: _post_processed(text, config["rule"])
    raise AssertionError(config)


def _post_processed(text: str, rule: str) -> Reading:
    value, reason = RULES[rule].one(text)
    return value, "no_match" if value is None else "ok", reason
