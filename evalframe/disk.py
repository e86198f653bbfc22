"""Writing files so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on leaving without an error it is synced and renamed into place.

    Raises:
        OSError: As the file system gives it; the temporary file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files that only their owner reads
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> Path:
    """Write UTF-8 text, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def user_folder() -> Path:
    """The user's own folder of runs and files: ``EVALFRAME_HOME``, else the platform's data directory."""
    if home := os.environ.get("EVALFRAME_HOME"):
        return Path(home)
    from platformdirs import user_data_path

    return user_data_path("evalframe", appauthor=False)


def cache_folder() -> Path:
    """The user's own folder of caches: ``EVALFRAME_CACHE``, else in ``EVALFRAME_HOME``, else the platform's."""
    if named := os.environ.get("EVALFRAME_CACHE"):
        return Path(named)
    if home := os.environ.get("EVALFRAME_HOME"):
        return Path(home) / "cache"
    from platformdirs import user_cache_path

    return user_cache_path("evalframe", appauthor=False)
