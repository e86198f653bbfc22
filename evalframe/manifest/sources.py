"""The rules of a dataset object: where its rows come from, and what a manifest may not reach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from evalframe.errors import Fault
from evalframe.limits import Limits
from evalframe.manifest.fields import is_text, is_texts
from evalframe.manifest.ranges import range_faults
from evalframe.manifest.records import base_split
from evalframe.manifest.shape import child, shown

# builders that come with the datasets library; two of them are allowed, on files at public addresses
DATA_BUILDERS = ("json", "csv")
REFUSED_BUILDERS = frozenset({
    "arrow", "audiofolder", "cache", "conll", "eval", "fasta", "fastq", "folder_based_builder", "genbank", "generator",
    "harbor", "hdf5", "iceberg", "imagefolder", "lance", "meshfolder", "mmcif", "niftifolder", "pandas", "parquet",
    "pdb", "pdffolder", "spark", "sql", "text", "tsfile", "videofolder", "vortex", "webdataset", "xml",
})  # fmt: skip

_HUB_ONLY = ("path", "name", "split", "revision", "data_files", "dataset_kwargs")
_OWN_FIELDS = ("path", "name", "split", "revision", "max_rows", "source", "file_id", "format")
_TOKEN_REMEDY = "leave it out, and set HF_TOKEN in the environment"


def dataset_faults(
    raw: Mapping[str, Any], where: str, limits: Limits, *, default_split: str = "test"
) -> Iterator[Fault]:
    """Check one dataset object; values of wrong types are left to the types."""
    given = {key: value for key, value in raw.items() if value is not None}
    yield from _source_faults(given, where)
    for key in ("file_id", "path", "name", "split", "revision"):
        if is_text(value := given.get(key)) and not value.strip():
            yield Fault(child(where, key), "empty", f"{shown(value)} is blank", "write it, or leave the key out")
    if is_text(given.get("path")) and given["path"].strip():
        yield from _path_faults(given, where)
    yield from _kwargs_faults(given, where)
    yield from _files_faults({"split": default_split, **given}, where)
    yield from range_faults(given, "max_rows", where, 1, limits.max_rows, whole=True)


def _source_faults(given: Mapping[str, Any], where: str) -> Iterator[Fault]:
    has_file, has_path = "file_id" in given, "path" in given
    if has_file and has_path:
        yield Fault(where, "one_source", "has both path and file_id", "keep path for the Hub or file_id for a file")
        return
    if not has_file and not has_path:
        yield Fault(
            where, "one_source", "has neither path nor file_id",
            "add file_id for a file, or path for a Hugging Face data set",
        )  # fmt: skip
        return
    inferred = "file" if has_file else "huggingface"
    if given.get("source") in ("file", "huggingface") and given["source"] != inferred:
        key = "file_id" if has_file else "path"
        yield Fault(
            child(where, "source"), "bad_value", f"{shown(given['source'])} does not fit {key}",
            f"write {inferred!r}, or leave source out: it is inferred",
        )  # fmt: skip
        return
    if has_file:
        for key in _HUB_ONLY:
            if key in given and given[key] != {}:
                yield Fault(child(where, key), "misplaced", "means nothing for a file", "leave it out, or use path")
    elif "format" in given and (given["path"], given["format"]) not in (("json", "jsonl"), ("csv", "csv")):
        detail = f"{shown(given['format'])} means nothing with path {shown(given['path'])}"
        yield Fault(child(where, "format"), "misplaced", detail, "leave it out; it is for file_id")


def _path_faults(given: Mapping[str, Any], where: str) -> Iterator[Fault]:
    path, at = given["path"], child(where, "path")
    local = "register the file and name it by file_id"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path):
        yield Fault(at, "refused_path", "is a URL; path is the name of a Hub data set",
                    'for files at public addresses use path "json" or "csv" with data_files')  # fmt: skip
    elif path.startswith((".", "/", "~", "\\")) or "\\" in path or re.match(r"[A-Za-z]:", path):
        yield Fault(at, "refused_path", f"{shown(path)} is a local path; path is the name of a Hub data set", local)
    elif path in REFUSED_BUILDERS:
        yield Fault(at, "refused_path", f"the builder {shown(path)} is refused; json and csv are allowed", local)
    elif not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", path, re.ASCII) or path.endswith((".py", ".json", ".jsonl")):
        yield Fault(at, "refused_path", f"{shown(path)} is no name of a Hub data set (owner/name)", local)


def _kwargs_faults(given: Mapping[str, Any], where: str) -> Iterator[Fault]:
    kwargs = given.get("dataset_kwargs")
    if not isinstance(kwargs, Mapping):
        return
    at = child(where, "dataset_kwargs")
    yield from _token_faults(kwargs, at)
    if "trust_remote_code" in kwargs:
        yield Fault(child(at, "trust_remote_code"), "forbidden", "code of a data set is never run", "leave it out")
    for key in _OWN_FIELDS:
        if key in kwargs:
            yield Fault(child(at, key), "misplaced", "is a field of the dataset itself", f"write {child(where, key)}")
    nested, top = kwargs.get("data_files"), given.get("data_files")
    if nested is not None and top is not None and nested != top:
        yield Fault(
            child(at, "data_files"), "conflict", "differs from the dataset's own data_files", "keep one of them"
        )


def _token_faults(value: Any, where: str) -> Iterator[Fault]:
    """Find tokens at any depth; what they are is never repeated in a message."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            at = child(where, key)
            if key.lower().replace("-", "_") in ("token", "use_auth_token", "hf_token", "authorization", "api_key"):
                yield Fault(at, "forbidden", "a token has no place in a manifest", _TOKEN_REMEDY)
            else:
                yield from _token_faults(one, at)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _token_faults(one, child(where, index))
    elif is_text(value) and re.search(r"\bhf_[A-Za-z0-9]{20,}", value):
        yield Fault(where, "forbidden", "holds what looks like a Hugging Face token", _TOKEN_REMEDY)


def _files_faults(given: Mapping[str, Any], where: str) -> Iterator[Fault]:
    kwargs = given.get("dataset_kwargs")
    nested = kwargs.get("data_files") if isinstance(kwargs, Mapping) else None
    at = child(where, "data_files") if "data_files" in given else child(child(where, "dataset_kwargs"), "data_files")
    files, builder = given.get("data_files", nested), given.get("path")
    if builder in DATA_BUILDERS and files is None:
        yield Fault(
            child(where, "data_files"), "missing", f"path {shown(builder)} needs the files that it reads",
            "add http(s) URLs, or name a file of your own by file_id instead of path",
        )  # fmt: skip
    if files is None:
        return
    for place, one in _each_file(files, at):
        yield from _address_faults(one, place) if builder in DATA_BUILDERS else _inside_faults(one, place)
    yield from _split_faults(files, given.get("split"), at)


def _each_file(files: Any, at: str) -> Iterator[tuple[str, str]]:
    if is_text(files):
        yield at, files
    elif is_texts(files):
        if not files:
            yield at, ""
        yield from ((child(at, index), one) for index, one in enumerate(files))
    elif isinstance(files, Mapping):
        for split, some in files.items():
            if not isinstance(some, Mapping):
                yield from _each_file(some, child(at, split))


def _address_faults(url: str, at: str) -> Iterator[Fault]:
    remedy = "use an http(s) URL of a public host; a local file is named by file_id"
    try:
        parts = urlsplit(url)
        legal = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        legal = False
    if not legal or url != url.strip() or re.search(r"[\s\x00-\x1f\\]", url):
        yield Fault(at, "bad_url", f"{shown(url)} is no http(s) URL", remedy)
    elif parts.username is not None or parts.password is not None:
        yield Fault(at, "forbidden", "the URL holds a user name or password", "leave it out of the URL")


def _inside_faults(name: str, at: str) -> Iterator[Fault]:
    outside = name.startswith(("/", "~", "\\")) or "\\" in name or ":" in name or ".." in name.split("/")
    if outside or not name.strip():
        detail = f"{shown(name)} is no path inside the Hub data set"
        yield Fault(at, "bad_url", detail, 'write it relative to the data set, or use path "json" or "csv" for URLs')


def _split_faults(files: Any, split: Any, at: str) -> Iterator[Fault]:
    if not is_text(split) or not split.strip():
        return
    wanted = [base_split(part) for part in split.split("+")]
    if isinstance(files, Mapping):
        there = [str(name) for name in files]
        if lost := [name for name in wanted if name not in there]:
            detail = f"has no files for the split {shown(lost[0])}; it has {', '.join(there) or 'none'}"
            yield Fault(at, "missing_split", detail, "set split to one that has files, or add its files")
    elif len(set(wanted)) > 1:
        detail = f"names no splits, and {shown(split)} is several"
        yield Fault(at, "missing_split", detail, 'write an object of split to files: {"train": ..., "test": ...}')
