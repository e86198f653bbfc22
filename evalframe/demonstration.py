"""The main job as a demonstration: ten fixture tasks, three mock models, and what must come out."""

from __future__ import annotations

import shutil
from pathlib import Path

from evalframe import runner
from evalframe.errors import RunFolderError
from evalframe.result import Run
from evalframe.sources import fixture_folder
from evalframe.store import RunFolder

MODELS = ("mock/rule_based", "mock/noisy", "mock/biased")


def run_demo(out: Path) -> tuple[Run, list[str]]:
    """Run the demonstration.

    Args:
        out: The folder of results; an earlier demonstration in it is replaced.

    Returns:
        The run, and the criteria that it broke: every task validated and scored, calibration aggregated,
        ``rule_based`` strictly above ``noisy``.

    Raises:
        RunFolderError: The folder holds something that is no demonstration.
    """
    _clear(out)
    # only our own fixture solutions run here, so that no wall is needed; the layers are in run.json
    done = runner.run(
        fixture_folder() / "tasks.jsonl", list(MODELS), out=out, progress=False, allow_unsandboxed=True,
        metadata={"demo": True},
    )  # fmt: skip
    done.to_json(out / "envelope.json")
    done.leaderboard().write_parquet(out / "leaderboard.parquet")
    return done, broken_criteria(done)


def broken_criteria(done: Run) -> list[str]:
    """Name what a demonstration run should have shown and did not; empty where all is well."""
    broken = []
    fates = done.scores["fate"].value_counts()
    lost = {fate: n for fate, n in fates.iter_rows() if fate not in ("scored", "unparsed")}
    if lost or done.scores.height != done.rows.height * len(MODELS):
        broken.append(f"not every task was scored: {done.scores.height} scores, {lost or 'none lost'}")
    if done.calibration()["ece"].null_count():
        broken.append("a model has no calibration")
    ranks = dict(done.leaderboard().select("model_id", "mean_score").iter_rows())
    if not ranks["mock/rule_based"] > ranks["mock/noisy"]:
        broken.append(f"rule_based ({ranks['mock/rule_based']}) is not above noisy ({ranks['mock/noisy']})")
    return broken


def _clear(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        earlier = Run(RunFolder(out)).record["metadata"].get("demo") is True
    except RunFolderError:
        earlier = False
    if not earlier:
        raise RunFolderError(f"{out} holds something that is no demonstration; give another --out")
    if strange := RunFolder(out).strangers():
        raise RunFolderError(
            f"{out} holds {strange[0]}, no part of a demonstration; move it away, or give another --out"
        )
    shutil.rmtree(out)
