r"""The regular expressions by which Rust's engine finds the labels of a set, as ``labels`` and ``letters`` find them.

For the first label of a text there are two. The *wide* one takes at least every place where the walk may see a label,
the *strict* one only what is a label for certain, with the same or fewer characters before it. Where both begin at one
place, the label that the strict one takes is the first of the text. Labels are of three kinds:

* *words* begin and end with a letter: whole words, by Python's ``\w``; both expressions are the same;
* *numbers* begin or end with a digit, or begin with a sign: no part of a longer number or of a power;
* *letters* are single: the wide expression takes each capital that stands alone, and a small one before ``)``, ``]`` or
  ``.``, the strict one only those with harmless neighbours. The article *A* has alternatives of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from evalframe.extractors import cues
from evalframe.extractors.characters import BLANKS, STRANGE_LETTERS, any_case, in_rust, words
from evalframe.extractors.windows import wide

NOUNS = cues.ANSWER_NOUNS + cues.LABEL_NOUNS
_MOST_CHARS = 100
_EXPRESSIBLE = re.compile(r"[A-Za-z0-9](?:[ -~]*[A-Za-z0-9])?|[-+][0-9](?:[ -~]*[A-Za-z0-9])?")
# labels that may reach over a cue, and those that begin with a word of one character, which may be a label of its own
_REACHES_OVER = re.compile(r"[:=<>{}#\\]|\b(?:is|are|was|be)\b|^\w\s", re.IGNORECASE)
_GAP_WORDS = ("the", "most", "likely", "probably", "clearly", "definitely", "therefore", "thus", "simply", "just",
              "correct", "right", "option", "choice", "letter", "number")  # fmt: skip
_NOT_IN_A_GAP = {*_GAP_WORDS, "text", "textbf", "mathrm", "mathbf"}

# --- a label behind a cue
_CUE = (
    rf"(?:(?:{'|'.join(map(any_case, sorted(NOUNS, key=len, reverse=True)))})[*_`\"')\]}}$]{{0,4}} ?"
    rf"(?:[:=]|(?:is|are|was|would be|should be|must be|will be)[{BLANKS}])|\\boxed\{{|<{any_case('answer')}>|####)"
)
_OPENING = rf"[{BLANKS}*`$\"(\[{{]{{0,12}}"
_WORDS_BEFORE = r"(?:(?:the )?(?:correct )?(?:option|choice|letter) |\\(?:text|textbf|mathrm|mathbf)\{)[*`$\"(\[{]{0,4}"
_WIDE_GAP = in_rust(rf"(?i:{cues.DECORATION}|[\\/]|{'|'.join(_GAP_WORDS)})*")
_NOUN = "|".join(map(re.escape, sorted(NOUNS, key=len, reverse=True)))
_WORD = words()
# what begins a part of a word behind a letter ("B-52", "B's", "B&B"), or ends one before it ("f(B", "O'B", "N/A")
_PART_BEHIND_CUE, _PART_BEHIND, _PART_BEFORE = r"'’\-‑–.&+#", r"'’\-‑–.&+#(", r"'’\-‑–./&(°\\"
_STOP = rf"\.(?:\z|[{BLANKS}*\"')\]}}$])"
_BEHIND_LETTER = rf"(?:\z|[^{_WORD}{_PART_BEHIND_CUE}]|{_STOP})"
_BEHIND_ARTICLE = (
    rf"(?:\z|[^{_WORD}{_PART_BEHIND_CUE} \t\x{{A0}}]|{_STOP}| +(?:is|was|because|since|and)(?:[ ,.\n]|\z)| +[(\[=])"
)

# --- the first label of a text
_BRACKET = rf"(?:^\(|[{BLANKS}]\()"
_BEFORE_WORD = rf"(?:{_BRACKET}|^|[^{_WORD}])"
_BEFORE_LETTER = rf"(?:{_BRACKET}|^|[^{_WORD}{_PART_BEFORE}])"
_BEFORE_NUMBER = rf"(?:{_BRACKET}|^|[^{_WORD}.,\-])"
_BEFORE_SIGN = rf"[{BLANKS}:=\"\[;>$(]"
_MAY_BE_BEFORE_NUMBER = rf"(?:{_BRACKET}|^|[^{_WORD}.\-]|[{_WORD})\]}}]-|[^0-9{BLANKS}(=:]\.)"
_END = rf"(?:\z|[^{_WORD}])"
_END_OF_LETTER = rf"(?:\z|[^{_WORD}{_PART_BEHIND}]|{_STOP})"
_END_OF_ARTICLE = rf"(?:\z|[^{_WORD}{_PART_BEHIND} \t\x{{A0}}]|{_STOP})"
_END_OF_NUMBER = rf"(?:\z|[^{_WORD}.,^* ]|[.,]{_END}| (?:\z|[^^])|\*(?:\z|[^*]|\*(?:\z|[^-+{_WORD}])))"
_MAY_BE_END_OF_NUMBER = rf"(?:\z|[^{_WORD}.,]|[.,](?:\z|[^0-9])|,(?:[0-9]{{1,2}}(?:\z|[^0-9])|[0-9]{{4}}))"
_DECORATION = BLANKS + r"*_`\"“("
_ON_ONE_LINE = _DECORATION.replace(r"\x{A}", "")
_SENTENCE_ENDS = r"\n.!?:;—>)•\-"
_GOES_ON = (
    r"(?i:is|was|isn|wasn|and|or|but|because|since|as|seems|appears|fits|works|matches|holds|follows|has|would|should)"
)
_NO_ARTICLE = rf"(?:\z|[^{_WORD} \t\x{{A0}}]|[ \t\x{{A0}}]+[*_`]*(?:\z|[^A-Za-z])|[{BLANKS}*_`$]+{_GOES_ON})"
_NO_WORD = r"[ \t\x{A0}]+[*_`\"“]*(?:\z|[^A-Za-z])"


@dataclass(frozen=True, slots=True)
class Expressions:
    """What reads the answers of one set of labels.

    Attributes:
        odd: Takes the texts that are left to the walk.
        whole: Takes a label that is all of a text; group 1 is the label.
        may_follow, may_be_cut: Take every window in which a label may follow the cue, or may be behind its end.
        follows: Takes a cue and a label behind it; one group is set, and it is the label.
        may_be, is_first: The wide and the strict expression for the first label of a text; groups as in ``follows``.
        spellings: The label by what a group holds: in lower case, but where case counts; blanks as one.
    """

    odd: str
    whole: str
    may_follow: str
    may_be_cut: str
    follows: str
    may_be: str
    is_first: str
    spellings: dict[str, str]


@lru_cache(maxsize=64)
def expressions(spellings: tuple[str, ...], plain: tuple[str, ...], case_sensitive: bool) -> Expressions | None:
    """Build the expressions of a set of labels; None where all texts are left to the walk.

    Args:
        spellings: The labels, the longest first.
        plain: The same as they are looked for: stripped, in plain signs.
        case_sensitive: Whether case counts.
    """
    if not all(map(_is_expressible, plain)) or _share_a_beginning(plain):
        return None
    kinds = _Kinds.of(plain, case_sensitive)
    first_words = [label.split()[0] for label in plain]
    first_word = "|".join(map(kinds.spell, first_words))
    takes_words = not _NOT_IN_A_GAP & {word.lower() for word in first_words}
    # the sign of "Score -1" may be taken for the link
    signed = rf"|(?i:{_NOUN}){in_rust(cues.BETWEEN)}" if kinds.signed else ""
    cue = rf"^(?:{wide(NOUNS, cues.LABEL_MARKS)}{signed}){_WIDE_GAP}"
    keys = [" ".join((label if case_sensitive else label.lower()).split()) for label in plain]
    return Expressions(
        odd=kinds.odd(),
        whole=rf"^({'|'.join(map(kinds.spell, plain))})\z",
        may_follow=rf"{cue}(?:{kinds.wide_behind_a_cue()})",
        may_be_cut=rf"{cue}(?:(?:{first_word}){_END}|(?s:.){{0,{max(map(len, first_words))}}}\z)",
        follows=rf"^{_CUE}(?:{_OPENING}{_WORDS_BEFORE if takes_words else ''}|{_OPENING})(?:{kinds.behind_a_cue()})",
        may_be=kinds.wide(),
        is_first=kinds.strict(),
        spellings=dict(zip(reversed(keys), reversed(spellings), strict=True)),
    )


def _is_expressible(label: str) -> bool:
    return (
        len(label) <= _MOST_CHARS
        and bool(_EXPRESSIBLE.fullmatch(label))
        and not _REACHES_OVER.search(label)
    )  # fmt: skip


def _share_a_beginning(plain: tuple[str, ...]) -> bool:
    """Tell whether a number may be taken for the beginning of another label (5 and 5.0)."""
    return any(
        longer.startswith(label) and not longer[len(label)].isalnum() and longer[-1].isdecimal()
        for label in plain for longer in plain if len(longer) > len(label)
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The labels of a set by their kind, the longest first."""

    words: tuple[str, ...]
    numbered: tuple[str, ...]
    numbers: tuple[str, ...]
    signed: tuple[str, ...]
    capitals: str
    small: str
    case_sensitive: bool

    @classmethod
    def of(cls, plain: tuple[str, ...], case_sensitive: bool) -> _Kinds:
        letters = {label for label in plain if len(label) == 1 and label.isalpha()}
        if not case_sensitive:
            letters |= {letter.swapcase() for letter in letters}
        rest = [label for label in plain if label not in letters]
        return cls(
            words=tuple(label for label in rest if label[0].isalpha() and label[-1].isalpha()),
            numbered=tuple(label for label in rest if label[0].isalpha() and label[-1].isdecimal()),
            numbers=tuple(label for label in rest if label[0].isdecimal()),
            signed=tuple(label for label in rest if not label[0].isalnum()),
            capitals="".join(sorted(filter(str.isupper, letters))),
            small="".join(sorted(filter(str.islower, letters))),
            case_sensitive=case_sensitive,
        )

    def spell(self, label: str) -> str:
        """Spell a label; any blanks may stand between its words."""
        words = map(re.escape, label.split()) if self.case_sensitive else map(any_case, label.lower().split())
        return rf"[{BLANKS}]+".join(words)

    def odd(self) -> str:
        """Take letters with a strange case, what may be emphasis (_B_), and what makes numbers powers."""
        parts = [f"[{STRANGE_LETTERS}]", r"_[^_\n]+_"]
        if self.numbered or self.numbers or self.signed:
            parts.append(r"\^|[0-9]\*\*")
        if "A" in self.capitals:
            parts.append(rf"[{_DECORATION}]{{20}}")  # letters looks at 24 characters only
        return "|".join(parts)

    def behind_a_cue(self) -> str:
        safe = "".join(letter for letter in self.capitals + self.small if letter not in "AaIi")
        article = "".join(letter for letter in self.capitals + self.small if letter in "AaIi")
        return _any_of(
            self._group(self.words, _END),
            *self._numbers(self.numbered + self.numbers + self.signed, _END_OF_NUMBER),
            safe and rf"([{safe}]){_BEHIND_LETTER}",
            article and rf"([{article}]){_BEHIND_ARTICLE}",
        )

    def wide_behind_a_cue(self) -> str:
        others = "".join(letter for letter in self.capitals + self.small if letter not in "AaIi")
        article = "".join(letter for letter in self.capitals + self.small if letter in "aIi")
        numbers = self.numbered + self.numbers + self.signed
        return _any_of(
            self._group(self.words, _END),
            *self._numbers(numbers, _MAY_BE_END_OF_NUMBER),
            others and rf"[{others}]{_END}",
            article and rf"[{article}]{_NO_ARTICLE}",
            "A" in self.capitals and rf"A(?:{_NO_ARTICLE}|[ \t\x{{A0}}]+[*_`]*[^a-z])",
        )

    def wide(self) -> str:
        others = "".join(letter for letter in self.capitals if letter not in "AI")
        return _any_of(
            self.words and rf"{_BEFORE_WORD}{self._group(self.words, _END)}",
            *(_BEFORE_WORD + group for group in self._numbers(self.numbered, _MAY_BE_END_OF_NUMBER)),
            *(_MAY_BE_BEFORE_NUMBER + group for group in self._numbers(self.numbers, _MAY_BE_END_OF_NUMBER)),
            *(rf"{_BEFORE_SIGN}?{group}" for group in self._numbers(self.signed, _MAY_BE_END_OF_NUMBER)),
            others and rf"{_BEFORE_WORD}[{others}]{_END}",
            self.small and rf"{_BEFORE_WORD}[{self.small}][)\].]",
            "A" in self.capitals and _WIDE_A,
            "I" in self.capitals and _WIDE_I,
        )

    def strict(self) -> str:
        others = "".join(letter for letter in self.capitals if letter not in "AI")
        article = "".join(letter for letter in self.capitals if letter in "AI")
        return _any_of(
            self.words and rf"{_BEFORE_WORD}{self._group(self.words, _END)}",
            *(_BEFORE_WORD + group for group in self._numbers(self.numbered, _END_OF_NUMBER)),
            *(_BEFORE_NUMBER + group for group in self._numbers(self.numbers, _END_OF_NUMBER)),
            *(rf"(?:^|{_BEFORE_SIGN}){group}" for group in self._numbers(self.signed, _END_OF_NUMBER)),
            others and rf"{_BEFORE_LETTER}([{others}]){_END_OF_LETTER}",
            article and rf"{_BEFORE_LETTER}([{article}]){_END_OF_ARTICLE}",
            self.small and rf"{_BRACKET}([{self.small}])\)",
            self.small and rf"{_BEFORE_LETTER}([{self.small}])\.(?:\z|[{BLANKS}])",
            "A" in self.capitals and rf"{_BEFORE_LETTER}(A) (?:is|was|and|or|because|since)(?:[ ,.\n]|\z)",
            "A" in self.capitals and r"[a-z,] (A) [a-z]",
            "I" in self.capitals and rf"{_BEFORE_LETTER}(I) is(?:[ ,.\n]|\z)",
        )

    def _choice(self, labels: tuple[str, ...]) -> str:
        return "|".join(map(self.spell, labels))

    def _group(self, labels: tuple[str, ...], end: str) -> str:
        return rf"({self._choice(labels)}){end}" if labels else ""

    def _numbers(self, labels: tuple[str, ...], end: str) -> list[str]:
        """Give a group of those that end in a letter (3D), and one of the others."""
        in_letter = tuple(label for label in labels if label[-1].isalpha())
        in_digit = tuple(label for label in labels if not label[-1].isalpha())
        return [group for group in (self._group(in_letter, _END), self._group(in_digit, end)) if group]


def _any_of(*alternatives: str | bool | tuple[str, ...]) -> str:
    return "|".join(
        f"(?:{alternative})" for alternative in alternatives if isinstance(alternative, str) and alternative
    )


# the article: a capital A at the beginning of a sentence and before a word that may begin one
_NAMED = rf"(?i:option|choice|letter|label|answer|statement|item)s?[{BLANKS}]*[*_`(\"]*"
_WIDE_A = (
    rf"{_BEFORE_WORD}A(?:\z|[^{_WORD} \t\x{{A0}}]|{_NO_WORD}|[{BLANKS}*_`$]+{_GOES_ON})|{_NAMED}A{_END}"
    # in the middle of a sentence
    rf"|(?:[^{_SENTENCE_ENDS}{_DECORATION}{_WORD}]|[^{_SENTENCE_ENDS}{_DECORATION}][{_ON_ONE_LINE}]+)A{_END}"
)
# the pronoun: a capital I before a word
_WIDE_I = rf"{_BEFORE_WORD}I(?:\z|[^{_WORD} \t\x{{A0}}]|{_NO_WORD}|[{BLANKS}*_`$]+(?i:is))|{_NAMED}I{_END}"
