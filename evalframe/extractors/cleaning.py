"""Model noise around a reply: end-of-text tokens, byte order marks, zero-width characters, blanks at the ends."""

from __future__ import annotations

import polars as pl

from evalframe.words import WHITE_SPACE

END_OF_TEXT = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "</s>")

# without width and without ink: zero-width space and joiners, direction marks, word joiner and invisible operators, BOM
ZERO_WIDTH = "\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
NO_INK = WHITE_SPACE + ZERO_WIDTH

_FROM_THE_FIRST_TOKEN = r"(?s)(?:<\|endoftext\|>|<\|im_end\|>|<\|eot_id\|>|</s>).*"


def cleaned(texts: pl.Series) -> pl.Series:
    r"""Drop an end-of-text token and what follows it, then blanks and zero-width characters at both ends.

    Nulls:
        A null stays null; a text of noise alone becomes the empty text.

    >>> cleaned(pl.Series(["\ufeff 42 </s> Question: next", " \u200b\n"])).to_list()
    ['42', '']
    """
    return texts.str.replace(_FROM_THE_FIRST_TOKEN, "").str.strip_chars(NO_INK)
