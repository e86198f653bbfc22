"""Replies as models write them, and as they do at their worst: made of pieces, the same for the same seed."""

import random

# --- ordinary: reasoning, then an answer

WORDS = [
    "so", "we", "then", "find", "value", "naïve", "total", "of", "the", "each", "price", "is", "and", "costs", "for",
    "Janet’s", "clearly", "hours", "option", "because", "which", "result", "in", "all", "a", "not", "sure", "number",
    "eggs", "per", "day", "that", "means", "she", "makes", "every", "week", "this", "has", "to", "be", "left", "over",
    "more", "than", "half", "as", "many", "days", "they", "were", "sold", "at", "market", "remaining", "it", "takes",
    "him", "bought", "with", "from", "by", "two", "times", "first", "second", "years", "old", "how", "much", "on",
]  # fmt: skip
OPENERS = ["The answer is ", "Answer: ", "I think that ", "", "Let's see.\nFirst, we add.\n", "Überlegung: ",
           "हिन्दी ", "**Final** ", "A careful look: ", "(C) or maybe "]  # fmt: skip
NUMBERS = ["$1,234.50", "-3", "1e5", "3/4", "50%", "42", ".5", "12,34", "1,234,567", "−7", "$-5", "x2", "3.", "1/0"]
LABELS = ["positive", "negative", "neutral", "not sure"]
ENDS_OF_LABELS = [".", "", "ly", "!", "_", "ʼ", "²"]
ENDS_OF_LETTERS = [".", ")", "", " because", "²", "_x", "\u0301"]


def short(count: int, seed: int = 5) -> list[str]:
    """Make replies of about 120 characters: a number, letter, label, tag or fence, words before or behind."""
    drawn = random.Random(seed)

    def answer() -> str:
        match drawn.choices("nlstf-", weights=(25, 20, 20, 15, 10, 10))[0]:
            case "n":
                return drawn.choice(NUMBERS)
            case "l":
                return drawn.choice("ABCDE") + drawn.choice(ENDS_OF_LETTERS)
            case "s":
                label = drawn.choice(LABELS)
                return (label.upper() if drawn.random() < 0.3 else label) + drawn.choice(ENDS_OF_LABELS)
            case "t":
                return f"<answer>{drawn.randint(0, 999)}</answer> or <answer>{drawn.randint(0, 99)}</answer>"
            case "f":
                return f"```python\nprint({drawn.randint(0, 9)})\n```\nDone"
        return drawn.choice(["\r\nline two\n\nline three", ""])

    def one() -> str:
        opener, said = drawn.choice(OPENERS), answer()
        filler = " ".join(drawn.choices(WORDS[:8], k=drawn.randint(0, 60)))
        return drawn.choice([f"{opener}{said} {filler}", f"{filler}\n{opener}{said}", f"{opener}{said}"])

    return [one() for _ in range(count)]


def reasoned(count: int, seed: int = 6) -> list[str]:
    """Make chains of thought of 300 to 2,000 characters that end in a number, a letter and a label, cued or not."""
    drawn = random.Random(seed)

    def step() -> str:
        a, b = drawn.randint(1, 99), drawn.randint(1, 99)
        words = " ".join(drawn.choices(WORDS, k=drawn.randint(8, 25)))
        return words.capitalize() + drawn.choice(
            [f" {a} + {b} = {a + b}.", f" {a}*{b} = {a * b:,}.", ".", f" ${a}.50."]
        )

    def end() -> str:
        number, letter, label = drawn.randint(1, 9999), drawn.choice("ABCD"), drawn.choice(LABELS)
        return drawn.choice([
            f"The answer is {number}.", f"#### {number:,}", f"**Answer:** {number}", f"So it costs ${number} in all.",
            f"Therefore, $\\boxed{{{number}}}$.", f"The answer is ({letter}).", f"Answer: {letter}",
            f"**Final answer: {letter}**", f"Label: {label}",
            f"The sentiment is **{label}**, not {drawn.choice(LABELS)}.",
        ])  # fmt: skip

    return ["\n".join([*(step() for _ in range(drawn.randint(4, 18))), end()]) for _ in range(count)]


# --- hostile: cues, links, answers and neighbours in any order

CUES = [
    "", "answer", "Answer", "ANSWER", "answers", "ans", "answer choice", "the answer", "The final answer",
    "Antwort", "Réponse", "RÉPONSE", "ответ", "ОТВЕТ", "答案", "回答", "答え", "jeans", "my_answer", "_answer_",
    "**Answer**", "svar", "Label", "class", "Class", "score", "Score", "masterclass", "option", "Option", "choice",
    "result", "The sentiment", "an\u017fwer", "\u212alasse", "İ", "correct one", "answer (the answer is 4)",
    "answer (A)", "Answer (A, B or C)", "answer to the question", "<answer>", "</answer>", "<label>", "####",
    "#####", "#### ", "\\boxed{", "\\fbox{", "\\boxed {", "I choose", "I would", "I will pick", "so I", "选", "选项",
    "}", "{", "}}", "$", "$$", "\\(", "\\)", "\\text{", "\\textbf{", "\\frac{1}{", "\\sqrt{", "<b>", "</b>", "<i>",
]  # fmt: skip
LINKS = [
    ":", " is ", " are ", "=", "->", "-", " - ", "：", "是", " would be ", " is: ", " must be", " is **", ": **",
    ": $", " = ", "ist ", " is clearly ", " is approximately ", " is the correct option ", ": option ", ": (",
    ": Option ", ": x = ", ": \n\n", " is\n", " was ", ": \\text{",
]  # fmt: skip
HARD_NUMBERS = [
    "18", "-5", "1,234", "3.50", "0.0", "007", "$42", "-$7", "$-7", "12,34", "1,2345", "1/2", "3 1/2", "1e5",
    "10^6", "2^5", "50%", "50 %", "x2", "5kg", "5 apples", "5th", "1.2.3", "3-9", "3 to 9", "3 – 9", "½", "1½",
    "１２", "٣", "10⁶", "2 x 10^5", "5 × 10", "0x1F", "+-5", "\\frac{1}{2}", "\\frac12", "\\sqrt{3}", "\\sqrt 5",
    "2\\pi", "12:30", "1'234", "1\u00a0234", "€5", "−3", "–3", "5!", "5^2", "5 ^ 2", "5**2", "5√2", "<sup>2</sup>",
    "m^2", "x_1", "100", "0", "-0", ".5", "5.", "123456789012345678901234567890123", "1,234,567.8900", "13>>13",
    "=4", "3x+2", "12+3i",
]  # fmt: skip
NEIGHBOURS = [
    " ", " ", "\n", "\n\n", ".", ".", " of ", ",", " to ", " x ", " and ", " because ", " is ", " or ", "**", "*",
    "`", '"', "'", "’", "(", ")", "[", "]", "—", "–", "-", "…", "\t", "\u3000", "\x1c", "\r\n", " fits. ",
    " The next.", "; ", "! ", "? ", "e", "+", "#", "/", "&", "%", "\\", "_", "__", "^", "<", ">", ">>", "=", "é",
    "\u0301", "²", "1", "5", ".5", ",000", "A ", "A quick look", "I think ", "a ", "U.S. ", "e.g. ", "\u200b",
    "</s>", "x",
]  # fmt: skip
HARD_ANSWERS = ["C", "a", "I", "A", "7", "-5", "3.5", "10^5", "1,234", "no"]


def hostile(count: int, answers: list[str], seed: int) -> list[str]:
    """Make texts of cues, links, the given answers in any case, and neighbours of words and numbers."""
    drawn = random.Random(seed)

    def answer() -> str:
        change = drawn.choice([str, str, str.lower, str.upper, str.title])
        return change(drawn.choice(answers)) if drawn.random() < 0.85 else drawn.choice(HARD_ANSWERS)

    def cued() -> str:
        return drawn.choice(CUES) + drawn.choice(LINKS) + answer()

    def one() -> str:
        kind = drawn.random()
        if kind < 0.4:
            before = drawn.choice(
                ["So ", "We get A or 7.\n", "x", "- ", "1. ", "A hexagon ", "\\frac{1}{2} then ", "", ""]
            )
            behind = drawn.choice(["", "", "", "5", answer(), " 6 left", "\n7", cued()])
            return before + cued() + drawn.choice(NEIGHBOURS) + behind + drawn.choice(["", "", ".", " b", "}", "\\) "])
        if kind < 0.6:
            before = drawn.choice(["", "(", " ", "**", "$", "It is ", "it's "])
            return before + answer() + drawn.choice(NEIGHBOURS) + drawn.choice(["", f" {answer()}"])
        kinds = [CUES, LINKS, NEIGHBOURS, NEIGHBOURS, [answer()], [answer()]]
        return "".join(drawn.choice(drawn.choice(kinds)) for _ in range(drawn.randint(1, 9)))

    return [one() for _ in range(count)]
