"""One execution as the launcher takes it, for tests that look at reports or leave a wall out."""

from __future__ import annotations

from evalframe.sandbox.watching import Job


def job(candidate: str, *tests: str, seconds: float = 3.0) -> Job:
    """Make a job of a candidate and its tests."""
    told = {"candidate": candidate, "tests": list(tests), "setup_code": "", "prompt": "", "completes_prompt": False,
            "entry_point": ""}  # fmt: skip
    return Job(told, seconds)
