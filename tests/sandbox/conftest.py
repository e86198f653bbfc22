"""Short ways to run generated code in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evalframe.limits import Limits
from evalframe.sandbox.policy import Policy
from evalframe.sandbox.verdict import CodeResult, CodeTask, run_code


@pytest.fixture
def run() -> Callable[..., CodeResult]:
    """Run one candidate against its tests."""

    def one(candidate: str, *tests: str, limits: Limits | None = None, **settings: Any) -> CodeResult:
        task = CodeTask(candidate=candidate, tests=tests, **settings)
        [result] = run_code([task], policy=Policy(allow_unsandboxed=True, limits=limits or Limits()))
        return result

    return one


@pytest.fixture
def run_all() -> Callable[..., list[CodeResult]]:
    """Run many candidates against the same tests."""

    def many(candidates: list[str], *tests: str, limits: Limits | None = None, **settings: Any) -> list[CodeResult]:
        tasks = [CodeTask(candidate=candidate, tests=tests, **settings) for candidate in candidates]
        return run_code(tasks, policy=Policy(allow_unsandboxed=True, limits=limits or Limits()))

    return many
