"""The list of metrics: every registered one, those of other packages too, and a broken one hides no other."""

from __future__ import annotations

import json
from importlib import metadata

import polars as pl
import pytest

from evalframe import registry
from evalframe.metrics import catalogue as catalogues
from evalframe.metrics import metric
from evalframe.registry import METRICS, Registry


def test_every_builtin_metric_says_what_it_is() -> None:
    found = {one["id"]: one for one in catalogues.catalogue()}
    builtin = ("accuracy", "bleu_4", "code_exec", "corpus_bleu_4", "exact_match", "f1", "numeric_match", "rouge_l")
    for name in builtin:  # other tests may have registered theirs
        assert found[name]["error"] is None
        assert found[name]["description"]
    assert found["code_exec"]["needs"] == ["prompt", "row", "metadata"]
    assert found["corpus_bleu_4"]["aggregate"] == "corpus"
    assert found["f1"]["aggregate"] == "mean"
    assert json.loads(json.dumps(found)) == found


def test_metrics_of_other_packages_are_listed_and_broken_ones_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    group = "evalframe.metrics"
    points = [
        metadata.EntryPoint("theirs", "evalframe.metrics.matching:ACCURACY", group),
        metadata.EntryPoint("gone", "no_such_package.metrics:METRIC", group),
        metadata.EntryPoint("number", "math:pi", group),
    ]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda **which: points)
    fresh: Registry[object] = Registry("metric", {"f1": "evalframe.metrics.overlap:F1"}, group=group)
    monkeypatch.setattr(catalogues, "METRICS", fresh)
    found = {one["id"]: one for one in catalogues.catalogue()}
    assert list(found) == ["f1", "gone", "number", "theirs"]
    assert found["f1"]["error"] is None
    assert found["theirs"]["description"]
    assert "no_such_package" in found["gone"]["error"]
    assert found["number"]["error"] == "is a float, no Metric; decorate it with @metric"


def test_a_metric_of_ones_own_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS._entries))

    @metric("seconds", range=(0, 60), higher_is_better=False)
    def seconds(prediction: pl.Expr, targets: pl.Expr) -> pl.Expr:
        """Seconds that the answer names."""
        return prediction.cast(pl.Float64, strict=False).fill_null(60.0)

    (mine,) = [one for one in catalogues.catalogue() if one["id"] == "seconds"]
    assert (mine["range"], mine["higher_is_better"]) == ([0.0, 60.0], False)
    assert mine["description"] == "Seconds that the answer names."
