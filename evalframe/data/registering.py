"""Is a file worth registering? Looked at before it is copied, so that a mistake is told where it is made."""

from __future__ import annotations

from pathlib import Path

from evalframe.data.files import FileStore
from evalframe.data.local import FORMATS, OTHER_CONTENT
from evalframe.errors import DatasetError

LOOKED_AT = 64 * 1024  # bytes


def register(path: Path) -> str:
    """Register a data file under the user's folder and give its content-addressed id.

    Only the name and the first bytes are looked at: bad lines are told by ``validate`` and ``run``.

    Raises:
        DatasetError: The file is missing, empty, binary, or by its name no data file.
    """
    path = path.expanduser()
    if path.is_file():
        name = path.name.lower()
        plain = name.removesuffix(".gz")
        if Path(plain).suffix not in {*FORMATS, ".py"}:
            known = ", ".join(FORMATS)
            raise DatasetError(
                f"{path}: is by its name no data file ({known}, each also with .gz) and no grader (.py); save or name "
                "it as one"
            )
        with path.open("rb") as handle:
            first = handle.read(LOOKED_AT)
        if not first:
            raise DatasetError(f"{path}: is empty; a data file has a record a line, so write it first")
        if name == plain:
            other = next((what for mark, what in OTHER_CONTENT.items() if first.startswith(mark)), None)
            if other or b"\0" in first:
                raise DatasetError(f"{path}: {other or 'is a binary file; save it as JSONL or CSV text in UTF-8'}")
    return FileStore().add(path)
