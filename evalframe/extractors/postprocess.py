"""The six post-process rules of task files: deterministic, stateless, each one function of one text.

``RULES`` is the table, one entry for each word of ``words.PostProcess``. A rule's plain function is its definition;
beside it stand the polars expressions that give the same, and for which texts they do: all other texts of a column go
through the plain function, row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import polars as pl

from evalframe.errors import UnknownNameError
from evalframe.extractors import Extractor
from evalframe.extractors.characters import letters, lowered_otherwise
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.registry import suggestion
from evalframe.words import WHITE_SPACE

# what str.splitlines breaks at
LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"

_LETTER = re.compile("[A-E]")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_OPENING = re.compile(r"( {0,3})(`{3,})[^`]*")
_CLOSING = re.compile(r" {0,3}(`{3,})[ \t\r\n]*")
# fences as models write them in running text: behind prose, and closed at the end of the last line of code
_OPENING_IN_PROSE = re.compile(r"[^`]*\S[^`]*?()(`{3,})[\w+#.-]*[ \t\r\n]*")
_CLOSING_AFTER_CODE = re.compile(r"([^`]*[^`\s][^`]*)(`{3,})[ \t\r\n]*")


def post_process(text: str, rule: str) -> str | None:
    r"""Apply one rule to one text.

    ==================== ==============================================================================================
    none                 the text
    strip_whitespace     ``str.strip``
    lower                ``str.lower``
    extract_letter       the first capital A-E that stands alone (the characters beside it are no letters, as
                         ``str.isalpha`` has it; digits, marks and ``_`` are none); else the first A-E anywhere
    extract_code_block   the body of the first closed fence; without a fence the text itself; an unclosed one: nothing
    extract_first_line   the first non-blank line (``str.splitlines``), stripped
    ==================== ==============================================================================================

    A fence is CommonMark's: a line that opens with at most three blanks and at least three backticks; what follows them
    is its language tag, which has no backtick (so one-line ````` ```code``` ````` is none). The next line of nothing
    but at least as many backticks closes it. The body is without the line break before the closing fence, and each of
    its lines without as many blanks as the opening fence is indented by, so that it can be executed. Where no fence is
    closed in this way, one that opens at the end of a line of prose or closes at the end of a line of code counts too.

    Nulls:
        None where nothing can be extracted. An empty text gives ``""`` for none, strip_whitespace, lower and
        extract_code_block; the pipeline never sends blank texts here.

    Raises:
        UnknownNameError: Names the rules there are.

    >>> post_process("The answer is (C).", "extract_letter")
    'C'
    >>> post_process("Sure!\n```python\nx = 1\n```\nEnjoy.", "extract_code_block")
    'x = 1'
    """
    return _rule(rule).one(text)[0]


def apply(texts: pl.Series, config: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> pl.DataFrame:
    """Apply the rule ``config["rule"]`` to a column; the extractor behind ``POST_PROCESS``.

    ``extraction_rule`` says how: the rule's name; ``stands_alone``, ``anywhere``, ``no_letter``; ``fence``,
    ``first_of_2_fences`` (of any number), ``fence_in_prose``, ``unclosed_fence``, ``no_fence``; ``no_line``.
    """
    rule = _rule(str(config["rule"]))
    frame = pl.DataFrame({"text": texts}, schema={"text": pl.String})
    columns = rule.columns()
    taken = frame.with_columns(value=columns.value, reason=columns.reason, exact=columns.exact)
    values, reasons, exact = taken["value"], taken["reason"], taken["exact"]
    if not exact.all():
        # row by row: what the expressions can not do exactly
        rows = (~exact).arg_true()
        pairs = [rule.one(text) for text in frame["text"].gather(rows).to_list()]
        values = values.scatter(rows, pl.Series([value for value, _ in pairs], dtype=pl.String))
        reasons = reasons.scatter(rows, pl.Series([reason for _, reason in pairs], dtype=pl.String))
    status = pl.when(values.is_null()).then(pl.lit("no_match")).otherwise(pl.lit("ok"))
    return pl.DataFrame({"extracted_output": values, "extraction_rule": reasons}).select(
        "extracted_output", status.alias("extraction_status"), "extraction_rule"
    )


@dataclass(frozen=True, slots=True)
class Columns:
    """What a rule gives for a column ``text``, by polars.

    Attributes:
        value: The answer.
        reason: How it was come by.
        exact: For which texts both are exactly what the rule's plain function gives.
    """

    value: pl.Expr
    reason: pl.Expr
    exact: pl.Expr = field(default_factory=lambda: pl.lit(True))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        meaning: One line.
        one: The definition: the text's answer (None: there is none) and how it was come by.
        columns: The same for whole columns.
    """

    meaning: str
    one: Callable[[str], tuple[str | None, str]]
    columns: Callable[[], Columns]


def _rule(name: str) -> Rule:
    if name in RULES:
        return RULES[name]
    raise UnknownNameError(f"there is no post-process rule {name!r}; {suggestion(name, RULES)}")


def _letter(text: str) -> tuple[str | None, str]:
    anywhere = None
    for match in _LETTER.finditer(text):
        anywhere = anywhere or match[0]
        before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
        if not before.isalpha() and not after.isalpha():
            return match[0], "stands_alone"
    return anywhere, "anywhere" if anywhere else "no_letter"


def _first_line(text: str) -> tuple[str | None, str]:
    for line in text.splitlines():
        if stripped := line.strip():
            return stripped, "extract_first_line"
    return None, "no_line"


def _code_block(text: str) -> tuple[str | None, str]:
    strict = _fences(text)
    if strict and strict[0] is not None:
        return strict[0], "fence" if len(strict) == 1 else f"first_of_{len(strict)}_fences"
    loose = _fences(text, in_prose=True)
    if loose and loose[0] is not None:
        return loose[0], "fence_in_prose"
    return (None, "unclosed_fence") if strict or loose else (text, "no_fence")


def _fences(text: str, *, in_prose: bool = False) -> list[str | None]:
    """Give the body of each fence, in order; None for one that is never closed (it can only be the last)."""
    bodies: list[str | None] = []
    opening: re.Match[str] | None = None
    body: list[str] = []
    for line in _LINE.findall(text):
        if opening is None:
            opening, body = _OPENING.fullmatch(line), []
            if opening is None and in_prose:
                opening = _OPENING_IN_PROSE.fullmatch(line)
        elif (closing := _CLOSING.fullmatch(line)) and len(closing[1]) >= len(opening[2]):
            bodies.append(_without_last_break("".join(body)))
            opening = None
        elif in_prose and (end := _CLOSING_AFTER_CODE.fullmatch(line)) and len(end[2]) >= len(opening[2]):
            bodies.append("".join([*body, end[1]]))
            opening = None
        else:
            indent = len(opening[1])
            body.append(line[:indent].lstrip(" ") + line[indent:])
    return bodies if opening is None else [*bodies, None]


def _without_last_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


_TEXT = pl.col("text")
# one fence, not indented, of three backticks, in a text that has no others
_ONE_FENCE = r"(?s)(?:^|\n)```[^`\n]*\n(?:(.*)\n)? {0,3}```[ \t]*(?:\n|$)"


def _stripped() -> Columns:
    return Columns(_TEXT.str.strip_chars(WHITE_SPACE), pl.lit("strip_whitespace"))


def _lower() -> Columns:
    return Columns(_TEXT.str.to_lowercase(), pl.lit("lower"), ~_TEXT.str.contains(f"[{lowered_otherwise()}]"))


def _letters() -> Columns:
    beside = f"[^{letters()}]"
    alone = _TEXT.str.extract(rf"(?:^|{beside})([A-E])(?:{beside}|$)")
    value = pl.coalesce(alone, _TEXT.str.extract("([A-E])"))
    reason = (
        pl.when(alone.is_not_null()).then(pl.lit("stands_alone")).when(value.is_not_null()).then(pl.lit("anywhere"))
    )
    return Columns(value, reason.otherwise(pl.lit("no_letter")))


def _code_blocks() -> Columns:
    # which fence closes which, indented, in prose or one of many, is no regular language
    has_fence = _TEXT.str.contains("```", literal=True)
    is_one = (
        (_TEXT.str.count_matches("```", literal=True) == 2)
        & ~_TEXT.str.contains_any(["````", "\r"])
        & _TEXT.str.contains(_ONE_FENCE)
    )
    return Columns(
        pl.when(has_fence).then(_TEXT.str.extract(_ONE_FENCE).fill_null("")).otherwise(_TEXT),
        pl.when(has_fence).then(pl.lit("fence")).otherwise(pl.lit("no_fence")),
        ~has_fence | is_one,
    )


def _first_lines() -> Columns:
    # a line feed is found faster than any of the other ends of a line
    head = _TEXT.str.strip_chars_start(WHITE_SPACE).str.splitn("\n", 2).struct.field("field_0")
    value = head.str.extract(f"^([^{LINE_ENDS}]+)").str.strip_chars(WHITE_SPACE)
    return Columns(value, pl.when(value.is_null()).then(pl.lit("no_line")).otherwise(pl.lit("extract_first_line")))


RULES: Mapping[str, Rule] = MappingProxyType({
    "none": Rule("unchanged", lambda text: (text, "none"), lambda: Columns(_TEXT, pl.lit("none"))),
    "strip_whitespace": Rule(
        "without leading and trailing white space", lambda text: (text.strip(), "strip_whitespace"), _stripped
    ),
    "lower": Rule("lower case", lambda text: (text.lower(), "lower"), _lower),
    "extract_letter": Rule("the first A-E that stands alone, else the first A-E", _letter, _letters),
    "extract_code_block": Rule("the body of the first closed fence, else the text", _code_block, _code_blocks),
    "extract_first_line": Rule("the first non-blank line, stripped", _first_line, _first_lines),
})  # fmt: skip

POST_PROCESS = Extractor("post_process", apply, cleans=False)
