"""What a run takes from the result cache and gives to it."""

from __future__ import annotations

from typing import Protocol

from evalframe.adapters import TaskSpec
from evalframe.generate.attempts import Caller, Done


class Memory(Protocol):
    """Replies that are known already."""

    def recall(self, task: TaskSpec, caller: Caller) -> Done | None:
        """Give the finished call of a reply that is known; None: it is not."""
        ...

    def keep(self, done: Done) -> None:
        """Remember a reply where it is worth it."""
        ...
