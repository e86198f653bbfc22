"""Loading and prompts: files of 100,000 records, templates and few-shot by columns; against the plain loops."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evalframe import prompts
from evalframe.data.frames_in import read_table
from evalframe.data.local import read_records
from evalframe.manifest.suite import parse_suite
from tests.benchmarks.harness import Ratio, cpu_seconds, peak_megabytes

N = 100_000
WORDS = ("what", "is", "the", "number", "of", "apples", "é", "river", 'he said: "no"', "line\nbreak", "東京", "sum")
TASK: dict[str, Any] = {
    "id": "qa",
    "type": "qa",
    "dataset": {"file_id": "questions.jsonl"},
    "prompt_template": "Subject: {{subject}} (level {{level}})\nQuestion: {{question}}\nAnswer:",
    "target_template": "{{answer}}",
    "metrics": [{"id": "exact_match"}],
}
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def ratios() -> Iterable[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        jsonl, table = write_files(Path(folder))
        yield from loading_ratios(jsonl, table)
        yield from prompt_ratios(jsonl)
        yield from memory_ratios()
        yield peak_ratio(jsonl)


def write_files(folder: Path) -> tuple[Path, Path]:
    """Write the same records, 300 bytes each on average, as JSONL and as CSV."""
    rng = np.random.default_rng(0)
    records = [
        {
            "id": f"q{i}", "question": " ".join(WORDS[w] for w in pick), "answer": str(pick[0] * 37),
            "subject": f"subject {i % 57}", "level": i % 5, "weight": pick[1] / 8,
        }
        for i, pick in enumerate(rng.integers(0, len(WORDS), (N, 35)).tolist())
    ]  # fmt: skip
    jsonl, table = folder / "questions.jsonl", folder / "questions.csv"
    with jsonl.open("w") as file:
        file.writelines(json.dumps(record, ensure_ascii=i % 2 == 0) + "\n" for i, record in enumerate(records))
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return jsonl, table


def loading_ratios(jsonl: Path, table: Path) -> Iterable[Ratio]:
    """Ours keeps each record exactly, as text and as columns; theirs gives dicts, numbers rounded and cells untyped."""
    fields = ("question", "answer", "subject", "level", "id")

    def dicts() -> list[Any]:
        with jsonl.open() as file:
            return [json.loads(line) for line in file]

    def cells() -> list[Any]:
        with table.open(newline="") as file:
            return list(csv.DictReader(file))

    ours = cpu_seconds(lambda: read_records(jsonl, fields=fields))
    yield Ratio("data", f"JSONL, {N:,} records: exact, json.loads into dicts", ours, cpu_seconds(dicts))
    ours = cpu_seconds(lambda: read_records(table, fields=fields))
    yield Ratio("data", f"CSV, {N:,} records: exact, csv.DictReader into dicts", ours, cpu_seconds(cells))


def memory_ratios() -> Iterable[Ratio]:
    """Ours gives RECORDS with columns at paths; theirs each row's JSON text and nothing else."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({
        "id": [f"q{i}" for i in range(N)],
        "question": [" ".join(WORDS[w] for w in pick) for pick in rng.integers(0, len(WORDS), (N, 20)).tolist()],
        "weight": rng.random(N), "level": rng.integers(0, 5, N), "tags": [["a", WORDS[i % 12]] for i in range(N)],
    })  # fmt: skip
    fields = ("id", "question", "weight", "tags.1")

    ours = cpu_seconds(lambda: read_table(frame).records(fields, ["tags"]))
    yield Ratio(
        "data",
        f"a frame of {N:,} rows: records, json.dumps of its dicts",
        ours,
        cpu_seconds(lambda: dumped(frame.to_dicts())),
        2.0,
    )
    rows = frame.to_dicts()
    ours = cpu_seconds(lambda: read_table(rows).records(fields, ["tags"]))
    yield Ratio("data", f"{N:,} dicts: records, json.dumps of each", ours, cpu_seconds(lambda: dumped(rows)))


def dumped(rows: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]


def prompt_ratios(jsonl: Path) -> Iterable[Ratio]:
    """From records to rows: templates, references, ids and hashes of prompts, against a loop over dicts."""
    with jsonl.open() as file:
        plain = [json.loads(line) for line in file]
    for name, target, extra in (
        ("templates", 2.0, {}),
        ("templates and 5 random examples", 1.5, {"fewshot": {"count": 5, "strategy": "random"}}),
    ):
        task = parse_suite({"tasks": [{**TASK, **extra}]}).tasks[0]
        needed = prompts.needed_paths(task)
        records = read_records(jsonl, fields=needed.fields, items=needed.items)
        ours = cpu_seconds(lambda task=task, records=records: prompts.suite_rows(task, records))  # type: ignore[misc]
        theirs = cpu_seconds(lambda n=task.fewshot.count: plain_rows(plain, n_examples=n), times=1)  # type: ignore[misc]
        yield Ratio("data", f"{name}, {N:,} rows: columns, a loop over rows", ours, theirs, target)


def plain_rows(records: list[Mapping[str, Any]], *, n_examples: int) -> list[tuple[str, str, str, str]]:
    """Render prompt and target of each record by a substitution, examples in an order that is drawn once."""
    order = np.random.default_rng(0).permutation(len(records)).tolist()
    pool = [records[place] for place in order[: n_examples + 1]]
    examples = [f"{_fill(TASK['prompt_template'], one)}\n{_fill(TASK['target_template'], one)}" for one in pool]
    found = []
    for record in records:
        shown = [text for text, one in zip(examples, pool, strict=True) if one != record][:n_examples]
        prompt = "\n\n".join([*shown, _fill(TASK["prompt_template"], record)])
        digest = hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest()
        found.append((record["id"], prompt, _fill(TASK["target_template"], record), digest))
    return found


def _fill(template: str, record: Mapping[str, Any]) -> str:
    return PLACEHOLDER.sub(lambda found: str(record.get(found[1], "")), template)


def peak_ratio(jsonl: Path) -> Ratio:
    """Memory while a file becomes records, beyond that of the frame itself."""
    load = f"from pathlib import Path\nfrom evalframe.data.local import read_records\npath = Path({str(jsonl)!r})\n"
    read = "records = read_records(path, fields=('question', 'answer', 'subject', 'level', 'id'))\n"
    plain = f"import json\nimport polars\nrecords = [json.loads(line) for line in open({str(jsonl)!r})]\n"
    return Ratio(
        "data", f"JSONL, {N:,} records: peak with ours, with json.loads into dicts",
        peak_megabytes(load + read), peak_megabytes(plain), unit="MB",
    )  # fmt: skip
