"""Numbers as canonical decimal strings: one spelling a value, of any size, never by way of a float."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact

MOST_ZEROS = 400  # a number that would need more padding than this is written with an exponent, 1e5000
MOST_EXPONENT_DIGITS = 9
MOST_DIGITS_TO_DIVIDE = 1_000
EXACT_DIGITS = 60  # a quotient that ends within so many significant digits is exact
ROUNDED_DIGITS = 20  # any other is rounded to so many, half to even

_EXACT = Context(prec=EXACT_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_ROUNDED = Context(prec=ROUNDED_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
assert EXACT_DIGITS <= MAX_PREC


def plain(whole: str, decimals: str = "", *, exponent: int = 0, negative: bool = False) -> str:
    """Write a number without separators, plus, trailing or leading zeros; zero has no sign.

    Args:
        whole: ASCII digits before the point; may be empty.
        decimals: ASCII digits after the point.
        exponent: Of ten.
        negative: Whether a minus stands before it.

    >>> plain("0012", "500"), plain("15", exponent=-3), plain("0", "0", negative=True), plain("1", exponent=5)
    ('12.5', '0.015', '0', '100000')
    >>> plain("25", exponent=4000)
    '2.5e4001'
    """
    written = whole + decimals
    digits = written.lstrip("0")
    point = len(whole) + exponent - (len(written) - len(digits))  # place of the decimal point in the digits
    digits = digits.rstrip("0")
    sign = "-" if negative else ""
    if not digits:
        return "0"
    if max(point - len(digits), -point) > MOST_ZEROS:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def quotient(above: str, below: str) -> str | None:
    """Divide two canonical strings; None for a division by zero or more digits than anyone divides.

    Exact where the quotient ends within ``EXACT_DIGITS`` significant digits, else rounded to ``ROUNDED_DIGITS``.

    >>> quotient("3", "8"), quotient("-1", "3"), quotient("1", "0")
    ('0.375', '-0.33333333333333333333', None)
    """
    if below == "0" or max(len(above), len(below)) > MOST_DIGITS_TO_DIVIDE:
        return None
    dividend, divisor = Decimal(above), Decimal(below)
    context = _EXACT.copy()
    result = context.divide(dividend, divisor)
    if context.flags[Inexact]:
        result = _ROUNDED.copy().divide(dividend, divisor)
    sign, digits, exponent = result.as_tuple()
    assert isinstance(exponent, int)  # neither infinite nor NaN: the divisor is not zero
    return plain("".join(map(str, digits)), exponent=exponent, negative=bool(sign))


def mixed(whole: str, above: str, below: str) -> str | None:
    """Give the value of a mixed number, ``1 1/2``; None as for ``quotient``.

    >>> mixed("1", "1", "2")
    '1.5'
    """
    if len(whole) + len(above) + len(below) > MOST_DIGITS_TO_DIVIDE:
        return None
    return quotient(plain(str(int(whole) * int(below) + int(above))), plain(below))
