"""One finished call as a record: what the journal stores and what becomes a row of GENERATIONS."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from evalframe.frames import check
from evalframe.jsontext import clean
from evalframe.schemas import CALL_KEY, GENERATIONS
from evalframe.words import Status

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPRESS_FROM = 1_000  # characters or bytes; for less, to set up the compression takes longer than a call's JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A call that needs no more work: completed, failed or skipped. The fields are the columns of GENERATIONS.

    Attributes:
        raw: The reply as it came over the wire; only the journal keeps it.
    """

    model_id: str
    task_id: str
    sample_index: int
    repeat: int
    status: Status
    output_text: str | None = None
    reasoning: str | None = None
    tool_calls: str | None = None
    finish_reason: str | None = None
    confidence: float | None = None
    confidence_source: str | None = None
    token_nll: float | None = None
    token_count: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    choice_logprobs: tuple[float | None, ...] | None = None
    cost_usd: float | None = None
    cost_usd_original: float | None = None
    latency_seconds: float | None = None
    attempts: int = 0
    cached: bool = False
    model_version: str | None = None
    response_id: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    started_at: datetime | None = None
    raw: bytes = b""


# what the body holds: every column but those that are columns of the journal's table
BODY = tuple(field.name for field in fields(Finished) if field.name not in {*CALL_KEY, "status", "raw"})


# made once: json.dumps with options makes one a call
_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def pack(call: Finished) -> str | bytes:
    """Write the columns beside key and status as JSON without nulls; compressed, so bytes, where that saves space.

    Lone surrogates become U+FFFD here, once for every text.
    """
    values = {name: value for name in BODY if (value := getattr(call, name)) is not None}
    if call.started_at is not None:
        values["started_at"] = (call.started_at - EPOCH) // timedelta(microseconds=1)
    text = clean(_encoded(values))
    if len(text) < COMPRESS_FROM:
        return text
    return zlib.compress(text.encode(), 1)


def pack_raw(raw: bytes) -> str | bytes | None:
    """Write a raw reply: a short one as the text that it is, any other compressed; None for none."""
    if not raw:
        return None
    if len(raw) < COMPRESS_FROM:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            pass
    return zlib.compress(raw, 1)


def unpack_raw(packed: str | bytes | None) -> bytes | None:
    """Read a raw reply."""
    return packed.encode() if isinstance(packed, str) else packed and zlib.decompress(packed)


def unpack(body: str | bytes) -> tuple[dict[str, Any], int]:
    """Read a packed body; the second value is its size in characters, for bounding what is held in memory."""
    text = zlib.decompress(body).decode() if isinstance(body, bytes) else body
    return json.loads(text), len(text)


def to_generations(calls: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> pl.DataFrame:
    """Build the GENERATIONS frame of unpacked calls: pairs of (key and status, body), in key order."""
    heads: list[tuple[Any, ...]] = []
    bodies: list[Mapping[str, Any]] = []
    for head, body in calls:
        heads.append(head)
        bodies.append(body)
    columns: dict[str, pl.Series] = {}
    for place, name in enumerate((*CALL_KEY, "status")):
        columns[name] = pl.Series(name, [head[place] for head in heads], dtype=GENERATIONS.dtypes[name])
    for name in BODY:
        values = [body.get(name) for body in bodies]
        dtype = GENERATIONS.dtypes[name]
        if name == "started_at":
            columns[name] = pl.Series(name, values, dtype=pl.Int64).cast(dtype)
        else:
            columns[name] = pl.Series(name, values, dtype=dtype)
    return check(pl.DataFrame(columns), GENERATIONS)


def from_generations(generations: pl.DataFrame) -> list[Finished]:
    """Give the calls of a GENERATIONS frame as records again, without their raw replies."""
    check(generations, GENERATIONS)
    names = [field.name for field in fields(Finished) if field.name != "raw"]
    calls = []
    for row in generations.select(names).iter_rows(named=True):  # each becomes one record of the journal
        logprobs = row["choice_logprobs"]
        calls.append(Finished(**{**row, "choice_logprobs": None if logprobs is None else tuple(logprobs)}))
    return calls
