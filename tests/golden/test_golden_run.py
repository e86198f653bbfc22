"""One replay run, cell by cell, as it was written down: a change of any figure is seen and has to be meant.

``python -m tests.golden.test_golden_run`` writes the tables anew.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import evalframe as ef
from evalframe.export import flat

HERE = Path(__file__).parent
FIXTURES = HERE.parent.parent / "fixtures"
TABLES = ("rows", "answers", "scores", "task_metrics", "leaderboard", "pairwise", "calibration", "reliability")


def tables() -> dict[str, pl.DataFrame]:
    """Run the fixture suite on its stored outputs, and give its frames as the CSV export has them."""
    run = ef.run(FIXTURES / "suite.json", ef.replay(FIXTURES / "outputs.jsonl"), out=False, progress=False)
    frames = {name: getattr(run, name) for name in TABLES[:4]} | {name: getattr(run, name)() for name in TABLES[4:]}
    return {name: flat(frame) for name, frame in frames.items()}


@pytest.fixture(scope="module")
def found() -> dict[str, pl.DataFrame]:
    return tables()


@pytest.mark.parametrize("name", TABLES)
def test_the_run_is_as_it_was_written_down(found: dict[str, pl.DataFrame], name: str) -> None:
    frame = found[name]
    golden = pl.read_csv(HERE / f"{name}.csv", schema=frame.schema)
    assert golden.columns == frame.columns
    assert golden.height == frame.height
    for column, dtype in frame.schema.items():
        if dtype == pl.Float64:
            assert golden[column].to_list() == pytest.approx(frame[column].to_list(), abs=1e-9), column
        else:
            assert golden[column].to_list() == frame[column].to_list(), column


if __name__ == "__main__":
    for table, frame in tables().items():
        frame.write_csv(HERE / f"{table}.csv")
