"""What foreign code may use: one frozen policy for code candidates, graders, preprocessors and regexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evalframe.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How foreign code is run.

    Attributes:
        sandbox: ``strict`` refuses to run with less than all walls; ``auto`` runs with what is there and says what
            is missing.
        allow_unsandboxed: The caller accepts that there is no wall but rlimits.
        limits: Numbers: clock, memory, output, files, processes.
    """

    sandbox: Literal["auto", "strict"] = "auto"
    allow_unsandboxed: bool = False
    limits: Limits = DEFAULT_LIMITS


DEFAULT_POLICY = Policy()
