"""What happened in a run, line by line, and one number that stands for all of it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Violation(NamedTuple):
    """An invariant does not hold: when (virtual seconds), which one, and what was seen."""

    at_s: float
    rule: str
    told: str


class InvariantBroken(AssertionError):
    """A run in which an invariant did not hold; ``violation`` says which."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.rule} at {violation.at_s:.3f} s: {violation.told}")
        self.violation = violation


class Trace:
    """Lines, and their SHA-256: two runs with the same digest did the same."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._hash = hashlib.sha256()

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, at_s: float, text: str) -> None:
        """Something happened at this virtual second."""
        line = f"{at_s:.6f} {text}"
        self.lines.append(line)
        self._hash.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        """Of all lines so far, in hexadecimal."""
        return self._hash.hexdigest()
