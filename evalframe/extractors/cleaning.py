"""Model noise around a reply: end-of-text tokens, byte order marks, zero-width characters, blanks at the ends."""

from __future__ import annotations

import polars as pl

END_OF_TEXT = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "</s>")

# what Python's str.strip takes; polars' own strip_chars() leaves U+001C to U+001F
WHITE_SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
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
