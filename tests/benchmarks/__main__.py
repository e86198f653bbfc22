"""``python -m tests.benchmarks [ROOM…]``: print the table of ratios; exit 1 where one is under its gate."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path

from tests.benchmarks.harness import GATE, Ratio, machine


def main(rooms: list[str]) -> int:
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    wanted = [name for name in names if not rooms or name.removeprefix("bench_") in rooms]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("polars", "numpy"))
    print(f"{machine()}, {versions}; gate {GATE:.0%} of target")
    print(f"{'room':12} {'what':64} {'ours':>9} {'theirs':>9} {'ratio':>8} {'target':>7}")
    failed = 0
    for name in wanted:
        for ratio in importlib.import_module(f"tests.benchmarks.{name}").ratios():
            print(_line(ratio), flush=True)
            failed += not ratio.holds
    print(f"{failed} under the gate")
    return 1 if failed else 0


def _line(ratio: Ratio) -> str:
    target = f"{ratio.target:g}x" if ratio.target else "-"
    mark = "" if ratio.holds else "  UNDER"
    figures = f"{ratio.ours:9.3f} {ratio.theirs:9.3f} {ratio.ratio:7.1f}x {target:>7}"
    return f"{ratio.room:12} {ratio.name[:64]:64} {figures}{mark}"


sys.exit(main(sys.argv[1:]))
