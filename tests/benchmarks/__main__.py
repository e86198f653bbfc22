"""``python -m tests.benchmarks [--markdown] [ROOM…]``: print the table of ratios; exit 1 if one is under its gate."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests.benchmarks.harness import GATE, Ratio, machine

HEADINGS = ("room", "what", "ours", "theirs", "ratio", "target")
NAME_WIDTH = 92
MARKDOWN = "--markdown"


def main(arguments: list[str]) -> int:
    names = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    rooms = [argument for argument in arguments if argument != MARKDOWN]
    if unknown := [room for room in rooms if room not in names]:
        print(f"no such rooms: {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    line = _markdown if MARKDOWN in arguments else _plain
    print(f"{machine()}; CPU seconds, the gate is {GATE:.0%} of the target\n")
    print(line(*HEADINGS))
    if line is _markdown:
        print("| --- | --- | ---: | ---: | ---: | ---: |")
    failed = 0
    for name in rooms or names:
        for ratio in importlib.import_module(f"tests.benchmarks.bench_{name}").ratios():
            print(line(*_cells(ratio)), flush=True)
            failed += not ratio.holds
    print(f"\n{failed} under the gate")
    return 1 if failed else 0


def _cells(ratio: Ratio) -> tuple[str, ...]:
    unit = "" if ratio.unit == "s" else f" {ratio.unit}"
    ours, theirs = (f"{figure:.0f}{unit}" if unit else f"{figure:.3f}" for figure in (ratio.ours, ratio.theirs))
    target = f"{ratio.target:.3g}x" if ratio.target else "-"
    return ratio.room, ratio.name, ours, theirs, f"{ratio.ratio:.1f}x", target if ratio.holds else f"{target} UNDER"


def _plain(room: str, name: str, *figures: str) -> str:
    return f"{room:11} {name:{NAME_WIDTH}} " + " ".join(f"{figure:>9}" for figure in figures)


def _markdown(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


sys.exit(main(sys.argv[1:]))
