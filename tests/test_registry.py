"""Names: a clash is an error, an unknown name suggests, nothing is imported before it is asked for."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from evalframe.errors import NameTakenError, UnknownNameError
from evalframe.registry import ADAPTERS, EXTRACTORS, METRICS, Registry, nearest, suggestion


def test_a_builtin_is_imported_when_asked_for() -> None:
    sys.modules.pop("colorsys", None)
    registry: Registry[object] = Registry("thing", {"rgb": "colorsys:rgb_to_hsv"})
    assert registry.names() == ["rgb"]
    assert "colorsys" not in sys.modules
    assert registry.get("rgb") is sys.modules["colorsys"].rgb_to_hsv


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"there is no metric 'exactmatch'; did you mean 'exact_match'"):
        METRICS.get("exactmatch")
    with pytest.raises(LookupError, match=r"known: a, b"):
        Registry("thing", {"a": "x:y", "b": "x:y"}).get("zzzz")


def test_a_name_taken_twice_is_an_error() -> None:
    registry: Registry[int] = Registry("thing", {})
    registry.register("one", 1)
    with pytest.raises(NameTakenError, match="choose another name"):
        registry.register("one", 2)
    assert registry.register("one", 3, replace=True) == registry.get("one") == 3


def test_entry_points_add_names_and_may_not_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(**wanted: str) -> list[metadata.EntryPoint]:
        return [metadata.EntryPoint("extra", "math:pi", wanted["group"])]

    monkeypatch.setattr(metadata, "entry_points", points)
    assert Registry("thing", {}, group="some.group").get("extra") == pytest.approx(3.14159, abs=1e-5)
    with pytest.raises(NameTakenError, match="extra"):
        Registry("thing", {"extra": "math:e"}, group="some.group").names()


@pytest.mark.parametrize("registry", [METRICS, EXTRACTORS, ADAPTERS], ids=lambda registry: registry.kind)
def test_every_builtin_name_leads_somewhere(registry: Registry[object]) -> None:
    for name in registry.names():
        assert registry.get(name) is not None


def test_nearest_knows_case_and_order() -> None:
    assert nearest("Prompt_Template", ["target_template", "prompt_template"])[0] == "prompt_template"
    assert nearest("qqqq", ["abc"]) == []
    assert suggestion("x", []) == "none is known"
