"""Which file a ``file_id`` means: handed in, registered before, or beside the manifest.

Registered files are copied under the user's folder, named by the hash of their content, so that an id means the same
bytes for ever; a copy that was changed since is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from evalframe.disk import atomic_path, user_folder, write_text
from evalframe.errors import DatasetError
from evalframe.registry import nearest

NO_FILES: Final[Mapping[str, Any]] = MappingProxyType({})
REGISTERED = re.compile(r"file-[0-9a-f]{32}")
CHUNK_BYTES = 1 << 20
MOST_LISTED = 1_000  # names of the manifest's folder that a suggestion looks at


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A registered file.

    Attributes:
        id: ``file-`` and the hash of the content.
        filename: The name it had when it was last registered; its end tells the format.
        bytes: Its size.
        purpose: Always ``evals``.
    """

    id: str
    filename: str
    bytes: int
    purpose: str = "evals"


class FileStore:
    """Finds the files that a manifest names.

    Args:
        files: File id to path, as the caller gave them; these paths may lie anywhere.
        folder: The manifest's folder; ids may be paths relative to it and inside it. None: there is none.
        home: Where registered files are kept; None: ``files`` in the user's folder.
    """

    def __init__(
        self,
        *,
        files: Mapping[str, str | os.PathLike[str]] = NO_FILES,
        folder: Path | None = None,
        home: Path | None = None,
    ) -> None:
        self._files = {file_id: Path(path).expanduser() for file_id, path in files.items()}
        self._folder = None if folder is None else Path(folder)
        self._home = user_folder() / "files" if home is None else Path(home)

    def resolve(self, file_id: str) -> Path:
        """Give the path of a file id: the caller's mapping, else a registered file, else the manifest's folder.

        Raises:
            DatasetError: There is no such file, with the places that were looked at and the nearest ids; or a
                registered file was changed since; or the path leads out of the manifest's folder.
        """
        if file_id in self._files:
            return self._given(file_id)
        if REGISTERED.fullmatch(file_id) and (self._home / file_id / "record.json").is_file():
            return self._registered(file_id)
        if (found := self._beside_manifest(file_id)) is not None:
            return found
        raise DatasetError(self._not_found(file_id))

    def hash(self, file_id: str) -> str:
        """Give the content hash of a file: BLAKE2b-128 of its bytes, hexadecimal.

        Raises:
            DatasetError: As for ``resolve``, or the file can not be read.
        """
        return _hash(self.resolve(file_id))

    def add(self, path: str | os.PathLike[str]) -> str:
        """Register a file: copy it under the user's folder and give its content-addressed id.

        The same content has the same id; registered again under another name it takes that name.

        Raises:
            DatasetError: The file is missing, unreadable, or was written to meanwhile.
        """
        source = Path(path).expanduser()
        _require_file(source, f"{source}: can not be registered")
        file_id = f"file-{_hash(source)}"
        target = self._home / file_id / "content" / source.name
        with atomic_path(target) as temporary:
            copied = _copy(source, temporary)
            if f"file-{copied}" != file_id:
                raise DatasetError(f"{source}: was written to while it was copied; register it again when it is done")
        record = FileRecord(file_id, source.name, target.stat().st_size)
        write_text(self._home / file_id / "record.json", json.dumps(asdict(record)))
        return file_id

    def list(self) -> list[dict[str, Any]]:
        """Give the records of all registered files, by id: ``id``, ``filename``, ``bytes``, ``purpose``.

        Raises:
            DatasetError: A record is damaged.
        """
        return [asdict(record) for record in self._records()]

    def _records(self) -> Iterator[FileRecord]:
        if not self._home.is_dir():
            return
        for file_id in sorted(path.name for path in self._home.iterdir() if REGISTERED.fullmatch(path.name)):
            if (self._home / file_id / "record.json").is_file():
                yield self._record(file_id)

    def _given(self, file_id: str) -> Path:
        path = self._files[file_id]
        _require_file(path, f"the file {file_id!r} was given as {path}")
        return path

    def _registered(self, file_id: str) -> Path:
        record = self._record(file_id)
        path = self._home / file_id / "content" / record.filename
        _require_file(path, f"the registered file {file_id!r} ({record.filename}) has lost its content")
        if f"file-{_hash(path)}" != file_id:
            raise DatasetError(
                f"the registered file {file_id!r} ({record.filename}) was changed after it was registered: "
                f"{path} no longer has the content that its id names; register the original again "
                f"(`evalframe files add PATH`), or the new content as a file of its own"
            )
        return path

    def _record(self, file_id: str) -> FileRecord:
        path = self._home / file_id / "record.json"
        try:
            record = FileRecord(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise DatasetError(f"{path}: the record is damaged ({error}); register the file again") from None
        if record.id != file_id or Path(record.filename).name != record.filename:
            raise DatasetError(f"{path}: the record is not that of {file_id!r}; register the file again")
        return record

    def _beside_manifest(self, file_id: str) -> Path | None:
        if self._folder is None or not file_id or "\x00" in file_id:
            return None
        relative, folder = Path(file_id), self._folder.resolve()
        if relative.is_absolute() or ".." in relative.parts:
            raise DatasetError(
                f"the file {file_id!r} is outside of the manifest's folder; name a file inside {folder}, "
                f"or hand it in: files={{{file_id!r}: 'PATH'}}"
            )
        try:
            path = (folder / relative).resolve()
            if not path.exists():
                return None
        except OSError:  # a name that the file system does not take
            return None
        if not path.is_relative_to(folder):
            raise DatasetError(
                f"the file {file_id!r} is a link that leads out of the manifest's folder {folder}; copy the file "
                f"into the folder, or hand it in: files={{{file_id!r}: 'PATH'}}"
            )
        _require_file(folder / relative, f"the file {file_id!r} in the manifest's folder")
        return folder / relative

    def _not_found(self, file_id: str) -> str:
        try:
            registered = [*self._records()]
        except DatasetError:  # a damaged record of another file must not hide that this one is missing
            registered = []
        beside = (
            "there is no manifest's folder" if self._folder is None else f"not in the manifest's folder {self._folder}"
        )
        same_name = [record.id for record in registered if record.filename == file_id]
        near = same_name or nearest(
            file_id, [*self._files, *(record.id for record in registered), *_names_in(self._folder)]
        )
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return (
            f"there is no file {file_id!r}: not among the {len(self._files)} given files, not among the "
            f"{len(registered)} registered ones ({self._home}), {beside}{meant}; hand it in (files={{{file_id!r}: "
            f"'PATH'}}, on the command line --files {file_id}=PATH) or register it (`evalframe files add PATH`) and "
            f"use the id that this prints"
        )


def _names_in(folder: Path | None) -> list[str]:
    if folder is None or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_file())[:MOST_LISTED]


def _require_file(path: Path, what: str) -> None:
    if path.is_dir():
        raise DatasetError(f"{what}: this is a folder; name a file")
    if not path.exists():
        raise DatasetError(f"{what}: there is no such file; check the path")


def _hash(path: Path) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for chunk in _chunks(path):
        hasher.update(chunk)
    return hasher.hexdigest()


def _copy(source: Path, target: Path) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    with target.open("wb") as out:
        for chunk in _chunks(source):
            hasher.update(chunk)
            out.write(chunk)
    return hasher.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise DatasetError(f"{path}: can not be read: {error.strerror or error}") from None
