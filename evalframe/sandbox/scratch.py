"""The working folder of an execution: fresh, empty, and gone afterwards whatever was put there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give an empty folder that nobody else can read; it is removed on leaving."""
    folder = Path(tempfile.mkdtemp(prefix="evalframe-"))
    try:
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(root: Path) -> None:
    """Remove a folder of any depth and with any permissions.

    Folders are moved up and then emptied, so that neither the depth of the recursion nor the length of a path counts;
    links are removed, never followed.
    """
    waiting = [root]
    while waiting:
        folder = waiting[-1]
        folder.chmod(0o700)
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(Path(entry.path))
                else:
                    os.unlink(entry.path)
        if not inner:
            waiting.pop().rmdir()
        elif folder == root:
            waiting += inner
        else:
            for path in inner:
                path.chmod(0o700)  # moving a folder writes its parent's entry in it
                waiting.append(path.rename(Path(tempfile.mkdtemp(prefix="up-", dir=root))))
