"""What schemas are made of: types, kinds of columns, the keys."""

from __future__ import annotations

import polars as pl

from evalframe.frames import Column

TEXTS = pl.List(pl.String)
METRIC_CHOICES = pl.List(pl.Struct({"id": pl.String, "aggregation": pl.String, "higher_is_better": pl.Boolean}))
INSTANT = pl.Datetime("us", "UTC")


def count(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Declare a whole number from 0 up."""
    return Column(name, pl.Int64, doc, nullable=nullable, low=0)


def share(name: str, doc: str, *, nullable: bool = True) -> Column:
    """Declare a number from 0 to 1."""
    return Column(name, pl.Float64, doc, nullable=nullable, low=0.0, high=1.0)


def amount(name: str, doc: str) -> Column:
    """Declare a number from 0 up, or null."""
    return Column(name, pl.Float64, doc, nullable=True, low=0.0)


MODEL_ID = Column("model_id", pl.String, "the model, as the adapter names itself")
TASK_ID = Column("task_id", pl.String, "the task, unique in a run")
SAMPLE_INDEX = count("sample_index", "0-based position in the task's data, after preprocessing")
REPEAT = count("repeat", "0-based number of the repeat")
METRIC = Column("metric", pl.String, "metric id")
CALL_KEY = ("model_id", "task_id", "sample_index", "repeat")
CALL = (MODEL_ID, TASK_ID, SAMPLE_INDEX, REPEAT)

# every count is of calls (samples times repeats), so that the five below add up to n_samples
FATE_COUNTS = (
    count("n_samples", "calls planned: samples times repeats"),
    count("n_scored", "calls with a score of an answer"),
    count("n_unparsed", "calls without an extractable answer: worst value, in the mean"),
    count("n_failed", "calls without a reply: null, not in the mean"),
    count("n_grader_error", "calls that the grader failed on: null, not in the mean"),
    count("n_skipped", "calls never made: in no mean"),
)
