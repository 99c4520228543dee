"""Event trace of a run, with a SHA-256 digest."""

from __future__ import annotations

import hashlib
import re
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

    def story(self, pod: str = "") -> list[str]:
        """Returns the lines about one pod, faults and violations included; "" = all lines."""
        if not pod:
            return self.lines
        about = re.compile(rf"\b{re.escape(pod)}\b")
        kinds = ("fault", "VIOLATION", "heal")
        return [line for line in self.lines if about.search(line) or line.split(" ", 2)[1] in kinds]

    @property
    def digest(self) -> str:
        """The digest of all lines, in hexadecimal."""
        return self._hash.hexdigest()
