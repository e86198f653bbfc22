"""Measuring: CPU seconds, peak memory, and the table of ratios."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

GATE = 0.7
LIBRARIES = ("polars", "numpy", "sacrebleu", "rouge-score", "scipy")


@dataclass(frozen=True, slots=True)
class Ratio:
    """One line of the table: how many times less CPU ours takes.

    Attributes:
        room: What is measured.
        name: Ours against what, on which data.
        ours, theirs: CPU seconds (or megabytes, where ``unit`` says so).
        target: The ratio to reach; 0: only shown.
        unit: Of ours and theirs.
    """

    room: str
    name: str
    ours: float
    theirs: float
    target: float = 0.0
    unit: str = "s"

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours if self.ours else float("inf")

    @property
    def holds(self) -> bool:
        return self.ratio >= GATE * self.target


def cpu_seconds(work: Callable[[], object], *, times: int = 3) -> float:
    """The median CPU time of some work, that of its threads and finished children included."""
    return statistics.median(_once(work) for _ in range(times))


def cpu_pair(
    ours: Callable[[], object], theirs: Callable[[], object], *, times: int = 3, share: float = 1.0
) -> tuple[float, float]:
    """The median CPU times of two works that are done in turn, as often each: a busy machine slows both alike.

    Args:
        ours, theirs: The works.
        times: How often each is done.
        share: Of ours, what theirs is given to do; its time is scaled.
    """
    taken = [(_once(ours), _once(theirs)) for _ in range(times)]
    mine, others = (statistics.median(times) for times in zip(*taken, strict=True))
    return mine, others / share


def _once(work: Callable[[], object]) -> float:
    before = _cpu()
    work()
    return _cpu() - before


def peak_megabytes(code: str) -> float:
    """The peak resident memory of a fresh process that runs some code.

    Linux's ``VmHWM`` where there is one: what ``getrusage`` gives begins with the memory of the process that forked.
    """
    watched = f"{code}\nimport resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    if Path("/proc/self/status").exists():
        watched = f"{code}\nprint(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 1024


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def machine() -> str:
    """Name the machine, its cores, and the versions of Python and of the libraries that are measured."""
    libraries = (f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(libraries)}"


def _processor() -> str:
    """Give the processor's name where the system tells it, else its kind."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{platform.system()} {platform.machine()} ({next(names, platform.processor() or 'unnamed')})"
