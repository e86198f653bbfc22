"""A key is found in what a server sends, however it is written there, and nothing else is taken out."""

from __future__ import annotations

import html
import json
import string
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from evalframe.adapters.secrets import SHORTEST, Secret

KEYS = st.text(string.ascii_letters + string.digits + "-_./+=~&<\"'", min_size=SHORTEST, max_size=60).filter(
    lambda key: sum(char.isalnum() for char in key) >= 4
)
WRITTEN = [
    str, lambda key: json.dumps(key)[1:-1], lambda key: key.replace("/", r"\/"), html.escape,
    lambda key: quote(key, safe=""),
    lambda key: "".join(c if c.isalnum() else f"\\u{ord(c):04X}" for c in key),
    lambda key: json.dumps(json.dumps(key)[1:-1])[1:-1],  # JSON within JSON
]  # fmt: skip


@given(KEYS, st.sampled_from(WRITTEN), st.text("äx ", max_size=9), st.text("äx ", max_size=9))
def test_a_key_is_blotted_out_however_it_is_written(key, written, before, after) -> None:
    sent = f"{before} {written(key)} {after}"
    assert Secret(key).blot_text(sent) == f"{before} [key] {after}"
    assert Secret(key).blot(sent.encode()).decode() == f"{before} [key] {after}"


@given(KEYS, st.binary(max_size=50))
def test_what_has_no_key_stays_the_very_object(key, sent) -> None:
    if key.encode() not in sent:
        assert Secret(key).blot(sent) is sent or b"[key]" in Secret(key).blot(sent)
    for short in (None, "", "EMPTY"):
        assert Secret(short).blot(b"EMPTY") == b"EMPTY"


def test_a_secret_shows_nothing_of_itself() -> None:
    assert "sk-12345678" not in repr(Secret("sk-12345678")) + str(vars(Secret("sk-12345678")))
