"""Ratios of speed, measured in one run: ours against a peer, or against the plain per-row version.

`make bench` prints them all. A module ``bench_<room>.py`` has a function ``ratios() -> Iterable[Ratio]``. CPU time is
what is compared (children included): on a busy machine it drifts less than wall time. The gate is 70 % of the target.
"""
