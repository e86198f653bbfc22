"""Runs as files: each is read back as it was, whatever the texts are."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import evalframe as ef
from evalframe import export, schemas
from evalframe.advice import SettingWarning
from evalframe.errors import OptionError, RunFolderError, SchemaError
from evalframe.frames import FrameSchema, check

# texts that break one writer of CSV or another, or that a spreadsheet would run
HOSTILE = [
    "plain", "", " ", '"', '""', "a,b", "a;b", "a\nb", "a\r\nb", "\r", "a\rb", "\n", "nul\0x", "\x1a", "\x85", "\u2028",
    "😀👩‍👩‍👧", "e\u0301", "ﷺ", "\\", '\\"', "null", "NaN", "007", "1e3", "true", "[1]", '{"a":1}', "'", "'=1", "''",
    "\ufeff", "=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\u200b=1", "\ufeff=1",
    "\u3000＝1", "＝1", "＋1", "－1", "＠x", "﹦1", "- a list item", "a=1", "1-1", "lone \ud800 surrogate",
]  # fmt: skip
FORMULAS = HOSTILE[HOSTILE.index("=1+1") : HOSTILE.index("a=1")]
STORED = {
    "rows": schemas.ROWS, "generations": schemas.GENERATIONS, "answers": schemas.ANSWERS, "grades": schemas.GRADES,
    "scores": schemas.SCORES, "task_metrics": schemas.TASK_METRICS, "samples": schemas.SAMPLES,
}  # fmt: skip
VERBS = {
    "leaderboard": schemas.LEADERBOARD, "pairwise": schemas.PAIRWISE, "calibration": schemas.CALIBRATION,
    "reliability": schemas.RELIABILITY, "costs": schemas.COSTS,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ef.Run:
    """A run of hostile texts everywhere: two models, one of which fails at times; repeats; several segments."""

    def echo(prompt: str, task: ef.TaskSpec) -> ef.Generation:
        return ef.Generation(task.targets[0], reasoning=prompt, confidence=0.1 + 0.2, token_nll=1 / 3, token_count=1)

    def flaky(prompt: str, task: ef.TaskSpec) -> str:
        if task.sample_index % 3 == 0:
            raise ConnectionError(f"the line is down: {HOSTILE[task.sample_index]}")
        return HOSTILE[-1 - task.sample_index]

    data = [{"id": f"{i} {text}", "text": text, "x,y": [text], "|": i / 3} for i, text in enumerate(HOSTILE)]
    with pytest.warns(SettingWarning, match="samples of data have an empty target"):  # blank texts are hostile too
        return ef.run(
            data,
            [ef.from_callable('echo "=",\n|', echo), ef.from_callable("=flaky", flaky)],
            prompt="Say {{text}}{{x,y}}",
            targets="text",
            metrics=["exact_match", "f1"],
            repeats=2,
            limits=ef.Limits(segment_rows=40),
            out=tmp_path_factory.mktemp("run") / "run",
            progress=False,
        )


def frame_of(run: ef.Run, name: str) -> pl.DataFrame:
    found = getattr(run, name)
    return found if isinstance(found, pl.DataFrame) else found()


def read_csv(path: Path, schema: dict[str, Any]) -> pl.DataFrame:
    """Read a CSV of ours as anybody can: the cells as text, JSON cells parsed."""
    texts = pl.read_csv(path, infer_schema=False)
    assert texts.columns == list(schema)
    return texts.select(_parsed(name, dtype) for name, dtype in schema.items())


def _parsed(name: str, dtype: pl.DataType) -> pl.Expr:
    text = pl.col(name)
    if dtype.is_nested():
        return text.str.json_decode(dtype)
    if dtype == pl.Boolean:
        return text.replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
    if dtype == pl.Datetime:
        return text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", time_unit="us", time_zone="UTC")
    return text.cast(dtype)


@pytest.mark.parametrize(("name", "schema"), [*STORED.items(), *VERBS.items()])
def test_every_frame_is_read_back_from_csv(run: ef.Run, name: str, schema: FrameSchema, tmp_path: Path) -> None:
    path = run.to_csv(tmp_path / "csv") / f"{name}.csv"
    frame = frame_of(run, name)
    again = read_csv(path, dict(frame.schema))
    assert again.equals(pl.DataFrame(frame), null_equal=True)
    check(again, schema)
    with path.open(newline="", encoding="utf-8") as file:  # and another reader sees the same cells
        header, *rows = csv.reader(file)
    assert header == frame.columns
    assert len(rows) == frame.height
    for place, (column, dtype) in enumerate(frame.schema.items()):
        if dtype == pl.String:
            assert [row[place] for row in rows] == frame[column].fill_null("").to_list()


def test_no_frame_of_a_run_is_left_out(run: ef.Run, tmp_path: Path) -> None:
    names = {*STORED, *VERBS}
    assert {path.stem for path in run.to_csv(tmp_path / "csv").iterdir()} == names
    parquet = run.to_parquet(tmp_path / "parquet")
    files = {path.relative_to(parquet).parts[0].removesuffix(".parquet") for path in parquet.rglob("*.parquet")}
    assert files == names


def test_a_run_of_several_segments_is_loaded_from_its_export(run: ef.Run, tmp_path: Path) -> None:
    assert run.record["n_segments"] > 1
    again = ef.load(run.to_parquet(tmp_path / "p"))
    for name in (*STORED, *VERBS):
        assert frame_of(again, name).equals(frame_of(run, name)), name
    for verb in ("leaderboard", "pairwise", "calibration"):
        assert getattr(frame_of(again, verb), "notes", ()) == getattr(frame_of(run, verb), "notes", ())
    assert again.failures().equals(run.failures())
    assert again.slice("row.text").equals(run.slice("row.text"))
    assert again.pass_at_k(k=1).equals(run.pass_at_k(k=1))
    assert again.to_markdown() == run.to_markdown()
    told, theirs = again.envelope(), run.envelope()
    assert told["run"].pop("path") != theirs["run"].pop("path")
    assert told == theirs
    assert ef.load(again.to_parquet(tmp_path / "p2")).samples.equals(run.samples)


def test_an_export_is_a_run_that_others_come_from(run: ef.Run, tmp_path: Path) -> None:
    again = ef.load(run.to_parquet(tmp_path / "p"))
    mine, theirs = (one.rescore(metrics=["exact_match"], out=tmp_path / name) for name, one in
                    (("a", again), ("b", run)))  # fmt: skip
    assert mine.scores.equals(theirs.scores)
    assert mine.to_parquet(tmp_path / "c").is_dir()
    assert set(again.compare(run)["change"]) == {"same", "unscored"}  # where both have no reply
    with pytest.raises(RunFolderError, match="resume the run's own folder"):
        ef.resume(tmp_path / "p")


def test_an_export_never_writes_over_a_run(run: ef.Run) -> None:
    with pytest.raises(RunFolderError, match="give another folder"):
        run.to_parquet(run.path)


def test_json_with_hostile_texts_is_strict(run: ef.Run, tmp_path: Path) -> None:
    envelope = json.loads(run.to_json(tmp_path / "new" / "e.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert {row["model_id"] for row in envelope["leaderboard"]} == {'echo "=",\n|', "=flaky"}
    assert export.to_json({"path": "/tmp/\udcff"}) == '{\n "path": "/tmp/\ufffd"\n}'
    with pytest.raises(OptionError, match=r"name a file, as in .*envelope\.json"):
        run.to_json(tmp_path)


def test_a_markdown_row_is_one_line_of_eight_cells(run: ef.Run) -> None:
    board = run.leaderboard().with_columns(model_id=pl.Series(["a\\|b", "x\r\ny\u2028z"]))
    assert [line.split(" | ")[1] for line in export.markdown(board).splitlines()[2:]] == ["a\\\\\\|b", "x y z"]


def test_what_could_mislead_is_below_the_markdown_table() -> None:
    outputs = pl.DataFrame({"gold": ["1", "2"], "a": ["1", None], "b": ["1", "2"]})
    given = {"targets": "gold", "metrics": ["exact_match"]}
    told = ef.evaluate(outputs, prediction=["a", "b"], **given).to_markdown()
    assert told.splitlines()[4:] == [
        "",
        "note: models have scores of different numbers of samples (a 1, b 2, of 2); common=True compares them on the "
        "same ones",
    ]
    plain = ef.evaluate(outputs, prediction="b", **given)
    assert plain.to_markdown() == export.markdown(plain.leaderboard())


def test_a_spreadsheet_runs_nothing_and_every_text_comes_back() -> None:
    texts = [text for text in HOSTILE if "\ud800" not in text]
    frame = pl.DataFrame({"t": [*texts, None], "e": pl.Series([*texts, None], dtype=pl.Enum(texts))})
    safe = export.flat(frame, spreadsheet_safe=True)
    assert safe["t"].equals(safe["e"].rename("t"))
    cells = dict(zip(texts, safe["t"], strict=False))
    assert safe["t"][-1] is None
    for text, cell in cells.items():
        assert (cell != text) == (text in FORMULAS or text[:1] in ("'", "\r", "\n")), text
        assert cell.removeprefix("'") == text or not text.startswith("'")
    assert [cell.replace("'", "", 1) if cell.startswith("'") else cell for cell in cells.values()] == texts


def test_a_whole_run_is_written_for_a_spreadsheet(run: ef.Run, tmp_path: Path) -> None:
    samples = pl.read_csv(run.to_csv(tmp_path / "csv", spreadsheet_safe=True) / "samples.csv", infer_schema=False)
    assert set(samples["model_id"]) == {'echo "=",\n|', "'=flaky"}
    undone = samples.with_columns(pl.col("output_text", "model_id").str.strip_prefix("'"))
    assert undone["output_text"].equals(run.samples["output_text"])
    assert not samples.select(pl.any_horizontal(pl.all().str.contains(export.FORMULA).any())).item()


def test_types_that_no_csv_has() -> None:
    day = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    frame = pl.DataFrame(
        {"b": [b"\xfb\xff", None], "d": [dt.timedelta(seconds=1.5), None], "t": [day, None], "n": [[day], []],
         "f": [[0.1 + 0.2, float("nan"), None], None], "m": [{"a": [{"b": "\0"}]}, None], "z": [None, None]},
    )  # fmt: skip
    flat = export.flat(frame)
    assert base64.b64decode(flat["b"][0]) == b"\xfb\xff"
    assert export.flat(frame, spreadsheet_safe=True)["b"][0] == "'" + flat["b"][0]
    assert flat["d"].to_list() == ["PT1.5S", None]
    assert flat["n"].to_list() == ['["2026-01-02T03:04:05.000006+00:00"]', "[]"]
    assert flat["f"].to_list() == ["[0.30000000000000004,null,null]", None]
    assert json.loads(flat["m"][0]) == {"a": [{"b": "\0"}]}
    assert flat.write_csv().count("\n") == 3
    for hidden in (pl.Series([[b"x"]]), pl.Series([{"a": {"b": [b"x"]}}]), pl.Series([object()], dtype=pl.Object)):
        with pytest.raises(SchemaError, match=r"no text can be made of hidden \(.*drop these columns, or cast"):
            export.flat(pl.DataFrame({"hidden": hidden, "fine": [1]}))


def test_metadata_of_a_run_are_plain_json(suite, tmp_path: Path) -> None:
    given = {
        "n": np.int64(3), "share": np.float32(0.1), "ok": np.bool_(True), "array": np.array([[1, 2]]),
        "series": pl.Series([0.5, None]), "largest": pl.Series([7, 9]).max(), "when": dt.date(2026, 1, 2),
        "deep": {"x": [np.int8(1)]}, "text": "a\ud800",
    }  # fmt: skip
    run = ef.run(suite(), ef.from_callable("m", lambda prompt: ""), metadata=given, out=tmp_path / "r", progress=False)
    assert json.loads((run.path / "run.json").read_text("utf-8"))["metadata"] == {
        "n": 3, "share": 0.1, "ok": True, "array": [[1, 2]], "series": [0.5, None], "largest": 9, "when": "2026-01-02",
        "deep": {"x": [1]}, "text": "a\ufffd",
    }  # fmt: skip
    with pytest.raises(OptionError, match=r"metadata\.x: nan is no JSON -> use null(.|\n)*metadata\.y: .*write it as"):
        ef.run(suite(), "mock/noisy", metadata={"x": np.float64("nan"), "y": object()}, out=False)


def test_a_folder_that_frames_can_not_be_written_to_is_refused(run: ef.Run, tmp_path: Path) -> None:
    bad = tmp_path / "x\udcff"
    for write in (run.to_parquet, run.to_csv, lambda out: run.rescore(metrics=["f1"], out=out)):
        with pytest.raises(RunFolderError, match="not UTF-8; give another folder"):
            write(bad)
    assert not bad.exists()


def test_the_export_of_a_run_without_a_reply(suite, tmp_path: Path) -> None:
    run = ef.run(suite(), ef.from_callable("m", _fail), out=tmp_path / "r", progress=False)
    again = ef.load(run.to_parquet(tmp_path / "p"))
    assert again.samples.equals(run.samples)
    assert again.envelope()["summary"]["fates"] == {"failed": 6}
    assert read_csv(run.to_csv(tmp_path / "c") / "samples.csv", dict(run.samples.schema)).equals(run.samples)


def _fail(prompt: str) -> str:
    raise ConnectionError("down")


@pytest.mark.parametrize("form", ["parquet", "parquet/samples.parquet", "csv/samples.csv"])
def test_outputs_that_were_exported_are_replayed(fixtures: Path, tmp_path: Path, form: str) -> None:
    run = ef.run(fixtures / "suite.json", ef.replay(fixtures / "outputs.jsonl"), out=False, progress=False)
    run.to_parquet(tmp_path / "parquet")
    run.to_csv(tmp_path / "csv")
    again = ef.run(fixtures / "suite.json", ef.replay(tmp_path / form), out=False, progress=False)
    assert again.scores.equals(run.scores)
    assert again.leaderboard().equals(run.leaderboard())


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_samples_that_were_exported_are_evaluated_as_outputs_from_elsewhere(
    fixtures: Path, tmp_path: Path, form: str
) -> None:
    run = ef.run(fixtures / "suite.json", ef.replay(fixtures / "outputs.jsonl"), out=False, progress=False)
    path = getattr(run, f"to_{form}")(tmp_path / "out") / f"samples.{form}"
    again = ef.evaluate(path, prediction="output_text", targets="target", extract="number", metrics=["numeric_match"],
                        model="model_id", sample_id="sample_id")  # fmt: skip
    keys = ["model_id", "sample_index"]
    assert again.scores.select(*keys, "score", "fate").equals(run.scores.select(*keys, "score", "fate"))


def test_parquet_is_read_by_others(run: ef.Run, tmp_path: Path) -> None:
    import pyarrow.parquet

    folder = run.to_parquet(tmp_path / "p")
    samples = pyarrow.parquet.read_table(folder / "samples.parquet")
    assert pyarrow.parquet.read_metadata(folder / "samples.parquet").metadata[b"evalframe.schema"] == b"samples"
    assert samples.column("output_text").to_pylist() == run.samples["output_text"].to_list()
    assert [str(samples.schema.field(name).type) for name in ("started_at", "targets")] == [
        "timestamp[us, tz=UTC]", "large_list<element: large_string>",
    ]  # fmt: skip
