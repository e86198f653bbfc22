"""What foreign code may use: one frozen policy for code candidates, graders, preprocessors and regexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evalframe.errors import SandboxError
from evalframe.limits import DEFAULT_LIMITS, Limits
from evalframe.sandbox.launch import WALLS, layers, missing_layers, require_platform, try_walls

_WHAT_IT_COULD_DO = {
    "landlock": "read and write the files of this user",
    "seccomp": "use the network, start programs and signal other processes",
}
_A_PLACE_OF_ONE_S_OWN = (
    "if you accept that, or are inside a container or virtual machine of your own, pass allow_unsandboxed=True "
    "(--allow-unsandboxed)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How foreign code is run.

    Attributes:
        sandbox: ``strict`` refuses to run with less than Landlock, seccomp and rlimits; ``auto`` runs with what is
            there and says what is missing.
        allow_unsandboxed: The caller accepts that there is no wall but rlimits. Walls that are there stand all the
            same.
        limits: Numbers: clock, memory, output, files, processes.
    """

    sandbox: Literal["auto", "strict"] = "auto"
    allow_unsandboxed: bool = False
    limits: Limits = DEFAULT_LIMITS


DEFAULT_POLICY = Policy()


def require_walls(policy: Policy, *, what: str = "foreign code") -> list[str]:
    """Refuse to run foreign code with fewer walls than the policy asks for, before anything runs.

    Args:
        policy: ``sandbox`` and ``allow_unsandboxed`` count.
        what: Names the code in messages.

    Returns:
        What the caller should say aloud: walls that are missing and that the policy goes on without. None where all
        stand, or where the caller has allowed it.

    Raises:
        SandboxError: ``strict``, and a wall is missing; or no wall but rlimits, and ``allow_unsandboxed`` is not set;
            or no worker starts; or Windows. It says what is missing and what to do.
    """
    require_platform()
    missing = missing_layers()
    if "rlimits" in missing:
        try_walls()  # where no worker starts it says why
    lacking = [wall for wall in WALLS if wall in missing]
    if policy.sandbox == "strict":
        if lacking:
            raise SandboxError(
                f"sandbox='strict' refuses to run {what} here: {', '.join(lacking)} missing; use a Linux kernel that "
                "has it (Landlock: 5.13), or run inside a container or virtual machine of your own with "
                "sandbox='auto' and allow_unsandboxed=True (--allow-unsandboxed)"
            )
        return []
    if policy.allow_unsandboxed:
        return []
    could = "; ".join(_WHAT_IT_COULD_DO[wall] for wall in lacking if wall in _WHAT_IT_COULD_DO)
    if not any(holds for name, holds in layers().items() if name in _WHAT_IT_COULD_DO):
        raise SandboxError(
            f"{what} would run here with no wall but resource limits: it could {could} (missing: "
            f"{', '.join(missing)}); {_A_PLACE_OF_ONE_S_OWN}"
        )
    if not could:
        return []
    return [
        f"{what} runs with less than all walls: {', '.join(lacking)} missing, so it could {could}; sandbox='strict' "
        "refuses that, allow_unsandboxed=True accepts it"
    ]
