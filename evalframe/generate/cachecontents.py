"""The result cache as a person looks at it: what is in it, what is near a request, and what may go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from evalframe.generate.cache import ResultCache
from evalframe.generate.cachedreply import from_micros, to_micros
from evalframe.generate.sqlitefile import transaction

_NEAR = """
SELECT key, text, repeat, created_at FROM replies JOIN configurations ON hash = configuration
WHERE key BETWEEN ? AND ? ORDER BY created_at, key
"""
_MODELS = """
SELECT json_extract(text, '$.model'), count(*), sum(length(reply)), min(created_at), max(created_at)
FROM replies JOIN configurations ON hash = configuration GROUP BY 1 ORDER BY 1
"""
_CHOSEN = """
replies WHERE created_at < ?1 AND (?2 IS NULL OR configuration IN (
    SELECT hash FROM configurations WHERE json_extract(text, '$.model') = ?2))
"""
_END_OF_TIME = (1 << 63) - 1
_ORPHANS = "DELETE FROM configurations WHERE hash NOT IN (SELECT configuration FROM replies)"


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request that the cache has a reply to: key, configuration and repeat as ``CacheRequest`` gives them."""

    key: bytes
    configuration: str
    repeat: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ModelEntries:
    """What the cache holds of one model: entries, their bytes, when the first and the last was kept."""

    model: str | None
    n_entries: int
    n_bytes: int
    oldest: datetime
    newest: datetime


class CacheContents(ResultCache):
    """A result cache with what is needed to look at it and to empty it; its errors are ``CacheError``."""

    def near(self, prompt_hash: bytes) -> list[StoredRequest]:
        """Give the requests with a prompt that there are replies to, the oldest first."""
        with self._reading, self._using():
            bounds = prompt_hash + b"\0" * 32, prompt_hash + b"\xff" * 32
            found = self._reader.execute(_NEAR, bounds).fetchall()
        return [StoredRequest(key, text, repeat, from_micros(at)) for key, text, repeat, at in found]

    def models(self) -> list[ModelEntries]:
        """Count the entries of each model, sorted by its name at the vendor."""
        rows = [row for chunk in self._read(_MODELS) for row in chunk]
        return [
            ModelEntries(model, n, n_bytes, from_micros(oldest), from_micros(newest))
            for model, n, n_bytes, oldest, newest in rows
        ]

    def chosen(self, *, before: datetime | None = None, model: str | None = None) -> int:
        """Count the entries that ``remove`` would remove."""
        ((n,),) = next(self._read(f"SELECT count(*) FROM {_CHOSEN}", _conditions(before, model)))
        return int(n)

    def remove(self, *, before: datetime | None = None, model: str | None = None) -> int:
        """Remove entries and give their space back.

        Args:
            before: Only what was kept before. None: whenever.
            model: Only of this model, by its name at the vendor. None: of all.

        Returns:
            How many were removed.
        """
        with self._writing, self._using():
            with transaction(self._connection):
                n = self._connection.execute(f"DELETE FROM {_CHOSEN}", _conditions(before, model)).rowcount
                self._connection.execute(_ORPHANS)
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n


def _conditions(before: datetime | None, model: str | None) -> tuple[int, str | None]:
    return _END_OF_TIME if before is None else to_micros(before), model
