"""The six post-process rules of task files: deterministic, stateless, each one function of one text.

``RULES`` is the table, one entry for each word of ``words.PostProcess``. A rule's plain function is its definition;
beside it stands what gives the same for whole columns, by polars expressions; the few texts of which it can not tell go
through the plain function, row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import polars as pl

from evalframe.errors import UnknownNameError
from evalframe.extractors import Extractor, Reading, by_expressions
from evalframe.extractors.characters import BLANKS, letters, lowered_otherwise, words
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
_OPENING_IN_PROSE = re.compile(r"([^`]*+)(`{3,}+)[\w+#.-]*[ \t\r\n]*")
_CLOSING_AFTER_CODE = re.compile(r"([^`]*+)(`{3,}+)[ \t\r\n]*")


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

    def read(text: str) -> Reading:
        value, reason = rule.one(text)
        return value, "no_match" if value is None else "ok", reason

    return by_expressions(texts, rule.columns, read)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        meaning: One line.
        one: The definition: the text's answer (None: there is none) and how it was come by.
        columns: Gives the same of a column, as ``answer`` and ``rule``; no rule for a text that ``one`` must read.
    """

    meaning: str
    one: Callable[[str], tuple[str | None, str]]
    columns: Callable[[pl.Series], pl.DataFrame]


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
    fence: tuple[int, int] | None = None
    body: list[str] = []
    for line in _LINE.findall(text):
        if fence is None:
            fence, body = _opening(line, in_prose), []
            continue
        indent, ticks = fence
        if (closing := _CLOSING.fullmatch(line)) and len(closing[1]) >= ticks:
            bodies.append(_without_last_break("".join(body)))
            fence = None
        elif in_prose and (end := _behind_ink(_CLOSING_AFTER_CODE, line)) and len(end[2]) >= ticks:
            bodies.append("".join([*body, end[1]]))
            fence = None
        else:
            body.append(line[:indent].lstrip(" ") + line[indent:])
    return bodies if fence is None else [*bodies, None]


def _opening(line: str, in_prose: bool) -> tuple[int, int] | None:
    """Give the indentation of the fence that a line opens, and how many backticks it has."""
    if found := _OPENING.fullmatch(line):
        return len(found[1]), len(found[2])
    found = _behind_ink(_OPENING_IN_PROSE, line) if in_prose else None
    return (0, len(found[2])) if found else None


def _behind_ink(fence: re.Pattern[str], line: str) -> re.Match[str] | None:
    found = fence.fullmatch(line)
    return found if found and not found[1].isspace() and found[1] else None


def _without_last_break(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _columns(texts: pl.Series, answer: pl.Expr, rule: pl.Expr) -> pl.DataFrame:
    found = texts.to_frame("text").select(answer.alias("answer"))
    return found.with_columns(rule.alias("rule"))


_TEXT, _ANSWER = pl.col("text"), pl.col("answer")


def _lowered(texts: pl.Series) -> pl.DataFrame:
    found = _columns(texts, _TEXT.str.to_lowercase(), pl.lit("lower"))
    is_other = texts.str.contains(f"[{lowered_otherwise()}]")
    return found.with_columns(rule=pl.when(~is_other).then("rule"))


def _letters(texts: pl.Series) -> pl.DataFrame:
    beside = f"[^{letters()}]"
    found = texts.to_frame("text").with_columns(alone=_TEXT.str.extract(rf"(?:^|{beside})([A-E])(?:{beside}|$)"))
    rule = (
        pl.when(pl.col("alone").is_not_null()).then(pl.lit("stands_alone"))
        .when(_ANSWER.is_not_null()).then(pl.lit("anywhere")).otherwise(pl.lit("no_letter"))
    )  # fmt: skip
    anywhere = found.with_columns(answer=pl.coalesce("alone", _TEXT.str.extract("([A-E])")))
    return anywhere.select("answer", rule=rule)


def _code_blocks(texts: pl.Series) -> pl.DataFrame:
    """Take the body of a text's only fence; which closes which where there are more, is no regular language."""
    rows = texts.str.contains("```", literal=True).arg_true()
    whole = _columns(texts, _TEXT, pl.lit("no_fence"))
    if rows.is_empty():
        return whole
    # one fence, not indented, of three backticks
    body = r"\n(?:(.*)\n)? {0,3}```[ \t]*(?:\n|$)"
    alone = rf"(?s)(?:^|\n)```[^`\n]*{body}"
    in_prose = rf"(?s)(?:^|\n)[^`\n]*[^`{BLANKS}][^`\n]*```[{words()}+#.\-]*[ \t]*{body}"
    fenced = texts.gather(rows).to_frame("text").select(
        pl.when(_TEXT.str.contains(alone)).then(_TEXT.str.extract(alone).fill_null(""))
        .when(_TEXT.str.contains(in_prose)).then(_TEXT.str.extract(in_prose).fill_null("")).alias("answer"),
        pl.when((_TEXT.str.count_matches("```", literal=True) != 2) | _TEXT.str.contains_any(["````", "\r"])).then(None)
        .when(_TEXT.str.contains(alone)).then(pl.lit("fence"))
        .when(_TEXT.str.contains(in_prose)).then(pl.lit("fence_in_prose")).alias("rule"),
    )  # fmt: skip
    return whole.with_columns(whole[name].scatter(rows, fenced[name]) for name in whole.columns)


def _first_lines(texts: pl.Series) -> pl.DataFrame:
    # the first line feed is found fast; the other ends are for the few lines that have one
    head = _TEXT.str.strip_chars_start(WHITE_SPACE).str.splitn("\n", 2).struct.field("field_0")
    heads = texts.to_frame("text").select(head.alias("text"))["text"]
    rows = heads.str.contains(f"[{LINE_ENDS}]").arg_true()
    if len(rows):
        heads = heads.scatter(rows, heads.gather(rows).str.extract(f"^([^{LINE_ENDS}]*)"))
    line = _TEXT.str.strip_chars_end(WHITE_SPACE)
    rule = pl.when(_ANSWER.is_null()).then(pl.lit("no_line")).otherwise(pl.lit("extract_first_line"))
    return _columns(heads, pl.when(line != "").then(line), rule)


RULES: Mapping[str, Rule] = MappingProxyType({
    "none": Rule("unchanged", lambda text: (text, "none"), lambda texts: _columns(texts, _TEXT, pl.lit("none"))),
    "strip_whitespace": Rule(
        "without leading and trailing white space", lambda text: (text.strip(), "strip_whitespace"),
        lambda texts: _columns(texts, _TEXT.str.strip_chars(WHITE_SPACE), pl.lit("strip_whitespace")),
    ),
    "lower": Rule("lower case", lambda text: (text.lower(), "lower"), _lowered),
    "extract_letter": Rule("the first A-E that stands alone, else the first A-E", _letter, _letters),
    "extract_code_block": Rule("the body of the first closed fence, else the text", _code_block, _code_blocks),
    "extract_first_line": Rule("the first non-blank line, stripped", _first_line, _first_lines),
})  # fmt: skip

POST_PROCESS = Extractor("post_process", apply, cleans=False)
