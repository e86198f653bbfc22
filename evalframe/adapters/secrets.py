"""A key leaves this process in the head of a request and nowhere else: what a server repeats of it is blotted out."""

from __future__ import annotations

import re
from functools import cached_property

BLOT = b"[key]"
# what stands for a key where a server needs none ("EMPTY", "none", "x") is a word that answers may have
SHORTEST = 8


class Secret:
    """A key, and how it is found in what a server sends. It shows nothing of itself.

    Args:
        key: The key; None: there is none.
    """

    __slots__ = ("__dict__", "_key")

    def __init__(self, key: str | None) -> None:
        self._key = key or ""

    def __repr__(self) -> str:
        return "Secret()"

    def blot(self, sent: bytes) -> bytes:
        r"""Take the key out of a body, however JSON, HTML or a URL writes it.

        >>> Secret("sk/abcdef=1").blot(rb'{"error": "wrong key: sk\/abcdef\u003d1"}')
        b'{"error": "wrong key: [key]"}'
        """
        # most bodies have nothing of it, which the plain part tells fast
        if len(self._key) < SHORTEST or self._plain not in sent:
            return sent
        return self._written.sub(BLOT, sent)

    def blot_text(self, text: str) -> str:
        """Take the key out of a text."""
        return self.blot(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    @cached_property
    def _plain(self) -> bytes:
        """The longest part that is written alike everywhere."""
        parts: list[str] = re.findall(r"[A-Za-z0-9]*", self._key)
        return max(parts, key=len).encode()

    @cached_property
    def _written(self) -> re.Pattern[bytes]:
        return re.compile("".join(map(_forms, self._key)).encode())


def _forms(char: str) -> str:
    if char.isalnum():
        return re.escape(char)
    code = f"{ord(char):02x}"
    return rf"(?:\\*{re.escape(char)}|\\+u00(?i:{code})|%(?i:{code})|&#?[A-Za-z0-9]+;)"
