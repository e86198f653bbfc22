"""What a run gives back: a folder, and an index of one-line verbs over free functions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from evalframe import calibrating, export, pairs, passing, slicing, spending, standings
from evalframe.errors import UnknownNameError
from evalframe.frames import Noted, listed
from evalframe.groups import By
from evalframe.joining import join_samples, scan_samples
from evalframe.registry import suggestion
from evalframe.schemas import CALL_KEY
from evalframe.store import STORED, RunFolder

Out = str | os.PathLike[str] | bool | None

# what figures need of the generations: everything but the texts
FIGURES = (
    "model_id", "task_id", "sample_index", "repeat", "status", "confidence", "confidence_source", "token_nll",
    "token_count", "input_tokens", "output_tokens", "cost_usd",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run on disk. Frames are read when first asked for; verbs give frames.

    Attributes:
        folder: Where it is.
    """

    folder: RunFolder

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @cached_property
    def record(self) -> dict[str, Any]:
        """What ``run.json`` says: versions, settings, models, environment, timings."""
        return self.folder.record()

    @cached_property
    def rows(self) -> pl.DataFrame:
        """ROWS: the samples and their prompts."""
        return self.folder.read("rows")

    @cached_property
    def generations(self) -> pl.DataFrame:
        """GENERATIONS: one row a call."""
        return self.folder.read("generations")

    @cached_property
    def answers(self) -> pl.DataFrame:
        """ANSWERS: what was read from each call."""
        return self.folder.read("answers")

    @cached_property
    def grades(self) -> pl.DataFrame:
        """GRADES: what graders said; empty where no task has one."""
        return self.folder.read("grades")

    @cached_property
    def scores(self) -> pl.DataFrame:
        """SCORES: one row a call and metric."""
        return self.folder.read("scores")

    @cached_property
    def task_metrics(self) -> pl.DataFrame:
        """TASK_METRICS: one row a model, task and metric."""
        return self.folder.read("task_metrics")

    @cached_property
    def judge_calls(self) -> pl.DataFrame:
        """JUDGE_CALLS: the calls that graders made; empty where none did."""
        return self.folder.read("judge_calls")

    @cached_property
    def samples(self) -> pl.DataFrame:
        """SAMPLES: all frames joined, one row a call."""
        return join_samples(
            self.generations, answers=self.answers, grades=self.grades, scores=self.scores, rows=self.rows,
            run_id=self.record["run_id"],
        )  # fmt: skip

    def scan(self, name: str) -> pl.LazyFrame:
        """Open a stored frame lazily, or SAMPLES, of which only what is asked for is read.

        Raises:
            UnknownNameError: Lists the frames.
        """
        if name == "samples":
            generations = self.folder.scan("generations")
            parts = {part: self.folder.scan(part) for part in ("answers", "grades", "rows")}
            return scan_samples(generations, **parts, scores=self.scores, run_id=self.record["run_id"])
        if name not in STORED:
            raise UnknownNameError(f"a run has no frame {name!r}; {suggestion(name, [*STORED, 'samples'])}")
        return self.folder.scan(name)

    def leaderboard(self, *, by: By | None = None, **options: Any) -> pl.DataFrame:
        """LEADERBOARD: ``evalframe.leaderboard`` on this run's frames; with ``by`` SLICES, as ``slice`` gives them.

        Options: ``metric``, ``weighting``, ``cluster``, ``failures``, ``common``, ``ties``, ``n_resamples``, ``seed``.
        """
        if by is not None:
            return self.slice(by, **options)
        frames = {"rows": self.rows, "generations": self._figures, "task_metrics": self.task_metrics}
        return self._noted(standings.leaderboard(self.scores, **{**frames, **self._with(options)}))

    def pairwise(self, **options: Any) -> pl.DataFrame:
        """PAIRWISE: ``evalframe.pairwise`` on this run's frames; ``diff_mean`` is model_a minus model_b.

        Options: ``metric``, ``weighting``, ``cluster``, ``n_resamples``, ``seed``.
        """
        return pairs.pairwise(self.scores, rows=self.rows, **self._with(options))

    def slice(self, by: By, **options: Any) -> pl.DataFrame:
        """SLICES: ``evalframe.slices``, the leaderboard within each group, on this run's frames."""
        frames = {"rows": self.rows, "generations": self._figures, "task_metrics": self.task_metrics}
        if slicing.needs_samples(by, rows=self.rows, generations=self._figures):
            frames["samples"] = self.samples
        return slicing.slices(self.scores, by=by, **{**frames, **self._with(options)})

    def pass_at_k(self, *, k: int | Sequence[int] = (1, 5), **options: Any) -> pl.DataFrame:
        """PASS_AT_K: ``evalframe.pass_at_k`` on this run's frames."""
        return passing.pass_at_k(self.scores, k=k, rows=self.rows, **self._with(options))

    def calibration(self, **options: Any) -> pl.DataFrame:
        """CALIBRATION: ``evalframe.calibration`` on this run's frames."""
        frames = {"rows": self.rows, "generations": self._figures}
        found = calibrating.calibration(self.scores, **{**frames, **self._with(options)})
        return Noted.of(found, [*getattr(found, "notes", ()), *self.record.get("confidence_notes", ())])

    def reliability(self, **options: Any) -> pl.DataFrame:
        """RELIABILITY: the bins of ``calibration``."""
        frames = {"rows": self.rows, "generations": self._figures}
        return calibrating.reliability(self.scores, **{**frames, **options})

    def costs(self, *, by: Literal["model", "task", "run"] = "model") -> pl.DataFrame:
        """COSTS: calls, tokens, dollars and latency of each model; TASK_COSTS and RUN_COSTS by ``task`` and ``run``.

        Calls of other runs cost what they did there.
        """
        columns = [*CALL_KEY, *spending.OF_CALLS]
        found = spending.costs(self.folder.scan("generations").select(columns).collect(engine="in-memory"), by=by)
        others = [parent["run_id"] for parent in self.record.get("derived_from", ())]
        told = [f"calls that came from {listed(others)} are counted with what they cost there"] if others else []
        return Noted.of(found, [*getattr(found, "notes", ()), *told])

    def compare(self, other: Run, *, models: Any = None, metric: str | None = None) -> pl.DataFrame:
        """COMPARISON: this run beside another, call by call: what was fixed, what was broken.

        ``models=("old", "new")`` where the names differ; see ``evalframe.facing.compare_runs``.
        """
        from evalframe.facing import compare_runs

        return compare_runs(self, other, models=models, metric=metric)

    def differences(self, other: Run, *, models: Any = None, metric: str | None = None, **options: Any) -> pl.DataFrame:
        """DIFFERENCES: the paired difference of each model, the other run minus this one: positive, it is better.

        Options: ``seed``, ``n_resamples``, ``limits``; see ``evalframe.facing.differences_of_runs``.
        """
        from evalframe.facing import differences_of_runs

        return differences_of_runs(self, other, models=models, metric=metric, **options)

    def rescore(
        self, *, manifest: Any = None, extract: Any = None, metrics: Any = None, out: Out = None, **options: Any
    ) -> Run:
        """Score the same replies by other definitions, as a new run: no call is made.

        Options: ``graders``, ``judge_model``, ``embedding_model``, ``confidence``, ``files``, ``allow_unsandboxed``:
        ``evalframe.rescoring.rescore``.
        """
        from evalframe.rescoring import rescore

        return rescore(self, manifest=manifest, extract=extract, metrics=metrics, out=out, **options)

    def regrade(self, models: Any = None, *, out: Out = None, allow_unsandboxed: bool = False) -> Run:
        """Call graders again where they failed, as a new run: ``evalframe.regrading.regrade``."""
        from evalframe.regrading import regrade

        return regrade(self, models, out=out, allow_unsandboxed=allow_unsandboxed)

    def rerun_failed(self, models: Any = None, *, out: Out = None, progress: bool = True) -> Run:
        """Call again what has no reply, as a new run: ``evalframe.extending.rerun_failed``."""
        from evalframe.extending import rerun_failed

        return rerun_failed(self, models, out=out, progress=progress)

    def extend(
        self,
        models: Any = None,
        *,
        repeats: int | Mapping[str, int] | None = None,
        out: Out = None,
        progress: bool = True,
    ) -> Run:
        """Add models, or repeats, as a new run; only the missing calls are made: ``evalframe.extending.extend``."""
        from evalframe.extending import extend

        return extend(self, models, repeats=repeats, out=out, progress=progress)

    def failures(self) -> pl.DataFrame:
        """SAMPLES of which a metric is not ``scored``, skipped ones included: status, error and extraction say why."""
        lost = self.scores.filter(pl.col("fate") != "scored")
        skipped = self.generations.filter(pl.col("status") == "skipped")
        calls = pl.concat([lost.select(CALL_KEY), skipped.select(CALL_KEY)]).unique()
        return self.samples.join(calls, on=CALL_KEY, how="semi", maintain_order="left")

    def cache_misses(self, **options: Any) -> pl.DataFrame:
        """CACHE_MISSES: why each call was made, and its reply not found in the result cache.

        Options: ``models`` (objects of the run, handed in again), ``model_id``, ``task_id``, ``sample_id``.
        """
        from evalframe.explaining import explain_cache

        return explain_cache(self.folder, **options)

    def sample(self, sample_id: str | int) -> pl.DataFrame:
        """SAMPLES of one ``sample_id``: every model, task and repeat that has it.

        Raises:
            UnknownNameError: Lists the nearest ids.
        """
        name = str(sample_id)  # an id that is a number in the data is text here, as all ids are
        found = self.samples.filter(pl.col("sample_id") == name)
        if found.is_empty():
            raise UnknownNameError(f"no sample {name!r}; {suggestion(name, self.rows['sample_id'].head(500))}")
        return found

    def envelope(self) -> dict[str, Any]:
        """Give the run as one JSON object: leaderboard, pairwise, calibration, perplexity, summary."""
        return export.envelope(self)

    def to_markdown(self) -> str:
        """Give the leaderboard as a table for a pull request, and its notes below it."""
        board = self.leaderboard()
        return export.markdown(board) + "".join(f"\nnote: {note}\n" for note in getattr(board, "notes", ()))

    def to_parquet(self, folder: str | os.PathLike[str]) -> Path:
        """Write every frame as Parquet into a folder that ``evalframe.load`` opens too."""
        return export.write_parquet(self, Path(folder))

    def to_csv(self, folder: str | os.PathLike[str], *, spreadsheet_safe: bool = False) -> Path:
        """Write every frame as CSV, nested values as JSON text; for one frame of your own see ``export.flat``."""
        return export.write_csv(self, Path(folder), spreadsheet_safe=spreadsheet_safe)

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write the envelope."""
        return export.write_json(self, Path(path))

    def __repr__(self) -> str:
        from evalframe.presenting import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from evalframe.presenting import as_html

        return as_html(self)

    @cached_property
    def _figures(self) -> pl.DataFrame:
        return self.folder.scan("generations").select(FIGURES).collect(engine="in-memory")

    def _noted(self, figures: pl.DataFrame) -> pl.DataFrame:
        """Put what a reader of any figures of this run must know on them."""
        told = [*self.record.get("notes", ()), *self.record.get("confidence_notes", ())]
        return Noted.of(figures, [*getattr(figures, "notes", ()), *told])

    def _with(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"seed": self.record["options"]["seed"], **options}
