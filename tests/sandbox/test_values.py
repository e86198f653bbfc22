"""The typed protocol, end to end over a pair of sockets."""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalframe.sandbox.protocol import MessageBuffer, ProtocolError, read_message, write_message
from evalframe.sandbox.values import MAX_DEPTH, CandidateError, Gone, Peer, TooLarge, rebuilt

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.sets(KEYS) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


class StandIn:
    def __init__(self, name: str, handle: int) -> None:
        self.name = name


def peer(received: bytes = b"") -> Peer:
    return Peer(io.BytesIO(received), io.BytesIO(), handle=lambda *a: None, remote=StandIn)


def exactly(value: Any) -> Any:
    """A form of a value in which 1, 1.0 and True, 0.0 and -0.0, and two NaN are told apart or the same."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else value.hex())
    if isinstance(value, list | tuple):
        return (type(value).__name__, [exactly(item) for item in value])
    if isinstance(value, set):
        return ("set", sorted(repr(exactly(item)) for item in value))
    if isinstance(value, dict):
        return ("dict", [(exactly(key), exactly(item)) for key, item in value.items()])
    return (type(value).__name__, value)


@given(PLAIN)
def test_plain_values_survive_exactly(value):
    sent = json.loads(json.dumps(peer().encode(value), allow_nan=False))
    assert exactly(peer().decode(sent)) == exactly(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=15))
def test_no_message_makes_the_decoder_do_more_than_refuse(form):
    try:
        decoded = peer().decode(form)
    except (ValueError, TypeError, IndexError, OverflowError):
        return
    peer().encode(decoded)


def test_subclasses_and_other_objects_stay_with_their_owner():
    class Number(int):
        pass

    class Text(str):
        pass

    for value in (Number(3), Text("x"), object(), len, 1j, frozenset(), range(3), bytearray()):
        one = peer()
        assert one.encode(value) == ["o", type(value).__name__, 0]
        assert one.encode([value, value]) == ["l", ["o", type(value).__name__, 0], ["o", type(value).__name__, 0]]
        assert one.decode(["r", 0]) is value


def test_a_stand_in_is_one_object_and_goes_back_as_a_reference():
    one = peer()
    stand_in = one.decode(["o", "Stack", 4])
    assert one.decode(["o", "Stack", 4]) is stand_in
    assert one.encode([stand_in]) == ["l", ["r", 4]]


def test_depth_and_number_of_items_are_bounded():
    value: list[Any] = []
    for _ in range(MAX_DEPTH):
        value = [value]
    assert peer().decode(peer().encode(value)) == value
    with pytest.raises(TooLarge):
        peer().encode([value])


def test_exceptions_come_back_as_the_nearest_built_in_one():
    assert type(rebuilt(["Own", "KeyError", "LookupError"], ["k"])) is KeyError
    assert rebuilt(["Own", "KeyError"], ["k"]).candidate_type == "Own"
    assert rebuilt(["ValueError"], ["bad", 3]).args == ("bad", 3)
    for names in (["AssertionError", "Exception"], ["SystemExit", "BaseException"], ["int"], [], "x", [3], ["eval"]):
        assert type(rebuilt(names, [])) is CandidateError
    assert str(rebuilt(["UnicodeDecodeError", "ValueError"], ["one"])) == "one"


def test_once_gone_it_is_gone():
    one = peer()
    for _ in range(2):
        with pytest.raises(Gone, match="ended early"):
            one.ask("call")
    assert not isinstance(Gone(), Exception)


def test_messages_in_pieces_are_the_messages_in_one():
    stream = io.BytesIO()
    messages = [["a", 1], {"é": None}, "x" * 1000, []]
    for message in messages:
        write_message(stream, message)
    whole = stream.getvalue()
    for size in (1, 3, 7, 1000, len(whole)):
        buffer = MessageBuffer(max_bytes=2000)
        assert [m for at in range(0, len(whole), size) for m in buffer.feed(whole[at : at + size])] == messages
    stream.seek(0)
    assert [read_message(stream) for _ in messages] == messages


@pytest.mark.parametrize("sent", [struct.pack(">I", 2001), struct.pack(">I", 3) + b"{]}", b"\xff\xff\xff\xff"])
def test_what_is_no_message_is_refused(sent):
    with pytest.raises(ProtocolError):
        MessageBuffer(max_bytes=2000).feed(sent)
    with pytest.raises(ProtocolError):
        read_message(io.BytesIO(sent), max_bytes=2000)


def test_a_message_over_the_limit_is_not_begun():
    stream = io.BytesIO()
    with pytest.raises(ProtocolError, match="over the limit of 10"):
        write_message(stream, "x" * 20, max_bytes=10)
    assert stream.getvalue() == b""
