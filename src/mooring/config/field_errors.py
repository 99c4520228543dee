"""An error of one field of a configuration.

Users want to see all errors of a file at once, so validation collects ``FieldError`` values; only
``load`` raises them as ``ConfigErrors``, since only it has the text and its lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mooring.objects.files.documents import Path


class FieldError(NamedTuple):
    """An error of one field; ``value`` is its value, None if it has none."""

    path: Path
    problem: str
    value: Any = None
    suggestion: str | None = None
