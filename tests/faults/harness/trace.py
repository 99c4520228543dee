"""Event trace of a run, with a SHA-256 digest."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Violation(NamedTuple):
    """A violated invariant: time in virtual seconds, name of the rule, and message."""

    at_s: float
    rule: str
    message: str


class InvariantBroken(AssertionError):
    """Raised for the first violated invariant of a run."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.rule} at {violation.at_s:.3f} s: {violation.message}")
        self.violation = violation


class Trace:
    """Lines of text and their SHA-256; equal digests mean equal runs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._hash = hashlib.sha256()

    def __len__(self) -> int:
        return len(self.lines)

    def add(self, at_s: float, text: str) -> None:
        """Appends a line with its virtual time."""
        line = f"{at_s:.6f} {text}"
        self.lines.append(line)
        self._hash.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        """The digest of all lines, in hexadecimal."""
        return self._hash.hexdigest()
