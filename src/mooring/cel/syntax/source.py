"""The text of an expression with its positions, and the list of problems of a compilation.

Source: cel-go v0.26.0, common/source.go, common/error.go, common/errors.go.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

#: Further problems are counted, not listed.
_MAX_LISTED: Final = 100

#: Longer lines are not repeated below a problem; bytes of UTF-8.
_MAX_LINE_BYTES: Final = 16_384


class Location(NamedTuple):
    """A position: ``line`` from 1, ``column`` from 0, both counted in code points."""

    line: int
    column: int


#: For problems of the expression as a whole.
NO_LOCATION: Final = Location(-1, -1)


class Source:
    """The text of an expression and the offsets of its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        for offset, character in enumerate(text):
            if character == "\n":
                self._starts.append(offset + 1)

    def location(self, offset: int) -> Location:
        """Returns line and column of an offset in code points."""
        line = bisect_right(self._starts, offset)
        if line == 0:
            return Location(1, offset)
        return Location(line, offset - self._starts[line - 1])

    def line(self, number: int) -> str | None:
        """Returns the text of a line (from 1), or None where there is none."""
        if not self.text or not 1 <= number <= len(self._starts):
            return None
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end]


class Problems:
    """The problems that a compilation reports, in upstream's form.

    Example:
        >>> problems = Problems(Source("a +"))
        >>> problems.add(Location(1, 2), "Syntax error")
        >>> print(problems)
        ERROR: <input>:1:3: Syntax error
         | a +
         | ..^
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._entries: list[tuple[Location, str]] = []
        self._n_reported = 0

    def __bool__(self) -> bool:
        return self._n_reported > 0

    def add(self, location: Location, message: str) -> None:
        """Appends a problem; those beyond the first 100 are counted only."""
        self._n_reported += 1
        if self._n_reported <= _MAX_LISTED:
            self._entries.append((location, message))

    def __str__(self) -> str:
        lines = [
            self._display(location, message)
            for location, message in sorted(self._entries, key=lambda entry: entry[0])
        ]
        if self._n_reported > _MAX_LISTED:
            lines.append(f"{self._n_reported - _MAX_LISTED} more errors were truncated")
        return "\n".join(lines)

    def _display(self, location: Location, message: str) -> str:
        head = f"ERROR: <input>:{location.line}:{location.column + 1}: {message}"
        line = self._source.line(location.line)
        if line is None or len(line.encode()) > _MAX_LINE_BYTES:
            return head
        shown_line = line.replace("\t", " ")
        before = shown_line[: max(location.column, 0)]
        dots = "".join("." if character.isascii() else "\uff0e" for character in before)
        at = shown_line[location.column : location.column + 1] if location.column >= 0 else ""
        caret = "^" if not at or at.isascii() else "\uff3e"
        return f"{head}\n | {shown_line}\n | {dots}{caret}"
