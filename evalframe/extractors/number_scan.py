r"""Finding the numbers of a text: one pass from left to right, parsed, never evaluated.

One number is ``1,234.50``, ``$1,234``, ``-3``, ``−3``, ``1e5``, ``50%``, ``3/4``, ``1 1/2``, ``1½``, ``\frac{3}{8}``,
``2.4 × 10⁶``, ``1.5*10^-3``, ``10^6``, ``12{,}500``, also in full-width or another script's decimal digits; and a range
(``3-9``, ``3 to 9``), which counts as its last end.

None is what is glued to a word of letters (``x2``, ``m3``, ``H2O``), an exponent or subscript (``m^2``, ``x_1``), a
power of another base than ten (``2^5`` is a sum to do), a multiple of a root or of pi, a version or address
(``1.2.3``), a number of another base (``0x1F``), a division by zero, what stands under ``\sqrt`` or in a ``\frac`` of
more than numbers. Of two signs the one next to the digits counts (``+-5``). ``GPT-4`` holds 4, not -4; of dates, times
and telephone numbers each part is a number. Thousands are set apart by a comma, ``{,}``, ``\,``, ``'``, ``_`` or a
fixed space, never by a common blank (lakhs, ``12,34,567``, too); a comma never begins decimals.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace

from evalframe.extractors.cues import is_cased
from evalframe.extractors.decimals import MOST_EXPONENT_DIGITS, mixed, plain, quotient
from evalframe.extractors.latex import argument


@dataclass(frozen=True, slots=True)
class Found:
    """One number of a text.

    Attributes:
        start: Where it begins, sign and currency included.
        digits: Where what follows sign and currency begins.
        end: Where it ends, a percent sign included.
        value: The canonical decimal string.
        percent: Whether a percent sign follows.
    """

    start: int
    digits: int
    end: int
    value: str
    percent: bool


class _PlainSigns(dict[int, str]):
    """Another script's digits, minus signs, slashes and currencies, each as the one ASCII sign it stands for."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category == "Nd":
            char = str(unicodedata.decimal(char))
        elif category == "Sc":
            char = "$"
        self[code] = char
        return char


_SIGNS = _PlainSigns({
    **dict.fromkeys(map(ord, "−－﹣‐‑"), "-"), **dict.fromkeys(map(ord, "／⁄∕"), "/"),
    **dict.fromkeys(map(ord, "％٪﹪"), "%"),
    ord("＋"): "+", ord("．"): ".", ord("，"): ",", ord("٫"): ".", ord("٬"): ",", ord("＃"): "#",
})  # fmt: skip


def in_plain_signs(text: str) -> str:
    """Give the text with ASCII digits and signs; every character keeps its place.

    >>> in_plain_signs("−１２３．５％ ₹")
    '-123.5% $'
    """
    return text if text.isascii() else text.translate(_SIGNS)


def _atom(tag: str) -> str:
    """Match a number without sign.

    Every repetition is possessive or bounded, and a group of thousands is looked at once: no text is scanned twice.
    """
    separator = rf"(?P<separator{tag}>,\\!|\{{,\}}(?:\\!)?|\\,|[,_'’\u00a0\u2009\u202f])"
    thousands = rf"[0-9]{{1,3}}{separator}[0-9]{{3}}(?![0-9])(?:(?P=separator{tag})[0-9]{{3}}(?![0-9]))*+"
    lakhs = r"[0-9]{1,2}(?:,[0-9]{2}(?=,[0-9])){1,6}+,[0-9]{3}(?![0-9])"
    return (
        rf"(?:(?P<whole{tag}>{thousands}|{lakhs}|[0-9]++)(?:\.(?P<decimals{tag}>[0-9]++))?+|\.(?P<part{tag}>[0-9]++))"
    )


def _power(tag: str) -> str:
    number = r"[-+]?[0-9]++"
    return (
        rf"(?:(?:[ ]?\^[ ]?|[ ]\*\*[ ]|\*\*)(?:\{{[ ]?(?P<braced{tag}>{number})[ ]?\}}"
        rf"|\([ ]?(?P<round{tag}>{number})[ ]?\)|(?P<bare{tag}>{number}))"
        rf"|[ ]?(?P<raised{tag}>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]++)|<sup>(?P<tagged{tag}>{number})</sup>)"
    )


_TOKEN = re.compile(
    rf"""
    (?P<root>\\sqrt(?:\[[^\[\]\n]{{0,9}}\])?+)
  | (?P<sign>[-+–])?(?P<currency>\\?\$[ ]?)?(?P<inner>[-+–])?(?P<body>
        (?P<version>[0-9]++(?:\.[0-9]++){{2,}}+|0(?:[xX](?!10(?:\^|\*\*))|[bBoO])[0-9A-Fa-f]++)
      | (?P<date>[0-9]++(?:/[0-9]++){{2,}}+)
      | (?:(?P<count>[0-9]++)[ ]?)?(?P<fraction>\\[dtc]?frac)
      | (?P<units>[0-9]++)[ ](?P<above>[0-9]++)/(?P<below>[0-9]++)(?!/|[.,]?[0-9])
      | (?:(?P<ones>[0-9]++)[ ]?)?(?P<vulgar>[¼½¾⅐-⅞])
      | (?P<ten>10){_power("t")}
      | {_atom("a")}(?:
            [ ]?(?:[×xX*·⋅∙]|\\times|\\cdot)[ ]?10{_power("s")}
          | [eE](?P<exponent>[-+]?[0-9]++)
          | [ ]?/[ ]?(?P<turned>[-+–])?{_atom("b")}
        )?+
    )(?P<percent>[ ]?\\?%)?
    """,
    re.VERBOSE,
)
_ARGUMENT = re.compile(rf"(?P<sign>[-+–])?\\?\$?{_atom('a')}")
# what makes of the digits before it the base of a power, or the factor of a root or of pi
_POWERED = re.compile(
    r"[ ]?\^[ ]?[{(]?[ ]?[-+]?(?!(?:st|nd|rd|th)\b)[0-9A-Za-z]|\*\*[-+]?[0-9]|[⁰¹²³⁴⁵⁶⁷⁸⁹]|<sup>"
    r"|[ ]?(?:√|π|\\sqrt|\\pi(?![A-Za-z]))"
)
# what makes of the digits behind it an exponent, a radicand, a subscript or a character reference
_ATTACHED = re.compile(
    r"[\^√][ ]?[{(]?[ ]?\Z|[A-Za-z0-9)\]}](?:[ ]\*\*[ ]|\*\*)[{(]?\Z|[A-Za-z0-9)\]}]_+\{?\Z|<su[bp]>\Z|&\#x?\Z"
)
_COMMAND = re.compile(r"\\[A-Za-z]+\Z")
_CURRENCY_CODE = re.compile(r"(?<![^\W\d_])(?:Rs|INR|USD|EUR|GBP|JPY|CNY|RMB|CHF|AUD|CAD|BRL|KRW|RUB|UAH)\Z")
_RANGE = re.compile(r"[-–—~～〜]|[ ][–—~～][ ]|[ ]to[ ]")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_NO_DIGIT = re.compile(r"[^0-9]")


def scan(text: str, closing: dict[int, int]) -> list[Found]:
    """Find all numbers, in order.

    Args:
        text: As ``in_plain_signs`` gives it.
        closing: As ``latex.braces`` gives it.
    """
    numbers: list[Found] = []
    position = 0
    while token := _TOKEN.search(text, position):
        position = token.end()
        value: str | None = None
        if token["root"]:
            hidden = argument(text, position, closing)
            position = hidden[1] if hidden else position
        elif token["fraction"]:
            value, position = _fraction(text, token, closing)
        elif token["percent"] or not _POWERED.match(text, position):
            value = _value(token, text)
        found = _placed(text, token, value, position) if value is not None else None
        if found:
            if numbers and _RANGE.fullmatch(text, numbers[-1].end, found.start):
                first = numbers.pop()
                found = replace(found, start=first.start, digits=first.digits)
            numbers.append(found)
    return numbers


def _placed(text: str, token: re.Match[str], value: str, end: int) -> Found | None:
    """Give a token its sign and place; None where what stands before it says that it is no number."""
    start, body = token.start(), token.start("body")
    sign = token["inner"]
    if token["sign"]:
        if start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "-–)]}%_"):
            sign = sign or token["sign"]
        else:  # a hyphen or an operator
            start = token.end("sign")
    before = text[max(0, start - 24) : start]
    if _ATTACHED.search(before):
        return None
    glued = start == body and bool(before) and is_cased(before[-1]) and not (token["fraction"] or token["parta"])
    if glued and not _COMMAND.search(before) and not _CURRENCY_CODE.search(before):
        return None
    if sign in ("-", "–") and value != "0":
        value = value[1:] if value.startswith("-") else f"-{value}"
    return Found(start, body, end, value, bool(token["percent"]))


def _value(token: re.Match[str], text: str) -> str | None:
    if token["version"]:
        return None
    if token["date"]:
        return plain(token["date"].rpartition("/")[2])
    if token["units"]:
        if plain(token["units"]) != "0" and len(token["above"]) <= len(token["below"]):
            return mixed(token["units"], token["above"], token["below"])
        return quotient(plain(token["above"]), plain(token["below"]))
    if token["vulgar"]:
        above, _, below = unicodedata.normalize("NFKC", token["vulgar"]).partition("⁄")
        return mixed(token["ones"] or "0", above, below)
    if token["ten"]:
        return _scaled("1", "", _exponent(token, "t"))
    whole, decimals = _parts(token, "a")
    if token["parta"] and _is_full_stop(token, text):
        whole, decimals = decimals, ""
    if token["wholeb"] or token["partb"]:
        value = quotient(plain(whole, decimals), plain(*_parts(token, "b")))
        return f"-{value}" if value and value != "0" and token["turned"] in ("-", "–") else value
    return _scaled(whole, decimals, token["exponent"] or _exponent(token, "s") or "0")


def _is_full_stop(token: re.Match[str], text: str) -> bool:
    """Tell ``No.5`` and ``...5`` from ``.5``."""
    point = token.start("body")
    return point == token.start() and point > 0 and (text[point - 1].isalnum() or text[point - 1] in ".)]}")


def _parts(token: re.Match[str], tag: str) -> tuple[str, str]:
    return _NO_DIGIT.sub("", token[f"whole{tag}"] or ""), token[f"decimals{tag}"] or token[f"part{tag}"] or ""


def _exponent(token: re.Match[str], tag: str) -> str:
    written = next(
        (token[f"{form}{tag}"] for form in ("braced", "round", "bare", "tagged") if token[f"{form}{tag}"]), ""
    )
    return written or (token[f"raised{tag}"] or "").translate(_RAISED)


def _scaled(whole: str, decimals: str, exponent: str) -> str | None:
    if len(exponent.lstrip("+-0")) > MOST_EXPONENT_DIGITS:
        return None
    value = plain(whole, decimals, exponent=int(exponent))
    # the exponent of the value may be longer than the one that was written: 10e999999999
    return None if len(value.partition("e")[2].lstrip("-")) > MOST_EXPONENT_DIGITS else value


def _fraction(text: str, token: re.Match[str], closing: dict[int, int]) -> tuple[str | None, int]:
    r"""Read ``\frac{3}{8}`` and ``1\frac{1}{2}``; no value where an argument is more than a number."""
    end = token.end("fraction")
    values: list[str | None] = []
    for _ in range(2):
        found = argument(text, end, closing)
        if found is None:
            return None, end
        values.append(_argument_value(found[0]))
        end = found[1]
    above, below = values
    if above is None or below is None:
        return None, end
    if token["count"] and above.isdecimal() and below.isdecimal():
        return mixed(token["count"], above, below), end
    return (None if token["count"] else quotient(above, below)), end


def _argument_value(written: str) -> str | None:
    number = _ARGUMENT.fullmatch(written.replace("\\text", "").strip("{}$ "))
    return number and plain(*_parts(number, "a"), negative=number["sign"] in ("-", "–"))
