"""The one tokenizer of f1, bleu_4 and rouge_l: runs of word characters of the lower-cased text."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")


def tokens(text: str) -> list[str]:
    r"""Split a text into the runs of ``\w`` of its lower-cased form, as Python's ``re`` (Unicode) has them.

    A contract, not a knob: other tokenizers come as other metrics. Line breaks and punctuation separate; marks that
    are no word characters to Python (Devanagari vowel signs) do too, on both sides alike; a script without blanks is
    one token a run.

    Nulls: the empty text, and one without word characters, has no tokens.

    >>> tokens("Don't panic:\nit's 42!")
    ['don', 't', 'panic', 'it', 's', '42']
    """
    return _WORD.findall(text.lower())
