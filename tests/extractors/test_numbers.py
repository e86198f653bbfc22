"""The extraction type number: what is one number, and which one is the answer."""

import time

import polars as pl
import pytest

from evalframe.extractors import extract
from evalframe.extractors.numbers import read_number

# as a reply, alone and in running text
ONE_NUMBER = [
    ("1,234.50", "1234.5"), ("$1,234", "1234"), ("-3", "-3"), ("−3", "-3"), ("–3", "-3"), ("+3", "3"),
    ("1e5", "100000"),
    ("2.4E-3", "0.0024"), ("50%", "50"), ("50 %", "50"), (r"12\%", "12"), ("3/4", "0.75"), ("-3/4", "-0.75"),
    ("3/-4", "-0.75"), ("3 / 4", "0.75"), ("1.5/2.5", "0.6"), ("1 1/2", "1.5"), ("½", "0.5"), ("1½", "1.5"),
    ("⅔", "0.66666666666666666667"),
    ("1⁄2", "0.5"), (r"\boxed{42}", "42"), (r"\fbox{42}", "42"), (r"\frac{3}{8}", "0.375"),
    (r"\dfrac{-1}{4}", "-0.25"),
    (r"\tfrac{1}{-4}", "-0.25"), (r"-\frac{1}{4}", "-0.25"), (r"\frac12", "0.5"), (r"\frac 1 2", "0.5"),
    (r"1\frac{1}{2}", "1.5"), (r"-1\frac12", "-1.5"), (r"\frac{1,000}{8}", "125"), (r"\frac{\text{3}}{{8}}", "0.375"),
    ("2.4 × 10⁶", "2400000"), ("2.4×10^6", "2400000"), ("2.4 x 10^6", "2400000"), (r"2.4 \times 10^{6}", "2400000"),
    (r"2.4 \cdot 10^{-2}", "0.024"), ("1.5*10^-3", "0.0015"), ("1.5*10**-3", "0.0015"), ("1.5 × 10⁻³", "0.0015"),
    ("5 × 10<sup>3</sup>", "5000"), ("10^6", "1000000"), ("10⁻²", "0.01"), ("12{,}500", "12500"),
    (r"12\,500", "12500"),
    (r"12,\!500", "12500"), ("1'234'567", "1234567"), ("1_000_000", "1000000"), ("12\u202f500", "12500"),
    ("12,34,567", "1234567"), ("１２，３４５．６", "12345.6"), ("－５", "-5"), ("٤٢", "42"), ("४२", "42"), ("5.", "5"),
    (".5", "0.5"), ("-.5", "-0.5"), ("$.50", "0.5"), ("-$5", "-5"), ("$-5", "-5"), (r"\$1{,}234", "1234"),
    ("₹1,50,000", "150000"),
    ("USD500", "500"), ("Rs.500", "500"), ("US$5", "5"), ("3-9", "9"), ("3–9", "9"), ("3 – 9", "9"), ("3 to 9", "9"),
    ("$3-$9", "9"),
    ("3%-9%", "9"), ("007", "7"), ("-0", "0"), ("-0.00", "0"), ("100", "100"), ("1.0", "1"), ("5th", "5"),
    ("5kg", "5"),
    ("90^\\circ", "90"), ("5^{th}", "5"), ("...5", "5"), ("No.5", "5"), ("n=5", "5"), ("(−5)", "-5"), ("=-5", "-5"),
    ("3*-5", "-5"),
    ("#5", "5"), ("GPT-4", "4"), ("COVID-19", "19"), ("2x-3", "3"), ("2024-01-15", "15"), ("24/7/365", "365"),
    ("12:30", "30"),
    ("1,2345", "2345"), ("12,34", "34"), ("1 234", "234"), ("是42个", "42"), ("__37__", "37"), ("**10** 5", "5"),
    (r"3\times4=12", "12"), ("+-5", "-5"), ("-+5", "5"), ("--5", "-5"), ("5^\n3", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "number"), ONE_NUMBER)
def test_every_way_of_writing_a_number(text: str, number: str) -> None:
    for written in (text, f"{text}.", f"({text})", f"It is {text}!", f"*{text}*,", f"7 of them\n{text}\n"):
        assert read_number(written)[:2] == (number, "ok"), written


@pytest.mark.parametrize(
    "text",
    ["x2", "H2O", "m3", "m^2", "km²", "m<sup>2</sup>", "x_1", "x_{12}", "m^{-2}", "x**2", "2^5", "7²", "v1.2", "1.2.3",
     "192.168.0.1", "1/0", r"\frac{1}{0}", r"\frac{x}{2}", r"\frac{\sqrt{3}}{2}", r"\sqrt{3}", r"\sqrt[3]{5}",
     r"2\sqrt{3}", "2√3", "2π", r"2\pi", "&#39;",
     "0x1F", "0b101", "0o17", "eighteen", "none", "∞", "NaN", "-", "$", ".", ",", "%", "1e9999999999", "²"],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    assert read_number(text) == (None, "no_match", "no_number")
    assert read_number(f"First 41, then {text}!")[0] == "41"


@pytest.mark.parametrize(
    "term",
    ["3x+2", "12+3i", "x^2+1", r"2\pi", "3x", "x+5", "x - 3", "8 - 3", "3+5", r"5 \times 3", r"5 \cdot x", "x/2", "5/x",
     "2(x+1)", "3(x+y)", r"2\ln 3", r"2\theta", "x = 3, y = 2x + 1", r"\frac{1}{2} + \sqrt{3}"],
)  # fmt: skip
def test_a_term_in_a_box_is_no_number(term: str) -> None:
    assert read_number(f"First 41, then \\boxed{{{term}}} of 7")[0] is None


@pytest.mark.parametrize(
    "text", ["10 m^2", "10 km²", "10 m3", "10 m<sup>2</sup>", "10 m^{-2}", r"10 \text{cm}^2", "10 m**2"]
)
def test_the_exponent_of_a_unit_is_no_answer(text: str) -> None:
    assert read_number(text)[0] == "10"


@pytest.mark.parametrize(
    ("text", "number", "rule"),
    [
        ("4*3 gives #### 12\nours\n#### 45", "45", "hashes"),
        ("#### $1,234 of 5", "1234", "hashes"),
        ("#### **18**\nNote 5", "18", "hashes"),
        ("#### 1. First step\nadd\n#### 2. Second step\nso 7", "7", "last_number"),
        ("##### 3\nand 4", "4", "last_number"),
        ("The answer is 18. There were 20.", "18", "cue"),
        ("The answer is **$18$**, not 20", "18", "cue"),
        ("ANSWER:\n\n 18\n20", "18", "cue"),
        ("The final answer is approximately 3.14 (2 decimals)", "3.14", "cue"),
        ("answer: x = 5 or 7", "5", "cue"),
        ("Answer: 3 + 5 = 8, of 99", "8", "cue"),
        ("answer is 3-9 of 10", "9", "cue"),
        ("The answer is -5 of 10", "-5", "cue"),
        ("Answer -5, 6", "-5", "cue"),
        ("Antwort: 7, nicht 8", "7", "cue"),
        ("Відповідь: 7, а не 8", "7", "cue"),
        ("所以答案是４２个，不是43", "42", "cue"),
        ("<answer>12</answer> 13", "12", "cue"),
        ("Answer: 5. No! Answer: 6. Of 7", "6", "cue"),
        (r"\boxed{5} then answer is 6 of 7", "6", "cue"),
        (r"answer is 6, so \boxed{5}, of 7", "5", "boxed"),
        (r"first \boxed{2}, corrected: \boxed{5} 9", "5", "boxed"),
        (r"\boxed{\boxed{5}} 9", "5", "boxed"),
        (r"\boxed{x = 5} 9", "5", "boxed"),
        (r"\boxed{10 \text{ m}^2} 9", "10", "boxed"),
        (r"so \boxed{42 and the reply ends" + "\n9", "42", "boxed"),
        (r"\boxed{ } 9", "9", "last_number"),
        (r"\boxed{7} and \boxed{\text{yes}} 9", "7", "boxed"),
        (r"answer is 7, \boxed{x} 9", "7", "cue"),
        ("The answer is unknown. 5 apples", "5", "last_number"),
        ("Unanswered: 4. Then 5", "5", "last_number"),
        ("Discount: 16%", "16", "last_number percent"),
        (r"\boxed{16\%} of 20", "16", "boxed percent"),
        (r"\boxed{60 \text{ km/h}} 9", "60", "boxed"),
        (r"\boxed{5m} 9", "5", "boxed"),
        (r"\boxed{90^\circ} 9", "90", "boxed"),
        (r"\boxed{\text{GPT}-4} 9", "4", "boxed"),
        (r"\boxed{5\text{-year}} 9", "5", "boxed"),
        (r"\boxed{3-9} 7", "9", "boxed"),
        (r"\boxed{3 + 5 = 8} 9", "8", "boxed"),
        (r"\boxed{2x = 10} 9", "10", "boxed"),
        (r"\boxed{(3, 5)} 9", "5", "boxed"),
        (r"\boxed{+5} 9", "5", "boxed"),
        (r"\boxed{x} and \boxed{5} 9", "5", "boxed"),
        (r"\boxed{5} and \boxed{x^2+1} 9", "5", "boxed"),
    ],
)
def test_the_last_explicit_answer_else_the_last_number(text: str, number: str, rule: str) -> None:
    assert read_number(text) == (number, "ok", rule)


@pytest.mark.parametrize("boxed", [r"\text{none}", "x", r"2\pi", r"\frac{\sqrt{3}}{2}", "B", "2^n"])
def test_a_box_of_something_else_is_not_replaced_by_a_number_of_the_text(boxed: str) -> None:
    assert read_number(rf"With 3 and 4: $\boxed{{{boxed}}}$ (9)") == (None, "no_match", "boxed_no_number")


def test_integers_of_any_size_are_exact() -> None:
    digits = "123456789" * 2_000
    assert read_number(f"it is {digits}")[0] == digits
    assert read_number(f"-{digits}.{digits}0")[0] == f"-{digits}.{digits}"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e400", "1" + "0" * 400), ("1e-400", "0." + "0" * 399 + "1"), ("1e401", "1e401"), ("-25e999", "-2.5e1000"),
        ("1" + "0" * 401, "1e401"), ("0e999999999", "0"), ("1e-999999999", "1e-999999999"),
        ("7, not 10e999999999", "7"),
    ],
)  # fmt: skip
def test_exponents_are_written_out_to_a_bound_and_one_value_has_one_spelling(text: str, number: str) -> None:
    assert read_number(text)[0] == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1/3", "0.33333333333333333333"), ("2/3", "0.66666666666666666667"), ("1/1024", "0.0009765625"),
        ("12345678901234567890123/2", "6172839450617283945061.5"), ("1/7e", "0.14285714285714285714"),
    ],
)  # fmt: skip
def test_quotients_are_exact_where_they_end_and_rounded_where_not(text: str, number: str) -> None:
    assert read_number(text)[0] == number


N = 1 << 16
HOSTILE = {
    "digits": "1" * N, "commas": "1," * N, "groups": "1,234" + ",567" * N + "8", "lakhs": "1" + ",23" * N,
    "open braces": "{" * N, "nested braces": "{" * N + "}" * N, "boxes": "\\boxed{" * N,
    "nested": "\\boxed{1" * N + "}" * N,
    "fractions": "\\frac{" * N, "fraction in fraction": "\\frac{1" * N + "}{2}" * N, "roots": "\\sqrt{" * N,
    "dots": "1." * N, "slashes": "1/" * N, "minus": "-" * N, "dollars": "$" * N, "cues": "answer is " * N,
    "sums": "answer is 1 + " * N, "equations": "answer is " + "1=" * N, "exponents": "1e" * N, "powers": "10^" * N,
    "blanks behind a cue": "answer:" + " " * N + "5", "range": "1-" * N, "brackets": "answer (" * N,
    "hashes": "#### " * N,
    "long quotient": "1" * N + "/" + "3" * N, "raised": "10" + "⁶" * N, "backslashes": "\\" * N,
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_is_scanned_twice(text: str) -> None:
    began = time.process_time()
    found, status, _ = read_number(text)
    assert (found is None) == (status == "no_match")
    assert time.process_time() - began < 30, "hangs: what reads the text again and again would take minutes"


def test_noise_is_dropped_before() -> None:
    found = extract(pl.Series(["\ufeff42<|im_end|> 43"]), {"type": "number"})
    assert found.row(0) == ("42", "ok", "last_number")
