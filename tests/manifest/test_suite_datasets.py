"""Dataset objects: one source each, and what a manifest may not reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalframe.errors import ManifestError
from evalframe.manifest.sources import DATA_BUILDERS, REFUSED_BUILDERS
from evalframe.manifest.suite import Dataset, parse_suite

URL = "https://example.org/rows.jsonl"


def suite(dataset: Any, **fields: Any) -> dict[str, Any]:
    made = {"id": "t", "type": "qa", "dataset": dataset, "target_template": "{{a}}", "metrics": [{"id": "f1"}]}
    return {"tasks": [{**made, **fields}]}


def parsed(dataset: dict[str, Any]) -> Dataset:
    return parse_suite(suite(dataset)).tasks[0].dataset


LEGAL: list[dict[str, Any]] = [
    {"file_id": "rows.jsonl"},
    {"file_id": "rows", "format": "csv", "source": "file"},
    {"file_id": "rows", "format": "jsonl", "max_rows": 1},
    {"file_id": "rows", "dataset_kwargs": {}},
    {"path": "acme/qa"},
    {"path": "squad", "source": "huggingface"},
    {"path": "acme/qa", "name": "easy", "split": "dev", "revision": "main", "max_rows": 1_000_000},
    {"path": "acme/my-data.set_2", "split": "train[:10%]"},
    {"path": "acme/qa", "data_files": "data/a.csv"},
    {"path": "acme/qa", "dataset_kwargs": {"keep_in_memory": True, "anything": {"nested": [1]}}},
    {"path": "json", "data_files": URL},
    {"path": "json", "data_files": URL, "format": "jsonl"},
    {"path": "csv", "data_files": [URL, "http://example.org:8080/b.csv?x=1#y"], "format": "csv"},
    {"path": "json", "split": "dev", "data_files": {"dev": URL, "other": [URL]}},
    {"path": "json", "split": "dev[:5]", "data_files": {"dev": URL}},
    {"path": "json", "split": "a+b", "data_files": {"a": URL, "b": URL}},
    {"path": "json", "dataset_kwargs": {"data_files": URL}},
    {"path": "json", "data_files": {"test": URL}},
]


@pytest.mark.parametrize("dataset", LEGAL, ids=str)
def test_legal_datasets(dataset: dict[str, Any]) -> None:
    assert parsed(dataset).source == ("file" if "file_id" in dataset else "huggingface")


# dataset, path below it, rule, what the message or the remedy says
WRONG = [
    ({}, "", "one_source", "neither path nor file_id"),
    ({"source": "file"}, "", "one_source", "neither path nor file_id"),
    ({"path": "a/b", "file_id": "x"}, "", "one_source", "both path and file_id"),
    ({"path": "a/b", "source": "file"}, ".source", "bad_value", "does not fit path"),
    ({"file_id": "x", "source": "huggingface"}, ".source", "bad_value", "does not fit file_id"),
    ({"file_id": "x", "source": "hub"}, ".source", "bad_value", "allowed: file, huggingface"),
    ({"file_id": " "}, ".file_id", "empty", "blank"),
    ({"file_id": 5}, ".file_id", "bad_type", "a string is needed"),
    ({"file_id": "x", "format": "parquet"}, ".format", "bad_value", "allowed: jsonl, csv"),
    ({"file_id": "x", "split": "test"}, ".split", "misplaced", "means nothing for a file"),
    ({"file_id": "x", "name": "easy"}, ".name", "misplaced", "means nothing for a file"),
    ({"file_id": "x", "revision": "main"}, ".revision", "misplaced", "means nothing for a file"),
    ({"file_id": "x", "dataset_kwargs": {"a": 1}}, ".dataset_kwargs", "misplaced", "means nothing for a file"),
    ({"path": "a/b", "format": "csv"}, ".format", "misplaced", 'means nothing with path "a/b"'),
    ({"path": "json", "data_files": URL, "format": "csv"}, ".format", "misplaced", "means nothing"),
    ({"file_id": "x", "max_rows": 0}, ".max_rows", "out_of_range", "from 1 to 1,000,000"),
    ({"path": "a/b", "max_rows": 1_000_001}, ".max_rows", "out_of_range", "from 1 to 1,000,000"),
    ({"path": "a/b", "max_rows": 1.5}, ".max_rows", "bad_type", "an integer is needed"),
    ({"path": "a/b", "max_rows": "10"}, ".max_rows", "bad_type", "write 10, without quotes"),
    ({"path": "a/b", "split": ""}, ".split", "empty", "blank"),
    ({"path": "a/b", "split": 1}, ".split", "bad_type", "a string"),
    ({"path": "a/b", "name": 1}, ".name", "bad_type", "a string"),
    ({"path": "a/b", "revision": 1}, ".revision", "bad_type", "a string"),
    ({"path": "a/b", "dataset_kwargs": []}, ".dataset_kwargs", "bad_type", "an object"),
    ({"path": "a/b", "splt": "x"}, ".splt", "unknown_key", "'split'"),
    ({"path": "a/b", "token": "hf_secret"}, ".token", "forbidden", "HF_TOKEN"),
    ({"path": "a/b", "dataset_kwargs": {"token": "secret"}}, ".dataset_kwargs.token", "forbidden", "HF_TOKEN"),
    ({"path": "a/b", "dataset_kwargs": {"use_auth_token": True}}, ".dataset_kwargs.use_auth_token", "forbidden", "HF"),
    ({"path": "a/b", "dataset_kwargs": {"storage_options": {"Token": "secret"}}},
     ".dataset_kwargs.storage_options.Token", "forbidden", "HF_TOKEN"),
    ({"path": "a/b", "dataset_kwargs": {"x": ["hf_" + "secret" * 6]}}, ".dataset_kwargs.x[0]", "forbidden", "token"),
    ({"path": "a/b", "dataset_kwargs": {"trust_remote_code": False}}, ".dataset_kwargs.trust_remote_code", "forbidden",
     "never run"),
    ({"path": "a/b", "dataset_kwargs": {"split": "x"}}, ".dataset_kwargs.split", "misplaced", "tasks[0].dataset.split"),
    ({"path": "a/b", "dataset_kwargs": {"name": "x"}}, ".dataset_kwargs.name", "misplaced", "tasks[0].dataset.name"),
    # builders, URLs, local folders
    ({"path": "parquet"}, ".path", "refused_path", "the builder"),
    ({"path": "imagefolder"}, ".path", "refused_path", "the builder"),
    ({"path": "https://example.org/x"}, ".path", "refused_path", "is a URL"),
    ({"path": "hf://datasets/a/b"}, ".path", "refused_path", "is a URL"),
    ({"path": "s3://bucket/x"}, ".path", "refused_path", "is a URL"),
    ({"path": "/data/x"}, ".path", "refused_path", "file_id"),
    ({"path": "./x"}, ".path", "refused_path", "file_id"),
    ({"path": "../x"}, ".path", "refused_path", "file_id"),
    ({"path": "~/x"}, ".path", "refused_path", "file_id"),
    ({"path": "C:\\x"}, ".path", "refused_path", "file_id"),
    ({"path": "a/b/c"}, ".path", "refused_path", "owner/name"),
    ({"path": "a/../b"}, ".path", "refused_path", "owner/name"),
    ({"path": "rows.jsonl"}, ".path", "refused_path", "file_id"),
    ({"path": "a/b\n"}, ".path", "refused_path", "owner/name"),
    ({"path": ""}, ".path", "empty", "blank"),
    # data files
    ({"path": "json"}, ".data_files", "missing", "http(s) URLs"),
    ({"path": "csv", "data_files": "rows.csv"}, ".data_files", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": ["/etc/passwd"]}, ".data_files[0]", "bad_url", "file_id"),
    ({"path": "json", "data_files": [URL, "file:///etc/passwd"]}, ".data_files[1]", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": {"test": ["ftp://a/b"]}}, ".data_files.test[0]", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": "https:///x"}, ".data_files", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": "https://[::1"}, ".data_files", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": "https://a.org/x y"}, ".data_files", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": []}, ".data_files", "bad_url", "no http(s) URL"),
    ({"path": "json", "data_files": "https://me:secret@example.org/x"}, ".data_files", "forbidden", "password"),
    ({"path": "json", "data_files": {"test": []}}, ".data_files.test", "bad_url", "no http(s) URL"),
    ({"path": "json", "dataset_kwargs": {"data_files": "x"}}, ".dataset_kwargs.data_files", "bad_url", "no http(s)"),
    ({"path": "json", "data_files": URL, "dataset_kwargs": {"data_files": URL + "x"}}, ".dataset_kwargs.data_files",
     "conflict", "keep one"),
    ({"path": "json", "data_files": 5}, ".data_files", "bad_type", "a string, a list of strings, or an object"),
    ({"path": "json", "data_files": {"test": 5}}, ".data_files", "bad_type", "a string, a list"),
    ({"path": "json", "data_files": {"validation": URL}}, ".data_files", "missing_split", 'the split "test"'),
    ({"path": "json", "split": "a+b", "data_files": URL}, ".data_files", "missing_split", "several"),
    ({"path": "a/b", "data_files": "/etc/passwd"}, ".data_files", "bad_url", "inside the Hub data set"),
    ({"path": "a/b", "data_files": "../x.csv"}, ".data_files", "bad_url", "inside the Hub data set"),
    ({"path": "a/b", "data_files": URL}, ".data_files", "bad_url", '"json" or "csv"'),
]  # fmt: skip


@pytest.mark.parametrize(("dataset", "path", "rule", "says"), WRONG, ids=str)
def test_each_rule_of_a_dataset(dataset: dict[str, Any], path: str, rule: str, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_suite(suite(dataset))
    faults = caught.value.faults
    assert faults.select("where", "rule").rows() == [(f"tasks[0].dataset{path}", rule)]
    assert says in faults["detail"][0] + faults["remedy"][0]
    assert faults["remedy"][0]
    assert "secret" not in str(caught.value)


def test_few_shot_datasets_are_held_to_the_same_rules() -> None:
    fewshot = {"count": 1, "dataset": {"path": "json", "data_files": {"test": URL}, "max_rows": 0}}
    with pytest.raises(ManifestError) as caught:
        parse_suite(suite({"file_id": "x"}, fewshot=fewshot))
    assert caught.value.faults.select("where", "rule").rows() == [
        ("tasks[0].fewshot.dataset.data_files", "missing_split"),
        ("tasks[0].fewshot.dataset.max_rows", "out_of_range"),
    ]


def test_every_packaged_builder_is_known() -> None:
    import importlib.util

    spec = importlib.util.find_spec("datasets")
    if spec is None or spec.origin is None:
        pytest.skip("needs the datasets library")
    folder = Path(spec.origin).parent / "packaged_modules"
    there = {path.name for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert there <= REFUSED_BUILDERS | set(DATA_BUILDERS), "a new builder must be refused or allowed"
