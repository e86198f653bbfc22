"""The bad lines of one file, collected while it is read and raised together."""

from __future__ import annotations

from pathlib import Path

from evalframe.errors import DatasetError, Fault

MOST_SHOWN = 20


class BadLines:
    """What is wrong with a file, by line and column.

    Args:
        path: The file, for messages.
        most: How many faults are kept; the rest is counted.
    """

    def __init__(self, path: Path, *, most: int = MOST_SHOWN) -> None:
        self.path = path
        self.count = 0
        self._most = most
        self._faults: list[Fault] = []

    def add(self, line: int, column: int, rule: str, detail: str, remedy: str = "") -> None:
        """Note one fault; ``line`` and ``column`` are 1-based, the column in characters."""
        self.count += 1
        if len(self._faults) < self._most:
            self._faults.append(Fault(f"{self.path.name}:{line}:{column}", rule, detail, remedy))

    def raise_if_any(self) -> None:
        """Raise what was collected.

        Raises:
            DatasetError: Names the file, and each bad line with its remedy; nothing of the file is used.
        """
        if not self.count:
            return
        more = self.count - len(self._faults)
        faults = "1 fault" if self.count == 1 else f"{self.count} faults"
        shown = f", the first {len(self._faults)} of them here and {more} more" if more else ""
        raise DatasetError(f"{self.path}: {faults}{shown}; mend the file, nothing of it was used", self._faults)
