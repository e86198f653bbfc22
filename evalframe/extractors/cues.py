r"""The words and marks behind which a reply puts its answer; for labels and numbers alike.

A cue is a noun, some decoration, and a link (``Answer: ``, ``**Antwort** ist``, ``the correct option would be``), or a
mark that needs no link (``\boxed{``, ``<answer>``, ``####``, ``I choose``).
"""

from __future__ import annotations

import re

ANSWER_NOUNS = (
    "answer", "answers", "answer choice", "answer option", "ans", "correct one", "right one", "best one",
    "antwort", "lösung", "réponse", "reponse", "respuesta", "risposta", "resposta", "antwoord", "svar", "odpowiedź",
    "odpověď", "răspuns", "cevap", "yanıt", "відповідь", "ответ", "atsakymas", "vastaus", "jawaban", "đáp án",
    "απάντηση", "答案", "答え", "答", "回答", "정답", "답", "الإجابة", "الجواب", "תשובה", "उत्तर", "উত্তর", "คำตอบ",
)  # fmt: skip
LABEL_NOUNS = (
    "label", "class", "category", "classification", "prediction", "verdict", "choice", "option", "sentiment",
    "decision", "judgment", "judgement", "rating", "score", "result", "output", "kategorie", "klasse", "klasa",
    "étiquette", "etiqueta", "clase", "classe", "категорія", "категория", "класс", "标签", "类别", "选项",
)  # fmt: skip
LINKS = (
    ":", "：", "=", "-", "–", "—", "->", "=>", "→", "is", "are", "was", "would be", "should be", "must be", "will be",
    "seems to be", "appears to be", "could be", "ist", "lautet", "est", "es", "è", "é", "jest", "є", "это", "是", "为",
    "は", "は、", "는", "은", "هي", "هو", "है",
)  # fmt: skip
LABEL_MARKS = (
    r"<answer>", r"<label>", r"\\[fc]?box(?:ed)?[ ]?\{", r"(?<!#)####(?!#)",
    r"\bi (?:would |will )?(?:choose|pick|select|go with|opt for)(?!\w)", r"选择?",
)  # fmt: skip
NUMBER_MARKS = (r"<answer>",)  # boxes and #### have rules of their own there

# what may stand between a noun and its link, and between a cue and the answer: markdown, LaTeX, quotes, brackets
BETWEEN = r"(?: to (?:the|this) question)?(?: ?\([^()\n]{0,40}\))?[*_`\"'”’)\]}$]{0,6}\s{0,3}"
DECORATION = (
    r"(?:[\s*_`$\"'“”‘’«»„(\[{<>:=~≈#|-]"
    r"|\\(?:[(\[,;:!\\]|left[(\[]?|big[(\[]?|(?:text(?:bf|rm|it)?|math(?:bf|rm|it|sf)|mbox|f?boxed|fbox|large|bf|rm)\s?\{?)"
    r"|</?(?:b|i|em|strong|u|code|answer|label)>)"
)


def pattern(nouns: tuple[str, ...], marks: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern, for a text in lower case, whose matches end where the answer may begin."""
    words = "|".join(re.escape(noun) for noun in sorted(nouns, key=len, reverse=True))
    links = "|".join(
        re.escape(link) + (r"(?!\w)" if is_cased(link[-1]) else "") for link in sorted(LINKS, key=len, reverse=True)
    )
    return re.compile(rf"(?P<noun>{words}){BETWEEN}(?:{links})|(?:{'|'.join(marks)})")


def ends(cue: re.Pattern[str], lowered: str) -> list[tuple[int, int]]:
    """Where each cue of a text begins and ends; a noun inside a longer word is none."""
    places: list[tuple[int, int]] = []
    position = 0
    while found := cue.search(lowered, position):
        if found["noun"] and _continues_a_word(lowered, found.start()):
            position = found.start() + 1  # "my_answer choice: B" has the cue "choice:"
        else:
            position = found.end()
            places.append((found.start(), position))
    return places


def in_lower_case(text: str) -> str:
    """Lower a text so that every character keeps its place (``İ`` alone would become two)."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def is_cased(char: str) -> bool:
    """Tell letters of words (Latin, Greek, Cyrillic, ...) from those of scripts that set no blanks around a word."""
    return char.lower() != char.upper()


def _continues_a_word(lowered: str, start: int) -> bool:
    """Tell ``unclass`` and ``my_class`` from ``class`` and ``_class_``."""
    if start == 0 or not is_cased(lowered[start]):
        return False
    before = lowered[start - 1]
    return before.isalnum() or (before == "_" and start > 1 and lowered[start - 2].isalnum())
