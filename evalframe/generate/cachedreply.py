"""A reply as the result cache keeps it: as the adapter gave it, before it was judged, and what it cost."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from numbers import Integral, Real
from typing import Any

from evalframe.adapters import Generation

COMPRESS_FROM = 2_000  # bytes; for less it costs more time than a disk is worth
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = tuple(field.name for field in fields(Generation) if field.name != "raw")


@dataclass(frozen=True, slots=True)
class CachedReply:
    """A reply as it was when it was paid for.

    Attributes:
        generation: What the adapter gave, before it was judged.
        latency_seconds: Of the call that gave it.
        cost_usd: Dollars that the call cost; None: the price was not known.
        created_at: When it was kept.
    """

    generation: Generation
    latency_seconds: float
    cost_usd: float | None
    created_at: datetime


def pack(generation: Generation) -> bytes:
    """Write a reply: how long its JSON (all fields but ``raw``, no nulls) is, that, and the raw bytes.

    Large ones are compressed; the first byte says whether it is.

    Raises:
        TypeError, ValueError, RecursionError: A value is no JSON.
    """
    values = {name: value for name in _FIELDS if (value := getattr(generation, name)) is not None}
    body = _dumps(values).encode("utf-8", "surrogatepass")
    content = b"%d\n%b%b" % (len(body), body, generation.raw)
    return b"z" + zlib.compress(content, 1) if len(content) >= COMPRESS_FROM else b"-" + content


def unpack(packed: bytes) -> Generation:
    """Read a reply.

    Raises:
        ValueError, zlib.error: It was not written by ``pack``.
    """
    content = zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed[1:]
    length, _, rest = content.partition(b"\n")
    size = int(length)
    values = json.loads(rest[:size])
    if not isinstance(values, dict) or not {"text"} <= values.keys() <= set(_FIELDS):
        raise ValueError("an entry holds no reply")
    if (logprobs := values.get("choice_logprobs")) is not None:
        values["choice_logprobs"] = tuple(logprobs)
    return Generation(**values, raw=rest[size:])


def to_micros(moment: datetime) -> int:
    """Give a time as whole microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Give the time of whole microseconds since 1970, in UTC."""
    return EPOCH + timedelta(microseconds=micros)


def _plain(value: Any) -> Any:
    """Give numbers of other libraries and read-only mappings as JSON has them."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
